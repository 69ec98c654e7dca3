//! What is done at once over a store that never waits, and what is not. No transaction may have to wait long for the
//! lock table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Documents, Engine, EngineOptions, Mode, PlannedLock, TxnKind, Wanted};
use forebay::{Change, Key, Value};

fn with_engine<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(Engine) -> F) {
    let simulation = Simulation::new(1);
    let choice = choose("s3-fifo").expect("it is in the table");
    let (policy, policy_values) = (choice.policy, choice.values);
    let cache = CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy, policy_values };
    let (runtime, store) = (simulation.runtime(), Arc::new(Memory::new()));
    let engine = Engine::new(EngineOptions::new(runtime, store, cache));
    assert_eq!(simulation.run(run(engine)), Ended::Done);
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn lock(name: &str, load: bool) -> PlannedLock {
    PlannedLock { key: key(name), mode: Mode::Exclusive, load }
}

/// Writes `bytes` to `name` at once; whether that could be done.
fn put(engine: &Engine, name: &str, bytes: &[u8]) -> bool {
    let put = |documents: &mut Documents| {
        documents.change(key(name).borrow(), Change::Put(Value::bytes(bytes))).expect("a blind change");
        Ok(())
    };
    let done = engine.execute_at_once(&[lock(name, false).wanted()], &Context::default(), put);
    done.is_some_and(|done| done.expect("a sound store").1.is_some())
}

fn read(engine: &Engine, name: &str) -> Option<Option<Value>> {
    let value = |documents: &mut Documents| Ok(documents.value(key(name).borrow()).expect("loaded").cloned());
    let done = engine.execute_at_once(&[lock(name, true).wanted()], &Context::default(), value)?;
    Some(done.expect("a sound store").0)
}

#[test]
fn only_what_is_cached_and_small() {
    with_engine(|engine| async move {
        assert_eq!(read(&engine, "a"), None, "the store has to be asked");
        assert!(put(&engine, "a", b"1") && put(&engine, "large", &vec![7; 100_000]));
        assert_eq!(read(&engine, "a"), Some(Some(Value::bytes(*b"1"))));
        assert_eq!(read(&engine, "large"), None, "what runs on it may take long");
        let many: Vec<PlannedLock> = (0..100).map(|n| lock(&n.to_string(), false)).collect();
        let many: Vec<Wanted<'_>> = many.iter().map(PlannedLock::wanted).collect();
        assert!(engine.execute_at_once(&many, &Context::default(), |_| Ok(())).is_none());
        engine.validate();
    });
}

#[test]
fn not_beside_one_who_has_the_lock() {
    with_engine(|engine| async move {
        let mut open = engine.begin(TxnKind::Interactive, Context::default());
        open.prepare_command(&[lock("a", true)], &mut Default::default()).await.expect("nobody is in the way");
        assert!(!put(&engine, "a", b"1") && put(&engine, "b", b"1"));
        drop(open);
        assert!(put(&engine, "a", b"1"));
        assert_eq!(engine.locked_keys(), 0);
    });
}

/// It has changed nothing, so nothing is half done.
#[test]
fn a_panic_before_the_commit_stops_nobody() {
    with_engine(|engine| async move {
        let panics = |_: &mut Documents| -> Result<(), ()> { panic!("a bug in a command") };
        let attempt = || engine.execute_at_once(&[lock("a", false).wanted()], &Context::default(), panics);
        assert!(catch_unwind(AssertUnwindSafe(attempt)).is_err());
        assert!(put(&engine, "a", b"1"));
        assert_eq!(engine.locked_keys(), 0);
    });
}
