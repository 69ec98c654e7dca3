//! Faults that the simulation has found, each as the shortest run that shows it.

use std::sync::Arc;
use std::time::Duration;

use forebay::Change;
use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::memory::Memory;
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, Plan, TxnLimits};

use crate::client::{counter, lock};

/// WATCH once remembered the version of a commit that was not published yet: a read without locks then showed the value
/// before it, and EXEC, finding the version unchanged, overwrote what its client had never seen.
#[test]
fn watch_remembers_nothing_that_is_not_published() {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::ZERO };
    let store = Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay));
    let choice = choose("lru").expect("it is in the table");
    let engine = Engine::new(EngineOptions {
        runtime,
        store,
        cache: CacheOptions {
            budget_bytes: 1 << 20,
            partitions: 1,
            policy: choice.policy,
            policy_values: choice.values,
        },
        limits: TxnLimits::default(),
        history: None,
    });
    let ended = simulation.run(async move {
        let key = counter(0);
        let plan = Plan { locks: vec![lock(key.clone(), Mode::Exclusive, true)], watched: Vec::new() };
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
        let (watched, committing) = engine.watch(keys, Context::default()).await.expect("nothing is in the way");
        committing.wait().await.expect("the store is sound");
        let shown = engine.read_published(&[key.borrow()], &Context::default()).expect("it is cached");
        assert_eq!(shown.version(key.borrow()), Some(watched[0].version), "what GET shows after WATCH");
        on_its_way.wait().await.expect("the store is sound");
    });
    assert_eq!(ended, Ended::Done);
}
