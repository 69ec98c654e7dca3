//! Slots by a key, the least first: an indexed binary heap, in which any slot can be found, changed or taken out.

use super::Slot;
use crate::ahead::prefetch;

/// No place.
const NONE: u32 = u32::MAX;

/// Slots ordered by their keys; equal keys by slot, so that the order is total.
pub(super) struct Heap<K> {
    heap: Vec<(K, Slot)>,
    /// Where a slot is in the heap, `NONE` where it is not in.
    positions: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    /// Bytes for each slot.
    pub const BYTES: usize = size_of::<(K, Slot)>() + size_of::<u32>();

    /// An empty one.
    pub fn new() -> Heap<K> {
        Heap { heap: Vec::new(), positions: Vec::new() }
    }

    /// The slot with the least key.
    pub fn least(&self) -> Option<(K, Slot)> {
        self.heap.first().copied()
    }

    /// A slot's key, if it is in.
    pub fn key(&self, slot: Slot) -> Option<K> {
        let position = *self.positions.get(slot as usize)?;
        self.heap.get(position as usize).map(|(key, _)| *key)
    }

    /// These slots are going to get other keys: asks for the memory of their places and of what is below.
    pub fn ahead(&self, slots: impl Iterator<Item = Slot> + Clone) {
        let positions = slots.filter_map(|slot| self.positions.get(slot as usize));
        positions.clone().for_each(prefetch);
        for &position in positions {
            for at in [position as usize, 2 * position as usize + 1] {
                self.heap.get(at).into_iter().for_each(prefetch);
            }
        }
    }

    /// Puts a slot in, or gives it another key.
    pub fn set(&mut self, slot: Slot, key: K) {
        let index = slot as usize;
        super::reach(&mut self.positions, slot, NONE);
        match self.positions[index] {
            NONE => {
                super::grow(&mut self.heap, 1);
                self.heap.push((key, slot));
                self.sift_up(self.heap.len() - 1);
            }
            position => {
                let position = position as usize;
                if std::mem::replace(&mut self.heap[position].0, key) < key {
                    self.sift_down(position);
                } else {
                    self.sift_up(position);
                }
            }
        }
    }

    /// Takes a slot out; its key, if it was in.
    pub fn remove(&mut self, slot: Slot) -> Option<K> {
        let position = std::mem::replace(self.positions.get_mut(slot as usize)?, NONE) as usize;
        let (key, _) = *self.heap.get(position)?;
        let last = self.heap.pop()?;
        if last.1 != slot {
            self.heap[position] = last;
            self.sift_up(position);
            self.sift_down(self.positions[last.1 as usize] as usize);
        }
        Some(key)
    }

    /// No slot from this one on is in any more.
    pub fn fits(&mut self, slots: usize) {
        super::fit(&mut self.positions, slots);
        let heap = self.heap.len();
        super::fit(&mut self.heap, heap);
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    fn put(&mut self, position: usize, item: (K, Slot)) {
        self.heap[position] = item;
        self.positions[item.1 as usize] = position as u32;
    }

    fn sift_up(&mut self, mut position: usize) {
        let item = self.heap[position];
        while position > 0 && item < self.heap[(position - 1) / 2] {
            self.put(position, self.heap[(position - 1) / 2]);
            position = (position - 1) / 2;
        }
        self.put(position, item);
    }

    fn sift_down(&mut self, mut position: usize) {
        let item = self.heap[position];
        loop {
            let mut child = 2 * position + 1;
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if child >= self.heap.len() || item <= self.heap[child] {
                break;
            }
            self.put(position, self.heap[child]);
            position = child;
        }
        self.put(position, item);
    }

    /// Panics if the heap is out of order or a slot is not where it should be.
    pub fn validate(&self) {
        for (position, item) in self.heap.iter().enumerate() {
            assert!(position == 0 || self.heap[(position - 1) / 2] <= *item, "the parent comes first");
            assert_eq!(self.positions[item.1 as usize], position as u32, "a slot is where it says");
        }
        let placed = self.positions.iter().filter(|&&position| position != NONE).count();
        assert_eq!(placed, self.heap.len(), "every slot that has a place is in");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0u32..12, 0u8..6, any::<bool>()), 0..200)) {
            let (mut heap, mut model) = (Heap::new(), BTreeMap::<Slot, u8>::new());
            for (slot, key, set) in steps {
                prop_assert_eq!(heap.key(slot), model.get(&slot).copied());
                if set {
                    heap.set(slot, key);
                    model.insert(slot, key);
                } else {
                    prop_assert_eq!(heap.remove(slot), model.remove(&slot));
                }
                heap.validate();
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.least(), model.iter().map(|(&slot, &key)| (key, slot)).min());
            }
        }
    }
}
