//! A store in memory: nothing survives the process. Every call is done at once, without a pause.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::future::{BoxFuture, ready};
use hashbrown::HashTable;
use smallvec::SmallVec;

use super::applied::{AppliedIds, Known};
use super::given::GivenIds;
use super::portion::Portion;
use super::tombstones::Tombstones;
use super::{Caps, Commit, CommitOutcome, GivenId, Read, ReadError, ReadWithIds, Resolved, Store};
use crate::error::Unavailable;
use crate::key::{Key, KeyRef, SPACES};
use crate::mutation::{self, Fault};
use crate::read::record::Record;
use crate::read::short;
use crate::value::Value;
use crate::version::{TxnId, Version};

/// A store in memory, behind one lock: reads share it, a group takes it once.
pub struct Memory {
    state: RwLock<State>,
    incarnation: u64,
}

struct State {
    /// By a hash that nobody outside knows: names could be chosen that all have one [`KeyRef::hash64`].
    /// The cache has a document's record as well, if that is a short byte string.
    documents: HashTable<Record>,
    hasher: foldhash::fast::RandomState,
    /// The keys of `documents`: a scan needs their order, a write to one that is there does not.
    order: BTreeSet<Key>,
    expiries: BTreeSet<(u64, Key)>,
    counts: [u64; SPACES as usize],
    tombstones: Tombstones,
    applied: AppliedIds,
    given: GivenIds,
    group: u64,
    /// Large documents that are not there any more: dropped when the lock is given up.
    given_up: Vec<Read>,
}

/// Bytes above which a document is not dropped under the lock.
const LATER_BYTES_MIN: usize = 4 << 10;

impl Memory {
    /// An empty store, as the first of its kind.
    pub fn new() -> Memory {
        Memory::in_incarnation(1)
    }

    /// An empty store. Where clients may know versions of an earlier one, it needs an incarnation that no earlier one
    /// had: else what they keep of that one passes for this one's.
    pub fn in_incarnation(incarnation: u64) -> Memory {
        let incarnation = if mutation::on(Fault::LivesAlike) { 1 } else { incarnation };
        short::name(incarnation);
        let state = State {
            documents: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            order: BTreeSet::new(),
            expiries: BTreeSet::new(),
            counts: [0; SPACES as usize],
            tombstones: Tombstones::new(incarnation),
            applied: AppliedIds::new(AppliedIds::LOWEST),
            given: GivenIds::default(),
            group: 0,
            given_up: Vec::new(),
        };
        Memory { state: RwLock::new(state), incarnation }
    }

    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a group of commits.
    fn make<T>(&self, apply: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.exclusive();
        state.group += 1;
        let made = apply(&mut state);
        let given_up = std::mem::take(&mut state.given_up);
        drop(state);
        drop(given_up);
        made
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("documents", &self.shared().documents.len()).finish_non_exhaustive()
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// By what [`State::documents`] knows a key.
fn hash(hasher: &foldhash::fast::RandomState, key: KeyRef<'_>) -> u64 {
    if mutation::on(Fault::KnownHash) { key.hash64() } else { hasher.hash_one(key) }
}

/// What a record holds, if to drop it may take long.
fn large(record: &Record) -> Option<Read> {
    (record.view().charged_bytes() > LATER_BYTES_MIN).then(|| record.view().read())
}

impl State {
    fn document(&self, key: &Key) -> Option<&Record> {
        self.documents.find(hash(&self.hasher, key.borrow()), |record| record.view().key() == key.borrow())
    }

    fn version(&self, key: &Key) -> Version {
        self.document(key).map_or_else(|| self.tombstones.absence(key).version, |document| document.view().version())
    }

    fn read(&self, key: &Key) -> Read {
        match self.document(key) {
            Some(document) => document.view().read(),
            None => Read { value: None, version: self.tombstones.absence(key).version },
        }
    }

    fn set(&mut self, key: &Key, after: Option<&Value>, version: Version) {
        let count = &mut self.counts[usize::from(key.space())];
        let expires_at_ms = after.and_then(|value| value.expires_at_ms);
        let hash_here = hash(&self.hasher, key.borrow());
        let same = |record: &Record| record.view().key() == key.borrow();
        let expired_at_ms = match after {
            Some(value) => match self.documents.find_mut(hash_here, same) {
                Some(document) => {
                    let expired_at_ms = document.view().expires_at_ms();
                    self.given_up.extend(large(document));
                    document.replace(key, Some(value), version);
                    expired_at_ms
                }
                None => {
                    self.order.insert(key.compact());
                    *count += 1;
                    let hasher = &self.hasher;
                    let rehash = |record: &Record| hash(hasher, record.view().key());
                    self.documents.insert_unique(hash_here, Record::of(key, Some(value), version), rehash);
                    None
                }
            },
            None => {
                self.tombstones.insert(key.clone(), version, self.group);
                let old = self.documents.find_entry(hash_here, same).ok().map(|found| found.remove().0);
                *count -= u64::from(old.is_some());
                self.given_up.extend(old.as_ref().and_then(large));
                self.order.remove(key);
                old.and_then(|document| document.view().expires_at_ms())
            }
        };
        if expired_at_ms == expires_at_ms {
            return;
        }
        if let Some(at) = expired_at_ms {
            self.expiries.remove(&(at, key.clone()));
        }
        if let Some(at) = expires_at_ms {
            self.expiries.insert((at, key.compact()));
        }
    }

    /// Applies one commit, or says why not.
    fn apply(&mut self, commit: &Commit) -> CommitOutcome {
        match self.applied.known(commit.id) {
            Known::Applied => return CommitOutcome::Committed(Vec::new()),
            Known::Denied => return CommitOutcome::Refused(super::denied(commit.id)),
            Known::BelowFloor => return CommitOutcome::Refused(super::below_floor(commit.id)),
            Known::New => {}
        }
        if !commit.checks.is_empty() {
            let stale = commit.checks.iter().filter(|(key, version)| self.version(key) != *version);
            let stale = stale.map(|(key, _)| key.clone()).collect::<Vec<_>>();
            if !stale.is_empty() {
                return CommitOutcome::Conflict(stale);
            }
        }
        for write in &commit.writes {
            self.set(&write.key, write.after.as_ref(), commit.version);
        }
        self.applied.add(self.group, &[commit.id]);
        self.given.add(&commit.given, commit.version);
        CommitOutcome::Committed(Vec::new())
    }
}

impl Store for Memory {
    fn caps(&self) -> Caps {
        Caps { ordered: true, owned: true, applies: false }
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let state = self.shared();
        let reads = Portion::new(bytes_max).front(keys.iter().map(|key| state.read(key)));
        Box::pin(ready(Ok(reads)))
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        let state = self.shared();
        let applied = |id: &&TxnId| state.applied.known(**id) == Known::Applied;
        let reads = asked.iter().map(|(key, ids)| (state.read(key), ids.iter().filter(applied).copied().collect()));
        Box::pin(ready(Ok(Some(reads.collect()))))
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let outcomes = self.make(|state| super::in_order(group, |commit| state.apply(commit)));
        Box::pin(ready(outcomes))
    }

    fn expect_writes(&self, keys: &[KeyRef<'_>]) {
        let state = self.shared();
        // Loads that do not wait for each other: first where the documents are said to be, then their records.
        let mut probable = SmallVec::<[&Record; 32]>::new();
        for key in keys {
            if let Some(document) = state.documents.find(hash(&state.hasher, *key), |_| true) {
                probable.push(document);
            }
        }
        for document in probable {
            black_box(document.view().first_byte());
        }
    }

    fn commits_now(&self) -> bool {
        true
    }

    fn commit_now(&self, commit: &Commit) -> Option<CommitOutcome> {
        Some(self.make(|state| state.apply(commit)))
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        let mut state = self.exclusive();
        let resolved = match state.applied.known(id) {
            Known::Applied => Ok(Resolved::Applied),
            Known::Denied => Ok(Resolved::NotApplied),
            Known::BelowFloor => Err(Unavailable(super::below_floor(id))),
            Known::New if mutation::on(Fault::OutcomeWithoutTombstone) => Ok(Resolved::NotApplied),
            Known::New => {
                state.applied.deny(id);
                Ok(Resolved::NotApplied)
            }
        };
        Box::pin(ready(resolved))
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<(GivenId, Version)>, Unavailable>> {
        Box::pin(ready(Ok(self.shared().given.all())))
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        let start = match after {
            Some(key) if key.space() == space => Bound::Excluded(key.clone()),
            _ => Bound::Included(Key::new(space, b"")),
        };
        let state = self.shared();
        let keys = state.order.range((start, Bound::Unbounded));
        let keys = super::bounded(keys.take_while(|key| key.space() == space).cloned(), limit);
        Box::pin(ready(Ok(keys)))
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        let count = self.shared().counts.get(usize::from(space)).copied().unwrap_or(0);
        Box::pin(ready(Ok(count)))
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        let mut state = self.exclusive();
        let state = &mut *state;
        state.group += 1;
        state.documents.retain(|document| !spaces.contains(&document.view().key().space));
        state.order.retain(|key| !spaces.contains(&key.space()));
        state.expiries.retain(|(_, key)| !spaces.contains(&key.space()));
        for &space in spaces {
            if let Some(count) = state.counts.get_mut(usize::from(space)) {
                *count = 0;
            }
        }
        for space in spaces {
            state.tombstones.raise_floor(*space, version, state.group);
        }
        Box::pin(ready(Ok(())))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        let state = self.shared();
        let due = state.expiries.iter().take_while(|(at, _)| *at <= now_ms);
        let keys = super::bounded(due.map(|(_, key)| key.clone()), limit);
        Box::pin(ready(Ok(keys)))
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::chosen_to_collide;

    /// Documents that a look-up of any of `keys` has to compare names with, all together.
    fn compared(keys: &[Key]) -> usize {
        let memory = Memory::new();
        let mut state = memory.exclusive();
        for key in keys {
            state.set(key, Some(&Value::bytes(*b"x")), Version::ZERO);
        }
        assert!(keys.iter().all(|key| state.document(key).is_some()));
        keys.iter().map(|key| state.documents.iter_hash(hash(&state.hasher, key.borrow())).count()).sum()
    }

    #[test]
    fn names_cannot_be_chosen_to_collide() {
        let keys = chosen_to_collide(64);
        assert!(compared(&keys) < 3 * keys.len());
        let _on = mutation::put_back(Some(Fault::KnownHash));
        assert_eq!(compared(&keys), keys.len() * keys.len(), "without its own seed this test must fail");
    }
}
