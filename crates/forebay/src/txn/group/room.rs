//! Room for commits on their way: bytes of those that are placed, or about to be, bounded by
//! [`crate::txn::TxnLimits::placed_bytes_max`]. Without it a pipeline of short commands that make long documents has
//! all of them in memory at once, since each command goes on as soon as the one before has its place.
//!
//! A commit is admitted before it takes its place, first come, first served. One that is larger than all the room is
//! admitted when nothing else is on its way.
//!
//! **Nobody waits for ever.** Who waits for room may hold locks, key spaces and fills' answers, so whoever has room
//! must never wait for these. It does not: room is asked for when all locks of the commit are held, and between the
//! answer and the place there is nothing to wait for but the store's reads. What is placed is the committer's, which
//! takes no lock and no space, asks for no room, and gives the room back whatever becomes of the commit. A commit whose
//! outcome the store can't tell gives it back when its client is told so. While commits are refused everyone is
//! admitted, to be refused. So: as long as somebody waits, somebody has room ([`Room::validate`]), and will give it
//! back.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_channel::oneshot;
use smallvec::SmallVec;

use super::{Committer, Queue};
use crate::error::there;

/// The room, and who waits for it.
pub(super) struct Room {
    bytes_max: usize,
    used: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    bytes: usize,
    admitted: oneshot::Sender<Admitted>,
}

/// Commits from so many bytes on have the cache make way for them; to count the others costs more than they do.
const LENT_BYTES_MIN: usize = 16 << 10;

/// What the cache makes way for of commits of so many bytes.
fn lent(bytes: usize) -> usize {
    if bytes < LENT_BYTES_MIN { 0 } else { bytes }
}

/// The right to place a commit of so many bytes; given up when dropped.
pub(in crate::txn) struct Admitted {
    committer: Arc<Committer>,
    bytes: usize,
}

/// Those who are admitted now, to be told once the queue is not locked: who has given up waiting drops what it is told
/// with, which locks the queue.
#[must_use]
pub(super) struct Told(SmallVec<[Waiter; 1]>);

impl Told {
    pub(super) fn tell(self, committer: &Arc<Committer>) {
        for Waiter { bytes, admitted } in self.0 {
            drop(admitted.send(Admitted::new(committer, bytes)));
        }
    }
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Room {
        Room { bytes_max, used: 0, waiting: VecDeque::new() }
    }

    /// Takes room if there is some, and nobody waits.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = self.waiting.is_empty() && self.fits(bytes);
        if fits {
            self.used += bytes;
        }
        fits
    }

    fn fits(&self, bytes: usize) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.bytes_max
    }

    fn serve(&mut self, all: bool) -> Told {
        let mut told = SmallVec::new();
        while let Some(head) = self.waiting.front() {
            let gone = head.admitted.is_canceled();
            if !gone && !all && !self.fits(head.bytes) {
                break;
            }
            let Some(waiter) = there(self.waiting.pop_front()) else { break };
            if !gone {
                self.used += waiter.bytes;
                told.push(waiter);
            }
        }
        self.validate();
        Told(told)
    }

    /// Gives room back.
    pub(super) fn free(&mut self, bytes: usize) -> Told {
        debug_assert!(bytes <= self.used, "{bytes} bytes given back, {} taken", self.used);
        self.used = self.used.saturating_sub(bytes);
        self.serve(false)
    }

    /// Admits everyone.
    pub(super) fn open(&mut self) -> Told {
        self.serve(true)
    }

    fn validate(&self) {
        debug_assert!(self.waiting.is_empty() || self.used > 0, "somebody waits for room that nobody has");
    }
}

impl Admitted {
    /// For who has taken the room. Not to be called while the queue is locked.
    fn new(committer: &Arc<Committer>, bytes: usize) -> Admitted {
        if lent(bytes) > 0 {
            committer.cache.lend(bytes);
        }
        Admitted { committer: committer.clone(), bytes }
    }

    /// The room is the placed commit's from now on.
    pub(super) fn hand_over(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.committer.free_room(self.bytes, lent(self.bytes));
        }
    }
}

impl Committer {
    /// Whether whoever asks is admitted, to be told why nothing is placed.
    fn refuses_all(&self, queue: &Queue) -> bool {
        match self.store.caps().ordered {
            true => queue.refuses().is_some(),
            false => queue.refuses_unordered().is_some(),
        }
    }

    /// Gives back the room of commits, and what the cache has lent to them.
    fn free_room(self: &Arc<Committer>, bytes: usize, lent: usize) {
        let told = self.queue().room.free(bytes);
        self.cache.give_back(lent);
        told.tell(self);
    }

    /// Gives back the room of placed commits.
    pub(super) fn free_room_of(self: &Arc<Committer>, rooms: impl Iterator<Item = usize>) {
        let (mut bytes, mut all_lent) = (0, 0);
        for room in rooms {
            bytes += room;
            all_lent += lent(room);
        }
        if bytes > 0 {
            self.free_room(bytes, all_lent);
        }
    }

    /// Room for a commit of so many bytes, if there is some now.
    pub(in crate::txn) fn try_admit(self: &Arc<Committer>, bytes: usize) -> Option<Admitted> {
        let mut queue = self.queue();
        let taken = queue.room.take(bytes);
        if !taken && self.refuses_all(&queue) {
            return Some(Admitted::new(self, 0));
        }
        drop(queue);
        taken.then(|| Admitted::new(self, bytes))
    }

    /// Waits for that room.
    pub(in crate::txn) async fn admit(self: &Arc<Committer>, bytes: usize) -> Admitted {
        let told = {
            let mut queue = self.queue();
            if queue.room.take(bytes) {
                drop(queue);
                return Admitted::new(self, bytes);
            }
            if self.refuses_all(&queue) {
                drop(queue);
                return Admitted::new(self, 0);
            }
            let (admitted, told) = oneshot::channel();
            queue.room.waiting.push_back(Waiter { bytes, admitted });
            queue.room.validate();
            told
        };
        // The sender stays in the queue until it has sent.
        told.await.unwrap_or_else(|_| Admitted::new(self, 0))
    }

    /// Waits until a small commit would be admitted: what is about to read long documents, and to make longer ones,
    /// has no use for them before. To be called by who holds nothing.
    pub(in crate::txn) async fn has_room(self: &Arc<Committer>) {
        let full = !self.queue().room.fits(1);
        if full {
            drop(self.admit(1).await);
        }
    }
}
