//! Clearings of key spaces, as far as it is known what became of them.

use std::sync::atomic::{AtomicBool, AtomicU64};

use forebay::TxnId;
use tokio::sync::Mutex;

/// The clearings of one store.
#[derive(Default)]
pub(super) struct Clears {
    /// How many were made.
    pub(super) made: AtomicU64,
    /// The one of which it is not known what became of it.
    pub(super) unsettled: Mutex<Option<TxnId>>,
    /// Whether `unsettled` has to be looked at: commits read this alone.
    pub(super) open: AtomicBool,
}
