//! Errors that more than one room speaks of. Each room has its own errors by operation beside its functions.

use thiserror::Error;

/// A store that can't be asked now. What was asked has surely not been applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("store unavailable: {0}")]
pub struct Unavailable(pub String);

/// What an invariant says is there. Its absence is a bug: a test ends with it, a release goes on without.
#[track_caller]
pub(crate) fn there<T>(found: Option<T>) -> Option<T> {
    debug_assert!(found.is_some(), "what is always there is not");
    found
}
