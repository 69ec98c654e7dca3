//! Clients that are broken or mean harm, against the real binary: memory stays bounded, others are served meanwhile,
//! and the log says why each was refused.

#[path = "hostile/beside.rs"]
mod beside;
mod common;
#[path = "hostile/foreign.rs"]
mod foreign;
#[path = "hostile/gone.rs"]
mod gone;
#[path = "hostile/locks.rs"]
mod locks;
#[path = "hostile/long.rs"]
mod long;
#[path = "hostile/paces.rs"]
mod paces;
#[path = "hostile/pipelines.rs"]
mod pipelines;
#[cfg(feature = "postgres")]
#[path = "common/postgres.rs"]
mod postgres;
#[path = "hostile/siege.rs"]
mod siege;
#[path = "hostile/trickle.rs"]
mod trickle;
#[path = "hostile/wide.rs"]
mod wide;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::Connection;
use common::process::Forebay;
use forebay_protocol::Reply;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

const MIB: u64 = 1 << 20;

/// A server with little memory and low limits, and a well-behaved client that is served all the while.
struct Scene {
    forebay: Forebay,
    ends: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    witness: Option<JoinHandle<()>>,
    resident_before: u64,
}

impl Scene {
    fn new(arguments: &[&str]) -> Scene {
        let fixed = ["--memory", "8MiB", "--log-level", "info"];
        let forebay = Forebay::start("memory", &[&fixed, arguments].concat());
        let (ends, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (address, end, count) = (forebay.address, ends.clone(), served.clone());
        let mut connection = Connection::new(address);
        let witness = std::thread::spawn(move || {
            for number in 0..usize::MAX {
                let number = number.to_string();
                assert_eq!(connection.call(&["SET", "witness", &number]), Reply::Simple("OK".into()));
                assert_eq!(connection.call(&["GET", "witness"]), Reply::bulk(number.as_bytes()));
                count.fetch_add(1, Ordering::Relaxed);
                if end.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let resident_before = forebay.resident_bytes();
        Scene { forebay, ends, served, witness: Some(witness), resident_before }
    }

    fn address(&self) -> SocketAddr {
        self.forebay.address
    }

    fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// Fails if the server has grown by more than `limit` bytes since the start.
    fn grown_at_most(&self, limit: u64, what: &str) {
        let grown = self.forebay.resident_bytes().saturating_sub(self.resident_before);
        assert!(grown <= limit, "{what}: {} MiB more memory", grown / MIB);
    }

    /// Others must have been served since `before`, the log must tell `why`, and a new client must be welcome.
    fn others_are_served(&self, why: &str) {
        let before = self.served.load(Ordering::Relaxed);
        until("the other client is served", || self.served.load(Ordering::Relaxed) > before + 3);
        assert_eq!(Connection::new(self.address()).call(&["PING"]), Reply::Simple("PONG".into()));
        if !why.is_empty() {
            until(&format!("the log says {why}"), || self.forebay.log().contains(why));
        }
        assert!(!self.forebay.log().contains("a bug"), "{}", self.forebay.log());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let witness = self.witness.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(witness, Some(Ok(()))), "the other client was not served");
        }
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "it never happens that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the server says until it closes the connection.
fn to_the_end(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => said.extend_from_slice(&bytes[..count]),
            // A child of the test has ended.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // It had more to read when it closed.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection is not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn bulk_request(args: &[&str]) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    forebay_protocol::encode_command(&mut out, args);
    out.to_vec()
}

#[test]
fn what_is_too_large_is_refused() {
    let scene = Scene::new(&["--request-bytes-max", "8MiB"]);
    for (request, answer) in [
        (&b"*1000000000\r\n"[..], "Protocol error: invalid multibulk length"),
        (b"*-99999999999999999999\r\n", "Protocol error: invalid multibulk length"),
        (b"*2\r\n$3\r\nGET\r\n$999999999999\r\n", "Protocol error: invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$-5\r\n", "Protocol error: invalid bulk length"),
        (b"*1\r\n:5\r\n", "Protocol error: expected '$', got ':'"),
        (b"SET \"k v\r\n", "Protocol error: unbalanced quotes"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n", "LIMIT request_bytes_max"),
    ] {
        let mut stream = scene.connect();
        stream.write_all(request).expect("it is read");
        let said = to_the_end(&mut stream);
        assert!(said.starts_with('-') && said.contains(answer), "{request:?}: {said:?}");
    }
    let mut endless = scene.connect();
    let line = vec![b'x'; 64 << 10];
    while endless.write_all(&line).is_ok() {}
    let mut said = String::new();
    let _ = endless.read_to_string(&mut said);
    scene.grown_at_most(24 * MIB, "an endless line");
    let mut many = scene.connect();
    let mut sent = bulk_request(&["DEL"]);
    sent[1] = b'9';
    sent.splice(1..1, *b"99999");
    while many.write_all(&sent).is_ok() {
        sent = b"$4000\r\n".iter().copied().chain([b'k'; 4000]).chain(*b"\r\n").collect();
    }
    scene.grown_at_most(32 * MIB, "an endless array");
    scene.others_are_served("a client broke the protocol");
    scene.others_are_served("request_bytes_max");
}

#[test]
fn half_a_request_and_half_a_connection() {
    let scene = Scene::new(&[]);
    let whole = [bulk_request(&["SET", "half", "value"]), bulk_request(&["GET", "half"])].concat();
    for cut in 0..=whole.len() {
        let mut stream = scene.connect();
        stream.write_all(&whole[..cut]).expect("it is read");
        stream.shutdown(Shutdown::Write).expect("one half can be closed");
        let expected = match cut {
            _ if cut == whole.len() => "+OK\r\n$5\r\nvalue\r\n",
            _ if cut >= bulk_request(&["SET", "half", "value"]).len() => "+OK\r\n",
            _ => "",
        };
        assert_eq!(to_the_end(&mut stream), expected, "cut at {cut}");
    }
    scene.others_are_served("");
}

/// A socket that is closed over what nobody read is reset: its client would see an error instead of the end.
#[test]
fn more_than_is_read_before_the_end() {
    let scene = Scene::new(&[]);
    for _ in 0..5 {
        let mut stream = scene.connect();
        let mut requests = b"QUIT\r\n".to_vec();
        requests.resize(4 << 20, b' ');
        stream.write_all(&requests).expect("all is taken, if not served");
        stream.shutdown(Shutdown::Write).expect("one half can be closed");
        let mut replies = Vec::new();
        stream.read_to_end(&mut replies).expect("an end, not a reset");
        assert_eq!(replies, b"+OK\r\n");
    }
    scene.others_are_served("");
}

#[test]
fn bytes_that_drip() {
    let scene = Scene::new(&[]);
    let request = bulk_request(&["SET", "drip", "value"]);
    let mut streams: Vec<TcpStream> = (0..300).map(|_| scene.connect()).collect();
    for byte in request.chunks(1) {
        for stream in &mut streams {
            stream.write_all(byte).expect("it is read");
        }
        scene.others_are_served("");
    }
    for stream in &mut streams {
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+OK\r\n");
    }
    scene.grown_at_most(32 * MIB, "300 slow clients");
}

#[test]
fn more_clients_than_there_may_be() {
    // Their ends are open files of this process; some machines allow 1,024.
    let files = rlimit::increase_nofile_limit(4_096).expect("the limit of open files can be asked for") as usize;
    let clients_max = files.saturating_sub(500).min(2_000);
    let scene = Scene::new(&["--clients-max", &clients_max.to_string()]);
    let mut streams = Vec::new();
    let (mut refused, mut served) = (0, 0);
    for _ in 0..clients_max + 500 {
        let mut stream = scene.connect();
        // One that is refused may be closed before it has spoken.
        let _ = stream.write_all(b"PING\r\n");
        let mut reply = [0; 64];
        match stream.read(&mut reply) {
            Ok(count) if reply[..count].starts_with(b"+PONG") => {
                served += 1;
                streams.push(stream);
            }
            Ok(count) => {
                let text = String::from_utf8_lossy(&reply[..count]);
                assert!(count == 0 || text.contains("-ERR max number of clients reached"), "{text}");
                refused += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                refused += 1;
            }
        }
    }
    // The witness is one of them.
    assert_eq!((served, refused), (clients_max - 1, 501));
    scene.grown_at_most(160 * MIB, "2,000 clients");
    drop(streams);
    until("clients that left make room", || {
        let mut stream = scene.connect();
        let _ = stream.write_all(b"PING\r\n");
        matches!(stream.read(&mut [0; 7]), Ok(7))
    });
    scene.others_are_served("clients_max");
}

#[test]
fn replies_that_nobody_reads() {
    let scene = Scene::new(&["--client-reply-bytes-max", "8MiB", "--replies-bytes-max", "32MiB"]);
    let value = "v".repeat(1 << 20);
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SET", "large", &value]), Reply::Simple("OK".into()));
    let get = bulk_request(&["GET", "large"]);
    let names: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("large", 2_000)).collect();
    let multi = [bulk_request(&["MULTI"]), get.repeat(60), bulk_request(&["EXEC"])].concat();
    let txn = [bulk_request(&["TXN", "BEGIN"]), get.repeat(60)].concat();
    for (what, request) in
        [("a pipeline", get.repeat(60)), ("one MGET", bulk_request(&names)), ("one EXEC", multi), ("one TXN", txn)]
    {
        let mut stream = scene.connect();
        let _ = stream.write_all(&request);
        std::thread::sleep(Duration::from_millis(100));
        scene.grown_at_most(64 * MIB, what);
        stream.shutdown(Shutdown::Write).expect("one half can be closed");
        // All is answered as it is read, and one reply that is too large is an error.
        let read = std::io::copy(&mut stream, &mut std::io::sink()).expect("an end");
        match what {
            "a pipeline" | "one TXN" => assert!(read > 60 * MIB, "{what}: {read} bytes were answered"),
            _ => assert!(read < 4096, "{what}: {read} bytes were answered"),
        }
        scene.grown_at_most(64 * MIB, what);
    }
    // Each within its own limit, all together past theirs.
    let streams: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = scene.connect();
            let _ = stream.write_all(&get.repeat(6));
            stream
        })
        .collect();
    scene.grown_at_most(96 * MIB, "40 clients that do not read");
    // They wait for each other, and none reads.
    scene.others_are_served("closing a client that does not read its replies in time: replies_bytes_max");
    drop(streams);
}

#[test]
fn requests_that_nobody_finishes() {
    let limits = ["--held-bytes-max", "32MiB", "--txn-bytes-max", "4MiB", "--request-bytes-max", "256MiB"];
    let scene = Scene::new(&limits);
    let part = vec![b'v'; 4 << 20];
    let announced = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n".to_vec();
    let mut streams = Vec::new();
    for _ in 0..30 {
        let mut stream = scene.connect();
        // Who is not read for so long waits for room.
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let _ = stream.write_all(&announced).and_then(|()| stream.write_all(&part));
        streams.push(stream);
    }
    scene.grown_at_most(96 * MIB, "30 unfinished requests");
    scene.others_are_served("held_bytes_max");
    drop(streams);
    let queued = [bulk_request(&["MULTI"]), bulk_request(&["SET", "k", &"v".repeat(4 << 20)])].concat();
    let streams: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut stream = scene.connect();
            let _ = stream.write_all(&queued);
            stream
        })
        .collect();
    scene.grown_at_most(96 * MIB, "30 queues of MULTI");
    drop(streams);
    let mut connection = Connection::new(scene.address());
    connection.call(&["TXN", "BEGIN"]);
    let written = (0..10).map(|number| connection.call(&["SET", &format!("k{number}"), &"v".repeat(1 << 20)]));
    let refused = written.filter(|reply| format!("{reply:?}").contains("LIMIT txn_bytes_max")).count();
    assert_eq!(refused, 7, "a transaction of 10 MiB");
    assert!(matches!(connection.call(&["TXN", "COMMIT"]), Reply::Simple(_)));
    until("what was held is given back", || {
        Connection::new(scene.address()).call(&["SET", "a", &"v".repeat(1 << 20)]) == Reply::Simple("OK".into())
    });
    scene.others_are_served("");
}

#[test]
fn large_requests_leave_no_memory_behind() {
    let scene = Scene::new(&[]);
    let text = "e".repeat(15 << 20);
    let idle: Vec<Connection> = (0..12)
        .map(|_| {
            let mut connection = Connection::new(scene.address());
            assert!(connection.call(&["ECHO", &text]) == Reply::bulk(text.as_bytes()));
            connection
        })
        .collect();
    until("the allocator gives back what was freed", || {
        scene.forebay.resident_bytes().saturating_sub(scene.resident_before) < 64 * MIB
    });
    drop(idle);
    scene.others_are_served("");
}

#[test]
fn transactions_that_are_left_open() {
    let scene = Scene::new(&["--txn-idle-ms-max", "400"]);
    let mut holders: Vec<Connection> = (0..20)
        .map(|number| {
            let mut holder = Connection::new(scene.address());
            holder.call(&["TXN", "BEGIN"]);
            assert_eq!(
                holder.call(&["SET", &format!("held:{number}"), "by a transaction"]),
                Reply::Simple("OK".into())
            );
            holder
        })
        .collect();
    let mut connection = Connection::new(scene.address());
    for number in 0..20 {
        let reply = connection.call(&["SET", &format!("held:{number}"), "by another"]);
        assert_eq!(reply, Reply::Simple("OK".into()), "the lock goes on after the idle limit");
    }
    for (number, holder) in holders.iter_mut().enumerate() {
        let reply = format!("{:?}", holder.call(&["TXN", "COMMIT"]));
        let whys = ["TXABORTED timeout: txn_idle_ms_max", "TXABORTED wounded: SET held:"];
        assert!(whys.iter().any(|why| reply.contains(why)), "{reply}");
        assert_eq!(connection.call(&["GET", &format!("held:{number}")]), Reply::bulk(&b"by another"[..]));
    }
    scene.others_are_served("");
}

#[test]
fn clients_that_vanish_in_the_middle() {
    let scene = Scene::new(&[]);
    let exec = ["MULTI", "INCR a", "INCR b", "EXEC"];
    let txn = ["TXN BEGIN", "INCR a", "INCR b", "TXN COMMIT"];
    for round in 0..300 {
        let commands = if round % 2 == 0 { exec } else { txn };
        let words = |command: &str| bulk_request(&command.split(' ').collect::<Vec<_>>());
        let whole: Vec<u8> = commands.iter().flat_map(|command| words(command)).collect();
        let mut stream = scene.connect();
        let _ = stream.write_all(&whole[..whole.len() - (round % 7) * (round % 3)]);
        let _ = stream.shutdown(Shutdown::Both);
    }
    let mut connection = Connection::new(scene.address());
    // Whatever of it is still under way.
    for _ in 0..200 {
        let Reply::Array(both) = connection.call(&["MGET", "a", "b"]) else { panic!("MGET answers a list") };
        assert_eq!(both[0], both[1], "half a transaction was applied");
    }
    // A lock that stays behind would make this fail.
    let a = connection.call(&["INCR", "a"]);
    assert!(matches!(a, Reply::Integer(count) if count > 1), "{a:?}");
    scene.others_are_served("");
}

#[test]
fn a_pipeline_of_a_hundred_thousand() {
    let scene = Scene::new(&[]);
    let count = 100_000;
    let mut stream = scene.connect();
    // All is written before anything is read, as many clients do.
    stream.write_all(&bulk_request(&["INCR", "pipelined"]).repeat(count)).expect("the server goes on reading");
    scene.grown_at_most(48 * MIB, "a deep pipeline");
    stream.shutdown(Shutdown::Write).expect("one half can be closed");
    let said = to_the_end(&mut stream);
    let numbers = said.split_terminator("\r\n").map(|line| line[1..].parse::<usize>().expect("a number"));
    assert!(numbers.eq(1..=count), "a reply is missing or out of order");
    scene.others_are_served("");
}
