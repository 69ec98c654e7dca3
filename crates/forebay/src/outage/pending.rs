//! Buffered transactions and the order in which they go to the store. No I/O: the gate journals what this says, the
//! drain carries over what this hands out.
//!
//! A transaction gets its number when it is taken in, while its locks are held: so numbers rise along every dependency.
//! Each document that one of them writes has a row here: the queue of their numbers, and the document as it is with all
//! of them applied. That value is what is read while anything is pending; so a read never asks the store which of the
//! ids are applied. (The paper merges the deltas of a document with what the store holds; where an ambiguous write
//! landed, that shows a change twice.)
//!
//! **Invariants.** What is not in the journal is neither shown nor carried over. A row exists exactly as long as its
//! queue is not empty. Within a lane, transactions are handed out in the order of their numbers, and nothing of a lane
//! while something of it is on its way. Behind one that is quarantined, whatever writes one of its documents waits. The
//! bytes charged are the sum over entries and rows, at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use hashbrown::HashMap;

use super::lanes::{Lane, Lanes};
use super::record::{Buffered, Pending as Found, Record, Standing, Written};
use crate::change::{Change, apply_all, compact};
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::{Commit, Write};
use crate::value::{Value, blob_bytes};
use crate::version::{TxnId, Version};

/// Transactions that are handed out at once.
pub const BATCH_COMMITS_MAX: usize = 1000;

/// Bytes, as charged, after which a batch ends.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// Charged per transaction and per row beside what they hold.
const ENTRY_BYTES: usize = 256;
const ROW_BYTES: usize = 192;

/// Why a transaction can't be buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that it needs.
    pub needed: usize,
    /// Bytes that are left.
    pub room: usize,
}

/// All that is buffered.
pub struct Buffer {
    bytes_max: usize,
    /// Only we write to the store, and it takes the documents as we computed them.
    owned: bool,
    next_number: u64,
    entries: BTreeMap<u64, Entry>,
    rows: HashMap<Key, Row, foldhash::quality::RandomState>,
    lanes: HashMap<Lane, LaneState, foldhash::quality::RandomState>,
    bytes: usize,
    quarantined: usize,
    /// Transactions behind quarantined ones.
    behind: usize,
    ids: BTreeSet<TxnId>,
}

struct Entry {
    buffered: Buffered,
    lanes: Lanes,
    stage: Stage,
    bytes: usize,
}

/// Where a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// It is on its way to the journal; perhaps another is replaced by it.
    Writing { replaces: Option<u64> },
    /// It waits for its turn.
    Waiting,
    /// Merged into one that is on its way to the journal.
    Replaced,
    /// On its way to the store.
    Carried,
    /// Behind one that is quarantined.
    Behind,
    /// The store refuses it, for this reason.
    Quarantined(String),
}

/// One document that pending transactions write.
struct Row {
    queue: VecDeque<u64>,
    /// The document with all of its queue that is journaled; none if that is not known.
    latest: Option<Option<Value>>,
    version: Version,
    /// The document as the store has it: with all applied that went before. None if that is not known.
    stored: Option<Option<Value>>,
    bytes: usize,
}

#[derive(Default)]
struct LaneState {
    waiting: BTreeSet<u64>,
    busy: bool,
}

/// What a read of a document finds here.
#[derive(Clone, Debug, PartialEq)]
pub enum Merged {
    /// Nothing: the store knows.
    Nothing,
    /// The document with all changes that wait for it.
    Known(Read),
    /// Changes wait, and what they change is not known before the store was asked ([`Buffer::learn`]).
    Unknown,
}

/// Transactions on their way to the store; to be given back by [`Buffer::finish`].
#[derive(Debug)]
pub struct Batch {
    /// Their numbers, in order.
    pub numbers: Vec<u64>,
    /// What they are for the store.
    pub commits: Vec<Commit>,
    /// Lanes that wait for it.
    lanes: Vec<Lane>,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Work {
    /// Carry these over.
    Carry(Batch),
    /// Read these documents and [`Buffer::learn`] what they hold.
    Learn(Vec<Key>),
}

/// How much is buffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Transactions, quarantined ones included.
    pub transactions: usize,
    /// Transactions that the store can take without an operator.
    pub waiting: usize,
    /// Transactions that wait for an operator, and those behind them not counted.
    pub quarantined: usize,
    /// Documents.
    pub documents: usize,
    /// Bytes charged.
    pub bytes: usize,
}

impl Buffer {
    /// Nothing, and room for `bytes_max`.
    pub fn new(bytes_max: usize, owned: bool, next_number: u64) -> Buffer {
        Buffer {
            bytes_max,
            owned,
            next_number: next_number.max(1),
            entries: BTreeMap::new(),
            rows: HashMap::default(),
            lanes: HashMap::default(),
            bytes: 0,
            quarantined: 0,
            behind: 0,
            ids: BTreeSet::new(),
        }
    }

    /// Takes a transaction in; what it answers is to be journaled, then [`Buffer::written`] or [`Buffer::withdraw`]
    /// is to be called with its number. With `merge` it may take the place of the one before it on its document.
    pub fn take(
        &mut self,
        commit: &Commit,
        lanes: Lanes,
        sent: bool,
        merge: bool,
        now_ms: u64,
    ) -> Result<(u64, Record), Full> {
        let number = self.next_number;
        let mut buffered = Buffered::from_commit(number, commit, now_ms);
        buffered.sent = sent;
        if sent && mutation::on(Fault::AmbiguousUnderNewId) {
            buffered.id = another(buffered.id);
        }
        // A document with a queue was read from it, so its version is not the store's.
        buffered.checks.retain(|(key, _)| !self.rows.contains_key(key));
        let replaces = if merge && !sent { self.mergeable(&buffered, &lanes) } else { None };
        if let Some(old) = replaces.and_then(|old| self.entries.get(&old)) {
            let changes = old.buffered.writes.iter().flat_map(|write| write.changes.iter().cloned());
            let written = &mut buffered.writes[0];
            if !stands_alone(&written.changes) {
                written.changes = compact(changes.chain(std::mem::take(&mut written.changes)).collect());
            }
            buffered.given.extend(old.buffered.given.iter().cloned());
            buffered.buffered_at_ms = old.buffered.buffered_at_ms;
        }
        for (at, write) in commit.writes.iter().enumerate() {
            // Those on their way to the store may be gone when the journal is read again.
            let carried = |number: &u64| self.entries.get(number).is_some_and(|entry| entry.stage == Stage::Carried);
            let mut before = self.rows.get(&write.key).into_iter().flat_map(|row| row.queue.iter().rev());
            let first = before.find(|number| replaces != Some(**number)).is_none_or(carried);
            if first && !stands_alone(&buffered.writes[at].changes) {
                let value = write.after.clone().map(Value::compact);
                buffered.known.push((write.key.clone(), Read { value, version: commit.version }));
            }
        }
        let bytes = entry_bytes(&buffered);
        let rows: usize = commit.writes.iter().map(|write| self.row_growth(&write.key, write.after.as_ref())).sum();
        let room = self.bytes_max.saturating_sub(self.bytes);
        if bytes + rows > room {
            return Err(Full { needed: bytes + rows, room });
        }
        self.next_number += 1;
        for write in &commit.writes {
            let row = self.rows.entry(write.key.compact()).or_insert_with_key(|key| Row {
                queue: VecDeque::new(),
                latest: None,
                version: Version::ZERO,
                stored: None,
                bytes: row_bytes(key, None),
            });
            if row.queue.is_empty() {
                self.bytes += row.bytes;
            }
            row.queue.push_back(number);
        }
        if let Some(old) = replaces.and_then(|old| self.entries.get_mut(&old)) {
            old.stage = Stage::Replaced;
        }
        let record = match replaces {
            Some(old) => Record::Merged { into: buffered.clone(), from: vec![old] },
            None => Record::Buffered(buffered.clone()),
        };
        self.insert(Entry { buffered, lanes, stage: Stage::Writing { replaces }, bytes });
        Ok((number, record))
    }

    fn insert(&mut self, entry: Entry) {
        let number = entry.buffered.number;
        for lane in &entry.lanes {
            let state = self.lanes.entry(*lane).or_default();
            if !(state.busy && mutation::on(Fault::LaneForgotten)) {
                state.waiting.insert(number);
            }
        }
        self.bytes += entry.bytes;
        self.ids.insert(entry.buffered.id);
        self.entries.insert(number, entry);
    }

    /// The transaction that `buffered` may take the place of: its neighbour on their one document, which the store has
    /// never seen. Only where documents are independent, since it moves behind all that came between.
    fn mergeable(&self, buffered: &Buffered, lanes: &Lanes) -> Option<u64> {
        let single = |buffered: &Buffered| buffered.writes.len() == 1 && buffered.checks.is_empty();
        if !single(buffered) || !matches!(lanes.as_slice(), [Lane::Hashed(_)]) {
            return None;
        }
        let last = *self.rows.get(&buffered.writes[0].key)?.queue.back()?;
        let entry = self.entries.get(&last)?;
        let alike = single(&entry.buffered) && !entry.buffered.sent && entry.stage == Stage::Waiting;
        alike.then_some(last)
    }

    /// What a row's charge grows by if its document becomes `after`.
    fn row_growth(&self, key: &Key, after: Option<&Value>) -> usize {
        let now = self.rows.get(key).map_or(0, |row| row.bytes);
        row_bytes(key, after).saturating_sub(now)
    }

    /// Transaction `number` is in the journal: from now on it is shown, as `after` says, and carried over when its
    /// turn comes. Answers the one that it has replaced.
    pub fn written(&mut self, number: u64, after: &[Write]) -> Option<u64> {
        let entry = self.entries.get(&number)?;
        let (version, replaces) = match entry.stage {
            Stage::Writing { replaces } => (entry.buffered.version, replaces),
            _ => return None,
        };
        if let Some(old) = replaces {
            self.remove(old, None);
        }
        for write in after {
            if let Some(row) = self.rows.get_mut(&write.key) {
                self.bytes -= row.bytes;
                row.latest = Some(write.after.clone().map(Value::compact));
                row.version = version;
                row.recharge(&write.key);
                self.bytes += row.bytes;
            }
        }
        self.settle_stage(number);
        replaces
    }

    /// Waiting, or behind one that is quarantined.
    fn settle_stage(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        let stuck = |other: &u64| {
            *other < number
                && self.entries.get(other).is_some_and(|o| matches!(o.stage, Stage::Quarantined(_) | Stage::Behind))
        };
        let rows = entry.buffered.writes.iter().filter_map(|write| self.rows.get(&write.key));
        let behind = self.quarantined > 0 && rows.flat_map(|row| &row.queue).any(stuck);
        let lanes = entry.lanes.clone();
        if let Some(entry) = self.entries.get_mut(&number) {
            self.behind -= usize::from(entry.stage == Stage::Behind);
            self.behind += usize::from(behind);
            entry.stage = if behind { Stage::Behind } else { Stage::Waiting };
        }
        for lane in lanes {
            let waiting = &mut self.lanes.entry(lane).or_default().waiting;
            match behind {
                true => drop(waiting.remove(&number)),
                false if mutation::on(Fault::LaneForgotten) => {}
                false => drop(waiting.insert(number)),
            }
        }
        self.forget_idle_lanes(number);
    }

    /// Transaction `number` did not reach the journal: it was never there.
    pub fn withdraw(&mut self, number: u64) {
        if let Some(Entry { stage: Stage::Writing { replaces: Some(old) }, .. }) = self.entries.get(&number) {
            let old = *old;
            if let Some(old) = self.entries.get_mut(&old) {
                old.stage = Stage::Waiting;
            }
            self.settle_stage(old);
        }
        self.remove(number, None);
    }

    /// Takes a transaction out; `stored` are its documents as the store has them now, where that was told. Answers
    /// the documents that nothing waits for any more.
    fn remove(&mut self, number: u64, stored: Option<&[Write]>) -> Vec<Key> {
        let Some(entry) = self.entries.remove(&number) else { return Vec::new() };
        self.bytes -= entry.bytes;
        self.ids.remove(&entry.buffered.id);
        match entry.stage {
            Stage::Quarantined(_) => self.quarantined -= 1,
            Stage::Behind => self.behind -= 1,
            _ => {}
        }
        for lane in &entry.lanes {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.waiting.remove(&number);
                if state.waiting.is_empty() && !state.busy {
                    self.lanes.remove(lane);
                }
            }
        }
        let mut emptied = Vec::new();
        for (at, write) in entry.buffered.writes.iter().enumerate() {
            let Some(row) = self.rows.get_mut(&write.key) else { continue };
            match row.queue.front() == Some(&number) {
                true if stored.is_some() && mutation::on(Fault::QueueTrimmedWhole) => row.queue.clear(),
                true => drop(row.queue.pop_front()),
                false => row.queue.retain(|other| *other != number),
            }
            self.bytes -= row.bytes;
            if row.queue.is_empty() {
                self.rows.remove(&write.key);
                emptied.push(write.key.clone());
                continue;
            }
            if let Some(stored) = stored.and_then(|stored| stored.get(at)) {
                row.stored = Some(stored.after.clone());
            }
            row.recharge(&write.key);
            self.bytes += row.bytes;
        }
        emptied
    }

    fn forget_idle_lanes(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        for lane in entry.lanes.clone() {
            if self.lanes.get(&lane).is_some_and(|state| state.waiting.is_empty() && !state.busy) {
                self.lanes.remove(&lane);
            }
        }
    }

    /// What is known of `key` here.
    pub fn merged(&self, key: &Key) -> Merged {
        match self.rows.get(key) {
            None => Merged::Nothing,
            Some(Row { latest: Some(value), version, .. }) => {
                Merged::Known(Read { value: value.clone(), version: *version })
            }
            // Its first transaction is on its way to the journal, under its lock: nobody else may know.
            Some(row) if self.only_writing(row) => Merged::Nothing,
            Some(_) => Merged::Unknown,
        }
    }

    fn only_writing(&self, row: &Row) -> bool {
        let writing = |number| self.entries.get(number).is_some_and(|e| matches!(e.stage, Stage::Writing { .. }));
        row.queue.iter().all(writing)
    }

    /// The store says that it holds `read` for `key`: with what waits behind it, the document is known again. False if
    /// that can't be said, since the store may have seen something that waits.
    pub fn learn(&mut self, key: &Key, read: &Read) -> bool {
        let Some(row) = self.rows.get(key) else { return true };
        if row.latest.is_some() && row.stored.is_some() {
            return true;
        }
        let mut value = read.value.clone();
        let mut version = read.version;
        for number in &row.queue {
            let Some(entry) = self.entries.get(number) else { continue };
            if matches!(entry.stage, Stage::Writing { .. }) {
                continue;
            }
            if entry.buffered.sent || entry.stage == Stage::Carried {
                return false;
            }
            if let Some(write) = entry.buffered.writes.iter().find(|write| write.key == *key) {
                // What does not fit is what the store will refuse.
                let _ = apply_all(&mut value, &write.changes);
                version = entry.buffered.version;
            }
        }
        let Some(row) = self.rows.get_mut(key) else { return true };
        self.bytes -= row.bytes;
        (row.latest, row.stored, row.version) = (Some(value), Some(read.value.clone()), version);
        row.recharge(key);
        self.bytes += row.bytes;
        true
    }

    /// Number of transactions in these lanes that will go to the store by themselves.
    pub fn waiting_in(&self, lanes: &[Lane]) -> usize {
        let count = |lane| self.lanes.get(lane).map_or(0, |state| state.waiting.len());
        lanes.iter().map(count).max().unwrap_or(0)
    }

    /// Whether a transaction that writes `keys` in `lanes` has to queue: something waits there that it must not
    /// overtake, quarantined or not.
    pub fn must_queue<'a>(&self, lanes: &[Lane], mut keys: impl Iterator<Item = &'a Key>) -> bool {
        lanes.iter().any(|lane| self.lanes.contains_key(lane)) || keys.any(|key| self.rows.contains_key(key))
    }

    /// Hands out at most `commits_max` transactions that can go to the store now; nothing if all that waits is on its way
    /// or behind it.
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
            if numbers.is_empty() {
                continue;
            }
            match self.build(&numbers) {
                Ok(commits) => {
                    for number in &numbers {
                        if let Some(entry) = self.entries.get_mut(number) {
                            entry.stage = Stage::Carried;
                        }
                    }
                    for lane in &claimed {
                        self.lanes.entry(*lane).or_default().busy = true;
                    }
                    return Some(Work::Carry(Batch { numbers, commits, lanes: claimed }));
                }
                Err(key) => unknown.push(key),
            }
        }
        (!unknown.is_empty()).then_some(Work::Learn(unknown))
    }

    /// The longest run of transactions from the head of `lane`, and the lanes that they are in: always the one with the
    /// lowest number among the heads of those lanes, so none is overtaken in any of them.
    fn walk(&self, lane: Lane, commits_max: usize) -> (Vec<Lane>, Vec<u64>) {
        // Each lane with the last number that was taken from it.
        let mut claimed = vec![(lane, 0)];
        let (mut numbers, mut bytes) = (Vec::new(), 0);
        while numbers.len() < commits_max && bytes < BATCH_BYTES_MAX {
            let head = |(lane, last): &(Lane, u64)| {
                let waiting = &self.lanes.get(lane)?.waiting;
                waiting.range((Bound::Excluded(*last), Bound::Unbounded)).next().copied()
            };
            let Some(entry) = claimed.iter().filter_map(head).min().and_then(|number| self.entries.get(&number)) else {
                break;
            };
            if entry.stage != Stage::Waiting {
                break;
            }
            let is_new = |lane: &&Lane| !claimed.iter().any(|(other, _)| other == *lane);
            let others: Vec<(Lane, u64)> = entry.lanes.iter().filter(is_new).map(|lane| (*lane, 0)).collect();
            if others.iter().any(|(lane, _)| self.lanes.get(lane).is_some_and(|state| state.busy)) {
                break;
            }
            if !others.is_empty() && !mutation::on(Fault::LanesIgnored) {
                claimed.extend(others);
                continue;
            }
            let number = entry.buffered.number;
            claimed.iter_mut().filter(|(lane, _)| entry.lanes.contains(lane)).for_each(|(_, last)| *last = number);
            bytes += entry.bytes;
            numbers.push(number);
        }
        let used = claimed.into_iter().filter(|(_, last)| *last > 0).map(|(lane, _)| lane).collect();
        (used, numbers)
    }

    /// The commits of `numbers`, each with its documents as they are behind it; the key of one that is not known.
    fn build(&self, numbers: &[u64]) -> Result<Vec<Commit>, Key> {
        let mut values: HashMap<&Key, Option<Value>, foldhash::quality::RandomState> = HashMap::default();
        let mut commits = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(entry) = self.entries.get(number) else { continue };
            let mut commit = entry.buffered.to_commit();
            for (written, write) in entry.buffered.writes.iter().zip(&mut commit.writes) {
                let before = match values.remove(&written.key) {
                    Some(value) => Some(value),
                    None => self.rows.get(&written.key).and_then(|row| row.stored.clone()),
                };
                match self.after(entry, written, before) {
                    Some(after) => {
                        write.after.clone_from(&after);
                        values.insert(&written.key, after);
                    }
                    None if self.owned => return Err(written.key.clone()),
                    None => {}
                }
            }
            commits.push(commit);
        }
        Ok(commits)
    }

    fn after(&self, entry: &Entry, written: &Written, before: Option<Option<Value>>) -> Option<Option<Value>> {
        let mut value = match before {
            Some(value) => value,
            None if stands_alone(&written.changes) => None,
            None => {
                let known = entry.buffered.known.iter().find(|(key, _)| *key == written.key);
                return known.map(|(_, read)| read.value.clone());
            }
        };
        apply_all(&mut value, &written.changes).ok().map(|()| value)
    }

    /// The store has applied the first `count` of `batch`, with results other than computed where `changed` says so.
    /// Answers the transactions that will be the first of their documents behind these, and the documents as they are
    /// behind them: to be journaled before it says that these are applied, or a restart would not know them.
    pub fn heads(&mut self, batch: &Batch, count: usize, changed: &[(Key, Read)]) -> Vec<(u64, Key, Read)> {
        let applied: BTreeSet<u64> = batch.numbers.iter().take(count).copied().collect();
        let mut results: HashMap<&Key, Option<&Value>, foldhash::quality::RandomState> = HashMap::default();
        for write in batch.commits.iter().take(count).flat_map(|commit| &commit.writes) {
            results.insert(&write.key, write.after.as_ref());
        }
        results.extend(changed.iter().map(|(key, read)| (key, read.value.as_ref())));
        let mut heads = Vec::new();
        for (key, value) in results {
            let Some(row) = self.rows.get(key) else { continue };
            let Some(number) = row.queue.iter().find(|number| !applied.contains(number)).copied() else { continue };
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            let buffered = &mut entry.buffered;
            let Some(written) = buffered.writes.iter().find(|write| write.key == *key) else { continue };
            if stands_alone(&written.changes) || buffered.known.iter().any(|(known, _)| known == key) {
                continue;
            }
            let mut value = value.cloned();
            if apply_all(&mut value, &written.changes).is_ok() {
                let read = Read { value, version: buffered.version };
                // Not charged: it is what the row holds, or held.
                buffered.known.push((key.clone(), read.clone()));
                heads.push((number, key.clone(), read));
            }
        }
        heads.sort_unstable_by(|(left, a, _), (right, b, _)| (left, a).cmp(&(right, b)));
        heads
    }

    /// The store has applied the first `count` of `batch`, and the journal says so. Answers the documents that nothing
    /// waits for any more.
    pub fn applied(&mut self, batch: &Batch, count: usize, changed: &[(Key, Read)]) -> Vec<Key> {
        let mut emptied = Vec::new();
        for (number, commit) in batch.numbers.iter().zip(&batch.commits).take(count) {
            let mut stored = commit.writes.clone();
            for write in &mut stored {
                if let Some((_, read)) = changed.iter().find(|(key, _)| *key == write.key) {
                    write.after.clone_from(&read.value);
                }
            }
            emptied.extend(self.remove(*number, Some(&stored)));
        }
        for (key, _) in changed {
            // What was computed is out of date: what others wrote was merged.
            if let Some(row) = self.rows.get_mut(key) {
                row.latest = None;
                if let Some(stored) = row.stored.take() {
                    self.learn(key, &Read { value: stored, version: Version::ZERO });
                }
            }
        }
        emptied
    }

    /// The store has answered for `batch`, or not: what of it is still here waits again, to be sent under the same
    /// ids if the store `may_have` seen them.
    pub fn finish(&mut self, batch: Batch, may_have: bool) {
        for lane in &batch.lanes {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.busy = false;
                if state.waiting.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
        for number in &batch.numbers {
            if let Some(entry) = self.entries.get_mut(number)
                && entry.stage == Stage::Carried
            {
                entry.buffered.sent |= may_have;
                entry.stage = Stage::Waiting;
            }
        }
    }

    /// The store found these documents of transaction `number` changed by others. What it writes is merged with that,
    /// so it is not checked again; true if nothing else stands in the way, false if it only read one of them.
    pub fn overtaken(&mut self, number: u64, keys: &[Key]) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return true };
        let writes = &entry.buffered.writes;
        let merged = keys.iter().all(|key| writes.iter().any(|write| write.key == *key));
        if merged {
            entry.buffered.checks.retain(|(key, _)| !keys.contains(key));
        }
        merged
    }

    /// Applies transaction `number` whatever its checks say.
    pub fn uncheck(&mut self, number: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.buffered.checks.clear();
        }
    }

    /// Sets transaction `number` aside, and what is built on it; all before it in its lanes is applied or set aside.
    pub fn quarantine(&mut self, number: u64, why: String) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if !matches!(entry.stage, Stage::Quarantined(_)) {
            self.quarantined += 1;
        }
        entry.stage = Stage::Quarantined(why);
        let lanes = entry.lanes.clone();
        for lane in lanes {
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.waiting.remove(&number);
            }
        }
        self.forget_idle_lanes(number);
        self.sort_out();
    }

    /// Looks again at who has to wait behind whom.
    fn sort_out(&mut self) {
        let open = |entry: &Entry| matches!(entry.stage, Stage::Waiting | Stage::Behind);
        let numbers: Vec<u64> = self.entries.iter().filter(|(_, e)| open(e)).map(|(number, _)| *number).collect();
        for number in numbers {
            self.settle_stage(number);
        }
    }

    /// Has transaction `number` tried again; false if it is not quarantined.
    pub fn retry(&mut self, number: u64) -> bool {
        match self.entries.get_mut(&number) {
            Some(entry) if matches!(entry.stage, Stage::Quarantined(_)) => entry.stage = Stage::Waiting,
            _ => return false,
        }
        self.quarantined -= 1;
        self.sort_out();
        true
    }

    /// Gives transaction `number` up. Answers its documents, which are not what they were; nothing if it is not
    /// quarantined.
    pub fn give_up(&mut self, number: u64) -> Option<Vec<Key>> {
        let entry = self.entries.get(&number)?;
        if !matches!(entry.stage, Stage::Quarantined(_)) {
            return None;
        }
        let keys: Vec<Key> = entry.buffered.writes.iter().map(|write| write.key.clone()).collect();
        self.remove(number, None);
        for key in &keys {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                (row.latest, row.stored) = (None, None);
                row.recharge(key);
                self.bytes += row.bytes;
                let queue = row.queue.clone();
                for number in queue {
                    if let Some(entry) = self.entries.get_mut(&number) {
                        entry.buffered.known.retain(|(known, _)| known != key);
                    }
                }
            }
        }
        self.sort_out();
        Some(keys)
    }

    /// Takes in what the journal held at the start, in the order of the numbers.
    pub fn restore(&mut self, found: Found, lanes: Lanes) {
        let Found { mut buffered, standing } = found;
        // Nobody knows whether it was on its way when the process ended.
        buffered.sent = true;
        if mutation::on(Fault::RestoredUnderNewId) {
            buffered.id = another(buffered.id);
        }
        let number = buffered.number;
        self.next_number = self.next_number.max(number + 1);
        for write in &buffered.writes {
            let row = self.rows.entry(write.key.clone()).or_insert_with_key(|key| Row {
                queue: VecDeque::new(),
                latest: None,
                version: Version::ZERO,
                stored: None,
                bytes: row_bytes(key, None),
            });
            if row.queue.is_empty() {
                self.bytes += row.bytes;
            }
            row.queue.push_back(number);
            self.bytes -= row.bytes;
            let known = buffered.known.iter().find(|(key, _)| *key == write.key).map(|(_, read)| read.value.clone());
            let fold = |before: Option<Value>| {
                let mut value = before;
                apply_all(&mut value, &write.changes).ok().map(|()| value)
            };
            row.latest = match (known, row.latest.take()) {
                (Some(value), _) => Some(value),
                (None, _) if stands_alone(&write.changes) => fold(None),
                (None, Some(before)) => fold(before),
                (None, None) => None,
            };
            row.version = buffered.version;
            row.recharge(&write.key);
            self.bytes += row.bytes;
        }
        let bytes = entry_bytes(&buffered);
        let quarantined = match standing {
            Standing::Waiting => None,
            Standing::Quarantined(why) => Some(why),
        };
        self.insert(Entry { buffered, lanes, stage: Stage::Waiting, bytes });
        match quarantined {
            Some(why) => self.quarantine(number, why),
            None => self.settle_stage(number),
        }
    }

    /// Finds the lanes of all transactions anew: the store's tables are known now. Nothing may be on its way to it.
    pub fn sort_into_lanes(&mut self, lanes_of: impl Fn(&Buffered) -> Lanes) {
        self.lanes.clear();
        for (number, entry) in &mut self.entries {
            debug_assert!(entry.stage != Stage::Carried);
            entry.lanes = lanes_of(&entry.buffered);
            if !matches!(entry.stage, Stage::Behind | Stage::Quarantined(_)) {
                for lane in &entry.lanes {
                    self.lanes.entry(*lane).or_default().waiting.insert(*number);
                }
            }
        }
    }

    /// The oldest id that may still be sent: the store must not forget it, nor any behind it.
    pub fn oldest_id(&self) -> Option<TxnId> {
        self.ids.first().copied()
    }

    /// When the oldest transaction was buffered, ms since the Unix epoch.
    pub fn oldest_ms(&self) -> Option<u64> {
        self.entries.values().next().map(|entry| entry.buffered.buffered_at_ms)
    }

    /// How much there is.
    pub fn amount(&self) -> Amount {
        Amount {
            transactions: self.entries.len(),
            waiting: self.entries.len() - self.quarantined - self.behind,
            quarantined: self.quarantined,
            documents: self.rows.len(),
            bytes: self.bytes,
        }
    }

    /// Whether transaction `number` is here, and why it is quarantined if it is.
    pub fn standing(&self, number: u64) -> Option<Standing> {
        let entry = self.entries.get(&number)?;
        Some(match &entry.stage {
            Stage::Quarantined(why) => Standing::Quarantined(why.clone()),
            _ => Standing::Waiting,
        })
    }

    /// The numbers of at most `limit` transactions that wait for `key`, or of all, behind `after`.
    pub fn numbers(&self, key: Option<&Key>, after: u64, limit: usize) -> Vec<u64> {
        match key {
            Some(key) => {
                let queue = self.rows.get(key).into_iter().flat_map(|row| row.queue.iter().copied());
                queue.filter(|number| *number > after).take(limit).collect()
            }
            None => self.entries.range(after + 1..).map(|(number, _)| *number).take(limit).collect(),
        }
    }

    /// Transaction `number`, as it was buffered.
    pub fn buffered(&self, number: u64) -> Option<&Buffered> {
        self.entries.get(&number).map(|entry| &entry.buffered)
    }

    /// Numbers and reasons of what is quarantined.
    pub fn quarantine_list(&self) -> Vec<(u64, String)> {
        let why = |(number, entry): (&u64, &Entry)| match &entry.stage {
            Stage::Quarantined(why) => Some((*number, why.clone())),
            _ => None,
        };
        if self.quarantined == 0 { Vec::new() } else { self.entries.iter().filter_map(why).collect() }
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        let entries: usize = self.entries.values().map(|entry| entry.bytes).sum();
        let rows: usize = self.rows.values().map(|row| row.bytes).sum();
        assert_eq!(self.bytes, entries + rows, "bytes");
        for (key, row) in &self.rows {
            assert!(!row.queue.is_empty() && row.queue.iter().is_sorted(), "the queue of {key}: {:?}", row.queue);
            assert_eq!(row.bytes, row.charge(key), "{key}");
            let writes = |number: &u64| self.entries[number].buffered.writes.iter().any(|write| write.key == *key);
            assert!(row.queue.iter().all(writes), "{key} is queued for what writes it");
        }
        for (number, entry) in &self.entries {
            let waits = !matches!(entry.stage, Stage::Behind | Stage::Quarantined(_));
            for lane in &entry.lanes {
                let queued = self.lanes.get(lane).is_some_and(|state| state.waiting.contains(number));
                assert_eq!(waits, queued, "{number} {:?} in {lane:?}", entry.stage);
            }
            for write in &entry.buffered.writes {
                assert!(self.rows[&write.key].queue.contains(number), "{number} in the queue of {}", write.key);
            }
        }
        let quarantined = self.entries.values().filter(|entry| matches!(entry.stage, Stage::Quarantined(_))).count();
        assert_eq!(self.quarantined, quarantined);
        assert_eq!(self.behind, self.entries.values().filter(|entry| entry.stage == Stage::Behind).count());
        assert_eq!(self.ids.len(), self.entries.len());
    }
}

impl Row {
    fn charge(&self, key: &Key) -> usize {
        let latest = self.latest.as_ref().and_then(Option::as_ref);
        let stored = self.stored.as_ref().and_then(Option::as_ref);
        row_bytes(key, latest) + stored.map_or(0, Value::size)
    }

    fn recharge(&mut self, key: &Key) {
        self.bytes = self.charge(key);
    }
}

/// Another id, for faults.
fn another(TxnId(version): TxnId) -> TxnId {
    TxnId(Version { sequence: version.sequence + (1 << 32), ..version })
}

/// Whether the document behind `changes` does not depend on the one before.
fn stands_alone(changes: &[Change]) -> bool {
    matches!(changes.first(), Some(Change::Put(_) | Change::Delete))
}

fn row_bytes(key: &Key, latest: Option<&Value>) -> usize {
    ROW_BYTES + key.heap_bytes() + latest.map_or(0, Value::size)
}

fn entry_bytes(buffered: &Buffered) -> usize {
    let writes = buffered.writes.iter();
    let written =
        writes.map(|write| write.key.heap_bytes() + write.changes.iter().map(change_bytes).sum::<usize>() + 64);
    let checks: usize = buffered.checks.iter().map(|(key, _)| key.heap_bytes() + 48).sum();
    let known: usize = buffered.known.iter().map(|(_, read)| read.value.as_ref().map_or(0, Value::size) + 96).sum();
    ENTRY_BYTES + written.sum::<usize>() + checks + known + buffered.given.len() * 48
}

fn change_bytes(change: &Change) -> usize {
    let held = match change {
        Change::Put(value) => value.size(),
        Change::SetField(field, value) => blob_bytes(field.len()) + blob_bytes(value.len()),
        Change::Append(blob) | Change::Push(_, blob) | Change::UnsetField(blob) => blob_bytes(blob.len()),
        Change::AddMember(blob) | Change::RemoveMember(blob) => blob_bytes(blob.len()),
        Change::RemoveEqual { element, .. } => blob_bytes(element.len()),
        Change::WriteAt { bytes, .. } => blob_bytes(bytes.len()),
        Change::AddInteger { field, .. } => field.as_ref().map_or(0, |field| blob_bytes(field.len())),
        Change::AddFloat { field, delta } => {
            field.as_ref().map_or(0, |field| blob_bytes(field.len())) + blob_bytes(delta.len())
        }
        Change::Delete | Change::ExpireAt(_) | Change::Persist | Change::Pop(_) => 0,
    };
    size_of::<Change>() + held
}
