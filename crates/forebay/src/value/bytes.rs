//! The byte string of a document: all of a shared allocation, or a part of one.
//!
//! The cache keeps a small document in one allocation with its key and version (`read/record.rs`); what it hands out
//! is a part of that allocation, so a hit copies a pointer and an entry costs one size class instead of two.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Blob;

/// An immutable byte string. Cloning it copies a pointer. Two are equal if their bytes are.
#[derive(Clone, Default)]
pub struct Bytes {
    shared: Blob,
    /// Where it begins in `shared`; `DOCUMENT_BYTES_MAX` and the longest key together fit 32 bits.
    start: u32,
    len: u32,
}

impl Bytes {
    /// The `len` bytes of `shared` from `start` on, which must be there.
    pub(crate) fn part(shared: Blob, start: usize, len: usize) -> Bytes {
        debug_assert!(start + len <= shared.len());
        Bytes { shared, start: start as u32, len: len as u32 }
    }

    /// The allocation that holds the bytes, and where they stand in it.
    pub fn shared(&self) -> (&Blob, std::ops::Range<usize>) {
        (&self.shared, self.start as usize..self.start as usize + self.len as usize)
    }

    /// Lets go of a larger allocation that the bytes are a part of.
    pub(crate) fn compact(&mut self) {
        if self.len as usize != self.shared.len() {
            *self = Bytes::from(&**self);
        }
    }

    /// The bytes, to be changed; copies them first if anyone else can see them.
    pub(crate) fn make_mut(&mut self) -> &mut [u8] {
        self.compact();
        Arc::make_mut(&mut self.shared)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.shared[self.shared().1]
    }
}

impl From<Blob> for Bytes {
    fn from(shared: Blob) -> Bytes {
        // Far beyond what a document may hold: so long a one is refused wherever it goes.
        let len = shared.len().min(u32::MAX as usize);
        Bytes::part(shared, 0, len)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::from(Blob::from(bytes))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::from(Blob::from(bytes))
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Bytes {
        Bytes::from(Blob::from(bytes))
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_its_bytes_and_changes_alone() {
        let shared = Blob::from(*b"key:value!");
        let mut part = Bytes::part(shared.clone(), 4, 5);
        assert_eq!((&*part, &part), (&b"value"[..], &Bytes::from(*b"value")));
        part.make_mut()[0] = b'V';
        assert_eq!((&*part, &*shared), (&b"Value"[..], &b"key:value!"[..]));
        let before = part.shared().0.as_ptr();
        part.make_mut()[1] = b'A';
        assert_eq!((&*part, part.shared().0.as_ptr()), (&b"VAlue"[..], before), "nobody else saw it: changed in place");
    }
}
