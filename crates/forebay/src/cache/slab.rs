//! Entries by slot number, in chunks, so that growing moves nothing and wastes at most one chunk.

use super::slot::prefetch;
use crate::policy::Slot;

/// Entries in one chunk.
const CHUNK: usize = 1024;

/// Slots that are taken or free; a freed slot is used again first.
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<Slot>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, entry: T) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(entry);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunk = self.chunks.len() - 1;
        self.chunks[chunk].push(Some(entry));
        (chunk * CHUNK + self.chunks[chunk].len() - 1) as Slot
    }

    /// Asks for the memory of `slot`.
    pub(super) fn prefetch(&self, slot: Slot) {
        if let Some(entry) = self.chunks.get(slot as usize / CHUNK).and_then(|chunk| chunk.get(slot as usize % CHUNK)) {
            prefetch::<1, _>(entry);
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&T> {
        self.chunks.get(slot as usize / CHUNK)?.get(slot as usize % CHUNK)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.chunks.get_mut(slot as usize / CHUNK)?.get_mut(slot as usize % CHUNK)?.as_mut()
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let entry = self.chunks.get_mut(slot as usize / CHUNK)?.get_mut(slot as usize % CHUNK)?.take()?;
        self.free.push(slot);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.chunks
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(slot, entry)| entry.as_ref().map(|entry| (slot as Slot, entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_stable_and_used_again() {
        let mut slab = Slab::new();
        let slots: Vec<Slot> = (0..3000).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.remove(slots[1500]), Some(1500));
        assert_eq!((slab.remove(slots[1500]), slab.get(slots[1500])), (None, None));
        assert_eq!(slab.insert(9), slots[1500]);
        assert_eq!(slab.get(slots[2999]), Some(&2999));
        assert_eq!(slab.iter().count(), 3000);
    }
}
