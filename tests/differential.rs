//! Forebay beside a real redis-server: the same requests to both, the same replies from both.
//!
//! Random sequences over all data commands, with wrong arities, wrong types and options in odd combinations. They are
//! sent singly and pipelined, from two connections, with MULTI, EXEC, DISCARD and WATCH, in RESP2 and RESP3. What may
//! differ is a named exception here (`Compared`) and a line of `docs/differences.md`. A failing case is shrunk and
//! printed.
//!
//! A third of the cases run on a forebay with the least memory that it takes. There other documents crowd out all
//! that a case has touched before each of its steps. So what was written is read again from the store.
//!
//! `FOREBAY_NIGHTLY=1` runs many more cases. Without a redis-server in the PATH the test says so and does nothing.

mod common;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/generate.rs"]
mod generate;
#[cfg(feature = "lua")]
#[path = "differential/scripts.rs"]
mod scripts;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use common::process::Forebay;
use common::{Connection, start_redis};
use forebay_protocol::Reply;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use compare::{Verdict, compare, compare_exec};
use generate::{Case, Request, Step};

/// One client of both servers.
struct Pair {
    redis: Connection,
    forebay: Connection,
    /// The requests that Redis has queued; `None` outside MULTI.
    queued: Option<Vec<Request>>,
}

impl Pair {
    fn new(redis: SocketAddr, forebay: SocketAddr, resp3: bool) -> Pair {
        let mut pair = Pair { redis: Connection::new(redis), forebay: Connection::new(forebay), queued: None };
        if resp3 {
            for connection in [&mut pair.redis, &mut pair.forebay] {
                let greeting = connection.call(&["HELLO", "3"]);
                assert!(matches!(greeting, Reply::Map(_)), "{greeting:?}");
            }
        }
        pair
    }

    /// Sends a pipeline to both and compares the replies.
    fn step(&mut self, requests: &[Request], prefix: &str) -> Result<Verdict, String> {
        let bytes: Vec<Vec<Vec<u8>>> = requests.iter().map(|request| request.bytes(prefix)).collect();
        let (redis, forebay) = (self.redis.pipeline(&bytes), self.forebay.pipeline(&bytes));
        for ((request, redis), forebay) in requests.iter().zip(&redis).zip(&forebay) {
            let verdict = self.judge(request, redis, forebay);
            let verdict =
                verdict.map_err(|why| format!("{request:?}: {why}\n  redis:   {redis:?}\n  forebay: {forebay:?}"))?;
            if verdict == Verdict::Diverged {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Same)
    }

    fn judge(&mut self, request: &Request, redis: &Reply, forebay: &Reply) -> Result<Verdict, String> {
        let queued = matches!(redis, Reply::Simple(text) if text == "QUEUED");
        match (request.name().as_str(), &mut self.queued) {
            (_, Some(queue)) if queued => queue.push(request.clone()),
            ("multi", queue @ None) if redis == &Reply::OK => *queue = Some(Vec::new()),
            ("exec", Some(_)) => {
                let queue = self.queued.take().unwrap_or_default();
                return compare_exec(&queue, redis, forebay);
            }
            ("discard", queue) => *queue = None,
            (_, None) => return compare(request, redis, forebay),
            _ => {}
        }
        if redis == forebay { Ok(Verdict::Same) } else { Err("another reply".to_owned()) }
    }
}

/// Documents that crowd out others, and their size: together more than the small cache holds.
const CROWD_KEYS: usize = 9;
const CROWD_BYTES: usize = 120_000;

/// The servers of all cases.
struct Servers {
    redis: SocketAddr,
    roomy: Forebay,
    /// A client that has read all of [`crowd`] has emptied the cache of anything else.
    cramped: Forebay,
}

impl Servers {
    /// With this store where there is room.
    fn start(redis: SocketAddr, store: &str) -> Servers {
        let roomy = Forebay::start(store, &["--memory", "8MiB"]);
        let cramped = Forebay::start("memory", &["--memory", "1MiB", "--partitions", "1", "--policy", "lru"]);
        let mut connection = Connection::new(cramped.address);
        for key in crowd() {
            assert_eq!(connection.call(&["SET", &key, &"x".repeat(CROWD_BYTES)]), Reply::OK);
        }
        let servers = Servers { redis, roomy, cramped };
        assert_eq!(connection.call(&["SET", "probe", "1"]), Reply::OK);
        servers.forget(&servers.cramped).expect("others can be read");
        let explained = connection.call(&["CACHE", "EXPLAIN", "probe"]);
        assert!(compare::text(&explained).starts_with("not cached"), "{explained:?}");
        servers
    }

    fn of(&self, case: &Case) -> &Forebay {
        if case.cramped { &self.cramped } else { &self.roomy }
    }

    /// Nothing that cases have touched stays in the cache.
    fn forget(&self, forebay: &Forebay) -> Result<(), String> {
        let mut connection = Connection::new(forebay.address);
        if std::ptr::eq(forebay, &self.roomy) {
            let reply = connection.call(&["CACHE", "RESET"]);
            return if reply.is_error() { Err(format!("CACHE RESET: {reply:?}")) } else { Ok(()) };
        }
        let keys: Vec<String> = crowd().collect();
        let request: Vec<&str> = std::iter::once("EXISTS").chain(keys.iter().map(String::as_str)).collect();
        let reply = connection.call(&request);
        if reply == Reply::Integer(CROWD_KEYS as i64) { Ok(()) } else { Err(format!("EXISTS: {reply:?}")) }
    }
}

fn crowd() -> impl Iterator<Item = String> {
    (0..CROWD_KEYS).map(|number| format!("crowd:{number}"))
}

/// Runs a case; its keys are its own, so that nothing has to be cleared.
fn run(case: &Case, servers: &Servers) -> Result<(), String> {
    static CASES: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("{}:", CASES.fetch_add(1, Ordering::Relaxed));
    let forebay = servers.of(case);
    let mut pairs = case.resp3.map(|resp3| Pair::new(servers.redis, forebay.address, resp3));
    for Step { connection, requests, forget } in &case.steps {
        if *forget || case.cramped {
            servers.forget(forebay)?;
        }
        if pairs[*connection].step(requests, &prefix)? == Verdict::Diverged {
            return Ok(());
        }
    }
    Ok(())
}

/// The commands that this redis-server knows.
fn known_commands(redis: SocketAddr) -> BTreeSet<String> {
    match Connection::new(redis).call(&["COMMAND", "LIST"]) {
        Reply::Array(names) => names.iter().map(|name| compare::text(name).to_ascii_lowercase()).collect(),
        other => panic!("COMMAND LIST: {other:?}"),
    }
}

/// Runs so many cases of a kind, each against both servers; with the servers, unless there is no Redis.
fn compare_cases<C: Strategy<Value = Case>>(
    (few, many): (u32, u32),
    store: &str,
    case: fn(&BTreeSet<String>) -> C,
) -> Option<(Servers, u32)> {
    let Some(redis) = start_redis() else {
        eprintln!("SKIPPED: no redis-server in the PATH, so nothing was compared");
        return None;
    };
    let servers = Servers::start(redis.address, store);
    let known = known_commands(redis.address);
    let nightly = std::env::var_os("FOREBAY_NIGHTLY").is_some();
    let cases = std::env::var("FOREBAY_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(if nightly { many } else { few });
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
    let outcome = TestRunner::new(config).run(&case(&known), |case| run(&case, &servers).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    Some((servers, cases))
}

#[test]
fn long_strings_are_those_of_redis() {
    compare_cases((40, 2000), "embedded", generate::long_case);
}

#[test]
fn replies_are_those_of_redis() {
    let Some((servers, cases)) = compare_cases((300, 20_000), "memory", generate::case) else { return };
    let (evictions, misses) = ["evictions", "misses"].map(|name| servers.cramped.cache_figure(name)).into();
    eprintln!("{cases} cases; the small cache evicted {evictions} documents and missed {misses}");
    assert!(evictions > u64::from(cases), "the small cache was not crowded: {evictions} evictions");
}
