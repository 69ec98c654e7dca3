//! What one connection has of the room.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::state::{Claim, Limits};
use crate::clients::Client;
use crate::state::Shared;

/// What a wide request takes while it runs, beside the bytes of it; gone when dropped.
pub struct Beside {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Beside {
    /// From now on.
    pub fn new(shared: Arc<Shared>, bytes: usize) -> Beside {
        shared.room.lock().widen(bytes);
        Beside { shared, bytes }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let (limits, now) = (Limits::of(&self.shared.limits), self.shared.engine.runtime().elapsed());
        self.shared.room.change(|state| state.narrow(self.bytes), limits, now);
    }
}

/// The place of one connection in the room.
pub struct Place {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// It has asked for room.
    asked: bool,
    /// Bytes that there is room for.
    bytes: usize,
    /// The request was complete, and is served.
    served: bool,
}

impl Place {
    /// Of a connection without a large request.
    pub fn new(shared: Arc<Shared>, client: Arc<Client>) -> Place {
        Place { shared, client, asked: false, bytes: 0, served: false }
    }

    fn limits_now(&self) -> (Limits, Duration) {
        (Limits::of(&self.shared.limits), self.shared.engine.runtime().elapsed())
    }

    fn poll(&mut self, claim: Claim, waker: Option<&Waker>) -> Poll<()> {
        self.asked = true;
        let polled = self.shared.room.poll(&self.client, claim, self.limits_now(), waker);
        if polled.is_ready() {
            self.bytes = claim.bytes;
        }
        polled
    }

    /// Bytes that there is room for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is room for what its unfinished request claims.
    pub fn grow(&mut self, claim: Claim) -> bool {
        claim.bytes <= self.bytes || self.poll(claim, None).is_ready()
    }

    /// Waits for that room; for ever where nothing is claimed.
    pub async fn wait(&mut self, claim: Option<Claim>) {
        let Some(claim) = claim else { return std::future::pending().await };
        std::future::poll_fn(|context| self.poll(claim, Some(context.waker()))).await;
    }

    /// The requests at hand are complete, and served now.
    pub fn complete(&mut self) {
        if self.asked {
            let (limits, now) = self.limits_now();
            self.shared.room.change(|state| state.complete(&self.client), limits, now);
            self.served = true;
        }
    }

    /// What came was counted: so many bytes of a large request that is unfinished, or `None`. Behind one that was
    /// served that is another, whose turn is its own.
    pub fn settle(&mut self, received: Option<usize>) {
        match received.filter(|_| !self.served) {
            Some(received) if self.asked => {
                self.shared.room.lock().heard(&self.client, received);
            }
            Some(_) => {}
            None => self.leave(),
        }
    }

    /// There is no large request any more.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.asked) {
            (self.bytes, self.served) = (0, false);
            let (limits, now) = self.limits_now();
            self.shared.room.change(|state| state.remove(self.client.id), limits, now);
        }
    }

    /// Others wait, this one among them: a client that has room and does not use it is sent away.
    pub fn look(&self) {
        let (limits, now) = self.limits_now();
        for other in self.shared.room.look(now, limits) {
            let (client, address) = (other.id, &other.address);
            let why = "closing a client that sends a large request slowly: held_bytes_max, \
                       large_request_bytes_per_s_min";
            tracing::warn!(client, address, "{why}");
            other.kill();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
