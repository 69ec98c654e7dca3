//! Connections whose wire does as it is told.

#[cfg(feature = "lua")]
mod evals;
mod scripts;

use std::task::{Context, Poll};

use forebay::cache::CacheOptions;
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, TxnLimits};
use futures_util::FutureExt;

use super::*;
use crate::ServerOptions;
use crate::access::user::DEFAULT;

/// Brings what is in `sent`, as much at a time as there is room for, and takes nothing. One that `goes` is closed after
/// that, and took all.
struct Deaf {
    sent: BytesMut,
    goes: bool,
    took: Vec<u8>,
}

impl Wire for Deaf {
    async fn ready(&mut self, input: &mut BytesMut, most: usize, _writing: bool) -> io::Result<Ready> {
        match self.try_read(input, most) {
            Ok(count) => Ok(Ready::Read(count)),
            Err(_) => std::future::pending().await,
        }
    }

    fn try_read(&mut self, input: &mut BytesMut, most: usize) -> io::Result<usize> {
        let count = (input.capacity() - input.len()).min(self.sent.len()).min(most);
        input.extend_from_slice(&self.sent.split_to(count));
        if count == 0 && !self.goes { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn arrived(&self) -> usize {
        0
    }

    fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        if !self.goes {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.took.extend_from_slice(out);
        Ok(out.len())
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sent.is_empty() && !self.goes { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    async fn writable(&self) -> io::Result<()> {
        std::future::pending().await
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) {}
}

fn shared(change: impl FnOnce(&mut ServerOptions)) -> Arc<Shared> {
    shared_with(TxnLimits::default(), change)
}

fn shared_with(limits: TxnLimits, change: impl FnOnce(&mut ServerOptions)) -> Arc<Shared> {
    let policy = choose("s3-fifo").unwrap();
    let cache =
        CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: policy.policy, policy_values: policy.values };
    let runtime = runtime::tokio::runtime(tokio::runtime::Handle::current());
    let store = Arc::new(Memory::new());
    let engine = Engine::new(EngineOptions { limits, ..EngineOptions::new(runtime, store, cache) });
    let mut options = ServerOptions::new(engine);
    change(&mut options);
    Arc::new(Shared::new(options))
}

fn connection(shared: &Arc<Shared>, sent: &[u8]) -> Connection<Deaf> {
    let client = shared.clients.add("127.0.0.1:1".into(), String::new(), 0, 1000).unwrap();
    Connection::new(Deaf { sent: sent.into(), goes: false, took: Vec::new() }, shared.clone(), client)
}

/// Serves until there is nothing to do but to wait.
async fn goes_on(connection: &mut Connection<Deaf>) {
    let turns = async {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        ended = connection.run() => panic!("the connection has ended: {ended:?}"),
        () = turns => {}
    }
}

async fn protected() -> Arc<Shared> {
    protected_with(|_| {}).await
}

async fn protected_with(change: impl FnOnce(&mut ServerOptions)) -> Arc<Shared> {
    let shared = shared(change);
    shared.access.set_user(shared.engine.runtime(), DEFAULT, &[b"resetpass"]).await.unwrap();
    shared
}

#[tokio::test]
async fn a_stranger_may_not_pile_up_replies() {
    let shared = protected().await;
    // Each is answered with some 190 bytes.
    let error = connection(&shared, &b"HELLO\r\n".repeat(1000)).run().await.unwrap_err();
    assert_eq!(error.to_string(), "stranger_reply_bytes_max");
    let mut few = connection(&shared, &b"HELLO\r\n".repeat(50));
    goes_on(&mut few).await;
    assert!(few.session.replies.ready_mut().len() > 5_000);
}

/// Who has little waiting is not closed for what others have.
#[tokio::test]
async fn past_the_limit_of_all_those_are_closed_that_take_more_than_their_share() {
    let shared = shared(|options| (options.limits.replies_bytes_max, options.limits.clients_max) = (100_000, 100));
    assert_eq!(shared.limits.replies_bytes_share(), 1000);
    shared.figures.reply_bytes.store(200_000, Ordering::Relaxed);
    let echo = |length: usize| format!("ECHO {}\r\n", "x".repeat(length)).into_bytes();
    let error = connection(&shared, &echo(1001)).run().await.unwrap_err();
    assert_eq!(error.to_string(), "replies_bytes_max");
    let mut small = connection(&shared, &echo(900));
    goes_on(&mut small).await;
    assert!(small.session.replies.ready_mut().len() > 900);
}

#[tokio::test]
async fn what_waits_behind_a_request_that_takes_long_is_counted() {
    let shared = shared(|_| {});
    let sent = [b"DEBUG SLEEP 60\r\n".as_slice(), &b"PING\r\n".repeat(100_000)].concat();
    goes_on(&mut connection(&shared, &sent)).await;
    // No more than that is read before it has room.
    assert!(shared.figures.held_bytes.load(Ordering::Relaxed) > 32_000);
}

fn watches(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| format!("WATCH {number:0>30000}\r\n").into_bytes()).collect()
}

/// Few keys may have long names.
#[tokio::test]
async fn the_names_of_watched_keys_are_counted() {
    let shared = shared(|options| options.limits.held_bytes_max = 1 << 20);
    let mut few = connection(&shared, &watches(30));
    goes_on(&mut few).await;
    let held = few.session.held_bytes();
    assert!((900_000..1 << 20).contains(&held), "{held} bytes of 30 names");
    assert!(shared.figures.held_bytes.load(Ordering::Relaxed) >= held);
    // Another client's are the ones too many.
    let mut many = connection(&shared, &watches(20));
    many.run().now_or_never();
    assert!(many.session.multi.watched.is_empty(), "what is too much is not watched");
    assert!(!many.session.closing, "its client goes on");
    assert!(String::from_utf8_lossy(many.session.replies.ready_mut()).ends_with("-LIMIT held_bytes_max 1048576\r\n"));
}

#[tokio::test]
async fn nothing_is_read_ahead_of_a_stranger() {
    let shared = protected().await;
    let sent = [b"AUTH wrong\r\n".as_slice(), &b"PING\r\n".repeat(100_000)].concat();
    let mut stranger = connection(&shared, &sent);
    goes_on(&mut stranger).await;
    assert!(stranger.input.capacity() <= 64 << 10, "{} bytes wait", stranger.input.len());
}

#[tokio::test]
async fn a_stranger_that_never_stops_sending_is_sent_away_in_time() {
    let shared = protected_with(|options| options.limits.stranger_ms_max = 0).await;
    let mut stranger = connection(&shared, &b"HELLO\r\n".repeat(50));
    let error = stranger.run().await.unwrap_err();
    assert_eq!(error.to_string(), "stranger_ms_max");
    let waiting = stranger.session.replies.ready_mut().len();
    assert!(waiting < 1000, "{waiting} bytes of replies to requests after the end of its time");
}

/// The byte counts of strangers are their own: what others are refused for does not grow, and the largest goes.
#[tokio::test]
async fn strangers_have_a_pool_of_their_own() {
    let shared = protected_with(|options| {
        options.limits.stranger_bytes_max = 40_000;
        options.limits.held_bytes_max = 1;
    })
    .await;
    let part = |length: usize| [b"*3\r\n$4\r\nAUTH\r\n$9000\r\n".as_slice(), &b"x".repeat(length)].concat();
    let mut large = connection(&shared, &part(8_900));
    goes_on(&mut large).await;
    let mut small: Vec<_> = (0..8).map(|_| connection(&shared, &part(3_000))).collect();
    for stranger in &mut small {
        tokio::select! {
            biased;
            _ = stranger.run() => {}
            () = async { for _ in 0..1000 { tokio::task::yield_now().await } } => {}
        }
    }
    assert!(large.client.is_killed(), "the largest goes first");
    assert!((20_000..=40_000).contains(&shared.strangers.bytes()), "{} bytes", shared.strangers.bytes());
    assert_eq!(shared.figures.held_bytes.load(Ordering::Relaxed), 0);
    for stranger in &mut small {
        stranger.forget_stranger();
    }
    large.forget_stranger();
    assert_eq!(shared.strangers.bytes(), 0);
}

/// Brings what is in `sent`, and takes a little at a time.
struct Sips {
    sent: BytesMut,
    taken: usize,
    /// The most that waited.
    most: usize,
    blocked: bool,
    /// Bytes that it takes at a time.
    sip: usize,
}

impl Sips {
    fn new(sent: &[u8], sip: usize) -> Sips {
        Sips { sent: sent.into(), taken: 0, most: 0, blocked: false, sip }
    }
}

impl Wire for Sips {
    async fn ready(&mut self, input: &mut BytesMut, most: usize, writing: bool) -> io::Result<Ready> {
        match self.try_read(input, most) {
            Ok(count) => Ok(Ready::Read(count)),
            Err(_) if writing => {
                tokio::task::yield_now().await;
                Ok(Ready::Write)
            }
            Err(_) => std::future::pending().await,
        }
    }

    fn try_read(&mut self, input: &mut BytesMut, most: usize) -> io::Result<usize> {
        let count = (input.capacity() - input.len()).min(self.sent.len()).min(most);
        input.extend_from_slice(&self.sent.split_to(count));
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    fn arrived(&self) -> usize {
        self.sent.len()
    }

    fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        self.most = self.most.max(out.len());
        self.blocked = !self.blocked;
        if self.blocked {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = out.len().min(self.sip);
        self.taken += count;
        Ok(count)
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.sent.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        context.waker().wake_by_ref();
        Poll::Pending
    }

    async fn writable(&self) -> io::Result<()> {
        tokio::task::yield_now().await;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) {}
}

/// A pipeline whose replies are many times what may wait is served as its client reads, one reply that is too large is
/// an error, and nothing stays counted.
#[tokio::test]
async fn a_client_that_reads_slowly_is_waited_for() {
    let shared = shared(|options| options.limits.client_reply_bytes_max = 20_000);
    let echo = |length: usize| format!("ECHO {}\r\n", "x".repeat(length)).into_bytes();
    let sent = [echo(1_000).repeat(500), echo(30_000), b"QUIT\r\n".to_vec()].concat();
    let client = shared.clients.add("127.0.0.1:1".into(), String::new(), 0, 1000).unwrap();
    let wire = Sips::new(&sent, 700);
    let mut connection = Connection::new(wire, shared.clone(), client);
    let ended = tokio::time::timeout(Duration::from_secs(60), connection.run()).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    let last = b"-LIMIT client_reply_bytes_max 20000\r\n+OK\r\n".len();
    assert_eq!(connection.wire.taken, 500 * (b"$1000\r\n\r\n".len() + 1_000) + last);
    assert!(connection.wire.most <= 20_000, "{} bytes waited", connection.wire.most);
    drop(connection);
    assert_eq!(shared.figures.reply_bytes.load(Ordering::Relaxed), 0);
}

/// A client that reads none of its replies is idle while its transaction waits for that.
#[tokio::test]
async fn a_transaction_whose_client_reads_nothing_is_idle() {
    let open_after = |time: Duration| async move {
        let limits = TxnLimits { txn_idle_ms_max: 50, ..TxnLimits::default() };
        let shared = shared_with(limits, |options| options.limits.client_reply_bytes_max = 20_000);
        let echo = format!("ECHO {}\r\n", "x".repeat(1_000)).repeat(100);
        let mut client = connection(&shared, format!("TXN BEGIN\r\nSET k v\r\n{echo}").as_bytes());
        let open = || shared.figures.transactions_open.load(Ordering::Relaxed);
        let ends = async {
            goes_on(&mut connection(&shared, b"PING\r\n")).await;
            let until = tokio::time::Instant::now() + time;
            while open() > 0 && tokio::time::Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! { biased; ended = client.run() => panic!("{ended:?}"), () = ends => {} }
        open()
    };
    assert_eq!(open_after(Duration::from_secs(60)).await, 0);
    let _fault = mutation::put_back(Some(Fault::UnreadIsBusy));
    assert_eq!(open_after(Duration::from_millis(500)).await, 1, "the fault is found");
}

/// Replies that need no room of their own are counted as they are made: one batch of a client has many.
#[tokio::test]
async fn pipelines_of_ordinary_replies_stay_within_the_room() {
    let shared = shared(|options| {
        (options.limits.client_reply_bytes_max, options.limits.replies_bytes_max) = (4 << 20, 4 << 20);
    });
    let echo = format!("ECHO {}\r\n", "x".repeat(60_000)).into_bytes();
    let mut clients: Vec<_> = (0..10).map(|_| connection(&shared, &echo.repeat(128))).collect();
    futures_util::future::join_all(clients.iter_mut().map(goes_on)).await;
    let waits: usize = clients.iter().map(|client| client.session.replies.bytes()).sum();
    assert!(waits > 2 << 20 && waits < 6 << 20, "{waits} bytes wait");
}

/// What of a pipeline is left for the next turn is served then, and does not wait for more to come.
#[tokio::test]
async fn wide_pipelines_are_served_to_their_end() {
    let wide = format!("EXISTS{}\r\n", " key".repeat(300)).into_bytes();
    let mut connection = connection(&shared(|_| {}), &wide.repeat(20));
    goes_on(&mut connection).await;
    assert_eq!(connection.session.replies.bytes(), b":0\r\n".len() * 20);
}

/// A wide request waits for room no longer than its client is there.
#[tokio::test]
async fn a_wait_for_room_ends_with_the_client() {
    let ends = |taken: usize| async move {
        let shared = shared(|_| {});
        let _taken = (taken > 0).then(|| shared.room.underway.try_take(taken, taken));
        let mut connection = connection(&shared, format!("MSET{}\r\n", " key value".repeat(100)).as_bytes());
        connection.wire.goes = true;
        let turns = async {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! {
            biased;
            _ = connection.run() => true,
            () = turns => false,
        };
        ended
    };
    assert!(ends(0).await && ends(64 << 20).await);
    let _fault = mutation::put_back(Some(Fault::RoomOutlivesClient));
    assert!(ends(0).await && !ends(64 << 20).await, "the fault is found");
}

/// Unfinished requests of many clients, with the places of their arguments, come to little without room.
#[tokio::test]
async fn what_many_take_without_room_is_bounded() {
    let taken = || async {
        let shared = shared(|options| options.limits.held_bytes_max = 4 << 20);
        let unfinished = [b"*60001\r\n$4\r\nMSET\r\n".to_vec(), b"$13\r\nkkkkkkkkkkkkk\r\n".repeat(20_000)].concat();
        let mut clients: Vec<_> = (0..300).map(|_| connection(&shared, &unfinished)).collect();
        for client in &mut clients {
            goes_on(client).await;
        }
        clients.iter().map(Connection::taken).sum::<usize>()
    };
    let bounded = taken().await;
    assert!(bounded < 11 << 20, "{bounded} bytes");
    let _fault = mutation::put_back(Some(Fault::ManyWithoutRoom));
    let found = taken().await;
    assert!(found > 13 << 20, "the fault is found: {found} bytes");
}

/// More is read behind an argument that is not complete, and not behind complete requests.
#[tokio::test]
async fn complete_requests_are_decoded_before_more_is_read() {
    let requests = |count: usize| BytesMut::from(&b"PING\r\n".repeat(count)[..]);
    let shared = shared(|options| options.limits.held_bytes_max = 4 << 20);
    let mut decoder = Decoder::new(Default::default());
    assert!(!is_read_on(&decoder, &requests(10_000), &shared));
    {
        let _fault = mutation::put_back(Some(Fault::ReadBeforeDecoded));
        assert!(is_read_on(&decoder, &requests(10_000), &shared), "the fault is found");
    }
    // 20 KB, beside few and beside many.
    assert!(is_read_on(&decoder, &requests(3_400), &shared));
    let _many: Vec<_> = (0..300).map(|_| connection(&shared, b"")).collect();
    assert!(!is_read_on(&decoder, &requests(3_400), &shared));
    {
        let _fault = mutation::put_back(Some(Fault::ManyReadAhead));
        assert!(is_read_on(&decoder, &requests(3_400), &shared), "the fault is found");
    }
    let announced = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n";
    let mut input = BytesMut::from(&[&announced[..], &[b'x'; 50_000]].concat()[..]);
    assert!(matches!(decoder.decode(&mut input), Ok(None)));
    assert!(is_read_on(&decoder, &input, &shared), "the argument at hand is read on");
}

/// A turn is shorter beside many clients, so that the turns of all of them stay short.
#[test]
fn the_turns_of_many_clients_are_short() {
    let long = || [1, 64, 256, 1_000, 10_000].map(|clients| turn(clients).0 * clients).into_iter().max();
    assert_eq!((turn(1), turn(64)), ((1024, 512 << 10), (1024, 512 << 10)));
    assert!(turn(256).0 == 512 && turn(1_000).0 == 131 && turn(10_000) == (128, 32 << 10));
    assert!(long() <= Some(128 * 10_000));
    let _fault = mutation::put_back(Some(Fault::ManyLongTurns));
    assert!(long() > Some(8 << 20), "the fault is found");
}
