//! CLIENT TRACKING beside a real redis-server: the same requests to both, the same messages from both.
//!
//! Each has four connections. One only writes, one of RESP3 tracks in every mode, and one of RESP2 has a fourth told,
//! which has subscribed. After each request all of them are asked for a PING, behind which nothing waits. What they are
//! told until then is compared, names without their order. What differs on purpose stands in `docs/differences.md`.
//! `FOREBAY_SEED` repeats one case, `FOREBAY_NIGHTLY=1` runs many more. Without a redis-server in the PATH the test
//! says so.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::process::Forebay;
use common::{Connection, start_redis};
use forebay_protocol::Reply;

const CHANNEL: &str = "__redis__:invalidate";
const CASES: u64 = 60;
const STEPS: usize = 60;

/// One server's connections.
struct Side {
    connections: Vec<Connection>,
    /// The id of the last.
    target: i64,
}

/// Who sends a request.
const WRITER: usize = 0;
const READER: usize = 1;
const DATA: usize = 2;
const TOLD: usize = 3;

impl Side {
    fn new(address: SocketAddr) -> Side {
        let mut connections: Vec<Connection> = (0..4).map(|_| Connection::new(address)).collect();
        assert_eq!(connections[WRITER].call(&["FLUSHALL"]), Reply::OK);
        connections[READER].call(&["HELLO", "3"]);
        let Reply::Integer(target) = connections[TOLD].call(&["CLIENT", "ID"]) else { panic!("no id") };
        connections[TOLD].call(&["SUBSCRIBE", CHANNEL]);
        let redirect = ["CLIENT", "TRACKING", "ON", "REDIRECT", &target.to_string()];
        assert_eq!(connections[DATA].call(&redirect), Reply::OK);
        Side { connections, target }
    }

    /// Sends a request; its reply, and what each connection is told until nothing waits.
    fn ask(&mut self, from: usize, request: &str) -> (Reply, Vec<Vec<String>>) {
        let request = request.replace("TARGET", &self.target.to_string());
        let words: Vec<&str> = request.split(' ').collect();
        self.connections[from].send(&words);
        let mut told: Vec<Vec<String>> = vec![Vec::new(); self.connections.len()];
        let mut reply = self.connections[from].receive();
        while let Some(message) = message(&reply) {
            told[from].extend(message);
            reply = self.connections[from].receive();
        }
        for (connection, told) in self.connections.iter_mut().zip(&mut told) {
            connection.send(&["PING"]);
            loop {
                match connection.receive() {
                    Reply::Simple(pong) if pong == "PONG" || pong == "QUEUED" => break,
                    Reply::Array(pong) if pong.first() == Some(&Reply::bulk(b"pong")) => break,
                    other => told.extend(message(&other).unwrap_or_else(|| panic!("{request}: {other:?}"))),
                }
            }
            told.sort();
            // With a prefix and the empty one, Redis tells a name twice.
            told.dedup();
        }
        let reply = if words[0] == "CLIENT" { named(reply, self.target) } else { reply };
        (reply, told)
    }
}

/// The reply with the target's id, which is another on each server, replaced.
fn named(reply: Reply, target: i64) -> Reply {
    match reply {
        Reply::Integer(id) if id == target => Reply::Integer(i64::MAX),
        Reply::Array(parts) => Reply::Array(parts.into_iter().map(|part| named(part, target)).collect()),
        Reply::Map(pairs) => {
            Reply::Map(pairs.into_iter().map(|(key, value)| (named(key, target), named(value, target))).collect())
        }
        other => other,
    }
}

/// The names that a message tells, `*` for everything; `None` if it is none.
fn message(reply: &Reply) -> Option<Vec<String>> {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    let names = match reply {
        Reply::Push(parts) if text(&parts[0]).as_deref() == Some("invalidate") => &parts[1],
        Reply::Push(parts) => return Some(vec![format!("push {:?}", text(&parts[0]))]),
        Reply::Array(parts) if text(parts.first()?).as_deref() == Some("message") => &parts[2],
        _ => return None,
    };
    Some(match names {
        Reply::Array(names) => names.iter().filter_map(text).collect(),
        _ => vec!["*".to_owned()],
    })
}

const READS: &[&str] =
    &["GET a", "GET b", "MGET a b c", "EXISTS a", "HGET h f", "HGETALL h", "STRLEN b", "TTL a", "LRANGE l 0 -1"];
const WRITES: &[&str] = &[
    "SET a 1",
    "SET b 1",
    "MSET a 1 c 2",
    "DEL a",
    "DEL b c",
    "HSET h f 1",
    "HDEL h f",
    "APPEND b x",
    "GETSET a 2",
    "INCR n",
    "EXPIRE a 100",
    "PERSIST a",
    "RENAME a b",
    "LPUSH l x",
    "RPOP l",
    "SETNX a 1",
    "GETDEL c",
    "UNLINK h",
    "SET a 1 PX 1000000",
    "SET b 1 EX 1000",
    "EXPIRE a -1",
    "PEXPIREAT b 1",
];
/// What a transaction of several writes has, a few of it at a time.
const OF_SEVERAL: &[&str] =
    &["SET a 1", "DEL a b", "MSET a 1 c 2", "INCR n", "HSET h f 1", "LPUSH l x", "EXPIRE b -1", "SET b 1 PX 1000000"];
const MODES: &[&str] = &[
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON NOLOOP",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTOUT",
    "CLIENT TRACKING ON BCAST",
    "CLIENT TRACKING ON BCAST PREFIX a PREFIX h",
    "CLIENT TRACKING ON BCAST PREFIX b NOLOOP",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING ON BCAST OPTIN",
    "CLIENT TRACKING ON OPTIN OPTOUT",
    "CLIENT TRACKING ON PREFIX x",
    "CLIENT TRACKING ON BCAST PREFIX ab PREFIX a",
    "CLIENT TRACKING ON REDIRECT TARGET",
    "CLIENT TRACKING ON REDIRECT 999999",
    "CLIENT TRACKING ON REDIRECT",
    "CLIENT TRACKING MAYBE",
    "CLIENT TRACKING ON NONSENSE",
    "CLIENT TRACKING ON REDIRECT x",
    "CLIENT CACHING YES",
    "CLIENT CACHING NO",
    "CLIENT CACHING MAYBE",
    "CLIENT TRACKINGINFO",
    "CLIENT GETREDIR",
];

/// Requests one behind the other, and who sends them.
fn draw_several(random: &mut fastrand::Rng) -> (usize, Vec<&'static str>) {
    match random.u32(..6) {
        0 => (WRITER, vec!["FLUSHDB"]),
        1 => (READER, vec!["FLUSHDB"]),
        2 => (TOLD, vec![["UNSUBSCRIBE __redis__:invalidate", "SUBSCRIBE __redis__:invalidate"][random.usize(..2)]]),
        _ => {
            let mut requests = vec!["MULTI"];
            requests.extend((0..random.usize(2..5)).map(|_| OF_SEVERAL[random.usize(..OF_SEVERAL.len())]));
            requests.push("EXEC");
            ([WRITER, READER, DATA][random.usize(..3)], requests)
        }
    }
}

/// A request, and who sends it.
fn draw(random: &mut fastrand::Rng) -> (usize, &'static str) {
    let one = |of: &[&'static str], random: &mut fastrand::Rng| of[random.usize(..of.len())];
    match random.u32(..20) {
        0..=5 => (WRITER, one(WRITES, random)),
        6..=10 => (READER, one(READS, random)),
        11..=12 => (READER, one(WRITES, random)),
        13..=15 => (DATA, one(READS, random)),
        16 => (DATA, one(WRITES, random)),
        17 => (DATA, one(&MODES[14..], random)),
        _ => (READER, one(MODES, random)),
    }
}

fn case(seed: u64, redis: SocketAddr, forebay: SocketAddr) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut redis, mut forebay) = (Side::new(redis), Side::new(forebay));
    let mut said = Vec::new();
    for _ in 0..STEPS {
        let (mut from, request) = draw(&mut random);
        let asked: Vec<&str> = match (from, random.u32(..10)) {
            (READER, 0) if !request.starts_with("CLIENT") && !request.starts_with("RENAME") => {
                vec!["MULTI", "GET a", request, "EXEC"]
            }
            (_, 1) => {
                let (by, several) = draw_several(&mut random);
                from = by;
                several
            }
            _ => vec![request],
        };
        for request in asked {
            said.push(format!("{from} {request}"));
            let (expected, got) = (redis.ask(from, request), forebay.ask(from, request));
            assert_eq!(got, expected, "FOREBAY_SEED={seed}: {said:#?}");
        }
    }
}

/// What each connection is told until it is what is `expected`, and once more. On a busy machine it takes a while until
/// an expiry is noticed.
fn told_of_expired(side: &mut Side, expected: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut told = vec![Vec::new(); 4];
    let (began, mut last) = (Instant::now(), false);
    while !std::mem::replace(&mut last, told == expected || began.elapsed() > Duration::from_secs(20)) {
        for read in ["GET p", "GET e", "GET unread", "GET stays"] {
            let (_, more) = side.ask(WRITER, read);
            told.iter_mut().zip(more).for_each(|(told, more)| told.extend(more));
        }
        told.iter_mut().for_each(|told| told.sort());
    }
    told
}

/// A key that has expired is told once, whether it is noticed by itself or by the next read.
#[test]
fn what_has_expired_is_told_as_redis_tells_it() {
    let Some(redis) = start_redis() else {
        eprintln!("NOT RUN: there is no redis-server in the PATH");
        return;
    };
    let forebay = Forebay::start("memory", &[]);
    for mode in ["CLIENT TRACKING ON", "CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON NOLOOP"] {
        let mut sides = [redis.address, forebay.address].map(Side::new);
        for side in &mut sides {
            for write in ["SET p 1 PX 2500", "SETEX e 3 1", "SET unread 1 PX 2500", "SET stays 1 EX 1000"] {
                assert_eq!(side.ask(WRITER, write).0, Reply::OK);
            }
            assert_eq!(side.ask(READER, mode).0, Reply::OK);
            for read in ["GET p", "GET e", "GET stays"] {
                assert_eq!((side.ask(READER, read).0, side.ask(DATA, read).0), (Reply::bulk(b"1"), Reply::bulk(b"1")));
            }
        }
        std::thread::sleep(Duration::from_millis(3_000));
        let read = vec!["e".to_owned(), "p".to_owned()];
        let any = mode.ends_with("BCAST").then(|| "unread".to_owned());
        let mut expected = vec![Vec::new(); 4];
        expected[READER] = read.iter().cloned().chain(any).collect();
        expected[TOLD] = read;
        let told = sides.each_mut().map(|side| told_of_expired(side, &expected));
        assert_eq!(told, [expected.clone(), expected], "{mode}: what Redis tells, and forebay");
    }
}

#[test]
fn clients_are_told_as_redis_tells_them() {
    let Some(redis) = start_redis() else {
        eprintln!("NOT RUN: there is no redis-server in the PATH");
        return;
    };
    let forebay = Forebay::start("memory", &[]);
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let many = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 50 * CASES } else { CASES };
    for seed in given.map_or(0..many, |seed| seed..seed + 1) {
        case(seed, redis.address, forebay.address);
    }
}
