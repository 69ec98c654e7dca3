//! What others have written reaches the cache when a client asks for it, and tables that nothing watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::key::KeyRef;
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, Outside, ReadError, Store, Write};
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock};
use forebay::value::Data;
use forebay::{Change, Key, Read, Value, Version};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

use crate::gate::put;

/// Between a commit and its answer.
const ANSWERED_AFTER: Duration = Duration::from_millis(100);

/// A database that others write to. What they write to `seen ..` it tells when it is asked; of all else nothing.
struct Shared {
    inner: Memory,
    runtime: Runtime,
    told: (UnboundedSender<Outside>, AsyncMutex<UnboundedReceiver<Outside>>),
    asked: AtomicU64,
    /// Questions for versions, and documents read.
    checks: AtomicUsize,
    reads: AtomicUsize,
}

impl Shared {
    fn new(runtime: &Runtime) -> Arc<Shared> {
        let (sender, receiver) = unbounded();
        let (asked, checks, reads) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let told = (sender, AsyncMutex::new(receiver));
        Arc::new(Shared { inner: Memory::new(), runtime: runtime.clone(), told, asked, checks, reads })
    }

    /// Another program writes this number.
    async fn others_write(&self, number: u64, name: &str) {
        let written = self.inner.commit(&[put(number, name)]).await;
        assert_eq!(written, [CommitOutcome::Committed(Vec::new())]);
        if name.starts_with("seen") {
            self.told.0.unbounded_send(Outside::Keys(vec![key(name)])).expect("the store is there");
        }
    }

    fn counted(&self) -> (usize, usize) {
        (self.checks.swap(0, Ordering::SeqCst), self.reads.swap(0, Ordering::SeqCst))
    }
}

impl Store for Shared {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: false, applies: false }
    }

    fn name(&self) -> String {
        "shared".into()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.reads.fetch_add(keys.len(), Ordering::SeqCst);
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let outcomes = self.inner.commit(group).await;
            self.runtime.sleep(ANSWERED_AFTER).await;
            // As it was when the commit was made.
            let told = |(commit, outcome): (&Commit, CommitOutcome)| match outcome {
                CommitOutcome::Committed(_) => {
                    let read = |write: &Write| Read { value: write.after.clone(), version: commit.version };
                    CommitOutcome::Committed(
                        commit.writes.iter().map(|write| (write.key.clone(), read(write))).collect(),
                    )
                }
                other => other,
            };
            group.iter().zip(outcomes).map(told).collect()
        })
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.runtime.sleep(Duration::from_millis(5)).await;
            self.inner.check(checks).await
        })
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async { self.told.1.lock().await.next().await })
    }

    fn sync(&self) -> Option<u64> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.told.0.unbounded_send(Outside::Synced(number)).expect("the store is there");
        Some(number)
    }

    fn unwatched(&self) -> Vec<String> {
        vec!["unseen".into()]
    }

    fn unwatched_place(&self, key: KeyRef<'_>) -> Option<usize> {
        (!key.name.starts_with(b"seen")).then_some(0)
    }

    forebay::rest_of_store!(inner);
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn engine(runtime: &Runtime, store: &Arc<Shared>, unwatched_after: Option<Duration>) -> Engine {
    let policy = choose("lru").expect("it is in the table").policy;
    let cache = CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy, policy_values: Vec::new() };
    let engine =
        Engine::new(EngineOptions { unwatched_after, ..EngineOptions::new(runtime.clone(), store.clone(), cache) });
    engine.start_watching();
    engine
}

fn plan(name: &str, mode: Mode) -> Plan {
    Plan { locks: vec![PlannedLock { key: key(name), mode, load: true }], ..Plan::default() }
}

fn number(value: Option<&Value>) -> u64 {
    match value.map(|value| &value.data) {
        Some(Data::Bytes(text)) => {
            std::str::from_utf8(&text.joined()).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// As a client reads: without locks, or with them.
async fn read(engine: &Engine, name: &str) -> u64 {
    let asked = key(name);
    if let Some(documents) = engine.read_published(&[asked.borrow()], &Context::default()) {
        return number(documents.value(asked.borrow()).expect("it is loaded"));
    }
    let body = |documents: &mut forebay::txn::Documents| Ok(number(documents.value(asked.borrow()).expect("loaded")));
    let done: Result<_, _> =
        engine.execute(&plan(name, Mode::Shared), Context::default(), &mut Ahead::default(), body).await;
    match done.expect("the store is there") {
        Executed::Done(number, committing) => {
            committing.wait().await.expect("nothing stands in its way");
            number
        }
        Executed::WatchFailed | Executed::Stale(_) => unreachable!("nothing is watched"),
    }
}

async fn write(engine: &Engine, name: &str, value: &str) {
    let put = |documents: &mut forebay::txn::Documents| {
        documents.change(key(name).borrow(), Change::Put(Value::bytes(value.as_bytes()))).expect("it fits");
        Ok(())
    };
    let done: Result<_, _> =
        engine.execute(&plan(name, Mode::Exclusive), Context::default(), &mut Ahead::default(), put).await;
    assert!(matches!(done, Ok(Executed::Done((), _))), "it commits");
}

fn simulated<F: Future<Output = ()> + Send + 'static>(seed: u64, work: impl FnOnce(Runtime) -> F) {
    let simulation = Simulation::new(seed);
    let runtime = simulation.runtime();
    assert_eq!(simulation.run(work(runtime)), Ended::Done);
}

/// Runs of many seeds in which what a client reads behind a sync is older than what others had written before it. A
/// commit of ours is on its way at that time, which has come to the store before theirs, and publishes what it
/// computed.
fn stale_behind_sync(name: &'static str) -> usize {
    let stale = Arc::new(AtomicUsize::new(0));
    for seed in 0..40 {
        let stale = stale.clone();
        simulated(seed, move |runtime| async move {
            let store = Shared::new(&runtime);
            let engine = engine(&runtime, &store, None);
            write(&engine, name, "100").await;
            read(&engine, name).await;
            let ours = engine.clone();
            runtime.spawn(async move { write(&ours, name, "200").await });
            runtime.sleep(ANSWERED_AFTER / 2).await;
            store.others_write(300, name).await;
            engine.sync(Duration::from_secs(10)).await.expect("the store is there");
            stale.fetch_add(usize::from(read(&engine, name).await != 300), Ordering::SeqCst);
        });
    }
    stale.load(Ordering::SeqCst)
}

#[test]
fn behind_a_sync_nothing_older_is_read() {
    assert_eq!(["seen 1", "unseen 1"].map(stale_behind_sync), [0, 0]);
    {
        let _on = mutation::put_back(Some(Fault::SyncedTooEarly));
        assert!(stale_behind_sync("seen 1") > 0);
    }
    let _on = mutation::put_back(Some(Fault::UnwatchedKept));
    assert!(stale_behind_sync("unseen 1") > 0);
}

/// What was invalidated is read from the store, be it held by a commit on its way or not.
#[test]
fn behind_an_invalidation_nothing_older_is_read() {
    for seed in 0..40 {
        simulated(seed, move |runtime| async move {
            let store = Shared::new(&runtime);
            let engine = engine(&runtime, &store, None);
            for name in ["unseen 1", "unseen 2"] {
                write(&engine, name, "100").await;
            }
            let ours = engine.clone();
            runtime.spawn(async move { write(&ours, "unseen 1", "200").await });
            runtime.sleep(ANSWERED_AFTER / 2).await;
            store.others_write(300, "unseen 1").await;
            store.others_write(301, "unseen 2").await;
            let keys = ["unseen 1", "unseen 2", "unseen 3"].map(key);
            assert_eq!(engine.invalidate(&keys).await, 2, "copies that were cached");
            assert_eq!(read(&engine, "unseen 1").await, 300);
            assert_eq!(read(&engine, "unseen 2").await, 301);
        });
    }
}

const NAMES: [&str; 3] = ["unseen 1", "unseen 2", "seen 1"];

/// Of what nothing watches a read is never older than the limit, and costs a question for the version: one for all who
/// ask at a time, and none within the limit.
fn believed(limit: Duration) -> bool {
    let stale = Arc::new(AtomicUsize::new(0));
    let counted = stale.clone();
    simulated(7, move |runtime| async move {
        let store = Shared::new(&runtime);
        let engine = engine(&runtime, &store, Some(limit));
        for (name, number) in NAMES.into_iter().zip(100..) {
            store.inner.commit(&[put(number, name)]).await;
            assert_eq!(read(&engine, name).await, number);
        }
        assert_eq!(store.counted(), (0, 3));
        runtime.sleep(limit / 2).await;
        assert_eq!(read(&engine, "unseen 1").await, 100);
        assert_eq!(store.counted(), (0, 0), "it is believed");
        store.others_write(300, "unseen 1").await;
        runtime.sleep(limit).await;
        let (done, mut all) = unbounded();
        for at in 0..20 {
            let (engine, done) = (engine.clone(), done.clone());
            runtime.spawn(async move {
                let _ = done.unbounded_send((at % 3, read(&engine, NAMES[at % 3]).await));
            });
        }
        drop(done);
        while let Some((at, number)) = all.next().await {
            let expected = [300, 101, 102][at];
            stale.fetch_add(usize::from(number != expected), Ordering::SeqCst);
        }
        let (checks, reads) = store.counted();
        assert!(checks <= 2 && reads <= 1, "{checks} questions, {reads} documents");
    });
    counted.load(Ordering::SeqCst) == 0
}

#[test]
fn what_nothing_watches_is_believed_for_a_limit() {
    assert!(believed(Duration::from_millis(1000)));
    let _on = mutation::put_back(Some(Fault::UnwatchedBelieved));
    assert!(!believed(Duration::from_millis(1000)));
}
