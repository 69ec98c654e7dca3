//! Whose turn it is to hold many documents: one plain command or script at a time. Without it, as many as there are
//! clients would have read as much as each may hold, all at once. Those that hold little need no turn.
//!
//! **Nobody waits for ever.** Whoever waits for the turn holds locks, so whoever has it must never wait for a lock, nor
//! for a fill that one who waits leads, nor for a room that such a one has. It does not: a command or script takes its
//! turn when it has all its locks, and has begun no fill; one that has room for its commit needs no turn; and one that
//! is about to wait for that room gives the turn up with its documents (`locking/room.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

/// The turn, and who waits for it.
#[derive(Clone, Default)]
pub(super) struct Turn(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    taken: bool,
    /// First come, first served.
    waiting: VecDeque<oneshot::Sender<Held>>,
}

/// The turn of one; given up when dropped.
pub(super) struct Held(Option<Turn>);

impl Turn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn.
    pub async fn take(&self) -> Held {
        loop {
            let told = {
                let mut state = self.state();
                if !std::mem::replace(&mut state.taken, true) {
                    return Held(Some(self.clone()));
                }
                let (sender, told) = oneshot::channel();
                state.waiting.push_back(sender);
                told
            };
            if let Ok(held) = told.await {
                return held;
            }
            debug_assert!(false, "whoever has the turn hands it on");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(turn) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = turn.state();
                let next = state.waiting.pop_front();
                state.taken = next.is_some();
                next
            };
            let Some(next) = next else { return };
            match next.send(Held(Some(turn.clone()))) {
                Ok(()) => return,
                // It waits no more, and has nothing to give up.
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
    }
}
