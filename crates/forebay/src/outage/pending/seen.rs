//! What transactions have read of documents that others wait for: an image that no store holds yet.
//!
//! A version can't be checked there: the store gives one when it has applied what is before. So the fingerprint of
//! the image is kept. When the last transaction before the reader is applied, the store tells under which version it
//! has the document now. The reader's turn comes with that version to be checked like any other. If the store has
//! something else, other programs have changed the document, and the reader has been overtaken.
//!
//! The database itself may make more of a document than was asked (a default, a trigger that notes the time). That is
//! no program's change. Where all that the image was computed from was the store's when it was applied, what came of
//! it is right, whatever it is. To know that, a transaction that writes a document has the version before it checked.
//! What counts is that this was what the image was computed from ([`Image::base`](super::image::Image::base)). If a
//! later transaction has read that, it goes in another batch than what it builds on. Some of it the store has already,
//! since it was sent before. Of that the store tells whether any program has written the document since
//! ([`Since::untouched`](crate::store::Since)). What was checked each time it was sent is noted ([`Entry::proven`]).
//! Of what it may have already it tells by itself, so what changes the same document goes in another batch, checked.
//!
//! No store tells who deleted a row. But a deletion leaves nothing, whatever was there before. So where a document is
//! not there, it is what the deletion left, also if other programs have made and deleted it since. When such a row is
//! read again, its version is another. What was shown of it is compared with what comes of it now.
//!
//! Documents of one row share its version: when one of them is written, the others have another version and are what
//! they were. So what is known of those goes on to the new version, or is looked at again (`moved`). A reader goes in
//! another batch than such a write before it.
//!
//! **Invariants.** A reader goes to the store after all that it was shown, in another batch, or not at all. Behind
//! one that is quarantined it waits with it. It is applied only under a version of which is known that it stands for
//! what it was shown. A document is never shown as two things under one version.

use hashbrown::HashMap;

use super::by_key::{ByKey, Places};
use super::{Batch, Buffer, Entry, Repeated, Row, Stored, changed, make_alone, stands_alone, taken_along};
use crate::change::Change;
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::fingerprint::Fingerprint;
use crate::outage::record::{Buffered, Written};
use crate::read::Read;
use crate::store::Commit;
use crate::value::Value;
use crate::version::{TxnId, Version};

/// Versions under which documents are shown with what waits for them have this bit, where the store has versions of its
/// own: these may be numbers that a commit has had. They are even: to a store of rows an odd one says that there is no
/// row.
const EDITION: u64 = 1 << 63;

/// With this one as well the rest is that of the transaction which left the document so.
const LEFT: u64 = 1 << 62;

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
    /// Likewise, as was noted before a kill. What shares its place may have moved it on since.
    Noted(Version),
    /// The store has something else.
    Overtaken,
}

/// Of documents that a batch has written, as far as it is settled: the version under which the store has one that is
/// what was made of it, whatever it has added; none if it may be something else.
pub(super) type Right = HashMap<Key, Option<Version>, foldhash::quality::RandomState>;

/// Transactions, of each one document that it was shown and the store has: what that made of it, and its version.
pub(super) type Settled = Vec<(u64, Key, Fingerprint, Version)>;

impl Entry {
    /// Whether it rests on what the document of `key` held, so that its change can't be merged with another's.
    pub(super) fn rests_on(&self, key: &Key) -> bool {
        self.written(key).is_some_and(rests)
    }
}

/// Whether a change rests on what the document held: that was told, as by what was taken from an end of a list.
pub(super) fn rests(written: &Written) -> bool {
    let told = written.told && !mutation::on(Fault::ToldMerged);
    told || written.changes.iter().any(|change| matches!(change, Change::Pop(_)))
}

impl Buffer {
    /// Under which version a document is shown as the transaction left it that brought `version`.
    pub fn left_by(&self, version: Version) -> Version {
        match self.owned {
            true => version,
            false => Version { sequence: EDITION | LEFT | version.sequence << 1, ..version },
        }
    }

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
    /// `stored` in the store, or none where some of those are in it. It is shown under the version that it had, if it
    /// is the same.
    pub(super) fn know(&mut self, key: &Key, latest: Read, stored: &Option<Value>, base: Option<Version>) {
        let Read { value, version } = latest;
        let on_its_way = self.rows.get(key).is_some_and(|row| row.queue.iter().any(|number| self.is_writing(number)));
        let Some(row) = there(self.rows.get_mut(key)) else { return };
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
        // What is on its way to the journal was computed with what is not so any more; nor is it with what comes then.
        row.given_up = on_its_way && (row.given_up || !same);
        match on_its_way {
            true if same => {}
            true => row.image.shown = None,
            false => row.show_latest(),
        }
        // What was shown between may be another, though what is behind all is the same. Where some are in the store, it
        // says of these whether others have changed it since.
        let (before, absent) = (std::mem::replace(&mut row.image.base, base), row.image.absent);
        row.image.before = before.or(row.image.before).filter(|_| base.is_none());
        row.recharge(key);
        self.bytes += row.bytes;
        if base.is_none() || before == base {
            return;
        }
        let stays = self.rebuild_readers(key, stored) && (same || before == absent);
        if let Some(image) = self.rows.get_mut(key).map(|row| &mut row.image).filter(|_| stored.is_none()) {
            // It is still a version of its absence, or the store will say that it is none.
            image.base = before.filter(|_| stays).or(base);
            image.absent = image.base;
        }
    }

    /// What waits for `key` is made to what is `stored` under another version than before. What was shown of it stays
    /// what it is if the same comes of that; whether all does.
    fn rebuild_readers(&mut self, key: &Key, stored: &Option<Value>) -> bool {
        let readers = self.readers_to_whole(key, 0);
        let (mut value, mut image, mut images) = (Some(stored.clone()), None, Vec::with_capacity(readers.len()));
        let mut story = self.story(key).peekable();
        for reader in &readers {
            while let Some((_, written)) = story.next_if(|(entry, _)| entry.buffered.number < *reader) {
                let changes = written.map_or(&[Change::Delete][..], |written| &written.changes);
                (value, image) = (value.and_then(|value| changed(value, changes)), None);
            }
            image = image.or_else(|| value.as_ref().map(|value| Fingerprint::of(value.as_ref())));
            images.push(image.filter(|_| !mutation::on(Fault::RereadDoubted)));
        }
        drop(story);
        let mut all = !mutation::on(Fault::RereadDoubted);
        for (reader, image) in readers.into_iter().zip(images) {
            self.settle_seen(reader, key, |seen, shown| {
                if *seen == Seen::Image && image != Some(*shown) {
                    (*seen, all) = (Seen::Exact, false);
                }
            });
        }
        all
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

    /// Likewise, and what was cached of them before is dropped.
    pub fn doubt<'a>(&mut self, keys: impl Iterator<Item = &'a Key> + Clone) {
        self.suspect(keys.clone());
        self.doubts.add(self.suspicions, keys);
    }

    /// Likewise of those of which `are` says so; of the others that wait nothing is suspected.
    pub fn doubt_those(&mut self, are: impl Fn(&Key) -> bool) {
        self.suspicions += 1;
        let rows = self.rows.iter_mut().filter(|(key, _)| !self.owned && are(key));
        rows.for_each(|(_, row)| row.image.suspected = Some(self.suspicions));
        self.doubts.add_all(self.suspicions);
    }

    /// Likewise of all; what waits is suspected `now`, or later.
    pub fn doubt_all(&mut self, now: bool) {
        self.doubt_those(|_| now);
    }

    /// The number of the last doubt, for [`Commit::doubts`].
    pub fn last_doubt(&self) -> u64 {
        self.doubts.last()
    }

    /// Likewise of all.
    pub fn suspect_all(&mut self) {
        self.suspicions += 1;
        let rows = self.rows.values_mut().filter(|_| !self.owned);
        rows.for_each(|row| row.image.suspected = Some(self.suspicions));
    }

    /// Whether others may have changed `key` since what is shown of it was found out.
    pub fn is_suspect(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| row.image.suspected.is_some())
    }

    /// Whether `key` was doubted since what is shown of it was found out.
    pub fn is_doubted(&self, key: &Key) -> bool {
        self.rows.get(key).is_some_and(|row| self.doubts.since(key, row.image.learned))
    }

    /// What those behind `number` were shown of `key` may not come of what is before them.
    pub(super) fn doubt_readers(&mut self, key: &Key, number: u64) {
        for reader in self.readers_to_whole(key, number) {
            self.settle_seen(reader, key, |seen, _| {
                if *seen == Seen::Image {
                    *seen = Seen::Exact
                }
            });
        }
    }

    pub(super) fn settle_seen(&mut self, reader: u64, key: &Key, mut settle: impl FnMut(&mut Seen, &mut Fingerprint)) {
        let Some(entry) = there(self.entries.get_mut(&reader)) else { return };
        let at = entry.shown_at.find(&entry.buffered.shown, key);
        let place = at.and_then(|at| Some((entry.buffered.shown.get_mut(at)?, entry.seen.get_mut(at)?)));
        if let Some(((_, fingerprint), seen)) = place {
            settle(seen, fingerprint);
        }
    }

    /// The store has applied `commit`, which is transaction `number`, and `stored` is what it has since: settles what
    /// those were shown that come next. If it was applied when it was sent before, its documents are `untouched` since.
    /// What is `right` is known of the commits before it in its batch. Answers what is settled.
    pub(super) fn settle_readers(
        &mut self,
        number: u64,
        commit: &Commit,
        stored: &Stored<'_>,
        repeated: Option<&Repeated>,
        right: &mut Right,
    ) -> Settled {
        let (mut settled, untouched) = (Vec::new(), repeated.map(|repeated| &repeated.untouched));
        let Some(entry) = there(self.entries.get(&number)) else { return settled };
        let along: Vec<Key> = taken_along(entry).cloned().collect();
        let (proven, now) = (entry.proven, ByKey::new(&commit.checks));
        let checked = |at: usize, key: &Key, base: Option<Version>| match untouched {
            Some(_) => proven.is_checked(at),
            // What is shown behind it was computed from its base: compared again, it may be made to something else.
            None => base.is_some() && now.get(key).map(|(_, version)| *version) == base,
        };
        for (at, write) in commit.writes.iter().enumerate() {
            let told = stored.version_at(at).zip(stored.at(at));
            let image = self.rows.get(&write.key).map(|row| &row.image);
            let (base, made_to) = image.map(|image| (image.base, image.made_on_the_way())).unwrap_or_default();
            let built = stands_alone(&write.changes) || checked(at, &write.key, made_to);
            // Its version is that behind one before it that is right: they were applied together, and nothing came
            // between. What this batch has told of it is what it is now, not what it was between.
            let before = right.get(&write.key).copied().unwrap_or(base.filter(|_| untouched.is_some()));
            let follows = told.as_ref().is_some_and(|(version, _)| before == Some(*version));
            // Of a row that is not there no store tells who deleted it: nothing is what a deletion leaves.
            let alone = || told.as_ref().is_some_and(|(_, value)| make_alone(&write.changes, *value));
            let stays = || alone() && !mutation::on(Fault::DeletionDoubted);
            let is_untouched = |untouched: &Vec<Key>| untouched.contains(&write.key) || stays();
            let clean = (built || follows) && untouched.is_none_or(is_untouched);
            let now = told.as_ref().filter(|_| clean).map(|(version, _)| *version);
            right.insert(write.key.clone(), now);
            if self.tied.readers(&write.key, number).next().is_none() {
                continue;
            }
            let told = told.map(|(version, value)| (version, Fingerprint::of(value)));
            settled.append(&mut self.settle_read(number, &write.key, told, clean));
        }
        for key in along {
            self.doubt_readers(&key, number);
        }
        settled
    }

    /// Likewise of those that read `key`, which is what is `told`, and is right if `clean`.
    fn settle_read(&mut self, number: u64, key: &Key, told: Option<(Version, Fingerprint)>, clean: bool) -> Settled {
        let mut settled = Vec::new();
        let queue = self.rows.get(key).map(|row| &row.queue);
        let next = queue.into_iter().flatten().find(|other| **other > number).copied();
        let next = next.into_iter().chain(self.next_along(key, number)).min().unwrap_or(u64::MAX);
        // Those behind the next are settled by what becomes of that one.
        let last = if clean && told.is_some() { next } else { self.next_whole(key, number) };
        let readers: Vec<u64> = self.tied.readers(key, number).copied().take_while(|reader| *reader <= last).collect();
        for reader in readers {
            // It may be in the store, with what others have made of it since.
            let sent = self.entries.get(&reader).is_some_and(|entry| entry.buffered.sent);
            self.settle_seen(reader, key, |seen, fingerprint| match told {
                // Settled before a kill: a row that is not there has another version each time.
                Some((version, now))
                    if matches!(seen, Seen::Stored(_) | Seen::Noted(_)) && reader <= next && now == *fingerprint =>
                {
                    *seen = Seen::Stored(version);
                }
                _ if !matches!(seen, Seen::Image | Seen::Exact) => {}
                Some((version, now)) if reader <= next => {
                    let right = now == *fingerprint || (clean && *seen == Seen::Image);
                    if right {
                        // What the database has made of it is known again by that, should it be looked at again.
                        *fingerprint = now;
                        settled.push((reader, key.clone(), now, version));
                    }
                    *seen = match right {
                        true => Seen::Stored(version),
                        false if sent => Seen::Exact,
                        false => Seen::Overtaken,
                    };
                }
                _ => *seen = Seen::Exact,
            });
        }
        settled
    }

    /// What has become of what `buffered`, which the journal brings back behind all that is here, was shown: what is
    /// shown now of a document, or else something has come between. What is `settled` the store has.
    pub(super) fn seen_again(&self, buffered: &Buffered, settled: &[(Key, Version)]) -> Vec<Seen> {
        let latest = |key: &Key| self.rows.get(key).and_then(|row| row.latest.as_ref());
        let same = |(key, fingerprint): &(Key, Fingerprint)| {
            latest(key).is_some_and(|value| Fingerprint::of(value.as_ref()) == *fingerprint)
        };
        let stored = |key: &Key| settled.iter().find(|(other, _)| other == key).map(|(_, version)| *version);
        let seen = |shown: &(Key, Fingerprint)| match stored(&shown.0) {
            Some(version) if mutation::on(Fault::NotedVersionKept) => Seen::Stored(version),
            Some(version) => Seen::Noted(version),
            None if same(shown) => Seen::Image,
            None => Seen::Exact,
        };
        buffered.shown.iter().map(seen).collect()
    }

    /// Versions to be checked with transaction `entry` beside its own: of what it was shown, and of what it is made
    /// to.
    pub(super) fn checks_of_shown(&self, entry: &Entry) -> Vec<(Key, Version)> {
        let shown = entry.buffered.shown.iter().zip(&entry.seen);
        let mut checks: Vec<(Key, Version)> = shown
            .filter_map(|((key, _), seen)| match seen {
                Seen::Stored(version) | Seen::Noted(version) => Some((key.clone(), *version)),
                _ => None,
            })
            .collect();
        // Always: somebody may read it while it is on its way.
        let unchecked = self.owned || mutation::on(Fault::PendingReadsUnchecked);
        let mut bases = Vec::new();
        let (own, seen) = (ByKey::new(&entry.buffered.checks), ByKey::new(&checks));
        for written in entry.buffered.writes.iter().filter(|_| !unchecked) {
            let row = self.rows.get(&written.key).filter(|row| row.queue.front() == Some(&entry.buffered.number));
            let checked = own.has(&written.key) || seen.has(&written.key);
            if let Some(base) = row.and_then(|row| row.image.base).filter(|_| !checked && !rests(written)) {
                bases.push((written.key.clone(), base));
            }
        }
        drop(seen);
        checks.append(&mut bases);
        checks
    }

    /// Whether somebody behind `entry` has read what it writes there.
    pub(super) fn is_read_behind(&self, entry: &Entry, written: &Written) -> bool {
        !mutation::on(Fault::PendingReadsUnchecked)
            && self.tied.readers(&written.key, entry.buffered.number).next().is_some()
    }

    /// Whether the store may have `entry`, and then tells whether its write at this place is what it was made to be.
    /// That is told of no other, so what comes behind it is checked itself.
    pub(super) fn is_told_alone(&self, entry: &Entry, at: usize) -> bool {
        let proven = |written: &Written| stands_alone(&written.changes) || entry.proven.is_checked(at);
        let may_have = entry.buffered.sent && !self.owned && !mutation::on(Fault::SentBehindSent);
        may_have && entry.buffered.writes.get(at).is_some_and(proven)
    }

    /// Whether `entry` was shown what waits before it yet, or something before it will move what it was shown.
    pub(super) fn awaits_seen(&self, entry: &Entry) -> bool {
        let number = entry.buffered.number;
        let before = |key: &Key| {
            let first = self.rows.get(key).and_then(|row| row.queue.front());
            first.is_some_and(|first| *first < number)
        };
        let moves = |key: &Key| self.is_moved_before(key, number) && !mutation::on(Fault::MovedByOurselves);
        let mut shown = entry.buffered.shown.iter().zip(&entry.seen);
        shown.any(|((key, _), seen)| match seen {
            Seen::Image | Seen::Exact => before(key) || moves(key),
            Seen::Stored(_) | Seen::Noted(_) => moves(key),
            Seen::Overtaken => false,
        })
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

    /// The store holds `reads` for what the only transaction of `batch` was shown; none of what can't be read.
    pub fn compare(&mut self, batch: &Batch, keys: &[Key], reads: Option<&[Read]>) {
        for number in &batch.numbers {
            for (at, key) in keys.iter().enumerate() {
                let read = reads.and_then(|reads| reads.get(at));
                self.settle_seen(*number, key, |seen, fingerprint| match read {
                    _ if !matches!(seen, Seen::Image | Seen::Exact) => {}
                    Some(read) if Fingerprint::of(read.value.as_ref()) == *fingerprint => {
                        *seen = Seen::Stored(read.version);
                    }
                    _ => *seen = Seen::Overtaken,
                });
            }
        }
    }

    /// The id of the only transaction of `batch`, if the store may have it already: then what it was shown may be
    /// otherwise by now.
    pub fn sent(&self, batch: &Batch) -> Option<TxnId> {
        let entry = batch.numbers.first().and_then(|number| self.entries.get(number));
        entry.filter(|entry| entry.buffered.sent).map(|entry| entry.buffered.id)
    }

    /// The store has the only transaction of `batch` already: what it was shown was so when it was applied.
    pub fn compared_before(&mut self, batch: &Batch) {
        batch.numbers.iter().for_each(|number| self.forget_seen(*number));
    }

    /// What transaction `number` was shown is compared again, but for what the store has under a known version.
    pub(super) fn see_anew(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            let open = entry.seen.iter_mut().filter(|seen| !matches!(seen, Seen::Stored(_) | Seen::Noted(_)));
            open.for_each(|seen| *seen = Seen::Exact);
        }
    }

    /// The store does not have what transaction `number` was shown of `keys` under the versions that it had. What was
    /// noted before a kill is compared first.
    pub(super) fn overtake(&mut self, number: u64, keys: &[Key]) {
        for key in keys {
            self.settle_seen(number, key, |seen, _| {
                *seen = if matches!(seen, Seen::Noted(_)) { Seen::Exact } else { Seen::Overtaken };
            });
        }
    }

    /// What transaction `number` was shown does not matter.
    pub(super) fn forget_seen(&mut self, number: u64) {
        let Some(entry) = there(self.entries.get_mut(&number)) else { return };
        entry.seen.clear();
        entry.shown_at = Places::default();
        let shown = std::mem::take(&mut entry.buffered.shown);
        let bytes = super::charge::shown_bytes(&shown);
        entry.bytes -= bytes;
        self.bytes -= bytes;
        self.tied.remove_readers(number, &shown);
    }
}
