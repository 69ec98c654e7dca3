//! Forebay beside a real redis-server: the same requests to both, the same replies from both.
//!
//! Random sequences over all data commands, with wrong arities, wrong types and options in odd combinations, singly and
//! pipelined, from two connections, with MULTI, EXEC, DISCARD and WATCH, in RESP2 and RESP3. What may differ is a named
//! exception here (`Compared`) and a line of `docs/differences.md`. A failing case is shrunk and printed.
//!
//! `FOREBAY_LONG=1` runs many more cases. Without a redis-server in the PATH the test says so and does nothing.

mod common;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/generate.rs"]
mod generate;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use common::process::Forebay;
use common::{Connection, start_forebay, start_redis};
use forebay_protocol::Reply;
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

/// Runs a case; its keys are its own, so that nothing has to be cleared.
fn run(case: &Case, redis: SocketAddr, forebay: SocketAddr) -> Result<(), String> {
    static CASES: AtomicU64 = AtomicU64::new(0);
    let prefix = format!("{}:", CASES.fetch_add(1, Ordering::Relaxed));
    let mut pairs = [case.resp3[0], case.resp3[1]].map(|resp3| Pair::new(redis, forebay, resp3));
    for Step { connection, requests, forget } in &case.steps {
        if *forget {
            let mut connection = Connection::new(forebay);
            let reply = connection.call(&["CACHE", "RESET"]);
            if reply.is_error() {
                return Err(format!("CACHE RESET: {reply:?}"));
            }
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

#[test]
fn replies_are_those_of_redis() {
    let Some(redis) = start_redis() else {
        eprintln!("SKIPPED: no redis-server in the PATH, so nothing was compared");
        return;
    };
    let forebay = start_forebay();
    let known = known_commands(redis.address);
    let long = std::env::var_os("FOREBAY_LONG").is_some();
    let cases: Option<u32> = std::env::var("FOREBAY_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(if long { 20_000 } else { 300 }).div_ceil(2);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
    let outcome = TestRunner::new(config)
        .run(&generate::case(&known), |case| run(&case, redis.address, forebay.address).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
