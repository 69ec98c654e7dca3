//! A network between two programs that can be made bad. It delays, holds requests and delivers them late, loses or
//! repeats replies, cuts connections, lets none through.
//!
//! It knows nothing of what passes, but for one thing: to repeat replies of PostgreSQL it has to know where one ends.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What happens to bytes on their way to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Requests {
    #[default]
    Pass,
    /// They wait, those of connections that come later too.
    Hold,
    /// Those of the next connection that sends something wait, then only those of this one.
    HoldNext,
    HoldOne(u64),
}

/// What happens to bytes on their way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Replies {
    #[default]
    Pass,
    Drop,
    /// All but those inside a transaction of PostgreSQL's that was begun by a statement, until it is committed.
    DropEnds,
    Repeat,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    requests: Requests,
    replies: Replies,
    /// Before each piece of a reply.
    delay: Duration,
    /// What all requests together take, bytes a second; 0: as much as comes.
    bandwidth: u64,
    /// No connection is let through.
    closed: bool,
    /// Counts releases: what is held is delivered at the next.
    releases: u64,
}

struct Shared {
    target: Mutex<SocketAddr>,
    /// What passes is PostgreSQL's protocol.
    postgres: bool,
    rules: Mutex<Rules>,
    /// When the network has room for the next request.
    line: Mutex<Instant>,
    changed: Condvar,
    ended: AtomicBool,
    /// Both ends of each connection.
    connections: Mutex<Vec<[TcpStream; 2]>>,
    /// Connections so far, pieces of requests that were held, of replies that were dropped, and replies that were
    /// repeated.
    accepted: AtomicU64,
    held: AtomicU64,
    dropped: AtomicU64,
    repeated: AtomicU64,
}

/// The network in front of one server; it ends with this value.
pub struct Proxy {
    /// What to connect to in the server's place.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A good network to a PostgreSQL at `target`.
    pub fn to_postgres(target: SocketAddr) -> Proxy {
        Proxy::between(target, true)
    }

    /// A good network to `target`.
    pub fn to(target: SocketAddr) -> Proxy {
        Proxy::between(target, false)
    }

    fn between(target: SocketAddr, postgres: bool) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            postgres,
            rules: Mutex::default(),
            line: Mutex::new(Instant::now()),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
            connections: Mutex::default(),
            accepted: AtomicU64::new(0),
            held: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accepting.accept(&listener));
        Proxy { address, shared }
    }

    /// New connections are led to `target`: the server was started again.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// All is well from now on, and what was held is delivered.
    pub fn pass(&self) {
        self.change(|rules| {
            let releases = rules.releases + 1;
            *rules = Rules { releases, ..Rules::default() };
        });
    }

    /// Requests wait until [`Proxy::pass`] or [`Proxy::release`], and are delivered then even if who sent them has hung
    /// up meanwhile.
    pub fn hold(&self) {
        self.change(|rules| rules.requests = Requests::Hold);
    }

    /// Likewise for one connection: the next that sends something.
    pub fn hold_next(&self) {
        self.change(|rules| rules.requests = Requests::HoldNext);
    }

    /// What was held is delivered; what comes later passes.
    pub fn release(&self) {
        self.change(|rules| {
            rules.requests = Requests::Pass;
            rules.releases += 1;
        });
    }

    /// Replies get lost, and all that would follow on their connections.
    pub fn drop_replies(&self) {
        self.change(|rules| rules.replies = Replies::Drop);
    }

    /// Of PostgreSQL those replies get lost that say how a transaction ended; what goes before passes.
    pub fn drop_ends(&self) {
        self.change(|rules| rules.replies = Replies::DropEnds);
    }

    /// Replies of PostgreSQL come twice, where nothing else is waited for.
    pub fn repeat_replies(&self) {
        self.change(|rules| rules.replies = Replies::Repeat);
    }

    /// Each piece of a reply takes so much longer.
    pub fn delay(&self, delay: Duration) {
        self.change(|rules| rules.delay = delay);
    }

    /// Requests take their time: so many bytes of all of them a second.
    pub fn limit(&self, bandwidth: u64) {
        self.change(|rules| rules.bandwidth = bandwidth);
    }

    /// Ends all connections, and lets none through until [`Proxy::pass`].
    pub fn close(&self) {
        self.change(|rules| rules.closed = true);
        self.cut();
    }

    /// Ends all connections; new ones are let through.
    pub fn cut(&self) {
        for connection in self.shared.connections().drain(..) {
            connection.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
        }
    }

    /// Connections that were asked for so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Pieces of requests that were held up so far.
    pub fn held(&self) -> u64 {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Pieces of replies that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::SeqCst)
    }

    /// Replies that were repeated so far.
    pub fn repeated(&self) -> u64 {
        self.shared.repeated.load(Ordering::SeqCst)
    }

    fn change(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.shared.rules());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.pass();
        self.cut();
        // Wakes the one that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, Vec<[TcpStream; 2]>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Shared>, listener: &TcpListener) {
        for (number, client) in (1..).zip(listener.incoming()) {
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            let Ok(client) = client else { continue };
            self.accepted.fetch_add(1, Ordering::SeqCst);
            if self.rules().closed {
                continue;
            }
            let Ok(server) = TcpStream::connect(*self.target.lock().unwrap_or_else(PoisonError::into_inner)) else {
                continue;
            };
            let ends = [&client, &server].map(|end| {
                end.set_nodelay(true).expect("TCP_NODELAY");
                [(); 3].map(|()| end.try_clone().expect("a socket can be cloned"))
            });
            let [[client, from_client, to_client], [server, from_server, to_server]] = ends;
            self.connections().push([client, server]);
            let (up, down, flight) = (self.clone(), self.clone(), Arc::new(Flight::default()));
            let own = flight.clone();
            std::thread::spawn(move || up.requests(number, &own, from_client, to_server));
            std::thread::spawn(move || down.replies(&flight, from_server, to_client));
        }
    }

    /// Waits as long as the requests of connection `number` are held.
    fn wait_held(&self, number: u64) {
        let mut rules = self.rules();
        if rules.requests == Requests::HoldNext {
            rules.requests = Requests::HoldOne(number);
        }
        let held =
            |rules: &Rules| matches!(rules.requests, Requests::Hold) || rules.requests == Requests::HoldOne(number);
        if held(&rules) {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
        let began = rules.releases;
        while held(&rules) && rules.releases == began {
            rules = self.changed.wait(rules).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn requests(&self, number: u64, flight: &Flight, mut from: TcpStream, mut to: TcpStream) {
        let (mut bytes, mut begun, mut rest) = (vec![0; 1 << 16], false, Vec::new());
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            self.wait_held(number);
            if let Some(micros) = (count as u64 * 1_000_000).checked_div(self.rules().bandwidth) {
                // One after the other, in the order in which they came.
                let through = {
                    let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
                    *line = (*line).max(Instant::now()) + Duration::from_micros(micros);
                    *line
                };
                std::thread::sleep(through.saturating_duration_since(Instant::now()));
            }
            if self.postgres {
                rest.extend_from_slice(&bytes[..count]);
                flight.add(requests_in(&mut rest, &mut begun));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // A server reads what lies in its socket before it sees that nobody is there any more.
        let _ = to.shutdown(Shutdown::Write);
    }

    fn replies(&self, flight: &Flight, mut from: TcpStream, mut to: TcpStream) {
        let (mut bytes, mut cutter, mut begun, mut lost) = (vec![0; 1 << 16], Cutter::default(), false, false);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let (rules, piece) = (*self.rules(), &bytes[..count]);
            std::thread::sleep(rules.delay);
            let says = |tag: &[u8]| piece.windows(tag.len()).any(|window| window == tag);
            begun = (begun || says(b"BEGIN\0")) && !says(b"COMMIT\0");
            lost |= rules.replies == Replies::Drop || (rules.replies == Replies::DropEnds && !begun);
            // Nothing that comes later may be taken for the answer that got lost: no network does that.
            if lost {
                self.dropped.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let mut sent = piece.to_vec();
            if self.postgres {
                let replies = cutter.replies(piece);
                flight.take(replies.len() as u64);
                // A copy must not be taken for the answer to what is asked next, either.
                if rules.replies == Replies::Repeat && flight.is_none() {
                    self.repeated.fetch_add(replies.len() as u64, Ordering::SeqCst);
                    sent.extend(replies.concat());
                }
            }
            // What the server still says is read even if nobody listens: it is to end by itself.
            let _ = to.write_all(&sent);
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// Requests of one connection that have no reply yet.
#[derive(Default)]
struct Flight(AtomicU64);

impl Flight {
    fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::SeqCst);
    }

    fn take(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::SeqCst);
    }

    fn is_none(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// Takes whole messages to PostgreSQL out of `bytes`; how many of them want a reply. A message is a letter and its
/// length, which counts itself; the first of a connection has no letter.
fn requests_in(bytes: &mut Vec<u8>, begun: &mut bool) -> u64 {
    let (mut at, mut count) = (0, 0);
    loop {
        let letter = usize::from(*begun);
        let Some(head) = bytes.get(at..at + letter + 4) else { break };
        let length = u32::from_be_bytes([head[letter], head[letter + 1], head[letter + 2], head[letter + 3]]) as usize;
        if bytes.len() < at + letter + length {
            break;
        }
        // Sync and Query.
        count += u64::from(!*begun || matches!(head[0], b'S' | b'Q'));
        (*begun, at) = (true, at + letter + length);
    }
    bytes.drain(..at);
    count
}

/// Finds where replies of PostgreSQL end: with `ReadyForQuery`.
#[derive(Default)]
struct Cutter {
    /// What came of the present reply.
    reply: Vec<u8>,
    /// Where its next message begins.
    next: usize,
}

impl Cutter {
    /// The replies that end in `bytes`.
    fn replies(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.reply.extend_from_slice(bytes);
        let mut replies = Vec::new();
        while let Some(end) = self.end() {
            let rest = self.reply.split_off(end);
            replies.push(std::mem::replace(&mut self.reply, rest));
            self.next = 0;
        }
        replies
    }

    fn end(&mut self) -> Option<usize> {
        loop {
            let head = self.reply.get(self.next..self.next + 5)?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let (ready, end) = (head[0] == b'Z', self.next + 1 + length);
            if self.reply.len() < end {
                return None;
            }
            self.next = end;
            if ready {
                return Some(end);
            }
        }
    }
}
