//! Locks that a panic of the file's engine does not spoil.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Holds `mutex`, although a holder before may have panicked: the code that catches that closes the file.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
