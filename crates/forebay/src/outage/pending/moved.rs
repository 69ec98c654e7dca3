//! Documents that share a row share its version. When one of them is applied, the others have another version in the
//! store, and are what they were. That is our own hand, and no other program's change.
//!
//! **Invariant.** While a write to one document waits, no transaction reads another of its row under a version of the
//! store. The drain would move that version on before the transaction commits. The store would refuse the check, and if
//! that answer is lost, the transaction would be kept with it. So the row's others are read as they are shown here, or
//! not before that write is applied. What is cached of one gets the version of the store only when no such write waits.

use super::drain::Stored;
use super::seen::Seen;
use super::{Batch, Buffer};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::version::Version;

/// What the applying of one transaction does to a document that shares a place with one that it wrote.
pub(super) struct Moved {
    pub(super) key: Key,
    number: u64,
    /// The version of the place that was checked as it was applied.
    checked: Option<Version>,
    /// The version that the place has since.
    told: Option<Version>,
}

impl Moved {
    /// What was the version of the place before is this one since; none if others may have come between.
    fn on(&self, version: Version) -> Option<Version> {
        self.told.filter(|told| *told == version || self.checked == Some(version))
    }
}

impl Buffer {
    /// What the first of `batch`, as many as `changed` has lists, do to documents beside those that they write.
    pub(super) fn moved_by(&self, batch: &Batch, changed: &[Vec<(Key, Read)>]) -> Vec<Moved> {
        let mut all = Vec::new();
        for ((number, commit), changed) in batch.numbers.iter().zip(&batch.commits).zip(changed) {
            let Some(entry) = self.entries.get(number).filter(|entry| !entry.ties.beside.is_empty()) else { continue };
            let stored = Stored::new(commit, changed);
            for (at, key) in &entry.ties.beside {
                let place = |other: &Key| other == key || commit.writes.get(*at).is_some_and(|w| w.key == *other);
                let checked = commit.checks.iter().find(|(other, _)| place(other)).map(|(_, version)| *version);
                // What was applied before was checked then, whenever that was.
                let checked = checked.filter(|_| !batch.repeated.contains_key(number));
                all.push(Moved { key: key.clone(), number: *number, checked, told: stored.version_at(*at) });
            }
        }
        all
    }

    /// A document goes on to the version that it has now, for all to whom it matters; where that can't be said, it is
    /// compared, or the store is not told which version to expect.
    pub(super) fn move_beside(&mut self, moved: &Moved) {
        if mutation::on(Fault::MovedByOurselves) {
            return;
        }
        let key = &moved.key;
        if let Some(row) = self.rows.get_mut(key) {
            row.image.base = row.image.base.and_then(|base| moved.on(base));
            row.image.made_to = row.image.made_to.and_then(|base| moved.on(base));
            row.image.before = row.image.before.and_then(|base| moved.on(base));
        }
        self.restamped.move_on(key, |version| moved.on(version));
        let readers: Vec<u64> = self.tied.readers(key, moved.number).copied().collect();
        for reader in readers {
            self.settle_seen(reader, key, |seen, _| {
                if let Seen::Stored(version) | Seen::Noted(version) = *seen {
                    *seen = moved.on(version).map_or(Seen::Exact, Seen::Stored);
                }
            });
        }
    }

    /// Transaction `number` is in the store, and nobody knows under which versions.
    pub(super) fn lose_beside(&mut self, number: u64) {
        let beside = self.entries.get(&number).map(|entry| entry.ties.beside.clone()).unwrap_or_default();
        for (_, key) in beside {
            self.move_beside(&Moved { key, number, checked: None, told: None });
        }
    }

    /// Whether one before `number` that goes to the store by itself will move `key` on.
    pub(in crate::outage) fn is_moved_before(&self, key: &Key, number: u64) -> bool {
        let goes = |other: &&u64| self.entries.get(*other).is_some_and(|entry| !entry.stage.is_stuck());
        self.tied.naming(key).take_while(|other| **other < number).filter(goes).any(|other| self.moves(*other, key))
    }

    /// Whether one before `number`, of those that `waits` says, will move `key` on, be it when an operator says so.
    /// Then `number` is not made to what the store holds of `key` now.
    pub(super) fn is_moved_below(&self, key: &Key, number: u64, waits: impl Fn(u64) -> bool) -> bool {
        let mut before =
            self.tied.naming(key).copied().take_while(|other| *other < number).filter(|other| waits(*other));
        before.any(|other| self.moves(other, key)) && !mutation::on(Fault::MadeToBeforeMove)
    }

    /// Whether one that waits, be it for an operator, will move `key` on.
    pub(super) fn is_to_be_moved(&self, key: &Key) -> bool {
        !mutation::on(Fault::CachedBeforeMove) && self.tied.naming(key).any(|other| self.moves(*other, key))
    }

    fn moves(&self, number: u64, key: &Key) -> bool {
        let beside = self.entries.get(&number).map(|entry| &entry.ties.beside);
        beside.into_iter().flatten().any(|(_, beside)| beside == key)
    }
}
