//! Threads that replay requests, and what is written of them.

use std::sync::Barrier;
use std::time::Instant;

use forebay_bench_engine::machine::load_average;

use crate::contestants::Contestant;
use crate::traces::Test;

/// A cache that is empty at first.
pub trait Replays: Sync {
    /// Asks for all keys in turn, inserts what is not there, and counts what was.
    fn replay(&self, requests: &[u64]) -> u64;
}

/// Million requests per second over all threads, and the share of hits.
pub type Outcome = (f64, f64);

/// What some threads do that replay all requests each, from an empty cache.
pub fn replay(cache: &dyn Replays, requests: &[u64], threads: usize) -> Outcome {
    let start = Barrier::new(threads);
    let done: Vec<(Instant, Instant, u64)> = std::thread::scope(|scope| {
        let run = || {
            start.wait();
            let from = Instant::now();
            let hits = cache.replay(requests);
            (from, Instant::now(), hits)
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        handles.into_iter().map(|handle| handle.join().expect("a replay does not panic")).collect()
    });
    let from = done.iter().map(|part| part.0).min().expect("there is a thread");
    let to = done.iter().map(|part| part.1).max().expect("there is a thread");
    let hits: u64 = done.iter().map(|part| part.2).sum();
    let total = (requests.len() * threads) as f64;
    (total / (to - from).as_secs_f64() / 1e6, hits as f64 / total)
}

/// Medians of several rounds.
pub struct Row {
    pub cache: String,
    pub threads: usize,
    pub mops: f64,
    pub hit_percent: f64,
    /// The machine's, at the end.
    pub load: String,
}

/// All contestants in turn, round after round, for each number of threads. What can't be run is left out.
pub fn measure(test: &Test, contestants: &[Contestant], threads: &[usize], rounds: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for &threads in threads {
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); contestants.len()];
        for _ in 0..rounds {
            for (contestant, outcomes) in contestants.iter().zip(&mut outcomes) {
                outcomes.extend(contestant.run(test, threads));
            }
        }
        for (contestant, mut outcomes) in contestants.iter().zip(outcomes) {
            let hits = outcomes.iter().map(|outcome| outcome.1).sum::<f64>() / outcomes.len() as f64;
            outcomes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let Some((mops, _)) = outcomes.get(outcomes.len() / 2).copied() else { continue };
            let cache = contestant.name.clone();
            eprintln!("{}, {threads} threads: {cache} {mops:.2} Mops, {:.2} % hits", test.name, 100.0 * hits);
            rows.push(Row { cache, threads, mops, hit_percent: 100.0 * hits, load: load_average() });
        }
    }
    rows
}
