//! An entry is looked at and changed in one step.
//!
//! The closure runs without a lock, on what was seen under a guard. What it wants is done only if the key's entry is
//! still just that one; else it runs again. The guard keeps what was seen, so no other entry can be taken for it. A
//! closure that panics has changed nothing.

use std::hash::{BuildHasher, Hash};

use crate::engine::{Cause, Put, Rule, Under};

use super::Cache;

/// Times that the closure of [`Cache::compute`] runs, at most.
pub const COMPUTE_TRIES_MAX: usize = 1000;

/// What is to become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<V> {
    /// The key has this value from now on.
    Insert(V),
    /// The key has no value from now on.
    Remove,
    /// Nothing changes.
    Keep,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed {
    /// There was none, and there is one now.
    Inserted,
    /// It has another value.
    Replaced,
    /// It was removed.
    Removed,
    /// It is what it was.
    Kept,
    /// There was none, and there is none.
    Absent,
    /// The value can't be stored, as [`Cache::insert`] says. What was there is gone.
    Refused,
    /// Nothing was done: the entry was changed each time while the closure ran, [`COMPUTE_TRIES_MAX`] times. A closure
    /// that changes its own key in the cache comes to that.
    Disturbed,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Looks at a key's value and changes it in one step: no other change of the key happens in between.
    ///
    /// `change` is told the value, if there is one, and runs without a lock. If the entry was changed by others
    /// meanwhile, then it runs again. It may use the cache, except for a change of this key. A look at the value does
    /// not count as a use.
    ///
    /// ```
    /// use forebay_cache::{Cache, Computed, Op};
    ///
    /// let cache = Cache::new(10);
    /// let count = |value: Option<&u32>| Op::Insert(value.map_or(1, |count| count + 1));
    /// assert_eq!(cache.compute("word", count), Computed::Inserted);
    /// assert_eq!(cache.compute("word", count), Computed::Replaced);
    /// assert_eq!(cache.get("word"), Some(2));
    /// let if_even = |value: Option<&u32>| if value.is_some_and(|n| n % 2 == 0) { Op::Remove } else { Op::Keep };
    /// assert_eq!(cache.compute("word", if_even), Computed::Removed);
    /// assert_eq!(cache.compute("word", if_even), Computed::Absent);
    /// ```
    pub fn compute(&self, key: K, mut change: impl FnMut(Option<&V>) -> Op<V>) -> Computed {
        let hash = self.hash(&key);
        let mut key = key;
        for _ in 0..COMPUTE_TRIES_MAX {
            match self.try_compute(hash, key, &mut change) {
                Ok(computed) => return computed,
                Err(again) => key = again,
            }
        }
        Computed::Disturbed
    }

    fn try_compute(&self, hash: u64, key: K, change: &mut impl FnMut(Option<&V>) -> Op<V>) -> Result<Computed, K> {
        let mut due = Vec::new();
        let ready = self.entries.may_defer();
        let guard = self.entries.pin();
        let found = self.entries.look(hash, &guard, |entry| entry.key == key);
        let seen = found.as_ref().map(|found| found.word);
        let lives = found.map(|found| found.item).filter(|entry| self.lives(entry));
        match change(lives.map(|entry| &entry.value)) {
            Op::Keep => Ok(if lives.is_some() { Computed::Kept } else { Computed::Absent }),
            Op::Remove if lives.is_none() => Ok(Computed::Absent),
            Op::Remove => {
                self.flights.outdate(hash, &key);
                let under = Under { guard: &guard, now: self.now(), ready };
                let is = |entry: &super::Entry<K, V>| entry.key == key;
                let removed = self.entries.remove_under(under, (hash, Cause::Removed), is, seen, &mut due).1;
                if removed { Ok(Computed::Removed) } else { Err(key) }
            }
            Op::Insert(value) => {
                self.flights.outdate(hash, &key);
                let newcomer = self.newcomer(key, value, None, &[]);
                match self.put((&guard, ready), hash, newcomer, Rule::IfStill(seen), &mut due) {
                    Ok(Put::Inserted | Put::Kept(_)) if lives.is_some() => Ok(Computed::Replaced),
                    Ok(Put::Inserted | Put::Kept(_)) => Ok(Computed::Inserted),
                    Ok(Put::Replaced(_)) => Ok(Computed::Replaced),
                    Ok(Put::Refused) => Ok(Computed::Refused),
                    Err(entry) => Err(entry.key),
                }
            }
        }
    }
}
