//! Numbers for entries, given again when they are free, in chunks whose memory comes and goes.
//!
//! A newcomer gets a number of the lowest chunk that has room. So when many small entries give way to few large ones,
//! those gather in the lowest chunks. The others become empty, and an empty chunk's memory is given back. Nothing is
//! moved, because numbers are what orders of eviction know entries by.

use crate::sync::CHECKED;

/// Numbers of a chunk.
pub(super) const CHUNK: usize = if CHECKED { 2 } else { 1024 };

/// Which numbers are taken. What they stand for lies elsewhere, in chunks of the same size.
pub(super) struct Numbers {
    chunks: Vec<Chunk>,
    /// A bit for each chunk: it has room.
    room: Vec<u64>,
    /// No earlier word of `room` has a bit.
    first_room: usize,
    /// An empty chunk that keeps its memory, so that one entry that comes and goes does not cost an allocation.
    spare: Option<usize>,
}

#[derive(Default)]
struct Chunk {
    /// Numbers that were ever given since the chunk has memory.
    begun: usize,
    /// Those of them that are free; the one that was freed last is given again first.
    free: Vec<u16>,
}

impl Chunk {
    fn is_empty(&self) -> bool {
        self.begun == self.free.len()
    }
}

impl Numbers {
    pub fn new() -> Numbers {
        Numbers { chunks: Vec::new(), room: Vec::new(), first_room: 0, spare: None }
    }

    /// A free number, which is taken from now on. Its chunk needs memory.
    pub fn take(&mut self) -> u32 {
        let at = self.chunk_with_room();
        let chunk = &mut self.chunks[at];
        let place = chunk.free.pop().map_or(chunk.begun, usize::from);
        chunk.begun = chunk.begun.max(place + 1);
        if chunk.free.is_empty() && chunk.begun == CHUNK {
            self.room[at / 64] &= !(1 << (at % 64));
        }
        if self.spare == Some(at) {
            self.spare = None;
        }
        (at * CHUNK + place) as u32
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
        self.chunks.push(Chunk::default());
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

    /// A number that was taken is free. Answers the chunk that needs no memory any more.
    pub fn give_back(&mut self, number: u32) -> Option<usize> {
        let (at, place) = (number as usize / CHUNK, number as usize % CHUNK);
        let chunk = self.chunks.get_mut(at)?;
        chunk.free.push(place as u16);
        let empty = chunk.is_empty();
        self.set_room(at);
        if empty { self.emptied(at) } else { None }
    }

    /// Of this chunk and the one that was spare the higher gives its memory back.
    fn emptied(&mut self, at: usize) -> Option<usize> {
        let spare = self.spare.replace(at)?;
        self.spare = Some(spare.min(at));
        let goes = spare.max(at);
        self.chunks[goes] = Chunk::default();
        while self.chunks.last().is_some_and(|chunk| chunk.begun == 0) {
            self.chunks.pop();
        }
        let chunks = self.chunks.len();
        self.room.truncate(chunks.div_ceil(64));
        if let Some(last) = self.room.last_mut().filter(|_| !chunks.is_multiple_of(64)) {
            *last &= (1 << (chunks % 64)) - 1;
        }
        self.first_room = self.first_room.min(self.room.len());
        Some(goes)
    }

    /// All numbers that are taken are below this.
    pub fn bound(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// Panics if it contradicts itself.
    pub fn validate(&self) {
        let mut empty = 0;
        for (at, chunk) in self.chunks.iter().enumerate() {
            let full = chunk.free.is_empty() && chunk.begun == CHUNK;
            assert_eq!(self.room[at / 64] >> (at % 64) & 1 == 1, !full, "chunk {at}: whether it has room");
            empty += usize::from(chunk.is_empty() && chunk.begun > 0);
        }
        assert_eq!(self.room.len(), self.chunks.len().div_ceil(64));
        let bits: u32 = self.room.iter().map(|word| word.count_ones()).sum();
        let room = self.chunks.iter().filter(|chunk| !chunk.free.is_empty() || chunk.begun < CHUNK).count();
        assert_eq!(bits as usize, room, "no bit of a chunk that is gone");
        assert!(self.room.iter().take(self.first_room).all(|word| *word == 0), "no room before the first");
        assert!(empty <= 1 && self.spare.is_some() == (empty == 1), "{empty} empty chunks, spare {:?}", self.spare);
    }
}
