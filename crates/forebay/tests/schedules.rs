//! Interleavings of threads in cache and transactions, tried by a scheduler (shuttle): beside the proof in
//! `docs/guarantees.md` that a cached read needs no lock. `gate` proves that the faults which only threads can show
//! fail here. They are a second look that is skipped, a group published key by key or unmarked too early, and a lock
//! passed on too early.
//! (Too early is before the commit has its place.) The others are found by `tests/simulation`.
//!
//! Runs with `cargo test -p forebay --features shuttle --test schedules`; FOREBAY_SCHEDULES sets how many schedules.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context, Standing, charge};
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::txn::{
    Ahead, Documents, Engine, EngineOptions, Executed, Mode, OnWrite, Plan, PlannedLock, TxnError, TxnKind, TxnLimits,
};
use forebay::{Change, Data, Key, Read, Version};
use futures_util::future::{Either, select};
use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler};

fn schedules() -> usize {
    std::env::var("FOREBAY_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(1500)
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let again = test.clone();
    Runner::new(RandomScheduler::new(schedules()), config()).run(move || test());
    // Few switches at chosen places find what random switching misses.
    Runner::new(PctScheduler::new(3, schedules()), config()).run(move || again());
}

/// A transaction takes more of the stack than shuttle's default, without optimization.
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config
}

struct World {
    engine: Engine,
    keys: Vec<Key>,
    /// Keeps the runtime's clock alive, and runs what waits for no thread.
    simulation: Simulation,
}

/// How commits reach the store: one by one at once, or as groups behind those that have a place.
#[derive(Clone, Copy)]
enum Commits {
    AtOnce,
    InGroups,
}

const BOTH: [Commits; 2] = [Commits::AtOnce, Commits::InGroups];

fn world(commits: Commits, partitions: usize, budget_bytes: usize) -> Arc<World> {
    world_by("s3-fifo", commits, partitions, budget_bytes)
}

fn world_by(policy: &str, commits: Commits, partitions: usize, budget_bytes: usize) -> Arc<World> {
    let simulation = Simulation::new(1);
    let store: Arc<dyn Store> = match commits {
        Commits::AtOnce => Arc::new(Memory::new()),
        // A decorated store never commits at once.
        Commits::InGroups => Arc::new(Metered::new(simulation.runtime(), Arc::new(Memory::new()))),
    };
    let choice = choose(policy).expect("it is in the table");
    let engine = Engine::new(EngineOptions {
        runtime: simulation.runtime(),
        store,
        cache: CacheOptions { budget_bytes, partitions, policy: choice.policy, policy_values: choice.values },
        limits: TxnLimits::default(),
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    });
    let keys = ["x", "y", "z"].iter().map(|name| Key::new(0, name.as_bytes())).collect();
    Arc::new(World { engine, keys, simulation })
}

fn count(documents: &Documents, key: &Key) -> i64 {
    match documents.value(key.borrow()).expect("it was loaded").map(|value| &value.data) {
        Some(Data::Bytes(bytes)) => std::str::from_utf8(&bytes.joined()).unwrap().parse().unwrap(),
        None => 0,
        Some(other) => panic!("{other:?}"),
    }
}

impl World {
    /// Adds one to each of the first `most` keys, in one transaction.
    fn increment(&self, most: usize) {
        let keys = &self.keys[..most];
        let lock = |key: &Key| PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: true };
        let plan = Plan { locks: keys.iter().map(lock).collect(), ..Plan::default() };
        let mut ahead = Ahead::default();
        let executed =
            shuttle::future::block_on(self.engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                for key in keys {
                    documents.change(key.borrow(), Change::AddInteger { field: None, delta: 1 }).map_err(|_| ())?;
                }
                Ok(())
            }));
        let Ok(Executed::Done((), committing)) = executed else { panic!("nothing is in the way") };
        shuttle::future::block_on(committing.wait()).expect("the store is sound");
    }

    /// Adds one to two keys by an interactive transaction that locks them one after the other; false if it was refused.
    fn increment_in_turn(&self, order: [usize; 2]) -> bool {
        shuttle::future::block_on(async {
            let mut transaction = self.engine.begin(TxnKind::Interactive, Context::default());
            for at in order {
                let key = &self.keys[at];
                let lock = [PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: true }];
                match transaction.prepare_command(&lock, &mut Ahead::default()).await {
                    Ok(()) => {}
                    Err(TxnError::Conflict(_)) => return false,
                    Err(other) => panic!("{other}"),
                }
                let add = Change::AddInteger { field: None, delta: 1 };
                transaction.documents_mut().change(key.borrow(), add).expect("it is loaded");
            }
            let committing = transaction.commit().await.expect("it has its locks");
            committing.wait().await.expect("the store is sound");
            true
        })
    }

    /// Reads `keys` as a command does: without locks if it can, else with.
    fn read(&self, keys: &[Key]) -> Vec<i64> {
        let refs: Vec<_> = keys.iter().map(Key::borrow).collect();
        if let Some(documents) = self.engine.read_published(&refs, &Context::default()) {
            return keys.iter().map(|key| count(&documents, key)).collect();
        }
        let lock = |key: &Key| PlannedLock { key: key.clone(), mode: Mode::Shared, load: true };
        let plan = Plan { locks: keys.iter().map(lock).collect(), ..Plan::default() };
        let mut ahead = Ahead::default();
        let read = self.engine.execute(&plan, Context::default(), &mut ahead, |documents| {
            Ok::<_, Vec<i64>>(keys.iter().map(|key| count(documents, key)).collect())
        });
        match shuttle::future::block_on(read) {
            Ok(Executed::Done(counts, committing)) => {
                shuttle::future::block_on(committing.wait()).expect("the store is sound");
                counts
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A read of two keys sees a commit to both or not at all; a later read sees no less than an earlier one.
#[test]
fn a_read_of_two_keys_is_of_one_moment() {
    BOTH.into_iter().for_each(|commits| check(move || read_two_keys(commits)));
}

fn read_two_keys(commits: Commits) {
    let world = world(commits, 2, 1 << 20);
    world.increment(2);
    let writer = {
        let world = world.clone();
        shuttle::thread::spawn(move || (0..2).for_each(|_| world.increment(2)))
    };
    let reader = {
        let world = world.clone();
        shuttle::thread::spawn(move || {
            let mut last = 0;
            for order in [[0, 1], [1, 0], [0, 1]] {
                let keys = order.map(|at| world.keys[at].clone());
                let seen = world.read(&keys);
                assert_eq!(seen[0], seen[1], "half of a commit");
                assert!(seen[0] >= last, "an older moment after a newer one");
                last = seen[0];
            }
        })
    };
    writer.join().unwrap();
    reader.join().unwrap();
    world.engine.validate();
}

/// Documents are read again for a warm cache, beside commits to them and reads of both.
#[test]
fn a_warm_start_shows_no_half_of_a_commit() {
    check(read_again_beside_commits);
}

fn read_again_beside_commits() {
    let world = world(Commits::AtOnce, 2, 1 << 20);
    world.increment(2);
    let writer = {
        let world = world.clone();
        shuttle::thread::spawn(move || world.increment(2))
    };
    let warming = {
        let world = world.clone();
        shuttle::thread::spawn(move || {
            for key in &world.keys[..2] {
                world.engine.cache().remove(key);
                let named = vec![(key.clone(), Standing::default())];
                shuttle::future::block_on(world.engine.resume(named));
            }
        })
    };
    for order in [[0, 1], [1, 0]] {
        let seen = world.read(&order.map(|at| world.keys[at].clone()));
        assert_eq!(seen[0], seen[1], "half of a commit");
    }
    writer.join().unwrap();
    warming.join().unwrap();
    assert_eq!(world.read(&world.keys[..2]), [2, 2]);
    world.engine.validate();
}

/// Whoever gets a lock later commits later, whatever happens between lock and queue.
#[test]
fn writers_of_one_key_do_not_overtake_each_other() {
    BOTH.into_iter().for_each(|commits| check(move || write_one_key(commits)));
}

fn write_one_key(commits: Commits) {
    let world = world(commits, 2, 1 << 20);
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let world = world.clone();
            shuttle::thread::spawn(move || world.increment(1))
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(world.read(&world.keys[..1]), [3], "an increment is lost");
    assert_eq!(world.engine.locked_keys(), 0, "a lock is left");
}

/// Two copies of a client's that were there at one moment, by what their versions say, show a commit to both or not at
/// all.
#[test]
fn leased_copies_are_of_one_moment() {
    BOTH.into_iter().for_each(|commits| check(move || lease_two_keys(commits)));
}

fn lease_two_keys(commits: Commits) {
    let world = world(commits, 2, 1 << 20);
    world.increment(2);
    let writers = [0, 1].map(|_| {
        let world = world.clone();
        shuttle::thread::spawn(move || world.increment(2))
    });
    let lease = |at: usize| {
        let key = &world.keys[at..=at];
        let leased = world.engine.lease(key, Context::default(), None, usize::MAX, false);
        let (leased, committing) = shuttle::future::block_on(leased).expect("nothing is in the way");
        shuttle::future::block_on(committing.wait()).expect("the store is sound");
        (leased.reads[0].version, leased.as_of.expect("it is known"))
    };
    for order in [[0, 1], [1, 0]] {
        let [(first, since), (second, then)] = order.map(lease);
        if first.max(second) <= since.min(then) {
            assert_eq!(first, second, "half of a commit");
        }
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

/// Two readers of one key each, one after the other in real time, do not see a commit to both keys half.
#[test]
fn single_reads_follow_real_time() {
    BOTH.into_iter().for_each(|commits| check(move || read_one_after_the_other(commits)));
}

fn read_one_after_the_other(commits: Commits) {
    let world = world(commits, 2, 1 << 20);
    world.increment(2);
    let writer = {
        let world = world.clone();
        shuttle::thread::spawn(move || world.increment(2))
    };
    let reader = {
        let world = world.clone();
        shuttle::thread::spawn(move || {
            let first = world.read(&world.keys[..1])[0];
            let second = world.read(&world.keys[1..2])[0];
            assert!(second >= first, "y is older than x, which was read before");
        })
    };
    writer.join().unwrap();
    reader.join().unwrap();
}

/// Fills, evictions and commits at once: what is cached at the end is what the store says.
#[test]
fn no_late_fill_installs_an_old_value() {
    BOTH.into_iter().for_each(|commits| check(move || fill_and_commit(commits)));
}

fn fill_and_commit(commits: Commits) {
    // Room for about two entries, so that keys leave and are filled again.
    let world = world(commits, 1, 300);
    let total = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (world, total) = (world.clone(), total.clone());
            shuttle::thread::spawn(move || {
                if thread == 0 {
                    world.increment(1);
                    total.fetch_add(1, Ordering::SeqCst);
                } else {
                    let keys = world.keys.clone();
                    let ahead = shuttle::future::block_on(world.engine.fetch_ahead(&keys));
                    drop(ahead);
                    world.read(&keys[..thread]);
                    world.read(&keys[2..]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    world.engine.validate();
    let wanted = total.load(Ordering::SeqCst) as i64;
    assert_eq!(world.read(&world.keys[..1]), [wanted]);
    assert_eq!(world.engine.locked_keys(), 0, "a lock is left");
}

/// A policy hears of hits from full buffers while entries come and go: it is told of those that were hit, which the
/// cache asserts, and no thread waits for ever. `lru` samples, `life` hears of all.
#[test]
fn hits_are_told_beside_evictions_and_commits() {
    for (policy, budget_bytes) in [("lru", 340), ("life", 340), ("life", 1 << 20)] {
        check(move || hit_and_commit(policy, budget_bytes));
    }
}

fn hit_and_commit(policy: &str, budget_bytes: usize) {
    let world = world_by(policy, Commits::AtOnce, 1, budget_bytes);
    world.increment(2);
    let readers: Vec<_> = (0..2)
        .map(|first| {
            let world = world.clone();
            shuttle::thread::spawn(move || {
                (0..4).for_each(|_| _ = world.read(&world.keys[first..first + 1]));
                world.read(&world.keys[2..]);
                world.read(&world.keys[..2]);
            })
        })
        .collect();
    world.increment(2);
    for reader in readers {
        reader.join().unwrap();
    }
    world.engine.validate();
    assert_eq!(world.read(&world.keys[..2]), [2, 2]);
}

/// Fills of several partitions, when there is room for two of three entries. The cache asserts that the budget holds.
#[test]
fn fills_at_once_keep_within_the_budget() {
    check(fill_at_once);
}

fn fill_at_once() {
    let absent = Read { value: None, version: Version::ZERO };
    let entry_bytes = charge(&Key::new(0, b"x"), &absent, choose("fifo").expect("it is in the table").policy);
    let world = world_by("fifo", Commits::AtOnce, 16, 2 * entry_bytes);
    let fillers: Vec<_> = (0..2)
        .map(|first| {
            let world = world.clone();
            shuttle::thread::spawn(move || (0..2).for_each(|at| _ = world.read(&world.keys[first + at..][..1])))
        })
        .collect();
    for filler in fillers {
        filler.join().unwrap();
    }
    world.engine.validate();
}

/// A clearing, and an increment over a store that never waits: one comes first.
#[test]
fn a_clearing_beside_an_increment() {
    check(|| clear_and_increment(Commits::AtOnce));
}

fn clear_and_increment(commits: Commits) {
    let world = world(commits, 1, 1 << 20);
    (0..2).for_each(|_| world.increment(1));
    let writer = {
        let world = world.clone();
        shuttle::thread::spawn(move || world.increment(1))
    };
    let engine = world.engine.clone();
    let cleared = async move {
        // Where the clearing waits for the writer, which is another thread, no time of the simulation helps.
        let others_turn = pin!(async {
            loop {
                shuttle::thread::yield_now();
                engine.runtime().sleep(Duration::from_millis(1)).await;
            }
        });
        let clearing = pin!(engine.clear(&[0], "flushall", || true));
        let cleared = select(clearing, others_turn).await;
        assert!(matches!(cleared, Either::Left((Ok(true), _))));
    };
    assert_eq!(world.simulation.run(cleared), Ended::Done);
    writer.join().unwrap();
    let left = world.read(&world.keys[..1])[0];
    assert!(left <= 1, "{left} is left of what was cleared");
    assert_eq!(world.engine.locked_keys(), 0, "a lock is left");
}

/// A writer that holds one key and wants the other, from either end, by several threads: one is refused, and tries
/// again; nobody waits for ever, and no increment is lost.
#[test]
fn crossing_writers_do_not_wait_for_each_other() {
    check(cross);
}

fn cross() {
    let world = world(Commits::InGroups, 1, 1 << 20);
    let threads: Vec<_> = [[0, 1], [1, 0]]
        .map(|order| {
            let world = world.clone();
            shuttle::thread::spawn(move || while !world.increment_in_turn(order) {})
        })
        .into();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.read(&world.keys[..2]), [2, 2]);
    assert_eq!(world.engine.locked_keys(), 0, "a lock is left");
}

/// A fault that only threads can show, the test that it breaks, and within how many schedules, one for each seed.
const GATE: &[(Fault, fn(), u64)] = &[
    (Fault::SecondLookSkipped, || read_two_keys(Commits::AtOnce), 3000),
    (Fault::SecondLookSkipped, || read_two_keys(Commits::InGroups), 3000),
    (Fault::PublishedKeyByKey, || read_two_keys(Commits::AtOnce), 3000),
    (Fault::PublishedKeyByKey, || read_two_keys(Commits::InGroups), 3000),
    (Fault::UnmarkedEarly, || read_two_keys(Commits::AtOnce), 3000),
    (Fault::UnmarkedEarly, || read_two_keys(Commits::InGroups), 3000),
    (Fault::RoomTakenTwice, fill_at_once, 1000),
    (Fault::ResumedUnlocked, read_again_beside_commits, 10_000),
    (Fault::LockBeforePlace, || write_one_key(Commits::InGroups), 10_000),
    (Fault::LeaseTakenLate, || lease_two_keys(Commits::AtOnce), 10_000),
    (Fault::LeaseTakenLate, || lease_two_keys(Commits::InGroups), 10_000),
    (Fault::LeaseAheadOfPlaced, || lease_two_keys(Commits::InGroups), 10_000),
    (Fault::LeaseOverlooksAtOnce, || lease_two_keys(Commits::AtOnce), 10_000),
];

/// Every other seed some schedules with few switches at chosen places, else a random one. What a failure says.
fn one_schedule(test: fn(), seed: u64) -> Option<String> {
    let mut config = config();
    config.failure_persistence = shuttle::FailurePersistence::None;
    let ran = std::panic::catch_unwind(move || match seed % 2 {
        // The first run tells how many steps there are, among which the next ones choose.
        0 => Runner::new(PctScheduler::new_from_seed(seed, 3, 4), config).run(test),
        _ => Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(test),
    });
    let panic = ran.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

#[test]
fn gate() {
    for (fault, test, seeds) in GATE {
        assert_eq!(one_schedule(*test, 0), None, "it passes without the fault");
        let _on = mutation::put_back(Some(*fault));
        let found = (0..*seeds).find_map(|seed| one_schedule(*test, seed).map(|what| (seed, what)));
        let (seed, what) = found.unwrap_or_else(|| panic!("no schedule of {seeds} finds {fault:?}"));
        println!("{fault:?}: seed {seed}: {}", what.lines().next().unwrap_or_default());
    }
}
