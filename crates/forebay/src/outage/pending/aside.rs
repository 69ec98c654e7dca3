//! What the store refuses is set aside until an operator decides, and what is built on it waits behind.

use super::{Buffer, Entry, Stage};
use crate::change::Change;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::record::{Standing, Written};

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
        self.settle_names(number);
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

    /// Waiting, or behind one that is quarantined.
    pub(super) fn settle_stage(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        let stuck = |other: &&u64| {
            let stage = self.entries.get(other).map(|entry| &entry.stage);
            **other < number && matches!(stage, Some(Stage::Quarantined(_) | Stage::Behind(_)))
        };
        let shown = entry.buffered.shown.iter().map(|(key, _)| key);
        let keys = entry.buffered.writes.iter().map(|write| &write.key).chain(&entry.ties.follows).chain(shown);
        let rows = keys.filter(|_| self.quarantined > 0).filter_map(|key| self.rows.get(key));
        // A row that one of them names, or leaves a row which names it, must not go before.
        let deletes = |write: &&Written| self.quarantined > 0 && write.changes.contains(&Change::Delete);
        let deleted = entry.buffered.writes.iter().filter(deletes);
        let named = deleted.flat_map(|write| self.tied.naming(&write.key));
        let behind = rows.flat_map(|row| &row.queue).chain(named).filter(stuck).min().copied();
        let lanes = entry.ties.lanes.clone();
        if let Some(entry) = self.entries.get_mut(&number) {
            self.behind -= usize::from(matches!(entry.stage, Stage::Behind(_)));
            self.behind += usize::from(behind.is_some());
            entry.stage = behind.map_or(Stage::Waiting, Stage::Behind);
        }
        for lane in lanes {
            let waiting = &mut self.lanes.entry(lane).or_default().waiting;
            match behind.is_some() {
                true => drop(waiting.remove(&number)),
                false if mutation::on(Fault::LaneForgotten) => {}
                false => drop(waiting.insert(number)),
            }
        }
        self.forget_idle_lanes(number);
        self.settle_names(number);
    }

    /// Has transaction `number` tried again; false if it is not quarantined.
    pub fn retry(&mut self, number: u64) -> bool {
        match self.entries.get_mut(&number) {
            Some(entry) if matches!(entry.stage, Stage::Quarantined(_)) => entry.stage = Stage::Waiting,
            _ => return false,
        }
        self.quarantined -= 1;
        self.see_anew(number);
        self.sort_out();
        true
    }

    /// Takes quarantined transaction `number` out; its documents.
    fn take_quarantined(&mut self, number: u64) -> Option<Vec<Key>> {
        let entry = self.entries.get(&number)?;
        if !matches!(entry.stage, Stage::Quarantined(_)) {
            return None;
        }
        let keys: Vec<Key> = entry.buffered.writes.iter().map(|write| write.key.clone()).collect();
        self.remove(number, None);
        Some(keys)
    }

    /// Gives transaction `number` up. Answers its documents, which are not what they were; nothing if it is not
    /// quarantined.
    pub fn give_up(&mut self, number: u64) -> Option<Vec<Key>> {
        let keys = self.take_quarantined(number)?;
        for key in &keys {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                row.forget_latest();
                (row.stored, row.given_up) = (None, true);
                row.recharge(key);
                self.bytes += row.bytes;
                let queue = row.queue.clone();
                for number in queue {
                    if let Some(entry) = self.entries.get_mut(&number) {
                        entry.buffered.known.retain(|(known, _)| known != key);
                    }
                }
            }
            self.doubt_readers(key, number);
        }
        self.sort_out();
        Some(keys)
    }

    /// Quarantined transaction `number` was found to be in the store. Answers its documents, of which nobody knows what
    /// the store holds of them; nothing if it is not quarantined.
    pub fn landed(&mut self, number: u64) -> Option<Vec<Key>> {
        let keys = self.take_quarantined(number)?;
        for key in &keys {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                (row.stored, row.image.base) = (None, None);
                row.recharge(key);
                self.bytes += row.bytes;
            }
            self.doubt_readers(key, number);
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

    /// Whether something that writes `key` is quarantined, or behind what is.
    pub(in crate::outage) fn is_stuck(&self, key: &Key) -> bool {
        let stuck = |number: &u64| {
            self.entries
                .get(number)
                .is_some_and(|entry| matches!(entry.stage, Stage::Quarantined(_) | Stage::Behind(_)))
        };
        self.quarantined > 0 && self.rows.get(key).is_some_and(|row| row.queue.iter().any(stuck))
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
