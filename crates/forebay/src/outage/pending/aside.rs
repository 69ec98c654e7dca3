//! What the store refuses is set aside until an operator decides, and what is built on it waits behind.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use super::{Buffer, Entry, Stage};
use crate::change::Change;
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::record::{Standing, Written};

/// What is to be looked at again. Numbers are taken from it in order, and whoever waits has a higher one than what it
/// waits for: so of a document all that is behind the first is in it.
#[derive(Default)]
pub(super) struct Unsorted {
    numbers: BTreeSet<u64>,
    /// Documents of which the queue is in it, those that name them, and those that have read them.
    queued: HashSet<Key, foldhash::quality::RandomState>,
    named: HashSet<Key, foldhash::quality::RandomState>,
    read: HashSet<Key, foldhash::quality::RandomState>,
}

impl Buffer {
    /// Sets transaction `number` aside, and what is built on it; all before it in its lanes is applied or set aside.
    pub fn quarantine(&mut self, number: u64, why: String) {
        let Some(entry) = there(self.entries.get(&number)) else { return };
        for lane in &entry.ties.lanes {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.waiting.remove(&number);
            }
        }
        self.ordered.remove(&number);
        self.stand(number, Stage::Quarantined(why));
        self.forget_idle_lanes(number);
        self.settle_names(number);
        self.sort_out(self.who_waits_for(number));
    }

    /// Transaction `number` stands there now.
    fn stand(&mut self, number: u64, stage: Stage) {
        let Some(entry) = there(self.entries.get_mut(&number)) else { return };
        let was = std::mem::replace(&mut entry.stage, stage);
        let now = &entry.stage;
        self.quarantined += usize::from(now.is_quarantined());
        self.quarantined -= usize::from(was.is_quarantined());
        self.behind += usize::from(now.is_behind());
        self.behind -= usize::from(was.is_behind());
        if was.is_stuck() == now.is_stuck() {
            return;
        }
        for write in &entry.buffered.writes {
            if let Some(row) = self.rows.get_mut(&write.key) {
                row.stuck = if now.is_stuck() { row.stuck + 1 } else { row.stuck - 1 };
            }
        }
    }

    /// Those that wait for transaction `number`, or may have to.
    pub(super) fn who_waits_for(&self, number: u64) -> Unsorted {
        let mut unsorted = Unsorted::default();
        self.add_behind(number, &mut unsorted);
        unsorted
    }

    fn add_behind(&self, number: u64, unsorted: &mut Unsorted) {
        let Some(entry) = there(self.entries.get(&number)) else { return };
        let written = entry.buffered.writes.iter().map(|write| &write.key);
        // A row that it names, or leaves a row which names it, must not go before.
        let names = entry.ties.follows.iter().chain(entry.named.iter().flatten());
        self.add_queues(number, written.clone().chain(names), unsorted);
        let Unsorted { numbers, named, read, .. } = unsorted;
        for key in written {
            if named.insert(key.clone()) {
                numbers.extend(self.tied.naming(key).filter(|other| **other > number));
            }
            if read.insert(key.clone()) {
                numbers.extend(self.tied.readers(key, number));
            }
        }
    }

    /// Those behind transaction `number` that write `keys`.
    fn add_queues<'a>(&self, number: u64, keys: impl Iterator<Item = &'a Key>, unsorted: &mut Unsorted) {
        for key in keys {
            if let Some(row) = self.rows.get(key).filter(|_| unsorted.queued.insert(key.clone())) {
                unsorted.numbers.extend(row.queue.iter().rev().take_while(|other| **other > number));
            }
        }
    }

    /// Looks again at which has to wait behind which.
    pub(super) fn sort_out(&mut self, mut unsorted: Unsorted) {
        while let Some(number) = unsorted.numbers.pop_first() {
            let Some(Entry { stage, named, .. }) = there(self.entries.get(&number)) else { continue };
            if !matches!(stage, Stage::Waiting | Stage::Behind(_)) {
                continue;
            }
            // They are forgotten where it waits for nothing any more.
            let (was, named) = (stage.is_stuck(), named.clone());
            self.settle_stage(number);
            if self.entries.get(&number).is_some_and(|entry| entry.stage.is_stuck() != was) {
                self.add_behind(number, &mut unsorted);
                self.add_queues(number, named.iter().flatten(), &mut unsorted);
            }
        }
    }

    /// Likewise of all.
    pub(super) fn sort_out_all(&mut self) {
        let numbers = self.entries.keys().copied().collect();
        self.sort_out(Unsorted { numbers, ..Unsorted::default() });
    }

    /// Waiting, or behind one that is quarantined.
    pub(super) fn settle_stage(&mut self, number: u64) {
        let Some(entry) = there(self.entries.get(&number)) else { return };
        let stuck = |other: &&u64| self.entries.get(*other).is_some_and(|entry| entry.stage.is_stuck());
        let shown = entry.buffered.shown.iter().map(|(key, _)| key);
        let keys = entry.buffered.writes.iter().map(|write| &write.key).chain(&entry.ties.follows).chain(shown);
        let rows = keys.filter(|_| self.quarantined > 0).filter_map(|key| self.rows.get(key));
        let rows = rows.filter(|row| row.stuck > 0);
        let queued = rows.filter_map(|row| row.queue.iter().take_while(|other| **other < number).find(stuck));
        // A row that one of them names, or leaves a row which names it, must not go before.
        let deletes = |write: &&Written| self.quarantined > 0 && write.changes.contains(&Change::Delete);
        let deleted = entry.buffered.writes.iter().filter(deletes);
        let naming = |write: &Written| self.tied.naming(&write.key).take_while(|other| **other < number).find(stuck);
        let behind = queued.chain(deleted.filter_map(naming)).min().copied();
        let lanes = entry.ties.lanes.clone();
        self.stand(number, behind.map_or(Stage::Waiting, Stage::Behind));
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
        if !self.entries.get(&number).is_some_and(|entry| entry.stage.is_quarantined()) {
            return false;
        }
        self.stand(number, Stage::Waiting);
        self.see_anew(number);
        let mut unsorted = self.who_waits_for(number);
        unsorted.numbers.insert(number);
        self.sort_out(unsorted);
        true
    }

    /// Takes quarantined transaction `number` out; its documents, and what waited for it.
    fn take_quarantined(&mut self, number: u64) -> Option<(Vec<Key>, Unsorted)> {
        let entry = self.entries.get(&number).filter(|entry| entry.stage.is_quarantined())?;
        let keys: Vec<Key> = entry.buffered.writes.iter().map(|write| write.key.clone()).collect();
        let unsorted = self.who_waits_for(number);
        self.remove(number, None);
        Some((keys, unsorted))
    }

    /// Gives transaction `number` up. Answers its documents, which are not what they were; nothing if it is not
    /// quarantined.
    pub fn give_up(&mut self, number: u64) -> Option<Vec<Key>> {
        let (keys, unsorted) = self.take_quarantined(number)?;
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
        self.sort_out(unsorted);
        Some(keys)
    }

    /// Quarantined transaction `number` was found to be in the store. Answers its documents, of which nobody knows what
    /// the store holds of them; nothing if it is not quarantined.
    pub fn landed(&mut self, number: u64) -> Option<Vec<Key>> {
        self.lose_beside(number);
        let (keys, unsorted) = self.take_quarantined(number)?;
        for key in &keys {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                row.left_as(None, None);
                row.recharge(key);
                self.bytes += row.bytes;
            }
            self.doubt_readers(key, number);
        }
        self.sort_out(unsorted);
        Some(keys)
    }

    /// Whether transaction `number` waits here, in whatever way.
    pub fn is_pending(&self, number: u64) -> bool {
        self.entries.contains_key(&number)
    }

    /// Whether transaction `number` is here, and why it is quarantined if it is.
    pub fn standing(&self, number: u64) -> Option<Standing> {
        let entry = self.entries.get(&number)?;
        Some(match &entry.stage {
            Stage::Quarantined(why) => Standing::Quarantined(why.clone()),
            Stage::Behind(other) => Standing::Behind(*other),
            _ if self.ordered.contains(&number) => Standing::Ordered,
            _ => Standing::Waiting,
        })
    }

    /// Whether something that writes `key` is quarantined, or behind what is.
    pub(in crate::outage) fn is_stuck(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| row.stuck > 0)
    }

    /// Whether something that writes `key` will go to the store without an operator.
    pub(in crate::outage) fn is_moving(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| row.stuck < row.queue.len())
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
