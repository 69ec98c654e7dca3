//! Walks over many keys, and long patterns: one at a time.
//!
//! KEYS makes its whole reply before any of it can be counted, and a pattern that is read once takes some twenty times
//! its length. So all of that is in memory once, however many clients ask for it. The next one begins when the reply
//! before has its room. A reply that finds no room is given up, and its request waits for room and is served again.
//!
//! **Invariant.** What a walk holds that is not counted as a reply is held by the owner of the [`Walk`] alone.

use std::sync::Arc;

use futures_util::lock::{Mutex, OwnedMutexGuard};

/// The turn of the walks.
#[derive(Default)]
pub struct Walks {
    turn: Arc<Mutex<()>>,
}

/// That one walks, until it is dropped.
pub struct Walk(#[expect(dead_code, reason = "it is only held")] OwnedMutexGuard<()>);

impl Walks {
    /// Waits until no other one walks. Those that wait hold nothing.
    pub async fn begin(&self) -> Walk {
        Walk(self.turn.clone().lock_owned().await)
    }
}
