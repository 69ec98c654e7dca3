//! What a hit of the document cache costs by policy: throughput by one thread and by two, in turns, and, for callgrind,
//! a run by one thread of so many hits (`hits POLICY COUNT`).
//!
//! `cargo run --release -p forebay --example hits`; all keys are in, and are asked for by Zipf 0.9.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context};
use forebay::policy::{POLICIES, Policy};
use forebay::runtime::simulated::SplitMix;
use forebay::{Key, Read, Value, Version};

const KEYS: usize = 100_000;
const HITS: usize = 1_000_000;
const ROUNDS: usize = 5;

fn keys() -> Vec<Key> {
    (0..KEYS).map(|number| Key::new(0, format!("key:{number:08}").as_bytes())).collect()
}

/// Every key is in, and was hit.
fn filled(policy: &'static Policy, keys: &[Key]) -> Cache {
    let options = CacheOptions { budget_bytes: 1 << 30, partitions: 16, policy, policy_values: Vec::new() };
    let (cache, context) = (Cache::new(&options), Context::default());
    let read = Read { value: Some(Value::bytes(vec![b'x'; 64])), version: Version { incarnation: 1, sequence: 1 } };
    for key in keys {
        if let Begin::Lead(fill) = cache.begin_fill(key) {
            fill.complete(&read, &context, AccessKind::Read);
        }
        black_box(cache.get_published(key.borrow(), &context));
    }
    cache
}

/// Numbers of keys by Zipf 0.9, in an order that has nothing to do with where the keys are.
fn draw(count: usize, seed: u64) -> Vec<u32> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=KEYS).map(|rank| (sum += (rank as f64).powf(-0.9), sum).1).collect();
    let mut random = SplitMix::new(seed);
    let rank = |random: &mut SplitMix| {
        let at = (random.draw() >> 11) as f64 / (1u64 << 53) as f64 * sum;
        sums.partition_point(|sum| *sum <= at).min(KEYS - 1)
    };
    (0..count).map(|_| (rank(&mut random) * 7919 % KEYS) as u32).collect()
}

#[inline(never)]
fn hits(cache: &Cache, keys: &[Key], drawn: &[u32], client: u32) -> usize {
    let context = Context { client, ..Context::default() };
    let hit = |number: &u32| cache.get_published(keys[*number as usize].borrow(), &context).is_some();
    drawn.iter().map(|number| usize::from(black_box(hit(number)))).sum()
}

/// Millions of hits in a second, of all threads together.
fn rate(cache: &Cache, keys: &[Key], drawn: &[Vec<u32>]) -> f64 {
    let began = Instant::now();
    let found: usize = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (client, drawn) in (1..).zip(drawn) {
            threads.push(scope.spawn(move || hits(cache, keys, drawn, client)));
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    });
    assert!(found > 0, "they are in");
    found as f64 / began.elapsed().as_secs_f64() / 1e6
}

fn main() {
    let (keys, arguments) = (keys(), std::env::args().skip(1).collect::<Vec<_>>());
    if let [name, count] = arguments.as_slice() {
        let policy = POLICIES.iter().find(|policy| policy.name == name).expect("a policy");
        let (cache, drawn) = (filled(policy, &keys), draw(count.parse().expect("a number"), 1));
        return println!("{} hits", hits(&cache, &keys, &drawn, 1));
    }
    let caches: Vec<(&str, Cache)> = POLICIES.iter().map(|policy| (policy.name, filled(policy, &keys))).collect();
    let mut rates: BTreeMap<(&str, usize), Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS as u64 {
        let drawn: Vec<Vec<u32>> = (0..2).map(|thread| draw(HITS, 2 * round + thread)).collect();
        for ((name, cache), threads) in caches.iter().flat_map(|cache| [1, 2].map(|threads| (cache, threads))) {
            rates.entry((name, threads)).or_default().push(rate(cache, &keys, &drawn[..threads]));
        }
    }
    let median = |name, threads| {
        let mut of = rates[&(name, threads)].clone();
        of.sort_unstable_by(f64::total_cmp);
        of[of.len() / 2]
    };
    println!("| policy | 1 thread, Mops | 2 threads, Mops | gain |\n|---|---|---|---|");
    for (name, _) in &caches {
        let (one, two) = (median(name, 1), median(name, 2));
        println!("| `{name}` | {one:.2} | {two:.2} | {:.2} |", two / one);
    }
}
