//! Entries with tags: inserted, and invalidated together.

use std::hash::{BuildHasher, Hash};

use super::cache::Cache;
use super::tags::{TAG_WEIGHT, TAGS_MAX, Tags};
use crate::mutation::{Fault, on};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Inserts an entry with these tags, beside those of [`Builder::tags`](crate::Builder::tags). Another value for the
    /// key has only the tags that come with it. Answers as [`Cache::insert`]; an entry with more than [`TAGS_MAX`] tags
    /// is not stored.
    ///
    /// ```
    /// let cache = forebay_cache::Cache::new(10);
    /// cache.insert_tagged("page/1", "<p>", &["user/7", "news"]);
    /// cache.insert_tagged("page/2", "<q>", &["news"]);
    /// cache.insert_tagged("page/3", "<r>", &["user/7"]);
    /// assert_eq!(cache.invalidate_tag("news"), 2);
    /// assert_eq!((cache.get("page/1"), cache.get("page/3")), (None, Some("<r>")));
    /// ```
    pub fn insert_tagged<T: Hash>(&self, key: K, value: V, tags: &[T]) -> bool {
        let given: Vec<u64> = tags.iter().map(|tag| self.hashing.hash_one(tag)).collect();
        self.store(key, value, None, &given)
    }

    /// Removes all entries with a tag, and answers how many. It takes as many steps as there are such entries. What is
    /// inserted meanwhile may stay; a load that is under way is not stored.
    pub fn invalidate_tag<T: Hash + ?Sized>(&self, tag: &T) -> usize {
        if !on(Fault::LoadOutlivesTag) {
            self.flights.outdate_all();
        }
        self.entries.remove_tagged(self.hashing.hash_one(tag), self.now())
    }

    /// The tags of an entry that comes in, each once, and what it weighs with them.
    pub(super) fn tags_of(&self, key: &K, value: &V, given: &[u64], weight: usize) -> (Vec<u64>, usize) {
        let mut hashes = given.to_vec();
        if let Some(tagger) = &self.tagger {
            let mut tags = Tags { hashing: &self.hashing, hashes };
            tagger(key, value, &mut tags);
            hashes = tags.hashes;
        }
        hashes.sort_unstable();
        hashes.dedup();
        let each = if self.weigher.is_some() { TAG_WEIGHT } else { 0 };
        // What weighs more than any cache may is not stored.
        let weight = if hashes.len() > TAGS_MAX { usize::MAX } else { weight.saturating_add(hashes.len() * each) };
        (hashes, weight)
    }
}
