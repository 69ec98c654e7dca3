//! Entries that stay, whatever has to go.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::engine::Under;

use super::{Cache, Entry};

/// What is pinned weighs more than the capacity that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillPinned {
    /// What was asked for.
    pub wanted: usize,
    /// The capacity that there is now: what is pinned weighs so much.
    pub capacity: usize,
}

impl std::fmt::Display for StillPinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let StillPinned { wanted, capacity } = self;
        write!(f, "entries that are pinned weigh more than {wanted}; the capacity is {capacity} now. ")?;
        f.write_str("Unpin some and set it again")
    }
}

impl std::error::Error for StillPinned {}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Pins the entry of a key: it is not evicted until it is unpinned as often as it was pinned. Whether it is there,
    /// and was not pinned [`PINS_MAX`](crate::PINS_MAX) times.
    ///
    /// Another value for the key is pinned as the one before was. An entry that is removed, invalidated or expires
    /// goes all the same, and its pins end. While all that is in is pinned, nothing more is stored.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(2);
    /// cache.insert("config", 0);
    /// assert!(cache.pin("config") && !cache.pin("other"));
    /// (1..100).for_each(|n| _ = cache.insert(if n % 2 == 0 { "even" } else { "odd" }, n));
    /// assert_eq!(cache.peek("config"), Some(0));
    /// assert!(cache.unpin("config") && !cache.unpin("config"));
    /// ```
    pub fn pin<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.set_pins(key, 1)
    }

    /// Takes one pin away; whether the key's entry had one. An entry without pins is the newest in the order of
    /// eviction.
    pub fn unpin<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.set_pins(key, -1)
    }

    fn set_pins<Q: Hash + Eq + ?Sized>(&self, key: &Q, by: i16) -> bool
    where
        K: Borrow<Q>,
    {
        let mut due = Vec::new();
        let hash = self.hash(key);
        let guard = self.entries.pin();
        let under = Under { guard: &guard, now: self.now(), ready: true };
        self.entries.set_pins(under, (hash, by), |entry: &Entry<K, V>| entry.key.borrow() == key, &mut due)
    }
}
