//! Numbered places for owners: a number stays what it is until its owner leaves. Places lie in chunks, so that room
//! for many is made and given back in small steps.

/// Places of a chunk.
pub(super) const CHUNK: usize = if cfg!(feature = "loom") { 8 } else { 1024 };

/// See the module. A shard's lock guards it.
pub(super) struct Slab<P> {
    chunks: Vec<Chunk<P>>,
    /// Chunks with room, some of them more than once or without it any more.
    room: Vec<u32>,
    len: usize,
}

struct Chunk<P> {
    places: Vec<Option<P>>,
    /// Places in `places` that are free.
    free: Vec<u16>,
    /// It stands in `room`.
    offered: bool,
}

impl<P> Chunk<P> {
    fn has_room(&self) -> bool {
        self.places.len() < CHUNK || !self.free.is_empty()
    }
}

impl<P> Slab<P> {
    pub fn new() -> Slab<P> {
        Slab { chunks: Vec::new(), room: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// All numbers in use are below.
    pub fn bound(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// The number that the next owner gets.
    pub fn next(&mut self) -> u32 {
        let at = self.chunk_with_room();
        let chunk = &self.chunks[at];
        let place = chunk.free.last().map_or(chunk.places.len(), |&place| usize::from(place));
        (at * CHUNK + place) as u32
    }

    /// Puts an owner into the next place.
    pub fn insert(&mut self, owner: P) -> u32 {
        let number = self.next();
        let chunk = &mut self.chunks[number as usize / CHUNK];
        match chunk.free.pop() {
            Some(place) => chunk.places[usize::from(place)] = Some(owner),
            None => {
                if chunk.places.capacity() == 0 {
                    chunk.places.reserve_exact(CHUNK);
                }
                chunk.places.push(Some(owner));
            }
        }
        self.len += 1;
        number
    }

    fn chunk_with_room(&mut self) -> usize {
        while let Some(&at) = self.room.last() {
            if let Some(chunk) = self.chunks.get_mut(at as usize) {
                if chunk.has_room() {
                    return at as usize;
                }
                chunk.offered = false;
            }
            self.room.pop();
        }
        self.chunks.push(Chunk { places: Vec::new(), free: Vec::new(), offered: true });
        self.room.push(self.chunks.len() as u32 - 1);
        self.chunks.len() - 1
    }

    pub fn get(&self, number: u32) -> Option<&P> {
        self.chunks.get(number as usize / CHUNK)?.places.get(number as usize % CHUNK)?.as_ref()
    }

    /// Puts another owner in the place of one.
    pub fn replace(&mut self, number: u32, owner: P) -> Option<P> {
        let place = self.chunks.get_mut(number as usize / CHUNK)?.places.get_mut(number as usize % CHUNK)?;
        debug_assert!(place.is_some(), "a place that is taken");
        place.replace(owner)
    }

    pub fn remove(&mut self, number: u32) -> Option<P> {
        let (at, place) = (number as usize / CHUNK, number as usize % CHUNK);
        let chunk = self.chunks.get_mut(at)?;
        let owner = chunk.places.get_mut(place)?.take()?;
        self.len -= 1;
        chunk.free.push(place as u16);
        if chunk.free.len() == chunk.places.len() {
            (chunk.places, chunk.free) = (Vec::new(), Vec::new());
        }
        if !chunk.offered {
            chunk.offered = true;
            self.room.push(at as u32);
        }
        while self.chunks.last().is_some_and(|chunk| chunk.places.is_empty()) {
            self.chunks.pop();
        }
        Some(owner)
    }

    /// All owners with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &P)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let places = chunk.places.iter().enumerate();
            places.filter_map(move |(place, owner)| Some(((at * CHUNK + place) as u32, owner.as_ref()?)))
        })
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn equals_a_map_and_gives_back() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut slab, mut model) = (Slab::new(), BTreeMap::new());
        let steps = if cfg!(miri) { 2_000 } else { 60_000 };
        for step in 0..steps {
            let grows = step < steps / 2;
            if random.u8(..10) < if grows { 7 } else { 3 } {
                let next = slab.next();
                assert_eq!(slab.insert(step), next);
                assert_eq!(model.insert(next, step), None, "a place that is taken");
            } else if let Some((&number, _)) = model.range(random.u32(..10_000)..).next() {
                assert_eq!(slab.remove(number), model.remove(&number));
                assert_eq!(slab.remove(number), None);
            }
            assert_eq!(slab.len(), model.len());
        }
        assert!(slab.iter().eq(model.iter().map(|(number, value)| (*number, value))));
        for number in model.keys() {
            assert_eq!(slab.replace(*number, 7).as_ref(), model.get(number));
            assert_eq!(slab.remove(*number), Some(7));
        }
        assert_eq!((slab.bound(), slab.len()), (0, 0), "all memory is given back");
        assert!(slab.room.len() <= 100, "offers are not kept");
    }
}
