//! Faults that the simulation has found, each as the shortest run that shows it.

use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, OnWrite, Plan, TxnError, TxnLimits};
use forebay::{Change, Key, Value};

use crate::client::{counter, lock};
use crate::unordered::Unordered;

/// WATCH once remembered the version of a commit that was not published yet: a read without locks then showed the value
/// before it, and EXEC, finding the version unchanged, overwrote what its client had never seen.
#[test]
fn watch_remembers_nothing_that_is_not_published() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::ZERO };
    let store = Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay));
    let engine = engine(runtime, store);
    let ended = simulation.run(async move {
        let key = counter(0);
        let plan = Plan { locks: vec![lock(key.clone(), Mode::Exclusive, true)], ..Plan::default() };
        let increment = async || {
            let mut ahead = Ahead::default();
            let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                let change = Change::AddInteger { field: None, delta: 1 };
                documents.change(key.borrow(), change).map_err(|_| ())
            });
            match executed.await {
                Ok(Executed::Done((), committing)) => committing,
                other => panic!("{other:?}"),
            }
        };
        increment().await.wait().await.expect("the store is sound");
        let on_its_way = increment().await;
        let keys = std::slice::from_ref(&key);
        let (watched, committing) = engine.watch(keys, Context::default(), None).await.expect("nothing is in the way");
        committing.wait().await.expect("the store is sound");
        let shown = engine.read_published(&[key.borrow()], &Context::default()).expect("it is cached");
        assert_eq!(shown.version(key.borrow()), Some(watched[0].version), "what GET shows after WATCH");
        on_its_way.wait().await.expect("the store is sound");
    });
    assert_eq!(ended, Ended::Done);
}

fn engine(runtime: Runtime, store: Arc<dyn Store>) -> Engine {
    let choice = choose("lru").expect("it is in the table");
    Engine::new(EngineOptions {
        runtime,
        store,
        cache: CacheOptions {
            budget_bytes: 1 << 20,
            partitions: 1,
            policy: choice.policy,
            policy_values: choice.values,
        },
        limits: TxnLimits::default(),
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    })
}

/// With a store that is not ordered, a commit that ended well once cleared the note that another one's outcome was
/// unknown. A clearing then did not wait for that other, which was published after it: into a cleared space.
#[test]
fn one_commit_clears_up_nothing_about_another() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::ZERO };
    let faults = Faults { unknown_applied_per_mille: 1000, ..Faults::default() };
    let faulty = Arc::new(Faulty::new(
        runtime.clone(),
        Arc::new(Unordered { memory: Arc::new(Memory::new()), incarnation: 1 }),
        faults,
        1,
    ));
    let engine = engine(runtime.clone(), Arc::new(Delayed::new(runtime.clone(), faulty.clone(), delay)));
    let ended = simulation.run(async move {
        let put = async |key: Key| {
            let plan = Plan { locks: vec![lock(key.clone(), Mode::Exclusive, false)], ..Plan::default() };
            let mut ahead = Ahead::default();
            let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                documents.change(key.borrow(), Change::Put(Value::bytes(*b"x"))).map_err(|_| ())
            });
            assert!(matches!(executed.await, Ok(Executed::Done((), _))), "nothing is in the way");
        };
        let millis = async |ms: u64| runtime.sleep(Duration::from_millis(ms)).await;
        let unknown = Key::new(1, b"unknown");
        put(unknown.clone()).await;
        millis(4).await;
        // It is applied; its outcome, asked for at 5 ms, is not told at 10 ms.
        faulty.set_down(true);
        millis(2).await;
        // Surely not applied, which is told at 11 ms.
        put(Key::new(0, b"other")).await;
        millis(6).await;
        faulty.set_down(false);
        let cleared = engine.clear(&[1], "FLUSHDB", || true).await;
        assert!(matches!(cleared, Err(TxnError::StoreDown(_))), "{cleared:?} although a commit is not settled");
        while engine.locked_keys() > 0 {
            millis(10).await;
        }
        let stored = engine.store().get(std::slice::from_ref(&unknown)).await.expect("it is up").remove(0);
        assert_eq!(engine.cache().peek(unknown.borrow()).map(|read| read.value), Some(stored.value));
    });
    assert_eq!(ended, Ended::Done);
}

/// The reaper once counted what it had found, not what went: over a store that refuses writes but not reads it went on
/// without a pause, holding the locks of the same keys again and again.
#[test]
fn the_reaper_rests_where_nothing_can_be_removed() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let memory = Arc::new(Memory::new());
    let writable = engine(runtime.clone(), memory.clone());
    let faults = Faults { unavailable_per_mille: 1000, ..Faults::default() };
    let metered = Arc::new(Metered::new(runtime.clone(), Arc::new(Faulty::new(runtime.clone(), memory, faults, 1))));
    let refused = engine(runtime.clone(), metered.clone());
    let ended = simulation.run(async move {
        for number in 0..200 {
            let key = Key::new(0, format!("expires{number}").as_bytes());
            let plan = Plan { locks: vec![lock(key.clone(), Mode::Exclusive, false)], ..Plan::default() };
            let value = Value { expires_at_ms: Some(1), ..Value::bytes(*b"x") };
            let mut ahead = Ahead::default();
            let put = writable.execute(&plan, Context::default(), &mut ahead, |documents| {
                documents.change(key.borrow(), Change::Put(value.clone())).map_err(|_| ())
            });
            assert!(matches!(put.await, Ok(Executed::Done((), _))), "nothing is in the way");
        }
        assert_eq!(refused.reap().await, 0, "nothing went");
        refused.start_reaper();
        let before = metered.snapshot().groups;
        runtime.sleep(Duration::from_secs(1)).await;
        let tried = metered.snapshot().groups - before;
        assert!((10..=640).contains(&tried), "{tried} groups in a second");
        assert_eq!(writable.reap().await, 64, "where they can be removed they go");
    });
    assert_eq!(ended, Ended::Done);
}
