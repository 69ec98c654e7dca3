//! What a trigger makes of documents, and can't be told from what others did.

use std::collections::BTreeSet;

use forebay::Key;
use forebay::change::Change;
use forebay::outage::pending::Batch;
use forebay::store::{Commit, Write};

use super::World;

/// Whether it makes the document whatever that was.
pub(super) fn is_alone(changes: &[Change]) -> bool {
    matches!(changes.first(), Some(Change::Put(_) | Change::Delete))
}

impl World {
    /// Of what is made to documents that were not known, and so are not checked, a trigger's doing can't be told from
    /// what others did in between.
    pub(super) fn unproven_of(&self, batch: &Batch, from: usize) -> Vec<u64> {
        let mut proven: BTreeSet<&Key> = BTreeSet::new();
        let mut unproven = Vec::new();
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).skip(from) {
            let checked = |key: &Key| commit.checks.iter().any(|(checked, _)| checked == key);
            let known = |write: &&Write| is_alone(&write.changes) || checked(&write.key) || proven.contains(&write.key);
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
        let checked = |key: &Key| commit.checks.iter().any(|(checked, _)| checked == key);
        commit.writes.iter().all(|write| is_alone(&write.changes) || checked(&write.key))
    }
}
