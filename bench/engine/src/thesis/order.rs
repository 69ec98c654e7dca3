//! Why .99|.99 gains on one kind of trace and loses on the other: each test as it is, and with its requests shuffled.
//!
//! Shuffled, a trace has the same keys as often, and no order in time: popularity does not change any more.

use std::fmt::Write;

use forebay_thesis::{Lru, SequentialDeferredLru, Thresholds};

use crate::contestants::{SETTINGS, shown};
use crate::curves::TESTS;
use crate::traces::of_thesis;
use crate::{Args, Data, Failed};

/// Hits and what the cache did, by one thread.
pub fn measure(args: &Args) -> Result<Data, Failed> {
    let mut csv = String::from(
        "test,capacity,order,cache,hit_percent,pulls,purges,evicted_per_purge,full_percent,noted_percent\n",
    );
    for (name, part) in TESTS {
        let test = of_thesis(name)?.test(args, args.requests, *part)?;
        let mut shuffled = test.requests.clone();
        shuffle(&mut shuffled);
        for (order, requests) in [("as it is", &test.requests), ("shuffled", &shuffled)] {
            let begin = format!("{},{},{order}", test.name, test.capacity);
            writeln!(csv, "{begin},LRU,{:.2},,,,,", lru(requests, test.capacity))?;
            for setting in SETTINGS {
                writeln!(csv, "{begin},DLRU {},{}", shown(setting), deferred(requests, test.capacity, setting))?;
            }
        }
    }
    Ok(vec![("deferred-order", csv)])
}

/// By Fisher and Yates, the same way each time.
fn shuffle(requests: &mut [u64]) {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for at in (1..requests.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        requests.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

fn lru(requests: &[u64], capacity: usize) -> f64 {
    let mut cache = Lru::new(capacity);
    let hit = |key: &&u64| cache.get(**key).is_some() || !cache.insert(**key, 0);
    100.0 * requests.iter().filter(hit).count() as f64 / requests.len() as f64
}

/// The last fields of a line. How full the cache is, and how much of its capacity is noted, are means over requests.
fn deferred(requests: &[u64], capacity: usize, setting: Thresholds) -> String {
    let mut cache = SequentialDeferredLru::new(capacity, setting);
    let (mut hits, mut full, mut noted) = (0, 0, 0);
    for &key in requests {
        match cache.get(key) {
            Some(_) => hits += 1,
            None => _ = cache.insert(key, 0),
        }
        let counts = cache.counts();
        full += counts.inserted - counts.evicted;
        noted += cache.noted();
    }
    let counts = cache.counts();
    let mean = |sum: usize| 100.0 * sum as f64 / (requests.len() * capacity) as f64;
    let hit_percent = 100.0 * f64::from(hits) / requests.len() as f64;
    let per_purge = counts.evicted as f64 / counts.purges.max(1) as f64;
    let (pulls, purges) = (counts.pulls, counts.purges);
    format!("{hit_percent:.2},{pulls},{purges},{per_purge:.1},{:.1},{:.1}", mean(full), mean(noted))
}
