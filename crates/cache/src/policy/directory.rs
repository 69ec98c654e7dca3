//! Keys that are not cached, each in one of several lists in the order in which it came. This is like
//! [`super::history::History`], but a key is found in one place whichever list it is in.
//!
//! Its owner's host may keep what is cached in this index, too ([`Directory::share`]). Then a search for what is
//! cached finds what is not, too, and a key that is evicted stays where it is found. The simulator does, for which
//! searches are most of a miss; the cache has its own index, which compares whole keys.

use std::cell::Cell;

use hashbrown::HashTable;

use super::Slot;
use super::history::KEYS_MAX;
use super::list::{Lists, NODE_BYTES};

/// In the index: this is a place of a key that is not cached. Without it it is a slot.
const ABSENT: u32 = 1 << 31;

/// Keys by hash, with weights, in lists from oldest to newest. Their owner bounds them by weight.
pub struct Directory {
    index: HashTable<u32>,
    /// By place.
    hashes: Vec<u64>,
    free: Vec<u32>,
    /// Over places.
    lists: Lists,
    /// Whether the index has what is cached, too.
    shared: bool,
    /// If it is shared: the place of the key that was searched for last, if it is not cached but known.
    found: Cell<Option<u32>>,
    /// If it is shared: the key that leaves the cache stays in the index.
    stays: bool,
}

impl Directory {
    /// Empty lists, numbered from 0.
    pub(super) fn new(lists: usize) -> Directory {
        Directory {
            index: HashTable::new(),
            hashes: Vec::new(),
            free: Vec::new(),
            lists: Lists::new(lists),
            shared: false,
            found: Cell::new(None),
            stays: false,
        }
    }

    /// From now on, while it is empty, the host keeps what is cached in the index: it looks for a key with
    /// [`Directory::cached`] before it asks its policy to admit it, and tells of each that comes and, behind its
    /// policy, of each that goes.
    pub(super) fn share(&mut self) {
        self.shared = true;
    }

    /// The slot of a key that is cached; `same` says whether it is in this one.
    #[inline]
    pub(super) fn cached(&self, hash: u64, same: impl Fn(Slot) -> bool) -> Option<Slot> {
        let is_it = |at: &u32| match at & ABSENT {
            0 => same(*at),
            _ => self.hashes[(at & !ABSENT) as usize] == hash,
        };
        let found = self.index.find(hash, is_it).copied();
        self.found.set(found.filter(|at| at & ABSENT != 0).map(|at| at & !ABSENT));
        found.filter(|at| at & ABSENT == 0)
    }

    /// A key is cached; `hash_of` says that of a slot.
    #[inline]
    pub(super) fn comes(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        assert!(slot & ABSENT == 0, "a slot more than a directory can name");
        let hashes = &self.hashes;
        self.index.insert_unique(hash, slot, |&at| match at & ABSENT {
            0 => hash_of(at),
            _ => hashes[(at & !ABSENT) as usize],
        });
    }

    /// A key is not cached any more; the policy knows that.
    #[inline]
    pub(super) fn goes(&mut self, hash: u64, slot: Slot) {
        if !std::mem::take(&mut self.stays) {
            self.forget(hash, slot);
        }
    }

    fn forget(&mut self, hash: u64, at: u32) {
        if let Ok(found) = self.index.find_entry(hash, |&other| other == at) {
            found.remove();
        }
    }

    /// Remembers a key, which is in no list and was in `slot` until now, as the newest of one. Beyond `KEYS_MAX` keys
    /// of a list its oldest goes.
    pub(super) fn push(&mut self, list: u32, slot: Slot, hash: u64, weight: u32) {
        if self.lists.len(list) >= KEYS_MAX {
            self.pop_oldest(list);
        }
        let place = self.free.pop().unwrap_or(self.hashes.len() as u32);
        match self.hashes.get_mut(place as usize) {
            Some(free) => *free = hash,
            None => self.hashes.push(hash),
        }
        self.lists.push(list, place, weight);
        if self.shared
            && let Some(at) = self.index.find_mut(hash, |&at| at == slot)
        {
            *at = place | ABSENT;
            self.stays = true;
            return;
        }
        let hashes = &self.hashes;
        self.index.insert_unique(hash, place | ABSENT, |&at| hashes[(at & !ABSENT) as usize]);
    }

    /// Forgets a key; the list that it was in.
    pub(super) fn take(&mut self, hash: u64) -> Option<u32> {
        let hashes = &self.hashes;
        let place = if self.shared {
            let place = self.found.take()?;
            self.forget(hash, place | ABSENT);
            place
        } else {
            self.index.find_entry(hash, |&at| hashes[(at & !ABSENT) as usize] == hash).ok()?.remove().0 & !ABSENT
        };
        let list = self.lists.list_of(place);
        self.lists.remove(place);
        self.free.push(place);
        list
    }

    /// Forgets the oldest key of a list; whether there was one.
    pub(super) fn pop_oldest(&mut self, list: u32) -> bool {
        let Some(oldest) = self.lists.oldest(list) else { return false };
        self.forget(self.hashes[oldest as usize], oldest | ABSENT);
        self.lists.remove(oldest);
        self.free.push(oldest);
        true
    }

    /// Forgets the oldest of a list until what is left of it weighs at most `weight_max`.
    pub(super) fn trim(&mut self, list: u32, weight_max: u64) {
        while self.weight(list) > weight_max {
            self.pop_oldest(list);
        }
    }

    /// Sum of the weights in a list.
    pub(super) fn weight(&self, list: u32) -> u64 {
        self.lists.weight(list)
    }

    /// Keys that are not cached.
    fn len(&self) -> usize {
        self.hashes.len() - self.free.len()
    }

    /// Bytes that it occupies; of an index that is shared, its part.
    pub(super) fn bytes(&self) -> usize {
        let index = self.index.allocation_size();
        self.hashes.capacity() * (size_of::<u64>() + NODE_BYTES)
            + self.free.capacity() * size_of::<u32>()
            + if self.shared { index * self.len() / self.index.len().max(1) } else { index }
    }

    /// Panics if lists and index contradict each other.
    pub(super) fn validate(&self) {
        self.lists.validate();
        for place in (0..self.hashes.len() as u32).filter(|&place| self.lists.list_of(place).is_some()) {
            let found = self.index.find(self.hashes[place as usize], |&at| at == place | ABSENT);
            assert!(found.is_some(), "a key is found where it stands");
        }
        let absent = self.index.iter().filter(|&&at| at & ABSENT != 0).count();
        assert_eq!(absent, self.len(), "each place is in use or free");
        assert!(self.shared || absent == self.index.len(), "nothing else is in an index of its own");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_vectors(
            steps in prop::collection::vec((0u64..20, 1u32..5, 0u8..8, 0u32..2), 0..300),
            shared: bool,
        ) {
            let (mut directory, mut model) = (Directory::new(2), [Vec::<(u64, u32)>::new(), Vec::new()]);
            if shared {
                directory.share();
            }
            for (hash, weight, operation, list) in steps {
                let keys = |keys: &Vec<(u64, u32)>| keys.iter().any(|key| key.0 == hash);
                let known = model.iter().position(keys);
                let of_list = &mut model[list as usize];
                match (operation, known) {
                    (0, _) => {
                        prop_assert_eq!(directory.pop_oldest(list), !of_list.is_empty());
                        of_list.drain(..of_list.len().min(1));
                    }
                    (1, _) => {
                        directory.trim(list, u64::from(5 * weight));
                        while of_list.iter().map(|key| key.1).sum::<u32>() > 5 * weight {
                            of_list.remove(0);
                        }
                    }
                    (2..5, None) => {
                        if shared {
                            prop_assert_eq!(directory.cached(hash, |_| true), None);
                            directory.comes(hash, 7, |_| hash);
                            prop_assert_eq!(directory.cached(hash, |slot| slot == 7), Some(7));
                        }
                        directory.push(list, 7, hash, weight);
                        if shared {
                            directory.goes(hash, 7);
                        }
                        of_list.push((hash, weight));
                    }
                    _ => {
                        if shared {
                            prop_assert_eq!(directory.cached(hash, |_| true), None);
                        }
                        prop_assert_eq!(directory.take(hash), known.map(|list| list as u32));
                        model.iter_mut().for_each(|keys| keys.retain(|key| key.0 != hash));
                    }
                }
                directory.validate();
                for (list, keys) in (0..).zip(&model) {
                    prop_assert_eq!(directory.weight(list), keys.iter().map(|key| u64::from(key.1)).sum::<u64>());
                }
            }
        }
    }
}
