//! What a change to a long byte string costs on its whole way, from its command to its publication. It is counted in
//! bytes and in groups of the store. What a change alone copies: `memory.rs`; what is written to a file:
//! `store_cost.rs`.

use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::txn::{Ahead, Committing, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock};
use forebay::{Change, Key, Value};
use tikv_jemalloc_ctl::thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn engine(runtime: Runtime, store: Arc<dyn Store>) -> Engine {
    let choice = choose("s3-fifo").expect("it is in the table");
    let (policy, policy_values) = (choice.policy, choice.values);
    let cache = CacheOptions { budget_bytes: 64 << 20, partitions: 1, policy, policy_values };
    Engine::new(EngineOptions::new(runtime, store, cache))
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

/// Changes `name` as a command does; the answer is to be waited for.
async fn change(engine: &Engine, name: &str, change: Change) -> Committing {
    let lock = PlannedLock { key: key(name), mode: Mode::Exclusive, load: true };
    let plan = Plan { locks: vec![lock], ..Plan::default() };
    let mut ahead = Ahead::default();
    let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
        documents.change(key(name).borrow(), change.clone()).map_err(|_| ())
    });
    match executed.await {
        Ok(Executed::Done((), committing)) => committing,
        other => panic!("{other:?}"),
    }
}

async fn put(engine: &Engine, name: &str, len: usize) {
    let value = Value::bytes(vec![b'x'; len]);
    change(engine, name, Change::Put(value)).await.wait().await.expect("a sound store");
}

fn append() -> Change {
    Change::Append((*b"y").into())
}

type Make = dyn Fn(Runtime) -> Arc<dyn Store>;

/// Bytes that are allocated for one append to a string of `len` bytes, until it is published; the least of some.
fn allocated(make: &Make, len: usize) -> u64 {
    let simulation = Simulation::new(1);
    let (runtime, least) = (simulation.runtime(), Arc::new(std::sync::Mutex::new(u64::MAX)));
    let engine = engine(runtime.clone(), make(runtime));
    let told = least.clone();
    let ended = simulation.run(async move {
        put(&engine, "k", len).await;
        let bytes = || thread::allocatedp::read().unwrap().get();
        for _ in 0..8 {
            let before = bytes();
            change(&engine, "k", append()).await.wait().await.expect("a sound store");
            let mut least = told.lock().unwrap();
            *least = least.min(bytes() - before);
        }
    });
    assert_eq!(ended, Ended::Done);
    *least.lock().unwrap()
}

#[test]
fn a_byte_appended_to_megabytes_costs_what_one_appended_to_kilobytes_does() {
    let delayed = |runtime: Runtime| -> Arc<dyn Store> {
        let delay = Delay { fixed: Duration::from_millis(1), jitter: Duration::ZERO };
        Arc::new(Delayed::new(runtime, Arc::new(Memory::new()), delay))
    };
    let embedded = |runtime: Runtime| -> Arc<dyn Store> {
        let disk = Forgetful::new();
        let options = EmbeddedOptions { durability: Durability::Always, page_cache_bytes: 64 << 20 };
        let make = Arc::new(move || Ok(disk.handle()));
        Arc::new(Embedded::open_with_backend(runtime, make, options).unwrap())
    };
    let memory = |_: Runtime| -> Arc<dyn Store> { Arc::new(Memory::new()) };
    let stores: [(&str, &Make); 3] = [("memory", &memory), ("delayed", &delayed), ("embedded", &embedded)];
    for (name, make) in stores {
        let small = allocated(make, 8 << 10);
        for len in [(8 << 20) - 100, 8 << 20] {
            let large = allocated(make, len);
            eprintln!("{name}: {small} bytes for 8 KiB, {large} for {len}");
            assert!(large <= 3 * small + (16 << 10), "{name}: {small} bytes for 8 KiB, {large} for {len}");
        }
    }
}

/// Groups that the store is given for `each` appends to each of `documents` strings of `len` bytes, none of which waits
/// for another's answer.
fn groups(len: usize, documents: usize, each: usize) -> u64 {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let delay = Delay { fixed: Duration::from_millis(5), jitter: Duration::ZERO };
    let delayed = Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay);
    let store = Arc::new(Metered::new(runtime.clone(), Arc::new(delayed)));
    let (engine, metered) = (engine(runtime, store.clone()), store.clone());
    let ended = simulation.run(async move {
        let names: Vec<String> = (0..documents).map(|number| number.to_string()).collect();
        for name in &names {
            put(&engine, name, len).await;
        }
        let mut sent = Vec::new();
        for name in std::iter::repeat_n(&names, each).flatten() {
            sent.push(change(&engine, name, append()).await);
        }
        for committing in sent {
            committing.wait().await.expect("a sound store");
        }
        let mut expected = vec![b'x'; len];
        expected.resize(len + each, b'y');
        for name in &names {
            let stored = engine.store().get(&[key(name)]).await.unwrap().remove(0);
            assert!(stored.value == Some(Value::bytes(&*expected)), "{name}");
        }
        engine.validate();
    });
    assert_eq!(ended, Ended::Done);
    metered.snapshot().groups - documents as u64
}

/// Sixteen MiB of commits may be on their way (`placed_bytes_max`).
#[test]
fn a_string_counts_once_for_all_commits_that_change_it() {
    let (short, long) = (groups(8 << 10, 1, 60), groups(8 << 20, 1, 60));
    assert_eq!(long, short, "a long string is in the way of the commits that change it");
    assert!(groups(4 << 20, 12, 1) >= 3, "other strings count, each as a whole");
    assert!(groups(4 << 20, 12, 5) >= 3, "and they go on to while one of their commits is on its way");
}
