//! What a guard costs: ours, crossbeam-epoch's and seize's, and a look-up under a guard for itself or of many.
//!
//! The rows `-load` read one pointer as each crate protects it: each read under another guard, or 16 under one.
//!
//! `target/dist/pins [rounds]` prints the fastest and the median time of each in nanoseconds; all take turns. With a
//! name in place of the rounds it does one of them alone, for callgrind.

use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Instant;

use forebay_cache::Cache;

/// Steps of a slice, short enough that many slices are not disturbed.
const STEPS: usize = 20_000;

const KEYS: u64 = 1000;

/// Steps under one guard.
const BATCH: usize = 16;

/// What is read under the guards of all three.
static NUMBER: AtomicU64 = AtomicU64::new(7);

/// All steps in batches, each under a guard that `pin` takes.
#[inline(always)]
fn batches<G>(batch: usize, pin: impl Fn() -> G, load: impl Fn(&G)) {
    for _ in 0..STEPS / batch {
        let guard = pin();
        (0..batch).for_each(|_| load(&guard));
    }
}

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
        for batch in 0..(STEPS / BATCH) as u64 {
            let guarded = cache.guard();
            (batch * BATCH as u64..(batch + 1) * BATCH as u64).for_each(|step| {
                black_box(guarded.get(&(step % KEYS)));
            });
        }
    };
    let empty = || {
        (0..STEPS).for_each(|step| {
            black_box(step);
        })
    };
    let read = |number: *mut AtomicU64| _ = black_box(number);
    let plain = AtomicPtr::new((&raw const NUMBER).cast_mut());
    let epoch: crossbeam_epoch::Atomic<AtomicU64> = crossbeam_epoch::Atomic::from(&raw const NUMBER);
    let ours_loads = |batch| batches(batch, || cache.guard(), |_| read(plain.load(Ordering::Acquire)));
    let crossbeam_loads = |batch| {
        batches(batch, crossbeam_epoch::pin, |guard| read(epoch.load(Ordering::Acquire, guard).as_raw().cast_mut()));
    };
    let seize_loads = |batch| {
        batches(batch, || collector.enter(), |guard| read(seize::Guard::protect(guard, &plain, Ordering::Acquire)));
    };
    let runs: [(&str, &dyn Fn()); 12] = [
        ("empty", &empty),
        ("ours", &ours),
        ("crossbeam", &crossbeam),
        ("seize", &seized),
        ("get", &looks),
        ("get-16", &looks_under_one),
        ("ours-load", &|| ours_loads(1)),
        ("crossbeam-load", &|| crossbeam_loads(1)),
        ("seize-load", &|| seize_loads(1)),
        ("ours-load-16", &|| ours_loads(BATCH)),
        ("crossbeam-load-16", &|| crossbeam_loads(BATCH)),
        ("seize-load-16", &|| seize_loads(BATCH)),
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
