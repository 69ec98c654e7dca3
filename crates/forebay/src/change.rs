//! What a write does to one document. A write travels as changes, never as "the new blob", so that it can be
//! buffered, merged and replayed. A change holds no condition, no clock and no random choice: those are decided under
//! the lock, before a change exists. (But for [`Change::RemoveExpired`], whose condition could not be decided then.)

mod apply;
mod asks;
pub mod codec;
mod merge;
mod number;

use smallvec::SmallVec;
use thiserror::Error;

pub use apply::{apply, apply_all};
pub(crate) use asks::fits_behind;
pub use merge::{compact, compact_fields, join_unseen, merge};
pub use number::{is_float, parse_integer};

use crate::value::{Blob, Kind, Value, blob_bytes};

/// One change to one document.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces the whole document, expiry included.
    Put(Value),
    /// Removes the document.
    Delete,
    /// Sets the absolute expiry in ms since the Unix epoch; nothing if the document is absent.
    ExpireAt(u64),
    /// Clears the expiry.
    Persist,
    /// Removes the document if it had expired by this moment, ms since the Unix epoch. It stands before changes that
    /// were made then to a document that nobody could see, while the store was away: what they found is known only
    /// later.
    RemoveExpired(u64),
    /// Adds to the integer that the document (`field: None`) or a field of it holds; an absent one counts as 0.
    AddInteger {
        /// The field of a hash, or the document itself.
        field: Option<Blob>,
        /// What to add.
        delta: i64,
    },
    /// Adds to the number that the document or a field of it holds (an absent one counts as 0), in Redis' arithmetic
    /// (x87 extended precision), and stores the sum as Redis prints it: at most 17 decimals, never an exponent.
    AddFloat {
        /// The field of a hash, or the document itself.
        field: Option<Blob>,
        /// What to add, as the client wrote it: a finite number ([`is_float`]).
        delta: Blob,
    },
    /// Appends to the document's bytes; an absent one counts as empty.
    Append(Blob),
    /// Overwrites the document's bytes from `offset` on, padding with zero bytes.
    WriteAt {
        /// First byte written.
        offset: usize,
        /// What is written there.
        bytes: Blob,
    },
    /// Sets a field of a hash.
    SetField(Blob, Blob),
    /// Removes a field of a hash.
    UnsetField(Blob),
    /// Adds an element to one end of a list.
    Push(End, Blob),
    /// Removes the element at one end of a list.
    Pop(End),
    /// Removes elements equal to `element` from a list: `count` from the left, from the right if negative, all if 0.
    /// Like the other removals it does nothing where there is nothing to remove, and removes the document, expiry
    /// included, with its last element.
    RemoveEqual {
        /// How many, and from which end.
        count: i64,
        /// The element.
        element: Blob,
    },
    /// Adds a member to a set.
    AddMember(Blob),
    /// Removes a member from a set.
    RemoveMember(Blob),
}

impl Change {
    /// Bytes that the change occupies in memory.
    pub fn memory_bytes(&self) -> usize {
        let held = match self {
            Change::Put(value) => value.size(),
            Change::SetField(field, value) => blob_bytes(field.len()) + blob_bytes(value.len()),
            Change::Append(blob) | Change::Push(_, blob) | Change::UnsetField(blob) => blob_bytes(blob.len()),
            Change::AddMember(blob) | Change::RemoveMember(blob) => blob_bytes(blob.len()),
            Change::RemoveEqual { element, .. } => blob_bytes(element.len()),
            Change::WriteAt { bytes, .. } => blob_bytes(bytes.len()),
            Change::AddInteger { field, .. } => field.as_ref().map_or(0, |field| blob_bytes(field.len())),
            Change::AddFloat { field, delta } => {
                field.as_ref().map_or(0, |field| blob_bytes(field.len())) + blob_bytes(delta.len())
            }
            Change::Delete | Change::ExpireAt(_) | Change::Persist | Change::RemoveExpired(_) | Change::Pop(_) => 0,
        };
        size_of::<Change>() + held
    }
}

/// Changes to one document, in order; mostly there is one.
pub type Changes = SmallVec<[Change; 1]>;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// Why a change does not fit the document.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// The document has another type.
    #[error("the document holds a {}, the change is for another type", .0.name())]
    WrongKind(Kind),
    /// The document or field holds no integer.
    #[error("value is not an integer or out of range")]
    NotAnInteger,
    /// The sum does not fit 64 bits.
    #[error("increment or decrement would overflow")]
    Overflow,
    /// The document or field holds no number.
    #[error("value is not a valid float")]
    NotAFloat,
    /// The sum is infinite or no number.
    #[error("increment would produce NaN or Infinity")]
    NotFinite,
    /// The document would grow beyond the limit.
    #[error("document_bytes_max {} exceeded", crate::value::DOCUMENT_BYTES_MAX)]
    TooLarge,
}
