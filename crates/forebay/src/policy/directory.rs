//! Keys that are not cached, each in one of several lists in the order in which it came: like
//! [`super::history::History`], but found in one place whichever list they are in.

use hashbrown::HashTable;

use super::history::KEYS_MAX;
use super::list::{Lists, NODE_BYTES};

/// Keys by hash, with weights, in lists from oldest to newest. Their owner bounds them by weight.
pub(super) struct Directory {
    index: HashTable<u32>,
    /// By place.
    hashes: Vec<u64>,
    free: Vec<u32>,
    /// Over places.
    lists: Lists,
}

impl Directory {
    /// Empty lists, numbered from 0.
    pub fn new(lists: usize) -> Directory {
        Directory { index: HashTable::new(), hashes: Vec::new(), free: Vec::new(), lists: Lists::new(lists) }
    }

    /// Remembers a key, which is in no list, as the newest of one. Beyond `KEYS_MAX` keys of a list its oldest goes.
    pub fn push(&mut self, list: u32, hash: u64, weight: u32) {
        if self.lists.len(list) >= KEYS_MAX {
            self.pop_oldest(list);
        }
        let place = self.free.pop().unwrap_or(self.hashes.len() as u32);
        match self.hashes.get_mut(place as usize) {
            Some(free) => *free = hash,
            None => self.hashes.push(hash),
        }
        self.lists.push(list, place, weight);
        let hashes = &self.hashes;
        self.index.insert_unique(hash, place, |&at| hashes[at as usize]);
    }

    /// Forgets a key; the list that it was in.
    pub fn take(&mut self, hash: u64) -> Option<u32> {
        let hashes = &self.hashes;
        let (place, _) = self.index.find_entry(hash, |&at| hashes[at as usize] == hash).ok()?.remove();
        let list = self.lists.list_of(place);
        self.lists.remove(place);
        self.free.push(place);
        list
    }

    /// Forgets the oldest key of a list; whether there was one.
    pub fn pop_oldest(&mut self, list: u32) -> bool {
        let Some(oldest) = self.lists.oldest(list) else { return false };
        if let Ok(found) = self.index.find_entry(self.hashes[oldest as usize], |&at| at == oldest) {
            found.remove();
        }
        self.lists.remove(oldest);
        self.free.push(oldest);
        true
    }

    /// Forgets the oldest of a list until what is left of it weighs at most `weight_max`.
    pub fn trim(&mut self, list: u32, weight_max: u64) {
        while self.weight(list) > weight_max {
            self.pop_oldest(list);
        }
    }

    /// Sum of the weights in a list.
    pub fn weight(&self, list: u32) -> u64 {
        self.lists.weight(list)
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * (size_of::<u64>() + NODE_BYTES)
            + self.free.capacity() * size_of::<u32>()
            + self.index.allocation_size()
    }

    /// Panics if lists and index contradict each other.
    pub fn validate(&self) {
        self.lists.validate();
        for place in (0..self.hashes.len() as u32).filter(|&place| self.lists.list_of(place).is_some()) {
            let found = self.index.find(self.hashes[place as usize], |&at| at == place);
            assert!(found.is_some(), "a key is found where it stands");
        }
        assert_eq!(self.index.len() + self.free.len(), self.hashes.len(), "each place is in use or free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_vectors(steps in prop::collection::vec((0u64..20, 1u32..5, 0u8..8, 0u32..2), 0..300)) {
            let (mut directory, mut model) = (Directory::new(2), [Vec::<(u64, u32)>::new(), Vec::new()]);
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
                        directory.push(list, hash, weight);
                        of_list.push((hash, weight));
                    }
                    _ => {
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
