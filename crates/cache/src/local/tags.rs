//! Entries that are invalidated together, by tags that they have in common.
//!
//! A tag is kept as its hash. Two tags of one hash would be one tag: then more is invalidated than was asked for, and
//! never less.

use std::hash::{BuildHasher, Hash};

use super::hashing::Hashing;

/// Tags of one entry, at most.
pub const TAGS_MAX: usize = 16;

/// What each tag adds to the weight of an entry, if there is a weigher: about the bytes that it takes.
pub const TAG_WEIGHT: usize = 48;

/// Says which tags an entry has.
pub(super) type Tagger<K, V> = dyn Fn(&K, &V, &mut Tags<'_>) + Send + Sync;

/// The tags of an entry that comes in: see [`Builder::tags`](crate::Builder::tags).
#[derive(Debug)]
pub struct Tags<'c> {
    pub(super) hashing: &'c Hashing,
    pub(super) hashes: Vec<u64>,
}

impl Tags<'_> {
    /// The entry has this tag. Numbers of different types are different tags; a text is one tag in all its types.
    pub fn add<T: Hash + ?Sized>(&mut self, tag: &T) {
        self.hashes.push(self.hashing.hash_one(tag));
    }
}
