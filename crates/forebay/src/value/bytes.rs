//! The byte string of a document. Its form follows from its length alone.
//!
//! Up to [`CHUNK_BYTES`] it is whole: all of a shared allocation, or a part of one. The cache keeps a small document
//! in one allocation with its key and version (`read/record.rs`). What it hands out is a part of that allocation. So
//! a hit copies a pointer, and an entry costs one size class instead of two.
//!
//! Above it is a list of chunks (`chunks.rs`), which two versions of a document share but for those that the change
//! between them touches.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::chunks::{CHUNK_BYTES, Chunks, zeros};
use super::either::Either;
use super::{Blob, COUNTS_BYTES};

/// More than a change copies of the list of chunks.
const INDEX_BYTES: usize = 8 * 1024;

/// An immutable byte string. Cloning it copies a pointer. Two are equal if their bytes are.
#[derive(Clone)]
pub struct Bytes {
    form: Form,
}

/// What is written, the pointers to what is listed, and so many chunks.
fn copied(written: usize, listed: usize, chunks: usize) -> usize {
    written + listed / 256 + chunks * (CHUNK_BYTES + COUNTS_BYTES) + INDEX_BYTES
}

#[derive(Clone)]
enum Form {
    /// The `len` bytes of `shared` from `start` on; `DOCUMENT_BYTES_MAX` and the longest key together fit 32 bits.
    Whole { shared: Blob, start: u32, len: u32 },
    /// More than [`CHUNK_BYTES`].
    Chunks(Arc<Chunks>),
}

impl Bytes {
    /// The `len` bytes of `shared` from `start` on, which must be there; at most [`CHUNK_BYTES`].
    pub(crate) fn part(shared: Blob, start: usize, len: usize) -> Bytes {
        debug_assert!(start + len <= shared.len() && len <= CHUNK_BYTES);
        Bytes { form: Form::Whole { shared, start: start as u32, len: len as u32 } }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Whole { len, .. } => *len as usize,
            Form::Chunks(chunks) => chunks.len(),
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The allocation that holds the bytes, and where they stand in it; `None` if they are in chunks.
    pub fn whole(&self) -> Option<(&Blob, Range<usize>)> {
        match &self.form {
            Form::Whole { shared, start, len } => Some((shared, *start as usize..*start as usize + *len as usize)),
            Form::Chunks(_) => None,
        }
    }

    /// The allocations that hold the bytes of `range`, as far as there are such, with where they stand in each.
    pub fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&Blob, Range<usize>)> + Clone {
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        match &self.form {
            Form::Whole { shared, start, .. } => {
                let start = *start as usize;
                Either::Small(std::iter::once((shared, start + range.start..start + range.end)))
            }
            Form::Chunks(chunks) => Either::Large(chunks.parts(range)),
        }
    }

    /// The bytes of `range`, as far as there are such, piece by piece.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        self.parts(range).map(|(shared, range)| &shared[range])
    }

    /// The bytes in one piece: a copy, if they are in chunks.
    pub fn joined(&self) -> Cow<'_, [u8]> {
        match self.whole() {
            Some((shared, range)) => Cow::Borrowed(&shared[range]),
            None => Cow::Owned(self.to_vec()),
        }
    }

    /// A copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces(0..self.len()).for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// All bytes, or so many of the first that they are no number: none has a text of that length.
    pub fn number_text(&self) -> &[u8] {
        match &self.form {
            Form::Whole { shared, start, len } => &shared[*start as usize..*start as usize + *len as usize],
            Form::Chunks(chunks) => chunks.first(),
        }
    }

    /// No less than the bytes of chunks that appending `written` bytes makes of a string that is long then, and of the
    /// way to them: the last chunk before, and the last one after.
    pub(crate) fn copied_by_append(written: usize) -> usize {
        copied(written, written, 2)
    }

    /// Likewise of writing so many bytes from `offset` on, padding included: the chunks at its ends, and those that
    /// padding begins, goes on and ends with.
    pub(crate) fn copied_by_write(offset: usize, written: usize) -> usize {
        copied(written, offset + written, 5)
    }

    /// Lets go of a larger allocation that the bytes are a part of.
    pub(crate) fn compact(&mut self) {
        if let Some((shared, range)) = self.whole()
            && range.len() != shared.len()
        {
            *self = Bytes::from(&shared[range]);
        }
    }

    /// Holds what it has in common with `other` in the same memory, as far as both are in chunks. What is shared
    /// already is not looked at.
    pub(crate) fn share(&mut self, other: &Bytes) {
        if let (Form::Chunks(ours), Form::Chunks(theirs)) = (&mut self.form, &other.form)
            && !Arc::ptr_eq(ours, theirs)
        {
            Arc::make_mut(ours).share(theirs);
        }
    }

    /// Writes `written` from `offset` on, behind zero bytes where the string does not reach so far. What is written
    /// beyond [`CHUNK_BYTES`] copies the chunks that it touches; chunks that only pad share one allocation.
    pub(crate) fn write_at(&mut self, offset: usize, written: &[u8]) {
        let end = self.len().max(offset + written.len());
        match &mut self.form {
            Form::Chunks(chunks) => Arc::make_mut(chunks).write_at(offset, written),
            Form::Whole { .. } if end > CHUNK_BYTES => {
                let mut chunks = Chunks::from(&*self.joined());
                chunks.write_at(offset, written);
                self.form = Form::Chunks(Arc::new(chunks));
            }
            Form::Whole { .. } => {
                if end > self.len() {
                    let mut longer = zeros(end);
                    Arc::make_mut(&mut longer)[..self.len()].copy_from_slice(self.number_text());
                    *self = Bytes::from(longer);
                }
                self.make_mut()[offset..offset + written.len()].copy_from_slice(written);
            }
        }
    }

    /// The bytes of a string that is whole, to be changed; copies them first if anyone else can see them.
    fn make_mut(&mut self) -> &mut [u8] {
        self.compact();
        match &mut self.form {
            Form::Whole { shared, .. } => Arc::make_mut(shared),
            Form::Chunks(_) => {
                debug_assert!(false, "it is in chunks");
                &mut []
            }
        }
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::part(Blob::default(), 0, 0)
    }
}

impl From<Blob> for Bytes {
    fn from(shared: Blob) -> Bytes {
        match shared.len() {
            len if len <= CHUNK_BYTES => Bytes::part(shared, 0, len),
            _ => Bytes::from(&*shared),
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        match bytes.len() {
            len if len <= CHUNK_BYTES => Bytes::part(Blob::from(bytes), 0, len),
            _ => Bytes { form: Form::Chunks(Arc::new(Chunks::from(bytes))) },
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::from(&*bytes)
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Bytes {
        Bytes::from(&bytes[..])
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        match (&self.form, &other.form) {
            (Form::Chunks(ours), Form::Chunks(theirs)) => Arc::ptr_eq(ours, theirs) || ours == theirs,
            (Form::Whole { .. }, Form::Whole { .. }) => self.number_text() == other.number_text(),
            _ => false,
        }
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.joined())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_is_its_bytes_and_changes_alone() {
        let shared = Blob::from(*b"key:value!");
        let mut part = Bytes::part(shared.clone(), 4, 5);
        assert_eq!((&*part.joined(), &part), (&b"value"[..], &Bytes::from(*b"value")));
        part.write_at(0, b"V");
        assert_eq!((&*part.joined(), &*shared), (&b"Value"[..], &b"key:value!"[..]));
        let address = |bytes: &Bytes| bytes.whole().map(|(shared, _)| shared.as_ptr());
        let before = address(&part);
        part.write_at(1, b"A");
        assert_eq!((&*part.joined(), address(&part)), (&b"VAlue"[..], before), "nobody else saw it: changed in place");
    }

    #[test]
    fn a_string_takes_no_more_than_a_pointer_and_two_words() {
        assert_eq!(size_of::<Bytes>(), 24);
    }

    #[test]
    fn chunks_that_pad_are_one_allocation() {
        let mut bytes = Bytes::default();
        bytes.write_at(10 * CHUNK_BYTES, b"x");
        let parts: Vec<*const u8> = bytes.parts(0..bytes.len()).map(|(shared, _)| shared.as_ptr()).collect();
        assert!(parts.len() == 11 && parts[..10].iter().all(|part| *part == parts[0]));
        bytes.write_at(CHUNK_BYTES, b"y");
        let written: Vec<usize> = (0..bytes.len()).filter(|at| bytes.to_vec()[*at] != 0).collect();
        assert_eq!(written, [CHUNK_BYTES, 10 * CHUNK_BYTES]);
    }

    #[test]
    fn what_two_have_in_common_is_there_once() {
        let addresses = |bytes: &Bytes| bytes.parts(0..bytes.len()).map(|(blob, _)| blob.as_ptr()).collect::<Vec<_>>();
        let text: Vec<u8> = (0..5 * CHUNK_BYTES).map(|at| (at / 7) as u8).collect();
        let (latest, mut earlier) = (Bytes::from(&*text), Bytes::from(&text[..3 * CHUNK_BYTES + 1]));
        earlier.write_at(CHUNK_BYTES, b"other");
        let before = earlier.to_vec();
        earlier.share(&latest);
        let (ours, theirs) = (addresses(&earlier), addresses(&latest));
        let shared: Vec<bool> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours == theirs).collect();
        assert_eq!(shared, [true, false, true, false], "but for what differs, and the last, which is shorter");
        assert!(earlier.to_vec() == before && latest.to_vec() == text, "neither has changed");
    }

    /// Lengths and offsets near the ends of chunks, and anywhere.
    fn places() -> impl Strategy<Value = usize> {
        let near = (0..5usize, 0..7usize).prop_map(|(chunks, at)| (chunks * CHUNK_BYTES + at).saturating_sub(3));
        prop_oneof![3 => near, 1 => 0..5 * CHUNK_BYTES, 1 => 0..9usize]
    }

    fn check(bytes: &Bytes, model: &[u8], range: Range<usize>) -> Result<(), TestCaseError> {
        prop_assert_eq!(bytes.len(), model.len());
        prop_assert!(*bytes.joined() == *model && bytes.to_vec() == model, "another content");
        prop_assert_eq!(bytes.whole().is_some(), model.len() <= CHUNK_BYTES);
        prop_assert!(
            model.starts_with(bytes.number_text()) && bytes.number_text().len() >= model.len().min(CHUNK_BYTES)
        );
        let (start, end) = (range.start.min(model.len()), range.end.min(model.len()));
        let part: Vec<u8> = bytes.pieces(range).flatten().copied().collect();
        prop_assert!(part == model[start..end.max(start)], "another part");
        let anew = Bytes::from(model);
        prop_assert!(anew == *bytes && *bytes == Bytes::from(Blob::from(model)));
        let pieces = |bytes: &Bytes| bytes.pieces(0..bytes.len()).map(<[u8]>::len).collect::<Vec<_>>();
        prop_assert_eq!(pieces(bytes), pieces(&anew));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn it_is_what_a_vector_is(
            start in places(),
            writes in prop::collection::vec((prop::option::of(places()), places()), 1..5),
            (from, count) in (places(), places()),
        ) {
            let mut model: Vec<u8> = (0..start).map(|at| at as u8).collect();
            let mut bytes = Bytes::from(&*model);
            for (turn, (offset, len)) in (100..).zip(writes) {
                let (earlier, before) = (bytes.clone(), model.clone());
                // None: at the end.
                let offset = offset.unwrap_or(model.len());
                let written: Vec<u8> = (0..len).map(|at| (at % 251) as u8 ^ turn).collect();
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&written);
                bytes.write_at(offset, &written);
                check(&bytes, &model, from..from + count)?;
                prop_assert!(*earlier.joined() == *before, "what others hold has changed");
                prop_assert_eq!(earlier == bytes, before == model);
            }
        }
    }
}
