//! Why a transaction did not commit.

use thiserror::Error;

use super::settled::Failure;
use crate::error::Unavailable;
use crate::store::ReadError;
use crate::version::TxnId;

/// Why a transaction ended without committing, or is not known to have committed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TxnError {
    /// Another transaction was in the way; to run it again may succeed. Nothing was changed.
    #[error("{0}, retry")]
    Conflict(String),
    /// It kept others waiting, and yielded. Nothing was changed.
    #[error("{0}")]
    Wounded(String),
    /// Nobody waits for its answer any more, so it did not wait for a lock. Nothing was changed.
    #[error("{0}")]
    Gone(String),
    /// The store can't be asked. Nothing was changed.
    #[error("{0}")]
    StoreDown(String),
    /// Another owner has the store. Nothing was changed.
    #[error("{0}")]
    NotOwner(String),
    /// The store can't be asked, and there is no room to keep what it should get. Nothing was changed.
    #[error("{0}")]
    BufferFull(String),
    /// The store refuses the change, or has no place for what was asked for. Nothing was changed.
    #[error("the store refuses it: {0}")]
    Refused(String),
    /// What it reads takes more than so many bytes, which it may hold. Nothing was changed.
    #[error("it reads more than {0} bytes")]
    TooLarge(usize),
    /// What the store holds can't be understood. Nothing was changed.
    #[error("{0}")]
    Damaged(String),
    /// It may have committed; the store can't say yet. Its keys stay locked until it can.
    #[error("the outcome of commit {0} is unknown")]
    Unknown(TxnId),
}

impl From<ReadError> for TxnError {
    fn from(error: ReadError) -> TxnError {
        match error {
            ReadError::Unavailable(Unavailable(why)) | ReadError::Locked(Unavailable(why)) => TxnError::StoreDown(why),
            damaged @ ReadError::Damaged { .. } => TxnError::Damaged(damaged.to_string()),
            refused @ ReadError::Refused { .. } => TxnError::Refused(refused.to_string()),
        }
    }
}

impl From<Failure> for TxnError {
    fn from(failure: Failure) -> TxnError {
        match failure {
            Failure::Conflict(why) => TxnError::Conflict(why),
            Failure::Refused(why) => TxnError::Refused(why),
            Failure::Unavailable(why) => TxnError::StoreDown(why),
            Failure::NotOwner(why) => TxnError::NotOwner(why),
            Failure::BufferFull(why) => TxnError::BufferFull(why),
        }
    }
}
