//! How the buffer comes to know: from the journal at the start, from the store where a document has become unknown.

use std::collections::BTreeSet;

use super::by_key::ByKey;
use super::charge::{entry_bytes, follows_bytes};
use super::image::{is_guess, is_guess_made};
use super::seen::is_edition;
use super::{Buffer, Entry, Proven, Row, Stage, Story, another, stands_alone, taken_along};
use crate::change::{Change, apply_all};
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::lanes::Ties;
use crate::outage::record::{Buffered, Pending as Found, Standing, Written};
use crate::read::Read;
use crate::value::{Blob, Data, Value};
use crate::version::{TxnId, Version};

/// What came of [`Buffer::forget_all_known`].
#[derive(Debug)]
pub struct Forgotten {
    /// The number from which on documents are known again.
    pub known_from: u64,
    /// The new versions of what waits, each with its id.
    pub renamed: Vec<(Version, TxnId)>,
}

/// Sequence numbers of versions that no commit has had: a mint that was not told of them does not come so far.
const RENAMED: u64 = 1 << 52;

impl Entry {
    /// Whether the store may have it already.
    pub(super) fn is_seen(&self) -> bool {
        self.buffered.sent || self.stage == Stage::Carried
    }
}

/// The version in the store of what `buffered`, the first of the document of `key`, was made to, if that was noted.
fn made_to(
    buffered: &Buffered,
    checks: &ByKey<'_, (Key, Version)>,
    key: &Key,
    known: Option<&Read>,
) -> Option<Version> {
    let checked = checks.get(key).map(|(_, version)| *version);
    // Where it is not known, what is known goes by the version that its own transaction leaves.
    let noted = known.map(|read| read.version).filter(|version| *version != buffered.version);
    noted.or(checked).filter(|version| !is_edition(*version))
}

impl Buffer {
    /// The store says that it holds `read` for `key`: with what waits behind it, the document is known again. False if
    /// that can't be said, since the store may have seen something that waits.
    pub fn learn(&mut self, key: &Key, read: &Read) -> bool {
        let Some(row) = self.rows.get(key) else { return true };
        if row.latest.is_some() && row.stored.is_some() && row.image.suspected.is_none() {
            return true;
        }
        self.learn_on(key, &read.value, Some(read.version))
    }

    /// The document of `key` is `value` in the store, under the version `base`. False if what is shown can't be told by
    /// that.
    pub(super) fn learn_on(&mut self, key: &Key, value: &Option<Value>, base: Option<Version>) -> bool {
        if self.story(key).any(|(entry, _)| entry.is_seen()) {
            return false;
        }
        let read = Read { value: value.clone(), version: Version::ZERO };
        let (latest, guessed) = self.made_of(key, read, &BTreeSet::new());
        if let Some(row) = self.rows.get_mut(key) {
            self.bytes -= row.bytes;
            row.stored = Some(value.clone());
            row.recharge(key);
            self.bytes += row.bytes;
        }
        self.know(key, latest, value, base);
        self.set_guessed(key, guessed);
        true
    }

    /// What waits for a document, for [`Buffer::learn_behind`].
    pub fn story_of(&self, key: &Key) -> Story {
        let waits = self.story(key).map(|(entry, _)| (entry.buffered.number, entry.buffered.id)).collect();
        Story { waits, suspicions: self.suspicions }
    }

    /// The store was asked for the document of `key` and for the ids of `asked`, which was its [`Buffer::story_of`]
    /// then: at one moment the document was `read` there, and those commits were `applied`. So only what is behind
    /// these is made to it. False if nothing follows from that, since too much has happened by then: ask again.
    ///
    /// No write is seen twice, for what `read` may have in it was asked for: what could be on its way to the store at
    /// that moment is among `asked`, or the answer is of no use. None is missing, for whoever has gone since was in
    /// `read`, and as long as one of `asked` still waits nobody has written the document directly.
    pub fn learn_behind(&mut self, key: &Key, read: &Read, asked: &Story, applied: &[TxnId]) -> bool {
        let Some(row) = self.rows.get(key) else { return true };
        let overtaken = asked.suspicions < row.image.learned;
        let settled = row.image.suspected.is_none() && !row.image.guessed;
        if row.latest.is_some() && (settled || overtaken) {
            return true;
        }
        let applied: BTreeSet<TxnId> = match mutation::on(Fault::LearnedUnasked) {
            true => BTreeSet::new(),
            false => applied.iter().copied().collect(),
        };
        let was_asked = |number: &u64| asked.waits.binary_search_by_key(number, |(number, _)| *number).is_ok();
        let may_be_in_it = |number: &u64| self.entries.get(number).is_some_and(Entry::is_seen);
        // What has become part of another waits with that.
        let part_of = |number: u64| row.queue.iter().any(|other| self.stands_for(*other, number));
        let waits = row.queue.iter().any(was_asked) || asked.waits.iter().any(|(number, _)| part_of(*number));
        let unasked =
            row.queue.iter().chain(self.tied.taking(key)).any(|number| may_be_in_it(number) && !was_asked(number));
        let gone = |(number, id): &(u64, TxnId)| {
            !self.entries.contains_key(number) && !applied.contains(id) && !part_of(*number)
        };
        let in_it = |(entry, _): &(&Entry, _)| applied.contains(&entry.buffered.id);
        let in_order = !self.story(key).skip_while(in_it).any(|told| in_it(&told));
        if !waits || unasked || asked.waits.iter().any(gone) || !in_order {
            return false;
        }
        // Of what is on its way nobody can say what it finds when it arrives.
        let stored = (!self.story(key).any(|(entry, _)| entry.is_seen())).then(|| read.value.clone());
        // Where that is what it was before, those applied are in it, and nothing came between.
        let same = self.rows.get(key).is_some_and(|row| row.image.base == Some(read.version));
        let base = (applied.is_empty() || same).then_some(read.version);
        let (latest, guessed) = self.made_of(key, read.clone(), &applied);
        let Some(row) = there(self.rows.get_mut(key)) else { return true };
        self.bytes -= row.bytes;
        row.stored = stored.or(row.stored.take());
        row.recharge(key);
        self.bytes += row.bytes;
        if let Some(image) = self.rows.get_mut(key).map(|row| &mut row.image) {
            // What was suspected since is not answered by this.
            image.suspected = image.suspected.filter(|suspected| *suspected > asked.suspicions);
            (image.learned, image.answered) = (asked.suspicions, self.suspicions);
        }
        self.know(key, latest, &read.value, base);
        self.set_guessed(key, guessed);
        true
    }

    /// Whether transaction `number`, which was never sent, has become part of `other`.
    fn stands_for(&self, other: u64, number: u64) -> bool {
        let first = self.entries.get(&other).map_or(other, |entry| entry.first);
        (first..other).contains(&number) && !mutation::on(Fault::MergedForGone)
    }

    /// What waits for a document and is in the journal, in order, with what each makes of it; with nothing those that
    /// take it along with another which they delete.
    pub(super) fn story<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a Entry, Option<&'a Written>)> {
        let queue = self.rows.get(key).into_iter().flat_map(|row| &row.queue);
        let mut numbers: Vec<u64> = queue.chain(self.tied.taking(key)).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let entries = numbers.into_iter().filter_map(|number| self.entries.get(&number));
        let shown = entries.filter(|entry| !matches!(entry.stage, Stage::Writing { .. }));
        shown.filter_map(|entry| match entry.written(key) {
            None if entry.ties.takes_along.contains(key) => Some((entry, None)),
            None => None,
            written => Some((entry, written)),
        })
    }

    /// Those behind `number` that were shown `key`, up to the first that makes it whatever it was.
    pub(super) fn readers_to_whole(&self, key: &Key, number: u64) -> Vec<u64> {
        let whole = self.next_whole(key, number);
        self.tied.readers(key, number).copied().take_while(|reader| *reader <= whole).collect()
    }

    /// The first behind `number` that makes the document of `key` whatever it was: what is shown behind that has
    /// nothing to do with what was before.
    pub(super) fn next_whole(&self, key: &Key, number: u64) -> u64 {
        let whole = |other: &&u64| {
            let written = self.entries.get(*other).and_then(|entry| entry.written(key));
            written.is_some_and(|write| stands_alone(&write.changes))
        };
        let queue = self.rows.get(key).into_iter().flat_map(|row| &row.queue);
        let along = self.next_along(key, number).unwrap_or(u64::MAX);
        queue.filter(|other| **other > number).find(whole).copied().unwrap_or(u64::MAX).min(along)
    }

    /// The first behind `number` that deletes `key` along with another document of its row.
    pub(super) fn next_along(&self, key: &Key, number: u64) -> Option<u64> {
        self.tied.taking(key).copied().find(|other| *other > number)
    }

    /// `read` with what waits for its document, but for those `applied`, which are in it; its version is the last's.
    pub fn on_top_of(&self, key: &Key, read: Read, applied: &BTreeSet<TxnId>) -> Read {
        self.made_of(key, read, applied).0
    }

    /// Likewise, and whether that is a guess: the store fills a row that it makes then.
    fn made_of(&self, key: &Key, mut read: Read, applied: &BTreeSet<TxnId>) -> (Read, bool) {
        let mut guessed = false;
        for (entry, written) in self.story(key) {
            match written {
                _ if applied.contains(&entry.buffered.id) => {}
                Some(written) => {
                    let before = (read.value.is_some(), guessed);
                    // What does not fit is what the store will refuse.
                    drop(apply_all(&mut read.value, &written.changes));
                    let fill = entry.ties.fill(key);
                    guessed = is_guess(before, &written.changes, fill, read.value.as_ref());
                }
                None => (read.value, guessed) = (None, false),
            }
            read.version = self.left_by(entry.buffered.version);
        }
        (read, guessed)
    }

    fn set_guessed(&mut self, key: &Key, guessed: bool) {
        if let Some(row) = self.rows.get_mut(key) {
            row.image.guessed = guessed;
        }
    }

    /// What `field` of the hash of `key` holds, if that follows from what is buffered alone: some do although the hash
    /// is not known whole. `Some(None)`: it has none.
    pub fn field(&self, key: &Key, field: &[u8]) -> Option<Option<Blob>> {
        if let Some(latest) = self.latest_but_for_fills(key, field) {
            return Some(if let Data::Hash(hash) = &latest.data { hash.get(field).cloned() } else { None });
        }
        // The hash with this field alone; none while nobody knows.
        let mut alone: Option<Option<Value>> = None;
        for (entry, written) in self.story(key) {
            let Some(written) = written else {
                alone = Some(None);
                continue;
            };
            let added = entry.ties.fill(key).is_some_and(|fill| fill.added) && !mutation::on(Fault::DefaultsGuessed);
            let fill = entry.ties.fill(key).filter(|fill| fill.may_be(field));
            let mut is_given = false;
            for change in &written.changes {
                let about = match change {
                    Change::SetField(name, _) | Change::UnsetField(name) => &**name == field,
                    Change::AddInteger { field: Some(name), .. } | Change::AddFloat { field: Some(name), .. } => {
                        &**name == field
                    }
                    _ => true,
                };
                if !about {
                    continue;
                }
                // Of a row that is not there nothing is emptied.
                is_given = !matches!(change, Change::Delete | Change::UnsetField(_));
                let settles =
                    matches!(change, Change::Put(_) | Change::Delete | Change::SetField(..) | Change::UnsetField(_));
                let mut value = match alone.take() {
                    // Another document may have made the row since, and the store filled what this adds to.
                    Some(None) if added && !settles => continue,
                    Some(value) => value,
                    None if settles => None,
                    None => continue,
                };
                alone = apply_all(&mut value, std::slice::from_ref(change)).is_ok().then_some(value);
            }
            // Where there was no row, the store has filled it.
            let left = fill.is_some() && !is_given && !mutation::on(Fault::DefaultsGuessed);
            alone = alone.filter(|value| !left || has_field(value.as_ref(), field));
        }
        match alone?.map(|value| value.data) {
            None => Some(None),
            Some(Data::Hash(hash)) => Some(hash.get(field).cloned()),
            Some(_) => None,
        }
    }

    /// Whether something that writes `other` waits with or behind the last that writes `key`.
    pub fn is_written_after(&self, other: &Key, key: &Key) -> bool {
        let last = |key: &Key| self.rows.get(key).and_then(|row| row.queue.back()).copied();
        last(other).is_some_and(|other| Some(other) >= last(key))
    }

    /// Whether the last that writes `other` deletes it, and `key` along with its row.
    pub fn is_deleted_along(&self, key: &Key, other: &Key) -> bool {
        let last = self.rows.get(other).and_then(|row| row.queue.back());
        let takes = |number: &&u64| self.tied.taking(key).any(|taking| taking == *number);
        let entry = last.filter(takes).and_then(|number| self.entries.get(number));
        let written = entry.and_then(|entry| entry.written(other));
        written.is_some_and(|written| written.changes.last() == Some(&Change::Delete))
    }

    /// The hash of `key`, where it is known but for what the store fills by itself, which `field` is not.
    fn latest_but_for_fills(&self, key: &Key, field: &[u8]) -> Option<&Value> {
        let row = self.rows.get(key)?;
        let mut entries = row.queue.iter().map(|number| self.entries.get(number));
        let settles = |entry: Option<&Entry>| {
            entry.is_some_and(|entry| {
                let is_filled = entry.ties.fill(key).is_some_and(|fill| fill.added || fill.may_be(field));
                !is_filled && !matches!(entry.stage, Stage::Writing { .. })
            })
        };
        let known = row.image.guessed && row.image.suspected.is_none() && entries.all(settles);
        row.latest.as_ref()?.as_ref().filter(|_| known)
    }

    /// Takes in what the journal held at the start, in the order of the numbers.
    pub fn restore(&mut self, found: Found, ties: Ties) {
        let Found { mut buffered, standing, merged, settled } = found;
        let proven = Proven::again(&buffered);
        // It may have been on its way when the process ended: the store says ([`Buffer::next_restored`]).
        buffered.sent = true;
        self.restored.add(buffered.number);
        if mutation::on(Fault::RestoredUnderNewId) {
            buffered.id = another(buffered.id);
        }
        let number = buffered.number;
        self.next_number = self.next_number.max(number + 1);
        let (seen, version) = (self.seen_again(&buffered, &settled), self.left_by(buffered.version));
        let (known, checks) = (ByKey::new(&buffered.known), ByKey::new(&buffered.checks));
        for write in &buffered.writes {
            let row = self.rows.entry(write.key.clone()).or_insert_with_key(Row::new);
            let known = known.get(&write.key).map(|(_, read)| read);
            if row.queue.is_empty() {
                self.bytes += row.bytes;
                row.image.base = known.map(|read| read.version).filter(|base| !is_edition(*base));
                row.image.made_to = made_to(&buffered, &checks, &write.key, known);
            }
            row.queue.push_back(number);
            self.bytes -= row.bytes;
            let known = known.map(|read| read.value.clone());
            let fold = |before: Option<Value>| {
                let mut value = before;
                apply_all(&mut value, &write.changes).ok().map(|()| value)
            };
            let (fill, is_known) = (ties.fill(&write.key), known.is_some());
            let before = (matches!(row.latest, Some(Some(_))), row.image.guessed);
            row.latest = match (known, row.latest.take()) {
                (Some(value), _) => Some(value),
                (None, _) if stands_alone(&write.changes) => fold(None),
                (None, Some(before)) => fold(before),
                (None, None) => None,
            };
            let after = row.latest.as_ref().and_then(Option::as_ref);
            row.image.guessed = match is_known {
                true => is_guess_made(fill, after),
                false => is_guess(before, &write.changes, fill, after),
            };
            row.version = version;
            row.recharge(&write.key);
            self.bytes += row.bytes;
        }
        drop((known, checks));
        let bytes = entry_bytes(&buffered, &ties);
        if standing == Standing::Ordered {
            self.ordered.insert(number);
        }
        let quarantined = match standing {
            Standing::Waiting | Standing::Ordered | Standing::Behind(_) => None,
            Standing::Quarantined(why) => Some(why),
        };
        let keys: Vec<Key> = buffered.writes.iter().map(|write| write.key.clone()).collect();
        self.insert(Entry { proven, merged, seen, ..Entry::new(buffered, ties, Stage::Waiting, bytes) });
        keys.iter().for_each(|key| self.show_latest(key));
        self.forget_taken_along(number);
        match quarantined {
            Some(why) => self.quarantine(number, why),
            None => self.settle_stage(number),
        }
    }

    /// What is kept of documents that go with one that transaction `number` deletes is not what they are from then on.
    pub(super) fn forget_taken_along(&mut self, number: u64) {
        let Some(entry) = there(self.entries.get(&number)) else { return };
        for key in taken_along(entry) {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                row.forget_latest();
                row.recharge(key);
                self.bytes += row.bytes;
            }
        }
    }

    /// The store has something else of the document than was computed, and nobody knows what comes of that. What was
    /// shown is built on what the store has if that is `right`: what it made of it alone.
    pub(super) fn forget_known(&mut self, key: &Key, right: bool) {
        if let Some(row) = self.rows.get_mut(key) {
            self.bytes -= row.bytes;
            row.forget_latest();
            (row.stored, row.image.before) = (None, None);
            row.image.base = row.image.base.filter(|_| right);
            row.recharge(key);
            self.bytes += row.bytes;
        }
    }

    /// The store was found in another state than what waits was made to. What is shown is unknown until the store was
    /// asked, unless it follows from what waits alone.
    ///
    /// In a store that is only ours what waits gets other versions, of this `incarnation` if there is one. A document
    /// that is known by the version under which it was shown would be taken for what it was. What is committed later
    /// needs greater ones.
    pub fn forget_all_known(&mut self, incarnation: Option<u64>) -> Forgotten {
        let renames = self.owned && incarnation.is_some() && !mutation::on(Fault::VersionKeptForAnotherState);
        let incarnation = incarnation.unwrap_or_default();
        let mut renamed = Vec::new();
        let newest = self.entries.values().map(|entry| entry.buffered.version);
        let newest = newest.filter(|version| version.incarnation == incarnation).max();
        let above = newest.map_or(RENAMED, |newest| newest.sequence.max(RENAMED));
        for (number, entry) in self.entries.iter_mut().filter(|(_, entry)| renames && entry.stage != Stage::Carried) {
            entry.buffered.version = Version { incarnation, sequence: above + number };
            renamed.push((entry.buffered.version, entry.buffered.id));
        }
        if !self.computed {
            // The store says what it makes of the changes.
            for entry in self.entries.values_mut() {
                entry.buffered.known = Vec::new();
                let bytes = entry_bytes(&entry.buffered, &entry.ties).min(entry.bytes);
                self.bytes -= entry.bytes - bytes;
                entry.bytes = bytes;
            }
        }
        let keys: Vec<Key> = self.rows.keys().cloned().collect();
        for key in keys {
            let alone = |written: Option<&Written>| written.is_none_or(|written| stands_alone(&written.changes));
            let follows = self.story(&key).any(|(_, written)| alone(written));
            if !follows {
                self.forget_known(&key, false);
            }
            let Some(row) = self.rows.get_mut(&key) else { continue };
            self.bytes -= row.bytes;
            (row.stored, row.image.base, row.image.before) = (None, None, None);
            // What is on its way to the journal was computed with what was there before.
            row.given_up |= !follows;
            if let Some(last) = row.queue.back().and_then(|last| self.entries.get(last)).filter(|_| renames) {
                row.version = last.buffered.version;
            }
            row.recharge(&key);
            self.bytes += row.bytes;
        }
        Forgotten { known_from: self.next_number, renamed }
    }

    /// Finds again what all transactions have to do with each other: the store's tables are known now. Nothing may be
    /// on its way to it.
    pub fn tie_anew(&mut self, ties_of: impl Fn(&Buffered) -> Ties) {
        self.lanes.clear();
        self.forget_names();
        self.tied.clear();
        for (number, entry) in &mut self.entries {
            debug_assert!(entry.stage != Stage::Carried);
            let ties = ties_of(&entry.buffered);
            let bytes = entry.bytes - follows_bytes(&entry.ties) + follows_bytes(&ties);
            self.bytes = self.bytes - entry.bytes + bytes;
            self.tied.add(*number, &ties);
            (entry.ties, entry.bytes) = (ties, bytes);
            if !entry.stage.is_stuck() {
                for lane in &entry.ties.lanes {
                    self.lanes.entry(*lane).or_default().waiting.insert(*number);
                }
            }
        }
        for (key, row) in &mut self.rows {
            let latest = row.latest.as_ref().and_then(Option::as_ref);
            let mut entries = row.queue.iter().filter_map(|number| self.entries.get(number));
            // More may be a guess than was known. What is none waits like one until the store was asked.
            row.image.guessed |= entries.any(|entry| is_guess_made(entry.ties.fill(key), latest));
        }
        // Those of which nothing was known before they had ties.
        self.forget_names();
        self.sort_out_all();
    }
}

/// Whether `hash` has this field.
fn has_field(hash: Option<&Value>, field: &[u8]) -> bool {
    matches!(hash.map(|value| &value.data), Some(Data::Hash(hash)) if hash.get(field).is_some())
}
