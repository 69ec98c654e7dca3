//! What a guard costs: ours, crossbeam-epoch's and seize's, and a look-up under a guard for itself or of many.
//!
//! `target/dist/pins [rounds]` prints the fastest and the median time of each in nanoseconds; all take turns. With a
//! name in place of the rounds it does one of them alone, for callgrind.

use std::hint::black_box;
use std::time::Instant;

use forebay_cache::Cache;

/// Steps of a slice, short enough that many slices are not disturbed.
const STEPS: usize = 20_000;

const KEYS: u64 = 1000;

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let cache: Cache<u64, u64> = Cache::new(10_000);
    (0..KEYS).for_each(|key| {
        cache.insert(key, key);
    });
    let collector = seize::Collector::new();
    let ours = || (0..STEPS).for_each(|_| drop(black_box(cache.guard())));
    let crossbeam = || (0..STEPS).for_each(|_| drop(black_box(crossbeam_epoch::pin())));
    let seized = || (0..STEPS).for_each(|_| drop(black_box(collector.enter())));
    let looks = || {
        (0..STEPS as u64).for_each(|step| {
            black_box(cache.get(&(step % KEYS)));
        });
    };
    let looks_under_one = || {
        for batch in 0..STEPS as u64 / 16 {
            let guarded = cache.guard();
            (batch * 16..batch * 16 + 16).for_each(|step| {
                black_box(guarded.get(&(step % KEYS)));
            });
        }
    };
    let empty = || {
        (0..STEPS).for_each(|step| {
            black_box(step);
        })
    };
    let runs: [(&str, &dyn Fn()); 6] = [
        ("empty", &empty),
        ("ours", &ours),
        ("crossbeam", &crossbeam),
        ("seize", &seized),
        ("get", &looks),
        ("get-16", &looks_under_one),
    ];
    if let Some((_, run)) = runs.iter().find(|(name, _)| *name == argument) {
        return run();
    }
    let rounds = argument.parse().unwrap_or(300);
    let mut times = vec![Vec::new(); runs.len()];
    for _ in 0..rounds {
        for ((_, run), times) in runs.iter().zip(&mut times) {
            let from = Instant::now();
            run();
            times.push(from.elapsed().as_secs_f64() * 1e9 / STEPS as f64);
        }
    }
    for ((name, _), times) in runs.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.2} ns, median {:.2}", times[0], times[times.len() / 2]);
    }
}
