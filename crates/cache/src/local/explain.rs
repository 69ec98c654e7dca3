//! Why an entry stands where it does.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::engine::Under;

use super::{Cache, Entry};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// One line for people on why a key's entry stands where it does in the order of eviction. Of a key that is not
    /// there it is what the policy remembers of the key; `None`: nothing. It counts no use. Waiting hits are told to
    /// the policy first, and so it takes the lock of a shard. The words are the policy's and no promise.
    ///
    /// ```
    /// use forebay_cache::Cache;
    ///
    /// let cache = Cache::builder().capacity(2).policy("lru")?.build();
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// assert_eq!(cache.explain("a").as_deref(), Some("least recently used: goes next"));
    /// cache.get("a");
    /// assert_eq!(cache.explain("a").as_deref(), Some("one of 2 by last use"));
    /// assert_eq!(cache.explain("c"), None);
    ///
    /// let cache = Cache::new(100);
    /// (0..200).for_each(|n| _ = cache.insert(n, n));
    /// assert!(cache.explain(&199).is_some_and(|line| line.starts_with("small queue")));
    /// let mut evicted = (0..200).filter(|n| !cache.contains(n)).filter_map(|n| cache.explain(&n));
    /// assert!(evicted.any(|line| line.starts_with("left the small queue not long ago")));
    /// # Ok::<(), forebay_cache::policy::PolicyError>(())
    /// ```
    pub fn explain<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<String>
    where
        K: Borrow<Q>,
    {
        let guard = self.entries.pin();
        let under = Under { guard: &guard, now: self.now(), ready: true };
        self.entries.explain(under, self.hash(key), |entry: &Entry<K, V>| entry.key.borrow() == key)
    }
}
