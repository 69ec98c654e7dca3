//! Transactions that read more than they may hold, from a store that answers in portions. They read what it holds, or
//! are refused before they hold much more than that.

use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::txn::{
    Ahead, Documents, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock, TxnError, TxnKind, TxnLimits,
};
use forebay::value::Data;
use forebay::{Change, Key, Value};
use futures_util::StreamExt;
use proptest::prelude::*;

fn key(number: usize) -> Key {
    Key::new(0, format!("k{number:03}").as_bytes())
}

fn value(number: usize, len: usize) -> Value {
    Value::bytes(vec![number as u8; len])
}

fn locks(keys: std::ops::Range<usize>) -> Vec<PlannedLock> {
    keys.map(|number| PlannedLock { key: key(number), mode: Mode::Shared, load: true }).collect()
}

/// Puts documents of these lengths in.
async fn put_all(engine: &Engine, lens: &[usize]) {
    for (number, len) in lens.iter().enumerate() {
        let lock = PlannedLock { key: key(number), mode: Mode::Exclusive, load: false };
        let plan = Plan { locks: vec![lock], ..Plan::default() };
        let put = |documents: &mut Documents| {
            documents.change(key(number).borrow(), Change::Put(value(number, *len))).map_err(|_| ())
        };
        match engine.execute(&plan, Context::default(), &mut Ahead::default(), put).await {
            Ok(Executed::Done((), committing)) => drop(committing.wait().await.expect("a sound store")),
            _ => panic!("a sound store"),
        }
    }
}

/// What is read of documents of these lengths within so many bytes; some of them fetched ahead, some cached.
async fn read(engine: &Engine, lens: &[usize], bytes_max: usize, interactive: bool) -> Result<Vec<usize>, TxnError> {
    let keys: Vec<Key> = (0..lens.len()).map(key).collect();
    let mut ahead = engine.fetch_ahead(&keys[keys.len() / 2..]).await;
    if interactive {
        let mut transaction = engine.begin(TxnKind::Interactive, Context::default());
        transaction.set_bytes_max(bytes_max);
        let before = transaction.documents().held_bytes();
        let prepared = transaction.prepare_command(&locks(0..lens.len()), &mut ahead).await;
        if prepared.is_err() {
            assert_eq!(transaction.documents().held_bytes(), before, "what was read is given up");
            // It goes on: another command finds room.
            transaction.prepare_command(&locks(0..1), &mut Ahead::default()).await.expect("one has room");
        }
        prepared?;
        let documents = transaction.documents();
        return Ok(keys.iter().map(|key| len_of(documents.value(key.borrow()).expect("it is loaded"))).collect());
    }
    let plan = Plan { locks: locks(0..lens.len()), bytes_max: Some(bytes_max), ..Plan::default() };
    let read = |documents: &mut Documents| {
        Ok::<_, Vec<usize>>(keys.iter().map(|key| len_of(documents.value(key.borrow()).expect("loaded"))).collect())
    };
    match engine.execute(&plan, Context::default(), &mut ahead, read).await? {
        Executed::Done(lens, _) => Ok(lens),
        Executed::WatchFailed | Executed::Stale(_) => unreachable!("nothing is watched"),
    }
}

fn cache(budget_bytes: usize) -> CacheOptions {
    let choice = choose("s3-fifo").expect("it is in the table");
    CacheOptions { budget_bytes, partitions: 1, policy: choice.policy, policy_values: choice.values }
}

fn len_of(value: Option<&Value>) -> usize {
    match value.map(|value| &value.data) {
        Some(Data::Bytes(bytes)) => bytes.len(),
        _ => usize::MAX,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_is_read_or_nothing(
        lens in proptest::collection::vec(0_usize..20_000, 1..40),
        bytes_max in 0_usize..400_000,
        interactive: bool,
        seed: u64,
    ) {
        let simulation = Simulation::new(seed);
        let runtime = simulation.runtime();
        let faults = Faults { portion_per_mille: 500, ..Faults::default() };
        let store: Arc<dyn Store> = Arc::new(Faulty::new(runtime.clone(), Arc::new(Memory::new()), faults, seed));
        let engine = Engine::new(EngineOptions::new(runtime, store, cache(100_000)));
        let ended = simulation.run(async move {
            put_all(&engine, &lens).await;
            let all: usize = lens.iter().sum();
            match read(&engine, &lens, bytes_max, interactive).await {
                Ok(read) => assert_eq!(read, lens),
                // What a document takes beside its bytes counts, too.
                Err(TxnError::TooLarge(most)) => assert!(most == bytes_max && all + 1024 * lens.len() > bytes_max),
                Err(other) => panic!("{other}"),
            }
            let largest = lens.iter().max().copied().unwrap_or_default();
            if all > bytes_max + largest {
                let again = read(&engine, &lens, bytes_max, interactive).await;
                assert!(matches!(again, Err(TxnError::TooLarge(_))), "{again:?}");
            }
            assert_eq!(read(&engine, &lens, usize::MAX, interactive).await.expect("no bound"), lens);
        });
        prop_assert_eq!(ended, Ended::Done);
    }
}

/// Many that read the same keys, a few at a time, and have to wait for their turn; how that ended.
fn many_readers(seed: u64) -> Ended {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    let faults = Faults { portion_per_mille: 700, ..Faults::default() };
    let far = Delay { fixed: Duration::from_micros(50), jitter: Duration::from_micros(500) };
    let store = Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), far));
    let store = Arc::new(Faulty::new(runtime.clone(), store, faults, seed));
    let limits = TxnLimits { turnless_bytes_max: 600, documents_bytes_max: 800, ..TxnLimits::default() };
    // Next to nothing stays in the cache.
    let engine = Engine::new(EngineOptions { limits, ..EngineOptions::new(runtime.clone(), store, cache(500)) });
    simulation.run(async move {
        put_all(&engine, &[100; 14]).await;
        let (done, mut told) = futures_channel::mpsc::unbounded();
        for reader in 0..6 {
            let (engine, done) = (engine.clone(), done.clone());
            runtime.spawn(async move {
                for round in 0..6 {
                    let first = (reader * 3 + round * 5) % 8;
                    let plan = Plan { locks: locks(first..first + 6), ..Plan::default() };
                    let read = |_: &mut Documents| Ok::<(), ()>(());
                    engine
                        .execute(&plan, Context::default(), &mut Ahead::default(), read)
                        .await
                        .expect("a sound store");
                }
                drop(done.unbounded_send(()));
            });
        }
        for _ in 0..6 {
            told.next().await;
        }
        assert_eq!(engine.locked_keys(), 0);
    })
}

#[test]
fn whoever_waits_for_its_turn_keeps_nobody_waiting() {
    for seed in 0..60 {
        assert_eq!(many_readers(seed), Ended::Done, "seed {seed}");
    }
    // The scenario would notice if one did.
    let _fault = mutation::put_back(Some(Fault::TurnAwaitedWithFills));
    assert!((0..200).any(|seed| many_readers(seed) == Ended::Stuck), "no seed finds open fills");
}
