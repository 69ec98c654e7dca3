//! Each value is dropped once, not before a guard that may see it, and what a guard keeps is bounded.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{Numbers, Pointers, Present, Put, spread, validate};

/// Counts its drops, and keeps a poisoned number from then on.
struct Counted {
    key: u64,
    number: usize,
    log: Arc<Mutex<Vec<u8>>>,
    alive: AtomicUsize,
}

const ALIVE: usize = 0xA11;

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(self.alive.swap(0xDEAD, Ordering::Relaxed), ALIVE, "dropped once");
        self.log.lock().expect("no drop panics")[self.number] += 1;
    }
}

struct Counting {
    cache: Pointers<Counted>,
    log: Arc<Mutex<Vec<u8>>>,
}

impl Counting {
    fn insert(&self, key: u64, weight: usize) {
        let number = {
            let mut log = self.log.lock().expect("no drop panics");
            log.push(0);
            log.len() - 1
        };
        let item = Counted { key, number, log: self.log.clone(), alive: AtomicUsize::new(ALIVE) };
        let is = |_: &Counted, other: &Counted| other.key == key;
        self.cache.put((spread(key), weight, item), is, (Present::Replaced, false), |_| ());
    }

    /// Reads under a guard that is held for a while.
    fn read(&self, keys: &[u64]) {
        let guard = self.cache.pin();
        let found: Vec<&Counted> =
            keys.iter().filter_map(|&key| self.cache.get(spread(key), &guard, |item| item.key == key)).collect();
        std::thread::yield_now();
        for item in found {
            assert_eq!(item.alive.load(Ordering::Relaxed), ALIVE, "nothing is read after it was dropped");
        }
    }
}

#[test]
fn each_value_is_dropped_once() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let counting = Counting { cache: Pointers::build(if cfg!(miri) { 40 } else { 300 }, 1), log: log.clone() };
    let over = AtomicBool::new(false);
    let steps = if cfg!(miri) { 150 } else { 20_000 };
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (counting, over) = (&counting, &over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !over.load(Ordering::Relaxed) {
                    let keys: Vec<u64> = (0..4).map(|_| random.u64(..500)).collect();
                    counting.read(&keys);
                }
            });
        }
        let writers: Vec<_> = (10..12)
            .map(|seed| {
                let counting = &counting;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for step in 0..steps {
                        let key = random.u64(..500);
                        match step % 7 {
                            0 => counting.cache.remove(spread(key), |item| item.key == key, |_| ()),
                            _ => counting.insert(key, random.usize(1..4)),
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no writer panics"));
        over.store(true, Ordering::Relaxed);
    });
    validate::validate(&counting.cache, |item| assert_eq!(item.alive.load(Ordering::Relaxed), ALIVE));
    let live = counting.cache.len();
    validate::flush(&counting.cache);
    validate::flush(&counting.cache);
    let dropped = log.lock().expect("no drop panics").iter().filter(|&&drops| drops == 1).count();
    let all = log.lock().expect("no drop panics").len();
    assert_eq!((counting.cache.deferred(), dropped + live), (0, all), "without guards nothing is left");
    drop(counting);
    assert!(log.lock().expect("no drop panics").iter().all(|&drops| drops == 1), "the rest goes with the cache");
}

/// A guard that is held on and on: what stays in memory is bounded, and newcomers come in again when it is gone.
#[test]
fn what_a_guard_keeps_is_bounded() {
    let sizes: &[(usize, u32)] = if cfg!(miri) { &[(1, 0), (20, 0)] } else { &[(1, 0), (100, 0), (4000, 2)] };
    for &(capacity, shards_log2) in sizes {
        let cache = Numbers::new(capacity, shards_log2);
        for key in 0..2 * capacity as u64 {
            cache.insert(key, key);
        }
        let guard = cache.cache.pin();
        let mut refused = 0;
        for key in 0..20 * capacity as u64 {
            refused += usize::from(cache.insert(1 << 30 | key, key) == Put::Refused);
            let inside = validate::inside(&cache.cache);
            let all = cache.cache.weight() + cache.cache.deferred() + inside.in_limbo;
            assert!(all <= capacity + capacity * 5 / 32 + 2, "{all} of {capacity}");
        }
        assert!(refused > 0, "what is beyond the bound is refused");
        // What is replaced is not kept as an old value.
        let (key, _) = cache.entries()[0];
        assert_eq!((cache.insert(key, 1 << 40), cache.peek(key)), (Put::Refused, None));
        drop(guard);
        assert_eq!(cache.insert(5 << 40, 1), Put::Inserted);
        assert_eq!(cache.peek(5 << 40), Some(1));
        cache.entries();
    }
}

/// What a guard has kept is dropped in small steps when it ends, by the operations that come then.
#[test]
fn what_a_guard_kept_is_dropped_in_steps() {
    let kept: u64 = if cfg!(miri) { 600 } else { 8000 };
    // As many as leave together, and as many such bags as go in a step (`limbo.rs`, `reclaim.rs`).
    let most = 64 * 4;
    let log = Arc::new(Mutex::new(Vec::new()));
    let counting = Counting { cache: Pointers::build(10 * kept as usize, 0), log: log.clone() };
    let dropped = || log.lock().expect("no drop panics").iter().filter(|&&drops| drops > 0).count();
    (0..kept).for_each(|key| counting.insert(key, 1));
    let guard = counting.cache.pin();
    (0..kept).for_each(|key| counting.cache.remove(spread(key), |item| item.key == key, |_| ()));
    assert_eq!(dropped(), 0, "the guard keeps all");
    drop(guard);
    let (mut before, mut steps) = (0, 0);
    while before < kept as usize {
        // Each brings in what the next one replaces.
        counting.insert(kept, 1);
        let now = dropped();
        assert!(now - before <= most, "{} are dropped in one step", now - before);
        (before, steps) = (now, steps + 1);
        assert!(steps <= kept, "it goes on");
    }
}

/// A guard inside of another is none that counts, and a guard keeps what was there when it began.
#[test]
fn guards_nest() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let counting = Counting { cache: Pointers::build(50, 0), log };
    counting.insert(1, 1);
    let outer = counting.cache.pin();
    let item = counting.cache.get(spread(1), &outer, |item| item.key == 1).expect("it was inserted");
    drop(counting.cache.pin());
    counting.insert(1, 1);
    for _ in 0..3 {
        validate::flush(&counting.cache);
    }
    assert_eq!(item.alive.load(Ordering::Relaxed), ALIVE, "the outer guard keeps it");
    assert_eq!(counting.log.lock().expect("no drop panics")[..], [0, 0]);
    drop(outer);
    validate::flush(&counting.cache);
    assert_eq!(counting.log.lock().expect("no drop panics")[..], [1, 0]);
}

/// Guards of threads that have ended keep nothing, and their seats are taken again.
#[test]
fn threads_come_and_go() {
    let cache = Numbers::new(10, 0);
    for round in 0..if cfg!(miri) { 5 } else { 200 } {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| cache.insert(round, round));
            }
        });
    }
    validate::flush(&cache.cache);
    validate::flush(&cache.cache);
    assert_eq!(cache.cache.deferred(), 0);
    cache.entries();
}
