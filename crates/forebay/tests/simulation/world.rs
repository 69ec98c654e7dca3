//! One run: a store by the seed's choice, an engine over it, clients, faults. The store on a disk has several lives,
//! each but the last ended by a crash at some step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::mutation;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation, SplitMix};
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::forgetful::Forgetful;
use forebay::store::memory::Memory;
use forebay::txn::history::{History, Record};
use forebay::txn::{Ahead, Documents, Engine, EngineOptions, Mode, OnWrite, Plan, PlannedLock, TxnLimits};
use forebay::{Key, Version};

use crate::book::{Book, Marks, broken, expect};
use crate::client;
use crate::detached::Detached;
use crate::unordered::Unordered;
use crate::{oracle, seeds};

/// Steps within which a crash comes; a life without one takes about so many, more where it waits for a disk.
pub const CRASH_STEPS_MAX: u64 = 450;

/// Steps of other tasks that come in between where threads would.
const BETWEEN_STEPS_MAX: u64 = 3;

/// What can go wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Nothing but what clients do.
    Sound,
    /// The store fails in every way it may.
    Faulty,
    /// A disk that fails, forgets what was not synced, and machines that crash.
    Disk,
    /// A database behind the outage's gate that goes away, and machines that crash.
    Outage,
}

/// By what two runs of one seed are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub log: u64,
    pub marks: Marks,
}

/// What outlives a life.
pub struct Past {
    pub book: Book,
    /// Transactions of earlier lives, as far as they are not lost.
    records: Vec<Record>,
    /// Above all their ticks.
    tick: u64,
    /// Versions that documents got which waited for a store that was found in another state, and their commits' first.
    pub aliases: BTreeMap<Version, Version>,
    pub log: u64,
}

/// One run of `seed`.
pub fn run(seed: u64, scenario: Scenario) -> Ran {
    let mut random = SplitMix::new(seed ^ 0x5eed);
    let mut past = Past { book: Book::default(), records: Vec::new(), tick: 0, aliases: BTreeMap::new(), log: 0 };
    match scenario {
        Scenario::Sound | Scenario::Faulty => {
            let faulty = scenario == Scenario::Faulty;
            let memory: Arc<dyn Store> = match random.below(4) {
                0 => Arc::new(Unordered { memory: Arc::new(Memory::new()), incarnation: 1 }),
                _ => Arc::new(Memory::new()),
            };
            let open = |_: &Runtime| memory.clone();
            let wrap = |runtime: &Runtime, store, random: &mut SplitMix| behind(runtime, store, random, faulty);
            live(seed, &mut random, &mut past, Life { open: &open, wrap: &wrap, disk: None, crash_at: None });
        }
        Scenario::Disk => run_on_disk(seed, &mut random, &mut past, None),
        Scenario::Outage => crate::outages::run(seed, &mut random, &mut past),
    }
    past.ran()
}

/// One run of `seed` over a disk, whose first life ends at `step` by a crash; whether it came to that.
pub fn run_with_crash(seed: u64, step: u64) -> bool {
    let mut past = Past { book: Book::default(), records: Vec::new(), tick: 0, aliases: BTreeMap::new(), log: 0 };
    run_on_disk(seed, &mut SplitMix::new(seed ^ 0x5eed), &mut past, Some(step));
    past.ran().marks.crashes > 0
}

impl Past {
    fn ran(&self) -> Ran {
        let pages = self.book.pages();
        Ran { log: self.log ^ pages.log, marks: pages.marks.clone() }
    }
}

/// Several lives on one disk; with `crash_at` two, the first of which ends at that step.
fn run_on_disk(seed: u64, random: &mut SplitMix, past: &mut Past, crash_at: Option<u64>) {
    let disk = Forgetful::new();
    let durability = match random.below(4) {
        0 => Durability::Interval { sync_ms: 1 + random.below(40) },
        1 => Durability::Never,
        _ => Durability::Always,
    };
    past.book.pages().lossy = durability != Durability::Always;
    let lives = if crash_at.is_some() { 2 } else { 1 + random.below(3) };
    for life in 0..lives {
        let crash_at = (life + 1 < lives).then(|| crash_at.unwrap_or(random.below(CRASH_STEPS_MAX)));
        let open = |runtime: &Runtime| -> Arc<dyn Store> {
            let handles = disk.clone();
            let options = EmbeddedOptions { durability, page_cache_bytes: 1 << 20 };
            let opened = Embedded::open_with_backend(runtime.clone(), Arc::new(move || Ok(handles.handle())), options);
            Arc::new(opened.unwrap_or_else(|error| broken("the store opens", error.to_string())))
        };
        let wrap = |runtime: &Runtime, store, random: &mut SplitMix| behind(runtime, store, random, false);
        let disk = Some((&disk, durability));
        live(seed.wrapping_mul(5).wrapping_add(life), random, past, Life { open: &open, wrap: &wrap, disk, crash_at });
    }
}

/// Puts delays, and faults if `faulty`, before a store.
fn behind(runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix, faulty: bool) -> Arc<dyn Store> {
    let store = slow(runtime, store, random);
    if !faulty {
        return store;
    }
    let store: Arc<dyn Store> = match store.caps().ordered {
        true => store,
        false => Arc::new(Detached { runtime: runtime.clone(), store }),
    };
    let faults = Faults {
        read_per_mille: 20,
        portion_per_mille: 300,
        unavailable_per_mille: 30,
        unknown_applied_per_mille: 30,
        unknown_partial_per_mille: 30,
        outcome_per_mille: 300,
        outages: Vec::new(),
    };
    Arc::new(Faulty::new(runtime.clone(), store, faults, random.draw()))
}

/// Puts delays before a store, mostly.
pub fn slow(runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix) -> Arc<dyn Store> {
    let delay = Delay { fixed: Duration::from_micros(random.below(200)), jitter: Duration::from_micros(1000) };
    match random.below(4) {
        0 => store,
        _ => Arc::new(Delayed::new(runtime.clone(), store, delay)),
    }
}

type Wrap<'a> = &'a dyn Fn(&Runtime, Arc<dyn Store>, &mut SplitMix) -> Arc<dyn Store>;

/// How a life begins and ends.
struct Life<'a> {
    open: &'a dyn Fn(&Runtime) -> Arc<dyn Store>,
    wrap: Wrap<'a>,
    disk: Option<(&'a Forgetful, Durability)>,
    /// The step at which the machine crashes.
    crash_at: Option<u64>,
}

fn live(seed: u64, random: &mut SplitMix, past: &mut Past, life: Life<'_>) {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let store = (life.open)(&runtime);
    let history = Arc::new(History::default());
    let engine = engine(&runtime, (life.wrap)(&runtime, store.clone(), random), random, history.clone());
    let incarnation = store.incarnation();
    let (book, disk, drawn) = (past.book.clone(), life.disk.map(|(disk, _)| disk.clone()), random.draw());
    let work = work(engine.clone(), seed, book, disk, drawn, history.clone());
    let others = simulation.others();
    mutation::interleave_with(Some(Box::new(move || others.run(BETWEEN_STEPS_MAX))));
    let ended = simulation.run_to_step(life.crash_at.unwrap_or(u64::MAX), work);
    mutation::interleave_with(None);
    if ended == Ended::Stuck {
        broken("progress", "some session waits for ever");
    }
    past.book.pages().marks.reopened_with_loss += u64::from(store.incarnation() != incarnation);
    if ended == Ended::Done {
        oracle::quiet(&simulation, &engine, &store);
        engine.validate();
    }
    if let (Ended::Stopped, Some((disk, _))) = (ended, life.disk) {
        past.book.pages().marks.crashes += 1;
        crash(disk, random);
    }
    past.log = past.log.rotate_left(7) ^ simulation.log_hash();
    drop(engine);
    let (simulation, store) = match ended {
        Ended::Stopped => {
            // Whoever had not heard of its commit goes on record as one that may have committed.
            drop((simulation, store));
            let simulation = Simulation::new(seed ^ 0xdead);
            let store = (life.open)(&simulation.runtime());
            (simulation, store)
        }
        _ => (simulation, store),
    };
    take_stock(&simulation, &store, past, &history);
}

/// Compares what the store holds with what clients were told, and checks the history of all lives so far.
fn take_stock(simulation: &Simulation, store: &Arc<dyn Store>, past: &mut Past, history: &History) {
    enter(past, history);
    judge(simulation, store, past);
}

/// Adds a life's history to that of the lives before it.
pub fn enter(past: &mut Past, history: &History) {
    let offset = past.tick;
    let mut records = history.records();
    let without_locks = records.iter().filter(|record| record.name.starts_with("read@")).count();
    past.book.pages().marks.read_without_locks += without_locks as u64;
    past.tick = offset + history.tick() + 1;
    for record in &mut records {
        record.began += offset;
        record.ended = record.ended.saturating_add(offset);
        for (_, version, _) in &mut record.reads {
            *version = past.aliases.get(version).copied().unwrap_or(*version);
        }
    }
    past.records.append(&mut records);
    past.book.enter(&past.records);
}

/// Judges all lives so far by what the store holds now.
pub fn judge(simulation: &Simulation, store: &Arc<dyn Store>, past: &mut Past) {
    let stock = oracle::stock(simulation, store, &past.book);
    let lost = oracle::told_the_truth(&past.book, &stock);
    past.records = oracle::survivors(std::mem::take(&mut past.records), &stock, &lost);
    oracle::serializable(&past.records);
    client::check_values(&past.book, &stock);
}

pub fn engine(runtime: &Runtime, store: Arc<dyn Store>, random: &mut SplitMix, history: Arc<History>) -> Engine {
    let choice = seeds::policy(random);
    Engine::new(EngineOptions {
        runtime: runtime.clone(),
        store,
        cache: CacheOptions {
            // From room for two entries to room for all.
            budget_bytes: 600 + random.below(3000) as usize,
            partitions: 1 + random.below(3) as usize,
            policy: choice.policy,
            policy_values: choice.values,
        },
        limits: TxnLimits {
            lock_wait_ms_min: 5,
            lock_wait_ms_max: 20,
            txn_yield_ms: 4,
            txn_idle_ms_max: 40,
            // From room for one commit to room for all.
            placed_bytes_max: 1 << (6 + random.below(12)),
            // Documents here are small: all of them, some, or none wait for their turn.
            turnless_bytes_max: 1 << (6 + random.below(8)),
            documents_bytes_max: 256,
            ..TxnLimits::default()
        },
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: Some(history),
    })
}

/// All that happens in one life.
pub async fn work(engine: Engine, seed: u64, book: Book, disk: Option<Forgetful>, random: u64, history: Arc<History>) {
    let runtime = engine.runtime().clone();
    let mut clients = Vec::new();
    for client in client::clients(&engine, seed, &book, &history) {
        let (sender, receiver) = futures_channel::oneshot::channel();
        clients.push(receiver);
        runtime.spawn(async move {
            client.await;
            let _ = sender.send(());
        });
    }
    if let Some(disk) = &disk {
        fail_now_and_then(&runtime, disk, &book, SplitMix::new(random)).await;
    }
    for client in clients {
        expect(client.await.is_ok(), "progress", || "a session ended in the middle".to_owned());
    }
    // An outcome that is unknown is asked for until it is known.
    for _ in 0..1000 {
        if engine.locked_keys() == 0 {
            // That a store had to be reopened, and lost something, is noticed by the next read that reaches it.
            let nobodys = [Key::new(0, b"nobody's")];
            while engine.store().get(&nobodys).await.is_err() {
                runtime.sleep(Duration::from_micros(100)).await;
            }
            drop(engine.fetch_ahead(&nobodys).await);
            no_clearing(&engine).await;
            // What a client that is gone has handed over lands without it.
            engine.drained().await;
            return;
        }
        runtime.sleep(Duration::from_millis(100)).await;
    }
    broken("no lock left", format!("{} keys are locked although nobody works", engine.locked_keys()));
}

/// Waits for a clearing whose client is gone: a transaction gets no lock in a space that is being cleared.
async fn no_clearing(engine: &Engine) {
    let key = Key::new(client::CLEARED_SPACE, b"nobody's");
    let plan = Plan {
        locks: vec![PlannedLock { key, mode: Mode::Shared, load: false }],
        watched: Vec::new(),
        ..Plan::default()
    };
    let look = |_: &mut Documents| -> Result<(), ()> { Ok(()) };
    while engine.execute_locked(&plan, Context::default(), &mut Ahead::default(), look).await.is_err() {}
}

/// The disk refuses writes and syncs for a while, at some moment.
async fn fail_now_and_then(runtime: &Runtime, disk: &Forgetful, book: &Book, mut random: SplitMix) {
    for _ in 0..random.below(3) {
        runtime.sleep(Duration::from_micros(random.below(20_000))).await;
        book.note(runtime, "the disk fails");
        disk.fail_in(Some(random.below(12)));
        runtime.sleep(Duration::from_micros(random.below(30_000))).await;
        disk.fail_in(None);
        book.note(runtime, "the disk is well");
    }
}

/// The machine stops: of what was not synced some writes survive, some in part, by the seed's choice.
fn crash(disk: &Forgetful, random: &mut SplitMix) {
    let survivors = [0, 20, 50, 90, 100][random.below(5) as usize];
    let torn = random.below(100) < 30;
    let ordered = random.below(100) < 40;
    let mut lost = false;
    disk.crash(|length| {
        let survives = random.below(100) < survivors && !(ordered && lost);
        lost |= !survives;
        match survives {
            true if torn && length > 0 && random.below(100) < 20 => Some(random.below(length as u64) as usize),
            true => Some(length),
            false => None,
        }
    });
}

/// The documents that `keys` have in `store`, asked until it answers.
pub async fn read(store: &Arc<dyn Store>, keys: &[Key]) -> Vec<forebay::read::Read> {
    loop {
        if let Ok(reads) = store.get(keys).await {
            return reads;
        }
    }
}
