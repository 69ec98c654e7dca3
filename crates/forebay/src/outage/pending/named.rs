//! What rows name by foreign keys that a transaction which is set aside deletes. As long as they are there, the store
//! refuses to delete what they name. What they name does not follow from what is buffered: the store is asked. Until it
//! has answered, deletions behind them in their lanes wait, and nothing else does.

use std::collections::BTreeSet;

use super::charge::keys_bytes;
use super::{BATCH_COMMITS_MAX, Buffer, Entry};
use crate::change::Change;
use crate::error::there;
use crate::key::Key;
use crate::outage::lanes::Lane;

/// Transactions, each with the documents that it deletes.
pub type Deletions = Vec<(u64, Vec<Key>)>;

impl Entry {
    /// The first of its lanes in which rows may name others.
    fn joined(&self) -> Option<Lane> {
        self.ties.lanes.iter().find(|lane| matches!(lane, Lane::Together(_))).copied()
    }

    /// Whether it deletes a row that may name others: those are in no lane of their own.
    fn may_leave(&self) -> bool {
        self.joined().is_some() && self.buffered.writes.iter().any(|write| write.changes.contains(&Change::Delete))
    }
}

impl Buffer {
    /// Documents to be asked for, of transactions that are set aside, or behind one: of each those that it deletes. All
    /// are of one lane, which is none of `asked`: where rows of a table can't be read now, others can.
    pub fn unnamed(&self, asked: &BTreeSet<Lane>) -> Option<(Lane, Deletions)> {
        let entries = self.unnamed.iter().filter_map(|number| self.entries.get(number));
        let entries = entries.filter(|entry| self.is_as_it_finds_it(entry));
        let mut entries = entries.filter_map(|entry| Some((entry.joined()?, entry)));
        let (lane, first) = entries.find(|(lane, _)| !asked.contains(lane))?;
        let (mut wanted, mut count) = (Vec::new(), 0);
        let alike = entries.filter(|(other, _)| *other == lane).map(|(_, entry)| entry);
        for entry in std::iter::once(first).chain(alike) {
            let deleted = entry.buffered.writes.iter().filter(|write| write.changes.contains(&Change::Delete));
            let deleted: Vec<Key> = deleted.map(|write| write.key.clone()).collect();
            count += deleted.len();
            wanted.push((entry.buffered.number, deleted));
            if count >= BATCH_COMMITS_MAX {
                break;
            }
        }
        Some((lane, wanted))
    }

    /// Whether the store has what `entry` deletes as it will find it: else what it names may be another thing by then.
    fn is_as_it_finds_it(&self, entry: &Entry) -> bool {
        let before = |key| {
            let queue = self.rows.get(key).into_iter().flat_map(|row| &row.queue);
            queue.take_while(|other| **other < entry.buffered.number).filter_map(|other| self.entries.get(other))
        };
        let keys = entry.buffered.writes.iter().map(|write| &write.key);
        keys.flat_map(before).all(|other| other.stage.is_stuck())
    }

    /// Whether `entry` deletes what a row may name that one before it deletes in vain, of which that is not known yet.
    pub(super) fn awaits_names(&self, entry: &Entry) -> bool {
        let mut before = self.unnamed.range(..entry.buffered.number);
        entry.may_leave() && before.any(|number| self.shares_lane(*number, &entry.ties.lanes))
    }

    /// Likewise of a transaction in `lanes` that is not buffered.
    pub(super) fn is_unnamed_in(&self, lanes: &[Lane]) -> bool {
        self.unnamed.iter().any(|number| self.shares_lane(*number, lanes))
    }

    /// Whether transaction `number` is in one of `lanes`, where rows may name each other.
    fn shares_lane(&self, number: u64, lanes: &[Lane]) -> bool {
        let shared = |lane: &Lane| matches!(lane, Lane::Together(_)) && lanes.contains(lane);
        self.entries.get(&number).is_some_and(|entry| entry.ties.lanes.iter().any(shared))
    }

    /// The rows that transaction `number` deletes name these in the store, as long as they are there.
    pub fn name(&mut self, number: u64, mut names: Vec<Key>) {
        if !self.unnamed.remove(&number) {
            return;
        }
        let Some(entry) = there(self.entries.get_mut(&number)) else { return };
        names.sort_unstable();
        names.dedup();
        names.retain(|key| !entry.ties.follows.contains(key));
        let bytes = keys_bytes(&names);
        entry.bytes += bytes;
        self.bytes += bytes;
        self.tied.add_named(number, &names);
        entry.named = Some(names);
        self.sort_out(self.who_waits_for(number));
    }

    /// Transaction `number` stands elsewhere than before: has the store asked what it leaves where it is set aside, and
    /// forgets it where not, since it may be another when it is set aside again.
    pub(super) fn settle_names(&mut self, number: u64) {
        let Some(entry) = there(self.entries.get_mut(&number)) else { return };
        if entry.stage.is_stuck() {
            if entry.named.is_none() && entry.may_leave() {
                self.unnamed.insert(number);
            }
            return;
        }
        self.unnamed.remove(&number);
        if let Some(names) = entry.named.take() {
            let bytes = keys_bytes(&names);
            entry.bytes -= bytes;
            self.bytes -= bytes;
            self.tied.remove_named(number, &names);
        }
    }

    /// Nothing is known of what any transaction leaves.
    pub(super) fn forget_names(&mut self) {
        self.unnamed.clear();
        for (number, entry) in &mut self.entries {
            if let Some(names) = entry.named.take() {
                let bytes = keys_bytes(&names);
                entry.bytes -= bytes;
                self.bytes -= bytes;
                self.tied.remove_named(*number, &names);
            }
            if entry.stage.is_stuck() && entry.may_leave() {
                self.unnamed.insert(*number);
            }
        }
    }

    /// Whether something that is set aside, or behind that, makes a row name `key`, or leaves one that does.
    pub(super) fn is_named_by_stuck(&self, key: &Key) -> bool {
        let stuck = |number: &u64| self.entries.get(number).is_some_and(|entry| entry.stage.is_stuck());
        self.quarantined > 0 && self.tied.naming(key).any(stuck)
    }
}
