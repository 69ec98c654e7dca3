//! What the journal is told of documents while their transactions wait. A start shows and judges by it what the process
//! did that was killed.
//!
//! * **Before a transaction is sent** otherwise than the journal says: that it is ([`Buffer::unchecked`], `proven`).
//! * **Before the journal says that a transaction is applied** ([`Buffer::heads`]): what the next of each document is
//!   made to, and what became of what others were shown.
//! * **Before a transaction comes in** ([`Buffer::learned`], [`Buffer::learned_by`]): what the store was asked for, and
//!   it was shown.
//!
//! What the store has made of a document is what was computed, and what the store adds. While no other program is known
//! to have written it, what was shown of it is judged by what the store has made.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::by_key::ByKey;
use super::drain::Stored;
use super::seen::{Right, Seen, is_edition};
use super::{Batch, Buffer, Entry, Row, changed as made, proven, stands_alone};
use crate::change::{Change, apply_all};
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::fingerprint::Fingerprint;
use crate::outage::record::{Buffered, Record};
use crate::read::Read;
use crate::store::{Commit, Write};
use crate::value::Value;
use crate::version::Version;

type ByDocument<'a, T> = HashMap<&'a Key, T, foldhash::quality::RandomState>;

impl Buffer {
    /// What the journal has to say, safe on disk, before `batch` is sent: that its first goes unchecked.
    pub fn unchecked(&self, batch: &Batch) -> Option<Record> {
        let (number, commit) = batch.numbers.first().zip(batch.commits.first())?;
        let entry = self.entries.get(number).filter(|_| !self.owned && !mutation::on(Fault::UncheckedUnnoted))?;
        proven::is_to_be_noted(&entry.buffered, &commit.checks).then_some(Record::Unchecked { number: *number })
    }

    /// The journal says so of transaction `number`.
    pub fn is_unchecked(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.buffered.unchecked = true;
        }
    }

    /// The journal can't say so now. Whether it is the first time.
    pub(in crate::outage) fn is_held_up(&mut self, number: u64) -> bool {
        self.entries.get_mut(&number).is_some_and(|entry| entry.proven.is_held_up())
    }

    /// Whether the journal has to be told first that `entry` goes as it would go now.
    pub(super) fn is_to_be_noted(&self, entry: &Entry) -> bool {
        if self.owned || entry.buffered.unchecked || entry.buffered.known.is_empty() {
            return false;
        }
        let mut checks = self.checks_of_shown(entry);
        checks.extend(entry.buffered.checks.iter().cloned());
        proven::is_to_be_noted(&entry.buffered, &checks)
    }

    /// What `commit` was shown may come of what the store was asked for since the journal was told. Answers what the
    /// journal is to be told before it is told of `commit`.
    pub fn learned(&mut self, commit: &Commit) -> Vec<Record> {
        let mut records = Vec::new();
        for (key, _) in commit.checks.iter().filter(|_| !self.owned && !mutation::on(Fault::SettledUnnoted)) {
            let Some(row) = self.rows.get(key) else { continue };
            let first = row.queue.front().copied().filter(|first| !self.is_moved_below(key, *first, |_| true));
            let first = first.and_then(|first| self.entries.get_mut(&first));
            let base = row.image.base.filter(|base| !is_edition(*base));
            let Some((entry, version)) = first.zip(base) else { continue };
            let at = entry.written_at.find(&entry.buffered.writes, key);
            let Some(at) = at.filter(|at| !stands_alone(&entry.buffered.writes[*at].changes)) else { continue };
            let seen = entry.is_seen();
            let value = match &row.latest {
                Some(latest) if row.queue.len() == 1 => Some(latest.clone()),
                _ if seen => None,
                _ => row.stored.clone().and_then(|stored| made(stored, &entry.buffered.writes[at].changes)),
            };
            let Some(value) = value else { continue };
            let unchecked = seen && !entry.proven.is_checked(at);
            let known = [(key, Read { value, version })].into_iter();
            records.extend(become_known(&mut entry.buffered, known, unchecked));
        }
        records
    }

    /// What the store was asked for, and `batch` is made to with a check. Answers what the journal is to be told before
    /// it is told of a transaction that is shown what comes of that.
    pub fn learned_by(&mut self, batch: &Batch) -> Vec<Record> {
        let mut records = Vec::new();
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).filter(|_| !self.owned) {
            let keys = commit.writes.iter().map(|write| &write.key);
            let moved: Vec<&Key> = keys.filter(|key| self.is_moved_below(key, *number, |_| true)).collect();
            let entry = self.entries.get_mut(number).filter(|entry| !entry.buffered.sent && !entry.buffered.unchecked);
            let Some(entry) = entry.filter(|_| !mutation::on(Fault::SettledUnnoted)) else { continue };
            let checks = ByKey::new(&commit.checks);
            let rests = |write: &&Write| !write.unseen && !stands_alone(&write.changes) && !moved.contains(&&write.key);
            let made = commit.writes.iter().filter(rests);
            let made = made.filter_map(|write| {
                let base = self.rows.get(&write.key)?.image.base.filter(|base| !is_edition(*base))?;
                let checked = checks.get(&write.key).is_some_and(|(_, version)| *version == base);
                checked.then(|| (&write.key, Read { value: write.after.clone(), version: base }))
            });
            records.extend(become_known(&mut entry.buffered, made, false));
        }
        records
    }

    /// The store has applied the first of `batch`, as many as `changed` has lists: of each the documents that became
    /// other than computed. Answers what is to be journaled before it says that these are applied, or a restart would
    /// not know it: of the transactions that will be the first of their documents behind these, the documents as they
    /// are behind them; of those that were shown what these have made, what became of that.
    pub fn heads(&mut self, batch: &Batch, changed: &[Vec<(Key, Read)>]) -> Vec<Record> {
        let applied: BTreeSet<u64> = batch.numbers.iter().take(changed.len()).copied().collect();
        for number in &applied {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.noted = true;
            }
        }
        let told: ByDocument<'_, &Read> = changed.iter().flatten().map(|(key, read)| (key, read)).collect();
        let (mut right, mut records) = (Right::default(), Vec::new());
        if !self.owned && !mutation::on(Fault::SettledUnnoted) {
            records = self.settle(batch, changed, &told, &mut right);
        }
        let mut heads = Vec::new();
        for (key, (value, base)) in self.results(batch, changed) {
            let Some(row) = there(self.rows.get(key)) else { continue };
            let Some(number) = row.queue.iter().find(|number| !applied.contains(number)).copied() else { continue };
            // Something that makes or deletes its row comes between.
            if self.is_moved_below(key, number, |other| !applied.contains(&other)) {
                continue;
            }
            let Some(entry) = there(self.entries.get(&number)) else { continue };
            let Some(written) = there(entry.written(key)).filter(|written| !stands_alone(&written.changes)) else {
                continue;
            };
            let mut value = value.cloned();
            if entry.buffered.sent && told.contains_key(key) {
                // What the store holds now may have this one in it already. It is made to what was computed all the
                // same, if no other program has written that.
                let right = right.get(key).copied().flatten();
                let Some(computed) = right.and_then(|_| batch.computed(key, changed.len())) else { continue };
                value = computed;
            }
            if apply_all(&mut value, &written.changes).is_ok() {
                heads.push((number, key, Read { value, version: base }));
            }
        }
        heads.sort_unstable_by(|(left, a, _), (right, b, _)| (left, a).cmp(&(right, b)));
        for of_one in heads.chunk_by(|(left, ..), (right, ..)| left == right) {
            let entry = of_one.first().and_then(|(number, ..)| self.entries.get_mut(number));
            let Some(entry) = there(entry) else { continue };
            // What was sent behind those before it was not checked.
            let unchecked = !self.owned && entry.is_seen();
            // Not charged: it is what the row holds, or held.
            let known = of_one.iter().map(|(_, key, read)| (*key, read.clone()));
            records.extend(become_known(&mut entry.buffered, known, unchecked));
        }
        records
    }

    /// Of documents for which more waits than the first of `batch`, what these have made of them.
    fn results<'a>(
        &self,
        batch: &'a Batch,
        changed: &'a [Vec<(Key, Read)>],
    ) -> ByDocument<'a, (Option<&'a Value>, Version)> {
        let mut results = ByDocument::default();
        // Of most documents one transaction waits.
        let more_wait = |key: &Key| self.rows.get(key).is_some_and(|row| row.queue.len() > 1);
        for ((number, commit), changed) in batch.numbers.iter().zip(&batch.commits).zip(changed) {
            for write in commit.writes.iter().filter(|write| more_wait(&write.key)) {
                match write.unseen {
                    true => drop(results.remove(&write.key)),
                    false => drop(results.insert(&write.key, (write.after.as_ref(), commit.version))),
                }
            }
            let changed = changed.iter().filter(|(key, _)| more_wait(key));
            results.extend(changed.map(|(key, read)| (key, (read.value.as_ref(), read.version))));
            // Their row was made, deleted or moved on.
            let beside = self.entries.get(number).into_iter().flat_map(|entry| &entry.ties.beside);
            for (_, key) in beside.filter(|_| !mutation::on(Fault::MadeToBeforeMove)) {
                results.remove(key);
            }
        }
        results
    }

    /// Settles what those were shown that come behind the first of `batch`, and what others will be shown until these
    /// are gone. Answers what the journal is to be told of that.
    fn settle(
        &mut self,
        batch: &Batch,
        changed: &[Vec<(Key, Read)>],
        told: &ByDocument<'_, &Read>,
        right: &mut Right,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        for ((number, commit), changed) in batch.numbers.iter().zip(&batch.commits).zip(changed) {
            let stored = Stored::new(commit, changed);
            let settled = self.settle_readers(*number, commit, &stored, batch.repeated.get(number), right);
            records.extend(settled.into_iter().map(|(number, key, fingerprint, version)| Record::Settled {
                number,
                key,
                fingerprint,
                stored: Some(version),
            }));
        }
        for (key, version) in right.iter() {
            let Some((row, stored)) = self.rows.get(key).zip(*version) else { continue };
            let last = row.queue.back().and_then(|last| self.entries.get(last));
            if last.is_some_and(|last| last.noted) {
                self.settled.insert(key.clone(), (row.version, stored));
            } else if let Some(read) = told.get(key)
                && batch.computed(key, changed.len()).as_ref() != Some(&read.value)
            {
                records.extend(self.refit_readers(key, &read.value));
            }
        }
        records
    }

    /// What is applied of `key` has come to `value` in the store, and no other program has done that. So what was shown
    /// of it with what waits yet is what comes of that. Answers what the journal is to be told.
    fn refit_readers(&mut self, key: &Key, value: &Option<Value>) -> Vec<Record> {
        let last = self.story(key).filter(|(entry, _)| entry.noted).map(|(entry, _)| entry.buffered.number).last();
        let readers = self.readers_to_whole(key, last.unwrap_or_default());
        let mut waits = self.story(key).filter(|(entry, _)| !entry.noted).peekable();
        // That may be in it.
        if readers.is_empty() || waits.peek().is_none_or(|(next, _)| next.is_seen()) {
            return Vec::new();
        }
        let (mut value, mut images) = (Some(value.clone()), Vec::with_capacity(readers.len()));
        for reader in &readers {
            while let Some((_, written)) = waits.next_if(|(entry, _)| entry.buffered.number < *reader) {
                let changes = written.map_or(&[Change::Delete][..], |written| &written.changes);
                value = value.and_then(|value| made(value, changes));
            }
            images.push(value.as_ref().map(|value| Fingerprint::of(value.as_ref())));
        }
        drop(waits);
        let mut records = Vec::new();
        for (number, image) in readers.into_iter().zip(images) {
            self.settle_seen(number, key, |seen, shown| {
                if let (Seen::Image, Some(fingerprint)) = (*seen, image.filter(|image| image != shown)) {
                    *shown = fingerprint;
                    records.push(Record::Settled { number, key: key.clone(), fingerprint, stored: None });
                }
            });
        }
        records
    }

    /// The version in the store of what is shown of `key` under `version`, to transaction `number`, if the store has it
    /// and the journal is being told so.
    pub(super) fn settled(&self, row: &Row, key: &Key, version: Version, number: u64) -> Option<Version> {
        let last = row.queue.back().and_then(|last| self.entries.get(last)).filter(|last| last.noted);
        let (shown, stored) = last.and(self.settled.get(key))?;
        (*shown == version && !self.is_moved_before(key, number)).then_some(*stored)
    }
}

/// Documents are known to be so just behind `buffered`, which was sent `unchecked` before. Answers what the journal is
/// to be told of that. It may have no room for that, so that it is said of each, and not once for all.
fn become_known<'a>(
    buffered: &mut Buffered,
    documents: impl Iterator<Item = (&'a Key, Read)>,
    unchecked: bool,
) -> Vec<Record> {
    let known = ByKey::new(&buffered.known);
    // Made to a version, it stays made to that: sent otherwise, it goes unchecked.
    let replaces = |known: &Read, read: &Read| match known.version == read.version {
        true => known.value != read.value,
        false => is_edition(known.version) && !is_edition(read.version),
    };
    let wanted = documents.filter_map(|(key, read)| match known.get(key) {
        None => Some((key, read, true)),
        Some((_, known)) => replaces(known, &read).then_some((key, read, false)),
    });
    let wanted: Vec<(&Key, Read, bool)> = wanted.collect();
    drop(known);
    for (key, read, is_new) in &wanted {
        let other = if *is_new { None } else { buffered.known.iter_mut().find(|(known, _)| known == *key) };
        match other {
            Some((_, known)) => *known = read.clone(),
            None => buffered.known.push(((*key).clone(), read.clone())),
        }
    }
    let number = buffered.number;
    let unchecked = unchecked && !mutation::on(Fault::KnownAsChecked);
    wanted.into_iter().map(|(key, read, _)| Record::Known { number, key: key.clone(), read, unchecked }).collect()
}
