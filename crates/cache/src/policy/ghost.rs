//! Ghosts: hashes of entries that were evicted, first in, first out, within a bounded weight.
//!
//! There are about as many ghosts as entries, so they are kept small. They stand in a ring of fingerprints and
//! weights, oldest first, with an index of places in it. A ghost that is taken out of the middle leaves its place
//! empty until the ring has passed it. A fingerprint has 32 bits. A newcomer is taken for a ghost by chance in as
//! many of 4 billion cases as there are ghosts, the same in each run. All that comes of it is a place in the main
//! queue.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// No more ghosts than this in one order, however small the entries were.
const GHOSTS_MAX: usize = 1 << 22;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The weight of an empty place; a ghost weighs at least 1.
const EMPTY: u32 = 0;

/// Places, used or empty, that are not worth tidying up.
const PLACES_MIN: usize = 64;

/// Remembers the hashes of evicted entries, oldest forgotten first.
pub(super) struct Ghosts {
    /// Numbers of places, found by fingerprint.
    index: HashTable<u32>,
    prints: VecDeque<u32>,
    weights: VecDeque<u32>,
    /// The number of the ring's first place. Numbers wrap around; there are far fewer places than numbers.
    first: u32,
    /// Sum of the weights.
    weight: u64,
    /// Sum of the weights that the entries had, at most.
    weight_max: u64,
}

impl Ghosts {
    /// Room for entries that weighed `weight_max` together.
    pub fn new(weight_max: u64) -> Ghosts {
        Ghosts {
            index: HashTable::new(),
            prints: VecDeque::new(),
            weights: VecDeque::new(),
            first: 0,
            weight: 0,
            weight_max,
        }
    }

    /// Remembers an entry, and forgets the oldest until there is room. One heavier than all the room is not kept.
    pub fn insert(&mut self, hash: u64, weight: u32) {
        self.insert_print(fingerprint(hash), weight);
    }

    /// Remembers the entry of this fingerprint, as [`Ghosts::insert`] does.
    pub fn insert_print(&mut self, print: u32, weight: u32) {
        let weight = weight.max(EMPTY + 1);
        if u64::from(weight) > self.weight_max {
            return;
        }
        self.remove_print(print);
        let weight_left = self.weight_max - u64::from(weight);
        while self.weight > weight_left || self.len() >= GHOSTS_MAX {
            self.forget_oldest();
        }
        self.reserve();
        let number = self.first.wrapping_add(self.prints.len() as u32);
        self.prints.push_back(print);
        self.weights.push_back(weight);
        self.weight += u64::from(weight);
        let (prints, first) = (&self.prints, self.first);
        self.index.insert_unique(spread(print), number, |number| spread(prints[number.wrapping_sub(first) as usize]));
    }

    /// Forgets an entry; whether it was there.
    pub fn remove(&mut self, hash: u64) -> bool {
        self.remove_print(fingerprint(hash))
    }

    fn remove_print(&mut self, print: u32) -> bool {
        let (prints, first) = (&self.prints, self.first);
        let same = |number: &u32| prints[number.wrapping_sub(first) as usize] == print;
        let Ok(found) = self.index.find_entry(spread(print), same) else { return false };
        let (number, _) = found.remove();
        let weight = &mut self.weights[number.wrapping_sub(first) as usize];
        self.weight -= u64::from(std::mem::replace(weight, EMPTY));
        while self.weights.front() == Some(&EMPTY) {
            self.pass_first();
        }
        true
    }

    /// Another bound; forgets what is beyond it.
    pub fn set_weight_max(&mut self, weight_max: u64) {
        self.weight_max = weight_max;
        while self.weight > weight_max {
            self.forget_oldest();
        }
    }

    /// Fingerprints and weights, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let places = self.prints.iter().copied().zip(self.weights.iter().copied());
        places.filter(|(_, weight)| *weight != EMPTY)
    }

    /// Number of ghosts.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that they occupy.
    pub fn bytes(&self) -> usize {
        self.prints.capacity() * size_of::<u32>()
            + self.weights.capacity() * size_of::<u32>()
            + self.index.allocation_size()
    }

    fn forget_oldest(&mut self) {
        // The first place is never empty.
        if let Some(&oldest) = self.prints.front() {
            self.remove_print(oldest);
        }
    }

    fn pass_first(&mut self) {
        self.prints.pop_front();
        self.weights.pop_front();
        self.first = self.first.wrapping_add(1);
    }

    /// Room for one more place. Empty places go when they are the most; else the ring grows by an eighth, because all
    /// of it comes into use, and doubling would leave up to half of it idle.
    fn reserve(&mut self) {
        let places = self.prints.len();
        if places < self.prints.capacity() {
            return;
        }
        if places > PLACES_MIN && places > 2 * self.len() {
            return self.tidy();
        }
        self.prints.reserve_exact(places / 8 + PLACES_MIN);
        self.weights.reserve_exact(places / 8 + PLACES_MIN);
    }

    /// Takes the empty places out of the ring.
    fn tidy(&mut self) {
        let mut live = self.weights.iter().map(|&weight| weight != EMPTY);
        self.prints.retain(|_| live.next() == Some(true));
        self.weights.retain(|&weight| weight != EMPTY);
        self.index.clear();
        let (prints, first) = (&self.prints, self.first);
        let hash = |number: &u32| spread(prints[number.wrapping_sub(first) as usize]);
        for (place, &print) in prints.iter().enumerate() {
            self.index.insert_unique(spread(print), first.wrapping_add(place as u32), hash);
        }
    }

    /// Panics if ring, index and bound contradict each other.
    pub fn validate(&self) {
        let weights = self.weights.iter().map(|&weight| u64::from(weight));
        assert_eq!(weights.sum::<u64>(), self.weight, "the sum of the weights");
        assert!(self.weight <= self.weight_max, "ghosts beyond their bound");
        assert_ne!(self.weights.front(), Some(&EMPTY), "the first place is in use");
        assert_eq!(self.prints.len(), self.weights.len(), "each place has a fingerprint and a weight");
        let live = self.weights.iter().filter(|&&weight| weight != EMPTY).count();
        assert_eq!(live, self.len(), "each ghost is in the index");
        for (place, (&print, _)) in self.prints.iter().zip(&self.weights).enumerate().filter(|(_, (_, w))| **w != EMPTY)
        {
            let number = self.first.wrapping_add(place as u32);
            let found = self.index.find(spread(print), |&at| at == number);
            assert!(found.is_some(), "ghost {print:#x} is found where it stands");
        }
    }
}

/// All bits of `hash` decide, also where it is a plain number.
fn fingerprint(hash: u64) -> u32 {
    (hash.wrapping_mul(SPREAD) >> 32) as u32
}

/// The hash by which the index knows a fingerprint.
fn spread(print: u32) -> u64 {
    u64::from(print).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(steps in prop::collection::vec((0u64..20, 1u32..5, 0u8..8), 0..600)) {
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
