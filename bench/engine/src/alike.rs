//! A cache of ours that does the same in every round, so that rounds can be compared request by request.

use std::hash::BuildHasher;

use crate::peers::Peer;

/// Hashes alike in every round.
#[derive(Clone, Default)]
pub struct Alike;

impl BuildHasher for Alike {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed(0)
    }
}

/// See [`Alike`]; of numbers alone.
pub struct Mixed(u64);

impl std::hash::Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        let mixed = (key ^ key >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Peer for forebay_cache::Cache<u64, u64, Alike> {
    const REMOVES: bool = true;

    fn new(capacity: usize) -> Self {
        forebay_cache::Cache::builder().capacity(capacity).hasher(Alike).build()
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn remove(&self, key: u64) {
        self.invalidate(&key);
    }

    fn len(&self) -> usize {
        self.len()
    }
}
