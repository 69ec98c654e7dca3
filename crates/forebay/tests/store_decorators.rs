//! What each decorator does to the calls that pass it, and the flushes that the embedded store starts itself.

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::Inline;
use forebay::change::Change;
use forebay::runtime::{Backend, Runtime};
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::forgetful::Forgetful;
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};
use futures_util::future::BoxFuture;

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn put(mint: &Mint, name: &str, value: Value) -> Commit {
    let writes = vec![write(&key(name), None, vec![Change::Put(value)])];
    Commit::new(TxnId(mint.next()), mint.next(), writes)
}

fn committed() -> CommitOutcome {
    CommitOutcome::Committed(Vec::new())
}

/// A runtime whose sleeps take no time, but are written down.
#[derive(Clone, Default)]
struct Sleeps {
    inline: Inline,
    slept: Arc<Mutex<Vec<Duration>>>,
    drawn: u64,
}

impl Backend for Sleeps {
    fn now_us(&self) -> u64 {
        self.inline.now_us()
    }

    fn elapsed(&self) -> Duration {
        self.inline.elapsed()
    }

    fn random(&self) -> u64 {
        self.drawn
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.slept.lock().unwrap().push(duration);
        self.inline.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        self.inline.blocking(work)
    }
}

#[test]
fn a_round_trip_takes_the_fixed_time_and_some_jitter() {
    let sleeps = Sleeps { drawn: 1_000_123, ..Sleeps::default() };
    let delay = Delay { fixed: Duration::from_millis(10), jitter: Duration::from_nanos(1_000) };
    let store = Delayed::new(Runtime::new(sleeps.clone()), Arc::new(Memory::new()), delay);
    assert!(block_on(store.get(&[key("a")])).is_ok());
    let half = Duration::from_nanos(10_000_123) / 2;
    assert_eq!(*sleeps.slept.lock().unwrap(), [half, half]);
    assert_eq!(block_on(store.commit(&[put(&Mint::new(1), "a", Value::bytes(*b"x"))])), [committed()]);
    assert_eq!(sleeps.slept.lock().unwrap().len(), 4);
}

#[test]
fn an_outage_stops_everything_until_it_ends() {
    let inline = Inline::default();
    let outages = vec![(Duration::from_millis(100), Duration::from_millis(200))];
    let faults = Faults { outages, ..Faults::default() };
    let store = Faulty::new(Runtime::new(inline.clone()), Arc::new(Memory::new()), faults, 1);
    let mint = Mint::new(1);
    let works = |store: &Faulty| {
        let commit = put(&mint, "a", Value::bytes(*b"x"));
        let outcome = block_on(store.commit(std::slice::from_ref(&commit))).remove(0);
        let all = [
            block_on(store.get(&[key("a")])).is_ok(),
            block_on(store.scan(0, None, 1)).is_ok(),
            block_on(store.count(0)).is_ok(),
            block_on(store.expired(0, 1)).is_ok(),
            block_on(store.outcome(commit.id)).is_ok(),
            block_on(store.flush()).is_ok(),
            block_on(store.clear(&[1], mint.next())).is_ok(),
            outcome == committed(),
        ];
        assert!(all.iter().all(|works| *works == all[0]), "{all:?}");
        assert!(all[0] || matches!(outcome, CommitOutcome::Unavailable(_)));
        all[0]
    };
    for (now, expected) in [(0, true), (100, false), (199, false), (200, true)] {
        inline.0.store(now, Ordering::SeqCst);
        assert_eq!(works(&store), expected, "at {now} ms");
    }
    store.set_down(true);
    assert!(!works(&store));
    store.set_down(false);
    assert!(works(&store));
}

#[test]
fn ordered_faults_come_as_ordered() {
    let mint = Mint::new(1);
    let memory = Arc::new(Memory::new());
    let runtime = common::runtime();
    let run = |faults: Faults, seed| {
        let store = Faulty::new(runtime.clone(), memory.clone(), faults, seed);
        let group = [put(&mint, "a", Value::bytes(*b"1")), put(&mint, "b", Value::bytes(*b"2"))];
        let outcomes = block_on(store.commit(&group));
        let applied = group.map(|commit| block_on(memory.outcome(commit.id)) == Ok(Resolved::Applied));
        (outcomes, applied)
    };
    let (outcomes, applied) = run(Faults { unavailable_per_mille: 1000, ..Faults::default() }, 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Unavailable(_))));
    assert_eq!(applied, [false, false]);
    let (outcomes, applied) = run(Faults { unknown_applied_per_mille: 1000, ..Faults::default() }, 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Unknown(_))));
    assert_eq!(applied, [true, true]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (outcomes, applied) = run(Faults { unknown_partial_per_mille: 1000, ..Faults::default() }, seed);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Unknown(_))));
        let again = run(Faults { unknown_partial_per_mille: 1000, ..Faults::default() }, seed);
        assert_eq!(applied, again.1, "the same seed does the same");
        seen.insert(applied);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [[false, false], [true, false], [true, true]]);
}

#[test]
fn calls_are_counted() {
    let sleeps = Sleeps::default();
    let runtime = Runtime::new(sleeps);
    let delay = Delay { fixed: Duration::from_millis(6), jitter: Duration::ZERO };
    let delayed = Arc::new(Delayed::new(runtime.clone(), Arc::new(Memory::new()), delay));
    let faulty = Arc::new(Faulty::new(runtime.clone(), delayed, Faults::default(), 1));
    let store = Metered::new(runtime, faulty.clone());
    let mint = Mint::new(1);
    let value = Value::bytes(*b"some bytes");
    let group = [put(&mint, "a", value.clone()), put(&mint, "b", value.clone()), put(&mint, "c", value.clone())];
    block_on(store.commit(&group));
    block_on(store.get(&[key("a"), key("nothing"), key("b")])).unwrap();
    faulty.set_down(true);
    assert!(block_on(store.get(&[key("a")])).is_err());
    block_on(store.commit(&group[..2]));
    assert!(block_on(store.flush()).is_err());
    let metrics = store.snapshot();
    assert_eq!((metrics.round_trips, metrics.reads, metrics.keys_read), (5, 2, 4));
    assert_eq!((metrics.groups, metrics.commits, metrics.keys_written), (2, 5, 5));
    assert_eq!((metrics.failures, metrics.unknown), (4, 0));
    let size = value.size() as u64;
    assert_eq!((metrics.bytes_read, metrics.bytes_written), (2 * size, 5 * size));
    let latency = &metrics.group_latency;
    assert_eq!((latency.calls, latency.total_us, latency.longest_us), (2, 6_000, 6_000));
    assert_eq!((latency.buckets[0], latency.buckets[12]), (1, 1), "6,000 us lie between 2^12 and 2^13");
}

#[test]
fn what_waits_too_long_is_flushed() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let runtime = forebay::runtime::tokio::runtime(tokio.handle().clone());
    let disk = Forgetful::new();
    let handles = disk.clone();
    let options = EmbeddedOptions { durability: Durability::Interval { sync_ms: 2 }, page_cache_bytes: 1 << 20 };
    let make = Arc::new(move || Ok(handles.handle()));
    let store = Embedded::open_with_backend(runtime, make, options).unwrap();
    let mint = Mint::new(store.incarnation());
    for _ in 0..3 {
        let before = disk.written().syncs;
        assert_eq!(block_on(store.commit(&[put(&mint, "a", Value::bytes(*b"x"))])), [committed()]);
        while disk.written().syncs == before {
            std::thread::yield_now();
        }
    }
}

/// Documents of 15 MiB that a crash leaves of `number` commits, if all that was not synced is lost.
fn left_of(number: u8) -> u64 {
    let disk = Forgetful::new();
    let open = || {
        let handles = disk.clone();
        let options = EmbeddedOptions { durability: Durability::Never, page_cache_bytes: 1 << 20 };
        Embedded::open_with_backend(common::runtime(), Arc::new(move || Ok(handles.handle())), options).unwrap()
    };
    let store = open();
    let mint = Mint::new(store.incarnation());
    let value = Value::bytes(vec![b'x'; 15 << 20]);
    for at in 0..number {
        assert_eq!(block_on(store.commit(&[put(&mint, &at.to_string(), value.clone())])), [committed()]);
    }
    disk.crash(|_| None);
    drop(store);
    block_on(open().count(0)).unwrap()
}

#[test]
fn what_waits_is_bounded() {
    assert_eq!(left_of(4), 0, "below 64 MiB nothing is flushed");
    assert_eq!(left_of(6), 5, "the fifth commit passes 64 MiB, so it takes all before it to the disk");
}
