//! Several documents of one row, before engine and gate: two records that name different columns of it, and a list in
//! one more. Only our own clients write. So each document reads as the commands before have left its row, and nothing
//! is set aside. In the end each row is what its commands make of it.

mod operator;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay::Key;
use forebay::cache::Context;
use forebay::change::{Change, End};
use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{Gate, LaneRule};
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::{Resolved, Store};
use forebay::txn::{Ahead, Committing, Documents, Engine, Executed, Mode, Plan, TxnError};
use futures_util::lock::Mutex as AsyncMutex;

use self::operator::Operator;
use self::table::{DOCUMENTS, LIST, Place, ROWS, Row, Table, blob, key, place};
use crate::book::{broken, expect};
use crate::client::lock;
use crate::gate::finds;
use crate::rows::{DRAIN_MAX, SEEDS_PER_REPEATED, SEEDS_PER_RUN, away, drained, gate_on};
use crate::seeds::{caught, seeds};
use crate::world::engine;

const CLIENTS: u64 = 3;
/// Transactions of each.
const STEPS: u64 = 25;

/// Whether what it is made to was not seen, and what was changed.
type Written = (bool, Vec<(Place, Change)>);

/// What was counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    shown: u64,
    refused: u64,
    written: u64,
    unseen: u64,
    beside: u64,
    buffered: u64,
    merged: u64,
    aside: u64,
}

impl Counted {
    fn add(&mut self, other: Counted) {
        self.shown += other.shown;
        self.refused += other.refused;
        self.written += other.written;
        self.unseen += other.unseen;
        self.beside += other.beside;
        self.buffered += other.buffered;
        self.merged += other.merged;
        self.aside += other.aside;
    }
}

struct Client {
    engine: Engine,
    gate: Gate,
    /// The table refuses transactions.
    refuses: bool,
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
                if let Some(model) = held.get_mut(&written.0) {
                    changed.into_iter().for_each(|((_, document), change)| model.apply(document, &[change]));
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

    /// The table, and all that is shown of it, is what commands have made of the rows.
    async fn compare(&mut self, table: &Table) {
        let rows = self.rows.clone();
        for (row, left) in rows.iter().enumerate() {
            let (left, stored) = (left.lock().await.clone(), table.row(row));
            expect(stored == left, "a row is what its commands make of it", || format!("{stored:?}, not {left:?}"));
            let places: Vec<Place> = (0..DOCUMENTS.len()).map(|document| (row, document)).collect();
            self.look(&places, &BTreeMap::from([(row, left)])).await;
        }
    }

    fn refused(&mut self, error: &TxnError) {
        let may_be = matches!(error, TxnError::StoreDown(_) | TxnError::Conflict(_) | TxnError::Unknown(_))
            || (self.refuses && matches!(error, TxnError::Refused(_)));
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

    /// One command, in a transaction that reads another document, or none; one of the same row is looked at again and
    /// written after the command. What it has changed, if it is committed.
    async fn write(
        &mut self,
        read: Option<Place>,
        written: Place,
        rows: &BTreeMap<usize, Row>,
    ) -> Vec<(Place, Change)> {
        let (change, blind) = self.command(written);
        let own = key(written);
        let mut locks = vec![lock(own.clone(), Mode::Exclusive, true)];
        let beside = read.filter(|read| read.0 == written.0);
        let mode = if beside.is_some() { Mode::Exclusive } else { Mode::Shared };
        locks.extend(read.map(|read| lock(key(read), mode, true)));
        locks.sort_by(|one, other| one.key.cmp(&other.key));
        let plan = Plan { locks, blind, ..Plan::default() };
        let execute = |documents: &mut Documents| -> Result<Written, Written> {
            for key in read.iter().map(|read| key(*read)).chain([own.clone()]) {
                if !documents.unseen(key.borrow()) {
                    is_as(documents, &key, rows);
                }
            }
            let unseen = documents.unseen(own.borrow());
            // A pop tells what it takes, or that there is nothing.
            if matches!(change, Change::Pop(_)) && documents.value(own.borrow()) == Ok(None) {
                return Ok((unseen, Vec::new()));
            }
            let changed = documents.change(own.borrow(), change.clone());
            changed.unwrap_or_else(|error| broken("rows take their commands", error.to_string()));
            let second =
                beside.filter(|_| !unseen).and_then(|beside| write_beside(documents, beside, written.1, &change, rows));
            Ok((unseen, [(written, change.clone())].into_iter().chain(second).collect()))
        };
        match self.engine.execute(&plan, Context::default(), &mut Ahead::default(), execute).await {
            Ok(Executed::Done((unseen, changes), committing)) => {
                self.counted.unseen += u64::from(unseen);
                self.counted.beside += u64::from(changes.len() > 1);
                if self.is_applied(committing).await { changes } else { Vec::new() }
            }
            Ok(Executed::WatchFailed | Executed::Stale(_)) => broken("watch", "nothing was watched"),
            Err(error) => {
                self.refused(&error);
                Vec::new()
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

/// Looks at a document and writes it, after `first` was made to another one of its row, unless that has made or
/// deleted the row, so that nothing is known. What it has changed.
fn write_beside(
    documents: &mut Documents,
    (row, document): Place,
    written: usize,
    first: &Change,
    rows: &BTreeMap<usize, Row>,
) -> Option<(Place, Change)> {
    let key = key((row, document));
    if documents.unseen(key.borrow()) {
        return None;
    }
    let mut model = rows[&row].clone();
    model.apply(written, std::slice::from_ref(first));
    let moved = model.there != rows[&row].there;
    match documents.value(key.borrow()) {
        Ok(shown) => expect(shown == model.read((row, document)).as_ref(), "documents of a row see each other", || {
            format!("{key} is {shown:?} after {first:?}: {model:?}")
        }),
        Err(error) => expect(moved && model.there, "documents of a row are shown", || error.to_string()),
    }
    let number = blob("9");
    let change = match (document, first) {
        (LIST, _) => Change::Push(End::Right, number),
        // The row goes, with what was written first.
        (_, Change::Push(..) | Change::UnsetField(_)) => Change::Delete,
        _ => Change::SetField(blob("a"), number),
    };
    match documents.change(key.borrow(), change.clone()) {
        Ok(()) => Some(((row, document), change)),
        Err(error) => {
            expect(moved || *first == Change::Delete, "rows take their commands", || error.to_string());
            None
        }
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
    run_lives(seed, 1)
}

/// Likewise of one whose process is killed twice, when all that was asked of it is answered.
fn run_killed(seed: u64) -> (Counted, u64) {
    run_lives(seed, 3)
}

/// What was counted of a run whose table refuses transactions until an operator mends it. The process is killed once.
fn run_refused(seed: u64) -> (Counted, u64) {
    run_over(seed, 2, 2 + seed % 9)
}

fn run_lives(seed: u64, lives: u64) -> (Counted, u64) {
    run_over(seed, lives, 0)
}

fn run_over(seed: u64, lives: u64, refuses: u64) -> (Counted, u64) {
    let (mut random, table, journal) = (SplitMix::new(seed ^ 0x51b1), Arc::new(Table::default()), Lossy::new());
    let rows: Arc<Vec<AsyncMutex<Row>>> = Arc::new((0..ROWS).map(|row| AsyncMutex::new(Row::new(row))).collect());
    let waited = Arc::new(AtomicU64::new(0));
    let (mut all, mut log) = (Counted::default(), 0);
    for life in 0..lives {
        let simulation = Simulation::new(seed ^ life << 32);
        let runtime = simulation.runtime();
        let gate = gate_on(&journal, &runtime, away(&runtime, table.clone(), &mut random), &mut random);
        let engine = engine(&runtime, Arc::new(gate.clone()), &mut random, Arc::default());
        engine.start_watching();
        let last = life + 1 == lives;
        if refuses > 0 {
            let (runtime, gate, table, waited) = (runtime.clone(), gate.clone(), table.clone(), waited.clone());
            let operator =
                Operator { runtime: runtime.clone(), gate, table, waited, random: SplitMix::new(random.draw()) };
            runtime.spawn(operator.run(refuses));
        }
        let counted = live(&simulation, (&engine, &gate, refuses > 0), &rows, &mut random, last.then(|| table.clone()));
        all.add(counted);
        log ^= simulation.log_hash().rotate_left(life as u32);
        drop((engine, gate, simulation));
        journal.crash(|_| None);
        table.open_again();
    }
    (all, log)
}

/// Clients at work, until all of them have ended; until all is in the table `behind` them, if that is given.
fn live(
    simulation: &Simulation,
    (engine, gate, refuses): (&Engine, &Gate, bool),
    rows: &Arc<Vec<AsyncMutex<Row>>>,
    random: &mut SplitMix,
    behind: Option<Arc<Table>>,
) -> Counted {
    let client = |random: SplitMix| {
        let (rows, counted) = (rows.clone(), Counted::default());
        Client { engine: engine.clone(), gate: gate.clone(), refuses, random, rows, counted }
    };
    let clients: Vec<Client> = (0..CLIENTS).map(|_| client(SplitMix::new(random.draw()))).collect();
    let mut last = client(random.clone());
    let counted = Arc::new(Mutex::new(Counted::default()));
    let (sum, runtime) = (counted.clone(), simulation.runtime());
    let ended = simulation.run(async move {
        let started = clients.into_iter().map(|client| {
            let (sender, ends) = futures_channel::oneshot::channel();
            runtime.spawn(async move {
                let _ = sender.send(client.run().await);
            });
            ends
        });
        let mut all = Counted::default();
        for ends in started.collect::<Vec<_>>() {
            all.add(ends.await.unwrap_or_else(|_| broken("progress", "a client ended in the middle")));
        }
        if let Some(table) = behind {
            table.mend();
            // The operator is at it.
            let began = runtime.elapsed();
            while refuses && last.gate.state().amount.transactions > 0 {
                expect(runtime.elapsed() - began < DRAIN_MAX, "all is carried over", || {
                    format!("{:?}", last.gate.with_buffer(|buffer| buffer.quarantine_list()))
                });
                runtime.sleep(Duration::from_millis(1)).await;
            }
            drained(&runtime, &last.gate).await;
            last.compare(&table).await;
        }
        all.add(last.counted);
        *sum.lock().unwrap_or_else(PoisonError::into_inner) = all;
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    engine.validate();
    gate.validate();
    let mut counted = *counted.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = gate.state().counts;
    (counted.buffered, counted.merged, counted.aside) = (counts.buffered, counts.merged, counts.quarantined);
    counted
}

/// Runs seeds, some of them twice. Answers how many transactions were set aside.
fn run_seeds(test: &str, run: impl Fn(u64) -> (Counted, u64)) -> u64 {
    let (mut all, seeds) = (Counted::default(), seeds());
    let count = (seeds.end - seeds.start).div_ceil(SEEDS_PER_RUN);
    let seeds = seeds.start..seeds.start + count;
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation {test}");
        let ran = caught(|| run(seed)).unwrap_or_else(|(oracle, what)| panic!("{oracle}: {what}; repeat: {repeat}"));
        assert!(seed % SEEDS_PER_REPEATED > 0 || run(seed) == ran, "seed {seed} ran differently: {repeat}");
        all.add(ran.0);
    }
    println!("{seeds:?}: {all:?}");
    let happened = [all.shown, all.refused, all.written, all.unseen, all.beside, all.buffered, all.merged];
    assert!(happened.iter().all(|count| *count > 0) && all.merged < all.buffered, "{all:?}");
    all.aside
}

#[test]
fn documents_that_share_rows() {
    assert_eq!(run_seeds("documents_that_share_rows", run), 0);
}

#[test]
fn documents_that_share_rows_over_kills() {
    assert_eq!(run_seeds("documents_that_share_rows_over_kills", run_killed), 0);
}

#[test]
fn documents_that_share_rows_of_which_some_wait_for_an_operator() {
    assert!(run_seeds("documents_that_share_rows_of_which_some_wait_for_an_operator", run_refused) > 0);
}

#[test]
fn the_gate_of_shared_rows() {
    finds(&[(Fault::MadeBesideUnseen, 100), (Fault::MovedByOurselves, 100), (Fault::BesideUnmoved, 100)], run);
    finds(&[(Fault::DefaultsGuessed, 100), (Fault::UnsetTakenForGone, 300), (Fault::EmptiedListUnmade, 20_000)], run);
    finds(&[(Fault::NotedVersionKept, 2_000)], run_killed);
    finds(&[(Fault::MadeToBeforeMove, 500)], run_refused);
    // Seldom met: tests of the buffer alone find these two as well.
    if std::env::var_os("FOREBAY_NIGHTLY").is_some() {
        finds(&[(Fault::CachedBeforeMove, 20_000)], run);
        finds(&[(Fault::TakenAlongUnmerged, 20_000)], run_refused);
    }
}

/// DEL of a list empties a column: the row stays, with its other documents.
#[test]
fn a_list_that_is_deleted_leaves_its_row() {
    let takes_along = |document: usize| {
        let (key, changes) = (key((0, document)), [Change::Delete]);
        let written = std::iter::once((&key, &changes[..]));
        LaneRule { serial: false }.ties(&Table::default(), written, [].iter()).takes_along.len()
    };
    assert_eq!([takes_along(0), takes_along(LIST)], [2, 0]);
    let _on = mutation::put_back(Some(Fault::ListTakesRowAlong));
    assert_eq!(takes_along(LIST), 2);
}
