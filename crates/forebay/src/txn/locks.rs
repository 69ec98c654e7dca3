//! The lock table: which transaction holds or wants which key, and the results of commits on their way, beside their
//! locks.
//!
//! Three modes: shared, update (compatible with shared; its holder means to write) and exclusive. Waiters are served
//! first come, first served, except that an upgrade goes to the head. Of two transactions that both read a key and both
//! want to write it the later fails at once, since neither could ever go on. When a wait begins, a search through who
//! waits for whom looks for a cycle; the one whose wait would close it fails. Time-outs, random so that two victims
//! do not meet again, are the net below.
//!
//! A key is in the table only while someone holds or wants it, or a result stands beside it. Absent keys are locked
//! like any others.

use std::collections::{HashSet, VecDeque};
use std::sync::PoisonError;

use futures_channel::oneshot;
use hashbrown::HashMap;
use hashbrown::hash_map::{Entry, EntryRef};
use smallvec::SmallVec;

use super::mode::Mode;
use super::plan::Wanted;
use super::settled::Settled;
use super::space::Space;
use crate::key::{Key, SPACES};
use crate::read::Read;
use crate::sync::{Mutex, MutexGuard};

/// Names one transaction to the lock table.
pub type Owner = u64;

/// An owner that no transaction is.
const NOBODY: Owner = 0;

/// A result that was handed on with its lock: committed, but not published yet.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The document as that commit leaves it.
    pub read: Read,
    /// Tells when, and whether, it is published.
    pub settled: Settled,
    /// Its commit's place in the commit order.
    pub place: u64,
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
    /// It will be held when this fires.
    Wait(oneshot::Receiver<()>),
    /// It was not given.
    Refused(Refused),
}

/// A place in the queue for a key space. Dropping it gives the place up, and the space too if it was granted and nobody
/// has heard of it.
pub struct SpaceWait<'a> {
    locks: &'a Locks,
    space: u8,
    exclusive: bool,
    woken: oneshot::Receiver<()>,
    heard: bool,
}

impl SpaceWait<'_> {
    /// Done when the space is held.
    pub async fn granted(mut self) {
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
            self.locks.release_space(self.space, self.exclusive);
        }
        // Whoever stood behind this place may go now.
        self.locks.table().spaces[self.space as usize].serve();
    }
}

/// The lock table, held by a transaction that needs no locks while it holds it: see [`Locks::elide`].
pub struct Elided<'a> {
    table: MutexGuard<'a, Table>,
    keys: &'a [Wanted<'a>],
    /// Its commit has begun and is not published.
    pub half_done: bool,
}

/// What is half done is not to be seen: the keys stay locked until the restart.
impl Drop for Elided<'_> {
    fn drop(&mut self) {
        if self.half_done {
            for wanted in self.keys {
                self.table.keys.entry(wanted.key.to_key()).or_default().grant(NOBODY, Mode::Exclusive);
            }
        }
    }
}

/// The lock table.
#[derive(Default)]
pub struct Locks {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    keys: HashMap<Key, Lock, foldhash::quality::RandomState>,
    spaces: [Space; SPACES as usize],
    /// What each waiting transaction waits for.
    waiting: HashMap<Owner, Key, foldhash::quality::RandomState>,
}

#[derive(Default)]
struct Lock {
    holders: SmallVec<[(Owner, Mode); 2]>,
    queue: VecDeque<Waiter>,
    /// Unpublished results, in commit order.
    pending: SmallVec<[Pending; 1]>,
}

struct Waiter {
    owner: Owner,
    mode: Mode,
    wake: oneshot::Sender<()>,
}

impl Lock {
    fn idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty() && self.pending.is_empty()
    }

    fn held_by(&self, owner: Owner) -> Option<Mode> {
        self.holders.iter().find(|(holder, _)| *holder == owner).map(|(_, mode)| *mode)
    }

    /// Whether `owner` could hold the lock in `mode` beside the other holders.
    fn grantable(&self, owner: Owner, mode: Mode) -> bool {
        self.holders.iter().all(|(holder, held)| *holder == owner || mode.compatible(*held))
    }

    fn grant(&mut self, owner: Owner, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, held)) => *held = mode.max(*held),
            None => self.holders.push((owner, mode)),
        }
    }
}

impl Locks {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for `key` in `mode` for `owner`, who may hold it in a weaker mode already.
    pub fn acquire(&self, owner: Owner, key: &Key, mode: Mode) -> Acquired {
        self.table().acquire(owner, key, mode)
    }

    /// The table itself, if none of the keys is locked, wanted or has a result beside it, and none of their key
    /// spaces is being cleared or about to be. While it is held nobody else gets a lock, so its holder needs none.
    pub fn elide<'a>(&'a self, keys: &'a [Wanted<'a>]) -> Option<Elided<'a>> {
        let table = self.table();
        let free = |wanted: &Wanted<'_>| {
            let space = &table.spaces[wanted.key.space as usize];
            let locked = !table.keys.is_empty() && table.keys.contains_key(&wanted.key);
            !locked && !space.exclusive && space.queue.is_empty()
        };
        let free = keys.iter().all(free);
        free.then_some(Elided { table, keys, half_done: false })
    }

    /// The last unpublished result beside `key`, for a transaction whose wait for the lock is over.
    pub fn pending(&self, key: &Key) -> Option<Pending> {
        self.table().keys.get(key).and_then(|lock| lock.pending.last().cloned())
    }

    /// Whether `owner` holds `key` in `mode` or a stronger one.
    pub fn holds(&self, owner: Owner, key: &Key, mode: Mode) -> bool {
        self.table().keys.get(key).and_then(|lock| lock.held_by(owner)).is_some_and(|held| held >= mode)
    }

    /// Puts down the results of a commit that has its place, and hands all the owner's locks on.
    pub fn hand_over(&self, owner: Owner, held: &[Key], results: impl Iterator<Item = (Key, Pending)>) {
        let mut table = self.table();
        for (key, pending) in results {
            table.keys.entry(key).or_default().pending.push(pending);
        }
        table.release(owner, held);
    }

    /// Gives up all locks of `owner`, and its place in a queue.
    pub fn release(&self, owner: Owner, held: &[Key]) {
        self.table().release(owner, held);
    }

    /// The results of the commits at `places` are published, or will never be: they no longer stand beside the locks.
    pub fn settle<'a>(&self, results: impl Iterator<Item = (&'a Key, u64)>) {
        let mut table = self.table();
        for (key, place) in results {
            if let Some(lock) = table.keys.get_mut(key) {
                lock.pending.retain(|pending| pending.place != place);
                if lock.idle() {
                    table.keys.remove(key);
                }
            }
        }
    }

    /// Asks for a whole key space: shared for a transaction, exclusively to clear it. `None`: it is held now.
    pub fn acquire_space(&self, space: u8, exclusive: bool) -> Option<SpaceWait<'_>> {
        let mut table = self.table();
        let state = &mut table.spaces[space as usize];
        if state.queue.is_empty() && state.grantable(exclusive) {
            state.grant(exclusive);
            return None;
        }
        let (wake, woken) = oneshot::channel();
        state.queue.push_back((exclusive, wake));
        Some(SpaceWait { locks: self, space, exclusive, woken, heard: false })
    }

    /// Gives a key space up.
    pub fn release_space(&self, space: u8, exclusive: bool) {
        let mut table = self.table();
        let space = &mut table.spaces[space as usize];
        match exclusive {
            true => space.exclusive = false,
            false => space.shared = space.shared.saturating_sub(1),
        }
        space.serve();
    }

    /// Keys in the table; 0 once all is quiet.
    pub fn keys(&self) -> usize {
        self.table().keys.len()
    }

    /// Panics if the table contradicts itself; for tests and fuzzing.
    pub fn validate(&self) {
        let table = self.table();
        for (key, lock) in &table.keys {
            assert!(!lock.idle(), "{key} is in the table for nothing");
            for (n, (owner, mode)) in lock.holders.iter().enumerate() {
                let others = &lock.holders[n + 1..];
                assert!(others.iter().all(|(other, held)| other != owner && mode.compatible(*held)), "{key}");
            }
            for waiter in &lock.queue {
                assert_eq!(table.waiting.get(&waiter.owner), Some(key), "{} waits for {key}", waiter.owner);
            }
            assert!(lock.pending.is_sorted_by_key(|pending| pending.place), "{key}: results in commit order");
        }
    }
}

impl Table {
    fn acquire(&mut self, owner: Owner, key: &Key, mode: Mode) -> Acquired {
        let lock = match self.keys.entry(key.clone()) {
            Entry::Occupied(lock) => lock.into_mut(),
            Entry::Vacant(free) => {
                free.insert(Lock::default()).grant(owner, mode);
                return Acquired::Granted;
            }
        };
        let held = lock.held_by(owner);
        if held.is_some_and(|held| held >= mode) {
            return Acquired::Granted;
        }
        let upgrade = held.is_some();
        if lock.grantable(owner, mode) && (upgrade || lock.queue.is_empty()) {
            lock.grant(owner, mode);
            return Acquired::Granted;
        }
        let rival = |(other, held): &(Owner, Mode)| *other != owner && *held > Mode::Shared;
        if upgrade {
            let waits = |waiter: &Waiter| lock.held_by(waiter.owner).is_some();
            if lock.holders.iter().any(rival) || lock.queue.iter().any(waits) {
                return Acquired::Refused(Refused::Upgrade);
            }
        }
        let (wake, woken) = oneshot::channel();
        let waiter = Waiter { owner, mode, wake };
        match upgrade {
            true => lock.queue.push_front(waiter),
            false => lock.queue.push_back(waiter),
        }
        self.waiting.insert(owner, key.clone());
        if self.in_cycle(owner) {
            self.forget_wait(owner);
            return Acquired::Refused(Refused::Deadlock);
        }
        Acquired::Wait(woken)
    }

    /// Whether whoever `owner` waits for waits, through any number of others, for `owner`.
    fn in_cycle(&self, owner: Owner) -> bool {
        let mut seen = HashSet::new();
        let mut stack = self.blockers(owner);
        while let Some(blocker) = stack.pop() {
            if blocker == owner {
                return true;
            }
            if seen.insert(blocker) {
                stack.extend(self.blockers(blocker));
            }
        }
        false
    }

    /// Who must go before `owner` can: holders whose mode is in its way, and all who wait ahead of it.
    fn blockers(&self, owner: Owner) -> Vec<Owner> {
        let Some(lock) = self.waiting.get(&owner).and_then(|key| self.keys.get(key)) else { return Vec::new() };
        let Some(position) = lock.queue.iter().position(|waiter| waiter.owner == owner) else { return Vec::new() };
        let mode = lock.queue[position].mode;
        let in_the_way = |(holder, held): &&(Owner, Mode)| *holder != owner && !mode.compatible(*held);
        let holders = lock.holders.iter().filter(in_the_way).map(|(holder, _)| *holder);
        holders.chain(lock.queue.iter().take(position).map(|waiter| waiter.owner)).collect()
    }

    fn forget_wait(&mut self, owner: Owner) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(key) = self.waiting.remove(&owner) else { return };
        self.serve(&key, |lock| lock.queue.retain(|waiter| waiter.owner != owner));
    }

    fn release(&mut self, owner: Owner, held: &[Key]) {
        self.forget_wait(owner);
        for key in held {
            self.serve(key, |lock| lock.holders.retain(|(holder, _)| *holder != owner));
        }
    }

    /// Changes a lock, then grants what can be granted at the head of its queue; drops the key from the table if
    /// nothing is left of it.
    fn serve(&mut self, key: &Key, change: impl FnOnce(&mut Lock)) {
        let EntryRef::Occupied(mut entry) = self.keys.entry_ref(key) else { return };
        let lock = entry.get_mut();
        change(lock);
        while let Some(head) = lock.queue.front() {
            if !lock.grantable(head.owner, head.mode) {
                return;
            }
            let Some(waiter) = lock.queue.pop_front() else { return };
            self.waiting.remove(&waiter.owner);
            // Who has given up waiting releases what it was granted: `release` follows every wait that fails.
            lock.grant(waiter.owner, waiter.mode);
            let _ = waiter.wake.send(());
        }
        if lock.idle() {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(0, name.as_bytes())
    }

    fn granted(acquired: Acquired) -> bool {
        matches!(acquired, Acquired::Granted)
    }

    fn waits(acquired: Acquired) -> oneshot::Receiver<()> {
        match acquired {
            Acquired::Wait(woken) => woken,
            Acquired::Granted => panic!("granted"),
            Acquired::Refused(refused) => panic!("{refused:?}"),
        }
    }

    #[test]
    fn readers_share_and_a_writer_waits_its_turn() {
        let locks = Locks::default();
        assert!(granted(locks.acquire(1, &key("a"), Mode::Shared)));
        assert!(granted(locks.acquire(2, &key("a"), Mode::Shared)));
        let mut writer = waits(locks.acquire(3, &key("a"), Mode::Exclusive));
        let mut reader = waits(locks.acquire(4, &key("a"), Mode::Shared));
        locks.release(1, &[key("a")]);
        assert_eq!(writer.try_recv(), Ok(None));
        locks.release(2, &[key("a")]);
        assert_eq!(writer.try_recv(), Ok(Some(())));
        assert_eq!(reader.try_recv(), Ok(None));
        locks.validate();
        locks.release(3, &[key("a")]);
        assert_eq!(reader.try_recv(), Ok(Some(())));
        locks.release(4, &[key("a")]);
        assert!(locks.keys() == 0);
    }

    #[test]
    fn an_update_lets_readers_go_on_until_it_becomes_exclusive() {
        let locks = Locks::default();
        assert!(granted(locks.acquire(1, &key("a"), Mode::Update)));
        assert!(granted(locks.acquire(2, &key("a"), Mode::Shared)));
        let mut upgrade = waits(locks.acquire(1, &key("a"), Mode::Exclusive));
        let mut late = waits(locks.acquire(3, &key("a"), Mode::Shared));
        locks.release(2, &[key("a")]);
        assert_eq!(upgrade.try_recv(), Ok(Some(())));
        assert_eq!(late.try_recv(), Ok(None));
        locks.release(1, &[key("a")]);
        assert_eq!(late.try_recv(), Ok(Some(())));
    }

    #[test]
    fn of_two_upgraders_the_later_fails_at_once() {
        let locks = Locks::default();
        for owner in [1, 2] {
            assert!(granted(locks.acquire(owner, &key("a"), Mode::Shared)));
        }
        assert!(granted(locks.acquire(1, &key("a"), Mode::Update)));
        let second = locks.acquire(2, &key("a"), Mode::Update);
        assert!(matches!(second, Acquired::Refused(Refused::Upgrade)));
    }

    #[test]
    fn a_cycle_is_found_when_it_closes() {
        let locks = Locks::default();
        for (owner, name) in [(1, "a"), (2, "b"), (3, "c")] {
            assert!(granted(locks.acquire(owner, &key(name), Mode::Exclusive)));
        }
        let _first = waits(locks.acquire(1, &key("b"), Mode::Shared));
        let _second = waits(locks.acquire(2, &key("c"), Mode::Exclusive));
        let third = locks.acquire(3, &key("a"), Mode::Shared);
        assert!(matches!(third, Acquired::Refused(Refused::Deadlock)));
        locks.validate();
        locks.release(3, &[key("c")]);
        locks.release(2, &[key("b"), key("c")]);
        locks.release(1, &[key("a"), key("b")]);
        assert!(locks.keys() == 0);
    }

    #[test]
    fn a_space_is_cleared_alone() {
        let locks = Locks::default();
        assert!(locks.acquire_space(0, false).is_none());
        let mut clearing = locks.acquire_space(0, true).expect("a transaction is in it");
        let mut late = locks.acquire_space(0, false).expect("the clearing is ahead");
        locks.release_space(0, false);
        assert_eq!(late.woken.try_recv(), Ok(None));
        assert_eq!(clearing.woken.try_recv(), Ok(Some(())));
        locks.release_space(0, true);
        assert_eq!(late.woken.try_recv(), Ok(Some(())));
    }

    #[test]
    fn who_gives_up_waiting_for_a_space_holds_nothing() {
        let locks = Locks::default();
        assert!(locks.acquire_space(0, false).is_none());
        let clearing = locks.acquire_space(0, true).expect("a transaction is in it");
        let mut late = locks.acquire_space(0, false).expect("the clearing is ahead");
        drop(clearing);
        assert_eq!(late.woken.try_recv(), Ok(Some(())), "the way is free");
        let granted = locks.acquire_space(1, true).is_none().then(|| locks.acquire_space(1, true).unwrap());
        locks.release_space(1, true);
        // Granted, but nobody has heard of it.
        drop(granted);
        assert!(locks.acquire_space(1, false).is_none(), "it was given up");
    }
}
