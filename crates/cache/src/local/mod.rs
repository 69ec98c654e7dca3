//! The cache as programs use it.
//!
//! [`Cache`] keeps any keys and values, each entry apart in memory; [`Guarded`] reads many entries under one guard.
//! What is kept of numbers alone is [`Inline`](crate::Inline).
//!
//! ```text
//! builder.rs   what a cache is to be            life.rs      how long entries live, and the clock
//! compute.rs   an entry is changed in one step  counters.rs  hits, misses and loads
//! load.rs      a value is loaded once           scan.rs      walks over all entries
//! flight.rs    loads that are under way         memoize.rs   a function that remembers its answers
//! guarded.rs   many entries under one guard     pins.rs      entries that stay
//! hashing.rs   the hasher, if none is given     tags.rs      entries that are invalidated together
//! upkeep.rs    the cache as a whole             snapshot/    a file from which a cache starts warm
//! portable.rs  keys and values as bytes         explain.rs   why an entry stands where it does
//! ```
//!
//! A program's own code (weigher, hasher, listener, loader, clock, copies) runs without a lock; comparisons of keys may
//! run under one. Whatever of it panics leaves each entry whole or out, and no lock poisoned.

mod builder;
mod cache;
mod compute;
mod counters;
mod explain;
mod flight;
mod guarded;
mod hashing;
mod life;
mod load;
mod memoize;
mod pins;
mod portable;
mod scan;
mod snapshot;
mod tagged;
mod tags;
#[cfg(test)]
mod tests;
mod upkeep;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

use crate::engine::{Cause, Due, Guard, NEVER, Put, Rule, Under};

pub use builder::Builder;
pub use cache::Cache;
use cache::{Entry, Newcomer};
pub use compute::{COMPUTE_TRIES_MAX, Computed, Op};
pub use counters::Statistics;
pub use guarded::Guarded;
pub use hashing::Hashing;
use life::About;
pub use life::{Clock, Lifetime};
pub use load::{LoadError, OwnKey};
pub use memoize::memoize;
pub use pins::StillPinned;
pub use portable::Portable;
pub use scan::Iter;
#[doc(hidden)] // For files of forebay's server.
pub use snapshot::{BlockReader, BlockWriter, NoBlock};
pub use snapshot::{Damage, Loaded, Saved, SnapshotError};
pub use tags::{TAG_WEIGHT, TAGS_MAX, Tags};

impl<K: Hash + Eq, V> Cache<K, V> {
    /// A cache of at most `capacity` entries; with 0 it stores nothing.
    pub fn new(capacity: usize) -> Cache<K, V> {
        // Without a listener there is nobody to tell.
        Builder::new().capacity(capacity).made(|_| Box::new(|_, _| ()))
    }

    /// Says one by one what the cache is to be.
    ///
    /// ```
    /// use std::time::Duration;
    /// use forebay_cache::Cache;
    ///
    /// let cache: Cache<String, Vec<u8>> = Cache::builder()
    ///     .capacity(64 << 20)
    ///     .weigher(|key: &String, value: &Vec<u8>| key.len() + value.len())
    ///     .time_to_live(Duration::from_secs(3600))
    ///     .time_to_idle(Duration::from_secs(600))
    ///     .build();
    /// assert!(cache.insert("key".to_string(), vec![1, 2, 3]));
    /// assert_eq!(cache.get("key"), Some(vec![1, 2, 3]));
    /// ```
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }

    /// A cache whose entries weigh at most `capacity` together. An entry weighs what `weigher` says when it is
    /// inserted, and 1 at least; one entry may weigh the whole capacity.
    ///
    /// ```
    /// use forebay_cache::Cache;
    ///
    /// let cache = Cache::with_weigher(1 << 20, |key: &String, value: &String| key.len() + value.len());
    /// assert!(cache.insert("key".to_string(), "value".to_string()));
    /// assert_eq!(cache.weight(), 8);
    /// assert!(!cache.insert("large".to_string(), "x".repeat(1 << 20)), "it weighs more than the capacity");
    /// ```
    pub fn with_weigher(capacity: usize, weigher: impl Fn(&K, &V) -> usize + Send + Sync + 'static) -> Cache<K, V> {
        Builder::new().capacity(capacity).weigher(weigher).made(|_| Box::new(|_, _| ()))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// The value of a key, which counts as used.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert(1, "one");
    /// assert_eq!((cache.get(&1), cache.get(&2)), (Some("one"), None));
    /// ```
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        self.with(key, V::clone)
    }

    /// What `read` makes of a key's value, which counts as used. It runs without a lock and may use the cache.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("key", vec![1, 2, 3]);
    /// assert_eq!(cache.with("key", |value| value.iter().sum::<i32>()), Some(6));
    /// ```
    #[inline]
    pub fn with<Q: Hash + Eq + ?Sized, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
    {
        let guard = self.entries.pin();
        self.find(self.hash(key), key, &guard).map(|entry| read(&entry.value))
    }

    /// The value of a key, which does not count as used: neither the order of eviction nor the idle time learns of it.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert_eq!((cache.peek("key"), cache.peek("other")), (Some(1), None));
    /// ```
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        let guard = self.entries.pin();
        self.look(key, &guard).cloned()
    }

    /// Whether a key is there; it does not count as used.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let guard = self.entries.pin();
        self.look(key, &guard).is_some()
    }

    /// Inserts, or replaces the value; whether it is stored. It is not if the entry weighs more than the capacity, if
    /// its time is over at once, or while guards keep too much ([`Cache::guard`]). What the key stood for before is
    /// gone in any case.
    pub fn insert(&self, key: K, value: V) -> bool {
        self.store(key, value, None, &[])
    }

    /// Inserts an entry that lives so long, whatever was said for all.
    pub fn insert_with(&self, key: K, value: V, lifetime: Lifetime) -> bool {
        self.store(key, value, Some(lifetime), &[])
    }

    fn store(&self, key: K, value: V, lifetime: Option<Lifetime>, tags: &[u64]) -> bool {
        let hash = self.hash(&key);
        let newcomer = self.newcomer(key, value, lifetime, tags);
        self.flights.outdate(hash, &newcomer.entry.key);
        let mut due = Vec::new();
        let ready = self.entries.may_defer();
        let guard = self.entries.pin();
        let put = self.put((&guard, ready), hash, newcomer, Rule::Always, &mut due);
        !matches!(put, Ok(Put::Refused))
    }

    /// The value of a key; if there is none, what `make` answers is inserted. `make` runs without a lock: if another
    /// thread inserts meanwhile, then that value is the answer. [`Cache::get_with`] has one thread make it.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// assert_eq!(cache.get_or_insert_with("key".to_string(), || 1), 1);
    /// assert_eq!(cache.get_or_insert_with("key".to_string(), || 2), 1);
    /// ```
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V
    where
        V: Clone,
    {
        if let Some(value) = self.get(&key) {
            return value;
        }
        let made = make();
        let hash = self.hash(&key);
        let newcomer = self.newcomer(key, made.clone(), None, &[]);
        self.flights.outdate(hash, &newcomer.entry.key);
        let mut due = Vec::new();
        let ready = self.entries.may_defer();
        let guard = self.entries.pin();
        match self.put((&guard, ready), hash, newcomer, Rule::IfAbsent, &mut due) {
            Ok(Put::Kept(entry)) => entry.value.clone(),
            _ => made,
        }
    }

    /// Removes a key; answers its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        self.take_out(key, |value| value.clone())
    }

    /// Removes a key; whether it was there.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert!(cache.invalidate("key") && !cache.invalidate("key"));
    /// ```
    pub fn invalidate<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.take_out(key, |_| ()).is_some()
    }

    fn take_out<Q: Hash + Eq + ?Sized, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
    {
        let hash = self.hash(key);
        self.flights.outdate(hash, key);
        let mut due = Vec::new();
        let guard = self.entries.pin();
        let under = Under { guard: &guard, now: self.now(), ready: true };
        let is = |entry: &Entry<K, V>| entry.key.borrow() == key;
        let (removed, _) = self.entries.remove_under(under, (hash, Cause::Removed), is, None, &mut due);
        removed.map(|entry| read(&entry.value))
    }

    #[inline(always)]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The entry of a key as a hit.
    #[inline(always)]
    fn find<'g, Q: Eq + ?Sized>(&'g self, hash: u64, key: &Q, guard: &'g Guard<'_>) -> Option<&'g Entry<K, V>>
    where
        K: Borrow<Q>,
    {
        let found = self.entries.get(hash, guard, |entry| entry.key.borrow() == key);
        // Behind the look: who finds the first entry that may expire finds that it was said, too.
        if self.is_plain.load(Ordering::Relaxed) { found } else { self.watched(found, guard) }
    }

    /// What a look is in a cache that counts, or whose entries may expire.
    #[inline(never)]
    fn watched<'g>(&self, found: Option<&'g Entry<K, V>>, guard: &Guard<'_>) -> Option<&'g Entry<K, V>> {
        let lives = |entry: &&Entry<K, V>| entry.about.as_ref().is_none_or(|about| about.times.touch(self.time.now()));
        let found = found.filter(lives);
        if let Some(counters) = &self.counters {
            counters.looked(guard.place(), found.is_some());
        }
        found
    }

    /// The value of a key without a trace.
    fn look<'g, Q: Hash + Eq + ?Sized>(&'g self, key: &Q, guard: &'g Guard<'_>) -> Option<&'g V>
    where
        K: Borrow<Q>,
    {
        let found = self.entries.look(self.hash(key), guard, |entry| entry.key.borrow() == key)?;
        self.lives(found.item).then_some(&found.item.value)
    }

    fn lives(&self, entry: &Entry<K, V>) -> bool {
        entry.until() == NEVER || entry.until() > self.time.now()
    }

    /// The time, if it matters.
    fn now(&self) -> u64 {
        if self.has_times.load(Ordering::Relaxed) { self.time.now() } else { 0 }
    }

    /// An entry that is to come in. Here the program's code is asked, and it is given nothing that is locked.
    fn newcomer(&self, key: K, value: V, lifetime: Option<Lifetime>, given: &[u64]) -> Newcomer<K, V> {
        let weight = self.weigher.as_ref().map_or(1, |weigher| weigher(&key, &value));
        let of = self.lifetimes.as_ref();
        let lifetime = lifetime.unwrap_or_else(|| of.map_or(self.lifetime, |of| of(&key, &value)));
        let (tags, weight) = self.tags_of(&key, &value, given, weight);
        if lifetime != Lifetime::ENDLESS {
            self.expects_times();
        }
        let now = self.now();
        Newcomer { entry: Entry { key, value, about: About::new(lifetime, now, tags) }, weight, now }
    }

    /// From now on the clock is asked.
    fn expects_times(&self) {
        if !self.has_times.load(Ordering::Relaxed) {
            self.has_times.store(true, Ordering::Relaxed);
            self.is_plain.store(false, Ordering::Relaxed);
        }
    }

    /// Puts an entry in under a guard; `ready` is what [`Pointers::may_defer`] said before. Who has a lock or the guard
    /// drops what is due after them.
    fn put<'c: 'g, 'g>(
        &'c self,
        (guard, ready): (&'g Guard<'_>, bool),
        hash: u64,
        Newcomer { entry, weight, now }: Newcomer<K, V>,
        rule: Rule<'g, Entry<K, V>>,
        due: &mut Vec<Due<'c, Entry<K, V>>>,
    ) -> Result<Put<&'g Entry<K, V>>, Entry<K, V>> {
        let under = Under { guard, now, ready: ready && entry.until() > now };
        let put =
            self.entries.put_under(under, (hash, weight, entry), |one, other| one.key == other.key, (rule, false), due);
        if let (Some(counters), Ok(Put::Refused)) = (&self.counters, &put) {
            counters.refused(guard.place());
        }
        put
    }
}

impl<K, V, S> std::fmt::Debug for Cache<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("entries", &self.entries).finish_non_exhaustive()
    }
}
