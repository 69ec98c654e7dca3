//! The cache as programs use it.
//!
//! [`Cache`] keeps any keys and values, each entry apart in memory; [`Pinned`] reads many entries under one guard. What
//! is kept of numbers alone is [`Inline`](crate::Inline).

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;

use crate::engine::{Guard, Pointers, Present, Put};

/// Says what an entry weighs.
type Weigher<K, V> = Box<dyn Fn(&K, &V) -> usize + Send + Sync>;

/// A cache for many threads. A hit takes no lock, and writes nothing to the cache once its entry is marked as hit
/// often.
///
/// ```
/// use forebay_cache::Cache;
///
/// let cache: Cache<String, Vec<u8>> = Cache::new(1000);
/// assert!(cache.insert("a".to_string(), vec![1, 2]));
/// assert_eq!(cache.get("a"), Some(vec![1, 2]));
/// assert_eq!(cache.with("a", |bytes| bytes.len()), Some(2));
/// assert!(cache.contains("a") && !cache.contains("b"));
/// assert_eq!(cache.remove("a"), Some(vec![1, 2]));
/// assert_eq!(cache.get("a"), None);
/// ```
///
/// It is shared by threads if its keys and values are:
///
/// ```compile_fail
/// let cache: forebay_cache::Cache<u64, std::rc::Rc<u64>> = forebay_cache::Cache::new(10);
/// std::thread::scope(|scope| {
///     scope.spawn(|| cache.contains(&1));
/// });
/// ```
pub struct Cache<K, V> {
    entries: Pointers<(K, V)>,
    hasher: RandomState,
    weigher: Option<Weigher<K, V>>,
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// A cache of at most `capacity` entries; with 0 it stores nothing.
    pub fn new(capacity: usize) -> Cache<K, V> {
        Cache { entries: Pointers::new(capacity), hasher: RandomState::default(), weigher: None }
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
        Cache { weigher: Some(Box::new(weigher)), ..Cache::new(capacity) }
    }

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
        let found = self.entries.get(self.hash(key), &guard, |entry| entry.0.borrow() == key);
        found.map(|entry| read(&entry.1))
    }

    /// Whether a key is there; it does not count as used.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let guard = self.entries.pin();
        self.entries.look(self.hash(key), &guard, |entry| entry.0.borrow() == key).is_some()
    }

    /// Inserts, or replaces the value; whether it is stored. It is not if the entry weighs more than the capacity, or
    /// while guards keep too much ([`Cache::pin`]); what the key stood for before is gone in any case.
    pub fn insert(&self, key: K, value: V) -> bool {
        self.put((key, value), Present::Replaced, |put| !matches!(put, Put::Refused))
    }

    /// The value of a key; if there is none, what `make` answers is inserted. `make` runs without a lock: if another
    /// thread inserts meanwhile, then that value is the answer.
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
        let there = self.put((key, made.clone()), Present::Kept, |put| match put {
            Put::Kept(entry) => Some(entry.1.clone()),
            Put::Inserted | Put::Replaced(_) | Put::Refused => None,
        });
        there.unwrap_or(made)
    }

    /// Removes a key; answers its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        let is = |entry: &(K, V)| entry.0.borrow() == key;
        self.entries.remove(self.hash(key), is, |entry| entry.map(|entry| entry.1.clone()))
    }

    /// A guard, under which values are read in place, and many of them faster than one by one.
    ///
    /// As long as it is there, nothing that is evicted, replaced or removed is dropped. When an eighth of the capacity
    /// waits for that, nothing more is stored: so the entries that are in memory weigh at most 37/32 of the capacity,
    /// and one entry for each thread that inserts.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert("a", 1);
    /// cache.insert("b", 2);
    /// let pinned = cache.pin();
    /// let (a, b) = (pinned.get("a"), pinned.get("b"));
    /// cache.remove("a");
    /// assert_eq!((a, b, pinned.get("a")), (Some(&1), Some(&2), None));
    /// let keys = ["a", "b", "c"];
    /// assert_eq!(pinned.get_many(&keys).collect::<Vec<_>>(), [None, Some(&2), None]);
    /// ```
    pub fn pin(&self) -> Pinned<'_, K, V> {
        Pinned { cache: self, guard: self.entries.pin() }
    }

    /// Removes everything, shard after shard: what is inserted meanwhile may stay.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// Entries, counted shard after shard.
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

    #[inline(always)]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    fn put<R>(&self, entry: (K, V), present: Present, then: impl FnOnce(Put<&(K, V)>) -> R) -> R {
        let weight = self.weigher.as_ref().map_or(1, |weigher| weigher(&entry.0, &entry.1));
        self.entries.put((self.hash(&entry.0), weight, entry), |one, other| one.0 == other.0, (present, false), then)
    }
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// A cache under a guard: see [`Cache::pin`]. It stays with its thread.
pub struct Pinned<'c, K, V> {
    cache: &'c Cache<K, V>,
    guard: Guard<'c>,
}

impl<K: Hash + Eq, V> Pinned<'_, K, V> {
    /// The value of a key, which counts as used.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let is = |entry: &(K, V)| entry.0.borrow() == key;
        self.cache.entries.get(self.cache.hash(key), &self.guard, is).map(|entry| &entry.1)
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
            let found = self.cache.entries.get(hash, &self.guard, |entry| entry.0.borrow() == key);
            found.map(|entry| &entry.1)
        })
    }
}

impl<K, V> std::fmt::Debug for Pinned<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("cache", self.cache).finish_non_exhaustive()
    }
}
