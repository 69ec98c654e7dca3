//! Room for large requests that are not complete. A request takes room as its bytes arrive, a step at a time; what it
//! announces reserves nothing. A client whose next step has no room is not read from until there is. A wide
//! request is large from less on where there are many clients (`connection/amounts.rs`).
//!
//! **The parts.** The *first* is the client whose request has been large for longest. It alone may take as much as a
//! whole request. The *others* share [`Limits::others`]. Three quarters of that are the *lane*, which one of them uses
//! at a time.
//!
//! **Each request ends.** No grant to another takes from what the first may take, so the first goes on until its
//! request is complete. Then the next in age is first. Requests that are being served may leave too little room even
//! for the first; that one waits until one of them is done. A request that is served waits for no room. A wait for a
//! lock of a client that waits here ends as any other wait for a lock does.
//!
//! **A small request does not wait for large ones.** A request that fits into the lane by what is known of its size may
//! have the lane's turn. A turn ends after [`LANE_TURN`] if another request wants it. A request whose bytes have
//! arrived comes first ([`Arrived`]), then one that had fewer turns, then an older one. So a request that fits beside
//! what the others hold waits for the present turn, and for older ones that had none and have as much there. Each of
//! these takes at most 2 s.
//!
//! **What does not come holds up little.** Hundreds of clients may send a part of a request each and no more. None of
//! them has room before a request that is there, and those that have room are closed as slow.
//!
//! **A short request waits for short ones.** A request that announces at most [`Limits::short_each`] has the whole of
//! its bytes in a room for those, if there is any. For example, a SET of 100 KiB does not wait for a hundred MSETs of
//! a megabyte that came before it. Where that room is full, the request is one of the others. So is one of many
//! arguments, whose size is known at its end.
//!
//! **A client is closed for what it does not send, never for what is not read.** It is closed only while others wait,
//! and only if it sends less than `large_request_bytes_per_s_min` over [`PACE_WAIT`]. While it has no room for its next
//! step its clock stands still.
//!
//! **Wide requests.** What a request of many keys takes while it runs may be fifty times its bytes. It counts as
//! served, but leaves the others as much as the lane. So less is read while it runs. The first request waits for it,
//! and the others then take nothing: so the first is next. A wide request may wait for locks, and another may follow at
//! once. So a first one waits for them for [`WIDE_WAIT`] at most.
//!
//! **Bound.** The short ones have [`Limits::short`]. Those that are not first have together [`Limits::others`], the
//! first one request, and those that are being served no more than [`Limits::all`] with it. Beside a wide request all
//! of them have the lane's room.

mod place;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::clients::Client;
use crate::underway::Underway;
pub use place::{Beside, Place};
pub use state::{Arrived, Claim, LANE_TURN};
use state::{Limits, State};

/// The room.
#[derive(Default)]
pub struct Room {
    state: Mutex<State>,
    /// For wide requests that run.
    pub underway: Underway,
    /// For what is fetched ahead of requests.
    pub ahead: Underway,
    /// For inline requests.
    pub inline: Underway,
    /// For large answers between their making and their encoding.
    pub answers: Underway,
    /// For the answers of scripts. A script that has room here may wait for locks.
    pub scripts: Underway,
    /// For the documents of scripts (`session/script_room.rs`).
    #[cfg(feature = "lua")]
    pub documents: Underway,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether wide requests run, or large ones wait.
    pub fn is_busy(&self) -> bool {
        self.underway.is_taken() || self.lock().has_waiting()
    }

    /// Has the state changed, and wakes those that may go on then.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T, limits: Limits, now: Duration) -> T {
        let mut state = self.lock();
        let changed = change(&mut state);
        let woken = state.wake(limits, now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        changed
    }

    /// Ready if there is room for what the unfinished request of `client` claims; else `waker` is told when to ask.
    fn poll(&self, client: &Arc<Client>, claim: Claim, at: (Limits, Duration), waker: Option<&Waker>) -> Poll<()> {
        let (mut state, mut woken) = (self.lock(), Vec::new());
        let polled = state.poll(client, claim, at, waker, &mut woken);
        if polled.is_ready() {
            // What is left may do for another.
            woken.extend(state.wake(at.0, at.1));
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        polled
    }

    /// The clients that have room and do not use it while others wait. The lane passes on if its time is up.
    fn look(&self, now: Duration, limits: Limits) -> Vec<Arc<Client>> {
        let mut state = self.lock();
        let slow = state.slow(now, limits);
        let next = state.pass_lane(limits, now).and_then(|next| state.stop_waiting(next));
        drop(state);
        next.into_iter().for_each(Waker::wake);
        slow
    }
}
