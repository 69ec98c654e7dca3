//! One client of the soak: what it does, and what its keys may hold.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};

/// Keys of one client.
const KEYS: usize = 200;

/// Values of one key of which it is not known whether they were written.
const UNKNOWN_MAX: usize = 6;

/// How long the server may be away, or say that it is.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all clients share.
pub struct Scene {
    /// Where the server is, and how many came before it.
    server: Mutex<(SocketAddr, u64)>,
    ends: AtomicBool,
    pub counts: Counts,
}

/// What happened so far.
#[derive(Default)]
pub struct Counts {
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
    checked: AtomicU64,
}

impl Counts {
    /// Writes acknowledged, unknown, refused; reads that were right.
    pub fn now(&self) -> [u64; 4] {
        [&self.acknowledged, &self.unknown, &self.refused, &self.checked].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Scene {
    pub fn new(address: SocketAddr) -> Scene {
        Scene { server: Mutex::new((address, 0)), ends: AtomicBool::new(false), counts: Counts::default() }
    }

    /// Nobody connects while the server is changed.
    pub fn change_server(&self, change: impl FnOnce() -> SocketAddr) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        *server = (change(), server.1 + 1);
    }

    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn server(&self) -> (SocketAddr, u64) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that may break at any time.
struct Link {
    stream: TcpStream,
    decoder: ReplyDecoder,
    input: BytesMut,
    life: u64,
}

impl Link {
    fn new(scene: &Scene) -> io::Result<Link> {
        let (address, life) = scene.server();
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let decoder = ReplyDecoder::new(ReplyLimits::default());
        Ok(Link { stream, decoder, input: BytesMut::new(), life })
    }

    fn send(&mut self, requests: &[Vec<String>]) -> io::Result<()> {
        let mut output = BytesMut::new();
        requests.iter().for_each(|request| encode_command(&mut output, request));
        self.stream.write_all(&output)
    }

    /// The last of so many replies.
    fn last_reply(&mut self, mut count: usize) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.input).map_err(io::Error::other)? {
                count -= 1;
                if count == 0 {
                    return Ok(reply);
                }
                continue;
            }
            let mut bytes = [0; 8192];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.input.extend_from_slice(&bytes[..count]),
            }
        }
    }
}

/// What a key may hold.
#[derive(Clone, Default)]
struct Known {
    /// The last value that was acknowledged, or was found by a later server.
    value: u64,
    /// Written, perhaps; under which server.
    unknown: Vec<(u64, u64)>,
}

/// A pair of counters that only rise together.
#[derive(Default)]
struct Pair {
    acknowledged: u64,
    unknown: u64,
    seen: u64,
}

struct Client<'a> {
    number: u64,
    scene: &'a Scene,
    random: fastrand::Rng,
    link: Option<Link>,
    keys: Vec<Known>,
    pair: Pair,
    next: u64,
}

/// What became of a write.
enum Wrote {
    Yes,
    No,
    Perhaps(u64),
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// A client's work until the end.
pub fn run(number: u64, scene: &Scene, random: fastrand::Rng) {
    let mut client = Client {
        number,
        scene,
        random,
        link: None,
        keys: vec![Known::default(); KEYS],
        pair: Pair::default(),
        next: 0,
    };
    while !scene.ends.load(Ordering::Relaxed) {
        client.step();
    }
    // What was acknowledged last, too.
    (0..KEYS).for_each(|key| client.check_key(key));
    client.check_pair();
}

impl Client<'_> {
    fn step(&mut self) {
        match self.random.u8(..10) {
            0..4 => self.write_key(),
            4..6 => self.raise_pair(),
            6..9 => {
                let key = self.random.usize(..KEYS);
                self.check_key(key);
            }
            _ => self.check_pair(),
        }
    }

    fn link(&mut self) -> &mut Link {
        let began = Instant::now();
        while self.link.is_none() {
            assert!(began.elapsed() < PATIENCE, "client {}: the server is away", self.number);
            self.link = Link::new(self.scene).ok();
            if self.link.is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.link.as_mut().expect("it was just made")
    }

    fn write(&mut self, requests: &[Vec<String>]) -> Wrote {
        let hangs_up = self.random.u8(..50) == 0;
        let link = self.link();
        let life = link.life;
        let reply = link.send(requests).and_then(|()| match hangs_up {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => link.last_reply(requests.len()),
        });
        let counts = &self.scene.counts;
        match reply {
            Ok(Reply::Error(text)) if text.starts_with(b"TXUNKNOWN") => {
                counts.unknown.fetch_add(1, Ordering::Relaxed);
                Wrote::Perhaps(life)
            }
            Ok(Reply::Error(text)) => {
                let text = String::from_utf8_lossy(&text);
                assert!(text.contains("STOREDOWN") || text.contains("TXCONFLICT"), "client {}: {text}", self.number);
                counts.refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
                Wrote::No
            }
            Ok(_) => {
                counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                Wrote::Yes
            }
            Err(_) => {
                self.link = None;
                counts.unknown.fetch_add(1, Ordering::Relaxed);
                Wrote::Perhaps(life)
            }
        }
    }

    fn write_key(&mut self) {
        let key = self.random.usize(..KEYS);
        if self.keys[key].unknown.len() >= UNKNOWN_MAX {
            return;
        }
        self.next += 1;
        let value = self.next;
        let padding = "x".repeat(self.random.usize(..3_000));
        let request = vec!["SET".into(), format!("key:{}:{key}", self.number), format!("{value} {padding}")];
        let known = match self.write(&[request]) {
            Wrote::No => return,
            Wrote::Yes => {
                self.keys[key].value = value;
                return;
            }
            Wrote::Perhaps(life) => (value, life),
        };
        self.keys[key].unknown.push(known);
    }

    fn raise_pair(&mut self) {
        let number = self.number;
        let (begin, end) = if self.random.bool() { ("MULTI", "EXEC") } else { ("TXN BEGIN", "TXN COMMIT") };
        let (one, two) = (format!("INCR one:{number}"), format!("INCR two:{number}"));
        match self.write(&[words(begin), words(&one), words(&two), words(end)]) {
            Wrote::Yes => self.pair.acknowledged += 1,
            Wrote::Perhaps(_) => self.pair.unknown += 1,
            Wrote::No => {
                // A TXN that failed on the way may still be open.
                self.link = None;
            }
        }
    }

    /// Reads until there is an answer; also under which server.
    fn read(&mut self, request: &[String]) -> (Reply, u64) {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "client {}: {request:?} is not answered", self.number);
            let link = self.link();
            let life = link.life;
            match link.send(&[request.to_vec()]).and_then(|()| link.last_reply(1)) {
                Ok(Reply::Error(text)) => {
                    let text = String::from_utf8_lossy(&text);
                    assert!(text.contains("STOREDOWN") || text.contains("TXCONFLICT"), "{request:?}: {text}");
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(reply) => return (reply, life),
                Err(_) => self.link = None,
            }
        }
    }

    fn check_key(&mut self, key: usize) {
        let (reply, life) = self.read(&words(&format!("GET key:{}:{key}", self.number)));
        let text = match &reply {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Nil => "0".to_owned(),
            other => panic!("GET answers {other:?}"),
        };
        let found: u64 = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
        let known = &mut self.keys[key];
        let may_be = found == known.value || known.unknown.iter().any(|(value, _)| *value == found);
        let (value, unknown) = (known.value, &known.unknown);
        assert!(may_be, "client {} key {key}: {found} instead of {value}, perhaps {unknown:?}", self.number);
        // What an earlier server was sent is decided now.
        let decided = known.unknown.iter().any(|(_, sent)| *sent < life);
        known.unknown.retain(|(_, sent)| *sent >= life);
        if decided && !known.unknown.iter().any(|(value, _)| *value == found) {
            known.value = found;
        }
        self.scene.counts.checked.fetch_add(1, Ordering::Relaxed);
    }

    fn check_pair(&mut self) {
        let number = self.number;
        let (Reply::Array(both), _) = self.read(&words(&format!("MGET one:{number} two:{number}"))) else {
            panic!("MGET answers a list")
        };
        assert_eq!(both[0], both[1], "client {number}: half a transaction");
        let count = match &both[0] {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).parse().expect("a number"),
            _ => 0u64,
        };
        let Pair { acknowledged, unknown, seen } = self.pair;
        let sound = (acknowledged.max(seen)..=acknowledged + unknown).contains(&count);
        assert!(sound, "client {number}: {count} of {acknowledged} and perhaps {unknown}, {seen} seen before");
        self.pair.seen = count;
        self.scene.counts.checked.fetch_add(1, Ordering::Relaxed);
    }
}
