//! Replies that wait for their clients to read them, of all clients: how much there is, who waits for room for a large
//! one, and which clients hold that room and read nothing.
//!
//! **A client that reads slowly is waited for.** A session serves no further request while too much waits for its
//! client, or while too much waits in all and its client has more than its share. A large reply is not encoded before
//! there is room for it; those that wait for room get it in the order in which they came.
//!
//! **Each wait ends.** Room comes back as clients read. A client that has more than its share and takes less than
//! [`STALL_BYTES`] in [`STALL_WAIT`] is closed while others wait for room, or while its own requests wait for it. A
//! client waits for room in all only when its own replies leave it room, so none that does not read is first in line.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use forebay::txn::Turn;

use crate::state::{Client, Shared};

/// A client for which others wait takes so many bytes in so long a time, at least.
const STALL_BYTES: usize = 64 << 10;
const STALL_WAIT: Duration = Duration::from_secs(10);

/// So often those that wait look for clients that take nothing.
pub const LOOK_WAIT: Duration = Duration::from_secs(1);

/// What waits for all clients.
#[derive(Default)]
pub struct Crowd {
    state: Mutex<State>,
    /// Whose turn it is to make a large reply that comes in slices.
    pub wide: Turn,
}

#[derive(Default)]
struct State {
    /// Clients for which replies wait.
    holders: HashMap<u64, Holder>,
    /// Those that wait for room for a reply, in the order in which they came.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
    /// When one of those that wait last looked.
    looked: Duration,
}

struct Holder {
    client: Arc<Client>,
    bytes: usize,
    /// A moment, and what it has taken since: less than [`STALL_BYTES`].
    since: Duration,
    taken: usize,
}

impl Crowd {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in the line for room.
    fn stand(&self) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        state.next
    }

    fn leave(&self, place: u64) {
        let mut state = self.lock();
        state.waiting.remove(&place);
        state.wake_first();
    }

    /// The clients that hold more than `share` bytes and do not take them; `only`: no other.
    fn stalled(&self, now: Duration, share: usize, only: Option<u64>) -> Vec<Arc<Client>> {
        let state = &mut *self.lock();
        let none_waited = now.saturating_sub(std::mem::replace(&mut state.looked, now)) > STALL_WAIT;
        let mut stalled = Vec::new();
        for (id, holder) in &mut state.holders {
            if none_waited {
                (holder.since, holder.taken) = (now, 0);
            }
            let passed = now.saturating_sub(holder.since) >= STALL_WAIT;
            let is_meant = only.is_none_or(|only| only == *id) && holder.bytes > share;
            stalled.extend((passed && is_meant).then(|| holder.client.clone()));
        }
        stalled
    }
}

impl State {
    fn set(&mut self, client: &Arc<Client>, bytes: usize, now: Duration) {
        let new = || Holder { client: client.clone(), bytes: 0, since: now, taken: 0 };
        match bytes {
            0 => _ = self.holders.remove(&client.id),
            bytes => {
                let holder = self.holders.entry(client.id).or_insert_with(new);
                holder.taken += holder.bytes.saturating_sub(bytes);
                holder.bytes = bytes;
                if holder.taken >= STALL_BYTES {
                    (holder.since, holder.taken) = (now, 0);
                }
            }
        }
    }

    fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.first_key_value() {
            waker.wake_by_ref();
        }
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
            self.put(&mut self.shared.crowd.lock(), bytes, self.reserved());
        }
    }

    /// So many bytes wait now, the reply among them for which room was reserved, if it came.
    pub fn settle(&self, bytes: usize) {
        if self.reserved() > 0 || bytes != self.bytes() {
            self.put(&mut self.shared.crowd.lock(), bytes, 0);
        }
    }

    fn put(&self, state: &mut State, bytes: usize, reserved: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed) + self.reserved.swap(reserved, Ordering::Relaxed);
        let (now, all, cache) = (bytes + reserved, &self.shared.figures.reply_bytes, self.shared.engine.cache());
        all.fetch_add(now, Ordering::Relaxed);
        all.fetch_sub(before, Ordering::Relaxed);
        match now.checked_sub(before) {
            Some(more) => cache.lend(more),
            None => cache.give_back(before - now),
        }
        state.set(&self.client, bytes, self.shared.engine.runtime().elapsed());
        if now < before {
            state.wake_first();
        }
    }

    /// Whether so much waits that no further request is served.
    pub fn is_too_much(&self, own: usize) -> bool {
        let limits = &self.shared.limits;
        own > limits.reply_bytes_before_wait()
            || (own > limits.replies_bytes_share() && self.all() > limits.replies_bytes_max)
    }

    /// Whether a reply of so many bytes more has to wait until its own client has read.
    pub fn waits_for_own(&self, own: usize, bytes: usize) -> bool {
        own > 0 && own.saturating_add(bytes) > self.shared.limits.client_reply_bytes_max
    }

    fn all(&self) -> usize {
        self.shared.figures.reply_bytes.load(Ordering::Relaxed)
    }

    /// A place in the line for room.
    pub fn stand(&self) -> Place<'_> {
        Place { counted: self, place: self.shared.crowd.stand() }
    }

    /// Counts `bytes` beside the `own` that wait, if there is room for them and none waits for room.
    pub fn reserve(&self, own: usize, bytes: usize) -> bool {
        let mut state = self.shared.crowd.lock();
        state.waiting.is_empty() && self.reserve_in(&mut state, own, bytes)
    }

    /// There is room for one reply, whatever the limit is, if nothing else waits.
    fn reserve_in(&self, state: &mut State, own: usize, bytes: usize) -> bool {
        let others = self.all().saturating_sub(self.bytes() + self.reserved());
        let now = own.saturating_add(bytes);
        let has_room = others == 0 || others.saturating_add(now) <= self.shared.limits.replies_bytes_max;
        if has_room {
            self.put(state, own, bytes);
        }
        has_room
    }

    /// Sends those away for which others wait and which take nothing; with `itself`, no other than this one.
    pub fn look(&self, itself: bool) {
        let (shared, limits) = (&self.shared, &self.shared.limits);
        let (limit, only) = match itself {
            true => ("client_reply_bytes_max", Some(self.client.id)),
            false => ("replies_bytes_max", None),
        };
        let now = shared.engine.runtime().elapsed();
        for other in shared.crowd.stalled(now, limits.replies_bytes_share(), only) {
            let (client, address) = (other.id, &other.address);
            tracing::warn!(client, address, "closing a client that does not read its replies: {limit}");
            other.kill();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.settle(0);
    }
}

/// A place in the line for room; the line goes on when it is dropped.
pub struct Place<'a> {
    counted: &'a Counted,
    place: u64,
}

impl Place<'_> {
    /// Counts `bytes` beside the `own` that wait, if there is room for them and none came before; else `waker` is told
    /// when to ask again.
    pub fn reserve(&self, own: usize, bytes: usize, waker: &Waker) -> bool {
        let mut state = self.counted.shared.crowd.lock();
        let is_first = state.waiting.first_key_value().is_none_or(|(first, _)| *first >= self.place);
        if is_first && self.counted.reserve_in(&mut state, own, bytes) {
            return true;
        }
        state.waiting.insert(self.place, waker.clone());
        false
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.counted.shared.crowd.leave(self.place);
    }
}
