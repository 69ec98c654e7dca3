//! What the store refuses is set aside until an operator decides, and what is built on it waits behind.

use super::{Buffer, Entry, Stage};
use crate::key::Key;
use crate::outage::record::Standing;

impl Buffer {
    /// Sets transaction `number` aside, and what is built on it; all before it in its lanes is applied or set aside.
    pub fn quarantine(&mut self, number: u64, why: String) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !matches!(entry.stage, Stage::Quarantined(_)) {
            self.quarantined += 1;
        }
        entry.stage = Stage::Quarantined(why);
        let lanes = entry.ties.lanes.clone();
        for lane in lanes {
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.waiting.remove(&number);
            }
        }
        self.forget_idle_lanes(number);
        self.sort_out();
    }

    /// Looks again at who has to wait behind whom.
    pub(super) fn sort_out(&mut self) {
        let open = |entry: &Entry| matches!(entry.stage, Stage::Waiting | Stage::Behind(_));
        let numbers: Vec<u64> = self.entries.iter().filter(|(_, e)| open(e)).map(|(number, _)| *number).collect();
        for number in numbers {
            self.settle_stage(number);
        }
    }

    /// Has transaction `number` tried again; false if it is not quarantined.
    pub fn retry(&mut self, number: u64) -> bool {
        match self.entries.get_mut(&number) {
            Some(entry) if matches!(entry.stage, Stage::Quarantined(_)) => entry.stage = Stage::Waiting,
            _ => return false,
        }
        self.quarantined -= 1;
        self.sort_out();
        true
    }

    /// Gives transaction `number` up. Answers its documents, which are not what they were; nothing if it is not
    /// quarantined.
    pub fn give_up(&mut self, number: u64) -> Option<Vec<Key>> {
        let entry = self.entries.get(&number)?;
        if !matches!(entry.stage, Stage::Quarantined(_)) {
            return None;
        }
        let keys: Vec<Key> = entry.buffered.writes.iter().map(|write| write.key.clone()).collect();
        self.remove(number, None);
        for key in &keys {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                (row.latest, row.stored, row.given_up) = (None, None, true);
                row.recharge(key);
                self.bytes += row.bytes;
                let queue = row.queue.clone();
                for number in queue {
                    if let Some(entry) = self.entries.get_mut(&number) {
                        entry.buffered.known.retain(|(known, _)| known != key);
                    }
                }
            }
        }
        self.sort_out();
        Some(keys)
    }

    /// Whether transaction `number` is here, and why it is quarantined if it is.
    pub fn standing(&self, number: u64) -> Option<Standing> {
        let entry = self.entries.get(&number)?;
        Some(match &entry.stage {
            Stage::Quarantined(why) => Standing::Quarantined(why.clone()),
            Stage::Behind(other) => Standing::Behind(*other),
            _ => Standing::Waiting,
        })
    }

    /// Numbers and reasons of what is quarantined.
    pub fn quarantine_list(&self) -> Vec<(u64, String)> {
        let why = |(number, entry): (&u64, &Entry)| match &entry.stage {
            Stage::Quarantined(why) => Some((*number, why.clone())),
            _ => None,
        };
        if self.quarantined == 0 { Vec::new() } else { self.entries.iter().filter_map(why).collect() }
    }
}
