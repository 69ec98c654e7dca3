//! How transactions come in: each gets its number, and may take the place of the one before it on its document.

use super::by_key::ByKey;
use super::charge::{entry_bytes, row_bytes};
use super::image::Shown;
use super::seen::{is_edition, rests};
use super::{Buffer, Entry, Full, Row, Stage, another, stands_alone};
use crate::change::{Change, fits_behind};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::lanes::{Fill, Lane, Ties};
use crate::outage::record::{Buffered, Record};
use crate::read::Read;
use crate::store::{Commit, Form, Write};
use crate::value::Value;
use crate::version::Version;

/// Changes of one document, ids that clients gave, and bytes as charged, with which a transaction is full: another that
/// depends on what the document held is not merged into it, but the next begins. For each merge looks through, copies
/// and journals all of it.
const MERGED_CHANGES_MAX: usize = 256;
const MERGED_BYTES_MAX: usize = 64 << 10;

/// Why a transaction was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untaken {
    /// There is no room.
    Full(Full),
    /// It has read what is not shown of these documents any more.
    Overtaken(Vec<Key>),
}

impl Buffer {
    /// Takes a transaction in; what it answers is to be journaled, then [`Buffer::written`] or [`Buffer::withdraw`]
    /// is to be called with its number. With the form of its document it may take the place of the one before it there.
    pub fn take(
        &mut self,
        commit: &Commit,
        mut ties: Ties,
        sent: bool,
        form: Option<&Form>,
        now_ms: u64,
    ) -> Result<(u64, Record), Untaken> {
        let number = self.next_number;
        let mut buffered = Buffered::from_commit(number, commit, now_ms);
        buffered.sent = sent;
        if sent && mutation::on(Fault::AmbiguousUnderNewId) {
            buffered.id = another(buffered.id);
        }
        self.take_checks(&mut buffered).map_err(Untaken::Overtaken)?;
        let unseen = commit.writes.iter().any(|write| write.unseen);
        let joined = form.filter(|_| !sent).and_then(|form| self.joined(&buffered, &ties, form, unseen));
        let replaces = joined.as_ref().map(|(old, _)| *old);
        if let Some((old, changes)) = joined.and_then(|(old, changes)| Some((self.entries.get(&old)?, changes))) {
            let key = &buffered.writes[0].key;
            let shared = !ties.beside.is_empty();
            ties.fills = form.and_then(|form| Fill::of(form, key, &changes, false, shared)).into_iter().collect();
            // The row goes in what was joined, and takes others along, though it is made again.
            let goes = ties.takes_along.is_empty() && changes.contains(&Change::Delete);
            if goes && !mutation::on(Fault::TakenAlongUnmerged) {
                ties.takes_along.clone_from(&old.ties.takes_along);
            }
            buffered.writes[0].changes = changes;
            buffered.given.extend(old.buffered.given.iter().cloned());
            buffered.buffered_at_ms = old.buffered.buffered_at_ms;
        }
        let bases = ByKey::new(&buffered.checks);
        let base = |write: &Write| bases.get(&write.key).map(|(_, version)| *version);
        for (at, write) in commit.writes.iter().enumerate() {
            // Those of which the journal is being told that they are applied are gone when it is read again. Those that
            // are only on their way to the store may yet be refused, and given up.
            let gone = |number: &u64| self.entries.get(number).is_some_and(|entry| entry.noted);
            let mut before = self.rows.get(&write.key).into_iter().flat_map(|row| row.queue.iter().rev());
            let first = before.find(|number| replaces != Some(**number)).is_none_or(gone);
            if first && !write.unseen && !stands_alone(&buffered.writes[at].changes) {
                let value = write.after.clone().map(Value::compact);
                let replaced = || replaces.and_then(|old| self.base_of(old, &write.key));
                let version = base(write).or_else(replaced).unwrap_or(self.left_by(commit.version));
                buffered.known.push((write.key.clone(), Read { value, version }));
            }
        }
        let bytes = entry_bytes(&buffered, &ties);
        let rows: usize = commit.writes.iter().map(|write| self.row_growth(&write.key, write.after.as_ref())).sum();
        let room = self.bytes_max.saturating_sub(self.bytes);
        if bytes + rows > room {
            return Err(Untaken::Full(Full { needed: bytes + rows, room }));
        }
        self.next_number += 1;
        for write in &commit.writes {
            self.enqueue(number, write, commit, base(write));
        }
        drop(bases);
        let mut first = number;
        if let Some(old) = replaces.and_then(|old| self.entries.get_mut(&old)) {
            (first, old.stage) = (old.first, Stage::Replaced);
        }
        let record = match replaces {
            Some(old) => Record::Merged { into: buffered.clone(), from: vec![old] },
            None => Record::Buffered(buffered.clone()),
        };
        self.insert(Entry { first, ..Entry::new(buffered, ties, Stage::Writing { replaces }, bytes) });
        Ok((number, record))
    }

    /// The version in the store of what transaction `number`, the first that waits for `key`, is made to, where what is
    /// shown is built on that.
    fn base_of(&self, number: u64, key: &Key) -> Option<Version> {
        let row = self.rows.get(key).filter(|row| row.queue.front() == Some(&number))?;
        row.image.base.filter(|base| !is_edition(*base) && !mutation::on(Fault::MergedOnNothing))
    }

    /// A document with a queue was read from it, so its version is not the store's: keeps what was shown of it in place
    /// of that. Answers what is shown otherwise by now, if anything is; and what was shown of a document whose
    /// version another one of its place, which waits, will move on: nothing is kept by which to know it again.
    fn take_checks(&self, buffered: &mut Buffered) -> Result<(), Vec<Key>> {
        let mut overtaken = Vec::new();
        let writes = ByKey::new(&buffered.writes);
        for (key, version) in std::mem::take(&mut buffered.checks) {
            let written = writes.get(&key);
            let Some(row) = self.rows.get(&key) else {
                let merges = written.is_some_and(|written| !rests(written));
                let moves = !merges && self.is_moved_before(&key, buffered.number);
                match self.stored_version(&key, version).filter(|_| !moves || mutation::on(Fault::CheckedBeforeMove)) {
                    Some(version) => buffered.checks.push((key, version)),
                    None if buffered.sent => buffered.checks.push((key, version)),
                    None => overtaken.push(key),
                }
                continue;
            };
            match self.shown(row, version) {
                _ if self.owned || mutation::on(Fault::PendingReadsUnchecked) => {}
                // It may be in the store: only that can say.
                None if buffered.sent => buffered.checks.push((key, version)),
                None => overtaken.push(key),
                Some(_) if written.is_some_and(|written| !rests(written)) => {}
                // The store has it, and those by whom that is known are as good as gone.
                Some(_) if let Some(stored) = self.settled(row, &key, version, buffered.number) => {
                    buffered.checks.push((key, stored));
                }
                Some(fingerprint) => buffered.shown.push((key, fingerprint)),
            }
        }
        if overtaken.is_empty() { Ok(()) } else { Err(overtaken) }
    }

    /// Transaction `number` waits for its turn on a document, which is made to what the store has under `base`.
    /// Where others may have changed it since that was read, it is looked at again before it is shown.
    fn enqueue(&mut self, number: u64, write: &Write, commit: &Commit, base: Option<Version>) {
        let version = self.left_by(commit.version);
        let doubted = self.doubts.since(&write.key, commit.doubts) && !mutation::on(Fault::OldCopyBelieved);
        let row = self.rows.entry(write.key.compact()).or_insert_with_key(Row::new);
        if row.queue.is_empty() {
            self.bytes += row.bytes;
            (row.image.base, row.image.made_to) = (base, base.filter(|base| !is_edition(*base)));
            row.image.suspected = (doubted && !self.owned).then_some(self.suspicions);
            row.image.learned = commit.doubts;
        }
        row.queue.push_back(number);
        let known = !self.owned && !write.unseen;
        row.image.shown = known.then(|| (version, Shown::Document(write.after.clone())));
    }

    /// The transaction that `buffered` may take the place of: its neighbour on their one document, which the store has
    /// never seen. Only where documents are independent, since it moves behind all that came between.
    fn mergeable(&self, buffered: &Buffered, ties: &Ties) -> Option<u64> {
        let single =
            |buffered: &Buffered| buffered.writes.len() == 1 && buffered.checks.is_empty() && buffered.shown.is_empty();
        if !single(buffered) || !matches!(ties.lanes.as_slice(), [Lane::Hashed(_)]) {
            return None;
        }
        // What came between may have been a change to another document of the same place.
        if ties.follows.iter().any(|key| self.rows.contains_key(key)) {
            return None;
        }
        let last = *self.rows.get(&buffered.writes[0].key)?.queue.back()?;
        // What somebody was shown has to be in the store at some time.
        if self.tied.readers(&buffered.writes[0].key, last).next().is_some() {
            return None;
        }
        let entry = self.entries.get(&last)?;
        // What an operator has applied is that one, and no later one that it has become part of.
        let free = entry.stage == Stage::Waiting && !self.ordered.contains(&last);
        let alike = single(&entry.buffered) && !entry.buffered.sent && free;
        let grows = !stands_alone(&buffered.writes[0].changes);
        let changes = if grows { entry.buffered.writes[0].changes.len() } else { 0 };
        let full =
            changes.max(entry.buffered.given.len()) >= MERGED_CHANGES_MAX || (grows && entry.bytes >= MERGED_BYTES_MAX);
        (alike && !full).then_some(last)
    }

    /// The transaction whose place `buffered` takes, and the changes that stand for both: a document of this form takes
    /// them. `None` if there is no such transaction. A write that is `unseen` takes no place where the store may refuse
    /// it and take the other.
    fn joined(&self, buffered: &Buffered, ties: &Ties, form: &Form, unseen: bool) -> Option<(u64, Vec<Change>)> {
        let old = self.mergeable(buffered, ties)?;
        let written = &buffered.writes[0];
        let changes = self.entries.get(&old)?.buffered.writes.iter().flat_map(|write| write.changes.iter().cloned());
        // Each was made to the document as it was shown, far from its limit.
        let (changes, there): (Vec<Change>, _) = (changes.collect(), self.there_before(&written.key, old, form));
        let alone = stands_alone(&written.changes) || mutation::on(Fault::MergedUnfit);
        if unseen && !alone && !fits_behind(&changes, &written.changes) {
            return None;
        }
        let joined = form.join(changes, written.changes.clone(), there, MERGED_CHANGES_MAX)?;
        Some((old, joined))
    }

    /// Whether what waits for the row of `key` before transaction `number` surely leaves one.
    fn there_before(&self, key: &Key, number: u64, form: &Form) -> bool {
        let Form::Row(row) = form else { return false };
        let before = self.rows.get(key).and_then(|row| row.queue.iter().rev().find(|other| **other < number));
        let before = before.and_then(|before| self.entries.get(before));
        let written = before.and_then(|entry| entry.written(key));
        written.is_some_and(|written| row.leaves(&written.changes))
    }

    /// Whether `commit` finds room where it is alone. What is known of its documents, which takes room too, is left
    /// out.
    pub fn may_fit(&self, commit: &Commit, ties: &Ties) -> bool {
        let rows: usize = commit.writes.iter().map(|write| row_bytes(&write.key, write.after.as_ref())).sum();
        entry_bytes(&Buffered::from_commit(0, commit, 0), ties) + rows <= self.bytes_max
    }

    /// What a row's charge grows by if its document becomes `after`.
    fn row_growth(&self, key: &Key, after: Option<&Value>) -> usize {
        let now = self.rows.get(key).map_or(0, |row| row.bytes);
        row_bytes(key, after).saturating_sub(now)
    }
}
