//! Walks over all entries.

use std::hash::{BuildHasher, Hash};

use crate::engine::{Cause, Under};

use super::{Cache, Entry};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Tells `each` of all entries, in no order. What is in all the time is told once; what comes or goes meanwhile is
    /// told once or not at all. `each` runs without a lock and may use the cache. It counts no use.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// let mut sum = 0;
    /// cache.for_each(|_, value| sum += value);
    /// assert_eq!(sum, 3);
    /// ```
    pub fn for_each(&self, mut each: impl FnMut(&K, &V)) {
        let now = self.now();
        let mut from = Some(0);
        while let Some(hash) = from {
            let guard = self.entries.pin();
            from = self.entries.scan(hash, &guard, |_, found| {
                if found.item.until() > now {
                    each(&found.item.key, &found.item.value);
                }
            });
        }
    }

    /// All entries, copied a few at a time, as [`Cache::for_each`] would tell them.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert(1, "one");
    /// for (key, _) in cache.iter() {
    ///     cache.remove(&key);
    /// }
    /// assert!(cache.is_empty());
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, S>
    where
        K: Clone,
        V: Clone,
    {
        Iter { cache: self, copied: Vec::new(), from: Some(0) }
    }

    /// Removes all entries of which `is_old` says so, and answers how many. What is inserted meanwhile may stay, even
    /// for a key of which it said so before; a load that is under way is not stored. It runs without a lock.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// (0..6).for_each(|n| _ = cache.insert(n, n * n));
    /// assert_eq!(cache.invalidate_if(|_, square| square % 2 == 1), 3);
    /// assert!(cache.contains(&4) && !cache.contains(&5));
    /// ```
    pub fn invalidate_if(&self, mut is_old: impl FnMut(&K, &V) -> bool) -> usize {
        self.flights.outdate_all();
        let now = self.now();
        let (mut from, mut removed) = (Some(0), 0);
        while let Some(first) = from {
            let mut due = Vec::new();
            let guard = self.entries.pin();
            let mut old = Vec::new();
            from = self.entries.scan(first, &guard, |hash, found| {
                if is_old(&found.item.key, &found.item.value) {
                    old.push((hash, found));
                }
            });
            let under = Under { guard: &guard, now, ready: true };
            for (hash, found) in old {
                let is = |entry: &Entry<K, V>| std::ptr::eq(entry, found.item);
                let why = (hash, Cause::Removed);
                let gone = self.entries.remove_under(under, why, is, Some(found.word), &mut due);
                removed += usize::from(gone.0.is_some());
            }
        }
        removed
    }
}

/// The entries of a cache: see [`Cache::iter`].
pub struct Iter<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    copied: Vec<(K, V)>,
    from: Option<u64>,
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Iterator for Iter<'_, K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        while self.copied.is_empty() {
            let (from, now) = (self.from?, self.cache.now());
            let guard = self.cache.entries.pin();
            let copied = &mut self.copied;
            self.from = self.cache.entries.scan(from, &guard, |_, found| {
                if found.item.until() > now {
                    copied.push((found.item.key.clone(), found.item.value.clone()));
                }
            });
        }
        self.copied.pop()
    }
}

impl<K, V, S> std::fmt::Debug for Iter<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
