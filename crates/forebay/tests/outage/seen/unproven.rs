//! What a trigger makes of documents, and can't be told from what others did.

use std::collections::BTreeSet;

use forebay::change::Change;
use forebay::outage::Pending;
use forebay::outage::pending::Batch;
use forebay::store::{Commit, Write};
use forebay::{Key, Read};

use super::{Txn, World, key};

impl World {
    pub(super) fn has_landed(&self, number: &u64) -> bool {
        let has = |pending: &Pending| self.database.has(pending.buffered.id);
        self.landed.contains(number) || self.journal.get(number).is_some_and(has)
    }

    /// Of what is made to documents that were not known, and so are not checked, a trigger's doing can't be told from
    /// what others did in between.
    pub(super) fn unproven_of(&self, batch: &Batch, from: usize) -> Vec<u64> {
        let mut proven: BTreeSet<&Key> = BTreeSet::new();
        let mut unproven = Vec::new();
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).skip(from) {
            let alone = |write: &Write| matches!(write.changes.first(), Some(Change::Put(_) | Change::Delete));
            let checked = |key: &Key| commit.checks.iter().any(|(checked, _)| checked == key);
            let known = |write: &&Write| alone(write) || checked(&write.key) || proven.contains(&write.key);
            let known: Vec<&Key> = commit.writes.iter().filter(known).map(|write| &write.key).collect();
            if known.len() < commit.writes.len() {
                unproven.push(*number);
            }
            // What the store has already is told of alone.
            match self.database.has(commit.id) {
                true => proven.clear(),
                false => proven.extend(known),
            }
        }
        unproven
    }

    /// Whether a commit says itself what it is made to.
    pub(super) fn is_checked(&self, commit: &Commit) -> bool {
        let alone = |write: &Write| matches!(write.changes.first(), Some(Change::Put(_) | Change::Delete));
        let checked = |key: &Key| commit.checks.iter().any(|(checked, _)| checked == key);
        commit.writes.iter().all(|write| alone(write) || checked(&write.key))
    }

    /// Whether a restart forgets what tells a trigger's doing from others': of what `txn` was shown something has
    /// landed, or what its first change was made to is not in the journal.
    pub(super) fn is_forgotten(&self, txn: &Txn) -> bool {
        let unknown = |(number, _): (&usize, &Read)| {
            let key = key(*number);
            let waits = txn.built_on.iter().filter_map(|number| self.journal.get(number));
            let mut writes =
                waits.filter_map(|waits| Some((waits, waits.buffered.writes.iter().find(|w| w.key == key)?)));
            writes.next().is_some_and(|(first, write)| {
                let alone = matches!(write.changes.first(), Some(Change::Put(_) | Change::Delete));
                !alone && !first.buffered.known.iter().any(|(known, _)| *known == key)
            })
        };
        txn.built_on.iter().any(|number| self.has_landed(number)) || txn.only_read().any(unknown)
    }
}
