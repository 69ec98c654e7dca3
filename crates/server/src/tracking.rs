//! CLIENT TRACKING: clients that keep what they read are told what may have changed.
//!
//! The server notes which client has read which key (`tracking/keys.rs`). The first change of a key is told to the
//! clients that are noted, and the note goes. A client that reads the key again is noted again. With BCAST nothing is
//! noted, and all changes of keys with a prefix are told. What is told waits in a box of the client
//! (`tracking/pushes.rs`) until its connection sends it.
//!
//! **Invariant.** A client is noted before its read looks at anything, and told of a change after that is visible. So
//! it is told of each change that it has not seen. Its connection sends what waits between two requests. So what it is
//! told never overtakes the reply that it is about.

mod keys;
mod pushes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use forebay::cache::{Cache, Changed};
use forebay::key::{Key, KeyRef};
use forebay::mutation::{self, Fault};

use crate::attention::{Attention, TRACKING};
use crate::clients::Client;
use crate::limits::ServerLimits;
use keys::Keys;
pub use keys::Reader;
pub use pushes::{PUSHES_BYTES_MAX, Push, Pushes, Waiting};

/// Connections that have ended and whose redirection goes on; past it the oldest one's target is told of everything.
const LEFT_MAX: usize = 10_000;

/// One client that is told, or has another one told.
pub struct Tracker {
    /// Who reads.
    pub client: Arc<Client>,
    /// Who is told, if that is another.
    pub target: Option<Arc<Client>>,
    /// It is not told of its own writes.
    pub noloop: bool,
    /// With BCAST: of which keys it is told, by what they begin with.
    pub prefixes: Option<Vec<Box<[u8]>>>,
}

/// All of them.
pub struct Trackers {
    any: Arc<AtomicBool>,
    list: RwLock<List>,
    keys: Keys,
}

#[derive(Default)]
struct List {
    by_id: BTreeMap<u64, Arc<Tracker>>,
    broadcast: Vec<Arc<Tracker>>,
    /// Those whose connection has ended, oldest first.
    left: VecDeque<u64>,
    /// Clients that have subscribed to what is told.
    subscribers: usize,
}

impl Tracker {
    /// Tells of a change of `key` by the client `by`: with BCAST only if the key has one of the prefixes.
    fn tell(&self, key: &Key, by: u32) {
        if self.is_own(by) {
            return;
        }
        let push = match &self.prefixes {
            // A key that has just been written is part of the value's memory.
            None => Push::Key(key.compact()),
            Some(prefixes) => match prefixes.iter().position(|prefix| key.name().starts_with(prefix)) {
                Some(at) => Push::Broadcast(key.compact(), (self.client.id, at)),
                None => return,
            },
        };
        self.told().tell(push);
    }

    /// Whether it is not told of a write by the client `by`, since that is its own.
    fn is_own(&self, by: u32) -> bool {
        self.noloop && by != 0 && self.client.id as u32 == by
    }

    fn told(&self) -> &Client {
        self.target.as_ref().unwrap_or(&self.client)
    }
}

impl List {
    fn tell_noted(&self, key: &Key, readers: &[Reader], by: u32) {
        let noted = readers.iter().filter_map(|reader| self.by_id.get(&reader.id));
        noted.filter(|tracker| tracker.prefixes.is_none()).for_each(|tracker| tracker.tell(key, by));
    }

    fn forget(&mut self, id: u64) {
        self.by_id.remove(&id);
        self.broadcast.retain(|tracker| tracker.client.id != id);
        self.left.retain(|left| *left != id);
    }
}

impl Trackers {
    /// None yet. They take what they note from `cache`'s room, within `limits`.
    pub fn new(limits: &ServerLimits, cache: &Cache) -> Trackers {
        let keys = Keys::new(limits.tracking_keys_max, limits.tracking_bytes_max, cache.clone());
        Trackers { any: Arc::default(), list: RwLock::default(), keys }
    }

    fn read(&self) -> RwLockReadGuard<'_, List> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, List> {
        self.list.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn attend(&self, list: &List, attention: &Attention) {
        // What was noted is of no use then: the client that tracks next has read nothing yet.
        if list.by_id.is_empty() {
            self.keys.clear();
        }
        self.any.store(!list.by_id.is_empty(), Ordering::SeqCst);
        attention.set(TRACKING, !list.by_id.is_empty() || list.subscribers > 0);
    }

    /// `tracker`'s client tracks from now on, as it says; what was said before of that client is over.
    pub fn start(&self, tracker: Tracker, attention: &Attention) {
        let (id, tracker) = (tracker.client.id, Arc::new(tracker));
        let mut list = self.write();
        list.forget(id);
        if tracker.prefixes.is_some() {
            list.broadcast.push(tracker.clone());
        }
        list.by_id.insert(id, tracker);
        self.attend(&list, attention);
    }

    /// The client `id` does not track any more.
    pub fn stop(&self, id: u64, attention: &Attention) {
        let mut list = self.write();
        list.forget(id);
        self.attend(&list, attention);
    }

    /// A client subscribes to what is told, or no more.
    pub fn subscribe(&self, on: bool, attention: &Attention) {
        let mut list = self.write();
        match on {
            true => list.subscribers += 1,
            false => list.subscribers -= 1,
        }
        self.attend(&list, attention);
    }

    /// The connection of `client` has ended. What it has noted goes on being told to its target, which may keep what
    /// was read over it. Those for which it was the target are told that it is gone.
    pub fn leave(&self, client: &Client, attention: &Attention) {
        if attention.get() & TRACKING == 0 {
            return;
        }
        let mut list = self.write();
        let tracker = list.by_id.get(&client.id).cloned();
        let goes_on = |tracker: &Arc<Tracker>| tracker.target.is_some() && tracker.prefixes.is_none();
        match tracker {
            Some(tracker) if goes_on(&tracker) => list.left.push_back(client.id),
            _ => list.forget(client.id),
        }
        if list.left.len() > LEFT_MAX
            && let Some(oldest) = list.left.pop_front()
            && let Some(tracker) = list.by_id.remove(&oldest)
        {
            tracker.told().tell(Push::Everything);
        }
        let is_target = |tracker: &&Arc<Tracker>| tracker.target.as_ref().is_some_and(|other| other.id == client.id);
        let bereft: Vec<Arc<Tracker>> = list.by_id.values().filter(is_target).cloned().collect();
        for tracker in bereft {
            if list.left.contains(&tracker.client.id) {
                list.forget(tracker.client.id);
            } else {
                tracker.client.tell(Push::Bereft(client.id));
            }
        }
        self.attend(&list, attention);
    }

    /// A client is about to read `key`.
    pub fn note(&self, key: KeyRef<'_>, reader: Reader) {
        for (key, clients) in self.keys.note(key, reader) {
            // It is forgotten, so it is told as if it had changed.
            self.read().tell_noted(&key, &clients, 0);
        }
    }

    /// Whether any client tracks: a flag that can be kept without keeping the trackers.
    pub fn any(&self) -> Arc<AtomicBool> {
        self.any.clone()
    }

    /// Something has changed.
    pub fn changed(&self, changed: Changed<'_>) {
        if !self.any.load(Ordering::SeqCst) {
            return;
        }
        match changed {
            Changed::Key(key, by) => {
                let list = self.read();
                let stays = |reader: &Reader| {
                    let is_own = || list.by_id.get(&reader.id).is_some_and(|tracker| tracker.is_own(by));
                    reader.own && is_own() && !mutation::on(Fault::OwnWriteUntracks)
                };
                if let Some(clients) = self.keys.take(key, stays) {
                    list.tell_noted(key, &clients, by);
                }
                list.broadcast.iter().for_each(|tracker| tracker.tell(key, by));
            }
            Changed::Everything => {
                self.keys.clear();
                self.read().by_id.values().for_each(|tracker| tracker.told().tell(Push::Everything));
            }
        }
    }

    /// Clients that track now.
    pub fn clients(&self) -> usize {
        let list = self.read();
        list.by_id.len() - list.left.len()
    }

    /// Keys that are noted, clients that are noted with them, and prefixes.
    pub fn amounts(&self) -> (usize, usize, usize) {
        let (keys, items) = self.keys.amounts();
        let prefixes = |tracker: &Arc<Tracker>| tracker.prefixes.as_ref().map_or(0, |prefixes| prefixes.len());
        (keys, items, self.read().broadcast.iter().map(prefixes).sum())
    }
}
