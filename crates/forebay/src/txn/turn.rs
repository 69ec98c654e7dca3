//! Whose turn it is to hold many documents. One plain command or script has it at a time. Others hold as many as a
//! number of bytes allows, all together. Without it, as many as there are clients would have read as much
//! as each may hold, all at once. Those that hold little need no turn; those that wait hold nothing.
//!
//! **Nobody waits for ever.** What waits for the turn holds locks. So what has it must never wait for a lock, nor for
//! a fill or a room of one that waits. It does not: a command or script takes its turn when it has all its locks, and
//! has begun no fill. One that has room for its commit needs no turn. One that is about to wait for that room gives the
//! turn up with its documents (`locking/room.rs`). One that has read keeps it
//! until its answer, which shares memory with its documents, is written down ([`HeldTurn`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;

/// The turn, and who waits for it.
#[derive(Clone, Debug, Default)]
pub struct Turn(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// Bytes that those hold that are beside the one whose turn it is.
    beside: usize,
    /// First come, first served.
    waiting: VecDeque<oneshot::Sender<HeldTurn>>,
}

/// The turn of one; given up when dropped. Whoever has it waits for no transaction.
#[derive(Debug)]
pub struct HeldTurn {
    turn: Option<Turn>,
    /// Bytes for which it is beside another; none if it is alone.
    beside: Option<usize>,
}

impl Turn {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For so many bytes: beside others, if they are within `beside_max` with these; or else the turn, if it is free.
    pub fn try_take(&self, bytes: usize, beside_max: usize) -> Option<HeldTurn> {
        let mut state = self.state();
        if state.beside.saturating_add(bytes) <= beside_max {
            state.beside += bytes;
            return Some(HeldTurn { turn: Some(self.clone()), beside: Some(bytes) });
        }
        let taken = std::mem::replace(&mut state.taken, true);
        (!taken).then(|| HeldTurn { turn: Some(self.clone()), beside: None })
    }

    /// Waits for the turn.
    pub async fn take(&self) -> HeldTurn {
        loop {
            let told = {
                let mut state = self.state();
                if !std::mem::replace(&mut state.taken, true) {
                    return HeldTurn { turn: Some(self.clone()), beside: None };
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

impl HeldTurn {
    /// Whether it is for so many bytes.
    pub(super) fn is_for(&self, bytes: usize) -> bool {
        self.beside.is_none_or(|beside| bytes <= beside)
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        if let Some(bytes) = self.beside {
            turn.state().beside -= bytes;
            return;
        }
        loop {
            let next = {
                let mut state = turn.state();
                let next = state.waiting.pop_front();
                state.taken = next.is_some();
                next
            };
            let Some(next) = next else { return };
            match next.send(HeldTurn { turn: Some(turn.clone()), beside: None }) {
                Ok(()) => return,
                // It waits no more, and has nothing to give up.
                Err(mut unwanted) => drop(unwanted.turn.take()),
            }
        }
    }
}
