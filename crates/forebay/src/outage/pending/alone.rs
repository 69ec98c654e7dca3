//! One transaction by itself, while nothing else is applied. An operator has decided about it, and wants to know
//! before what it would meet in the store.
//!
//! **Invariant.** It goes to the store only when nothing earlier waits for a document that it writes, was shown, names
//! or takes along. So of each document what is applied is the beginning of its queue, whatever the order of decisions.

use std::collections::BTreeSet;

use super::{Buffer, Stage, Work};
use crate::change::{Change, apply_all};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::lanes::Lane;
use crate::store::ReadWithIds;
use crate::value::Value;
use crate::version::Version;

/// How a document stands to what a buffered transaction was made to, or those that wait before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The store has it as it was.
    Nothing,
    /// Somebody has changed it.
    Changed,
    /// A later owner of the store has written it.
    ByAnotherOwner,
    /// No later owner has written it; what it was before is not known.
    NotByAnotherOwner,
    /// The store has this transaction's write already.
    Applied,
    /// What it was before is not known.
    Unknown,
}

/// What a buffered transaction meets in the store of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Meets {
    /// Which.
    pub key: Key,
    /// What the store holds.
    pub now: Option<Value>,
    /// What it will hold, if what waits before is applied first; none if the changes do not fit.
    pub then: Option<Option<Value>>,
    /// Whether somebody has changed it.
    pub drift: Drift,
}

impl Buffer {
    /// The earliest transaction behind which `number` has to go to the store: it writes, or takes along, what this one
    /// writes, was shown, names or takes along itself, or names what this one deletes.
    pub fn ahead_of(&self, number: u64) -> Option<u64> {
        let entry = self.entries.get(&number).filter(|_| !mutation::on(Fault::AppliedOutOfTurn))?;
        let (buffered, ties) = (&entry.buffered, &entry.ties);
        let written = buffered.writes.iter().map(|write| &write.key);
        let shown = buffered.shown.iter().map(|(key, _)| key);
        let keys = written.chain(shown).chain(&ties.follows).chain(&ties.takes_along);
        let queued = |key: &Key| self.rows.get(key).and_then(|row| row.queue.front().copied());
        let taken = |key: &Key| self.tied.taking(key).next().copied();
        let before = keys.flat_map(|key| [queued(key), taken(key)]).flatten();
        let deleted = buffered.writes.iter().filter(|write| write.changes.contains(&Change::Delete));
        let naming = deleted.filter_map(|write| self.tied.naming(&write.key).next().copied());
        before.chain(naming).filter(|other| *other < number).min()
    }

    /// Whether transaction `number` waits for the store alone, or is on its way to it.
    pub(in crate::outage) fn is_waiting(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| matches!(entry.stage, Stage::Waiting | Stage::Carried))
    }

    /// Whether an operator has transaction `number` applied.
    pub(in crate::outage) fn is_ordered(&self, number: u64) -> bool {
        self.ordered.contains(&number)
    }

    /// The documents that transaction `number` deletes; and those that earlier ones write, which are not ordered, as
    /// far as rows of both may name each other: nobody but the store knows whether theirs name its.
    pub(in crate::outage) fn may_be_named(&self, number: u64, documents_max: usize) -> (Vec<Key>, Vec<(u64, Key)>) {
        let Some(entry) = self.entries.get(&number) else { return (Vec::new(), Vec::new()) };
        let joined: Vec<Lane> =
            entry.ties.lanes.iter().filter(|lane| matches!(lane, Lane::Together(_))).copied().collect();
        let deleted = entry.buffered.writes.iter().filter(|write| write.changes.contains(&Change::Delete));
        let deleted: Vec<Key> = deleted.map(|write| write.key.clone()).collect();
        if deleted.is_empty() || joined.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let before = self.entries.range(..number).filter(|(other, entry)| {
            !self.ordered.contains(other) && entry.ties.lanes.iter().any(|lane| joined.contains(lane))
        });
        let written = before
            .flat_map(|(other, entry)| entry.buffered.writes.iter().map(move |write| (*other, write.key.clone())));
        (deleted, written.take(documents_max).collect())
    }

    /// Whether nothing that has to do with the documents of transaction `number` is on its way to the store: these lie
    /// in its lanes.
    pub(in crate::outage) fn is_still(&self, number: u64) -> bool {
        let lanes = self.entries.get(&number).map(|entry| &entry.ties.lanes);
        !lanes.into_iter().flatten().any(|lane| self.lanes.get(lane).is_some_and(|state| state.busy))
    }

    /// An operator has transaction `number` applied, which waits, whatever it had read.
    pub fn order(&mut self, number: u64) {
        let waits = self.entries.get(&number).is_some_and(|entry| !entry.stage.is_quarantined());
        debug_assert!(waits, "only what waits is applied by an operator's word");
        if waits {
            self.ordered.insert(number);
        }
    }

    /// What was ordered was decided about a store that is not so any more. Answers what it was.
    pub(in crate::outage) fn forget_orders(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.ordered)
    }

    /// What is ordered goes like all others, whatever it had read.
    pub(in crate::outage) fn uncheck_ordered(&mut self) {
        for number in self.ordered.clone() {
            self.uncheck(number);
        }
    }

    /// Hands out the first that was ordered, and can go to the store now, alone.
    pub fn next_alone(&mut self) -> Option<Work> {
        let can_go = |number: &&u64| {
            let entry = self.entries.get(*number).filter(|entry| entry.stage == Stage::Waiting);
            let goes = entry.is_some_and(|entry| !(self.slow_carried && entry.slow.is_slow()));
            goes && self.is_still(**number) && self.ahead_of(**number).is_none()
        };
        let number = *self.ordered.iter().find(can_go)?;
        self.uncheck(number);
        let lanes = self.entries.get(&number).map(|entry| entry.ties.lanes.to_vec()).unwrap_or_default();
        Some(match self.build(&[number]) {
            Ok(commits) => {
                self.slow_carried |= commits.iter().any(|commit| commit.patience > 1);
                Work::Carry(self.set_out(vec![number], commits, lanes))
            }
            Err(key) => Work::Learn(vec![key]),
        })
    }

    /// The version in the store of what the first that waits for `key` was made to, if that is known: for who asks the
    /// store whether it has that yet.
    pub fn made_to(&self, key: &Key) -> Option<Version> {
        self.rows.get(key).and_then(|row| row.image.made_to)
    }

    /// Others may have written these before the version was told under which the store has them.
    pub(super) fn forget_made_to<'a>(&mut self, keys: impl Iterator<Item = &'a Key>) {
        for key in keys {
            if let Some(row) = self.rows.get_mut(key) {
                row.image.made_to = None;
            }
        }
    }

    /// What transaction `number` meets of the document of `key`, which is `read` in the store with those `applied`.
    /// Then the store was asked whether it has the document under the version that it was [`Buffer::made_to`]:
    /// `current` is that one and the answer, since only the store can compare versions.
    pub fn meets(
        &self,
        number: u64,
        key: &Key,
        (read, applied): &ReadWithIds,
        current: Option<(Version, bool)>,
    ) -> Option<Meets> {
        let entry = self.entries.get(&number)?;
        let mut then = Some(read.value.clone());
        for (other, written) in self.story(key).take_while(|(other, _)| other.buffered.number <= number) {
            then = match written {
                _ if applied.contains(&other.buffered.id) => then,
                None => Some(None),
                Some(written) => then.and_then(|mut value| {
                    let fits = apply_all(&mut value, &written.changes).is_ok();
                    fits.then_some(value)
                }),
            };
        }
        // Something was applied by then: that was about another.
        let current = current.filter(|(version, _)| self.made_to(key) == Some(*version)).map(|(_, current)| current);
        // Its version may have been given to it since; its id is as old as itself.
        let later = read.version.incarnation > entry.buffered.id.0.incarnation;
        // The version of an absence says when that was found out, not since when it is so.
        let dated = self.owned && read.value.is_some();
        // Else it is another since what waits here is in it.
        let by_others = applied.is_empty() && (dated || !self.owned);
        let drift = match current {
            _ if applied.contains(&entry.buffered.id) => Drift::Applied,
            Some(true) => Drift::Nothing,
            _ if dated && later => Drift::ByAnotherOwner,
            Some(false) if by_others => Drift::Changed,
            _ if dated => Drift::NotByAnotherOwner,
            _ => Drift::Unknown,
        };
        Some(Meets { key: key.clone(), now: read.value.clone(), then, drift })
    }
}
