//! Fields and their values.

use super::{Blob, blob_bytes};

/// Fields and their values; iteration order is unspecified but stable for one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hash {
    fields: imbl::OrdMap<Blob, Blob>,
    bytes: usize,
}

impl Hash {
    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of `field`.
    pub fn get(&self, field: &[u8]) -> Option<&Blob> {
        self.fields.get(field)
    }

    /// Sets `field`; returns its old value.
    pub fn insert(&mut self, field: Blob, value: Blob) -> Option<Blob> {
        self.bytes += blob_bytes(&field) + blob_bytes(&value);
        let old = self.fields.insert(field.clone(), value);
        if let Some(old) = &old {
            self.bytes -= blob_bytes(&field) + blob_bytes(old);
        }
        old
    }

    /// Removes `field`; returns its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Blob> {
        let (field, old) = self.fields.remove_with_key(field)?;
        self.bytes -= blob_bytes(&field) + blob_bytes(&old);
        Some(old)
    }

    /// All fields with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Blob)> {
        self.fields.iter()
    }

    /// Heap bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }
}
