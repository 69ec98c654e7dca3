//! Why a transaction that reads has no answer.

use forebay::error::Unavailable;
use forebay::store::ReadError;
use rusqlite::Error;

/// Why a read failed.
pub(super) enum ReadFailed {
    Sqlite(Error),
    Read(ReadError),
}

impl From<Error> for ReadFailed {
    fn from(error: Error) -> ReadFailed {
        ReadFailed::Sqlite(error)
    }
}

impl From<ReadError> for ReadFailed {
    fn from(error: ReadError) -> ReadFailed {
        ReadFailed::Read(error)
    }
}

/// How a transaction that reads ended without an answer.
pub(super) enum ReadEnd {
    Failed(ReadError),
    /// The file is in an earlier state than it was, which a transaction that writes has to note.
    Earlier,
}

impl From<String> for ReadEnd {
    fn from(why: String) -> ReadEnd {
        ReadEnd::Failed(unavailable(why))
    }
}

pub(super) fn unavailable(why: String) -> ReadError {
    ReadError::Unavailable(Unavailable(why))
}
