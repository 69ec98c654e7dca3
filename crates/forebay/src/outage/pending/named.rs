//! What rows name by foreign keys that a transaction which is set aside deletes. As long as they are there, the store
//! refuses to delete what they name. What they name does not follow from what is buffered: the store is asked.

use super::charge::keys_bytes;
use super::{BATCH_COMMITS_MAX, Buffer, Entry, Stage, Work};
use crate::change::Change;
use crate::key::Key;
use crate::outage::lanes::Lane;

impl Entry {
    /// Whether it deletes a row that may name others: those are in no lane of their own.
    fn may_leave(&self) -> bool {
        let together = self.ties.lanes.iter().any(|lane| matches!(lane, Lane::Together(_)));
        together && self.buffered.writes.iter().any(|write| write.changes.contains(&Change::Delete))
    }

    fn is_stuck(&self) -> bool {
        matches!(self.stage, Stage::Quarantined(_) | Stage::Behind(_))
    }
}

impl Buffer {
    /// Documents to be asked for, of transactions that are set aside, or behind one.
    pub(super) fn unnamed_work(&self) -> Option<Work> {
        let (mut asked, mut keys) = (Vec::new(), 0);
        for number in &self.unnamed {
            let Some(entry) = self.entries.get(number) else { continue };
            let deleted = entry.buffered.writes.iter().filter(|write| write.changes.contains(&Change::Delete));
            let deleted: Vec<Key> = deleted.map(|write| write.key.clone()).collect();
            keys += deleted.len();
            asked.push((*number, deleted));
            if keys >= BATCH_COMMITS_MAX {
                break;
            }
        }
        (!asked.is_empty()).then_some(Work::Name(asked))
    }

    /// The rows that transaction `number` deletes name these in the store, as long as they are there.
    pub fn name(&mut self, number: u64, mut names: Vec<Key>) {
        if !self.unnamed.remove(&number) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&number) else { return };
        names.sort_unstable();
        names.dedup();
        names.retain(|key| !entry.ties.follows.contains(key));
        let bytes = keys_bytes(&names);
        entry.bytes += bytes;
        self.bytes += bytes;
        self.tied.add_named(number, &names);
        entry.named = Some(names);
        self.sort_out();
    }

    /// Transaction `number` stands elsewhere than before: has the store asked what it leaves where it is set aside, and
    /// forgets it where not, since it may be another when it is set aside again.
    pub(super) fn settle_names(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if entry.is_stuck() {
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
            if entry.is_stuck() && entry.may_leave() {
                self.unnamed.insert(*number);
            }
        }
    }

    /// Whether something that is set aside, or behind that, makes a row name `key`, or leaves one that does.
    pub(super) fn is_named_by_stuck(&self, key: &Key) -> bool {
        let stuck = |number: &u64| self.entries.get(number).is_some_and(Entry::is_stuck);
        self.quarantined > 0 && self.tied.naming(key).any(stuck)
    }
}
