//! A database that other programs write to as well, and tells of some of it: late, and of tables that nothing watches
//! never. All documents are counters, so that each value says how many writes came before it. No write is lost, and
//! what was acknowledged is read from then on. After a sync or an invalidation nothing older is read. Of a table that
//! nothing watches nothing is believed for longer than the limit.

mod database;
mod written_back;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::key::KeyRef;
use forebay::mutation::Fault;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::Store;
use forebay::txn::{Ahead, Documents, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock};
use forebay::{Change, Key, Value};

use crate::book::{broken, expect};
use crate::gate::finds;
use crate::seeds::{self, caught, seeds};
use database::{Shared, is_watched, number};

/// Documents of the watched table, and of the one that nothing watches.
const NAMES: [&str; 4] = ["seen 1", "seen 2", "unseen 1", "unseen 2"];
const CLIENTS: u64 = 4;
const STEPS: u64 = 20;

/// One of so many seeds is run here.
const SEEDS_PER_RUN: u64 = 4;

/// Nothing takes so long here.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan(keys: &[Key], mode: Mode) -> Plan {
    let locks = keys.iter().map(|key| PlannedLock { key: key.clone(), mode, load: true });
    Plan { locks: locks.collect(), ..Plan::default() }
}

fn numbers(documents: &Documents, keys: &[Key]) -> Vec<usize> {
    let of = |key: &Key| documents.value(key.borrow()).map(number);
    keys.iter().map(|key| of(key).unwrap_or_else(|error| broken("values", error.to_string()))).collect()
}

/// What was counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    committed: u64,
    watched: u64,
    outside: u64,
    synced: u64,
}

impl Counted {
    fn add(&mut self, other: Counted) {
        self.committed += other.committed;
        self.watched += other.watched;
        self.outside += other.outside;
        self.synced += other.synced;
    }
}

struct Client {
    engine: Engine,
    store: Arc<Shared>,
    random: SplitMix,
    /// What is cached of a table that nothing watches is believed for so long.
    limit: Option<Duration>,
    /// All clients work on one key that nothing watches, and most of them watch and invalidate it.
    narrow: bool,
    /// What each read from now on has to see at least.
    floors: Arc<Mutex<BTreeMap<Key, usize>>>,
    counted: Counted,
}

impl Client {
    fn floors(&self) -> MutexGuard<'_, BTreeMap<Key, usize>> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, numbers: impl IntoIterator<Item = (Key, usize)>) {
        let mut floors = self.floors();
        for (key, number) in numbers {
            let floor = floors.entry(key).or_default();
            *floor = number.max(*floor);
        }
    }

    fn keys(&mut self) -> Vec<Key> {
        if self.narrow {
            return NAMES
                .iter()
                .map(|name| Key::new(0, name.as_bytes()))
                .filter(|key| !is_watched(key.borrow()))
                .take(1)
                .collect();
        }
        let most = 1 + self.random.below(2);
        let drawn = (0..most).map(|_| Key::new(0, NAMES[self.random.below(NAMES.len() as u64) as usize].as_bytes()));
        let mut keys: Vec<Key> = drawn.collect();
        keys.sort();
        keys.dedup();
        keys
    }

    async fn run(mut self) -> Counted {
        for _ in 0..STEPS {
            let keys = self.keys();
            // From 12 on others write, invalidate, and write what they watch.
            let step =
                if self.narrow && self.random.below(3) > 0 { 12 + self.random.below(7) } else { self.random.below(19) };
            match step {
                0..=6 => self.read(&keys).await,
                7..=9 => self.increment(&keys).await,
                10..=12 => {
                    self.store.others_write(&keys[0]).await;
                    self.counted.outside += 1;
                }
                13 => {
                    let before = keys.iter().map(|key| (key.clone(), self.store.number(key)));
                    let before: Vec<_> = before.collect();
                    self.engine.invalidate(&keys).await;
                    self.raise(before);
                }
                14..=15 => self.sync().await,
                _ => self.set_what_is_watched(&keys).await,
            }
            if self.random.below(2) == 0 {
                let pause = Duration::from_micros(self.random.below(3_000));
                self.engine.runtime().sleep(pause).await;
            }
        }
        self.counted
    }

    async fn sync(&mut self) {
        let before = self.store.numbers();
        let synced = self.engine.sync(PATIENCE).await;
        expect(synced.is_ok(), "a sync is answered", || format!("{synced:?}"));
        self.raise(before);
        self.counted.synced += 1;
        // It was for this, and not for once: what comes to the cache behind it counts as well.
        for _ in 0..3 {
            self.read(&NAMES.map(|name| Key::new(0, name.as_bytes()))).await;
            self.engine.runtime().sleep(Duration::from_micros(self.random.below(1_500))).await;
        }
    }

    /// What a client is shown of `keys`.
    async fn look(&self, keys: &[Key]) -> Option<Vec<usize>> {
        let refs: Vec<KeyRef<'_>> = keys.iter().map(Key::borrow).collect();
        if let Some(documents) = self.engine.read_published(&refs, &Context::default()) {
            return Some(numbers(&documents, keys));
        }
        let look = |documents: &mut Documents| Ok(numbers(documents, keys));
        let plan = plan(keys, Mode::Shared);
        let done = self.engine.execute(&plan, Context::default(), &mut Ahead::default(), look).await;
        let Ok(Executed::Done(seen, committing)) = done else { return None };
        committing.wait().await.is_ok().then_some(seen)
    }

    /// WATCH, a read, and an EXEC that sets what was read and one more.
    async fn set_what_is_watched(&mut self, keys: &[Key]) {
        let Ok((watched, committing)) = self.engine.watch(keys, Context::default(), None).await else { return };
        if committing.wait().await.is_err() {
            return;
        }
        let Some(seen) = self.look(keys).await else { return };
        let set = |documents: &mut Documents| {
            for (key, number) in keys.iter().zip(&seen) {
                let next = Value::bytes((number + 1).to_string().into_bytes());
                let set = documents.change(key.borrow(), Change::Put(next));
                set.unwrap_or_else(|error| broken("values", error.to_string()));
            }
            Ok(())
        };
        let plan = Plan { watched, ..plan(keys, Mode::Exclusive) };
        let done = self.engine.execute(&plan, Context::default(), &mut Ahead::default(), set).await;
        let Ok(Executed::Done((), committing)) = done else { return };
        if committing.wait().await.is_ok() {
            self.raise(keys.iter().cloned().zip(seen.iter().map(|number| number + 1)));
            self.counted.watched += 1;
        }
    }

    async fn read(&mut self, keys: &[Key]) {
        let (floors, began) = (self.floors().clone(), self.engine.runtime().elapsed());
        let Some(seen) = self.look(keys).await else { return };
        for (key, number) in keys.iter().zip(seen) {
            let floor = floors.get(key).copied().unwrap_or_default();
            expect(number >= floor, "nothing older is read", || format!("{key} is {number}, and was {floor} before"));
            let overtaken = self.store.writes().get(key).and_then(|writes| writes.get(number)).copied();
            if let (Some(limit), Some(at), false) = (self.limit, overtaken, is_watched(key.borrow())) {
                expect(at + limit > began, "nothing is believed for too long", || {
                    format!("{key} is {number} at {began:?}, and was overtaken at {at:?}, with a limit of {limit:?}")
                });
            }
        }
    }

    async fn increment(&mut self, keys: &[Key]) {
        let add = |documents: &mut Documents| {
            for key in keys {
                let added = documents.change(key.borrow(), Change::AddInteger { field: None, delta: 1 });
                added.unwrap_or_else(|error| broken("values", error.to_string()));
            }
            Ok(numbers(documents, keys))
        };
        let plan = plan(keys, Mode::Exclusive);
        let done = self.engine.execute(&plan, Context::default(), &mut Ahead::default(), add).await;
        let Ok(Executed::Done(made, committing)) = done else { return };
        if committing.wait().await.is_ok() {
            self.raise(keys.iter().cloned().zip(made));
            self.counted.committed += 1;
        }
    }
}

fn engine(runtime: &Runtime, store: Arc<dyn Store>, limit: Option<Duration>, random: &mut SplitMix) -> Engine {
    let choice = seeds::policy(random);
    let cache = CacheOptions {
        budget_bytes: 600 + random.below(3_000) as usize,
        partitions: 1 + random.below(3) as usize,
        policy: choice.policy,
        policy_values: choice.values,
    };
    let options = EngineOptions::new(runtime.clone(), store, cache);
    let engine = Engine::new(EngineOptions { unwatched_after: limit, ..options });
    engine.start_watching();
    engine
}

/// One run, of clients and other programs beside them: what was counted, and the hash of its events.
fn run(seed: u64) -> (Counted, u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0x5eed));
    let runtime = simulation.runtime();
    let store = Arc::new(Shared::new(&runtime, false, true));
    let limit = (random.below(3) > 0).then(|| Duration::from_millis(2 + random.below(6)));
    let narrow = random.below(4) == 0;
    let engine = engine(&runtime, store.clone(), limit, &mut random);
    let floors = Arc::default();
    let client = |number: u64| Client {
        engine: engine.clone(),
        store: store.clone(),
        random: SplitMix::new(seed.wrapping_mul(41).wrapping_add(number)),
        limit,
        narrow,
        floors: Arc::clone(&floors),
        counted: Counted::default(),
    };
    let (clients, mut last) = ((0..CLIENTS).map(client).collect::<Vec<_>>(), client(CLIENTS));
    let (sender, mut counted) = futures_channel::oneshot::channel();
    let ended = simulation.run(async move {
        let started = clients.into_iter().map(|client| {
            let (done, ends) = futures_channel::oneshot::channel();
            runtime.spawn(async move {
                let _ = done.send(client.run().await);
            });
            ends
        });
        let started: Vec<_> = started.collect();
        let mut all = Counted::default();
        for ends in started {
            let Ok(one) = ends.await else { broken("progress", "a client ended in the middle") };
            all.add(one);
        }
        // Nobody writes any more: all is as the database has it.
        last.sync().await;
        let _ = sender.send(all);
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    engine.validate();
    let counted = counted.try_recv().ok().flatten();
    (counted.unwrap_or_else(|| broken("progress", "the run has no end")), simulation.log_hash())
}

#[test]
fn a_database_that_others_write_to() {
    let mut all = Counted::default();
    let all_seeds = seeds();
    let seeds = all_seeds.start..all_seeds.start + (all_seeds.end - all_seeds.start).div_ceil(SEEDS_PER_RUN);
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation others_write_to");
        let ran = caught(|| run(seed)).unwrap_or_else(|(oracle, what)| panic!("{oracle}: {what}; repeat: {repeat}"));
        assert_eq!(run(seed), ran, "seed {seed} ran differently: {repeat}");
        all.add(ran.0);
    }
    println!("{seeds:?}: {all:?}");
    assert!(all.committed > 0 && all.watched > 0 && all.outside > 0 && all.synced > 0, "{all:?}");
}

#[test]
fn the_gate_of_shared_databases() {
    let gate = [
        (Fault::SyncedTooEarly, 300),
        (Fault::UnwatchedKept, 50),
        (Fault::UnwatchedBelieved, 100),
        (Fault::WatchedUnshown, 20_000),
    ];
    finds(&gate, run);
}
