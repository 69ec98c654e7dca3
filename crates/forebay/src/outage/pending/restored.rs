//! What the journal brought back at the start, until the store has said which of it is applied.
//!
//! A journal does not say which transactions were sent: any of them may be in the store when its process ends. So a
//! start takes all for sent. What may be sent goes alone, is compared where it was read, and takes no later change in.
//! No session of the earlier process is left once the store is open, so nothing arrives late. The store is asked once,
//! before anything is sent. What it does not have was not sent, and waits as if it had come in now.
//!
//! **Invariant.** A transaction that is taken for not sent is not in the store, and no commit of its id is on its way.

use std::collections::BTreeSet;
use std::ops::Range;

use hashbrown::HashMap;

use super::proven::Proven;
use super::seen::{Seen, is_edition};
use super::stage::Stage;
use super::{BATCH_COMMITS_MAX, Buffer, Entry};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::portion::PORTION_BYTES_MAX;
use crate::version::{TxnId, Version};

/// Of one document those of which is asked whether the store has them.
pub type Asked = (Key, Vec<TxnId>);

/// What was brought back and the store was not asked about.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// By their numbers.
    open: Range<u64>,
    /// Those of them that were sent since, as an operator wanted.
    sent: BTreeSet<u64>,
}

impl Restored {
    /// Transaction `number` was brought back; numbers rise.
    pub(super) fn add(&mut self, number: u64) {
        self.open.end = number + 1;
    }

    /// Transaction `number` was sent, and the store may have it.
    pub(super) fn is_sent(&mut self, number: u64) {
        if self.open.contains(&number) {
            self.sent.insert(number);
        }
    }
}

impl Buffer {
    /// What the store is asked for next of what was brought back: documents, each with ids of those that write it. One
    /// that is not known is the last, since it may be large.
    pub fn next_restored(&self) -> Vec<Asked> {
        let mut places: HashMap<&Key, usize, foldhash::quality::RandomState> = HashMap::default();
        let (mut asked, mut bytes): (Vec<Asked>, usize) = (Vec::new(), 0);
        for entry in self.entries.range(self.restored.open.clone()).map(|(_, entry)| entry).take(BATCH_COMMITS_MAX) {
            let Some(key) = entry.buffered.writes.first().map(|written| &written.key) else { continue };
            let place = *places.entry(key).or_insert(asked.len());
            if place == asked.len() {
                if bytes > PORTION_BYTES_MAX {
                    break;
                }
                let known = self.rows.get(key).filter(|row| row.latest.is_some());
                bytes = known.map_or(usize::MAX, |row| bytes + row.bytes);
                asked.push((key.clone(), Vec::new()));
            }
            asked[place].1.push(entry.buffered.id);
        }
        asked
    }

    /// The store is open. What the journal says of versions of its documents is as it gives them out `now`.
    pub fn renew_versions(&mut self, now: impl Fn(&Key, Version) -> Version) {
        let renew = |key: &Key, version: &mut Version| {
            if !is_edition(*version) {
                *version = now(key, *version);
            }
        };
        for entry in self.entries.values_mut() {
            // Where it was not known, what is known goes by the version that its own transaction leaves.
            let (left, known) = (entry.buffered.version, &mut entry.buffered.known);
            let known = known.iter_mut().filter(|(_, read)| read.version != left);
            known.for_each(|(key, read)| renew(key, &mut read.version));
            entry.buffered.checks.iter_mut().for_each(|(key, version)| renew(key, version));
            for ((key, _), seen) in entry.buffered.shown.iter().zip(&mut entry.seen) {
                if let Seen::Stored(version) | Seen::Noted(version) = seen {
                    renew(key, version);
                }
            }
        }
        for (key, row) in &mut self.rows {
            let image = &mut row.image;
            let versions = [&mut image.base, &mut image.before, &mut image.absent, &mut image.made_to];
            versions.into_iter().flatten().for_each(|version| renew(key, version));
        }
    }

    /// The store has `applied` of what it was `asked` for; none if it can't tell. What it does not have was not sent.
    pub fn resolve_restored(&mut self, asked: &[Asked], applied: Option<&[Vec<TxnId>]>) {
        let mut ids: HashMap<TxnId, bool, foldhash::quality::RandomState> = HashMap::default();
        for (at, (_, of_one)) in asked.iter().enumerate() {
            let has = |id| applied.and_then(|all| all.get(at)).is_none_or(|applied| applied.contains(id));
            ids.extend(of_one.iter().map(|id| (*id, has(id) && !mutation::on(Fault::AppliedTakenForUnsent))));
        }
        let mut last = self.restored.open.start;
        // What writes nothing was not asked for, and must not be asked for without end.
        let writing = |entry: &Entry| !entry.buffered.writes.is_empty();
        let open = self.entries.range_mut(self.restored.open.clone());
        for (number, entry) in open.filter(|(_, entry)| writing(entry)) {
            let Some(has) = ids.remove(&entry.buffered.id) else { break };
            last = number + 1;
            if !has && entry.stage != Stage::Carried && !self.restored.sent.contains(number) {
                (entry.buffered.sent, entry.buffered.unchecked) = (false, false);
                entry.proven = Proven::new(&entry.buffered);
            }
        }
        self.restored.open.start = last;
    }
}
