//! Why a read failed.

use forebay::store::ReadError;
use tokio_postgres::Error;

use super::classify;

/// Why documents could not be read.
pub(super) enum GetError {
    Database(Error),
    Read(ReadError),
    /// The same as `Database`, of the table with this number, which somebody has locked.
    Locked(u32, Error),
}

impl GetError {
    /// Whether somebody else's lock on a table is all that was in the way.
    pub(super) fn is_locked(&self) -> bool {
        match self {
            GetError::Database(error) => classify::is_locked(error),
            GetError::Read(_) => false,
            GetError::Locked(..) => true,
        }
    }
}

impl From<Error> for GetError {
    fn from(error: Error) -> GetError {
        GetError::Database(error)
    }
}

impl From<ReadError> for GetError {
    fn from(error: ReadError) -> GetError {
        GetError::Read(error)
    }
}
