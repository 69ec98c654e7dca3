//! The chunks of a long byte string: a persistent list, so that a change copies what it touches and the way to it.

use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use super::{Blob, COUNTS_BYTES, List};

/// Bytes of each chunk but the last, which may be shorter. With its reference counts a chunk is just one of the
/// allocator's size classes. A change copies up to so many bytes for each chunk that it touches.
pub(crate) const CHUNK_BYTES: usize = 16 * 1024 - COUNTS_BYTES;

/// A byte string in chunks, none of them empty.
#[derive(Clone)]
pub(super) struct Chunks {
    list: List,
    len: usize,
}

impl Chunks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first chunk.
    pub(super) fn first(&self) -> &[u8] {
        self.list.get(0).map_or(&[], |chunk| chunk)
    }

    /// The chunks of the bytes `range`, which are there, with where those stand in each.
    pub(super) fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&Blob, Range<usize>)> + Clone {
        let first = range.start / CHUNK_BYTES;
        let chunks = self.list.range(first, range.end.div_ceil(CHUNK_BYTES));
        chunks.zip(first..).map(move |(chunk, number)| {
            let begins = number * CHUNK_BYTES;
            (chunk, range.start.max(begins) - begins..range.end.min(begins + CHUNK_BYTES) - begins)
        })
    }

    /// See [`Bytes::write_at`](super::Bytes::write_at).
    pub(super) fn write_at(&mut self, offset: usize, written: &[u8]) {
        self.pad(offset);
        let (over, added) = written.split_at(written.len().min(self.len - offset));
        self.overwrite(offset, over);
        self.append(added);
    }

    /// See [`Bytes::share`](super::Bytes::share).
    pub(super) fn share(&mut self, other: &Chunks) {
        let alike = |(_, (ours, theirs)): &(usize, (&Blob, &Blob))| !Arc::ptr_eq(ours, theirs) && ours == theirs;
        let pairs = self.list.iter().zip(other.list.iter()).enumerate().filter(alike);
        let shared: Vec<(usize, Blob)> = pairs.map(|(number, (_, theirs))| (number, theirs.clone())).collect();
        shared.into_iter().for_each(|(number, chunk)| self.list.replace(number, chunk));
    }

    fn overwrite(&mut self, offset: usize, mut over: &[u8]) {
        let mut at = offset;
        while !over.is_empty() {
            let (number, start) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let (here, rest) = over.split_at(over.len().min(CHUNK_BYTES - start));
            let chunk = self.list.get(number).cloned();
            debug_assert!(chunk.is_some(), "byte {at} of {}", self.len);
            let mut chunk = chunk.unwrap_or_default();
            Arc::make_mut(&mut chunk)[start..start + here.len()].copy_from_slice(here);
            self.list.replace(number, chunk);
            (at, over) = (at + here.len(), rest);
        }
    }

    fn append(&mut self, added: &[u8]) {
        let (to_last, rest) = added.split_at(added.len().min(self.room_in_last()));
        self.fill_last(to_last);
        rest.chunks(CHUNK_BYTES).for_each(|chunk| self.push(chunk.into()));
    }

    /// Makes the string `len` bytes long at least, by zero bytes.
    fn pad(&mut self, len: usize) {
        let missing = len.saturating_sub(self.len);
        let to_last = missing.min(self.room_in_last());
        self.fill_last(&zeros(to_last));
        let (full, rest) = ((missing - to_last) / CHUNK_BYTES, (missing - to_last) % CHUNK_BYTES);
        if full > 0 {
            let padding = zeros(CHUNK_BYTES);
            (0..full).for_each(|_| self.push(padding.clone()));
        }
        if rest > 0 {
            self.push(zeros(rest));
        }
    }

    fn room_in_last(&self) -> usize {
        self.len.next_multiple_of(CHUNK_BYTES) - self.len
    }

    /// Adds to the last chunk what fits it.
    fn fill_last(&mut self, added: &[u8]) {
        if added.is_empty() {
            return;
        }
        let number = self.len / CHUNK_BYTES;
        let last = self.list.get(number).map_or(&[][..], |last| last);
        let mut longer = zeros(last.len() + added.len());
        let place = Arc::make_mut(&mut longer);
        place[..last.len()].copy_from_slice(last);
        place[last.len()..].copy_from_slice(added);
        self.list.replace(number, longer);
        self.len += added.len();
    }

    fn push(&mut self, chunk: Blob) {
        self.len += chunk.len();
        self.list.push_right(chunk);
    }
}

/// So many zero bytes in an allocation of their own.
pub(super) fn zeros(len: usize) -> Blob {
    repeat_n(0, len).collect()
}

impl From<&[u8]> for Chunks {
    fn from(bytes: &[u8]) -> Chunks {
        Chunks { list: bytes.chunks(CHUNK_BYTES).map(Blob::from).collect(), len: bytes.len() }
    }
}

impl PartialEq for Chunks {
    /// What is shared is equal without a look at it.
    fn eq(&self, other: &Chunks) -> bool {
        let same = |(ours, theirs): (&Blob, &Blob)| Arc::ptr_eq(ours, theirs) || ours == theirs;
        self.len == other.len && self.list.iter().zip(other.list.iter()).all(same)
    }
}
