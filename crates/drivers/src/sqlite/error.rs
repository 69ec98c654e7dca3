//! What an error of SQLite's says of the transaction that it ended. Until COMMIT is answered nothing is applied, so all
//! errors before it mean *surely not applied*.

use rusqlite::{Error, ErrorCode};

use crate::sql::failure::Failure;

/// What `error`, of a statement before COMMIT, means.
pub(super) fn failure(error: &Error) -> Failure {
    let why = told(error);
    match code(error) {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::PermissionDenied
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationInterrupted
            | ErrorCode::OutOfMemory,
        ) => Failure::Unavailable(why),
        _ => Failure::Refused(why),
    }
}

/// What `error`, the answer to COMMIT, means.
pub(super) fn of_commit(error: &Error) -> Failure {
    match code(error) {
        // The transaction is open still, and is rolled back.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ConstraintViolation) => failure(error),
        _ => Failure::Unknown(told(error)),
    }
}

/// Whether the connection is worth nothing after `error`.
pub(super) fn ends(error: &Error) -> bool {
    matches!(
        code(error),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::NotADatabase
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::ReadOnly
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// Whether another program has the file locked.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// What an operator is told of `error`.
pub(super) fn told(error: &Error) -> String {
    match (error, code(error)) {
        (_, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
            "the file is locked by another program".into()
        }
        (Error::SqliteFailure(_, Some(text)), _) => text.clone(),
        _ => error.to_string(),
    }
}
