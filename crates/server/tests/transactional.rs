//! What a policy that scores transactions hears over the wire: types, levels, vertices and ends; and what it says.

mod support;

use std::sync::Arc;

use bytes::BytesMut;
use forebay::graph::Thr;
use forebay::policy::Metered;
use forebay::store::memory::Memory;
use forebay_protocol::encode_command;
use forebay_server::Shared;
use support::{Peer, server, server_with};

const BALANCE: &str = "[[type]]\nname = 'Balance'\n[[type.vertex]]\nname = 'A'\n[[type.vertex]]\nname = 'C'\n\
    after = ['A']\n[[type.vertex]]\nname = 'S'\nafter = ['A']\n[[type.vertex]]\nname = 'w'\nafter = ['C', 'S']\n\
    writes = true\n";

fn detox(policy: &str) -> Arc<Shared> {
    server_with(Arc::new(Memory::new()), policy, 4, |_| {})
}

async fn register(peer: &mut Peer, toml: &str) -> String {
    let mut bytes = BytesMut::new();
    encode_command(&mut bytes, &["TXN", "TYPE", toml]);
    peer.raw(&bytes).await
}

fn metered(shared: &Shared) -> Metered {
    shared.engine.cache().meter().expect("the policy follows transactions").metered()
}

/// The next command begins a level.
async fn level(peer: &mut Peer, lines: &str) -> String {
    peer.session.open.replies_written();
    peer.say(lines).await
}

#[tokio::test]
async fn types_are_registered_over_the_wire_with_clear_errors() {
    let shared = detox("detox");
    let mut peer = Peer::new(&shared);
    assert_eq!(register(&mut peer, BALANCE).await, "+OK 1 new, 0 replaced, 0 as before|");
    assert_eq!(register(&mut peer, BALANCE).await, "+OK 0 new, 0 replaced, 1 as before|");
    let other = BALANCE.replace("after = ['A']\n[[type.vertex]]\nname = 'S'", "[[type.vertex]]\nname = 'S'");
    assert_eq!(register(&mut peer, &other).await, "+OK 0 new, 1 replaced, 0 as before|");
    for (wrong, why) in [
        ("", "-ERR no transaction type; begin with [[type]]|"),
        ("[[type]]\nname = 'X'", "-ERR type 'X': 0 vertices; give 1 to 256 as [[type.vertex]]|"),
        ("[[type]]\nname = 'X'\n[[type.vertex]]\nname = 'a'\nafter = ['a']", "-ERR type 'X': 'a' depends on itself; "),
    ] {
        assert!(register(&mut peer, wrong).await.starts_with(why), "{wrong}");
    }
    let long = format!("[[type]]\nname = '{}'\n[[type.vertex]]\nname = 'a'", "x".repeat(257));
    assert_eq!(register(&mut peer, &long).await, "-LIMIT label_bytes_max 256|");
    let large = format!("#{}\n{BALANCE}", "x".repeat(1 << 20));
    assert_eq!(register(&mut peer, &large).await, "-ERR more bytes than types_bytes_max 1048576|");
    assert!(peer.say("TXN TYPE").await.starts_with("-ERR wrong number of arguments"));
    peer.check(&[
        ("TXN BEGIN TYPE Balance", "+OK|"),
        ("TXN STEP A", "+OK|"),
        ("TXN STEP x", "-ERR type 'Balance' has no vertex 'x'; it has A, C, S, w|"),
        ("TXN STEP S", "+OK|"),
        ("TXN ABORT", "+OK|"),
        ("TXN BEGIN TYPE Other", "+OK|"),
        ("TXN STEP anything", "+OK|"),
        ("TXN ABORT", "+OK|"),
    ])
    .await;
    let stats = peer.say("CACHE STATS").await;
    for figure in ["graphs|:1", "graphs_replaced|:1", "graphs_refused|:5", "types_without_graph|:1"] {
        assert!(stats.contains(&format!("|{figure}|")), "{figure}: {stats}");
    }
    assert!(stats.contains("|wrong_vertices|:1|"), "{stats}");
    assert!(
        stats.contains("|Balance|") && stats.contains("begun 1, accesses 4, critical length 3, groups "),
        "{stats}"
    );
    shared.engine.validate();
}

#[tokio::test]
async fn levels_vertices_and_ends_reach_the_policy() {
    let shared = detox("detox");
    let mut peer = Peer::new(&shared);
    register(&mut peer, BALANCE).await;
    peer.say("SET a:1 1\nSET c:1 1\nSET s:1 1").await;
    peer.say("CONFIG RESETSTAT").await;
    let run = async |peer: &mut Peer, end: &str| {
        peer.say("TXN BEGIN TYPE Balance\nTXN STEP A\nGET a:1").await;
        level(peer, "TXN STEP C\nGET c:1\nTXN STEP S\nGET s:1").await;
        level(peer, "TXN STEP w\nSET c:1 2").await;
        peer.say(end).await;
    };
    // Nothing is cached: writes let nothing in.
    run(&mut peer, "TXN COMMIT").await;
    let first = Metered {
        thr: Thr { length: 3, hits: 0 },
        transactions: 1,
        by_graph: 1,
        writers: 1,
        levels: 3,
        levels_hit: 0,
        reads: 3,
        reads_hit: 0,
    };
    assert_eq!(metered(&shared), first);
    // All is cached; the write costs its round trip.
    run(&mut peer, "TXN COMMIT").await;
    assert_eq!(metered(&shared).thr, Thr { length: 6, hits: 2 });
    assert_eq!((metered(&shared).reads_hit, metered(&shared).levels_hit), (3, 2));
    // What is rolled back is no transaction, whoever does it.
    run(&mut peer, "TXN ABORT").await;
    peer.say("TXN BEGIN TYPE Balance\nTXN STEP A\nGET a:1\nRESET").await;
    assert_eq!((metered(&shared).transactions, metered(&shared).thr), (2, Thr { length: 6, hits: 2 }));
    let stats = peer.say("CACHE STATS").await;
    assert!(stats.contains("|scored_by_graph|$1|2|") && stats.contains("|aborted|$1|2|"), "{stats}");
    assert!(stats.contains("|open|$1|0|") && stats.contains("|forgotten|$1|0|"), "{stats}");
    let explained = peer.say("CACHE EXPLAIN s:1").await;
    assert!(
        explained.contains("asked for 2 times") && explained.contains("S of Balance saves a round trip"),
        "{explained}"
    );
    assert!(explained.contains("together with C"), "{explained}");
    let alone = peer.say("CACHE EXPLAIN a:1").await;
    assert!(alone.contains("A of Balance saves a round trip by itself"), "{alone}");
    shared.engine.validate();
}

#[tokio::test]
async fn plain_commands_batches_and_scripts_are_transactions() {
    let shared = detox("detox");
    let mut peer = Peer::new(&shared);
    let mut before = metered(&shared);
    let mut counted = |shared: &Shared| {
        let now = metered(shared);
        let (all, levels) = (now.transactions - before.transactions, now.levels - before.levels);
        before = now;
        (all, levels)
    };
    peer.say("SET k:1 v").await;
    assert_eq!(counted(&shared), (1, 1), "a blind write is one level");
    peer.say("GET k:1").await;
    peer.say("GET k:1").await;
    assert_eq!(counted(&shared), (2, 2));
    peer.say("MGET k:1 k:2 k:3").await;
    assert_eq!(counted(&shared), (1, 1));
    peer.say("GET k:1\nGET k:2\nMGET k:3 k:4\nGET k:5").await;
    assert_eq!(counted(&shared), (1, 1), "a batch that only reads is one");
    peer.say("GET k:1\nSET k:2 v\nGET k:3").await;
    assert_eq!(counted(&shared), (3, 3), "any other is several");
    peer.say("INCR n").await;
    assert_eq!(counted(&shared), (1, 2), "what is written is behind what is read");
    peer.say("MULTI\nGET k:1\nSET k:9 v\nINCR n\nEXEC").await;
    assert_eq!(counted(&shared), (1, 2));
    peer.say("MULTI\nGET k:1\nGET k:2\nEXEC").await;
    assert_eq!(counted(&shared), (1, 1));
    peer.say("HSET k:1 f v").await;
    assert_eq!(counted(&shared), (0, 0), "an error changes nothing");
    // The five keys of the batch are known to go together: 1 of 5, and what they were asked for before.
    let explained = peer.say("CACHE EXPLAIN k:5").await;
    assert!(explained.contains("at the same time (level 0)"), "{explained}");
    let stats = peer.say("CACHE STATS").await;
    assert!(stats.contains("|open|$1|0|"), "{stats}");
    shared.engine.validate();
}

#[tokio::test]
async fn a_client_that_names_its_reads_only_is_understood() {
    let shared = detox("detox");
    let mut peer = Peer::new(&shared);
    register(&mut peer, BALANCE).await;
    for _ in 0..2 {
        peer.say("TXN BEGIN TYPE Balance\nTXN STEP A\nGET a:1").await;
        level(&mut peer, "TXN STEP C\nGET c:1\nTXN STEP S\nGET s:1").await;
        level(&mut peer, "SET c:1 2\nTXN COMMIT").await;
    }
    let metered = metered(&shared);
    assert_eq!((metered.by_graph, metered.thr), (2, Thr { length: 6, hits: 2 }));
    let stats = peer.say("CACHE STATS").await;
    assert!(stats.contains("|scored_by_graph|$1|2|") && stats.contains("|outside_their_graph|$1|0|"), "{stats}");
}

#[tokio::test]
async fn whoever_follows_no_transactions_is_told_of_none() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.say("SET k v\nGET k\nMGET k l").await;
    assert!(shared.engine.cache().meter().is_none() && !shared.engine.cache().follows_transactions());
    assert_eq!(shared.engine.number(), 0);
    let stats = peer.say("CACHE STATS").await;
    assert!(!stats.contains("|thr|") && !stats.contains("|graphs|"), "{stats}");
    // Until somebody asks for it.
    shared.engine.cache().measure_transactions();
    peer.say("GET k").await;
    assert_eq!(metered(&shared).thr, Thr { length: 1, hits: 1 });
    assert!(peer.say("CACHE STATS").await.contains("|thr|"));
}

#[tokio::test]
async fn a_key_that_left_is_explained_by_what_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.toml"), BALANCE).unwrap();
    let shared = detox("detox");
    shared.read_graphs(folder.path(), None).unwrap();
    std::fs::write(folder.path().join("c.toml"), BALANCE).unwrap();
    let twice = shared.read_graphs(folder.path(), None).unwrap_err();
    assert!(twice.contains("c.toml") && twice.contains("stands in another file"), "{twice}");
    // Files are read again with all others.
    std::fs::write(folder.path().join("c.toml"), BALANCE.replace("Balance", "Second")).unwrap();
    shared.reload().await;
    assert_eq!(shared.graphs.figures().graphs, 2);
    let mut peer = Peer::new(&shared);
    // More than the 64 MiB of the cache.
    let value = "v".repeat(1 << 20);
    for number in 0..80 {
        peer.say(&format!("SET k:{number} {value}\nGET k:{number}\nGET k:{number}")).await;
    }
    let mut gone = Vec::new();
    for number in 0..80 {
        let line = peer.say(&format!("CACHE EXPLAIN k:{number}")).await;
        gone.extend(line.contains("not cached").then_some(line));
    }
    assert!(!gone.is_empty(), "something had to go");
    assert!(
        gone.iter().any(|line| line.contains("policy detox: asked for ") && line.contains("displaces")),
        "{gone:?}"
    );
    assert_eq!(peer.say("CACHE EXPLAIN never").await, "$25|not cached | policy detox|");
}
