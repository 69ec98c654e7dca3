//! Such a database behind a gate that keeps all writes for a while. Clients add one without being told what that came
//! to, so each of their writes fits whatever others have made of the document. So a document counts at least all
//! acknowledged writes, and all writes of others before the last sync or invalidation. In the end it counts exactly
//! all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::cache::Context;
use forebay::key::KeyRef;
use forebay::mutation::Fault;
use forebay::outage::lossy::Lossy;
use forebay::outage::{Gate, GateSettings};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::faulty::{Faults, Faulty};
use forebay::txn::{Ahead, Documents, Engine, Executed, Mode};
use forebay::{Change, Key};

use super::database::Shared;
use super::{CLIENTS, NAMES, PATIENCE, STEPS, engine, numbers, plan};
use crate::book::{broken, expect};
use crate::gate::finds;
use crate::outages;
use crate::seeds::{caught, seeds};

/// One of so many seeds is run here.
const SEEDS_PER_RUN: u64 = 4;

/// What is known of one document.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Writes of clients that were acknowledged, and that began.
    acknowledged: usize,
    begun: usize,
    /// Writes of others, and how many of them each read has to show.
    others: usize,
    shown: usize,
}

/// What was counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    read: u64,
    refused: u64,
    written: u64,
    others: u64,
    synced: u64,
    merged: u64,
}

struct Book {
    documents: Mutex<BTreeMap<Key, Counts>>,
    counted: Mutex<Counted>,
}

impl Book {
    fn documents(&self) -> MutexGuard<'_, BTreeMap<Key, Counts>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, key: &Key, note: impl FnOnce(&mut Counts)) {
        note(self.documents().entry(key.clone()).or_default());
    }

    fn count(&self, note: impl FnOnce(&mut Counted)) {
        note(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

struct Client {
    engine: Engine,
    store: Arc<Shared>,
    book: Arc<Book>,
    random: SplitMix,
    /// So many documents are used.
    documents: u64,
}

impl Client {
    fn keys(&mut self) -> Vec<Key> {
        let most = 1 + self.random.below(2);
        // The last of them are those that nothing watches.
        let draw = |random: &mut SplitMix| NAMES[NAMES.len() - 1 - random.below(self.documents) as usize];
        let mut keys: Vec<Key> = (0..most).map(|_| Key::new(0, draw(&mut self.random).as_bytes())).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    async fn run(mut self) {
        for _ in 0..STEPS {
            let keys = self.keys();
            match self.random.below(16) {
                0..=5 => self.read(&keys).await,
                6..=9 => self.add(&keys).await,
                10..=12 => self.others_add(&keys[0]).await,
                13 => self.invalidate(&keys).await,
                _ => self.sync().await,
            }
            // Where all work on one document, nothing rests.
            if self.documents > 1 && self.random.below(2) == 0 {
                self.rests(3_000).await;
            }
        }
    }

    async fn rests(&mut self, us_max: u64) {
        self.engine.runtime().sleep(Duration::from_micros(self.random.below(us_max))).await;
    }

    async fn others_add(&self, key: &Key) {
        self.book.with(key, |counts| counts.others += 1);
        self.store.others_write(key).await;
        self.book.count(|counted| counted.others += 1);
    }

    /// What others have written by now, once `told`, is read from then on.
    async fn shows(&mut self, keys: &[Key], told: impl AsyncFnOnce(&Engine)) {
        // Those of others are on their way for no time: what has begun is there.
        let before: Vec<usize> =
            keys.iter().map(|key| self.book.documents().get(key).map_or(0, |c| c.others)).collect();
        told(&self.engine).await;
        for (key, others) in keys.iter().zip(before) {
            self.book.with(key, |counts| counts.shown = counts.shown.max(others));
        }
        for _ in 0..3 {
            self.read(keys).await;
            self.rests(1_500).await;
        }
    }

    async fn invalidate(&mut self, keys: &[Key]) {
        self.shows(keys, async |engine| {
            engine.invalidate(keys).await;
        })
        .await;
    }

    async fn sync(&mut self) {
        let all = NAMES.map(|name| Key::new(0, name.as_bytes()));
        let sync = async |engine: &Engine| {
            let synced = engine.sync(PATIENCE).await;
            expect(synced.is_ok(), "a sync is answered", || format!("{synced:?}"));
        };
        self.shows(&all, sync).await;
        self.book.count(|counted| counted.synced += 1);
    }

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

    async fn read(&self, keys: &[Key]) {
        let before = self.book.documents().clone();
        let Some(seen) = self.look(keys).await else { return self.book.count(|counted| counted.refused += 1) };
        for (key, number) in keys.iter().zip(seen) {
            let Some(counts) = before.get(key) else { continue };
            let least = counts.acknowledged + counts.shown;
            expect(number >= least, "nothing older is read", || format!("{key} is {number}, of {counts:?}"));
            let now = self.book.documents().get(key).copied().unwrap_or_default();
            expect(number <= now.begun + now.others, "nothing counts twice", || format!("{key} is {number}: {now:?}"));
        }
        self.book.count(|counted| counted.read += 1);
    }

    async fn add(&mut self, keys: &[Key]) {
        let add = |documents: &mut Documents| {
            for key in keys {
                let added = documents.change(key.borrow(), Change::AddInteger { field: None, delta: 1 });
                added.unwrap_or_else(|error| broken("values", error.to_string()));
            }
            Ok(())
        };
        let plan = plan(keys, Mode::Exclusive);
        keys.iter().for_each(|key| self.book.with(key, |counts| counts.begun += 1));
        let done = self.engine.execute(&plan, Context::default(), &mut Ahead::default(), add).await;
        let ended = match done {
            Ok(Executed::Done((), committing)) => committing.wait().await.is_ok(),
            _ => false,
        };
        let note = |counts: &mut Counts| match ended {
            true => counts.acknowledged += 1,
            // Nothing becomes of it.
            false => counts.begun -= 1,
        };
        keys.iter().for_each(|key| self.book.with(key, note));
        self.book.count(|counted| *(if ended { &mut counted.written } else { &mut counted.refused }) += 1);
    }
}

fn gate(runtime: &Runtime, store: Arc<Shared>, random: &mut SplitMix) -> Gate {
    let settings = GateSettings {
        bytes_max: 1 << 20,
        workers: 1 + random.below(3) as usize,
        merge: random.below(2) == 0,
        write_back_ms: Some([2, 5, 20][random.below(3) as usize]),
        ..GateSettings::default()
    };
    // An answer may take longer than writes are kept.
    let jitter = Duration::from_micros([100, 1_000, 6_000][random.below(3) as usize]);
    let delay = Delay { fixed: Duration::ZERO, jitter };
    let store = Arc::new(Delayed::new(runtime.clone(), store, delay));
    outages::open(runtime, store, &Lossy::new(), settings)
}

/// One run: what was counted, and the hash of its events.
fn run(seed: u64) -> (Counted, u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0xbac0));
    let runtime = simulation.runtime();
    let store = Arc::new(Shared::new(&runtime, true, random.below(4) > 0));
    let gate = gate(&runtime, store.clone(), &mut random);
    let engine = engine(&runtime, Arc::new(gate.clone()), None, &mut random);
    let book = Arc::new(Book { documents: Mutex::default(), counted: Mutex::default() });
    let documents = [1, 2, NAMES.len() as u64][random.below(3) as usize];
    let client = |number: u64| Client {
        engine: engine.clone(),
        store: store.clone(),
        book: book.clone(),
        random: SplitMix::new(seed.wrapping_mul(43).wrapping_add(number)),
        documents,
    };
    let (clients, mut last) = ((0..CLIENTS).map(client).collect::<Vec<_>>(), client(CLIENTS));
    let (kept, clock) = (gate.clone(), runtime.clone());
    let ended = simulation.run(async move {
        let started: Vec<_> = clients.into_iter().map(|client| at_work(&runtime, client)).collect();
        for ends in started {
            expect(ends.await.is_ok(), "progress", || "a client ended in the middle".to_owned());
        }
        last.sync().await;
        while kept.state().amount.transactions > 0 {
            expect(clock.elapsed() < PATIENCE, "all is applied", || format!("{:?}", kept.state()));
            clock.sleep(Duration::from_millis(1)).await;
        }
        last.sync().await;
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    engine.validate();
    gate.validate();
    for (key, counts) in &*book.documents() {
        let all = counts.acknowledged + counts.others;
        expect(store.number(key) == all, "no write is lost", || format!("{key}: {} of {counts:?}", store.number(key)));
    }
    let mut counted = *book.counted.lock().unwrap_or_else(PoisonError::into_inner);
    counted.merged = gate.state().counts.merged;
    (counted, simulation.log_hash())
}

/// Has a client work; done when it is.
fn at_work(runtime: &Runtime, client: Client) -> futures_channel::oneshot::Receiver<()> {
    let (done, ends) = futures_channel::oneshot::channel();
    runtime.spawn(async move {
        client.run().await;
        let _ = done.send(());
    });
    ends
}

#[test]
fn writes_kept_before_a_database_that_others_write_to() {
    let all = seeds();
    let seeds = all.start..all.start + (all.end - all.start).div_ceil(SEEDS_PER_RUN);
    let mut sum = Counted::default();
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation writes_kept_before");
        let ran = caught(|| run(seed)).unwrap_or_else(|(oracle, what)| panic!("{oracle}: {what}; repeat: {repeat}"));
        assert_eq!(run(seed), ran, "seed {seed} ran differently: {repeat}");
        let (all, one) = (&mut sum, ran.0);
        (all.read, all.refused, all.written) =
            (all.read + one.read, all.refused + one.refused, all.written + one.written);
        (all.others, all.synced, all.merged) =
            (all.others + one.others, all.synced + one.synced, all.merged + one.merged);
    }
    println!("{seeds:?}: {sum:?}");
    assert!(sum.read > 0 && sum.written > 0 && sum.others > 0 && sum.synced > 0, "{sum:?}");
    assert!(sum.refused * 10 < sum.read + sum.written, "few are refused: {sum:?}");
}

/// When the database is away in [`doubted`].
const AWAY: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];

/// One run: a write waits, others write to its document, and that is said. Then the database is away, and what is
/// read, if anything is, has in it what others wrote.
fn doubted(seed: u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0xd0b7));
    let runtime = simulation.runtime();
    let store = Arc::new(Shared::new(&runtime, true, true));
    let faults = Faults { outages: vec![(AWAY[0], AWAY[1])], ..Faults::default() };
    let faulty = Arc::new(Faulty::new(runtime.clone(), store.clone(), faults, seed));
    let settings = GateSettings { bytes_max: 1 << 20, write_back_ms: Some(150), ..GateSettings::default() };
    let gate = outages::open(&runtime, faulty, &Lossy::new(), settings);
    let engine = engine(&runtime, Arc::new(gate.clone()), None, &mut random);
    let book = Arc::new(Book { documents: Mutex::default(), counted: Mutex::default() });
    let mut client = Client { engine, store, book: book.clone(), random, documents: 1 };
    let ended = simulation.run(async move {
        let keys = [Key::new(0, NAMES[NAMES.len() - 1].as_bytes())];
        client.read(&keys).await;
        client.add(&keys).await;
        expect(gate.state().amount.transactions == 1, "a write waits", || format!("{:?}", gate.state()));
        client.others_add(&keys[0]).await;
        match client.random.below(2) == 0 {
            true => drop(client.engine.invalidate(&keys).await),
            false => drop(client.engine.sync(PATIENCE).await),
        }
        client.book.with(&keys[0], |counts| counts.shown = counts.others);
        runtime.sleep(AWAY[0].saturating_sub(runtime.elapsed())).await;
        for _ in 0..3 {
            client.read(&keys).await;
            client.rests(5_000).await;
        }
        while gate.state().amount.transactions > 0 {
            expect(runtime.elapsed() < PATIENCE, "all is applied", || format!("{:?}", gate.state()));
            runtime.sleep(Duration::from_millis(10)).await;
        }
        client.read(&keys).await;
    });
    expect(ended == Ended::Done, "progress", || format!("{ended:?}"));
    let counted = *book.counted.lock().unwrap_or_else(PoisonError::into_inner);
    expect(counted.read >= 2, "it is read before and behind that", || format!("{counted:?}"));
}

#[test]
fn what_is_in_doubt_while_the_database_is_away() {
    (0..100).for_each(doubted);
}

#[test]
fn the_gate_of_what_is_in_doubt() {
    finds(&[(Fault::DoubtedShownAway, 20)], doubted);
}

#[test]
fn the_gate_of_kept_writes() {
    let gate = [
        (Fault::PendingUnsynced, 100),
        (Fault::OldCopyBelieved, 2_000),
        (Fault::AnswerOutlivesNews, 1_000),
        (Fault::ShownWhileMoving, 200),
    ];
    finds(&gate, run);
}
