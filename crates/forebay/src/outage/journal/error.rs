//! Why a journal can't be opened, and why a record is not in it.

use thiserror::Error;

use super::RECORD_BYTES_MAX;

/// Why a journal can't be opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder or file can't be read or written.
    #[error("journal {file}: {why}; check that the folder is there, writable, and its disk sound and not full")]
    Io {
        /// Which file.
        file: String,
        /// What the system says.
        why: std::io::Error,
    },
    /// Another process has it.
    #[error("journal {file} is in use by another process; stop that one, or give this one a folder of its own")]
    Locked {
        /// Which file.
        file: String,
    },
    /// What was synced can't be read any more.
    #[error("journal {file} is damaged at byte {offset}: {why}; restore the file, or move it away and accept the loss")]
    Damaged {
        /// Which file.
        file: String,
        /// Where.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// Another format.
    #[error("journal {file} has format {format}, this program reads {known}: drain it with the forebay that wrote it")]
    UnknownFormat {
        /// Which file.
        file: String,
        /// Its format.
        format: u32,
        /// The format of this program.
        known: u32,
    },
    /// It holds more than this program keeps track of.
    #[error(
        "journal {file} holds more than {records_max} pending transactions; drain it with the forebay that wrote it"
    )]
    TooMany {
        /// Which file.
        file: String,
        /// How many are allowed.
        records_max: usize,
    },
}

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
    /// Too large a transaction. Surely not written.
    #[error("a transaction of {bytes} bytes can't be buffered, the limit is {RECORD_BYTES_MAX}; make it smaller")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The journal failed before. Surely not written.
    #[error("the journal is closed: {why}; nothing is buffered until the disk is mended and forebay started anew")]
    Closed {
        /// What happened.
        why: String,
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
