//! A wide transaction does not hold up the others: they get their places beside it, and do not go to the store with it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::memory::Memory;
use forebay::txn::{
    Ahead, Committing, Engine, EngineOptions, Executed, GROUP_COMMITS_MAX, Mode, Plan, PlannedLock, TxnLimits,
};
use forebay::{Change, Key, Value};
use futures_util::FutureExt;
use futures_util::future::join;

/// More than any group has.
const WIDE: usize = 5_000;

/// How long a group is on its way.
const AWAY: Duration = Duration::from_millis(5);

/// An engine over a store that is away.
fn engine(runtime: &Runtime) -> Engine {
    engine_with(runtime, TxnLimits::default())
}

/// Likewise with these limits.
fn engine_with(runtime: &Runtime, limits: TxnLimits) -> Engine {
    let delay = Delay { fixed: AWAY, jitter: Duration::ZERO };
    let store = Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay));
    let choice = choose("lru").expect("it is in the table");
    let cache =
        CacheOptions { budget_bytes: 8 << 20, partitions: 2, policy: choice.policy, policy_values: choice.values };
    Engine::new(EngineOptions { limits, ..EngineOptions::new(runtime.clone(), store, cache) })
}

fn keys(name: &str, count: usize) -> Vec<Key> {
    (0..count).map(|number| Key::new(0, format!("{name}:{number:05}").as_bytes())).collect()
}

/// Sets `keys`, unseen; what is left is to wait for the commit.
async fn set(engine: &Engine, keys: Vec<Key>) -> Committing {
    let lock = |key: &Key| PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: false };
    let plan = Plan { locks: keys.iter().map(lock).collect(), ..Plan::default() };
    let mut ahead = Ahead::default();
    let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
        let put = |key: &Key| documents.change(key.borrow(), Change::Put(Value::bytes(*b"x")));
        keys.iter().try_for_each(put).map_err(|error| panic!("{error}"))
    });
    match executed.await {
        Ok(Executed::Done((), committing)) => committing,
        _ => panic!("nobody is in the way"),
    }
}

#[test]
fn others_get_their_places_while_the_results_of_a_wide_commit_are_put_down_and_its_locks_go() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        let engine = engine(&runtime);
        let (others, placed) = (engine.clone(), Arc::new(Mutex::new(Vec::new())));
        let meanwhile = placed.clone();
        let place_another = move || {
            // Not within the one that is being placed.
            let Ok(mut placed) = meanwhile.try_lock() else { return };
            let key = Key::new(0, format!("other:{}", placed.len()).as_bytes());
            // Without a wait: it needs no lock that anybody holds.
            placed.push(set(&others, vec![key]).now_or_never().expect("it has its place at once"));
        };
        mutation::do_meanwhile(place_another.clone());
        mutation::interleave_with(Some(Box::new(place_another)));
        let committing = set(&engine, keys("wide", WIDE)).await;
        mutation::interleave_with(None);
        let placed = std::mem::take(&mut *placed.lock().expect("nobody panics with it"));
        assert_eq!(placed.len(), 2, "before the wide commit has its place, and before its locks have gone");
        for committing in placed.into_iter().chain([committing]) {
            assert!(committing.wait().await.is_ok_and(|landed| landed.is_some()));
        }
        assert_eq!(engine.store().count(0).await, Ok(WIDE as u64 + 2));
        assert_eq!(engine.locked_keys(), 0, "its locks have gone, and its results with them");
    });
    assert_eq!(ended, Ended::Done);
}

/// With which group each of eight commits goes: the fifth is of `width` documents, the others are small.
fn groups_beside_one_of(width: usize, fault: Option<Fault>) -> Vec<usize> {
    let groups = Arc::new(Mutex::new(Vec::new()));
    let (simulation, told) = (Simulation::new(1), groups.clone());
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        let _fault = mutation::put_back(fault);
        let (engine, began) = (engine(&runtime), runtime.elapsed());
        let mut all = vec![set(&engine, keys("first", 1)).await];
        for number in 0..3 {
            all.push(set(&engine, keys(&format!("before:{number}"), 1)).await);
        }
        all.push(set(&engine, keys("wide", width)).await);
        for number in 0..3 {
            all.push(set(&engine, keys(&format!("behind:{number}"), 1)).await);
        }
        for committing in all {
            assert!(committing.wait().await.is_ok_and(|landed| landed.is_some()));
            let group = runtime.elapsed().saturating_sub(began).div_duration_f64(AWAY).round();
            told.lock().expect("nobody panics with it").push(group as usize);
        }
    });
    assert_eq!(ended, Ended::Done);
    std::mem::take(&mut *groups.lock().expect("nobody panics with it"))
}

#[test]
fn what_was_placed_before_a_wide_commit_does_not_go_with_it() {
    for width in [GROUP_COMMITS_MAX + 1, WIDE] {
        assert_eq!(groups_beside_one_of(width, None), [1, 2, 2, 2, 3, 4, 4, 4], "{width} documents");
    }
    assert_eq!(groups_beside_one_of(GROUP_COMMITS_MAX, None), [1, 2, 2, 2, 2, 2, 2, 2], "these are not wide");
    let together = groups_beside_one_of(GROUP_COMMITS_MAX + 1, Some(Fault::WideTogether));
    assert_eq!(together, [1, 2, 2, 2, 2, 2, 2, 2], "else all wait for it");
}

/// Whether a small commit gets its place at once while a wide one has all the room, and another waits for it.
fn small_is_placed_beside_wide(fault: Option<Fault>) -> bool {
    let placed = Arc::new(Mutex::new(None));
    let (simulation, told) = (Simulation::new(1), placed.clone());
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        let _fault = mutation::put_back(fault);
        let engine = engine_with(&runtime, TxnLimits { placed_bytes_max: 1 << 16, ..TxnLimits::default() });
        let first = set(&engine, keys("first", WIDE)).await;
        let mut second = Box::pin(set(&engine, keys("second", WIDE)));
        assert!((&mut second).now_or_never().is_none(), "one wide commit has all the room");
        let mut small = Box::pin(set(&engine, keys("small", 1)));
        let at_once = (&mut small).now_or_never();
        *told.lock().expect("nobody panics with it") = Some(at_once.is_some());
        let (small, second) = match at_once {
            Some(committing) => (committing, second.await),
            None => join(small, second).await,
        };
        for committing in [first, small, second] {
            assert!(committing.wait().await.is_ok_and(|landed| landed.is_some()));
        }
        assert_eq!(engine.store().count(0).await, Ok(2 * WIDE as u64 + 1));
    });
    assert_eq!(ended, Ended::Done);
    let placed = *placed.lock().expect("nobody panics with it");
    placed.expect("it came that far")
}

#[test]
fn a_small_commit_does_not_wait_for_the_room_of_a_wide_one() {
    assert!(small_is_placed_beside_wide(None));
    assert!(!small_is_placed_beside_wide(Some(Fault::RoomInOneLine)), "in one line it waits");
}

/// With which group a small commit goes that comes while one wide commit is on its way and another wants to be.
fn group_of_small_beside_wide(fault: Option<Fault>) -> u64 {
    let told = Arc::new(AtomicUsize::new(0));
    let (simulation, group) = (Simulation::new(1), told.clone());
    let runtime = simulation.runtime();
    let ended = simulation.run(async move {
        let _fault = mutation::put_back(fault);
        let (engine, began) = (engine(&runtime), runtime.elapsed());
        let first = set(&engine, keys("first", WIDE)).await;
        let (other, second) = (engine.clone(), Arc::new(Mutex::new(None)));
        let placed = second.clone();
        runtime.spawn(async move {
            let committing = set(&other, keys("second", WIDE)).await;
            *placed.lock().expect("nobody panics with it") = Some(committing);
        });
        runtime.sleep(AWAY / 5).await;
        let small = set(&engine, keys("small", 1)).await;
        assert!(small.wait().await.is_ok_and(|landed| landed.is_some()));
        let groups = runtime.elapsed().saturating_sub(began).div_duration_f64(AWAY).round();
        group.store(groups as usize, Ordering::Relaxed);
        assert!(first.settled());
        while second.lock().expect("nobody panics with it").is_none() {
            runtime.sleep(AWAY).await;
        }
        let second = second.lock().expect("nobody panics with it").take();
        assert!(second.expect("it is placed").wait().await.is_ok_and(|landed| landed.is_some()));
        assert_eq!(engine.store().count(0).await, Ok(2 * WIDE as u64 + 1));
    });
    assert_eq!(ended, Ended::Done);
    told.load(Ordering::Relaxed) as u64
}

#[test]
fn a_small_commit_waits_for_one_wide_commit_at_most() {
    assert_eq!(group_of_small_beside_wide(None), 2);
    assert_eq!(group_of_small_beside_wide(Some(Fault::WideTogether)), 3, "else for as many as there are");
}
