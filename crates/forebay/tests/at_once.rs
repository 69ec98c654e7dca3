//! What is done at once over a store that never waits, and what is not. No transaction may have to wait long for the
//! lock table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Documents, Engine, EngineOptions, Mode, PlannedLock, TxnKind, Wanted};
use forebay::value::Data;
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

/// Where the bytes of a string lie.
fn address(value: Option<&Value>) -> Option<*const u8> {
    let Data::Bytes(bytes) = &value?.data else { return None };
    bytes.whole().map(|(shared, range)| shared[range].as_ptr())
}

/// A byte string lies where its command has put it, in cache and store: no copy of it is made for either.
#[test]
fn what_is_put_stays_where_it_was_put() {
    with_engine(|engine| async move {
        for (bytes, again) in [(&b"1"[..], false), (b"2", true), (&[7; 4096], true)] {
            let made = |documents: &mut Documents| {
                documents.put(key("a").borrow(), bytes, Some(u64::MAX)).expect("a blind change");
                let value = documents.value(key("a").borrow()).expect("it was put");
                assert_eq!(value, Some(&Value { expires_at_ms: Some(u64::MAX), ..Value::bytes(bytes) }));
                Ok(address(value).map(<*const u8>::addr))
            };
            let lock = lock("a", again);
            let done = engine.execute_at_once(&[lock.wanted()], &Context::default(), made);
            let made = done.expect("nothing is in the way").expect("a sound store").0;
            let cached = engine.cache().peek(key("a").borrow()).expect("it is cached").value;
            let stored = engine.store().get(&[key("a")]).await.expect("a sound store").remove(0).value;
            let addresses = [&cached, &stored].map(|value| address(value.as_ref()).map(<*const u8>::addr));
            assert!(made.is_some() && addresses == [made; 2], "{made:?}, {addresses:?}");
        }
        engine.validate();
    });
}

/// What is shown in place is what a read would answer, and a hit if something was taken.
#[test]
fn short_strings_are_shown_where_they_are() {
    with_engine(|engine| async move {
        let shown = |name: &str| {
            let taken = |bytes: Option<&[u8]>| Some(bytes.map(<[u8]>::to_vec));
            engine.show_published(key(name).borrow(), &Context::default(), taken)
        };
        assert_eq!(shown("a"), None, "it is not cached");
        assert!(put(&engine, "a", b"1") && put(&engine, "long", &[7; 5000]));
        assert_eq!((shown("a"), shown("long")), (Some(Some(b"1".to_vec())), None));
        let hits = engine.cache().stats().hits;
        let declined = engine.show_published(key("a").borrow(), &Context::default(), |_| None::<()>);
        assert_eq!((declined, engine.cache().stats().hits), (None, hits));
        assert!(shown("a").is_some() && engine.cache().stats().hits == hits + 1);
        let changes = |change: Change| {
            let make = |documents: &mut Documents| {
                documents.change(key("a").borrow(), change).expect("it fits");
                Ok(())
            };
            let done = engine.execute_at_once(&[lock("a", true).wanted()], &Context::default(), make);
            assert!(done.is_some_and(|done| done.is_ok()));
        };
        let soon = engine.runtime().now_ms() + 10;
        changes(Change::ExpireAt(soon));
        assert_eq!(shown("a"), Some(Some(b"1".to_vec())));
        engine.runtime().sleep(Duration::from_millis(10)).await;
        assert_eq!(shown("a"), Some(None), "its time is over");
        changes(Change::SetField((*b"f").into(), (*b"v").into()));
        assert_eq!(shown("a"), None, "it is no string");
        changes(Change::Delete);
        assert_eq!(shown("a"), Some(None), "it is known to be absent");
    });
}
