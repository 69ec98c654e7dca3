//! Why a journal can't be opened.

use thiserror::Error;

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
