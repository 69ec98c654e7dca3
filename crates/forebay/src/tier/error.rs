//! Why an entry is not kept.

use thiserror::Error;

use super::RECORD_BYTES_MAX;

/// Why a record is not in the journal.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendError {
    /// No room. Surely not written.
    #[error("the journal is full: {what} is at its limit of {limit}; wait for the store, or raise the limit")]
    Full {
        /// Which limit.
        what: &'static str,
        /// The limit itself.
        limit: u64,
    },
    /// The disk is full. Surely not written; as soon as there is room, entries are kept again.
    #[error("no room on the disk of the journal {file} ({why}): make room there, which needs no restart")]
    NoSpace {
        /// Which file.
        file: String,
        /// What the system says.
        why: String,
    },
    /// Too large a transaction. Surely not written.
    #[error("a transaction of {bytes} bytes can't be buffered, the limit is {RECORD_BYTES_MAX}; make it smaller")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The journal failed before. Surely not written.
    #[error("the journal is closed: {why}; nothing is buffered until that is mended and forebay is restarted")]
    Closed {
        /// What happened.
        why: String,
    },
    /// Somebody has removed the journal: no start will ever find what is in it. Surely not written.
    #[error(
        "the journal {file} was removed while forebay runs, so nothing more is buffered until forebay is restarted; \
         what is buffered is in memory alone: let it be carried over first (CACHE STATE)"
    )]
    Removed {
        /// Which file.
        file: String,
    },
    /// The journal failed with this record on its way: the next start may find it, or not.
    #[error("the journal failed: {why}; whether this transaction is in it will be known at the next start")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// A new file could not be written; the old one goes on, with what it says.
    #[error("the journal could not be rewritten: {why}; make room on its disk and try again")]
    NotRewritten {
        /// What happened.
        why: String,
    },
    /// The record does not fit those before it. Surely not written.
    #[error("record out of place: {0}; this is an error of forebay, please report it")]
    Misplaced(String),
}
