//! What the journal is told of those that wait, and what a start finds in it.

use forebay::TxnId;
use forebay::mutation::{self, Fault};
use forebay::outage::pending::Buffer;
use forebay::outage::{Record, Written};

use super::unproven::is_alone;
use super::{CAPS, World, ties_of};

impl World {
    /// The journal is told what was learned. Nothing waits for its answer.
    pub(super) fn learned(&mut self, records: Vec<Record>) {
        let lost = self.full.min(records.len());
        self.full -= lost;
        // The next start has to compare.
        self.disturbed |= self.trigger && lost > 0;
        records.into_iter().skip(lost).for_each(|record| self.note(record));
    }

    /// The journal is told something of what it holds.
    pub(super) fn note(&mut self, record: Record) {
        let (Record::Known { number, .. } | Record::Settled { number, .. } | Record::Unchecked { number }) = record
        else {
            panic!("{record:?}")
        };
        let Some(pending) = self.journal.get_mut(&number) else {
            // It is told of those in the order in which they came.
            return self.notes.push(record);
        };
        match record {
            Record::Known { key, read, unchecked, .. } => {
                pending.buffered.unchecked |= unchecked;
                pending.buffered.known.retain(|(known, _)| *known != key);
                pending.buffered.known.push((key, read));
            }
            Record::Settled { key, fingerprint, stored, .. } => {
                let shown = pending.buffered.shown.iter_mut().find(|(shown, _)| *shown == key);
                shown.expect("it was shown that").1 = fingerprint;
                pending.settled.retain(|(settled, _)| *settled != key);
                pending.settled.extend(stored.map(|version| (key, version)));
            }
            _ => pending.buffered.unchecked = true,
        }
    }

    pub(super) fn restart(&mut self) {
        self.buffer = Buffer::new(1 << 20, CAPS, self.sequence + 1);
        self.open.clear();
        self.writing.clear();
        self.notes.clear();
        self.carried.clear();
        self.comparing.clear();
        self.asked.clear();
        let unnamed = self.unnamed.clone();
        for (number, found) in &self.journal {
            let unknown = self.txns[number].built_on.iter().any(|number| unnamed.contains(number));
            self.disturbed |= self.trigger && (unknown || self.shown_unheard.contains(number));
            let (writes, known) = (&found.buffered.writes, &found.buffered.known);
            let is_named = |written: &Written| known.iter().any(|(key, _)| *key == written.key);
            if !writes.iter().all(|written| is_alone(&written.changes) || is_named(written)) {
                self.unnamed.insert(*number);
            }
            let ties = ties_of(self.txns[&found.buffered.number].keys());
            self.buffer.restore(found.clone(), ties);
        }
        // The store may be asked before anything else comes, or behind that.
        if self.sequence.is_multiple_of(2) {
            self.resolve_restored();
        }
    }
    /// The store says what it has of that, before anything is sent.
    pub(super) fn resolve_restored(&mut self) {
        while !mutation::on(Fault::RestoredTakenForSent) {
            let asked = self.buffer.next_restored();
            if asked.is_empty() {
                break;
            }
            let has = |ids: &Vec<TxnId>| ids.iter().copied().filter(|id| self.database.has(*id)).collect();
            let applied: Vec<Vec<TxnId>> = asked.iter().map(|(_, ids)| has(ids)).collect();
            self.buffer.resolve_restored(&asked, Some(&applied));
        }
    }
}
