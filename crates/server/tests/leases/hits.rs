//! What clients serve from their copies, the server's policy does not see: HITS tells it.
//!
//! `FOREBAY_NIGHTLY=1 cargo test --release .. -- hits_of_clients --nocapture` prints what the server's cache gains by
//! it, as `docs/leases.md` has it.

use std::collections::HashMap;
use std::sync::Arc;

use forebay::cache::CacheOptions;
use forebay::key::KeyRef;
use forebay::policy::choose;
use forebay::runtime;
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions};
use forebay_server::{ServerOptions, Shared};

use super::support::{Peer, server_over};

/// A server over `store` with a small cache.
fn small(store: Arc<Memory>, policy: &str, budget_bytes: usize) -> Arc<Shared> {
    let policy = choose(policy).unwrap();
    let cache = CacheOptions { budget_bytes, partitions: 1, policy: policy.policy, policy_values: policy.values };
    let runtime = runtime::tokio::runtime(tokio::runtime::Handle::current());
    Arc::new(Shared::new(ServerOptions::new(Engine::new(EngineOptions::new(runtime, store, cache)))))
}

async fn filled(documents: usize, bytes: usize) -> Arc<Memory> {
    let memory = Arc::new(Memory::new());
    let mut peer = Peer::new(&server_over(memory.clone(), |_| {}));
    for from in (0..documents).step_by(500) {
        let pairs: Vec<String> =
            (from..documents.min(from + 500)).map(|n| format!("k{n} {}", "v".repeat(bytes))).collect();
        assert_eq!(peer.say(&format!("MSET {}", pairs.join(" "))).await, "+OK|");
    }
    memory
}

fn is_cached(shared: &Shared, number: usize) -> bool {
    let name = format!("k{number}");
    shared.engine.cache().peek(KeyRef { space: 0, name: name.as_bytes() }).is_some()
}

/// Whether a document that was fetched twice is cached behind a flood of others, of which each is read so often. With
/// the second fetch the server is told of hits.
async fn stays(policy: &str, hits: &str, reads: usize) -> bool {
    let shared = small(filled(600, 100).await, policy, 20_000);
    let mut peer = Peer::new(&shared);
    peer.say(&format!("LEASE GET 1 k0\nLEASE GET 1 k0{hits}")).await;
    for number in 1..300 {
        for _ in 0..reads {
            peer.say(&format!("LEASE GET 1 k{number}")).await;
        }
    }
    is_cached(&shared, 0)
}

/// A document that is read by copies and fetched now and then is as popular as all its reads make it, if the server is
/// told of them.
#[tokio::test]
async fn a_policy_hears_of_hits_elsewhere() {
    for (policy, reads) in [("s3-fifo", 1), ("lfu", 2)] {
        let without = [stays(policy, "", reads).await, stays(policy, " HITS 0", reads).await];
        assert_eq!((without, stays(policy, " HITS 16", reads).await), ([false; 2], true), "{policy}");
    }
}

/// One client's copies: until which of its reads each serves, and reads that it has served.
#[derive(Default)]
struct Copies(HashMap<usize, (usize, u64)>);

/// What became of the documents that the server was asked for.
#[derive(Default)]
struct Asked {
    documents: u64,
    hits: u64,
    requests: u64,
    whole: u64,
}

/// Transactions of four documents by Zipf's law, at eight clients with leases of `lease` transactions each.
async fn served(policy: &str, (documents, transactions): (usize, usize), lease: usize, tells: bool) -> Asked {
    let shared = small(filled(documents, 100).await, policy, documents * 300 / 20);
    let mut peers: Vec<(Peer, Copies)> = (0..8).map(|_| (Peer::new(&shared), Copies::default())).collect();
    let mut sums = vec![0.0];
    for rank in 1..=documents {
        sums.push(sums[rank - 1] + (rank as f64).powf(-0.99));
    }
    let (mut random, mut asked) = (fastrand::Rng::with_seed(1), Asked::default());
    for number in 0..transactions {
        let (peer, Copies(copies)) = &mut peers[number % 8];
        let mut missed: Vec<(usize, u64)> = Vec::new();
        for _ in 0..4 {
            let at = random.f64() * sums[documents];
            let document = sums.partition_point(|sum| *sum <= at) - 1;
            match copies.get_mut(&document) {
                Some((until, hits)) if number < *until => *hits += 1,
                found => {
                    let hits = found.map_or(0, |(_, hits)| *hits);
                    copies.insert(document, (number + 8 * lease, 0));
                    missed.push((document, hits));
                }
            }
        }
        if missed.is_empty() {
            continue;
        }
        if number > transactions / 4 {
            let hits = missed.iter().filter(|(document, _)| is_cached(&shared, *document)).count();
            asked.documents += missed.len() as u64;
            asked.hits += hits as u64;
            asked.requests += 1;
            asked.whole += u64::from(hits == missed.len());
        }
        let names: Vec<String> = missed.iter().map(|(document, _)| format!("k{document}")).collect();
        let hits: Vec<String> = missed.iter().map(|(_, hits)| hits.to_string()).collect();
        let told = if tells { format!(" HITS {}", hits.join(" ")) } else { String::new() };
        peer.say(&format!("LEASE GET {} {}{told}", names.len(), names.join(" "))).await;
    }
    asked
}

#[tokio::test]
async fn hits_of_clients_and_what_they_do_to_the_cache() {
    let sizes = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { (2_000, 8_000) } else { (500, 1_000) };
    for policy in ["lru", "s3-fifo", "w-tinylfu"] {
        for lease in [20, 500] {
            let mut line = format!("{policy}, leases of {lease} transactions:");
            for tells in [false, true] {
                let asked = served(policy, sizes, lease, tells).await;
                let share = |of: u64, all: u64| 100.0 * of as f64 / all as f64;
                let (hits, whole) = (share(asked.hits, asked.documents), share(asked.whole, asked.requests));
                let with = if tells { "; with HITS " } else { "" };
                line.push_str(&format!(" {with}{hits:.1} % of documents, {whole:.1} % of requests"));
                assert!(asked.hits > 0 && asked.hits < asked.documents);
            }
            println!("{line}");
        }
    }
}
