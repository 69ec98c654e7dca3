//! Recorded histories, as those of the cache of numbers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::segment::SEGMENT;
use super::super::histories::{Subject, rounds};
use super::{Numbers, Present, Put, spread};

impl Subject for Numbers {
    fn get(&self, key: u64) -> Option<u64> {
        Numbers::get(self, key)
    }

    fn peek(&self, key: u64) -> Option<u64> {
        Numbers::peek(self, key)
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        match Numbers::insert(self, key, value) {
            Put::Replaced(old) | Put::Kept(old) => Some(old),
            Put::Inserted | Put::Refused => None,
        }
    }

    fn fill(&self, key: u64, value: u64) -> u64 {
        match self.put(key, value, 1, Present::Kept) {
            Put::Replaced(old) | Put::Kept(old) => old,
            Put::Inserted | Put::Refused => value,
        }
    }

    fn remove(&self, key: u64) -> Option<u64> {
        Numbers::remove(self, key)
    }

    fn validate(&self) {
        self.entries();
    }
}

#[test]
fn a_segment_is_linearizable() {
    rounds(&Numbers::new(1 << 20, 0), &[1, 2, 3], &[], false);
}

/// Room for two of three keys.
#[test]
fn evictions_are_removals() {
    rounds(&Numbers::new(2, 0), &[1, 2, 3], &[], true);
}

/// The keys' segment is split and joined while they come and go: it is at its edge, and so is its sum with the other.
#[test]
fn splits_and_joins_are_linearizable() {
    let cache = Numbers::new(1 << 20, 0);
    let full = (SEGMENT - SEGMENT / 16) as u64;
    let joined = (SEGMENT * 3 / 8) as u64;
    for edge in [full - 2, joined - 2] {
        (100..100 + full).for_each(|key| {
            cache.remove(key);
        });
        (100..100 + edge).for_each(|key| {
            cache.insert(key, key);
        });
        rounds(&cache, &[1, 2, 3], &[100 + edge, 101 + edge, 102 + edge], false);
    }
}

/// Groups of keys are published as a whole, while readers look twice.
#[test]
fn a_publication_is_seen_as_a_whole() {
    let cache = Numbers::new(1000, 2);
    let keys = [1u64, 2, 3];
    let group = |value: u64| keys.map(|key| (spread(key), 1, (key, Box::new(value)))).to_vec();
    let publish = |value| cache.cache.publish(group(value), |at, other| keys[at] == other.0);
    publish(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = 0;
                while !over.load(Ordering::Relaxed) {
                    let guard = cache.cache.pin();
                    let looks = keys.map(|key| cache.cache.look(spread(key), &guard, |pair| pair.0 == key));
                    let looks: Option<Vec<_>> = looks.into_iter().collect();
                    let looks = looks.filter(|looks| looks.iter().all(|look| !look.marked)).unwrap_or_default();
                    let mut twice = looks.iter().zip(keys);
                    if !twice.all(|(look, key)| cache.cache.unchanged(spread(key), &guard, look.word)) {
                        continue;
                    }
                    for look in &looks {
                        assert_eq!(look.item.1, looks[0].item.1, "all of one publication, or of none");
                        assert!(*look.item.1 >= newest, "publications do not come back");
                        newest = *look.item.1;
                    }
                }
            });
        }
        (1..if cfg!(miri) { 40 } else { 20_000 }).for_each(publish);
        over.store(true, Ordering::Relaxed);
    });
    cache.entries();
}
