//! What waits for one client, and its place in the lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use super::state::{Ask, Limits};
use crate::clients::Client;
use crate::state::Shared;

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
