//! Fills and holds: what keeps an old value from entering late, and what lets many readers share one fetch.

use futures_channel::oneshot;

use super::{Cache, Context, Entering, Resumed, Standing};
use crate::key::Key;
use crate::policy::AccessKind;
use crate::read::Read;

/// What is going on around a key, cached or not. Exists only while something is.
#[derive(Default)]
pub(super) struct Fence {
    /// Commits on their way that write the key.
    pub(super) held: u32,
    /// The open fill, if there is one. Apart, so that a hold, of which a commit of many keys has many, is small.
    pub(super) flight: Option<Box<Flight>>,
}

/// An open fill.
pub(super) struct Flight {
    pub(super) id: u64,
    /// What the store answered, once it has; the leader has yet to put it in.
    pub(super) fetched: Option<Read>,
    pub(super) followers: Vec<oneshot::Sender<Read>>,
}

impl Fence {
    pub(super) fn idle(&self) -> bool {
        self.held == 0 && self.flight.is_none()
    }
}

/// What to do about a missing key.
pub enum Begin {
    /// Read the store, then tell the fill.
    Lead(Fill),
    /// Another reader has begun a fill, or has already completed one.
    Follow(Follow),
    /// A commit on its way writes it: read the store, but put nothing in.
    Held,
}

/// The right to put one key in, until it is ended by a commit, an invalidation or a removal. Dropping it wakes its
/// followers empty-handed; they look for themselves.
pub struct Fill {
    cache: Cache,
    key: Key,
    id: u64,
    /// It has been ended, by itself.
    over: bool,
}

/// Waits for the answer to another's fill.
pub struct Follow {
    receiver: oneshot::Receiver<Read>,
}

impl Fill {
    pub(super) fn new(cache: Cache, key: Key, id: u64) -> Fill {
        Fill { cache, key, id, over: false }
    }

    /// Which key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The store has answered: followers get it now, the cache when the fill is completed. False if it was ended.
    pub fn fetched(&self, read: &Read) -> bool {
        self.cache.inner.partition(self.key.borrow()).fetched(&self.key, self.id, read)
    }

    /// Whether nothing has ended it: what was read is still what the store holds.
    pub fn open(&self) -> bool {
        self.cache.inner.partition(self.key.borrow()).flight(&self.key, self.id).is_some()
    }

    /// Puts the value in, if the policy lets it. False if the fill was ended: what was read may be old.
    pub fn complete(mut self, read: &Read, context: &Context, kind: AccessKind) -> bool {
        self.over = true;
        self.cache.complete(&self.key, self.id, read, Entering { context, kind, marked: false })
    }
}

impl Fill {
    /// As [`Fill::complete`], for a document that was cached before a restart: it takes its old place in the order, and
    /// no other makes way for it.
    pub fn resume(mut self, read: &Read, standing: Standing) -> Resumed {
        self.over = true;
        self.cache.resume(&self.key, self.id, read, standing)
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        if !self.over {
            self.cache.inner.partition(self.key.borrow()).end_flight(&self.key, Some(self.id));
        }
    }
}

impl Follow {
    pub(super) fn new(receiver: oneshot::Receiver<Read>) -> Follow {
        Follow { receiver }
    }

    /// Of a fill that has put this in already.
    pub(super) fn told(read: Read) -> Follow {
        let (sender, receiver) = oneshot::channel();
        let _ = sender.send(read);
        Follow { receiver }
    }

    /// The leader's answer; `None` if its fill was ended or given up.
    pub async fn read(self) -> Option<Read> {
        self.receiver.await.ok()
    }
}
