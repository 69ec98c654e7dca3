//! Ghosts: hashes of entries that were evicted, first in, first out, within a bounded weight.

use hashbrown::HashTable;

use super::list::{Lists, NODE_BYTES};

/// No more ghosts than this in one order, however small the entries were.
const GHOSTS_MAX: usize = 1 << 22;

/// The only list of the queue.
const QUEUE: u32 = 0;

/// Remembers the hashes of evicted entries, oldest forgotten first.
pub(super) struct Ghosts {
    /// Positions in `hashes`, found by hash.
    index: HashTable<u32>,
    hashes: Vec<u64>,
    queue: Lists,
    /// Positions out of use.
    free: Vec<u32>,
    /// Sum of the weights that the entries had, at most.
    weight_max: u64,
}

impl Ghosts {
    /// Room for entries that weighed `weight_max` together.
    pub fn new(weight_max: u64) -> Ghosts {
        Ghosts { index: HashTable::new(), hashes: Vec::new(), queue: Lists::new(1), free: Vec::new(), weight_max }
    }

    /// Remembers an entry, and forgets the oldest until there is room. One heavier than all the room is not kept.
    pub fn insert(&mut self, hash: u64, weight: u32) {
        if u64::from(weight) > self.weight_max {
            return;
        }
        self.remove(hash);
        let weight_left = self.weight_max - u64::from(weight);
        while self.queue.weight(QUEUE) > weight_left || self.queue.len(QUEUE) >= GHOSTS_MAX {
            self.forget_oldest();
        }
        let position = self.free.pop().unwrap_or(self.hashes.len() as u32);
        match self.hashes.get_mut(position as usize) {
            Some(place) => *place = hash,
            None => self.hashes.push(hash),
        }
        self.queue.push(QUEUE, position, weight);
        self.index.insert_unique(hash, position, |&at| self.hashes[at as usize]);
    }

    /// Forgets an entry; whether it was there.
    pub fn remove(&mut self, hash: u64) -> bool {
        let Ok(found) = self.index.find_entry(hash, |&at| self.hashes[at as usize] == hash) else { return false };
        let (position, _) = found.remove();
        self.queue.remove(position);
        self.free.push(position);
        true
    }

    /// Another bound; forgets what is beyond it.
    pub fn set_weight_max(&mut self, weight_max: u64) {
        self.weight_max = weight_max;
        while self.queue.weight(QUEUE) > weight_max {
            self.forget_oldest();
        }
    }

    /// Number of ghosts.
    pub fn len(&self) -> usize {
        self.queue.len(QUEUE)
    }

    /// Bytes that they occupy.
    pub fn bytes(&self) -> usize {
        self.hashes.capacity() * (size_of::<u64>() + NODE_BYTES)
            + self.free.capacity() * size_of::<u32>()
            + self.index.allocation_size()
    }

    fn forget_oldest(&mut self) {
        if let Some(position) = self.queue.oldest(QUEUE) {
            self.remove(self.hashes[position as usize]);
        }
    }

    /// Panics if queue, index and bound contradict each other.
    pub fn validate(&self) {
        self.queue.validate();
        assert!(self.queue.weight(QUEUE) <= self.weight_max, "ghosts beyond their bound");
        assert_eq!(self.index.len(), self.len(), "each ghost is found by its hash");
        assert_eq!(self.len() + self.free.len(), self.hashes.len(), "each position is used or free");
        for position in self.queue.iter(QUEUE) {
            let hash = self.hashes[position as usize];
            let found = self.index.find(hash, |&at| self.hashes[at as usize] == hash);
            assert_eq!(found, Some(&position), "ghost {hash:#x} is found where it stands");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(steps in prop::collection::vec((0u64..20, 1u32..5, 0u8..8), 0..300)) {
            let (mut ghosts, mut model, mut weight_max) = (Ghosts::new(20), Vec::<(u64, u32)>::new(), 20u32);
            for (hash, weight, operation) in steps {
                match operation {
                    0 | 1 => {
                        let was_there = model.iter().any(|ghost| ghost.0 == hash);
                        model.retain(|ghost| ghost.0 != hash);
                        prop_assert_eq!(ghosts.remove(hash), was_there);
                    }
                    2 => {
                        weight_max = 10 + weight * 5;
                        ghosts.set_weight_max(u64::from(weight_max));
                    }
                    _ => {
                        ghosts.insert(hash, weight);
                        model.retain(|ghost| ghost.0 != hash);
                        model.push((hash, weight));
                    }
                }
                while model.iter().map(|ghost| ghost.1).sum::<u32>() > weight_max {
                    model.remove(0);
                }
                ghosts.validate();
                prop_assert_eq!(ghosts.len(), model.len());
            }
            for (hash, _) in model {
                prop_assert!(ghosts.remove(hash));
            }
        }
    }
}
