//! What becomes of a commit where its store, or the code around it, does what it should not. Nothing is built on what
//! is lost, and what may be half done stays locked.

mod common;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::error::Unavailable;
use forebay::key::KEY_BYTES_MAX;
use forebay::mutation::{self, Fault};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::embedded::{Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::store::suite::block_on;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Resolved, Store};
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, Plan, PlannedLock, TxnError, TxnKind};
use forebay::{Change, Data, Key, Read, TxnId, Value, Version};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// What a store does with a commit that wants to be done at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    /// It has to wait, as with most stores.
    Never,
    Applies,
    Panics,
    /// Against the contract.
    DoesNotKnow,
}

/// When a store loses all that it has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loses {
    Nothing,
    /// After it has applied a group, before it says so.
    BeforeItAnswers,
    /// While the group is published, behind the first look at its incarnation.
    WhileItIsAsked,
}

/// The memory store, which loses what it has and breaks its contract on demand.
struct Wild {
    runtime: Runtime,
    memory: Mutex<Arc<Memory>>,
    incarnation: AtomicU64,
    now: Mutex<Now>,
    loses: Mutex<Loses>,
    /// The next group ends in a panic.
    panics: Mutex<bool>,
    /// The next question for the incarnation is the one behind which all is lost.
    armed: Mutex<bool>,
    engine: OnceLock<Engine>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wild {
    fn new(runtime: Runtime, now: Now) -> Arc<Wild> {
        Arc::new(Wild {
            runtime,
            memory: Mutex::new(Arc::new(Memory::new())),
            incarnation: AtomicU64::new(1),
            now: Mutex::new(now),
            loses: Mutex::new(Loses::Nothing),
            panics: Mutex::new(false),
            armed: Mutex::new(false),
            engine: OnceLock::new(),
        })
    }

    fn memory(&self) -> Arc<Memory> {
        locked(&self.memory).clone()
    }

    /// Loses everything, and has some reader notice it first.
    fn lose(&self) {
        *locked(&self.memory) = Arc::new(Memory::new());
        self.incarnation.fetch_add(1, Ordering::SeqCst);
        if let Some(engine) = self.engine.get() {
            assert!(engine.fetch_ahead(&[Key::new(0, b"nobody's")]).now_or_never().is_some());
        }
    }
}

impl Store for Wild {
    fn caps(&self) -> Caps {
        self.memory().caps()
    }

    fn name(&self) -> String {
        "wild".to_owned()
    }

    fn incarnation(&self) -> u64 {
        let answer = self.incarnation.load(Ordering::SeqCst);
        if std::mem::take(&mut *locked(&self.armed)) {
            self.lose();
        }
        answer
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        let memory = self.memory();
        Box::pin(async move { memory.get_within(keys, bytes_max).await })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            self.runtime.sleep(Duration::from_millis(5)).await;
            assert!(!std::mem::take(&mut *locked(&self.panics)), "a bug in a store");
            let incarnation = self.incarnation.load(Ordering::SeqCst);
            if group.iter().any(|commit| commit.version.incarnation < incarnation) {
                return group.iter().map(|_| CommitOutcome::Refused("minted before".to_owned())).collect();
            }
            let outcomes = self.memory().commit(group).await;
            match std::mem::replace(&mut *locked(&self.loses), Loses::Nothing) {
                Loses::Nothing => {}
                Loses::BeforeItAnswers => self.lose(),
                Loses::WhileItIsAsked => *locked(&self.armed) = true,
            }
            outcomes
        })
    }

    fn commits_now(&self) -> bool {
        true
    }

    fn commit_now(&self, commit: &Commit) -> Option<CommitOutcome> {
        let now = *locked(&self.now);
        match now {
            Now::Never => None,
            Now::Applies => self.memory().commit_now(commit),
            Now::Panics => panic!("a bug in a store"),
            Now::DoesNotKnow => {
                self.memory().commit_now(commit);
                Some(CommitOutcome::Unknown("who knows".to_owned()))
            }
        }
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        let memory = self.memory();
        Box::pin(async move { memory.outcome(id).await })
    }

    fn scan<'a>(&'a self, _: u8, _: Option<&'a Key>, _: usize) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn count(&self, _: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn clear<'a>(&'a self, _: &'a [u8], _: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        let memory = self.memory();
        Box::pin(async move { memory.expired(now_ms, limit).await })
    }

    fn memory_bytes(&self) -> usize {
        0
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn engine(runtime: Runtime, store: Arc<dyn Store>) -> Engine {
    let choice = choose("lru").expect("it is in the table");
    let cache =
        CacheOptions { budget_bytes: 1 << 20, partitions: 1, policy: choice.policy, policy_values: choice.values };
    Engine::new(EngineOptions::new(runtime, store, cache))
}

/// A wild store under an engine, and one run of it.
fn with_wild<F: Future<Output = ()> + Send + 'static>(now: Now, run: impl FnOnce(Engine, Arc<Wild>, Runtime) -> F) {
    let simulation = Simulation::new(1);
    let runtime = simulation.runtime();
    let wild = Wild::new(runtime.clone(), now);
    let engine = engine(runtime.clone(), wild.clone());
    assert!(wild.engine.set(engine.clone()).is_ok());
    assert_eq!(simulation.run(run(engine, wild, runtime)), Ended::Done);
}

fn key() -> Key {
    Key::new(0, b"counter")
}

fn planned(key: &Key) -> PlannedLock {
    PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: true }
}

/// Adds one to `key`; what the transaction saw then, once it is published.
async fn increment(engine: &Engine, key: &Key) -> Result<i64, TxnError> {
    let plan = Plan { locks: vec![planned(key)], ..Plan::default() };
    let mut ahead = Ahead::default();
    let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
        documents.change(key.borrow(), Change::AddInteger { field: None, delta: 1 }).map_err(|_| -1)?;
        Ok(count(documents.value(key.borrow()).expect("it was loaded")))
    });
    match executed.await? {
        Executed::Done(number, committing) => committing.wait().await.map(|_| number),
        Executed::WatchFailed | Executed::Stale(_) => Err(TxnError::Conflict("nothing is watched".to_owned())),
    }
}

fn count(value: Option<&Value>) -> i64 {
    match value.map(|value| &value.data) {
        None => 0,
        Some(Data::Bytes(bytes)) => std::str::from_utf8(&bytes.joined()).unwrap().parse().unwrap(),
        Some(other) => panic!("{other:?} is no counter"),
    }
}

/// The store has lost a group when it is published; what has read its result, and the cache, must not keep it. Whether
/// all ended as it should.
fn a_group_is_lost(loses: Loses) -> bool {
    let sound = Arc::new(Mutex::new(false));
    let told = sound.clone();
    with_wild(Now::Never, |engine, wild, runtime| async move {
        assert_eq!(increment(&engine, &key()).await, Ok(1));
        *locked(&wild.loses) = loses;
        let lost = engine.clone();
        let (sender, first) = futures_channel::oneshot::channel();
        runtime.spawn(async move {
            let _ = sender.send(increment(&lost, &key()).await);
        });
        runtime.sleep(Duration::from_millis(1)).await;
        // It gets the lock at once, and the result beside it.
        let built_on_it = increment(&engine, &key()).await;
        assert!(matches!(built_on_it, Err(TxnError::Refused(_))), "{built_on_it:?}");
        assert_eq!(first.await, Ok(Ok(2)), "it was acknowledged before the store lost it");
        let cached = engine.cache().peek(key().borrow()).map(|read| count(read.value.as_ref()));
        let next = increment(&engine, &key()).await;
        engine.validate();
        *locked(&told) = matches!(cached, None | Some(0)) && next == Ok(1);
    });
    *locked(&sound)
}

#[test]
fn a_group_that_is_lost_before_its_publication_is_not_built_upon() {
    for loses in [Loses::BeforeItAnswers, Loses::WhileItIsAsked] {
        assert!(a_group_is_lost(loses));
        let _on = mutation::put_back(Some(Fault::LostGroupPublished));
        assert!(!a_group_is_lost(loses), "without the second look at the incarnation this test must fail");
    }
}

#[test]
fn a_panic_within_the_commit_keeps_its_keys_locked() {
    with_wild(Now::Panics, |engine, wild, _| async move {
        let panicked = AssertUnwindSafe(increment(&engine, &key())).catch_unwind().await;
        assert!(panicked.is_err());
        assert_eq!(engine.locked_keys(), 1, "it may be half published");
        *locked(&wild.now) = Now::Applies;
        let blocked = increment(&engine, &key()).await;
        assert!(matches!(blocked, Err(TxnError::Conflict(_))), "{blocked:?}");
        let refused = increment(&engine, &Key::new(0, b"other")).await;
        assert!(matches!(&refused, Err(TxnError::StoreDown(why)) if why.contains("restart")), "{refused:?}");
        assert_eq!(engine.locked_keys(), 1);
    });
}

#[test]
fn a_panic_anywhere_else_gives_them_up() {
    with_wild(Now::Applies, |engine, _, _| async move {
        let plan = Plan { locks: vec![planned(&key())], ..Plan::default() };
        let mut ahead = Ahead::default();
        let run = engine.execute::<()>(&plan, Context::default(), &mut ahead, |_| panic!("a bug in a command"));
        assert!(AssertUnwindSafe(run).catch_unwind().await.is_err());
        assert_eq!(engine.locked_keys(), 0);
        // A change that the plan did not lock is refused before the commit.
        let mut transaction = engine.begin(TxnKind::Interactive, Context::default());
        transaction.prepare_command(&[planned(&key())], &mut Ahead::default()).await.expect("nothing is in the way");
        let dropped = AssertUnwindSafe(async move {
            let _held = transaction;
            panic!("a bug in a session");
        });
        assert!(dropped.catch_unwind().await.is_err());
        assert_eq!(engine.locked_keys(), 0);
        assert_eq!(increment(&engine, &key()).await, Ok(1));
    });
}

/// A store that never waits knows what it has done. One that says otherwise is not believed again.
#[test]
fn a_commit_at_once_of_which_nothing_is_known_stays_locked() {
    with_wild(Now::Applies, |engine, wild, _| async move {
        assert_eq!(increment(&engine, &key()).await, Ok(1));
        *locked(&wild.now) = Now::DoesNotKnow;
        let unknown = increment(&engine, &key()).await;
        assert!(matches!(unknown, Err(TxnError::Unknown(_))), "{unknown:?}");
        assert_eq!(engine.cache().peek(key().borrow()), None, "what was there before may be wrong");
        assert_eq!(engine.read_published(&[key().borrow()], &Context::default()).map(|_| ()), None);
        assert_eq!(engine.locked_keys(), 1);
        *locked(&wild.now) = Now::Applies;
        let refused = increment(&engine, &Key::new(0, b"other")).await;
        assert!(matches!(&refused, Err(TxnError::StoreDown(why)) if why.contains("restart")), "{refused:?}");
    });
}

/// What nobody reads any more takes the place of nothing that somebody reads.
#[test]
fn what_has_expired_does_not_enter_the_cache() {
    for now in [Now::Applies, Now::Never] {
        with_wild(now, |engine, wild, runtime| async move {
            let put = async |key: Key, expires_at_ms: Option<u64>| {
                let plan = Plan { locks: vec![planned(&key)], ..Plan::default() };
                let value = Value { expires_at_ms, ..Value::bytes([b'x'; 900]) };
                let mut ahead = Ahead::default();
                let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                    documents.change(key.borrow(), Change::Put(value.clone())).map_err(|_| ())
                });
                let Ok(Executed::Done((), committing)) = executed.await else { panic!("nothing is in the way") };
                committing.wait().await.expect("it is well");
            };
            let soon = runtime.now_ms() + 60_000;
            let expires = |number: u64| Key::new(0, format!("expires {number}").as_bytes());
            for number in 0..300 {
                put(expires(number), Some(soon)).await;
            }
            for number in 0..2000 {
                put(Key::new(0, format!("live {number}").as_bytes()), None).await;
            }
            put(expires(300), Some(soon)).await;
            assert!(engine.cache().peek(expires(0).borrow()).is_none() && engine.cache().stats().evictions > 300);
            assert!(engine.cache().peek(expires(300).borrow()).is_some());
            runtime.sleep(Duration::from_secs(61)).await;
            let before = engine.cache().stats();
            while engine.reap().await > 0 {}
            assert_eq!(wild.memory().count(0).await, Ok(2000));
            let after = engine.cache().stats();
            assert_eq!((after.insertions, after.evictions), (before.insertions, before.evictions));
            assert_eq!(after.entries, before.entries - 1, "the one that was cached went");
            engine.validate();
        });
    }
}

/// Whichever way the library is asked.
#[test]
fn a_key_that_is_too_long_is_refused() {
    let runtime = common::runtime();
    let disk = Forgetful::new();
    let make = Arc::new(move || Ok(disk.handle()));
    let embedded = Embedded::open_with_backend(runtime.clone(), make, EmbeddedOptions::default()).expect("it is new");
    let stores: [Arc<dyn Store>; 2] = [Arc::new(Memory::new()), Arc::new(embedded)];
    let engines = stores.map(|store| engine(runtime.clone(), store));
    let refused = |error: &TxnError| matches!(error, TxnError::Refused(why) if why.contains("a key of 65537 bytes"));
    block_on(async {
        for engine in &engines {
            let (longest, long) = (Key::new(0, &[b'k'; KEY_BYTES_MAX]), Key::new(0, &[b'k'; KEY_BYTES_MAX + 1]));
            assert_eq!(increment(engine, &longest).await, Ok(1));
            assert!(refused(&increment(engine, &long).await.unwrap_err()));
            // A write that does not look at what is there.
            let blind = PlannedLock { load: false, ..planned(&long) };
            let plan = Plan { locks: vec![blind.clone()], ..Plan::default() };
            let mut ahead = Ahead::default();
            let executed = engine.execute(&plan, Context::default(), &mut ahead, |documents| {
                documents.change(long.borrow(), Change::Put(Value::bytes(*b"x"))).map_err(|_| ())
            });
            assert!(refused(&executed.await.unwrap_err()));
            let mut transaction = engine.begin(TxnKind::Interactive, Context::default());
            let prepared = transaction.prepare_command(&[planned(&longest), blind], &mut Ahead::default()).await;
            assert!(refused(&prepared.unwrap_err()));
            drop(transaction);
            let body = async |transaction: &mut forebay::txn::Transaction| {
                let changed = transaction.documents_mut().change(long.borrow(), Change::Put(Value::bytes(*b"x")));
                changed.map_err(|error| TxnError::Refused(error.to_string()))
            };
            assert!(engine.transaction(body).await.is_err(), "it was not locked");
            let watched = engine.watch(&[longest, long.clone()], Context::default(), None).await;
            assert!(refused(&watched.expect_err("the name is too long")));
            assert!(engine.read_published(&[long.borrow()], &Context::default()).is_none());
            drop(engine.fetch_ahead(std::slice::from_ref(&long)).await);
            assert_eq!((engine.locked_keys(), engine.store().count(0).await), (0, Ok(1)));
            engine.validate();
        }
    });
}

/// A group ends in a panic while others wait behind it: how many of five clients are told nothing, ever.
#[cfg(feature = "tokio")]
fn untold_behind_a_panic() -> usize {
    let threads = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("there is room");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    let wild = Wild::new(runtime.clone(), Now::Never);
    let engine = engine(runtime.clone(), wild.clone());
    threads.block_on(async {
        *locked(&wild.panics) = true;
        let client = |name: &'static str| {
            let engine = engine.clone();
            tokio::spawn(async move { increment(&engine, &Key::new(0, name.as_bytes())).await })
        };
        // The first is a group of its own. Behind it wait some on keys of their own, some on a key that is handed on.
        let clients = ["a", "b", "c", "a", "b"].map(client);
        while *locked(&wild.panics) {
            runtime.sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut untold = 0;
        for client in clients {
            match client.is_finished() {
                true => {
                    let told = client.await.expect("the panic was the group's, not the client's");
                    assert!(matches!(told, Err(TxnError::Unknown(_))), "{told:?}");
                }
                false => untold += 1,
            }
        }
        let refused = increment(&engine, &key()).await;
        assert!(matches!(&refused, Err(TxnError::StoreDown(why)) if why.contains("restart")), "{refused:?}");
        assert_eq!(wild.memory().count(0).await, Ok(0));
        untold
    })
}

#[cfg(feature = "tokio")]
#[test]
fn all_who_wait_behind_a_panic_are_told() {
    assert_eq!(untold_behind_a_panic(), 0);
    let _on = mutation::put_back(Some(Fault::UntoldBehindPanic));
    assert_eq!(untold_behind_a_panic(), 4, "without telling those behind it this test must fail");
}

/// Clients that are always busy are all in one group: none is drained before those of the last have had their turn.
#[cfg(feature = "tokio")]
#[test]
fn a_group_takes_all_who_waited_for_the_one_before() {
    const CLIENTS: usize = 16;
    const TRANSACTIONS: u64 = 8;
    let threads = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("there is room");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    let metered = Arc::new(Metered::new(runtime.clone(), Wild::new(runtime.clone(), Now::Never)));
    let engine = engine(runtime, metered.clone());
    threads.block_on(async {
        let client = |number: usize| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let own = Key::new(0, &number.to_be_bytes());
                for _ in 0..TRANSACTIONS {
                    increment(&engine, &own).await.expect("nobody is in the way");
                }
            })
        };
        for client in (0..CLIENTS).map(client).collect::<Vec<_>>() {
            client.await.expect("it did not panic");
        }
    });
    let metrics = metered.snapshot();
    assert_eq!(metrics.commits, CLIENTS as u64 * TRANSACTIONS);
    // The first commit goes alone, so its client is done one group before the others.
    assert!(metrics.groups <= TRANSACTIONS + 1, "{} groups", metrics.groups);
}
