//! Buffered transactions and the order in which they go to the store. No I/O: the gate journals what this says, and the
//! drain applies what this hands out.
//!
//! A transaction gets its number when it is taken in, while its locks are held: so numbers rise along every
//! dependency. Each document that one of them writes has a row here: the queue of their numbers, and the document with
//! all of them applied. That value is what is read while anything is pending, so a read need not ask which of the ids
//! the store has applied. The store is asked, once, for the document and the ids at one moment in two cases only
//! ([`Buffer::learn_behind`]): the document is not known, since it was written unseen, or others may have changed it.
//! (The paper merges deltas with what the store holds: an ambiguous write that landed is shown twice.) `seen` has what
//! was read of such a document, and by whom.
//!
//! **Invariants.** What is not in the journal is neither shown nor applied. A row exists exactly as long as its queue
//! is not empty. Within a lane, transactions are handed out in the order of their numbers. Nothing of a lane is
//! handed out while something of it is on its way. Behind one that is quarantined waits what writes one of its
//! documents, names one by a foreign key, or has read it. The bytes charged are the sum over entries and rows.

mod alone;
mod aside;
mod by_key;
mod charge;
mod doubts;
mod drain;
mod image;
mod known;
mod look;
mod moved;
mod named;
mod noted;
#[cfg(feature = "testing")]
mod print;
mod proven;
mod restamped;
mod restored;
mod seen;
mod slow;
mod stage;
mod take;
mod tied;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;

pub use alone::{Drift, Meets};
use by_key::Places;
use charge::row_bytes;
use doubts::Doubts;
pub use drain::Applied;
use drain::{Repeated, Stored};
use image::Image;
use proven::Proven;
use restamped::Restamped;
pub use restored::Asked;
use restored::Restored;
use seen::Seen;
use slow::Slow;
pub use slow::{PATIENCE_MAX, TRIES_ALONE_MAX, in_the_way};
use stage::Stage;
pub use take::Untaken;
use tied::Tied;

use super::lanes::{Lane, Ties};
use super::record::{Buffered, Written};
use crate::change::{Change, apply_all};
use crate::error::there;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::{Caps, Commit, Write};
use crate::value::Value;
use crate::version::{TxnId, Version};

/// Transactions that are handed out at once.
pub const BATCH_COMMITS_MAX: usize = 1000;

/// Bytes, as charged, after which a batch ends.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

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
    /// Only we write to the store.
    owned: bool,
    /// And it takes the documents as we computed them.
    computed: bool,
    next_number: u64,
    entries: BTreeMap<u64, Entry>,
    rows: HashMap<Key, Box<Row>, foldhash::quality::RandomState>,
    tied: Tied,
    lanes: HashMap<Lane, LaneState, foldhash::quality::RandomState>,
    bytes: usize,
    quarantined: usize,
    /// Transactions behind quarantined ones.
    behind: usize,
    /// Of these and those, the ones that delete rows of which is not known what they name.
    unnamed: BTreeSet<u64>,
    ids: BTreeSet<TxnId>,
    restamped: Restamped,
    restored: Restored,
    /// Versions given to documents that became other than they were shown, while the same transactions waited.
    editions: u64,
    /// What an operator has applied by itself, whatever it had read: each waits, or is on its way.
    ordered: BTreeSet<u64>,
    /// Rises whenever others are said to have changed something, and with each batch.
    suspicions: u64,
    doubts: Doubts,
    /// Documents of which all that waits is in the store, while the journal is told so: the version under which each is
    /// shown, and the one that the store has.
    settled: HashMap<Key, (Version, Version), foldhash::quality::RandomState>,
    /// One that takes long is on its way.
    slow_carried: bool,
}

#[derive(Debug)]
struct Entry {
    buffered: Buffered,
    ties: Ties,
    stage: Stage,
    /// Of each document that it was shown what has become of that.
    seen: Vec<Seen>,
    /// The journal is told that it is applied.
    noted: bool,
    /// What the rows that it deletes name, once the store was asked; it is while this is set aside.
    named: Option<Vec<Key>>,
    proven: Proven,
    /// Before the start, earlier ones became part of it.
    merged: bool,
    /// The first that became part of it since, or itself: so did all between that write its document.
    first: u64,
    slow: Slow,
    /// Where its documents stand among those that it writes, and that it was shown.
    written_at: Places,
    shown_at: Places,
    bytes: usize,
}

/// One document that pending transactions write. Boxed: the table of rows has room for many more.
#[derive(Debug)]
struct Row {
    queue: VecDeque<u64>,
    /// How many of them are quarantined, or behind such.
    stuck: usize,
    /// The document with all of its queue that is journaled; none if that is not known.
    latest: Option<Option<Value>>,
    version: Version,
    /// The document as the store has it: with all applied that went before. None if that is not known.
    stored: Option<Option<Value>>,
    image: Image,
    /// Something that waited was given up: what is on its way to the journal was computed with it.
    given_up: bool,
    bytes: usize,
}

#[derive(Debug, Default)]
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
    /// When it set out, as the buffer counts suspicions.
    suspicions: u64,
    /// Those that the store says it had already.
    repeated: BTreeMap<u64, Repeated>,
}

/// What waited for a document when the store was asked for it.
#[derive(Clone, Debug)]
pub struct Story {
    /// Numbers and ids, in order.
    pub waits: Vec<(u64, TxnId)>,
    /// How often anything had been suspected by then.
    suspicions: u64,
}

impl Story {
    /// The ids that the store is asked for.
    pub fn ids(&self) -> Vec<TxnId> {
        self.waits.iter().map(|(_, id)| *id).collect()
    }
}

/// What is to be done next.
#[derive(Debug)]
pub enum Work {
    /// Carry these over.
    Carry(Batch),
    /// Read these documents and [`Buffer::learn`] what they hold.
    Learn(Vec<Key>),
    /// Read these documents, which the only transaction of this batch has read, and [`Buffer::compare`] them.
    Compare(Batch, Vec<Key>),
    /// This transaction has read what is not so any more: these documents. It is the first of its lanes.
    Overtaken(u64, Vec<Key>),
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
    pub fn new(bytes_max: usize, caps: Caps, next_number: u64) -> Buffer {
        Buffer {
            bytes_max,
            owned: caps.owned,
            computed: caps.owned && !caps.applies,
            next_number: next_number.max(1),
            entries: BTreeMap::new(),
            rows: HashMap::default(),
            tied: Tied::default(),
            lanes: HashMap::default(),
            bytes: 0,
            quarantined: 0,
            behind: 0,
            unnamed: BTreeSet::new(),
            ids: BTreeSet::new(),
            restamped: Restamped::default(),
            restored: Restored::default(),
            editions: 0,
            ordered: BTreeSet::new(),
            suspicions: 0,
            doubts: Doubts::default(),
            settled: HashMap::default(),
            slow_carried: false,
        }
    }

    fn insert(&mut self, entry: Entry) {
        let number = entry.buffered.number;
        for lane in &entry.ties.lanes {
            let state = self.lanes.entry(*lane).or_default();
            if !(state.busy && mutation::on(Fault::LaneForgotten)) {
                state.waiting.insert(number);
            }
        }
        self.bytes += entry.bytes;
        self.ids.insert(entry.buffered.id);
        self.tied.add(number, &entry.ties);
        self.tied.add_readers(number, &entry.buffered.shown);
        self.entries.insert(number, entry);
    }

    /// Transaction `number` is in the journal: from now on it is shown, as `after` says, and applied when its
    /// turn comes. Answers the one that it has replaced.
    pub fn written(&mut self, number: u64, after: &[Write]) -> Option<u64> {
        let entry = self.entries.get(&number)?;
        let (version, replaces) = match entry.stage {
            Stage::Writing { replaces } => (self.left_by(entry.buffered.version), replaces),
            _ => return None,
        };
        self.forget_taken_along(number);
        if let Some(old) = replaces {
            self.remove(old, None);
        }
        for write in after {
            if let Some(row) = self.rows.get_mut(&write.key) {
                self.bytes -= row.bytes;
                row.given_up &= !stands_alone(&write.changes);
                row.take_in(write, self.entries.get(&number).and_then(|entry| entry.ties.fill(&write.key)));
                row.version = version;
                if row.queue.back() == Some(&number) && row.latest.is_some() && !self.owned {
                    // Not what the transaction computed, which may be a part of something larger.
                    row.show_latest();
                }
                row.recharge(&write.key);
                self.bytes += row.bytes;
            }
        }
        self.settle_stage(number);
        if self.entries.get(&number).is_some_and(|entry| entry.stage.is_behind()) {
            // Those that follow it may be in the journal already.
            self.sort_out(self.who_waits_for(number));
        }
        replaces
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
        let entry = there(self.entries.get(&number));
        let keys: Vec<Key> = entry.into_iter().flat_map(|e| e.buffered.writes.iter().map(|w| w.key.clone())).collect();
        self.remove(number, None);
        for key in &keys {
            self.show_latest(key);
        }
    }

    /// Takes a transaction out; `stored` are its documents as the store has them now, where that was told. Answers
    /// the documents that nothing waits for any more.
    fn remove(&mut self, number: u64, stored: Option<&Stored<'_>>) -> Vec<Key> {
        let Some(entry) = there(self.entries.remove(&number)) else { return Vec::new() };
        self.bytes -= entry.bytes;
        self.ids.remove(&entry.buffered.id);
        self.tied.remove(number, &entry.ties);
        self.tied.remove_readers(number, &entry.buffered.shown);
        self.tied.remove_named(number, entry.named.as_deref().unwrap_or_default());
        self.unnamed.remove(&number);
        self.ordered.remove(&number);
        self.quarantined -= usize::from(entry.stage.is_quarantined());
        self.behind -= usize::from(entry.stage.is_behind());
        for lane in &entry.ties.lanes {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.waiting.remove(&number);
                if state.waiting.is_empty() && !state.busy {
                    self.lanes.remove(lane);
                }
            }
        }
        let mut emptied = Vec::new();
        for (at, write) in entry.buffered.writes.iter().enumerate() {
            let row = self.rows.get_mut(&write.key);
            debug_assert!(row.is_some() || mutation::on(Fault::QueueTrimmedWhole), "what waits stands in its row");
            let Some(row) = row else { continue };
            match row.queue.front() == Some(&number) {
                true if stored.is_some() && mutation::on(Fault::QueueTrimmedWhole) => row.queue.clear(),
                true => drop(row.queue.pop_front()),
                false => row.queue.retain(|other| *other != number),
            }
            row.stuck -= usize::from(entry.stage.is_stuck());
            self.bytes -= row.bytes;
            if row.queue.is_empty() {
                self.rows.remove(&write.key);
                emptied.push(write.key.clone());
                continue;
            }
            if let Some(stored) = stored {
                row.left_as(stored.at(at).map(Option::<&Value>::cloned), stored.version_at(at));
            }
            row.recharge(&write.key);
            self.bytes += row.bytes;
        }
        for key in taken_along(&entry).filter(|_| stored.is_some()) {
            if let Some(row) = self.rows.get_mut(key) {
                self.bytes -= row.bytes;
                row.left_as(None, None);
                row.recharge(key);
                self.bytes += row.bytes;
            }
        }
        emptied
    }

    fn forget_idle_lanes(&mut self, number: u64) {
        let Some(entry) = there(self.entries.get(&number)) else { return };
        for lane in entry.ties.lanes.clone() {
            if self.lanes.get(&lane).is_some_and(|state| state.waiting.is_empty() && !state.busy) {
                self.lanes.remove(&lane);
            }
        }
    }

    /// What is known of `key` here.
    pub fn merged(&self, key: &Key) -> Merged {
        match self.rows.get(key).map(|row| &**row) {
            None => Merged::Nothing,
            Some(Row { latest: Some(value), version, image, .. }) if !image.is_guessed() => {
                Merged::Known(Read { value: value.clone(), version: *version })
            }
            // Its first transaction is on its way to the journal, under its lock: nobody else may know.
            Some(row) if self.only_writing(row) => Merged::Nothing,
            Some(_) => Merged::Unknown,
        }
    }

    /// Whether the last that waits for `key` only unsets fields. Where other documents share the row it does not say
    /// whether there is one: it was made to what could not be read, and leaves a row that one of them makes.
    pub fn only_unsets(&self, key: &Key) -> bool {
        let last = self.rows.get(key).and_then(|row| self.entries.get(row.queue.back()?));
        let written = last.and_then(|entry| entry.written(key));
        written.is_some_and(|write| write.changes.iter().all(|change| matches!(change, Change::UnsetField(_))))
    }

    fn only_writing(&self, row: &Row) -> bool {
        row.queue.iter().all(|number| self.is_writing(number))
    }

    fn is_writing(&self, number: &u64) -> bool {
        self.entries.get(number).is_some_and(|entry| matches!(entry.stage, Stage::Writing { .. }))
    }
}

impl Entry {
    fn new(buffered: Buffered, ties: Ties, stage: Stage, bytes: usize) -> Entry {
        let seen = vec![Seen::Image; buffered.shown.len()];
        let (noted, merged, named, slow) = (false, false, None, Slow::default());
        let proven = Proven::new(&buffered);
        let (written_at, shown_at) = (Places::of(&buffered.writes), Places::of(&buffered.shown));
        let first = buffered.number;
        Entry { buffered, ties, stage, seen, noted, named, proven, merged, first, slow, written_at, shown_at, bytes }
    }

    /// What it makes of the document of `key`, if it writes that.
    fn written(&self, key: &Key) -> Option<&Written> {
        self.written_at.find(&self.buffered.writes, key).map(|at| &self.buffered.writes[at])
    }
}

impl Row {
    fn new(key: &Key) -> Box<Row> {
        let bytes = row_bytes(key, None);
        let (queue, latest, stored, image) = (VecDeque::new(), None, None, Image::default());
        Box::new(Row { queue, stuck: 0, latest, version: Version::ZERO, stored, image, given_up: false, bytes })
    }

    fn charge(&self, key: &Key) -> usize {
        let latest = self.latest.as_ref().and_then(Option::as_ref);
        let stored = self.stored.as_ref().and_then(Option::as_ref);
        row_bytes(key, latest) + stored.map_or(0, Value::size)
    }

    fn recharge(&mut self, key: &Key) {
        self.bytes = self.charge(key);
    }
}

/// `value` with `changes`; none if they do not fit.
fn changed(mut value: Option<Value>, changes: &[Change]) -> Option<Option<Value>> {
    apply_all(&mut value, changes).ok().map(|()| value)
}

/// Documents that go with one which `entry` deletes, and that it does not write itself.
fn taken_along(entry: &Entry) -> impl Iterator<Item = &Key> {
    entry.ties.takes_along.iter().filter(|key| !writes(entry, key))
}

/// Whether `entry` writes the document of `key`.
fn writes(entry: &Entry, key: &Key) -> bool {
    entry.written(key).is_some()
}

/// Whether the document behind `changes` does not depend on the one before.
fn stands_alone(changes: &[Change]) -> bool {
    matches!(changes.first(), Some(Change::Put(_) | Change::Delete))
}

/// Whether `changes` make `value` of whatever was there before.
fn make_alone(changes: &[Change], value: Option<&Value>) -> bool {
    stands_alone(changes) && changed(None, changes).is_some_and(|made| made.as_ref() == value)
}

/// Another id, for faults.
fn another(TxnId(version): TxnId) -> TxnId {
    TxnId(Version { sequence: version.sequence + (1 << 32), ..version })
}
