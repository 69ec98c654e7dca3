//! Commands that read a great many keys: in slices, at one moment.

mod support;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::runtime::yield_now;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_protocol::{Batch, Decoder, Limits, encode_command};
use forebay_server::{ServerOptions, Session, Shared};
use support::{Peer, server};

/// Clients that write.
const WRITERS: usize = 12;

/// More than one slice.
const KEYS: usize = 1100;

fn wide(name: &str) -> String {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number:04}")).collect();
    format!("{name} {}", keys.join(" "))
}

#[tokio::test]
async fn the_answer_is_that_of_all_slices() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.check(&[("SET k0000 first", "+OK|"), ("SET k1099 last", "+OK|"), ("SADD k0500 member", ":1|")]).await;
    assert_eq!(peer.say(&wide("EXISTS")).await, ":3|");
    assert_eq!(peer.say(&wide("TOUCH")).await, ":3|");
    assert_eq!(
        peer.say(&format!("{} k0000 k0000", wide("EXISTS"))).await,
        ":5|",
        "a key that stands twice counts twice"
    );
    let values = peer.say(&wide("MGET")).await;
    assert!(values.starts_with("*1100|$5|first|$-1|") && values.ends_with("|$-1|$4|last|"), "{values}");
    // Inside TXN all is locked, as it is for any other command.
    assert!(peer.say(&format!("TXN BEGIN\n{}\nTXN ABORT", wide("EXISTS"))).await.contains("|:3|"));
    assert_eq!(shared.engine.locked_keys(), 0);
    shared.engine.validate();
}

#[tokio::test]
async fn what_takes_too_much_memory_is_refused_before_it_begins() {
    let shared = server(|options| options.limits.locked_keys_max = KEYS - 1);
    let mut peer = Peer::new(&shared);
    let refused = "LIMIT locked_keys_max 1099";
    assert_eq!(peer.say(&wide("DEL")).await, format!("-{refused}|"));
    assert!(peer.say(&format!("MULTI\n{}\nEXEC", wide("EXISTS"))).await.contains(refused));
    assert_eq!(peer.say(&wide("EXISTS")).await, ":0|", "what is read in slices is not");
    let shared = server(|options| options.limits.client_reply_bytes_max = 20_000);
    assert_eq!(Peer::new(&shared).say(&wide("MGET")).await, "-LIMIT client_reply_bytes_max 20000|");
}

#[tokio::test]
async fn what_documents_grow_to_counts() {
    let shared = server(|options| options.limits.txn_bytes_max = 3_000_000);
    let mut peer = Peer::new(&shared);
    let grow = "SETRANGE a 1000000 x\nSETRANGE b 1000000 x\nAPPEND a x";
    let said = peer.say(&format!("TXN BEGIN\n{grow}\nSTRLEN a\nTXN COMMIT")).await;
    assert!(said.starts_with("+OK|:1000001|:1000001|:1000002|:1000002|+OK"), "a change in place counts once: {said}");
    let more = "SETRANGE c 1000000 x\nSETRANGE d 1000000 x\nSTRLEN d";
    let said = peer.say(&format!("TXN BEGIN\n{more}\nTXN COMMIT")).await;
    assert!(said.starts_with("+OK|:1000001|:1000001|:1000001|+OK"), "{said}");
    let said = peer.say(&format!("TXN BEGIN\n{grow}\nSETRANGE e 1000000 x\nSTRLEN e\nTXN COMMIT")).await;
    assert!(said.contains("-LIMIT txn_bytes_max 3000000|"), "{said}");
    let said = peer.say("MULTI\nSETRANGE e 1000000 x\nSETRANGE f 1000000 x\nSETRANGE g 1000000 x\nEXEC").await;
    assert!(said.ends_with("command 3 (SETRANGE g): LIMIT txn_bytes_max 3000000|"), "{said}");
    peer.check(&[("EXISTS e f g", ":0|")]).await;
}

#[tokio::test]
async fn what_is_read_counts_before_all_of_it_is() {
    let shared = server(|options| options.limits.txn_bytes_max = 3_000_000);
    let mut peer = Peer::new(&shared);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(peer.say(&format!("SETRANGE {name} 1000000 x")).await, ":1000001|");
    }
    let limit = "LIMIT txn_bytes_max 3000000|";
    assert_eq!(peer.say("DEL a b c d e").await, format!("-{limit}"));
    assert_eq!(peer.say("EXISTS a b c d e").await, ":5|");
    let said = peer.say("TXN BEGIN\nEXISTS a b c d e\nSTRLEN a\nTXN COMMIT").await;
    assert!(said.starts_with(&format!("+OK|-{limit}:1000001|+OK")), "it holds what it held before: {said}");
    let said = peer.say("WATCH a b c d e\nMULTI\nSTRLEN a\nEXEC").await;
    assert!(said.ends_with(&format!("-{limit}")), "EXEC reads what is watched: {said}");
    assert!(peer.say("MULTI\nDEL a b c d e\nEXEC").await.contains(limit));
    peer.check(&[("DEL a b", ":2|"), ("DEL c d", ":2|"), ("EXISTS a b c d e", ":1|")]).await;
    assert_eq!(shared.engine.locked_keys(), 0);
}

/// A pipeline of long replies: others have their turn in the middle of it.
#[test]
fn long_replies_give_others_their_turn() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let policy = choose("s3-fifo").expect("a policy");
    let cache =
        CacheOptions { budget_bytes: 4 << 20, partitions: 1, policy: policy.policy, policy_values: policy.values };
    let engine = Engine::new(EngineOptions::new(runtime.clone(), Arc::new(Memory::new()), cache));
    let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
    let client = shared.clients.add("client".into(), "server".into(), 0, 10).expect("room");
    let mut session = Session::new(shared.clone(), client);
    let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (ends, counted) = (over.clone(), turns.clone());
    let ended = simulation.run(async move {
        say(&mut session, "SETRANGE k 99999 x").await;
        runtime.spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let answer = say(&mut session, &["GET k"; 64].join("\n")).await;
        assert!(answer.len() > 6_400_000, "{} bytes", answer.len());
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ended, Ended::Done);
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 3, "{turns} turns of others in 6.4 MB of replies");
}

/// One client reads all keys while another changes the first and the last together; the first and the last value of
/// each answer.
fn reads_beside_writes(seed: u64) -> Vec<(String, String)> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let policy = choose("s3-fifo").expect("a policy");
    let cache =
        CacheOptions { budget_bytes: 1 << 20, partitions: 2, policy: policy.policy, policy_values: policy.values };
    let engine = Engine::new(EngineOptions::new(runtime.clone(), Arc::new(Memory::new()), cache));
    let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
    let session = || {
        let client = shared.clients.add("client".into(), "server".into(), 0, 10).expect("room");
        Session::new(shared.clone(), client)
    };
    let (mut writer, mut reader) = (session(), session());
    let (over, read) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (ends, written, seen) = (over.clone(), Arc::new(AtomicUsize::new(0)), read.clone());
    runtime.spawn(async move {
        // Now and then it rests, so that two rounds may see the same.
        while !ends.load(Ordering::Relaxed) {
            let number = written.fetch_add(1, Ordering::Relaxed);
            say(&mut writer, &format!("MULTI\nSET k0000 {number}\nSET k1099 {number}\nEXEC")).await;
            for _ in 0..number % 7 {
                yield_now().await;
            }
        }
    });
    let ended = simulation.run(async move {
        for _ in 0..4 {
            let answer = say(&mut reader, &wide("MGET")).await;
            let values: Vec<&str> = answer.split('|').filter(|line| !line.starts_with(['*', '$', ':'])).collect();
            let ends = (values.first(), values.iter().rev().find(|line| !line.is_empty()));
            let of = |line: Option<&&str>| line.map_or_else(String::new, |line| (*line).to_owned());
            seen.lock().expect("no panic").push((of(ends.0), of(ends.1)));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(matches!(ended, Ended::Done), "a request hung");
    read.lock().expect("no panic").clone()
}

async fn say(session: &mut Session, lines: &str) -> String {
    let mut input = BytesMut::new();
    for line in lines.lines() {
        encode_command(&mut input, &line.split(' ').collect::<Vec<_>>());
    }
    let (mut decoder, mut batch) = (Decoder::new(Limits::default()), Batch::default());
    decoder.decode_batch(&mut input, 100, &mut batch).expect("requests");
    session.serve(&batch).await;
    session.replies.settle().await;
    String::from_utf8_lossy(&session.replies.ready_mut().split()).replace("\r\n", "|")
}

#[test]
fn slices_are_of_one_moment() {
    for seed in 0..4 {
        for (first, last) in reads_beside_writes(seed) {
            assert_eq!(first, last, "seed {seed}");
        }
    }
    // The scenario would notice if they were not.
    let _fault = mutation::put_back(Some(Fault::WideReadOnce));
    let torn = (0..20).any(|seed| reads_beside_writes(seed).iter().any(|(first, last)| first != last));
    assert!(torn, "no seed finds what is read once");
}

/// Clients that write all keys again and again while another reads them: how many writes were done before each answer.
fn writes_before_a_read(seed: u64, name: &'static str) -> Vec<usize> {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let policy = choose("s3-fifo").expect("a policy");
    let cache =
        CacheOptions { budget_bytes: 4 << 20, partitions: 2, policy: policy.policy, policy_values: policy.values };
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::ZERO };
    let store = Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay);
    let engine = Engine::new(EngineOptions::new(runtime.clone(), Arc::new(store), cache));
    let shared = Arc::new(Shared::new(ServerOptions::new(engine)));
    let session = || {
        let client = shared.clients.add("client".into(), "server".into(), 0, 100).expect("room");
        Session::new(shared.clone(), client)
    };
    let (over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mset = format!("MSET{}", wide("").split(' ').skip(1).map(|key| format!(" {key} v")).collect::<String>());
    for _ in 0..WRITERS {
        let (mut writer, ends, written, mset) = (session(), over.clone(), written.clone(), mset.clone());
        runtime.spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(say(&mut writer, &mset).await, "+OK|");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (mut reader, counts) = (session(), Arc::new(Mutex::new(Vec::new())));
    let counted = counts.clone();
    let ended = simulation.run(async move {
        for _ in 0..4 {
            let before = written.load(Ordering::Relaxed);
            let answer = say(&mut reader, &wide(name)).await;
            assert!(!answer.starts_with('-'), "{answer}");
            counted.lock().expect("no panic").push(written.load(Ordering::Relaxed) - before);
        }
        let before = written.load(Ordering::Relaxed);
        while written.load(Ordering::Relaxed) < before + WRITERS {
            runtime.sleep(Duration::from_millis(10)).await;
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(matches!(ended, Ended::Done), "a request hung");
    counts.lock().expect("no panic").clone()
}

#[test]
fn a_wide_read_waits_for_no_later_write() {
    for (seed, name) in [(1, "MGET"), (2, "EXISTS")] {
        let counts = writes_before_a_read(seed, name);
        println!("{name}: {counts:?} writes by {WRITERS} clients before each answer");
        assert!(counts.iter().all(|count| *count <= WRITERS), "{name} waits for {counts:?} writes");
    }
}

/// Clients that each read the same keys in pipelines of wide requests, in different orders, while only one such
/// request is under way at a time.
fn wide_pipelines(seed: u64) -> Ended {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let policy = choose("s3-fifo").expect("a policy");
    let cache =
        CacheOptions { budget_bytes: 4 << 20, partitions: 2, policy: policy.policy, policy_values: policy.values };
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::from_millis(5) };
    let store = Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay);
    let mut options = ServerOptions::new(Engine::new(EngineOptions::new(runtime.clone(), Arc::new(store), cache)));
    options.limits.underway_bytes_max = 1 << 10;
    let shared = Arc::new(Shared::new(options));
    let done = Arc::new(AtomicUsize::new(0));
    for number in 0..WRITERS {
        let client = shared.clients.add("client".into(), "server".into(), 0, 100).expect("room");
        let (mut session, done) = (Session::new(shared.clone(), client), done.clone());
        runtime.spawn(async move {
            for round in 0..4 {
                let part = |from: usize| (0..40).map(|at| format!(" r{round}k{}", from + at)).collect::<String>();
                let (front, back) = if number % 2 == 0 { (part(0), part(40)) } else { (part(40), part(0)) };
                let said = say(&mut session, &format!("EXISTS{front}\nEXISTS{back}\nDEL{front}")).await;
                assert_eq!(said, ":0|:0|:0|");
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    let waits = done.clone();
    let ended = simulation.run(async move {
        let patience = runtime.elapsed() + Duration::from_secs(600);
        while waits.load(Ordering::Relaxed) < WRITERS && runtime.elapsed() < patience {
            runtime.sleep(Duration::from_millis(10)).await;
        }
    });
    match done.load(Ordering::Relaxed) {
        WRITERS => ended,
        _ => Ended::Stuck,
    }
}

#[test]
fn wide_requests_have_their_turn() {
    for seed in 0..10 {
        assert_eq!(wide_pipelines(seed), Ended::Done, "seed {seed}");
    }
}

/// What looks through a large document gives others their turn before the next request of the pipeline.
#[tokio::test]
async fn what_takes_long_gives_others_their_turn_between_two_requests() {
    async fn polls(fields: usize) -> usize {
        let shared = server(|_| {});
        let mut peer = Peer::new(&shared);
        for field in 0..fields {
            let request = format!("HSET h {field}{} v", "a".repeat(40_000));
            peer.say(&request).await;
        }
        let requests = vec!["HSCAN h 0 MATCH none"; 20].join("\n");
        let (mut scans, mut polls) = (Box::pin(peer.say(&requests)), 0);
        let answers = std::future::poll_fn(|context| {
            polls += 1;
            scans.as_mut().poll(context)
        });
        assert_eq!(answers.await, "*2|$1|0|*0|".repeat(20));
        polls
    }
    assert!(polls(1).await < 5, "small ones are answered together");
    assert!(polls(20).await >= 20);
}
