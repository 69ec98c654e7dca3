//! From the buffer to the store: what can go now, and what is known when it has gone.

use std::collections::BTreeMap;
use std::ops::Bound;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::by_key::ByKey;
use super::image::Image;
use super::seen::{self, Right, Seen};
use super::{BATCH_BYTES_MAX, BATCH_COMMITS_MAX, Batch, Buffer, Stage, Work, stands_alone, taken_along, writes};
use crate::change::{Change, apply_all};
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::lanes::Lane;
use crate::outage::record::Written;
use crate::read::Read;
use crate::store::{Commit, CommitOutcome, Write};
use crate::value::Value;
use crate::version::Version;

/// What became of documents when transactions were applied.
pub struct Applied {
    /// Those that nothing waits for any more.
    pub emptied: Vec<Key>,
    /// Those of them that are in the store as they were shown: key, version shown, version there.
    pub restamped: Vec<(Key, Version, Version)>,
    /// Those that share a place with them: they have other versions now.
    pub beside: Vec<Key>,
}

/// What is known of a transaction that the store had already.
#[derive(Debug)]
pub(super) struct Repeated {
    /// Its documents that no other program has written since.
    pub(super) untouched: Vec<Key>,
    /// What was computed of its documents, by their places; none of what was not known.
    computed: Vec<Option<Option<Value>>>,
}

/// The documents of a transaction as the store has them now.
pub(super) struct Stored<'a> {
    writes: &'a [Write],
    /// What each has become, by their places, where that is other than computed.
    changed: SmallVec<[Option<&'a Read>; 1]>,
    /// The version of the others.
    version: Version,
}

impl<'a> Stored<'a> {
    /// Of `commit`, whose documents have become other than computed as far as they are in `changed`.
    pub(super) fn new(commit: &'a Commit, changed: &'a [(Key, Read)]) -> Stored<'a> {
        let told = ByKey::new(changed);
        let changed = commit.writes.iter().map(|write| told.get(&write.key).map(|(_, read)| read)).collect();
        Stored { writes: &commit.writes, changed, version: commit.version }
    }

    /// What became of the write at this place; none if that is not known.
    pub(super) fn at(&self, place: usize) -> Option<Option<&'a Value>> {
        let write = self.writes.get(place)?;
        match self.changed.get(place)? {
            Some(read) => Some(read.value.as_ref()),
            None => (!write.unseen).then_some(write.after.as_ref()),
        }
    }

    /// Its version there; none if what became of it is not known.
    pub(super) fn version_at(&self, place: usize) -> Option<Version> {
        let write = self.writes.get(place)?;
        match self.changed.get(place)? {
            Some(read) => Some(read.version),
            None => (!write.unseen).then_some(self.version),
        }
    }
}

impl Batch {
    /// What was computed of `key` behind the first `count`, if it was known.
    pub(super) fn computed(&self, key: &Key, count: usize) -> Option<Option<Value>> {
        let mut last = self.numbers.iter().zip(&self.commits).take(count).rev();
        last.find_map(|(number, commit)| {
            let at = commit.writes.iter().position(|write| write.key == *key)?;
            let write = &commit.writes[at];
            Some(match self.repeated.get(number) {
                Some(repeated) => repeated.computed.get(at).cloned().flatten(),
                None => (!write.unseen).then(|| write.after.clone()),
            })
        })?
    }

    /// The store has applied the commit at this place, and this is its `outcome`: what of its documents is other than
    /// computed.
    pub fn told(&mut self, place: usize, outcome: CommitOutcome) -> Vec<(Key, Read)> {
        let since = match outcome {
            CommitOutcome::Repeated(since) => since,
            CommitOutcome::Committed(changed) => return changed,
            _ => return Vec::new(),
        };
        let (number, commit) = (self.numbers.get(place), self.commits.get_mut(place));
        if let Some((number, commit)) = number.zip(commit) {
            // What the store has not said of them is unknown.
            let computed =
                |write: &mut Write| (!std::mem::replace(&mut write.unseen, true)).then(|| write.after.clone());
            let computed = commit.writes.iter_mut().map(computed).collect();
            let untouched = since.iter().filter(|since| since.untouched).map(|since| since.key.clone());
            self.repeated.insert(*number, Repeated { untouched: untouched.collect(), computed });
        }
        since.into_iter().map(|since| (since.key, since.read)).collect()
    }
}

impl Buffer {
    /// Hands out at most `commits_max` transactions that can go to the store now; nothing if all that waits is on its
    /// way or behind it.
    pub fn next_work(&mut self, commits_max: usize) -> Option<Work> {
        let mut lanes: Vec<(u64, Lane)> = self
            .lanes
            .iter()
            .filter(|(_, state)| !state.busy)
            .filter_map(|(lane, state)| state.waiting.first().map(|first| (*first, *lane)))
            .collect();
        lanes.sort_unstable();
        let mut unknown = Vec::new();
        for (_, lane) in lanes {
            let (claimed, numbers) = self.walk(lane, commits_max.min(BATCH_COMMITS_MAX));
            let Some(first) = numbers.first().and_then(|number| there(self.entries.get(number))) else { continue };
            match self.unsettled(first) {
                Some((Seen::Overtaken, keys)) => return Some(Work::Overtaken(first.buffered.number, keys)),
                Some((_, keys)) => return Some(Work::Compare(self.set_out(numbers, Vec::new(), claimed), keys)),
                None => {}
            }
            match self.build(&numbers) {
                Ok(commits) => {
                    self.slow_carried |= commits.iter().any(|commit| commit.patience > 1);
                    return Some(Work::Carry(self.set_out(numbers, commits, claimed)));
                }
                Err(key) => unknown.push(key),
            }
        }
        (!unknown.is_empty()).then_some(Work::Learn(unknown))
    }

    pub(super) fn set_out(&mut self, numbers: Vec<u64>, commits: Vec<Commit>, lanes: Vec<Lane>) -> Batch {
        for number in &numbers {
            if let Some(entry) = self.entries.get_mut(number) {
                entry.stage = Stage::Carried;
            }
        }
        for lane in &lanes {
            self.lanes.entry(*lane).or_default().busy = true;
        }
        self.suspicions += 1;
        Batch { numbers, commits, lanes, suspicions: self.suspicions, repeated: BTreeMap::new() }
    }

    /// The longest run of transactions from the head of `lane`, and the lanes that they are in: always the one with the
    /// lowest number among the heads of those lanes, so none is overtaken in any of them. One of which the store has to
    /// say first what it was shown is alone.
    fn walk(&self, lane: Lane, commits_max: usize) -> (Vec<Lane>, Vec<u64>) {
        // Each lane with the last number that was taken from it.
        let mut claimed = vec![(lane, 0)];
        let (mut numbers, mut bytes) = (Vec::new(), 0);
        // Documents that somebody behind has read, or that the store is asked about first.
        let mut ended: HashSet<&Key, foldhash::quality::RandomState> = HashSet::default();
        let mut most = commits_max;
        while numbers.len() < most && bytes < BATCH_BYTES_MAX {
            let head = |(lane, last): &(Lane, u64)| {
                let waiting = &self.lanes.get(lane)?.waiting;
                waiting.range((Bound::Excluded(*last), Bound::Unbounded)).next().copied()
            };
            let Some(entry) = claimed.iter().filter_map(head).min().and_then(|number| self.entries.get(&number)) else {
                break;
            };
            most = most.min(entry.slow.together_max());
            if self.awaits_names(entry) || self.awaits_seen(entry) {
                break;
            }
            if entry.stage != Stage::Waiting || numbers.len() >= most || (self.slow_carried && entry.slow.is_slow()) {
                break;
            }
            let is_new = |lane: &&Lane| !claimed.iter().any(|(other, _)| other == *lane);
            let others: Vec<(Lane, u64)> = entry.ties.lanes.iter().filter(is_new).map(|lane| (*lane, 0)).collect();
            if others.iter().any(|(lane, _)| self.lanes.get(lane).is_some_and(|state| state.busy)) {
                break;
            }
            if !others.is_empty() && !mutation::on(Fault::LanesIgnored) {
                claimed.extend(others);
                continue;
            }
            let unsettled = self.unsettled(entry).is_some();
            // The first, so that no other waits for that note.
            if self.is_to_be_noted(entry) && !numbers.is_empty() {
                break;
            }
            let number = entry.buffered.number;
            let last = entry.buffered.writes.iter().enumerate();
            let last =
                last.filter(|(at, written)| self.is_read_behind(entry, written) || self.is_told_alone(entry, *at));
            let last: Vec<&Key> = last.map(|(_, written)| &written.key).collect();
            // What was read between, perhaps by one that is set aside, would be told as both have left it; and what is
            // sent behind another is not checked, so nobody knows what it was made to if the answer is lost.
            let goes_on = entry.buffered.writes.iter().any(|written| ended.contains(&written.key));
            if (unsettled && !numbers.is_empty()) || goes_on {
                break;
            }
            ended.extend(last);
            claimed.iter_mut().filter(|(lane, _)| entry.ties.lanes.contains(lane)).for_each(|(_, last)| *last = number);
            bytes += entry.bytes;
            numbers.push(number);
            if unsettled {
                break;
            }
        }
        let used = claimed.into_iter().filter(|(_, last)| *last > 0).map(|(lane, _)| lane).collect();
        (used, numbers)
    }

    /// The commits of `numbers`, each with its documents as they are behind it; the key of one that is not known.
    pub(super) fn build(&self, numbers: &[u64]) -> Result<Vec<Commit>, Key> {
        // What they hold behind those before; none if that is not known.
        let mut values: HashMap<&Key, Option<Option<Value>>, foldhash::quality::RandomState> = HashMap::default();
        let mut commits = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(entry) = there(self.entries.get(number)) else { continue };
            let mut commit = entry.buffered.to_commit();
            commit.patience = entry.slow.patience();
            commit.checks.extend(self.checks_of_shown(entry));
            let known = ByKey::new(&entry.buffered.known);
            for (written, write) in entry.buffered.writes.iter().zip(&mut commit.writes) {
                let before = match values.remove(&written.key) {
                    Some(value) => value,
                    None => self.rows.get(&written.key).and_then(|row| row.stored.clone()),
                };
                match after(written, before, &known) {
                    Some(mut after) => {
                        // Each of many appends would be made anew beside what all of them come to.
                        let latest = self.rows.get(&written.key).and_then(|row| row.latest.as_ref()?.as_ref());
                        if let (Some(after), Some(latest)) = (&mut after, latest) {
                            after.share(latest);
                        }
                        if mutation::on(Fault::WholeDocumentDrained) {
                            let whole = after.clone().map_or(Change::Delete, Change::Put);
                            write.changes = [whole].into_iter().collect();
                        }
                        // For those behind it.
                        if self.rows.get(&written.key).is_some_and(|row| row.queue.len() > 1) {
                            values.insert(&written.key, Some(after.clone()));
                        }
                        write.after = after;
                    }
                    None if self.computed => return Err(written.key.clone()),
                    None => write.unseen = true,
                }
            }
            values.extend(taken_along(entry).map(|key| (key, None)));
            commits.push(commit);
        }
        Ok(commits)
    }

    /// The store has applied the first of `batch`, as many as `changed` has lists, and the journal says so.
    pub fn applied(&mut self, batch: &Batch, changed: &[Vec<(Key, Read)>]) -> Applied {
        let (mut emptied, mut restamped, mut right) = (Vec::new(), Vec::new(), Right::default());
        let moved = self.moved_by(batch, changed);
        for ((number, commit), changed) in batch.numbers.iter().zip(&batch.commits).zip(changed) {
            let stored = Stored::new(commit, changed);
            self.restamp(*number, &stored, &mut restamped);
            self.settle_readers(*number, commit, &stored, batch.repeated.get(number), &mut right);
            if batch.repeated.contains_key(number) {
                let untold = (0..commit.writes.len()).filter(|at| stored.at(*at).is_none());
                self.suspect(untold.map(|at| &commit.writes[at].key));
            }
            emptied.extend(self.remove(*number, Some(&stored)));
            if let Some(Repeated { untouched, .. }) = batch.repeated.get(number) {
                self.forget_made_to(
                    commit.writes.iter().map(|write| &write.key).filter(|key| !untouched.contains(key)),
                );
            }
        }
        // Once each: all that waits for it is made to it again.
        let applied = batch.commits.iter().zip(changed).flat_map(|(commit, _)| commit.writes.iter());
        let guessed = |key: &&Key| self.rows.get(*key).is_some_and(|row| row.image.guessed);
        // The store has filled it, or had nothing to fill.
        let filled = applied.map(|write| &write.key).filter(guessed);
        let mut told: Vec<&Key> = changed.iter().flatten().map(|(key, _)| key).chain(filled).collect();
        told.sort_unstable();
        told.dedup();
        // What came out as computed leaves all behind it as it was: of many that wait none is made again.
        told.retain(|key| !self.is_as_computed(key, batch, changed.len()));
        for key in told {
            // What was computed is out of date: what others wrote was merged.
            let Some((stored, base)) = self.rows.get_mut(key).map(|row| (row.stored.clone(), row.image.base)) else {
                continue;
            };
            // Compared with what was shown, so that stays until then.
            if !stored.is_some_and(|stored| self.learn_on(key, &stored, base)) {
                self.forget_known(key, right.get(key).is_some_and(Option::is_some));
            }
        }
        self.doubt_answered(batch);
        // Behind all of the batch: its checks were made before any of it was.
        moved.iter().for_each(|moved| self.move_beside(moved));
        if !moved.is_empty() && !mutation::on(Fault::RestampedBeforeMove) {
            // What one of them left another behind it may have moved on: to a version that is known, or not.
            restamped.retain_mut(|(key, shown, stored)| {
                let now = self.stored_version(key, *shown);
                *stored = now.unwrap_or(*stored);
                now.is_some()
            });
        }
        restamped.retain(|(key, ..)| !self.is_to_be_moved(key));
        Applied { emptied, restamped, beside: moved.into_iter().map(|moved| moved.key).collect() }
    }

    /// Whether the first `count` of `batch` have left in the store what was computed of `key`, and what waits behind
    /// them is known by that.
    fn is_as_computed(&self, key: &Key, batch: &Batch, count: usize) -> bool {
        let row = self.rows.get(key).filter(|row| row.latest.is_some() && !row.image.guessed);
        row.is_some_and(|row| row.stored.is_some() && row.stored == batch.computed(key, count))
    }

    /// What waits for these documents is made to what the store had when it applied `batch`. Where the store was asked
    /// for one since, it may have said what others wrote behind that: it is asked again.
    fn doubt_answered(&mut self, batch: &Batch) {
        for key in batch.commits.iter().flat_map(|commit| commit.writes.iter().map(|write| &write.key)) {
            let image = self.rows.get_mut(key).map(|row| &mut row.image);
            let since =
                |image: &&mut Image| image.answered >= batch.suspicions && !mutation::on(Fault::AnswerOutlivesNews);
            if let Some(image) = image.filter(since) {
                image.suspected = Some(self.suspicions);
            }
        }
    }

    /// Remembers under which versions the store has the last documents of transaction `number`, if they are what was
    /// shown of them: else another program has changed them, or the store itself, or nobody knows, and who read them is
    /// overtaken.
    fn restamp(&mut self, number: u64, stored: &Stored<'_>, restamped: &mut Vec<(Key, Version, Version)>) {
        for (at, write) in stored.writes.iter().enumerate().filter(|_| !self.owned) {
            let Some(row) = self.rows.get(&write.key).filter(|row| row.queue.len() == 1) else { continue };
            let version = stored.version_at(at);
            if row.queue.front() != Some(&number) || version == Some(row.version) {
                continue;
            }
            let same = row.latest.is_some() && stored.at(at) == row.latest.as_ref().map(Option::as_ref);
            let version = version.filter(|_| same);
            self.restamped.add(&write.key, row.version, version);
            restamped.extend(version.map(|version| (write.key.clone(), row.version, version)));
        }
    }

    /// The version in the store of the document of `key` that was shown under `version`; none if it never had that.
    pub fn stored_version(&self, key: &Key, version: Version) -> Option<Version> {
        self.restamped.stored(key, version).filter(|version| !seen::is_edition(*version))
    }

    /// Whether anything was applied that is shown under another version than the store has.
    pub fn has_restamped(&self) -> bool {
        !self.restamped.is_empty()
    }

    /// The store has answered for `batch`, or not: what of it is still here waits again, to be sent under the same
    /// ids if the store `may_have` seen them.
    pub fn finish(&mut self, batch: Batch, may_have: bool) {
        self.slow_carried &= !batch.commits.iter().any(|commit| commit.patience > 1);
        if !self.settled.is_empty() {
            for write in batch.commits.iter().flat_map(|commit| &*commit.writes) {
                self.settled.remove(&write.key);
            }
        }
        for lane in &batch.lanes {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.busy = false;
                if state.waiting.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
        for (at, number) in batch.numbers.iter().enumerate() {
            let Some(entry) = self.entries.get_mut(number).filter(|entry| entry.stage == Stage::Carried) else {
                continue;
            };
            entry.stage = Stage::Waiting;
            // One that is compared takes no commits along.
            if let Some(commit) = batch.commits.get(at).filter(|_| may_have) {
                // As for those that are not sent again: what is not its base is not what is shown.
                let base = |key| self.rows.get(key).and_then(|row| row.image.made_on_the_way());
                let checks = commit.checks.iter().filter(|(key, version)| base(key) == Some(*version)).cloned();
                entry.proven.sent(&entry.buffered.writes, &checks.collect::<Vec<_>>());
                entry.buffered.sent = true;
                self.restored.is_sent(*number);
            }
        }
    }

    /// Others have changed these documents since transaction `number` saw them: the store has found that, or it was
    /// known before. What it writes is merged with that, so it is not checked again; true if nothing else stands in the
    /// way, false if it only read one of them, or if what it writes rests on what that held.
    pub fn overtaken(&mut self, number: u64, keys: &[Key]) -> bool {
        let noted = |key: &Key| matches!(self.seen_of(number, key), Some(Seen::Noted(_)));
        let noted: Vec<bool> = keys.iter().map(noted).collect();
        let Some(entry) = there(self.entries.get_mut(&number)) else { return true };
        let mut each = keys.iter().zip(&noted);
        let merged = each.all(|(key, noted)| *noted || (writes(entry, key) && !entry.rests_on(key)));
        if merged {
            entry.buffered.checks.retain(|(key, _)| !keys.contains(key));
        }
        // What was known before says nothing against what is known of the document by now.
        let found = |key: &&Key| !self.is_overtaken(number, key) || mutation::on(Fault::OvertakenForgets);
        for key in keys.iter().filter(found).collect::<Vec<_>>() {
            if let Some(row) = self.rows.get_mut(key) {
                (row.image.base, row.image.before) = (None, None);
            }
        }
        self.overtake(number, keys);
        merged
    }

    /// Whether it is known that the store has something else of `key` than transaction `number` was shown.
    fn is_overtaken(&self, number: u64, key: &Key) -> bool {
        self.seen_of(number, key) == Some(Seen::Overtaken)
    }

    /// What has become of what transaction `number` was shown of `key`, if it was.
    fn seen_of(&self, number: u64, key: &Key) -> Option<Seen> {
        let entry = self.entries.get(&number)?;
        entry.seen.get(entry.shown_at.find(&entry.buffered.shown, key)?).copied()
    }

    /// Applies transaction `number` whatever its checks say.
    pub fn uncheck(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.buffered.checks.clear();
        }
        self.forget_seen(number);
    }
}

/// The document behind a write, if it was `before`, or by what is `known`; none if that can't be said.
fn after(written: &Written, before: Option<Option<Value>>, known: &ByKey<'_, (Key, Read)>) -> Option<Option<Value>> {
    let mut value = match before {
        Some(value) => value,
        None if stands_alone(&written.changes) => None,
        None => return known.get(&written.key).map(|(_, read)| read.value.clone()),
    };
    apply_all(&mut value, &written.changes).ok().map(|()| value)
}
