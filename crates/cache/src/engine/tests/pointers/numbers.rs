//! A cache of numbers that lie apart, as the tests use it.

pub(super) use super::super::super::pointers::{Pointers, Put, validate};
pub(super) use super::super::super::shard::Present;

/// A key and a value that lie apart.
type Pair = (u64, Box<u64>);

/// Bits that are spread as those of a hash.
pub(super) fn spread(key: u64) -> u64 {
    let mixed = (key ^ key >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// A cache of numbers whose values have weights.
pub(super) struct Numbers {
    pub cache: Pointers<Pair>,
    pub hash: fn(u64) -> u64,
}

impl Numbers {
    pub fn new(capacity: usize, shards_log2: u32) -> Numbers {
        Numbers { cache: Pointers::build(capacity, shards_log2), hash: spread }
    }

    pub fn get(&self, key: u64) -> Option<u64> {
        let guard = self.cache.pin();
        self.cache.get((self.hash)(key), &guard, |pair| pair.0 == key).map(|pair| *pair.1)
    }

    pub fn peek(&self, key: u64) -> Option<u64> {
        let guard = self.cache.pin();
        self.cache.look((self.hash)(key), &guard, |pair| pair.0 == key).map(|found| *found.item.1)
    }

    pub fn put(&self, key: u64, value: u64, weight: usize, present: Present) -> Put<u64> {
        let entry = ((self.hash)(key), weight, (key, Box::new(value)));
        self.cache.put(
            entry,
            |one, other| one.0 == other.0,
            (present, false),
            |put| match put {
                Put::Inserted => Put::Inserted,
                Put::Replaced(pair) => Put::Replaced(*pair.1),
                Put::Kept(pair) => Put::Kept(*pair.1),
                Put::Refused => Put::Refused,
            },
        )
    }

    pub fn insert(&self, key: u64, value: u64) -> Put<u64> {
        self.put(key, value, 1, Present::Replaced)
    }

    pub fn remove(&self, key: u64) -> Option<u64> {
        self.cache.remove((self.hash)(key), |pair| pair.0 == key, |pair| pair.map(|pair| *pair.1))
    }

    pub fn entries(&self) -> Vec<(u64, u64)> {
        validate::validate(&self.cache, |pair| (pair.0, *pair.1))
    }
}
