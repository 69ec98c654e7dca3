//! A database that other programs write to as well, and tells of some of it: late, and of tables that nothing watches
//! never. All documents are counters, so that each value says how many writes came before it. No write is lost, and
//! what was acknowledged is read from then on. After a sync or an invalidation nothing older is read. Of a table that
//! nothing watches nothing is believed for longer than the limit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::key::KeyRef;
use forebay::mutation::Fault;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::memory::Memory;
use forebay::store::suite::write;
use forebay::store::{Caps, Commit, CommitOutcome, Outside, ReadError, Store, Write};
use forebay::txn::{Ahead, Documents, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock};
use forebay::{Change, Data, Key, Read, TxnId, Value, Version};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use crate::book::{broken, expect};
use crate::gate::finds;
use crate::seeds::{self, caught, seeds};

/// Documents of the watched table, and of the one that nothing watches.
const NAMES: [&str; 4] = ["seen 1", "seen 2", "unseen 1", "unseen 2"];
const CLIENTS: u64 = 4;
const STEPS: u64 = 20;

/// One of so many seeds is run here.
const SEEDS_PER_RUN: u64 = 4;

/// Nothing takes so long here.
const PATIENCE: Duration = Duration::from_secs(60);

/// The incarnation under which others' ids are.
const OTHERS: u64 = 1 << 20;

struct Shared {
    runtime: Runtime,
    memory: Memory,
    /// When each write of a document came, one after the other: the n-th made it n.
    writes: Mutex<BTreeMap<Key, Vec<Duration>>>,
    /// The number of the newest version: each write has a greater one, whoever it is by.
    newest: AtomicU64,
    told: UnboundedSender<Outside>,
    telling: AsyncMutex<UnboundedReceiver<Outside>>,
    asked: AtomicU64,
}

impl Shared {
    fn writes(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Duration>>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn takes(&self, us_max: u64) {
        self.runtime.sleep(Duration::from_micros(self.runtime.random() % us_max)).await;
    }

    /// One commit: what it writes is one more than what was there. It answers with what was written, mostly.
    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        let sequence = commit.version.sequence.max(self.newest.load(Ordering::SeqCst) + 1);
        let commit = Commit { version: Version { incarnation: 1, sequence }, ..commit.clone() };
        let outcome = self.memory.commit(std::slice::from_ref(&commit)).await.pop();
        let outcome = outcome.unwrap_or_else(|| broken("the store answers", "it does not"));
        if !outcome.is_applied() {
            return outcome;
        }
        self.newest.store(sequence, Ordering::SeqCst);
        let now = self.runtime.elapsed();
        for written in &commit.writes {
            let (number, mut writes) = (number(written.after.as_ref()), self.writes());
            let before = writes.entry(written.key.clone()).or_default();
            before.push(now);
            expect(number == before.len(), "no write is lost", || {
                format!("{} is {number} by write {}", written.key, before.len())
            });
        }
        let read = |write: &Write| (write.key.clone(), Read { value: write.after.clone(), version: commit.version });
        let told = !self.runtime.random().is_multiple_of(8);
        CommitOutcome::Committed(commit.writes.iter().filter(|_| told).map(read).collect())
    }

    /// Another program adds one.
    async fn others_write(&self, key: &Key) {
        let next = self.number(key) + 1;
        let put = Change::Put(Value::bytes(next.to_string().into_bytes()));
        let sequence = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let id = TxnId(Version { incarnation: OTHERS, sequence });
        let commit = Commit::new(id, Version::ZERO, vec![write(key, None, vec![put])]);
        let outcome = self.apply(&commit).await;
        expect(outcome.is_applied(), "others write", || format!("{outcome:?}"));
        if is_watched(key.borrow()) {
            self.tell(Outside::Keys(vec![key.clone()]));
        }
    }

    fn tell(&self, news: Outside) {
        // Nobody listens any more at the end of a run.
        let _ = self.told.unbounded_send(news);
    }

    fn number(&self, key: &Key) -> usize {
        self.writes().get(key).map_or(0, Vec::len)
    }

    fn numbers(&self) -> BTreeMap<Key, usize> {
        self.writes().iter().map(|(key, writes)| (key.clone(), writes.len())).collect()
    }
}

fn is_watched(key: KeyRef<'_>) -> bool {
    key.name.starts_with(b"seen")
}

fn number(value: Option<&Value>) -> usize {
    match value.map(|value| &value.data) {
        None => 0,
        Some(Data::Bytes(text)) => {
            let parsed = std::str::from_utf8(&text.joined()).ok().and_then(|text| text.parse().ok());
            parsed.unwrap_or_else(|| broken("values", format!("{text:?} is no number")))
        }
        Some(other) => broken("values", format!("{other:?} is no number")),
    }
}

impl Store for Shared {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: false, applies: false }
    }

    fn name(&self) -> String {
        "shared".to_owned()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(async move {
            self.takes(400).await;
            let reads = self.memory.get_within(keys, bytes_max).await;
            self.takes(400).await;
            reads
        })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            self.takes(400).await;
            let mut outcomes: Vec<CommitOutcome> = Vec::new();
            for commit in group {
                outcomes.push(match outcomes.last().is_none_or(CommitOutcome::is_applied) {
                    true => self.apply(commit).await,
                    false => CommitOutcome::Unavailable("behind one that was not applied".into()),
                });
            }
            self.takes(3_000).await;
            outcomes
        })
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.takes(400).await;
            let overtaken = self.memory.check(checks).await;
            self.takes(400).await;
            overtaken
        })
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async {
            let news = self.telling.lock().await.next().await;
            self.takes(1_000).await;
            news
        })
    }

    fn sync(&self) -> Option<u64> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.tell(Outside::Synced(number));
        Some(number)
    }

    fn unwatched(&self) -> Vec<String> {
        vec!["unseen".to_owned()]
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        (!is_watched(key)).then_some(0)
    }

    forebay::rest_of_store!(memory);
}

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

fn engine(runtime: &Runtime, store: &Arc<Shared>, limit: Option<Duration>, random: &mut SplitMix) -> Engine {
    let choice = seeds::policy(random);
    let cache = CacheOptions {
        budget_bytes: 600 + random.below(3_000) as usize,
        partitions: 1 + random.below(3) as usize,
        policy: choice.policy,
        policy_values: choice.values,
    };
    let options = EngineOptions::new(runtime.clone(), store.clone(), cache);
    let engine = Engine::new(EngineOptions { unwatched_after: limit, ..options });
    engine.start_watching();
    engine
}

/// One run, of clients and other programs beside them: what was counted, and the hash of its events.
fn run(seed: u64) -> (Counted, u64) {
    let (simulation, mut random) = (Simulation::new(seed), SplitMix::new(seed ^ 0x5eed));
    let runtime = simulation.runtime();
    let (told, telling) = unbounded();
    let store = Arc::new(Shared {
        runtime: runtime.clone(),
        memory: Memory::new(),
        writes: Mutex::default(),
        newest: AtomicU64::new(0),
        told,
        telling: AsyncMutex::new(telling),
        asked: AtomicU64::new(0),
    });
    let limit = (random.below(3) > 0).then(|| Duration::from_millis(2 + random.below(6)));
    let narrow = random.below(4) == 0;
    let engine = engine(&runtime, &store, limit, &mut random);
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
