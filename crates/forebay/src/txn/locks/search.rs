//! Who waits for whom: the search for the cycle that a new wait would close.
//!
//! **When no search is needed.** A request that holds no key, and that stands last in its queue, closes no cycle:
//! nobody waits for it, since others wait only for a key that one holds and for a place ahead of theirs. A key space
//! that it holds shared does not count. Whoever clears that space waits for it, true; but a request without a key has
//! locked that one space for the key that it wants now, so all that it waits for holds the same space, and whoever
//! clears the space waits for those as well: a cycle through this request has a shorter one without it. Nor is a search
//! needed if nobody waits for any key that the request holds.
//!
//! **Cycles through a key space** are not searched for. Plain commands, EXEC and clearings lock in ascending order of
//! space and key, so such a cycle has an interactive transaction in it that keeps one of them waiting, and yields
//! (`yielding.rs`).
//!
//! **What a step looks at.** A queue goes in order, so who stands in it waits for all that stand ahead of it, and for
//! the holders that are in the way of any of these. Who stands ahead in the same queue waits nowhere else. So one step
//! goes from a waiter straight to the holders that are in the way of the strongest mode wanted up to its place. A
//! queue is walked once in a search, each waiter and holder is visited once: O(waiters).
//!
//! **Why shards may be looked at one by one.** Of the transactions in a deadlock one enters its queue last. Its search
//! begins after that, and then all other edges of the cycle are there and stay: a transaction that waits gives up no
//! lock unless its wait fails, which ends the deadlock. Who enters a queue ahead of others is that last one itself when
//! it closes a cycle, so a search ends as well where it meets a waiter behind its own place.

use std::sync::PoisonError;

use hashbrown::{HashMap, HashSet};

use super::{Locks, Owner, SHARDS, Turn};
use crate::key::Key;
use crate::sync::{Mutex, MutexGuard, Ordering};
use crate::txn::mode::Mode;

/// Held keys above which nobody looks whether any is wanted: the search is cheaper.
const HELD_LOOKED_AT_MAX: usize = 32;

type Map = HashMap<Owner, (Key, Turn), foldhash::fast::RandomState>;

/// Where each transaction stands that holds a key and waits for another.
#[derive(Default)]
pub(super) struct Waits([Mutex<Map>; SHARDS]);

impl Waits {
    fn part(&self, owner: Owner) -> MutexGuard<'_, Map> {
        self.0[owner as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, owner: Owner, key: &Key, turn: Turn) {
        self.part(owner).insert(owner, (key.clone(), turn));
    }

    pub(super) fn forget(&self, owner: Owner) {
        let mut part = self.part(owner);
        part.remove(&owner);
        if part.capacity() > 64 && part.len() < part.capacity() / 8 {
            let keep = part.len() * 2;
            part.shrink_to(keep);
        }
    }

    fn of(&self, owner: Owner) -> Option<(Key, Turn)> {
        self.part(owner).get(&owner).cloned()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|part| part.lock().unwrap().len()).sum()
    }
}

/// One search.
pub(super) struct Search<'a> {
    locks: &'a Locks,
    /// How far each queue was walked, and the strongest mode found there.
    walked: HashMap<Key, (Turn, Mode), foldhash::quality::RandomState>,
    /// Waiters and holders looked at.
    steps: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(locks: &'a Locks) -> Search<'a> {
        Search { locks, walked: HashMap::default(), steps: 0 }
    }

    /// Whether someone may wait for who holds `held`, and waits for `key` at `turn` itself.
    pub(super) fn is_needed(&self, held: &[Key], key: &Key, turn: Turn) -> bool {
        let wanted = |held: &Key| {
            let hash = self.locks.hash(held.borrow());
            let except = (held == key).then_some(turn);
            self.locks.shard(hash).find(hash, held.borrow()).is_some_and(|lock| lock.wanted(except))
        };
        held.len() > HELD_LOOKED_AT_MAX || held.iter().any(wanted)
    }

    /// Whether whoever `owner`, who has just begun to wait for `key`, waits for waits, through any number of others,
    /// for `owner`.
    pub(super) fn finds_a_cycle(&mut self, owner: Owner, key: &Key, turn: Turn) -> bool {
        let found = self.walk(owner, key, turn);
        self.locks.steps.fetch_add(self.steps, Ordering::Relaxed);
        found
    }

    fn walk(&mut self, owner: Owner, key: &Key, turn: Turn) -> bool {
        let mut seen = HashSet::<Owner, foldhash::fast::RandomState>::default();
        let mut stack = vec![(owner, key.clone(), turn)];
        let mut blockers = Vec::new();
        while let Some((waiter, at, place)) = stack.pop() {
            self.blockers(waiter, &at, place, &mut blockers);
            for blocker in blockers.drain(..) {
                if blocker == owner {
                    return true;
                }
                if !seen.insert(blocker) {
                    continue;
                }
                let Some((at, place)) = self.locks.waits.of(blocker) else { continue };
                if at == *key && place > turn && self.waits(blocker, &at, place) {
                    return true;
                }
                stack.push((blocker, at, place));
            }
        }
        false
    }

    /// The holders of `key` that are in the way of who stands at `turn`, unless they were told before.
    pub(super) fn blockers(&mut self, owner: Owner, key: &Key, turn: Turn, into: &mut Vec<Owner>) {
        let hash = self.locks.hash(key.borrow());
        let shard = self.locks.shard(hash);
        // What was noted of a wait that is over by now leads nowhere.
        let Some(lock) = shard.find(hash, key.borrow()) else { return };
        let Some(wants) = lock.wants(owner, turn) else { return };
        let (from, before) = self.walked.get(key).map_or((None, None), |(turn, mode)| (Some(*turn), Some(*mode)));
        if from.is_some_and(|from| from >= turn) {
            return;
        }
        let mode = match before.unwrap_or(wants).max(wants) {
            Mode::Exclusive => Mode::Exclusive,
            known => lock.strongest(from, turn, known, &mut self.steps),
        };
        self.walked.insert(key.clone(), (turn, mode));
        if before != Some(mode) {
            lock.in_the_way(mode, owner, |holder| into.push(holder));
        }
        self.steps += 1 + into.len() as u64;
    }

    fn waits(&self, owner: Owner, key: &Key, turn: Turn) -> bool {
        let hash = self.locks.hash(key.borrow());
        self.locks.shard(hash).find(hash, key.borrow()).is_some_and(|lock| lock.wants(owner, turn).is_some())
    }
}
