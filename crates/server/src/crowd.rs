//! Replies that wait for their clients to read them, of all clients: how much there is, who waits for room for a large
//! one, and which clients hold that room and read nothing.
//!
//! **A client that reads slowly is waited for.** A session serves no further request while too much waits for its
//! client, or while its part of the room is full and its client has more than its share. A large reply is not encoded
//! before there is room for it.
//!
//! **The parts.** Half of `replies_bytes_max` is the *ordinary* part. The other half is the *lane*. A client has the
//! lane if by the pace that it last showed it takes all that waits for it within [`LANE_WAIT`]. A client that has shown
//! no pace may have half of the lane, as a *trial*. A client in the lane that turns out to be slower goes to the
//! ordinary part when there is room, in turns with those that wait for that. It has the lane again when it has shown
//! that it takes quickly.
//!
//! **The lines.** The client that came first of all has the next ordinary room. So no client waits for those that came
//! later. Those that may have the lane have it in the order in which they came. The trial is for the newest, so that a
//! quick client does not wait for all slow ones before it. Older ones are near the head of the line. A reply wider
//! than the ordinary part waits until it has that part for itself, and the lane is kept for what it lacks.
//!
//! **Those that read nothing hold up a newcomer for as long as one of them, or two.** Where a client was found to take
//! nothing, those that wait in line may be of its kind. So the room that it leaves is for the newest. Of four such
//! rooms one is for the oldest, so each has room in the end. A short reply has its trial meanwhile. It has none where
//! the next wide reply needs the room for trials too. That lasts for as long as slow readers hold the other room.
//!
//! **Each wait ends.** Room comes back as clients read. A client that has more than its share and takes less than
//! [`STALL_BYTES`] in [`STALL_WAIT`] is closed while others wait for room, or while its own requests wait for it. That
//! it took nothing before others waited counts as well, but it has [`LANE_WAIT`] from then on. While others wait, a
//! client takes what waits for it evenly within [`DRAIN_WAIT`], or is closed. So the pace that is asked for grows with
//! the room that the client holds. It may be late by [`LATE_WAIT`], since sockets take in jerks.
//!
//! A client waits for room in all only when its own replies leave it room, so none that does not read is first in
//! line. A reply that has become longer than its room gives that room back before it waits for more. It asks for more
//! each time (`session/underway.rs`).
//!
//! **Bound.** What has been granted is never more than `replies_bytes_max`, unless it is one reply alone.

mod counted;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::txn::Turn;

pub use counted::Counted;
use state::State;
pub use state::{LOOK_WAIT, STALL_WAIT};

/// What waits for all clients.
#[derive(Default)]
pub struct Crowd {
    state: Mutex<State>,
    /// Whose turn it is to make a large reply that comes in slices.
    pub wide: Turn,
}

impl Crowd {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
