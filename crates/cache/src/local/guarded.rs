//! Many entries are read under one guard.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::engine::Guard;

use super::{Cache, Hashing};

/// A cache under a guard: see [`Cache::guard`]. It stays with its thread.
pub struct Guarded<'c, K, V, S = Hashing> {
    pub(super) cache: &'c Cache<K, V, S>,
    pub(super) guard: Guard<'c>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Guarded<'_, K, V, S> {
    /// The value of a key, which counts as used.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.cache.find(self.cache.hash(key), key, &self.guard).map(|entry| &entry.value)
    }

    /// The values of keys, in their order, which count as used. The memory that their searches begin in is asked for
    /// at once.
    pub fn get_many<'p, Q: Hash + Eq>(&'p self, keys: &'p [Q]) -> impl Iterator<Item = Option<&'p V>>
    where
        K: Borrow<Q>,
    {
        let hashes: Vec<u64> = keys.iter().map(|key| self.cache.hash(key)).collect();
        hashes.iter().for_each(|&hash| self.cache.entries.ahead(hash, &self.guard));
        keys.iter().zip(hashes).map(|(key, hash)| {
            let found = self.cache.find(hash, key, &self.guard);
            found.map(|entry| &entry.value)
        })
    }
}

impl<K, V, S> std::fmt::Debug for Guarded<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("cache", self.cache).finish_non_exhaustive()
    }
}
