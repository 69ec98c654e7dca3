//! One document: Bytes, Hash, List or Set of byte strings, with an optional expiry. Immutable to its readers, cheap to
//! clone, its size known without walking it.

mod blob;
mod bytes;
mod chunks;
pub mod codec;
mod either;
mod hash;
mod list;
mod map;
pub mod pieces;
mod set;

pub(crate) use blob::COUNTS_BYTES;
pub use blob::{Blob, allocated_bytes, blob_bytes};
pub use bytes::Bytes;
pub use hash::Hash;
pub use list::List;
pub use set::Set;

/// Largest document in bytes, as [`Value::size`] counts; a change that would pass it is refused.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A document and when it expires.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What the document holds.
    pub data: Data,
    /// Absolute expiry in ms since the Unix epoch; from that moment on the document counts as absent.
    pub expires_at_ms: Option<u64>,
}

/// What a document holds. A hash, list or set is never empty: the change that removes the last element removes the
/// document.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// One byte string.
    Bytes(Bytes),
    /// Fields and their values.
    Hash(Hash),
    /// A sequence, cheap at both ends.
    List(List),
    /// Distinct members.
    Set(Set),
}

/// The type of a document, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `string`
    Bytes,
    /// `hash`
    Hash,
    /// `list`
    List,
    /// `set`
    Set,
}

impl Value {
    /// Holds what a long byte string has in common with `other` in the same memory.
    pub fn share(&mut self, other: &Value) {
        if let (Data::Bytes(ours), Data::Bytes(theirs)) = (&mut self.data, &other.data) {
            ours.share(theirs);
        }
    }

    /// A byte string without expiry.
    pub fn bytes(bytes: impl Into<Bytes>) -> Value {
        Value { data: Data::Bytes(bytes.into()), expires_at_ms: None }
    }

    /// The document's type.
    pub fn kind(&self) -> Kind {
        match self.data {
            Data::Bytes(_) => Kind::Bytes,
            Data::Hash(_) => Kind::Hash,
            Data::List(_) => Kind::List,
            Data::Set(_) => Kind::Set,
        }
    }

    /// Heap bytes that the document occupies, index and reference counts included, as the allocator rounds them.
    /// Constant time. A function of the content alone: equal values have equal sizes, however they came about; it
    /// rises with every element and with every element's length. A byte string in chunks counts as if it were in one
    /// allocation: the pointers to its chunks add less than 1 % to that.
    pub fn size(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => blob_bytes(bytes.len()),
            Data::Hash(hash) => hash.size(),
            Data::List(list) => list.size(),
            Data::Set(set) => set.size(),
        }
    }

    /// Whether this is a hash, list or set without elements: no document is, but a caller may have computed one.
    pub(crate) fn is_empty_collection(&self) -> bool {
        match &self.data {
            Data::Bytes(_) => false,
            Data::Hash(hash) => hash.is_empty(),
            Data::List(list) => list.is_empty(),
            Data::Set(set) => set.is_empty(),
        }
    }

    /// The same, holding no allocation that is larger than it needs: a cached byte string is part of one.
    pub(crate) fn compact(mut self) -> Value {
        if let Data::Bytes(bytes) = &mut self.data {
            bytes.compact();
        }
        self
    }

    /// Whether the document counts as absent at `now_ms`.
    pub fn expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }
}

impl Kind {
    /// The name that `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bytes => "string",
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small() {
        assert!(size_of::<Value>() <= 48, "{}", size_of::<Value>());
        assert!(size_of::<Option<Value>>() <= 48);
    }

    #[test]
    fn expiry_is_inclusive() {
        let value = Value { expires_at_ms: Some(5), ..Value::bytes(*b"x") };
        assert!(!value.expired(4) && value.expired(5) && value.expired(6));
        assert!(!Value::bytes(*b"x").expired(u64::MAX));
    }
}
