//! All interleavings of readers and writers of records, with the stale loads that the memory model allows.

use loom::sync::Arc;
use loom::thread;

use super::super::super::boxed::{Own, Record, Word};
use super::super::super::pointers::{Pointers, Put};
use super::super::super::reclaim::{Collector, place};
use super::super::super::shard::Present;
use super::super::models::{check, finders};
use crate::mutation::Fault;

type Pair = (u64, u64);

/// Keys below 10 have home 0, and of those 1 and 3 are on one side of a split, 2 and 4 on the other.
fn hash(key: u64) -> u64 {
    (key & 1) << 63 | (key / 10) << 16 | key
}

struct Cache(Pointers<Pair>);

impl Cache {
    fn new(capacity: usize) -> Arc<Cache> {
        Arc::new(Cache(Pointers::build(capacity, 0)))
    }

    fn with(capacity: usize, keys: &[u64]) -> Arc<Cache> {
        let cache = Cache::new(capacity);
        keys.iter().for_each(|&key| {
            cache.put(key, key);
        });
        cache
    }

    fn get(&self, key: u64) -> Option<u64> {
        let guard = self.0.pin();
        self.0.get(hash(key), &guard, |pair| pair.0 == key).map(|pair| pair.1)
    }

    fn put(&self, key: u64, value: u64) -> bool {
        let same = |one: &Pair, other: &Pair| one.0 == other.0;
        self.0.put((hash(key), 1, (key, value)), same, (Present::Replaced, false), |put| put != Put::Refused)
    }

    fn remove(&self, key: u64) {
        self.0.remove(hash(key), |pair| pair.0 == key, |_| ());
    }
}

/// Another thread, which has a seat to itself.
fn beside<R: 'static>(run: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
    thread::spawn(move || {
        place::set(1);
        run()
    })
}

struct Bare {
    word: Word<Record<u64>>,
    collector: Collector<Own<Record<u64>>>,
}

fn record(item: u64) -> Own<Record<u64>> {
    Own::record(0, 1, item).0
}

impl Bare {
    fn read(&self) -> Option<u64> {
        let guard = self.collector.pin();
        self.word.look(&guard).entry().map(|record| *record.item())
    }
}

/// A record is retired beside a reader, which has as many guards, one after the other.
fn retired(guards: usize) {
    let bare = Arc::new(Bare { word: Word::empty(), collector: Collector::new() });
    let old = record(1);
    bare.word.name(&*old, 0, false);
    let reader = {
        let bare = bare.clone();
        beside(move || (0..guards).map(|_| bare.read()).collect::<Vec<_>>())
    };
    let new = record(2);
    bare.word.name(&*new, 0, false);
    bare.collector.retire(vec![old], 1);
    let found = reader.join().expect("it does not panic");
    assert!(found.iter().all(|item| matches!(item, Some(1 | 2))), "{found:?}");
    bare.collector.collect_with(drop);
    assert_eq!(bare.collector.deferred(), 0, "without guards nothing is left");
    drop(new);
}

/// A value is replaced, and replaced again, so that the first is dropped.
fn replaced() {
    let cache = Cache::with(16, &[1]);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(1))
    };
    assert!(cache.put(1, 2) && cache.put(1, 3));
    let found = reader.join().expect("it does not panic");
    assert!(matches!(found, Some(1..=3)), "{found:?}");
    assert_eq!(cache.get(1), Some(3));
}

/// A word goes from one key to another.
fn reused(key: u64) {
    let cache = Cache::with(1, &[1]);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(key))
    };
    assert!(cache.put(3, 3));
    let found = reader.join().expect("it does not panic");
    assert!(found.is_none() || found == Some(key), "{found:?}");
    assert_eq!((cache.get(1), cache.get(3)), (None, Some(3)));
}

/// A reader finds its key while the segment is split around it.
fn split() {
    let cache = Cache::with(16, &[1, 2]);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(1))
    };
    assert!(cache.put(3, 3));
    assert_eq!(reader.join().expect("it does not panic"), Some(1), "it was there all the time");
    assert_eq!((cache.get(1), cache.get(2), cache.get(3)), (Some(1), Some(2), Some(3)));
}

/// A reader in a segment that was split finds records that were retired since.
fn left_behind() {
    let cache = Cache::with(16, &[1, 2]);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(1))
    };
    assert!(cache.put(3, 3) && cache.put(1, 5));
    let found = reader.join().expect("it does not panic");
    assert!(matches!(found, Some(1 | 5)), "{found:?}");
    assert_eq!(cache.get(1), Some(5));
}

/// A reader finds its key while two segments are joined.
fn joined() {
    let cache = Cache::with(16, &[1, 2, 3]);
    cache.remove(3);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(1))
    };
    cache.remove(2);
    assert_eq!(reader.join().expect("it does not panic"), Some(1), "it was there all the time");
}

/// The same while what its key was placed beyond goes.
fn displaced() {
    let cache = Cache::with(16, &[1, 3]);
    let reader = {
        let cache = cache.clone();
        beside(move || cache.get(3))
    };
    cache.remove(1);
    assert_eq!(reader.join().expect("it does not panic"), Some(3), "it was there all the time");
    assert_eq!((cache.get(1), cache.get(3)), (None, Some(3)));
}

/// Two entries are published together beside a reader that looks twice.
fn published() {
    // So large that nothing is retired meanwhile: the collector's fence would stand for the marks' order.
    let cache = Cache::with(1000, &[1, 2]);
    let reader = {
        let cache = cache.clone();
        beside(move || {
            let guard = cache.0.pin();
            let looks = [1, 2].map(|key| cache.0.look(hash(key), &guard, |pair| pair.0 == key));
            let [Some(one), Some(two)] = looks else { return };
            let holds = |key, word| cache.0.unchanged(hash(key), &guard, word);
            if holds(1, one.word) && holds(2, two.word) {
                let news = (one.item.1 > 10, two.item.1 > 10);
                assert!(news.0 == news.1, "one is new and the other is old");
            }
        })
    };
    let group = [1, 2].map(|key| (hash(key), 1, (key, key + 10))).to_vec();
    cache.0.publish(group, |at, other| other.0 == at as u64 + 1);
    reader.join().expect("it does not panic");
    assert_eq!((cache.get(1), cache.get(2)), (Some(11), Some(12)));
}

const MODELS: &[(&str, fn())] = &[
    ("retired", || retired(1)),
    ("retired, guards in turn", || retired(2)),
    ("replaced", replaced),
    ("reused, the old", || reused(1)),
    ("reused, the new", || reused(3)),
    ("split", split),
    ("left behind", left_behind),
    ("joined", joined),
    ("displaced", displaced),
    ("published", published),
];

#[test]
fn all_hold() {
    for (name, model) in MODELS {
        let from = std::time::Instant::now();
        check(*model);
        println!("{name}: {:?}", from.elapsed());
    }
}

#[test]
fn gate() {
    for fault in [
        Fault::PinFenceMissing,
        Fault::LookFenceMissing,
        Fault::LookUnordered,
        Fault::SeatLeftUnordered,
        Fault::SeatTakenUnordered,
        Fault::DroppedUnderGuard,
        Fault::RetiredInSight,
        Fault::NamedUnpublished,
        Fault::HalvesNamedEmpty,
        Fault::PublishedUnmarked,
        Fault::UnmarkedEarly,
        Fault::PassedNotCounted,
    ] {
        let finders = finders(MODELS, fault);
        println!("{fault:?}: {finders:?}");
        assert!(!finders.is_empty(), "{fault:?} is not found");
    }
}
