//! What transactions have read of documents that others wait for: an image that no store holds yet.
//!
//! A version can't be checked there: the store gives one when it has carried over what is before. So the fingerprint of
//! the image is kept. When the last transaction before the reader is applied, the store tells under which version it
//! has the document now, and the reader's turn comes with that version to be checked like any other. If the store has
//! something else, other programs have changed the document, and the reader has been overtaken.
//!
//! The database itself may make more of a document than was asked (a default, a trigger that notes the time). That is
//! nobody's change: where all that the image was computed from was the store's at the moment when it was applied, what
//! came of it is right, whatever it is. To know that, who writes a document that somebody behind has read has the
//! version before it checked ([`Image::base`]), and goes in another batch than what it builds on.
//!
//! **Invariants.** A reader goes to the store behind all that it was shown, in another batch, or not at all: behind one
//! that is quarantined it waits with it. It is applied only under a version of which is known that it stands for what
//! it was shown. A document is never shown as two things under one version.

use std::fmt;

use super::{Batch, Buffer, Entry, Row, Stored, stands_alone, taken_along};
use crate::change::Change;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::fingerprint::Fingerprint;
use crate::outage::record::Written;
use crate::read::Read;
use crate::store::Commit;
use crate::value::Value;
use crate::version::Version;

/// Versions of documents that became other than they were shown have this bit, which no commit's has. They are even:
/// to a store of rows an odd one says that there is no row.
const EDITION: u64 = 1 << 63;

/// Whether it is such a version: no store has it.
pub(super) fn is_edition(version: Version) -> bool {
    version.sequence & EDITION != 0
}

/// What has become of a document that a transaction was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It waits for those before it. If they are applied to what it was computed from, it is right.
    Image,
    /// Something has come between: it is right if the store comes to hold the same.
    Exact,
    /// The store has it, under this version.
    Stored(Version),
    /// The store has something else.
    Overtaken,
}

/// A document as it was shown.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    /// What is kept of it anyway: it is hashed for who has read it, not for each change of a large one.
    Document(Option<Value>),
    /// It is not known any more.
    Gone(Fingerprint),
}

/// What is shown of a document, and what it was computed from.
#[derive(Clone, Default)]
pub(super) struct Image {
    /// Under which version it is shown, or was last, with all that waits for it, be it in the journal or not.
    pub(super) shown: Option<(Version, Shown)>,
    /// The version in the store of what the first of the queue is made to, where all of the image is built on that.
    pub(super) base: Option<Version>,
    /// Others may have changed the document since: with which suspicion that was said last.
    pub(super) suspected: Option<u64>,
    /// The suspicions of which was known when the store was asked for it last.
    pub(super) learned: u64,
}

/// Without what only counts: two that differ in that behave alike.
impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {}", self.shown, self.base, self.suspected.is_some())
    }
}

impl Shown {
    fn fingerprint(&self) -> Fingerprint {
        match self {
            Shown::Document(value) => Fingerprint::of(value.as_ref()),
            Shown::Gone(fingerprint) => *fingerprint,
        }
    }
}

impl Row {
    /// What is shown is the latest; nothing where that is not known.
    pub(super) fn show_latest(&mut self) {
        self.image.shown = self.latest.clone().map(|value| (self.version, Shown::Document(value)));
    }

    /// The latest is not known any more. Of what was shown enough is kept to know it again.
    pub(super) fn forget_latest(&mut self) {
        self.latest = None;
        if let Some((_, shown)) = &mut self.image.shown {
            *shown = Shown::Gone(shown.fingerprint());
        }
    }
}

impl Entry {
    /// Whether it told what it took from the document of `key`, so that its change can't be merged with another's.
    pub(super) fn takes(&self, key: &Key) -> bool {
        self.buffered.writes.iter().any(|write| write.key == *key && takes(write))
    }
}

/// Whether a change tells what it took.
pub(super) fn takes(written: &Written) -> bool {
    written.changes.iter().any(|change| matches!(change, Change::Pop(_)))
}

impl Buffer {
    /// The fingerprint of what is shown of a document under `version`, if that is what is shown.
    pub(super) fn shown(&self, row: &Row, version: Version) -> Option<Fingerprint> {
        row.image.shown.as_ref().filter(|(shown, _)| *shown == version).map(|(_, shown)| shown.fingerprint())
    }

    /// What is shown of `key` is its latest again: one that was on its way to the journal is not.
    pub(super) fn show_latest(&mut self, key: &Key) {
        if let Some(row) = self.rows.get_mut(key).filter(|_| !self.owned) {
            row.show_latest();
        }
    }

    /// `key` is known to be `value` with all that waits for it, the last under `version`; `base` is the version of what
    /// the store has. It is shown under the version that it had, if it is the same: answers whether it is.
    pub(super) fn know(&mut self, key: &Key, value: Option<Value>, version: Version, base: Option<Version>) -> bool {
        let on_its_way = self.rows.get(key).is_some_and(|row| row.queue.iter().any(|number| self.is_writing(number)));
        let Some(row) = self.rows.get_mut(key) else { return true };
        let before = match (&row.latest, &row.image.shown) {
            (Some(latest), _) => Some((row.version, *latest == value)),
            // That would be what is on its way makes of it.
            (None, shown) => {
                let shown = shown.as_ref().filter(|_| !on_its_way);
                shown.map(|(version, shown)| (*version, shown.fingerprint() == Fingerprint::of(value.as_ref())))
            }
        };
        let same = before.is_some_and(|(_, same)| same);
        let version = match before {
            Some((shown, _)) if same => shown,
            before if !self.owned && (before.is_some() || on_its_way) => {
                self.editions += 2;
                Version { sequence: EDITION | self.editions, ..version }
            }
            _ => version,
        };
        self.bytes -= row.bytes;
        (row.latest, row.version) = (Some(value), version);
        // What is on its way to the journal was computed with what is not so any more.
        row.given_up = on_its_way && !same;
        match on_its_way {
            true if same => {}
            true => row.image.shown = None,
            false => row.show_latest(),
        }
        row.image.base = base;
        row.recharge(key);
        self.bytes += row.bytes;
        same
    }

    /// Others may have changed these documents: they are looked at again when they are read.
    pub fn suspect<'a>(&mut self, keys: impl Iterator<Item = &'a Key>) {
        self.suspicions += 1;
        for key in keys.filter(|_| !self.owned) {
            if let Some(row) = self.rows.get_mut(key) {
                row.image.suspected = Some(self.suspicions);
            }
        }
    }

    /// The same of all.
    pub fn suspect_all(&mut self) {
        self.suspicions += 1;
        let rows = self.rows.values_mut().filter(|_| !self.owned);
        rows.for_each(|row| row.image.suspected = Some(self.suspicions));
    }

    /// Whether others may have changed `key` since what is shown of it was found out.
    pub fn is_suspect(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| row.image.suspected.is_some())
    }

    /// What those behind `number` were shown of `key` may not come of what is before them.
    pub(super) fn doubt_readers(&mut self, key: &Key, number: u64) {
        let readers: Vec<u64> = self.tied.readers(key, number).copied().collect();
        for reader in readers {
            self.settle_seen(reader, key, |seen, _| {
                if *seen == Seen::Image {
                    *seen = Seen::Exact
                }
            });
        }
    }

    fn settle_seen(&mut self, reader: u64, key: &Key, settle: impl Fn(&mut Seen, Fingerprint)) {
        let Some(entry) = self.entries.get_mut(&reader) else { return };
        for ((shown, fingerprint), seen) in entry.buffered.shown.iter().zip(&mut entry.seen) {
            if shown == key {
                settle(seen, *fingerprint);
            }
        }
    }

    /// The store has applied `commit`, which is transaction `number`, and `stored` is what it has since: settles what
    /// those were shown who come next.
    pub(super) fn settle_readers(&mut self, number: u64, commit: &Commit, stored: Stored<'_>) {
        let Some(entry) = self.entries.get(&number) else { return };
        // What arrived earlier was checked earlier: what was told of it now may be another's.
        let (sent, along) = (entry.buffered.sent, taken_along(entry).cloned().collect::<Vec<_>>());
        for (at, write) in commit.writes.iter().enumerate() {
            if self.tied.readers(&write.key, number).next().is_none() {
                continue;
            }
            let checked = commit.checks.iter().any(|(key, _)| *key == write.key);
            let clean = !sent && (checked || stands_alone(&write.changes));
            let told = stored.version_at(at).zip(stored.at(at));
            let told = told.map(|(version, value)| (version, Fingerprint::of(value.as_ref())));
            let queue = self.rows.get(&write.key).map(|row| &row.queue);
            let next = queue.into_iter().flatten().find(|other| **other > number).copied().unwrap_or(u64::MAX);
            let readers: Vec<u64> = self.tied.readers(&write.key, number).copied().collect();
            for reader in readers {
                self.settle_seen(reader, &write.key, |seen, fingerprint| match told {
                    _ if !matches!(seen, Seen::Image | Seen::Exact) => {}
                    Some((version, now)) if reader <= next => {
                        let right = now == fingerprint || (clean && *seen == Seen::Image);
                        *seen = if right { Seen::Stored(version) } else { Seen::Overtaken };
                    }
                    _ if clean && told.is_some() => {}
                    _ => *seen = Seen::Exact,
                });
            }
        }
        for key in along {
            self.doubt_readers(&key, number);
        }
    }

    /// Versions to be checked with transaction `entry` beside its own: of what it was shown, and of what it is made to,
    /// where somebody behind has read what comes of it.
    pub(super) fn checks_of_shown(&self, entry: &Entry) -> Vec<(Key, Version)> {
        let shown = entry.buffered.shown.iter().zip(&entry.seen);
        let mut checks: Vec<(Key, Version)> = shown
            .filter_map(|((key, _), seen)| match seen {
                Seen::Stored(version) => Some((key.clone(), *version)),
                _ => None,
            })
            .collect();
        for written in entry.buffered.writes.iter().filter(|written| self.is_read_behind(entry, written)) {
            let own = &entry.buffered.checks;
            let row = self.rows.get(&written.key).filter(|row| row.queue.front() == Some(&entry.buffered.number));
            let checked = own.iter().chain(&checks).any(|(key, _)| *key == written.key);
            if let Some(base) = row.and_then(|row| row.image.base).filter(|_| !checked && !takes(written)) {
                checks.push((written.key.clone(), base));
            }
        }
        checks
    }

    /// Whether somebody behind `entry` has read what it writes there.
    pub(super) fn is_read_behind(&self, entry: &Entry, written: &Written) -> bool {
        !mutation::on(Fault::PendingReadsUnchecked)
            && self.tied.readers(&written.key, entry.buffered.number).next().is_some()
    }

    /// Whether `entry` was shown what waits before it yet.
    pub(super) fn awaits_seen(&self, entry: &Entry) -> bool {
        let before = |key: &Key| {
            let first = self.rows.get(key).and_then(|row| row.queue.front());
            first.is_some_and(|first| *first < entry.buffered.number)
        };
        let mut open = entry.buffered.shown.iter().zip(&entry.seen);
        open.any(|((key, _), seen)| matches!(seen, Seen::Image | Seen::Exact) && before(key))
    }

    /// What `entry` was shown that is not settled although nothing waits before it, or that is overtaken.
    pub(super) fn unsettled(&self, entry: &Entry) -> Option<(Seen, Vec<Key>)> {
        let of = |wanted: fn(&Seen) -> bool| -> Vec<Key> {
            let shown = entry.buffered.shown.iter().zip(&entry.seen).filter(|(_, seen)| wanted(seen));
            shown.map(|((key, _), _)| key.clone()).collect()
        };
        let overtaken = of(|seen| *seen == Seen::Overtaken);
        let open = of(|seen| matches!(seen, Seen::Image | Seen::Exact));
        match (overtaken.is_empty(), open.is_empty()) {
            (false, _) => Some((Seen::Overtaken, overtaken)),
            (true, false) => Some((Seen::Exact, open)),
            (true, true) => None,
        }
    }

    /// The store says that it holds `reads` for what the only transaction of `batch` was shown; none of what can't be
    /// read.
    pub fn compare(&mut self, batch: &Batch, keys: &[Key], reads: Option<&[Read]>) {
        for number in &batch.numbers {
            for (at, key) in keys.iter().enumerate() {
                let read = reads.and_then(|reads| reads.get(at));
                self.settle_seen(*number, key, |seen, fingerprint| match read {
                    _ if !matches!(seen, Seen::Image | Seen::Exact) => {}
                    Some(read) if Fingerprint::of(read.value.as_ref()) == fingerprint => {
                        *seen = Seen::Stored(read.version);
                    }
                    _ => *seen = Seen::Overtaken,
                });
            }
        }
    }

    /// What transaction `number` was shown is compared anew, but for what the store has under a known version.
    pub(super) fn see_anew(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            let open = entry.seen.iter_mut().filter(|seen| !matches!(seen, Seen::Stored(_)));
            open.for_each(|seen| *seen = Seen::Exact);
        }
    }

    /// The store does not have what transaction `number` was shown of `keys` under the versions that it had.
    pub(super) fn overtake(&mut self, number: u64, keys: &[Key]) {
        for key in keys {
            self.settle_seen(number, key, |seen, _| *seen = Seen::Overtaken);
        }
    }

    /// What transaction `number` was shown does not matter.
    pub(super) fn forget_seen(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.seen.clear();
        let shown = std::mem::take(&mut entry.buffered.shown);
        let bytes = super::charge::shown_bytes(&shown);
        entry.bytes -= bytes;
        self.bytes -= bytes;
        self.tied.remove_readers(number, &shown);
    }
}
