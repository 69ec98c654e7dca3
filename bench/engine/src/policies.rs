//! Every policy of the library under its cache: hits by one thread and by two.

use std::collections::BTreeMap;

use forebay_bench_engine::zipf::{Zipf, scattered};
use forebay_cache::Cache;
use forebay_cache::policy::POLICIES;

use crate::peers::{Bare, Peer};
use crate::report::median;
use crate::work::{HIT_CAPACITY, Mode, value};
use crate::{Options, Runner};

/// The policy that the goals compare others with.
const FIRST: &str = "s3-fifo";

/// Keys, all of which are in.
const KEYS: usize = 100_000;

const THREADS: [usize; 2] = [1, 2];

/// The table: throughput, the gain by the second thread, and the ratio to s3-fifo by one thread.
pub fn table(options: &Options) -> String {
    let keys: Vec<u64> = (0..KEYS as u64).map(scattered).collect();
    let mut caches: Vec<(&str, &str, Box<dyn Runner>)> = vec![("hashbrown", "-", Box::new(Bare::fill(&keys, KEYS)))];
    for policy in POLICIES {
        match Cache::<u64, u64>::builder().capacity(HIT_CAPACITY).policy(policy.name) {
            Ok(builder) => {
                let cache = builder.build();
                keys.iter().for_each(|&key| _ = cache.insert(key, value(key)));
                (0..2).for_each(|_| keys.iter().for_each(|key| _ = std::hint::black_box(cache.get(key))));
                caches.push((policy.name, told(policy), Box::new(cache)));
            }
            Err(error) => eprintln!("left out: {}: {error}", policy.name),
        }
    }
    let zipf = Zipf::new(KEYS, options.skew);
    let mut rates: BTreeMap<(&str, usize), Vec<f64>> = BTreeMap::new();
    let mut hits: BTreeMap<&str, f64> = BTreeMap::new();
    for round in 0..options.runs {
        for threads in THREADS {
            let draw = |thread| zipf.draw(options.requests, 1 + (round * THREADS.len() + thread) as u64);
            let parts: Vec<Vec<u64>> = (0..threads).map(draw).collect();
            let parts: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
            for (name, _, cache) in &caches {
                let (rate, hit) = cache.run(Mode::Hit, &parts);
                eprintln!("{name}, {threads} threads, round {round}: {rate:.2} Mops, {hit:.4} hits");
                rates.entry((name, threads)).or_default().push(rate);
                hits.insert(name, hit);
            }
        }
    }
    let of = |name, threads| rates.get(&(name, threads)).map_or(0.0, |rates| median(rates));
    let mut text = "**Policies, 100 % hits** (`Cache<u64, u64>`, 100,000 keys, Zipf 0.9; Mops over all threads)\n\n\
                    | | hears of hits by | 1 thread | 2 threads | gain | of s3-fifo, 1 thread | hit % |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (name, told, _) in &caches {
        let (one, two) = (of(name, 1), of(name, 2));
        let hit = 100.0 * hits.get(name).copied().unwrap_or(0.0);
        let (gain, share) = (two / one, one / of(FIRST, 1));
        text += &format!("| {name} | {told} | {one:.1} | {two:.1} | {gain:.2} | {share:.2} | {hit:.1} |\n");
    }
    text + "\n"
}

fn told(policy: &forebay_cache::policy::Policy) -> &'static str {
    use forebay_cache::policy::Hits;
    match policy.hits {
        Hits::Marks => "marks",
        Hits::Sampled => "buffers, some",
        _ => "buffers, all",
    }
}
