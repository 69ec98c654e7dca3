//! Several documents of one row, before engine and gate: two records that name different columns of it, and a list in
//! one more. Only our own clients write. So each document reads as the commands before have left its row, and nothing
//! is set aside. In the end each row is what its commands make of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::cache::Context;
use forebay::change::{Change, End, apply_all};
use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay::outage::{Gate, LaneRule};
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::forms::{OnDelete, RowForm};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, Form, Outside, ReadError, Resolved, Store, Write, forms};
use forebay::txn::{Ahead, Committing, Documents, Engine, Executed, Mode, Plan, TxnError};
use forebay::{Blob, Key, Read, TxnId, Value};
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use crate::book::{broken, expect};
use crate::client::lock;
use crate::gate::finds;
use crate::rows::{SEEDS_PER_REPEATED, SEEDS_PER_RUN, away, drained, gate};
use crate::seeds::{caught, seeds};
use crate::world::engine;

const ROWS: usize = 3;
const CLIENTS: u64 = 3;
/// Transactions of each.
const STEPS: u64 = 25;

/// What shares a row: two records, then a list.
const DOCUMENTS: [&str; 3] = ["left", "right", "list"];
const LIST: usize = 2;

/// A document: its row, and which of that.
type Place = (usize, usize);

fn key((row, document): Place) -> Key {
    Key::new(0, format!("{}:{row}", DOCUMENTS[document]).as_bytes())
}

fn place(key: &Key) -> Place {
    let name = String::from_utf8_lossy(key.name()).into_owned();
    let found = name
        .split_once(':')
        .and_then(|(document, row)| Some((row.parse().ok()?, DOCUMENTS.iter().position(|name| *name == document)?)));
    found.unwrap_or_else(|| broken("rows", format!("{name} is in none")))
}

fn blob(text: &str) -> Blob {
    Blob::from(text.as_bytes())
}

fn form((row, document): Place) -> Form {
    match document {
        LIST => Form::List,
        _ => {
            let key = [(blob("id"), blob(&row.to_string()))].into_iter().collect();
            Form::Row(RowForm { key, on_delete: OnDelete::Row })
        }
    }
}

/// One row, or none; a list without elements is no document.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    there: bool,
    columns: BTreeMap<(usize, Blob), Blob>,
    list: Option<Value>,
}

impl Row {
    fn apply(&mut self, document: usize, changes: &[Change]) {
        for change in changes {
            let makes = !matches!(change, Change::Delete | Change::UnsetField(_) | Change::Pop(_));
            self.there |= makes && !matches!(change, Change::RemoveEqual { .. });
            match change {
                _ if document == LIST => {
                    let applied = apply_all(&mut self.list, std::slice::from_ref(change));
                    applied.unwrap_or_else(|error| broken("values", error.to_string()));
                }
                Change::Delete => *self = Row::default(),
                Change::SetField(field, _) if **field == *b"id" => {}
                Change::SetField(field, value) => drop(self.columns.insert((document, field.clone()), value.clone())),
                Change::UnsetField(field) => drop(self.columns.remove(&(document, field.clone()))),
                Change::AddInteger { field: Some(field), delta } => {
                    let column = (document, field.clone());
                    let number = |value: &Blob| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
                    let before = self.columns.get(&column).and_then(number).unwrap_or(0);
                    self.columns.insert(column, blob(&(before + delta).to_string()));
                }
                other => broken("values", format!("no record takes {other:?}")),
            }
        }
    }

    fn read(&self, (row, document): Place) -> Option<Value> {
        if document == LIST {
            return self.list.clone();
        }
        let columns = self.columns.iter().filter(|((of, _), _)| *of == document);
        let set = columns.map(|((_, column), value)| Change::SetField(column.clone(), value.clone()));
        let made = [Change::SetField(blob("id"), blob(&row.to_string()))].into_iter().chain(set);
        let (mut value, made) = (None, made.collect::<Vec<_>>());
        let applied = if self.there { apply_all(&mut value, &made) } else { Ok(()) };
        applied.unwrap_or_else(|error| broken("values", error.to_string()));
        value
    }
}

/// The table, whose documents are read from `memory`: those of a row have one version.
struct Table {
    memory: Memory,
    rows: Mutex<(Vec<Row>, BTreeSet<TxnId>)>,
    watched: AsyncMutex<bool>,
}

impl Table {
    fn new() -> Table {
        let rows = Mutex::new((vec![Row::default(); ROWS], BTreeSet::new()));
        Table { memory: Memory::new(), rows, watched: AsyncMutex::new(false) }
    }

    fn rows(&self) -> MutexGuard<'_, (Vec<Row>, BTreeSet<TxnId>)> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        if self.rows().1.contains(&commit.id) {
            return CommitOutcome::Repeated(Vec::new());
        }
        if let Some(key) = forms::untaken(commit, |key| form(place(key))) {
            return CommitOutcome::Refused(format!("{key:?} is not taken"));
        }
        let (mut rows, mut touched) = (self.rows().0.clone(), BTreeSet::new());
        for write in &commit.writes {
            let (row, document) = place(&write.key);
            rows[row].apply(document, &write.changes);
            touched.insert(row);
        }
        let read = |key: &Key| Read { value: rows[place(key).0].read(place(key)), version: commit.version };
        let differs = |write: &&Write| write.unseen || read(&write.key).value != write.after;
        let changed = commit.writes.iter().filter(differs).map(|write| (write.key.clone(), read(&write.key)));
        let changed: Vec<(Key, Read)> = changed.collect();
        let all = touched.iter().flat_map(|row| (0..DOCUMENTS.len()).map(|document| key((*row, document))));
        let whole =
            |key: Key| Write { after: read(&key).value, key, changes: Default::default(), unseen: false, told: false };
        let made = Commit { writes: all.map(whole).collect(), ..commit.clone() };
        match self.memory.commit(std::slice::from_ref(&made)).await.pop() {
            Some(CommitOutcome::Committed(_)) => {
                let mut state = self.rows();
                state.0 = rows;
                state.1.insert(commit.id);
                CommitOutcome::Committed(changed)
            }
            Some(outcome) => outcome,
            None => broken("the store answers", "it does not"),
        }
    }
}

impl Store for Table {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: false, applies: true }
    }

    fn name(&self) -> String {
        "table".to_owned()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.memory.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let mut outcomes: Vec<CommitOutcome> = Vec::new();
            for commit in group {
                outcomes.push(match outcomes.last().is_none_or(CommitOutcome::is_applied) {
                    true => self.apply(commit).await,
                    false => CommitOutcome::Unavailable("behind one that was not applied".into()),
                });
            }
            outcomes
        })
    }

    fn form(&self, key: &Key) -> Form {
        form(place(key))
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        let (row, own) = place(key);
        (0..DOCUMENTS.len()).filter(|document| *document != own).map(|document| self::key((row, document))).collect()
    }

    /// It is watched from the start on, and others write nothing.
    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async {
            if !std::mem::replace(&mut *self.watched.lock().await, true) {
                return Some(Outside::Everything);
            }
            std::future::pending().await
        })
    }

    forebay::rest_of_store!(memory);
}

/// What was counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    shown: u64,
    refused: u64,
    written: u64,
    unseen: u64,
    buffered: u64,
    merged: u64,
}

impl Counted {
    fn add(&mut self, other: Counted) {
        self.shown += other.shown;
        self.refused += other.refused;
        self.written += other.written;
        self.unseen += other.unseen;
        self.buffered += other.buffered;
        self.merged += other.merged;
    }
}

struct Client {
    engine: Engine,
    gate: Gate,
    random: SplitMix,
    /// What commands have made of each row, for the holder of its lock.
    rows: Arc<Vec<AsyncMutex<Row>>>,
    counted: Counted,
}

impl Client {
    fn place(&mut self) -> Place {
        let below = |random: &mut SplitMix, bound: usize| random.below(bound as u64) as usize;
        (below(&mut self.random, ROWS), below(&mut self.random, DOCUMENTS.len()))
    }

    async fn run(mut self) -> Counted {
        for _ in 0..STEPS {
            let (read, written) = (self.place(), self.place());
            let rows = self.rows.clone();
            let mut held = BTreeMap::new();
            for row in BTreeSet::from([read.0, written.0]) {
                held.insert(row, rows[row].lock().await);
            }
            let models = held.iter().map(|(row, model)| (*row, (**model).clone())).collect();
            if self.random.below(3) == 0 {
                self.look(&[read, written], &models).await;
            } else {
                let read = Some(read).filter(|read| self.random.below(2) == 0 && *read != written);
                let changed = self.write(read, written, &models).await;
                if let (Some(change), Some(model)) = (changed, held.get_mut(&written.0)) {
                    model.apply(written.1, &[change]);
                }
            }
            drop(held);
            if self.random.below(2) == 0 {
                let pause = Duration::from_micros(self.random.below(5_000));
                self.engine.runtime().sleep(pause).await;
            }
        }
        self.counted
    }

    /// Reads documents of rows that stand as `rows` says.
    async fn look(&mut self, places: &[Place], rows: &BTreeMap<usize, Row>) {
        let mut keys: Vec<Key> = places.iter().map(|place| key(*place)).collect();
        keys.sort();
        keys.dedup();
        let refs: Vec<KeyRef<'_>> = keys.iter().map(Key::borrow).collect();
        if let Some(documents) = self.engine.read_published(&refs, &Context::default()) {
            keys.iter().for_each(|key| is_as(&documents, key, rows));
            self.counted.shown += 1;
            return;
        }
        let locks = keys.iter().map(|key| lock(key.clone(), Mode::Shared, true)).collect();
        let plan = Plan { locks, ..Plan::default() };
        let look = |documents: &mut Documents| {
            keys.iter().for_each(|key| is_as(documents, key, rows));
            Ok::<_, ()>(())
        };
        match self.engine.execute(&plan, Context::default(), &mut Ahead::default(), look).await {
            Ok(_) => self.counted.shown += 1,
            Err(error) => self.refused(&error),
        }
    }

    fn refused(&mut self, error: &TxnError) {
        let may_be = matches!(error, TxnError::StoreDown(_) | TxnError::Conflict(_) | TxnError::Unknown(_));
        expect(may_be, "rows take their commands", || error.to_string());
        self.counted.refused += 1;
    }

    /// A command on a document, and whether it may be taken without knowing that.
    fn command(&mut self, written: Place) -> (Change, bool) {
        let number = blob(&self.random.below(9).to_string());
        let field = blob(["a", "b"][self.random.below(2) as usize]);
        let blind = self.random.below(3) == 0;
        if written.1 == LIST {
            return match self.random.below(9) {
                0 | 1 => (Change::Delete, blind),
                2 => (Change::Pop(End::Left), false),
                3 => (Change::Pop(End::Right), false),
                _ => (Change::Push(End::Right, number), blind),
            };
        }
        match self.random.below(10) {
            0..=2 => (Change::Delete, blind),
            // HMSET tells nothing of what was there.
            3..=5 => (Change::SetField(field, number), true),
            6 => (Change::SetField(field, number), blind),
            7 => (Change::UnsetField(field), blind),
            _ => (Change::AddInteger { field: Some(field), delta: 1 }, blind),
        }
    }

    /// One command, in a transaction that reads another document, or none: what it has changed, if it is committed.
    async fn write(&mut self, read: Option<Place>, written: Place, rows: &BTreeMap<usize, Row>) -> Option<Change> {
        let (change, blind) = self.command(written);
        let own = key(written);
        let mut locks = vec![lock(own.clone(), Mode::Exclusive, true)];
        locks.extend(read.map(|read| lock(key(read), Mode::Shared, true)));
        locks.sort_by(|one, other| one.key.cmp(&other.key));
        let plan = Plan { locks, blind, ..Plan::default() };
        let execute = |documents: &mut Documents| {
            for key in read.iter().map(|read| key(*read)).chain([own.clone()]) {
                if !documents.unseen(key.borrow()) {
                    is_as(documents, &key, rows);
                }
            }
            let unseen = documents.unseen(own.borrow());
            // A pop tells what it takes, or that there is nothing.
            if matches!(change, Change::Pop(_)) && documents.value(own.borrow()) == Ok(None) {
                return Ok(unseen);
            }
            let changed = documents.change(own.borrow(), change.clone());
            changed.unwrap_or_else(|error| broken("rows take their commands", error.to_string()));
            Ok::<_, bool>(unseen)
        };
        match self.engine.execute(&plan, Context::default(), &mut Ahead::default(), execute).await {
            Ok(Executed::Done(unseen, committing)) => {
                self.counted.unseen += u64::from(unseen);
                self.is_applied(committing).await.then_some(change)
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => broken("watch", "nothing was watched"),
            Err(error) => {
                self.refused(&error);
                None
            }
        }
    }

    async fn is_applied(&mut self, committing: Committing) -> bool {
        let id = committing.id();
        let applied = match (committing.wait().await, id) {
            (Ok(_), _) => true,
            (Err(TxnError::Unknown(_)), Some(id)) => loop {
                match self.gate.outcome(id).await {
                    Ok(resolved) => break resolved == Resolved::Applied,
                    Err(_) => self.engine.runtime().sleep(Duration::from_millis(1)).await,
                }
            },
            (Err(error), _) => {
                self.refused(&error);
                false
            }
        };
        self.counted.written += u64::from(applied);
        applied
    }
}

/// What is shown of a document is what commands have left there.
fn is_as(documents: &Documents, key: &Key, rows: &BTreeMap<usize, Row>) {
    let shown = documents.value(key.borrow()).unwrap_or_else(|error| broken("values", error.to_string()));
    let (row, _) = place(key);
    let left = rows[&row].read(place(key));
    expect(shown == left.as_ref(), "a document is as its row was left", || format!("{key} is {shown:?}, not {left:?}"));
}

/// What was counted of a run, and the hash of its events.
fn run(seed: u64) -> (Counted, u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0x51b1));
    let (runtime, table) = (simulation.runtime(), Arc::new(Table::new()));
    let gate = gate(&runtime, away(&runtime, table.clone(), &mut random), &mut random);
    let engine = engine(&runtime, Arc::new(gate.clone()), &mut random, Arc::default());
    engine.start_watching();
    let (behind, counted) = ((engine.clone(), gate.clone()), Arc::new(Mutex::new(Counted::default())));
    let sum = counted.clone();
    let ended = simulation.run(async move {
        let rows: Arc<Vec<AsyncMutex<Row>>> = Arc::new((0..ROWS).map(|_| AsyncMutex::default()).collect());
        let client = |random: SplitMix| {
            let (rows, counted) = (rows.clone(), Counted::default());
            Client { engine: engine.clone(), gate: gate.clone(), random, rows, counted }
        };
        let started = (0..CLIENTS).map(|_| {
            let (sender, ends) = futures_channel::oneshot::channel();
            let client = client(SplitMix::new(random.draw()));
            runtime.spawn(async move {
                let _ = sender.send(client.run().await);
            });
            ends
        });
        let mut all = Counted::default();
        for ends in started.collect::<Vec<_>>() {
            all.add(ends.await.unwrap_or_else(|_| broken("progress", "a client ended in the middle")));
        }
        drained(&runtime, &gate).await;
        let mut last = client(random.clone());
        for row in 0..ROWS {
            let left = rows[row].lock().await.clone();
            let stored = table.rows().0[row].clone();
            expect(stored == left, "a row is what its commands make of it", || format!("{stored:?}, not {left:?}"));
            let places: Vec<Place> = (0..DOCUMENTS.len()).map(|document| (row, document)).collect();
            last.look(&places, &BTreeMap::from([(row, left)])).await;
        }
        all.add(last.counted);
        *sum.lock().unwrap_or_else(PoisonError::into_inner) = all;
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    let (engine, gate) = behind;
    engine.validate();
    gate.validate();
    let mut counted = *counted.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = gate.state().counts;
    (counted.buffered, counted.merged) = (counts.buffered, counts.merged);
    (counted, simulation.log_hash())
}

#[test]
fn documents_that_share_rows() {
    let (mut all, seeds) = (Counted::default(), seeds());
    let count = (seeds.end - seeds.start).div_ceil(SEEDS_PER_RUN);
    let seeds = seeds.start..seeds.start + count;
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation share_rows");
        let ran = caught(|| run(seed)).unwrap_or_else(|(oracle, what)| panic!("{oracle}: {what}; repeat: {repeat}"));
        assert!(seed % SEEDS_PER_REPEATED > 0 || run(seed) == ran, "seed {seed} ran differently: {repeat}");
        all.add(ran.0);
    }
    println!("{seeds:?}: {all:?}");
    let happened = [all.shown, all.refused, all.written, all.unseen, all.buffered, all.merged];
    assert!(happened.iter().all(|count| *count > 0) && all.merged < all.buffered, "{all:?}");
}

#[test]
fn the_gate_of_shared_rows() {
    finds(&[(Fault::MadeBesideUnseen, 100), (Fault::MovedByOurselves, 100)], run);
    finds(&[(Fault::UnsetTakenForGone, 300), (Fault::EmptiedListUnmade, 20_000)], run);
    finds(&[(Fault::CachedBeforeMove, 20_000)], run);
}

/// DEL of a list empties a column: the row stays, with its other documents.
#[test]
fn a_list_that_is_deleted_leaves_its_row() {
    let takes_along = |document: usize| {
        let (key, changes) = (key((0, document)), [Change::Delete]);
        let written = std::iter::once((&key, &changes[..]));
        LaneRule { serial: false }.ties(&Table::new(), written, [].iter()).takes_along.len()
    };
    assert_eq!([takes_along(0), takes_along(LIST)], [2, 0]);
    let _on = mutation::put_back(Some(Fault::ListTakesRowAlong));
    assert_eq!(takes_along(LIST), 2);
}
