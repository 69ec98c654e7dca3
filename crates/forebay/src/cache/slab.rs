//! Entries by slot number, in chunks, so that growing moves nothing and wastes at most one chunk.
//!
//! A newcomer takes a slot in the lowest chunk that has room. So when many small entries give way to few large ones,
//! those gather in the lowest chunks. The others become empty, and an empty chunk's memory is given back. Nothing is
//! moved, because slots are what the rest of the cache knows entries by.

use super::slot::prefetch;
use crate::policy::Slot;

/// Entries in one chunk.
pub(super) const CHUNK: usize = 1024;

/// Slots that are taken or free.
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// A bit for each chunk: it has room.
    room: Vec<u64>,
    /// No earlier word of `room` has a bit.
    first_room: usize,
    /// An empty chunk that keeps its memory, so that one entry that comes and goes does not cost an allocation.
    spare: Option<usize>,
}

struct Chunk<T> {
    entries: Vec<Option<T>>,
    /// Places in `entries` that are free; the one that was freed last is used again first.
    free: Vec<u16>,
}

impl<T> Chunk<T> {
    fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), room: Vec::new(), first_room: 0, spare: None }
    }

    pub(super) fn insert(&mut self, entry: T) -> Slot {
        let at = self.chunk_with_room();
        let chunk = &mut self.chunks[at];
        let place = match chunk.free.pop() {
            Some(place) => {
                chunk.entries[usize::from(place)] = Some(entry);
                usize::from(place)
            }
            None => {
                if chunk.entries.capacity() == 0 {
                    chunk.entries.reserve_exact(CHUNK);
                }
                chunk.entries.push(Some(entry));
                chunk.entries.len() - 1
            }
        };
        if chunk.free.is_empty() && chunk.entries.len() == CHUNK {
            self.room[at / 64] &= !(1 << (at % 64));
        }
        if self.spare == Some(at) {
            self.spare = None;
        }
        (at * CHUNK + place) as Slot
    }

    /// The lowest chunk that has room; a new one if none has.
    fn chunk_with_room(&mut self) -> usize {
        while let Some(word) = self.room.get(self.first_room) {
            if *word != 0 {
                return self.first_room * 64 + word.trailing_zeros() as usize;
            }
            self.first_room += 1;
        }
        let at = self.chunks.len();
        self.chunks.push(Chunk { entries: Vec::new(), free: Vec::new() });
        self.set_room(at);
        at
    }

    fn set_room(&mut self, at: usize) {
        let word = at / 64;
        if word >= self.room.len() {
            self.room.resize(word + 1, 0);
        }
        self.room[word] |= 1 << (at % 64);
        self.first_room = self.first_room.min(word);
    }

    /// Asks for the memory of `slot`.
    pub(super) fn prefetch(&self, slot: Slot) {
        if let Some(entry) = self.place(slot) {
            prefetch::<1, _>(entry);
        }
    }

    fn place(&self, slot: Slot) -> Option<&Option<T>> {
        self.chunks.get(slot as usize / CHUNK)?.entries.get(slot as usize % CHUNK)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&T> {
        self.place(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.chunks.get_mut(slot as usize / CHUNK)?.entries.get_mut(slot as usize % CHUNK)?.as_mut()
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let (at, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let chunk = self.chunks.get_mut(at)?;
        let entry = chunk.entries.get_mut(place)?.take()?;
        chunk.free.push(place as u16);
        let empty = chunk.is_empty();
        self.set_room(at);
        if empty {
            self.emptied(at);
        }
        Some(entry)
    }

    /// Gives memory back: of this chunk, or of the one that was spare, whichever is higher.
    fn emptied(&mut self, at: usize) {
        let Some(spare) = self.spare.replace(at) else { return };
        self.spare = Some(spare.min(at));
        let chunk = &mut self.chunks[spare.max(at)];
        (chunk.entries, chunk.free) = (Vec::new(), Vec::new());
        while self.chunks.last().is_some_and(|chunk| chunk.entries.capacity() == 0) {
            self.chunks.pop();
        }
        let chunks = self.chunks.len();
        self.room.truncate(chunks.div_ceil(64));
        if let Some(last) = self.room.last_mut().filter(|_| !chunks.is_multiple_of(64)) {
            *last &= (1 << (chunks % 64)) - 1;
        }
        self.first_room = self.first_room.min(self.room.len());
    }

    /// All slots that are taken are below this.
    pub(super) fn bound(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let taken = chunk.entries.iter().enumerate();
            taken.filter_map(move |(place, entry)| Some(((at * CHUNK + place) as Slot, entry.as_ref()?)))
        })
    }

    /// Panics if it contradicts itself.
    pub(super) fn validate(&self) {
        let mut empty = 0;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let free = chunk.entries.iter().filter(|entry| entry.is_none()).count();
            assert_eq!(free, chunk.free.len(), "chunk {at}: free places");
            let full = free == 0 && chunk.entries.len() == CHUNK;
            assert_eq!(self.room[at / 64] >> (at % 64) & 1 == 1, !full, "chunk {at}: whether it has room");
            empty += usize::from(chunk.is_empty() && chunk.entries.capacity() > 0);
        }
        assert_eq!(self.room.len(), self.chunks.len().div_ceil(64));
        let bits: u32 = self.room.iter().map(|word| word.count_ones()).sum();
        let room = self.chunks.iter().filter(|chunk| !chunk.free.is_empty() || chunk.entries.len() < CHUNK).count();
        assert_eq!(bits as usize, room, "no bit of a chunk that is gone");
        assert!(self.room.iter().take(self.first_room).all(|word| *word == 0), "no room before the first");
        assert!(empty <= 1 && self.spare.is_some() == (empty == 1), "{empty} empty chunks, spare {:?}", self.spare);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

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
        slab.validate();
    }

    /// Bytes of chunks.
    fn held(slab: &Slab<u64>) -> usize {
        slab.chunks.iter().map(|chunk| chunk.entries.capacity()).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Against a map: any run of insertions and removals, oldest, newest or any first; at the end few are left, and
        /// after as many have come and gone as there were, no more memory is held than those need.
        #[test]
        fn equals_a_map_and_gives_back(
            steps in prop::collection::vec((1usize..1500, 0u8..4, any::<u32>()), 1..12),
            left in 1usize..40,
        ) {
            let (mut slab, mut model) = (Slab::new(), BTreeMap::<Slot, u64>::new());
            let mut next = 0;
            let mut insert = |slab: &mut Slab<u64>, model: &mut BTreeMap<Slot, u64>| {
                next += 1;
                assert_eq!(model.insert(slab.insert(next), next), None, "a slot that is taken");
            };
            let mut removed = 0;
            for (count, kind, seed) in steps {
                for round in 0..count {
                    let slot = match kind {
                        0 | 1 => None,
                        2 => model.keys().next().copied(),
                        _ => {
                            let first = seed.wrapping_mul(round as u32 * 2 + 1) % 8192;
                            model.range(first..).next().map(|(slot, _)| *slot)
                        }
                    };
                    match slot {
                        Some(slot) => {
                            prop_assert_eq!(slab.remove(slot), model.remove(&slot));
                            removed += 1;
                        }
                        None => insert(&mut slab, &mut model),
                    }
                }
                slab.validate();
                prop_assert!(slab.iter().map(|(slot, n)| (slot, *n)).eq(model.iter().map(|(slot, n)| (*slot, *n))));
                prop_assert!(model.keys().all(|slot| (*slot as usize) < slab.bound()));
            }
            // What is left is replaced, one by one, by few: the highest slot goes first, as any other would.
            while model.len() > left {
                let slot = *model.keys().next().expect("more are there");
                prop_assert_eq!(slab.remove(slot), model.remove(&slot));
            }
            while model.keys().any(|slot| *slot as usize >= CHUNK) {
                let slot = *model.keys().next_back().expect("some are there");
                prop_assert_eq!(slab.remove(slot), model.remove(&slot));
                insert(&mut slab, &mut model);
            }
            slab.validate();
            prop_assert!(removed == 0 || held(&slab) <= 2 * CHUNK, "{} places are held", held(&slab));
        }
    }
}
