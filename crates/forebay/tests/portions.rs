//! Transactions that read more than they may hold, from a store that answers in portions: they read what it holds, or
//! are refused before they hold much more than that.

use std::sync::Arc;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::Store;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock, TxnError, TxnKind};
use forebay::value::Data;
use forebay::{Change, Key, Value};
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
    let read = |documents: &mut forebay::txn::Documents| {
        Ok::<_, Vec<usize>>(keys.iter().map(|key| len_of(documents.value(key.borrow()).expect("loaded"))).collect())
    };
    match engine.execute(&plan, Context::default(), &mut ahead, read).await? {
        Executed::Done(lens, _) => Ok(lens),
        Executed::WatchFailed => unreachable!("nothing is watched"),
    }
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
        let choice = choose("s3-fifo").expect("it is in the table");
        let (policy, policy_values) = (choice.policy, choice.values);
        let cache = CacheOptions { budget_bytes: 100_000, partitions: 1, policy, policy_values };
        let engine = Engine::new(EngineOptions::new(runtime, store, cache));
        let ended = simulation.run(async move {
            for (number, len) in lens.iter().enumerate() {
                let plan = Plan { locks: vec![PlannedLock { mode: Mode::Exclusive, ..locks(number..number + 1).remove(0) }], ..Plan::default() };
                let put = |documents: &mut forebay::txn::Documents| {
                    documents.change(key(number).borrow(), Change::Put(value(number, *len))).map_err(|_| ())
                };
                engine.execute(&plan, Context::default(), &mut Ahead::default(), put).await.expect("a sound store");
            }
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
