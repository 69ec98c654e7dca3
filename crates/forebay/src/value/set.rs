//! Distinct byte strings.

use super::{Blob, blob_bytes};

/// Distinct byte strings; iteration order is unspecified but stable for one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    members: imbl::OrdSet<Blob>,
    bytes: usize,
}

impl Set {
    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether `member` is in it.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member)
    }

    /// Adds `member`; whether it was new.
    pub fn insert(&mut self, member: Blob) -> bool {
        let bytes = blob_bytes(&member);
        let new = self.members.insert(member).is_none();
        if new {
            self.bytes += bytes;
        }
        new
    }

    /// Removes `member`; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(member) = self.members.remove(member) else { return false };
        self.bytes -= blob_bytes(&member);
        true
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = &Blob> {
        self.members.iter()
    }

    /// Heap bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }
}
