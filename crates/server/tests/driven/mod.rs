//! A session without a socket: bytes in, bytes out, on a simulated clock, so that expiry is exact.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, OnWrite, TxnLimits};
use forebay_protocol::{Batch, Decoder, Limits, Protocol, encode_command};
use forebay_server::{ServerOptions, Session, Shared};

fn engine(runtime: Runtime) -> Engine {
    let policy = choose("lru").expect("the policy lru");
    Engine::new(EngineOptions {
        runtime,
        store: Arc::new(Memory::new()),
        cache: CacheOptions {
            budget_bytes: 1 << 20,
            partitions: 1,
            policy: policy.policy,
            policy_values: policy.values,
        },
        limits: TxnLimits::default(),
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    })
}

/// The replies to inline commands, one after the other, with `|` for each line end. `SLEEP ms` lets time pass.
pub fn replies(protocol: Protocol, requests: Vec<String>) -> Vec<String> {
    replies_of(|_| {}, protocol, requests)
}

/// The same of a server with other options. What comes after the connection was closed is answered by nothing.
pub fn replies_of(change: impl FnOnce(&mut ServerOptions), protocol: Protocol, requests: Vec<String>) -> Vec<String> {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime();
    let mut options = ServerOptions::new(engine(runtime.clone()));
    change(&mut options);
    let shared = Arc::new(Shared::new(options));
    let client = shared.clients.add("client".into(), "server".into(), runtime.now_ms(), 10).expect("room for one");
    let mut session = Session::new(shared, client);
    session.protocol = protocol;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let told = answers.clone();
    let ended = simulation.run(async move {
        let mut decoder = Decoder::new(Limits::default());
        let mut batch = Batch::default();
        for request in requests {
            if let Some(pause) = request.strip_prefix("SLEEP ") {
                runtime.sleep(Duration::from_millis(pause.parse().expect("a number of ms"))).await;
                continue;
            }
            let mut input = BytesMut::new();
            // A long request does not fit an inline command; it has no quotes.
            match request.len() < 60_000 {
                true => input.extend_from_slice(format!("{request}\r\n").as_bytes()),
                false => encode_command(&mut input, &request.split(' ').collect::<Vec<_>>()),
            }
            decoder.decode_batch(&mut input, 100, &mut batch).expect("requests");
            session.serve(&batch).await;
            session.replies.settle().await;
            batch.clear();
            let output = session.replies.ready_mut().split();
            let text = String::from_utf8_lossy(&output).replace("\r\n", "|");
            told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    });
    assert!(matches!(ended, Ended::Done), "a request hung");
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.clone()
}

/// Checks requests against the replies that stand beside them.
pub fn check_in(protocol: Protocol, cases: &[(&str, &str)]) {
    let requests = cases.iter().map(|(request, _)| (*request).to_owned()).collect();
    let expected: Vec<_> = cases.iter().filter(|(request, _)| !request.starts_with("SLEEP ")).collect();
    let replies = replies(protocol, requests);
    assert_eq!(replies.len(), expected.len());
    for ((request, expected), reply) in expected.into_iter().zip(replies) {
        assert_eq!(reply, *expected, "{request}");
    }
}

pub fn check(cases: &[(&str, &str)]) {
    check_in(Protocol::Resp2, cases);
}
