//! What is known of keys that left: how often they were asked for, and the sum of their instance scores. First in,
//! first out, within a bounded number. Keys are known by 32 bits of their hash; one that is like another by chance
//! begins with the other's figures.
//!
//! There are several of these for each entry, so they are kept small: a ring, oldest first, and an index of places in
//! it. What is taken out of the middle leaves its place empty until the ring has passed it.

use std::collections::VecDeque;

use hashbrown::HashTable;

/// No more than this in one order.
const REMEMBERED_MAX: usize = 1 << 22;

/// Places, used or empty, that are not worth tidying up.
const PLACES_MIN: usize = 64;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// How often a key was asked for, and what its instance scores add up to, as the aggregate has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub frequency: f32,
    pub total: f32,
    /// When that was last brought up to date, in the order's ticks.
    pub touched: u32,
}

#[derive(Clone, Copy)]
struct Place {
    print: u32,
    known: Known,
}

/// The frequency of an empty place.
const EMPTY: f32 = -1.0;

/// See the module.
pub(super) struct Remembered {
    /// Numbers of places, found by print.
    index: HashTable<u32>,
    ring: VecDeque<Place>,
    /// The number of the ring's first place. Numbers wrap around; there are far fewer places than numbers.
    first: u32,
}

fn print(hash: u64) -> u32 {
    (hash.wrapping_mul(SPREAD) >> 32) as u32
}

/// The hash by which the index knows a print.
fn spread(print: u32) -> u64 {
    u64::from(print).wrapping_mul(SPREAD)
}

impl Remembered {
    pub fn new() -> Remembered {
        Remembered { index: HashTable::new(), ring: VecDeque::new(), first: 0 }
    }

    fn place(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
    }

    /// Where a key stands in the ring.
    fn find(&self, hash: u64) -> Option<usize> {
        let print = print(hash);
        let number = self.index.find(spread(print), |&number| self.ring[self.place(number)].print == print)?;
        Some(self.place(*number))
    }

    /// Remembers a key as the newest, and forgets the oldest beyond `len_max`.
    pub fn insert(&mut self, hash: u64, known: Known, len_max: usize) {
        self.take(hash);
        let len_max = len_max.min(REMEMBERED_MAX);
        if len_max == 0 {
            return;
        }
        while self.len() >= len_max {
            self.pass_first();
        }
        self.reserve();
        let print = print(hash);
        let number = self.first.wrapping_add(self.ring.len() as u32);
        self.ring.push_back(Place { print, known });
        let (ring, first) = (&self.ring, self.first);
        let hash = |number: &u32| spread(ring[number.wrapping_sub(first) as usize].print);
        self.index.insert_unique(spread(print), number, hash);
    }

    fn pass_first(&mut self) {
        if let Some(oldest) = self.ring.front().copied() {
            if oldest.known.frequency != EMPTY
                && let Ok(found) = self.index.find_entry(spread(oldest.print), |&number| number == self.first)
            {
                found.remove();
            }
            self.ring.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Room for one more place. Empty places go when they are the most; else the ring grows by an eighth, because all
    /// of it comes into use, and doubling would leave up to half of it idle.
    fn reserve(&mut self) {
        let places = self.ring.len();
        if places > PLACES_MIN && places > 2 * self.len() {
            self.ring.retain(|place| place.known.frequency != EMPTY);
            self.index.clear();
            let (ring, first) = (&self.ring, self.first);
            let hash = |number: &u32| spread(ring[number.wrapping_sub(first) as usize].print);
            for (place, one) in ring.iter().enumerate() {
                self.index.insert_unique(spread(one.print), first.wrapping_add(place as u32), hash);
            }
        } else if places == self.ring.capacity() {
            self.ring.reserve_exact(places / 8 + PLACES_MIN);
        }
    }

    /// What is known of a key.
    pub fn get(&self, hash: u64) -> Option<Known> {
        self.find(hash).map(|place| self.ring[place].known)
    }

    /// Changes what is known of a key, if anything is.
    pub fn update(&mut self, hash: u64, change: impl FnOnce(&mut Known)) {
        if let Some(place) = self.find(hash) {
            change(&mut self.ring[place].known);
        }
    }

    /// Takes out what is known of a key.
    pub fn take(&mut self, hash: u64) -> Option<Known> {
        let place = self.find(hash)?;
        let number = self.first.wrapping_add(place as u32);
        if let Ok(found) = self.index.find_entry(spread(print(hash)), |&other| other == number) {
            found.remove();
        }
        let empty = Known { frequency: EMPTY, ..Known::default() };
        Some(std::mem::replace(&mut self.ring[place].known, empty))
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.index.allocation_size() + self.ring.capacity() * size_of::<Place>()
    }

    pub fn validate(&self) {
        let live = self.ring.iter().filter(|place| place.known.frequency != EMPTY).count();
        assert_eq!(live, self.len(), "each that is remembered is in the index");
        for number in &self.index {
            assert!(self.ring[self.place(*number)].known.frequency != EMPTY, "the index leads to what is there");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(steps in prop::collection::vec((0u64..30, 0u8..6), 0..400)) {
            let (mut remembered, mut model) = (Remembered::new(), Vec::<(u64, Known)>::new());
            for (at, (hash, step)) in steps.into_iter().enumerate() {
                let known = Known { frequency: at as f32 + 1.0, ..Known::default() };
                match step {
                    0 => {
                        let expected = model.iter().find(|one| one.0 == hash).map(|one| one.1);
                        model.retain(|one| one.0 != hash);
                        prop_assert_eq!(remembered.take(hash), expected);
                    }
                    1 => {
                        remembered.update(hash, |known| known.total = 7.0);
                        model.iter_mut().filter(|one| one.0 == hash).for_each(|one| one.1.total = 7.0);
                    }
                    _ => {
                        remembered.insert(hash, known, 12);
                        model.retain(|one| one.0 != hash);
                        model.push((hash, known));
                        if model.len() > 12 {
                            model.remove(0);
                        }
                    }
                }
                remembered.validate();
                prop_assert_eq!(remembered.len(), model.len());
                prop_assert!(remembered.ring.len() <= 2 * model.len() + PLACES_MIN + 1);
                for (hash, known) in &model {
                    prop_assert_eq!(remembered.get(*hash), Some(*known));
                }
            }
        }
    }
}
