//! What a client is told where a transaction, or a change of a document, is refused.

use forebay::change::ApplyError;
use forebay::txn::{DocumentError, TxnError};
use forebay_protocol::{Reply, errors};

use crate::state::Shared;

/// What a client is told of a transaction that did not commit.
pub fn txn_error(error: &TxnError) -> Reply {
    match error {
        TxnError::Conflict(why) => Reply::error(format!("TXCONFLICT {why}, retry")),
        TxnError::Wounded(reason) => Reply::error(format!("TXABORTED {reason}")),
        TxnError::Gone(why) => Reply::error(format!("TXCONFLICT {why}")),
        TxnError::BufferFull(why) => Reply::error(format!("BUFFERFULL {why}")),
        TxnError::StoreDown(why) => Reply::error(format!("STOREDOWN {why}")),
        TxnError::NotOwner(why) => Reply::error(format!("NOTOWNER {why}")),
        TxnError::Unknown(id) => Reply::error(format!("TXUNKNOWN {id} the outcome is unknown, its keys stay locked")),
        TxnError::TooLarge(bytes_max) => Reply::error(format!("LIMIT txn_bytes_max {bytes_max}")),
        error => Reply::error(format!("ERR {error}")),
    }
}

/// The answer to a command that asked the store itself and failed: nothing was changed. Where another owner has the
/// store, the client is to ask that one.
pub fn refused(shared: &Shared, error: &TxnError) -> Reply {
    match (error, shared.engine.store().fenced()) {
        (TxnError::StoreDown(_), Some(why)) => txn_error(&TxnError::NotOwner(why.to_owned())),
        _ => txn_error(error),
    }
}

/// What a client is told of a change that does not fit; `hash`: of a field's value.
pub fn document_error(error: &DocumentError) -> Reply {
    match error {
        DocumentError::Apply(ApplyError::WrongKind(_)) => Reply::error(errors::WRONGTYPE),
        DocumentError::Apply(ApplyError::NotAnInteger) => Reply::error(errors::NOT_AN_INTEGER),
        DocumentError::Apply(ApplyError::NotAFloat) => Reply::error(errors::NOT_A_FLOAT),
        DocumentError::Apply(ApplyError::Overflow) => Reply::error(errors::OVERFLOW),
        DocumentError::Apply(ApplyError::NotFinite) => Reply::error(errors::INCREMENT_NOT_FINITE),
        DocumentError::Apply(error @ ApplyError::TooLarge) => Reply::error(format!("LIMIT {error}")),
        DocumentError::ReadOnly => Reply::error("ERR the transaction was begun READONLY"),
        error => Reply::error(format!("ERR {error}")),
    }
}
