//! Fields and their values.

use super::map::Map;
use super::{Blob, blob_bytes};

/// Fields and their values, iterated in the order of the fields' bytes. Cloning it copies a pointer; a change copies
/// what the clones share along its path only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hash {
    fields: Map<Blob>,
}

impl Hash {
    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of `field`.
    pub fn get(&self, field: &[u8]) -> Option<&Blob> {
        self.fields.get(field)
    }

    /// Sets `field`; returns its old value.
    pub fn insert(&mut self, field: Blob, value: Blob) -> Option<Blob> {
        self.fields.insert(field, value)
    }

    /// Removes `field`; returns its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Blob> {
        self.fields.remove(field)
    }

    /// All fields with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Blob)> + Clone {
        self.fields.iter()
    }

    /// The fields greater than `field`, with their values: what a scan goes on with. O(log n) to start.
    pub fn iter_after(&self, field: &[u8]) -> impl Iterator<Item = (&Blob, &Blob)> {
        self.fields.iter_after(field)
    }

    /// The field at `index` in the order of iteration, with its value. O(index) in a hash of more than a few fields.
    pub fn nth(&self, index: usize) -> Option<(&Blob, &Blob)> {
        self.fields.nth(index)
    }

    /// Heap bytes; see [`Value::size`](super::Value::size).
    pub fn size(&self) -> usize {
        self.fields.size()
    }

    /// Heap bytes if `field` held `value_len` bytes.
    pub fn size_with(&self, field: &[u8], value_len: usize) -> usize {
        self.fields.size_with(field, blob_bytes(value_len))
    }
}

impl FromIterator<(Blob, Blob)> for Hash {
    /// Of equal fields the last one's value stays.
    fn from_iter<I: IntoIterator<Item = (Blob, Blob)>>(fields: I) -> Hash {
        Hash { fields: fields.into_iter().collect() }
    }
}
