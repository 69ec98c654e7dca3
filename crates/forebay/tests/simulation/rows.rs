//! Rows of a table behind the outage's gate, which merges what it buffers. Whatever the store does, no command is set
//! aside. In the end each row is what its commands make of it one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay::change::apply_all;
use forebay::mutation::Fault;
use forebay::outage::lossy::Lossy;
use forebay::outage::{BreakerSettings, Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, Mode};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, Form, ReadError, Resolved, Store, Write, forms};
use forebay::version::Mint;
use forebay::{Key, Read, TxnId};
use futures_util::future::BoxFuture;

use crate::book::{broken, expect};
use crate::detached::Detached;
use crate::gate::finds;
use crate::seeds::{caught, seeds};
use crate::table::Row;
use crate::world::slow;

/// Clients, each with a row of its own, and transactions of each.
const CLIENTS: u64 = 4;
const WRITES: u64 = 25;

/// One of so many seeds is run here, and one of so many of those twice.
pub const SEEDS_PER_RUN: u64 = 10;
pub const SEEDS_PER_REPEATED: u64 = 8;

/// Longest time that a drain takes after the last client has ended.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);

fn id(client: u64) -> String {
    client.to_string()
}

fn key(client: u64) -> Key {
    Key::new(0, format!("row:{client}").as_bytes())
}

/// The table, whose rows are read from `memory`.
struct Table {
    memory: Memory,
    rows: Mutex<(BTreeMap<Key, Row>, BTreeSet<TxnId>)>,
}

impl Table {
    fn new() -> Table {
        let rows = (0..CLIENTS).map(|client| (key(client), Row::new(&id(client)))).collect();
        Table { memory: Memory::new(), rows: Mutex::new((rows, BTreeSet::new())) }
    }

    fn row(&self, key: &Key) -> Row {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.0.get(key).cloned().unwrap_or_else(|| broken("rows", format!("{key} is none")))
    }

    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        if self.rows.lock().unwrap_or_else(PoisonError::into_inner).1.contains(&commit.id) {
            return CommitOutcome::Repeated(Vec::new());
        }
        if let Some(key) = forms::untaken(commit, |key| self.form(key)) {
            return CommitOutcome::Refused(format!("{key:?} is not taken"));
        }
        let (mut made, mut rows, mut changed) = (commit.clone(), BTreeMap::new(), Vec::new());
        for write in &mut made.writes {
            let mut row = self.row(&write.key);
            if let Err(why) = row.apply(&write.changes) {
                return CommitOutcome::Refused(why);
            }
            let value = row.read();
            if write.unseen || value != write.after {
                changed.push((write.key.clone(), Read { value: value.clone(), version: commit.version }));
            }
            (write.after, write.unseen) = (value, false);
            rows.insert(write.key.clone(), row);
        }
        match self.memory.commit(std::slice::from_ref(&made)).await.pop() {
            Some(CommitOutcome::Committed(_)) => {
                let mut all = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
                all.0.extend(rows);
                all.1.insert(commit.id);
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
        self.row(key).form()
    }

    forebay::rest_of_store!(memory);
}

pub fn gate(runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix) -> Gate {
    gate_on(&Lossy::new(), runtime, store, random)
}

/// Likewise with what `disk` has of the lives before.
pub fn gate_on(disk: &Lossy, runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix) -> Gate {
    let options = JournalOptions {
        durability: Durability::Always,
        bytes_max: 1 << 20,
        description: Description { mapping: String::new(), catalogue: String::new() },
    };
    let opened = Journal::open(runtime.clone(), disk.handle(), options);
    let (journal, found) = opened.unwrap_or_else(|error| broken("the journal opens", error.to_string()));
    let settings = GateSettings {
        breaker: BreakerSettings {
            failures_to_open: 1 + random.below(3) as u32,
            successes_to_close: 1,
            pause_ms: 1,
            pause_ms_max: 8,
        },
        bytes_max: 1 << 20,
        workers: 1 + random.below(3) as usize,
        write_back_ms: (random.below(3) == 0).then_some(5),
        ..GateSettings::default()
    };
    let (runtime, store, mapping) = (runtime.clone(), store, String::new());
    let opened = Gate::open(GateOptions { runtime, store, journal, found, settings, mapping, opens_late: false });
    opened.unwrap_or_else(|error| broken("the gate opens", error.to_string()))
}

/// A store that is slow, away now and then, and loses answers.
pub fn away(runtime: &Runtime, table: Arc<dyn Store>, random: &mut SplitMix) -> Arc<dyn Store> {
    let rate = [0, 20, 60][random.below(3) as usize];
    let outages = (0..1 + random.below(3)).map(|_| {
        let from = Duration::from_micros(random.below(40_000));
        (from, from + Duration::from_micros(random.below(40_000)))
    });
    let faults = Faults {
        outages: outages.collect(),
        read_per_mille: rate,
        portion_per_mille: 300,
        unavailable_per_mille: rate,
        unknown_applied_per_mille: rate,
        unknown_partial_per_mille: rate,
        outcome_per_mille: rate,
    };
    let store = Arc::new(Detached { runtime: runtime.clone(), store: slow(runtime, table, random) });
    Arc::new(Faulty::new(runtime.clone(), store, faults, random.draw()))
}

/// Whether a commit whose outcome is not known is applied.
async fn resolved(runtime: &Runtime, gate: &Gate, id: TxnId) -> bool {
    loop {
        match gate.outcome(id).await {
            Ok(resolved) => return resolved == Resolved::Applied,
            Err(_) => runtime.sleep(Duration::from_millis(1)).await,
        }
    }
}

/// The client of a row; answers what its commands make of that.
async fn client(runtime: Runtime, gate: Gate, number: u64, mut random: SplitMix) -> Row {
    let (key, mut row) = (key(number), Row::new(&id(number)));
    // What several clients mint must differ, and rise for each document.
    let mint = Mint::behind(forebay::Version { incarnation: gate.incarnation(), sequence: number * 1_000 });
    for _ in 0..WRITES {
        if random.below(2) == 0 {
            runtime.sleep(Duration::from_micros(random.below(5_000))).await;
        }
        let known = gate.get(std::slice::from_ref(&key)).await.ok().and_then(|mut reads| reads.pop());
        let known = known.map(|read| read.value);
        if let Some(known) = &known {
            let is = row.read();
            expect(*known == is, "a row is shown as it is", || format!("{known:?}, and not {is:?}"));
        }
        let changes = row.draw(&mut random, known.as_ref());
        let (mut after, alone) = (known.clone().flatten(), row.form().stands_alone(&changes));
        if let Err(error) = apply_all(&mut after, &changes) {
            broken("values", error.to_string());
        }
        let written =
            Write { key: key.clone(), changes: changes.clone(), after, unseen: known.is_none() && !alone, told: false };
        let version = mint.next();
        let commit = Commit::new(TxnId(version), version, vec![written]);
        let applied = match gate.commit(std::slice::from_ref(&commit)).await.pop() {
            Some(CommitOutcome::Committed(_) | CommitOutcome::Repeated(_) | CommitOutcome::Buffered(_)) => true,
            Some(CommitOutcome::Unavailable(_) | CommitOutcome::Full(_)) => false,
            Some(CommitOutcome::Unknown(_)) => resolved(&runtime, &gate, commit.id).await,
            other => broken("a row takes its commands", format!("{other:?}")),
        };
        if applied && let Err(why) = row.apply(&changes) {
            broken("a row takes its commands", why);
        }
    }
    row
}

/// Waits until all is applied; nothing is set aside.
pub async fn drained(runtime: &Runtime, gate: &Gate) {
    let began = runtime.elapsed();
    while gate.state().amount.transactions > 0 || gate.state().mode != Mode::Normal {
        let state = gate.state();
        let aside = gate.with_buffer(|buffer| buffer.quarantine_list());
        expect(aside.is_empty(), "nothing is set aside", || format!("{aside:?}"));
        expect(runtime.elapsed() - began < DRAIN_MAX, "all is carried over", || format!("{state:?}"));
        runtime.sleep(Duration::from_millis(1)).await;
    }
}

/// How much was buffered, and how much of that became part of something else; and the hash of the events.
fn run(seed: u64) -> (u64, u64, u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0x0520));
    let (runtime, table) = (simulation.runtime(), Arc::new(Table::new()));
    let gate = gate(&runtime, away(&runtime, table.clone(), &mut random), &mut random);
    let behind = gate.clone();
    let ended = simulation.run(async move {
        let clients = (0..CLIENTS).map(|number| {
            let (sender, row) = futures_channel::oneshot::channel();
            let client = client(runtime.clone(), gate.clone(), number, SplitMix::new(random.draw()));
            runtime.spawn(async move {
                let _ = sender.send(client.await);
            });
            row
        });
        let mut rows = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            rows.push(client.await.unwrap_or_else(|_| broken("progress", "a client ended in the middle")));
        }
        drained(&runtime, &gate).await;
        for (number, row) in rows.into_iter().enumerate() {
            let stored = table.row(&key(number as u64));
            expect(stored == row, "a row is what its commands make of it", || format!("{stored:?}, and not {row:?}"));
        }
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    behind.validate();
    let counts = behind.state().counts;
    (counts.buffered, counts.merged, simulation.log_hash())
}

#[test]
fn rows_whose_changes_are_merged() {
    let (mut buffered, mut merged, all) = (0, 0, seeds());
    let seeds = all.start..all.start + (all.end - all.start).div_ceil(SEEDS_PER_RUN);
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation rows_whose");
        let ran = caught(|| run(seed)).unwrap_or_else(|(oracle, what)| panic!("{oracle}: {what}; repeat: {repeat}"));
        assert!(seed % SEEDS_PER_REPEATED > 0 || run(seed) == ran, "seed {seed} ran differently: {repeat}");
        (buffered, merged) = (buffered + ran.0, merged + ran.1);
    }
    println!("{seeds:?}: {buffered} buffered, {merged} merged");
    assert!(merged > 0 && merged < buffered, "{merged} of {buffered}");
}

#[test]
fn the_gate_of_rows() {
    finds(&[(Fault::MergedUntaken, 100), (Fault::DefaultsGuessed, 100)], run);
}
