//! The lock table: which transaction holds or wants which key, and the results of commits on their way, beside their
//! locks.
//!
//! Three modes: shared, update (compatible with shared; its holder means to write) and exclusive. Waiters are served
//! first come, first served, except that an upgrade goes to the head, and that a request that is run again stands where
//! it stood before. Of two transactions that both read a key and both want to write it the later fails at once, since
//! neither could ever go on. When a wait begins that may close a cycle, a search looks for it (`search.rs`); the one
//! whose wait would close it fails. Time-outs, random so that two victims do not meet again, are the net below.
//!
//! **Shards.** A key lies in the shard that its hash names, under that shard's mutex. Who needs several shards at once
//! ([`Locks::elide`]) takes them in ascending order; all others take one at a time. A key space is locked shared in the
//! one shard of its owner, and exclusively in all shards. So who has the mutex of one shard and finds there that a
//! space is not being cleared knows that it will not be while the mutex is held.
//!
//! **Work.** A request costs a constant number of look-ups per key, however many hold or want it. Only a search costs
//! more: at most one step for each waiter and each holder of what they wait for. It holds one shard's mutex at a time.
//!
//! A key is in the table only while someone holds or wants it, or a result stands beside it. Absent keys are locked
//! like any others. A shard gives memory back when a burst is over.

mod elided;
mod lock;
mod search;

use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError};

use futures_channel::oneshot;
use hashbrown::HashTable;

pub use elided::Elided;
pub use lock::Turn;
use lock::{Asked, Lock};
use search::{Search, Waits};

use super::mode::Mode;
use super::plan::Wanted;
use super::settled::Settled;
use super::space::Space;
use crate::key::{Key, KeyRef, SPACES};
use crate::mutation::{self, Fault};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::value::Value;
use crate::version::Version;

/// Names one transaction to the lock table.
pub type Owner = u64;

/// An owner that no transaction is.
const NOBODY: Owner = 0;

/// Parts of the table. Each has its mutex, and its bit in [`Elided::numbers`].
const SHARDS: usize = u16::BITS as usize;

/// Keys of a shard below which its table keeps its memory.
const SHRINK_KEYS_MIN: usize = 64;

/// A result that was handed on with its lock: committed, but not published yet.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The document as that commit leaves it; its version is the commit's.
    pub value: Option<Value>,
    /// Tells when, and whether, it is published, and under which version.
    pub settled: Settled,
}

/// Why a lock was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// To wait would be to wait for ever.
    Deadlock,
    /// Another transaction read the key and means to write it too.
    Upgrade,
}

/// The answer to a request for a lock; what stands beside a lock that is held is asked for by [`Locks::pending`].
pub enum Acquired {
    /// It is held now.
    Granted,
    /// It will be held when the wait is over.
    Wait(KeyWait),
    /// It was not given.
    Refused(Refused),
}

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Who asks; it may hold the key in a weaker mode.
    pub owner: Owner,
    /// Which key.
    pub key: &'a Key,
    /// How.
    pub mode: Mode,
    /// The keys that the owner holds, all of them.
    pub held: &'a [Key],
    /// Where it stood in the queue of this key when it was run before.
    pub number: Option<u64>,
}

/// How a wait stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The lock is held.
    Granted,
    /// It is waited for; the number is another whenever the queue has moved.
    Waits(u64),
}

/// A place in the queue for a key. Dropping it gives the place up; a lock that was granted stays with its owner.
pub struct KeyWait {
    locks: Arc<Locks>,
    owner: Owner,
    key: Key,
    hash: u64,
    turn: Turn,
    /// The wait is known to searches.
    known: bool,
    woken: oneshot::Receiver<()>,
}

impl KeyWait {
    /// Done when the lock is held.
    pub async fn granted(&mut self) {
        // The sender stays in the queue until it has sent.
        let _ = (&mut self.woken).await;
    }

    /// Whether the lock is held by now, and else whether the queue has moved.
    pub fn standing(&self) -> Standing {
        let shard = self.locks.shard(self.hash);
        let lock = shard.find(self.hash, self.key.borrow());
        match lock.filter(|lock| lock.wants(self.owner, self.turn).is_some()) {
            Some(lock) => Standing::Waits(lock.moves()),
            None => Standing::Granted,
        }
    }

    /// Where it stands, for [`Request::number`] of the next run.
    pub fn number(&self) -> u64 {
        self.turn.number()
    }

    /// The owners that keep it waiting: holders that are in its way, or in the way of those ahead of it.
    pub fn blockers(&self) -> Vec<Owner> {
        let mut blockers = Vec::new();
        Search::new(&self.locks).blockers(self.owner, &self.key, self.turn, &mut blockers);
        blockers.sort_unstable();
        blockers
    }

    /// Which key is waited for.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Gives the place up; false if the lock was granted before.
    fn leave(&self) -> bool {
        let mut left = false;
        self.locks.shard(self.hash).serve(self.hash, self.key.borrow(), |lock| left = lock.leave(self.turn));
        left
    }
}

impl Drop for KeyWait {
    fn drop(&mut self) {
        if self.known {
            self.locks.waits.forget(self.owner);
        }
        self.leave();
    }
}

/// A place in the queue for a key space, in one shard. Dropping it gives the place up, and the space too if it was
/// granted and nobody has heard of it.
pub struct SpaceWait<'a> {
    locks: &'a Locks,
    shard: usize,
    space: u8,
    exclusive: bool,
    woken: oneshot::Receiver<()>,
    heard: bool,
}

impl SpaceWait<'_> {
    /// Done when the space is held.
    pub async fn granted(&mut self) {
        // The sender stays in the queue until it has sent.
        let _ = (&mut self.woken).await;
        self.heard = true;
    }
}

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        self.woken.close();
        if let Ok(Some(())) = self.woken.try_recv() {
            self.locks.shards[self.shard].lock().release_space(self.space, self.exclusive);
        }
        // Who stood behind this place may go now.
        self.locks.shards[self.shard].lock().spaces[self.space as usize].serve();
    }
}

/// A whole key space, held or waited for against all others; given up when dropped.
pub struct Alone<'a> {
    locks: &'a Locks,
    space: u8,
    /// For each shard that was not free at once.
    waits: Vec<SpaceWait<'a>>,
    held: [bool; SHARDS],
}

impl Alone<'_> {
    /// The space that it is about.
    pub fn space(&self) -> u8 {
        self.space
    }

    /// Done when nobody else holds the space. Loses nothing if it is dropped.
    pub async fn granted(&mut self) {
        while let Some(wait) = self.waits.last_mut() {
            wait.granted().await;
            self.held[wait.shard] = true;
            self.waits.pop();
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.waits.clear();
        for (shard, held) in self.locks.shards.iter().zip(self.held) {
            if held {
                shard.lock().release_space(self.space, true);
            }
        }
    }
}

type Hasher = foldhash::quality::RandomState;

/// Its own mutex; see the head of this file.
#[derive(Default)]
struct Guarded(Mutex<Shard>);

impl Guarded {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the keys, and of each key space the part of its owners.
#[derive(Default)]
struct Shard {
    keys: HashTable<(u64, Key, Lock)>,
    spaces: [Space; SPACES as usize],
}

fn shard_of(hash: u64) -> usize {
    // The table within uses the lowest and the seven highest bits.
    (hash >> 48) as usize % SHARDS
}

impl Shard {
    fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<&Lock> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.find(hash, |(_, other, _)| other.borrow() == key).map(|(_, _, lock)| lock)
    }

    /// Whether `key` is not locked, wanted or beside a result, and its key space not being cleared or about to be.
    fn is_free(&self, hash: u64, key: KeyRef<'_>) -> bool {
        let space = &self.spaces[key.space as usize];
        let cleared = space.exclusive || !space.queue.is_empty();
        self.find(hash, key).is_none() && (!cleared || mutation::on(Fault::ElisionBesideClearing))
    }

    /// The lock of `key`, made if there is none.
    fn lock_of(&mut self, hash: u64, key: &Key) -> &mut Lock {
        let entry = self.keys.entry(hash, |(_, other, _)| other == key, |(hash, ..)| *hash);
        &mut entry.or_insert_with(|| (hash, key.clone(), Lock::default())).into_mut().2
    }

    /// Changes a lock, if there is one, and grants what can be granted then. What is left of nothing leaves the table.
    fn serve(&mut self, hash: u64, key: KeyRef<'_>, change: impl FnOnce(&mut Lock)) {
        let found = self.keys.find_entry(hash, |(_, other, _)| other.borrow() == key);
        let Ok(mut entry) = found else { return };
        let lock = &mut entry.get_mut().2;
        change(lock);
        lock.serve();
        if lock.idle() {
            entry.remove();
            let (used, room) = (self.keys.len(), self.keys.capacity());
            if room > SHRINK_KEYS_MIN && used < room / 8 {
                self.keys.shrink_to(used * 2, |(hash, ..)| *hash);
            }
        }
    }

    fn release_space(&mut self, space: u8, exclusive: bool) {
        let space = &mut self.spaces[space as usize];
        match exclusive {
            true => space.exclusive = false,
            false => {
                debug_assert!(space.shared > 0, "given up twice");
                space.shared = space.shared.saturating_sub(1);
            }
        }
        space.serve();
    }
}

/// The lock table.
#[derive(Default)]
pub struct Locks {
    shards: [Guarded; SHARDS],
    hasher: Hasher,
    waits: Waits,
    /// Waits that have begun; each takes the number as its place.
    numbers: AtomicU64,
    /// Held while a clearing enters the queues of all shards, so that two of them stand in one order in all.
    clearing: Mutex<()>,
    /// Waiters and holders that searches have looked at.
    steps: AtomicU64,
}

impl Locks {
    fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[shard_of(hash)].lock()
    }

    /// Asks for a lock.
    pub fn acquire(self: &Arc<Locks>, request: Request<'_>) -> Acquired {
        let Request { owner, key, mode, held, number } = request;
        let hash = self.hash(key.borrow());
        let mut shard = self.shard(hash);
        let next = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let (turn, woken, last) = match shard.lock_of(hash, key).ask(owner, mode, number, next) {
            Asked::Granted => return Acquired::Granted,
            Asked::Rival => return Acquired::Refused(Refused::Upgrade),
            Asked::Queued(turn, woken, last) => (turn, woken, last),
        };
        let known = !held.is_empty();
        if known {
            // Before anyone can see the place in the queue: a search that meets it must be able to go on from it.
            self.waits.note(owner, key, turn);
        }
        drop(shard);
        let wait = KeyWait { locks: self.clone(), owner, key: key.clone(), hash, turn, known, woken };
        let mut search = Search::new(self);
        let may_close = !last || (known && search.is_needed(held, key, turn));
        if may_close && search.finds_a_cycle(owner, key, turn) && wait.leave() {
            return Acquired::Refused(Refused::Deadlock);
        }
        Acquired::Wait(wait)
    }

    /// The shards of `keys`, if none of the keys is locked, wanted or has a result beside it, and none of their key
    /// spaces is being cleared or about to be. While they are held nobody else gets a lock of these keys, or clears
    /// these spaces, so their holder needs no locks.
    pub fn elide<'a>(&'a self, keys: &'a [Wanted<'a>]) -> Option<Elided<'a>> {
        Elided::of(self, keys)
    }

    /// Is over when each shard has been free once: what held one of them before has given it up.
    pub fn pass(&self) {
        self.shards.iter().for_each(|shard| drop(shard.lock()));
    }

    /// The last unpublished result beside `key`, for a transaction whose wait for the lock is over.
    pub fn pending(&self, key: &Key) -> Option<Pending> {
        let hash = self.hash(key.borrow());
        self.shard(hash).find(hash, key.borrow()).and_then(|lock| lock.pending.last().cloned())
    }

    /// Puts a result of a commit down beside the lock of `key`, which its owner holds: whoever gets that next finds it.
    pub fn put_down(&self, key: &Key, result: Pending) {
        let hash = self.hash(key.borrow());
        self.shard(hash).lock_of(hash, key).pending.push(result);
    }

    /// Gives up the locks of `owner` on the keys `held`.
    pub fn release(&self, owner: Owner, held: &[Key]) {
        for key in held {
            let hash = self.hash(key.borrow());
            self.shard(hash).serve(hash, key.borrow(), |lock| lock.release(owner));
        }
    }

    /// The results of the commits with these versions are published, or will never be: they no longer stand beside the
    /// locks. `None`: of the one that has no place, whose owner has the lock still.
    pub fn settle<'a>(&self, results: impl Iterator<Item = (&'a Key, Option<Version>)>) {
        for (key, version) in results {
            let hash = self.hash(key.borrow());
            let drop_result = |lock: &mut Lock| lock.pending.retain(|pending| pending.settled.version() != version);
            self.shard(hash).serve(hash, key.borrow(), drop_result);
        }
    }

    /// Asks for a key space for `owner`, beside others. `None`: it is held now.
    pub fn acquire_space(&self, owner: Owner, space: u8) -> Option<SpaceWait<'_>> {
        self.queue_for_space(owner as usize % SHARDS, space, false)
    }

    /// Gives a key space up that `owner` holds.
    pub fn release_space(&self, owner: Owner, space: u8) {
        self.shards[owner as usize % SHARDS].lock().release_space(space, false);
    }

    /// Asks for a key space against all others, to clear it.
    pub fn acquire_alone(&self, space: u8) -> Alone<'_> {
        let _order = self.clearing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut alone = Alone { locks: self, space, waits: Vec::new(), held: [false; SHARDS] };
        for shard in 0..SHARDS {
            match self.queue_for_space(shard, space, true) {
                None => alone.held[shard] = true,
                Some(wait) => alone.waits.push(wait),
            }
        }
        alone
    }

    fn queue_for_space(&self, shard: usize, space: u8, exclusive: bool) -> Option<SpaceWait<'_>> {
        let mut guard = self.shards[shard].lock();
        let state = &mut guard.spaces[space as usize];
        if state.queue.is_empty() && state.grantable(exclusive) {
            state.grant(exclusive);
            return None;
        }
        let (wake, woken) = oneshot::channel();
        state.queue.push_back((exclusive, wake));
        Some(SpaceWait { locks: self, shard, space, exclusive, woken, heard: false })
    }

    /// Keys in the table; 0 once all is quiet.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().keys.len()).sum()
    }

    /// Panics if the table contradicts itself; for tests and fuzzing.
    pub fn validate(&self) {
        for (number, shard) in self.shards.iter().enumerate() {
            for (hash, key, lock) in &shard.lock().keys {
                assert_eq!((self.hash(key.borrow()), shard_of(*hash)), (*hash, number), "{key} is in another shard");
                lock.validate(&key.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests;
