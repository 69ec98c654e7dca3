//! One document: Bytes, Hash, List or Set of byte strings, with an optional expiry. Immutable to its readers, cheap to
//! clone, its size known without walking it.

mod hash;
mod list;
mod set;

use std::sync::Arc;

pub use hash::Hash;
pub use list::List;
pub use set::Set;

/// A shared immutable byte string.
pub type Blob = Arc<[u8]>;

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
    Bytes(Blob),
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
    /// A byte string without expiry.
    pub fn bytes(bytes: impl Into<Blob>) -> Value {
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

    /// Heap bytes that the document occupies, index and reference counts included. Constant time.
    pub fn size(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => blob_bytes(bytes),
            Data::Hash(hash) => hash.size(),
            Data::List(list) => list.size(),
            Data::Set(set) => set.size(),
        }
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

/// Heap bytes of one shared byte string: the bytes and two reference counts.
pub(crate) fn blob_bytes(blob: &Blob) -> usize {
    blob.len() + 2 * size_of::<usize>()
}
