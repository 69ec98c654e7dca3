//! What a cache consists of.

use std::sync::atomic::AtomicBool;

use super::counters::Counters;
use super::flight::Flights;
use super::hashing::Hashing;
use super::life::{About, Lifetime, Time};
use super::tags::Tagger;
use crate::engine::{NEVER, Pointers};

/// Says what an entry weighs.
pub(super) type Weigher<K, V> = Box<dyn Fn(&K, &V) -> usize + Send + Sync>;

/// Says how long an entry lives.
pub(super) type Lifetimes<K, V> = dyn Fn(&K, &V) -> Lifetime + Send + Sync;

/// What is kept of a key.
pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    /// None: it does not expire and has no tags.
    pub(super) about: Option<Box<About>>,
}

/// An entry that is to come in.
pub(super) struct Newcomer<K, V> {
    pub(super) entry: Entry<K, V>,
    pub(super) weight: usize,
    /// When it was made, if that matters.
    pub(super) now: u64,
}

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
///
/// # Fork
///
/// A process that is forked while no other thread uses the cache has a copy of it. Parent and child each go on with
/// their own: neither sees what the other changes. If another thread did use it, the child must not: a lock that this
/// thread had is never given back there, nor is what it read ever dropped, and who waits for its load waits for ever.
/// A child that only runs another program (`exec`) is in no danger.
pub struct Cache<K, V, S = Hashing> {
    pub(super) entries: Pointers<Entry<K, V>>,
    pub(super) hasher: S,
    pub(super) weigher: Option<Weigher<K, V>>,
    /// Of entries of which nothing else is said.
    pub(super) lifetime: Lifetime,
    pub(super) lifetimes: Option<Box<Lifetimes<K, V>>>,
    /// An entry that may expire was stored: only then is the clock asked.
    pub(super) has_times: AtomicBool,
    /// Nothing may expire and nothing is counted: a hit looks no further.
    pub(super) is_plain: AtomicBool,
    pub(super) time: Time,
    pub(super) flights: Flights<K, V>,
    pub(super) counters: Option<Box<Counters>>,
    /// Hashes tags; a cache that is given no hasher has this one.
    pub(super) hashing: Hashing,
    pub(super) tagger: Option<Box<Tagger<K, V>>>,
    /// The policy as a program names it; empty: the built-in one.
    pub(super) policy: String,
}

impl<K, V> Entry<K, V> {
    /// When it ends.
    pub(super) fn until(&self) -> u64 {
        self.about.as_ref().map_or(NEVER, |about| about.times.until())
    }
}
