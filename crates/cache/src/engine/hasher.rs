//! Hashes of keys whose words are at hand.

use std::hash::{BuildHasher, Hasher as _};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

use super::slot::Plain;
use super::slot::sealed::Words as _;

/// Hashes keys by their words.
pub(super) struct Hasher {
    seed: u64,
    shared: SharedSeed,
}

impl Hasher {
    /// By chance: no client can choose keys that collide.
    pub(super) fn random() -> Hasher {
        let chance = std::hash::RandomState::new();
        Hasher { seed: chance.hash_one(0), shared: SharedSeed::from_u64(chance.hash_one(1)) }
    }

    /// One that hashes alike each time.
    #[cfg(test)]
    pub(super) fn seeded(seed: u64) -> Hasher {
        Hasher { seed, shared: SharedSeed::from_u64(seed) }
    }

    /// The hash of a key of these words.
    #[inline(always)]
    pub(super) fn hash<K: Plain>(&self, words: K::Words) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        words.hash(&mut hasher);
        hasher.finish()
    }
}
