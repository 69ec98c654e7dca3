//! What is done to the cache as a whole, and what is asked of it.

use std::hash::{BuildHasher, Hash};

use super::{Cache, Guarded, Statistics, StillPinned};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// A guard, under which values are read in place, and many of them faster than one by one.
    ///
    /// As long as it is there, nothing that is evicted, replaced or removed is dropped. When an eighth of the capacity
    /// ([`DEFERRED_SHARE`](crate::DEFERRED_SHARE)) waits for that, nothing more is stored: so the entries that are in
    /// memory weigh at most 37/32 of the capacity, and one entry for each thread that inserts. A program is told of
    /// such a guard by [`Builder::guard_listener`](crate::Builder::guard_listener).
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// let guarded = cache.guard();
    /// let (a, b) = (guarded.get("a"), guarded.get("b"));
    /// cache.remove("a");
    /// assert_eq!((a, b, guarded.get("a")), (Some(&1), Some(&2), None));
    /// let keys = ["a", "b", "c"];
    /// assert_eq!(guarded.get_many(&keys).collect::<Vec<_>>(), [None, Some(&2), None]);
    /// ```
    ///
    /// What a guard keeps is [`Statistics::deferred`], and what was not stored [`Statistics::refused`]. A cache is not
    /// dropped before its guards:
    ///
    /// ```compile_fail
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("a", 1);
    /// let guarded = cache.guard();
    /// drop(cache);
    /// guarded.get("a");
    /// ```
    pub fn guard(&self) -> Guarded<'_, K, V, S> {
        Guarded { cache: self, guard: self.entries.pin() }
    }

    /// Removes everything, shard after shard: what is inserted meanwhile may stay. A load that is under way is not
    /// stored.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert(1, 1);
    /// cache.clear();
    /// assert_eq!((cache.len(), cache.get(&1)), (0, None));
    /// ```
    pub fn clear(&self) {
        self.flights.outdate_all();
        self.entries.clear();
    }

    /// Changes the capacity while the cache is in use. A smaller one evicts in small steps between which others go on;
    /// when this returns, the entries weigh no more. A cache that is to become much larger is made large and then
    /// shrunk: how many threads can write at once follows from the capacity at the start.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(100);
    /// (0..100).for_each(|n| _ = cache.insert(n, n));
    /// cache.set_capacity(10)?;
    /// assert!(cache.capacity() == 10 && cache.len() <= 10);
    /// # Ok::<(), forebay_cache::StillPinned>(())
    /// ```
    ///
    /// What is pinned stays. If that weighs more, then the capacity becomes what it weighs, and nothing more is stored.
    pub fn set_capacity(&self, capacity: usize) -> Result<(), StillPinned> {
        let wanted = capacity.min(isize::MAX as usize);
        let capacity = self.entries.set_capacity(wanted);
        if capacity > wanted { Err(StillPinned { wanted, capacity }) } else { Ok(()) }
    }

    /// Takes out all that has expired, and drops what has left. Operations that write do a little of that each; who
    /// wants memory back while nothing is written calls this now and then.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let cache = forebay_cache::Cache::builder().capacity(10).time_to_live(Duration::from_millis(1)).build();
    /// cache.insert(1, 1);
    /// std::thread::sleep(Duration::from_millis(4));
    /// cache.run_pending();
    /// assert_eq!(cache.len(), 0);
    /// ```
    pub fn run_pending(&self) {
        self.entries.run_pending(self.now());
    }

    /// What happened since the cache was made, if [`Builder::statistics`] has asked for it.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::builder().capacity(10).statistics().build();
    /// cache.insert(1, 1);
    /// (cache.get(&1), cache.get(&2), cache.remove(&1));
    /// let statistics = cache.statistics().unwrap();
    /// assert_eq!((statistics.hits, statistics.misses, statistics.removed), (1, 1, 1));
    /// assert_eq!(statistics.hit_ratio(), 0.5);
    /// ```
    pub fn statistics(&self) -> Option<Statistics> {
        let counters = self.counters.as_ref()?;
        let [evicted, expired, replaced, removed] = self.entries.left();
        let (entries, weight, pinned) = (self.len(), self.weight(), self.entries.pinned());
        let (sums, deferred, held_guards) = (counters.sums(), self.entries.deferred(), self.entries.held_guards());
        Some(Statistics { evicted, expired, replaced, removed, entries, weight, pinned, deferred, held_guards, ..sums })
    }

    /// Entries, counted shard after shard, and with them what has expired and was not taken out yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all entries weigh: as many as they are, if there is no weigher.
    pub fn weight(&self) -> usize {
        self.entries.weight()
    }

    /// What all entries may weigh.
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}
