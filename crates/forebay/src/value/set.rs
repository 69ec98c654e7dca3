//! Distinct byte strings.

use super::Blob;
use super::map::Map;

/// Distinct byte strings, iterated in the order of their bytes. Cloning it copies a pointer; a change copies what the
/// clones share along its path only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    members: Map<()>,
}

impl Set {
    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `member` is in it.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.members.get(member).is_some()
    }

    /// Adds `member`; whether it was new.
    pub fn insert(&mut self, member: Blob) -> bool {
        // Looked up first: an insertion copies the path to the member even where nothing changes.
        !self.contains(&member) && self.members.insert(member, ()).is_none()
    }

    /// Removes `member`; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member).is_some()
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = &Blob> + Clone {
        self.members.iter().map(|(member, ())| member)
    }

    /// The members greater than `member`: what a scan goes on with. O(log n) to start.
    pub fn iter_after(&self, member: &[u8]) -> impl Iterator<Item = &Blob> {
        self.members.iter_after(member).map(|(member, ())| member)
    }

    /// The member at `index` in the order of iteration. O(index) in a set of more than a few members.
    pub fn nth(&self, index: usize) -> Option<&Blob> {
        self.members.nth(index).map(|(member, ())| member)
    }

    /// Heap bytes; see [`Value::size`](super::Value::size).
    pub fn size(&self) -> usize {
        self.members.size()
    }

    /// Heap bytes if `member` were in it.
    pub fn size_with(&self, member: &[u8]) -> usize {
        self.members.size_with(member, 0)
    }
}

impl FromIterator<Blob> for Set {
    fn from_iter<I: IntoIterator<Item = Blob>>(members: I) -> Set {
        Set { members: members.into_iter().map(|member| (member, ())).collect() }
    }
}
