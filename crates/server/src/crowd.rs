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

mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use forebay::txn::Turn;

use crate::clients::Client;
use crate::limits::ServerLimits;
use crate::state::Shared;
use state::{Ask, State};

/// A client for which others wait takes so many bytes in so long a time, at least.
const STALL_BYTES: usize = 64 << 10;
pub const STALL_WAIT: Duration = Duration::from_secs(10);

/// A client for which others wait takes what waits for it within so long a time, and [`LATE_WAIT`].
const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// So late a client may be with that.
const LATE_WAIT: Duration = Duration::from_secs(4);

/// Within so long a time a client takes what waits for it, or has no part in the lane.
const LANE_WAIT: Duration = Duration::from_secs(2);

/// So often those that wait look for clients that take nothing.
pub const LOOK_WAIT: Duration = Duration::from_secs(1);

/// Bytes that may wait.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// For all clients.
    all: usize,
    /// What of that is for those that take quickly.
    lane: usize,
    /// A client that has less is not closed.
    share: usize,
}

impl Limits {
    fn of(limits: &ServerLimits) -> Limits {
        Limits {
            all: limits.replies_bytes_max,
            lane: limits.replies_bytes_max / 2,
            share: limits.replies_bytes_share(),
        }
    }

    fn ordinary(self) -> usize {
        self.all - self.lane
    }

    fn trial(self) -> usize {
        self.lane / 2
    }
}

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

/// What waits for one client, counted in what waits for all; the cache makes way for it.
pub struct Counted {
    shared: Arc<Shared>,
    client: Arc<Client>,
    bytes: AtomicUsize,
    /// For a reply that is not encoded yet.
    reserved: AtomicUsize,
}

impl Counted {
    /// Nothing waits for `client` yet.
    pub fn new(shared: Arc<Shared>, client: Arc<Client>) -> Counted {
        Counted { shared, client, bytes: AtomicUsize::new(0), reserved: AtomicUsize::new(0) }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What is reserved for its next reply.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// So many bytes wait now.
    pub fn set(&self, bytes: usize) {
        if bytes != self.bytes() {
            self.put(bytes, self.reserved());
        }
    }

    /// So many bytes wait now, the reply among them for which room was reserved, if it came.
    pub fn settle(&self, bytes: usize) {
        if self.reserved() > 0 || bytes != self.bytes() {
            self.put(bytes, 0);
        }
    }

    fn put(&self, bytes: usize, reserved: usize) {
        let (now, limits) = self.at();
        self.shared.crowd.lock().put(&self.client, bytes, reserved, now, limits);
        self.tell(bytes, reserved);
    }

    /// What the figures and the cache are told.
    fn tell(&self, bytes: usize, reserved: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed) + self.reserved.swap(reserved, Ordering::Relaxed);
        let (now, all, cache) = (bytes + reserved, &self.shared.figures.reply_bytes, self.shared.engine.cache());
        all.fetch_add(now, Ordering::Relaxed);
        all.fetch_sub(before, Ordering::Relaxed);
        match now.checked_sub(before) {
            Some(more) => cache.lend(more),
            None => cache.give_back(before - now),
        }
    }

    fn at(&self) -> (Duration, Limits) {
        (self.shared.engine.runtime().elapsed(), Limits::of(&self.shared.limits))
    }

    /// Whether so much waits that no further request is served.
    pub fn is_too_much(&self, own: usize) -> bool {
        let limits = &self.shared.limits;
        own > limits.reply_bytes_before_wait() || (own > limits.replies_bytes_share() && self.is_full())
    }

    fn is_full(&self) -> bool {
        let limits = Limits::of(&self.shared.limits);
        let all = self.shared.figures.reply_bytes.load(Ordering::Relaxed);
        all > limits.lane.min(limits.ordinary()) && self.shared.crowd.lock().is_full(self.client.id, limits)
    }

    /// Whether a reply of so many bytes more has to wait until its own client has read.
    pub fn waits_for_own(&self, own: usize, bytes: usize) -> bool {
        own > 0 && own.saturating_add(bytes) > self.shared.limits.client_reply_bytes_max
    }

    /// A place in the lines for room.
    pub fn stand(&self) -> Place<'_> {
        Place { counted: self, place: self.shared.crowd.lock().stand() }
    }

    /// Counts `bytes` beside the `own` that wait, if there is room for them and none that came before waits for it.
    pub fn reserve(&self, own: usize, bytes: usize) -> bool {
        let (now, limits) = self.at();
        let granted = self.shared.crowd.lock().grant(&self.client, Ask { own, bytes }, None, now, limits);
        if granted {
            self.tell(own, bytes);
        }
        granted
    }

    /// Sends those away for which others wait and which take too little; with `itself`, no other than this one.
    pub fn look(&self, itself: bool) {
        let (limit, only) = match itself {
            true => ("client_reply_bytes_max", Some(self.client.id)),
            false => ("replies_bytes_max", None),
        };
        let (now, limits) = self.at();
        let stalled = self.shared.crowd.lock().look(now, limits, only);
        for other in stalled {
            let (client, address) = (other.id, &other.address);
            tracing::warn!(client, address, "closing a client that does not read its replies in time: {limit}");
            other.kill();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.settle(0);
        self.shared.crowd.lock().remove(self.client.id);
    }
}

/// A place in the lines for room; its line goes on when it is dropped.
pub struct Place<'a> {
    counted: &'a Counted,
    place: u64,
}

impl Place<'_> {
    /// Counts `bytes` beside the `own` that wait, if there is room for them and none came before; else `waker` is told
    /// when to ask again.
    pub fn reserve(&self, own: usize, bytes: usize, waker: &Waker) -> bool {
        let (counted, ask, (now, limits)) = (self.counted, Ask { own, bytes }, self.counted.at());
        let mut state = counted.shared.crowd.lock();
        let granted = state.grant(&counted.client, ask, Some(self.place), now, limits);
        match granted {
            true => counted.tell(own, bytes),
            false => state.wait(&counted.client, ask, self.place, waker, limits),
        }
        granted
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.counted.shared.crowd.lock().leave(self.place);
    }
}
