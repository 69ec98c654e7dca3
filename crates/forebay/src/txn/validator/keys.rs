//! What a validator knows of its keys: versions, reads, and what transactions under way mean to write.

use std::collections::{BTreeSet, HashMap};

use smallvec::SmallVec;

use crate::key::Key;
use crate::mutation::{Fault, on};
use crate::txn::optimistic::message::{Seen, Stamp, TxnName, Validate, Vote};

/// What is known of one key. A key of which nothing is known has no entry.
#[derive(Debug, Default)]
struct Known {
    /// Writes that have committed and are not forgotten, oldest first.
    committed: SmallVec<[Stamp; 2]>,
    /// Writes of transactions that may commit.
    prepared: SmallVec<[Stamp; 1]>,
    /// The last moment at which it was read.
    read: Stamp,
    /// Strict transactions that have read it and may commit.
    holders: SmallVec<[TxnName; 1]>,
}

/// All keys of a validator.
#[derive(Debug, Default)]
pub struct Keys {
    known: HashMap<Key, Known>,
    /// Of all keys, what has committed: oldest first.
    versions: BTreeSet<(Stamp, Key)>,
    /// Of all keys, the last reads: oldest first.
    reads: BTreeSet<(Stamp, Key)>,
    /// Of all keys, what transactions that may commit write.
    prepared: BTreeSet<(Stamp, Key)>,
    /// Writes up to here may be forgotten.
    forgotten: Stamp,
    /// What was read has to be the last version, whatever the stamp.
    literal: bool,
}

impl Keys {
    /// Of writes up to `forgotten` nothing is known. If `literal`, reads are judged as in algorithm 3 of the paper.
    pub fn new(forgotten: Stamp, literal: bool) -> Keys {
        Keys { forgotten, literal, ..Keys::default() }
    }

    /// The oldest stamp of a transaction that may commit.
    pub fn first_prepared(&self) -> Option<Stamp> {
        self.prepared.first().map(|(stamp, _)| *stamp)
    }

    /// Keys with writes up to `closed` that may commit and are not known to be in the shards: their hashes, in order,
    /// and for each the stamp before the first such write.
    pub fn held(&self, closed: Stamp) -> Vec<(u64, Stamp)> {
        let mut held: Vec<(u64, Stamp)> = Vec::new();
        for (stamp, key) in self.prepared.iter().take_while(|(stamp, _)| *stamp <= closed) {
            held.push((key.borrow().hash64(), stamp.before()));
        }
        held.sort_unstable();
        held.dedup_by_key(|(hash, _)| *hash);
        held
    }

    /// Keys of which anything is known, and their versions.
    pub fn sizes(&self) -> (usize, usize) {
        (self.known.len(), self.versions.len())
    }

    /// Whether the transaction may commit, as far as these keys go. Nothing changes.
    pub fn judge(&self, asked: &Validate) -> Vote {
        let mut stale = Vec::new();
        let mut wait = None;
        for seen in &asked.reads {
            match self.judge_read(seen, asked) {
                Vote::Stale(one) => stale.extend(one),
                Vote::Wait(key) => wait = Some(key),
                _ => {}
            }
        }
        if !stale.is_empty() {
            return Vote::Stale(stale);
        }
        if let Some(key) = wait {
            return Vote::Wait(key);
        }
        let votes = asked.writes.iter().map(|key| self.judge_write(key, asked));
        votes.into_iter().find(|vote| *vote != Vote::Yes).unwrap_or(Vote::Yes)
    }

    /// What was read has to be the newest up to the transaction's stamp; for a strict one, the newest of all.
    fn judge_read(&self, seen: &Seen, asked: &Validate) -> Vote {
        let last = if asked.strict || self.literal { Stamp::MAX } else { asked.stamp };
        let known = self.known.get(&seen.key);
        let newer = |of: &[Stamp]| of.iter().copied().filter(|at| *at > seen.version && *at <= last).max();
        let newest = known.and_then(|known| newer(&known.committed));
        let too_old = seen.fresh < self.forgotten && !on(Fault::FreshnessUnchecked);
        if too_old || newest.is_some() {
            return Vote::Stale(vec![(seen.key.clone(), newest)]);
        }
        match known.and_then(|known| newer(&known.prepared)) {
            Some(_) if self.literal => Vote::Stale(vec![(seen.key.clone(), None)]),
            Some(_) if !on(Fault::PreparedUnseen) => Vote::Wait(seen.key.clone()),
            _ => Vote::Yes,
        }
    }

    /// A write comes after all that was read or written of its key, as far as that may have been forgotten too.
    fn judge_write(&self, key: &Key, asked: &Validate) -> Vote {
        let stamp = asked.stamp;
        if stamp <= self.forgotten {
            return Vote::Later(self.forgotten);
        }
        let Some(known) = self.known.get(key) else { return Vote::Yes };
        if self.literal && !known.prepared.is_empty() {
            return Vote::Wait(key.clone());
        }
        let written = known.committed.iter().chain(&known.prepared).copied().max().unwrap_or_default();
        let last = if on(Fault::ReadsUnguarded) { written } else { written.max(known.read) };
        if last >= stamp {
            return Vote::Later(last);
        }
        // In real time, transactions that hold one key follow each other.
        let held = known.holders.iter().any(|holder| *holder != asked.name);
        let beside = asked.strict && !known.prepared.is_empty();
        if (held || beside) && !on(Fault::StrictUnheld) {
            return Vote::Wait(key.clone());
        }
        Vote::Yes
    }

    /// The transaction may commit: no write of what it has read comes before it, and its own writes are waited for.
    pub fn prepare(&mut self, asked: &Validate) {
        for seen in &asked.reads {
            let known = self.known.entry(seen.key.clone()).or_default();
            let read = if on(Fault::LatestReadAssigned) { asked.stamp } else { known.read.max(asked.stamp) };
            if read != known.read {
                self.reads.remove(&(known.read, seen.key.clone()));
                self.reads.insert((read, seen.key.clone()));
                known.read = read;
            }
            if asked.strict && asked.parties.is_some() && !known.holders.contains(&asked.name) {
                known.holders.push(asked.name);
            }
        }
        asked.writes.iter().for_each(|key| self.expect(key, asked.stamp));
    }

    /// A transaction that may commit writes `key`.
    pub fn expect(&mut self, key: &Key, stamp: Stamp) {
        if self.prepared.insert((stamp, key.clone())) {
            self.known.entry(key.clone()).or_default().prepared.push(stamp);
        }
    }

    /// The transaction has ended.
    pub fn settle(&mut self, name: TxnName, stamp: Stamp, reads: &[Key], writes: &[Key], commit: bool) {
        for key in reads {
            if let Some(known) = self.known.get_mut(key) {
                known.holders.retain(|holder| *holder != name);
            }
            self.forget_if_empty(key);
        }
        for key in writes {
            let was_prepared = self.prepared.remove(&(stamp, key.clone()));
            let known = self.known.entry(key.clone()).or_default();
            known.prepared.retain(|at| *at != stamp);
            if was_prepared && commit && stamp > self.forgotten && self.versions.insert((stamp, key.clone())) {
                known.committed.push(stamp);
                known.committed.sort_unstable();
            }
            self.forget_if_empty(key);
        }
    }

    /// Forgets writes up to `stamp`, and more of them, oldest first, while there are more than `versions_max`.
    pub fn forget(&mut self, stamp: Stamp, versions_max: usize) {
        self.forgotten = self.forgotten.max(stamp);
        while let Some((oldest, key)) = self.versions.first().cloned() {
            if oldest > self.forgotten && self.versions.len() <= versions_max {
                break;
            }
            self.versions.pop_first();
            self.forgotten = self.forgotten.max(oldest);
            if let Some(known) = self.known.get_mut(&key) {
                known.committed.retain(|at| *at != oldest);
            }
            self.forget_if_empty(&key);
        }
    }

    /// Forgets reads up to `closed`: no write comes there.
    pub fn close(&mut self, closed: Stamp) {
        while let Some((read, key)) = self.reads.first().cloned().filter(|(read, _)| *read <= closed) {
            self.reads.pop_first();
            if let Some(known) = self.known.get_mut(&key).filter(|known| known.read == read) {
                known.read = Stamp::ZERO;
            }
            self.forget_if_empty(&key);
        }
    }

    fn forget_if_empty(&mut self, key: &Key) {
        let empty = |known: &Known| {
            let Known { committed, prepared, read, holders } = known;
            committed.is_empty() && prepared.is_empty() && holders.is_empty() && *read == Stamp::ZERO
        };
        if self.known.get(key).is_some_and(empty) {
            self.known.remove(key);
        }
    }
}
