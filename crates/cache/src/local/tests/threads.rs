//! Many threads at once.

use std::collections::HashMap;
use std::sync::Mutex;

use super::*;

const THREADS: u64 = 4;

fn steps() -> u64 {
    if cfg!(miri) { 60 } else { 20_000 }
}

/// Sums come out exact only if no change is lost and none happens twice. The cache is so large that no guard of a
/// thread that does not run keeps too much.
#[test]
fn no_change_is_lost() {
    let cache: Cache<u64, u64> = Cache::new(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for step in 0..steps() {
                    let computed = cache.compute(step % 3, |sum| Op::Insert(sum.map_or(1, |sum| sum + 1)));
                    assert!(matches!(computed, Computed::Inserted | Computed::Replaced), "{computed:?}");
                }
            });
        }
    });
    let sum: u64 = (0..3).filter_map(|key| cache.get(&key)).sum();
    assert_eq!(sum, THREADS * steps());
}

/// Tokens that are taken out of one entry and put into another, beside inserts that evict: each is in one place.
#[test]
fn each_value_leaves_once() {
    let left: Arc<Mutex<HashMap<u64, Cause>>> = Arc::default();
    let log = left.clone();
    let listener = move |_: &u64, value: &u64, cause| {
        assert!(log.lock().expect("whole").insert(*value, cause).is_none(), "{value} left before");
    };
    let cache: Cache<u64, u64> =
        Cache::builder().capacity(50).listener(listener).time_to_live(Duration::from_micros(300)).build();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for step in 0..steps() {
                    let (key, value) = (random.u64(..80), thread << 32 | step);
                    match step % 16 {
                        0 => drop(cache.remove(&key)),
                        1 => drop(cache.compute(key, |_| Op::Remove)),
                        2 if step % 1024 == 2 => drop(cache.set_capacity(random.usize(1..60))),
                        3 if step % 1024 == 3 => drop(cache.invalidate_if(|_, value| value % 2 == 0)),
                        4 if step % 4096 == 4 => cache.clear(),
                        5 => cache.run_pending(),
                        6..9 => drop(cache.compute(key, |_| Op::Insert(value))),
                        9 => drop(cache.get_with(key, || value)),
                        _ => drop(cache.insert(key, value)),
                    }
                    assert!(cache.weight() <= 60);
                }
            });
        }
    });
    let there: Vec<u64> = cache.iter().map(|(_, value)| value).collect();
    let left = left.lock().expect("whole").clone();
    assert!(there.iter().all(|value| !left.contains_key(value)), "what is there has not left");
    for cause in Cause::ALL {
        assert!(cfg!(miri) || left.values().any(|left| *left == cause), "{cause:?} was tried");
    }
    cache.entries.validate_all();
}

/// A walk meets all that stays, each once, while others come and go and the table grows and shrinks.
#[test]
fn a_walk_meets_what_stays() {
    let cache: Cache<u64, u64> = Cache::new(1 << 20);
    let (staying, moving) = if cfg!(miri) { (20, 100) } else { (500, 20_000) };
    (0..staying).for_each(|key| _ = cache.insert(key, key));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let mut met: Vec<u64> = cache.iter().map(|(key, _)| key).collect();
                met.sort_unstable();
                assert!(met.windows(2).all(|pair| pair[0] < pair[1]), "each once");
                assert!(met.iter().copied().take(staying as usize).eq(0..staying), "all that stays");
            }
        });
        for round in 1..=3u64 {
            (0..moving).for_each(|key| _ = cache.insert(round << 32 | key, 0));
            (0..moving).for_each(|key| _ = cache.invalidate(&(round << 32 | key)));
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Nothing expired is answered, while time goes on beside.
#[test]
fn nothing_expired_is_answered() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> =
        Cache::builder().capacity(100).time_to_live(Duration::from_nanos(50)).clock(hand.clone()).build();
    // The longest that a write took, and that what was answered is older than the question. A thread may stop between
    // any two steps, so only when all have ended is it known how long each write took.
    let (slowest, oldest) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..steps()).for_each(|_| hand.advance(7)));
        for thread in 0..2u64 {
            let (cache, hand, slowest, oldest) = (&cache, &hand, &slowest, &oldest);
            scope.spawn(move || {
                let now = || hand.now().as_nanos() as u64;
                for step in 0..steps() {
                    let before = now();
                    match (step + thread) % 3 {
                        // The value is the time before it was written.
                        0 => drop(cache.insert(step % 20, before)),
                        1 => drop(cache.get_with(step % 20, || before)),
                        _ => {
                            let written = cache.get(&(step % 20)).unwrap_or(before);
                            oldest.fetch_max(before.saturating_sub(written), Ordering::Relaxed);
                            continue;
                        }
                    }
                    slowest.fetch_max(now() - before, Ordering::Relaxed);
                }
            });
        }
    });
    let (slowest, oldest) = (slowest.into_inner(), oldest.into_inner());
    assert!(oldest <= 50 + slowest, "{oldest} ns old, and no write took more than {slowest}");
    hand.advance(51);
    assert_eq!((cache.iter().count(), cache.get(&1), cache.peek(&2)), (0, None, None));
}

/// A capacity that changes beside writers is kept at the end, and no credit is lost.
#[test]
fn a_capacity_that_changes() {
    let cache: Cache<u64, u64> = Cache::builder().capacity(100_000).weigher(|key, _| (*key % 50) as usize).build();
    let capacities = [1000, 50, 200_000, 0, 5000, 100_000];
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let cache = &cache;
            scope.spawn(move || {
                (0..steps()).for_each(|step| _ = cache.insert((thread << 32 | step) * 7 % 10_007, step));
            });
        }
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            for capacity in capacities {
                assert_eq!(cache.set_capacity(capacity), Ok(()));
                assert!(cache.capacity() == capacity && cache.weight() <= capacity);
            }
        }
    });
    cache.entries.validate_all();
    assert!(cache.insert(1, 1));
}
