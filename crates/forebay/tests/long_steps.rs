//! What takes long holds up no other request, also where one thread polls all sockets: it goes on on a second one.
#![cfg(feature = "tokio")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{ThreadId, current};
use std::time::Duration;

use forebay::cache::{CacheOptions, Context};
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::store::embedded::{Embedded, EmbeddedOptions};
use forebay::store::memory::Memory;
use forebay::txn::{Ahead, Documents, Engine, EngineOptions, Executed, LARGE_BYTES, Mode, Plan, PlannedLock};
use forebay::{Change, Data, Key, Value};
use futures_channel::oneshot;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn one_thread() -> (tokio::runtime::Runtime, Runtime) {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is room");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    (threads, runtime)
}

/// Runs `long`, which blocks its thread until the sender that it is given back has sent; that is another task's work.
/// True if the other task had its turn.
fn blocks_until_another_task_ran<F: Future<Output = bool> + Send + 'static>(
    (threads, runtime): &(tokio::runtime::Runtime, Runtime),
    long: impl FnOnce(oneshot::Sender<()>, mpsc::Receiver<()>) -> F,
) -> bool {
    let (begins, begun) = oneshot::channel();
    let (ran, has_run) = mpsc::channel();
    let (ends, ended) = oneshot::channel();
    let long = long(begins, has_run);
    runtime.spawn(async move {
        let _ = ends.send(long.await);
    });
    runtime.spawn(async move {
        let _ = begun.await;
        let _ = ran.send(());
    });
    threads.block_on(ended).expect("it ends")
}

#[test]
fn a_task_leaves_for_what_takes_long_and_comes_back() {
    let threads = one_thread();
    let (told, place) = mpsc::channel::<[ThreadId; 4]>();
    let runtime = threads.1.clone();
    assert!(!runtime.can_leave(), "what is no task stays where it is");
    let other = blocks_until_another_task_ran(&threads, |begins, has_run| async move {
        let at_first = current().id();
        assert!(runtime.can_leave());
        runtime.leave().await;
        assert!(!runtime.can_leave(), "it has left");
        let aside = current().id();
        let _ = begins.send(());
        let ran = has_run.recv_timeout(PATIENCE).is_ok();
        // What it waits for there finds it there.
        runtime.sleep(Duration::from_millis(1)).await;
        let waited = current().id();
        runtime.come_back().await;
        let _ = told.send([at_first, aside, waited, current().id()]);
        ran
    });
    assert!(other, "another task has its turn meanwhile");
    let [at_first, aside, waited, at_last] = place.recv().expect("it was told");
    assert_eq!((at_first, aside, at_last), (current().id(), waited, current().id()));
    assert_ne!(at_first, aside);
}

#[test]
fn each_step_of_a_future_is_done_there() {
    let threads = one_thread();
    let runtime = threads.1.clone();
    let other = blocks_until_another_task_ran(&threads, |begins, has_run| async move {
        let steps = Box::pin(async move {
            let _ = begins.send(());
            has_run.recv_timeout(PATIENCE).is_ok()
        });
        runtime.in_long_steps(steps).await
    });
    assert!(other);
}

/// Where threads can hand their tasks on, whoever works long needs no other place.
#[test]
fn a_task_of_several_threads_works_aside_where_it_is() {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let threads = threads.expect("there is room");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    let other = blocks_until_another_task_ran(&(threads, runtime), |begins, has_run| async move {
        forebay::runtime::tokio::aside(|| {
            let _ = begins.send(());
            has_run.recv_timeout(PATIENCE).is_ok()
        })
    });
    assert!(other);
}

/// A panic there is one of the task that left: no other task is held up or moved by it.
#[test]
fn a_panic_there_ends_its_task_alone() {
    let threads = one_thread();
    for _ in 0..2 {
        let (ends, ended) = oneshot::channel::<()>();
        let runtime = threads.1.clone();
        threads.1.spawn(async move {
            let _ends = ends;
            runtime.leave().await;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(threads.0.block_on(ended).is_err(), "it is dropped, and tells nothing");
    }
    let runtime = threads.1.clone();
    assert!(blocks_until_another_task_ran(&threads, |begins, has_run| async move {
        runtime.leave().await;
        let _ = begins.send(());
        has_run.recv_timeout(PATIENCE).is_ok()
    }));
}

/// The body of a command on a large document, and a transaction's, blocks until another request was served.
#[test]
fn a_command_on_a_large_document_holds_up_no_other() {
    let threads = one_thread();
    let runtime = threads.1.clone();
    let store = Arc::new(Memory::new());
    let choice = choose("s3-fifo").expect("it is in the table");
    let cache =
        CacheOptions { budget_bytes: 64 << 20, partitions: 1, policy: choice.policy, policy_values: choice.values };
    let engine = Engine::new(EngineOptions::new(runtime, store, cache));
    let key = Key::new(0, b"large");
    let plan = |key: &Key| {
        let lock = PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: true };
        Plan { locks: vec![lock], ..Plan::default() }
    };
    let large = Value { data: Data::Bytes(vec![b'x'; LARGE_BYTES + 1].into()), expires_at_ms: None };
    let write = |documents: &mut Documents| documents.change(key.borrow(), Change::Put(large.clone())).map_err(|_| ());
    let mut ahead = Ahead::default();
    let written = threads.0.block_on(engine.execute(&plan(&key), Context::default(), &mut ahead, write));
    assert!(matches!(written, Ok(Executed::Done((), _))), "{written:?}");
    let other = blocks_until_another_task_ran(&threads, |begins, has_run| async move {
        let (mut begins, ran) = (Some(begins), Arc::new(AtomicBool::new(false)));
        let has_run = Mutex::new(has_run);
        let body = |_: &mut Documents| {
            if let Some(begins) = begins.take() {
                let _ = begins.send(());
            }
            let waited = has_run.lock().expect("nobody panics with it").recv_timeout(PATIENCE);
            ran.store(waited.is_ok(), Ordering::SeqCst);
            Ok::<(), ()>(())
        };
        let done = engine.execute_locked(&plan(&key), Context::default(), &mut Ahead::default(), body).await;
        engine.runtime().come_back().await;
        done.is_ok() && ran.load(Ordering::SeqCst)
    });
    assert!(other, "another task has its turn while the command works");
}

/// More wide transactions than the runtime has threads, which wait for one another's locks and for a store that needs
/// threads of its own: a step that waits gives its thread back, so all end.
#[test]
fn wide_transactions_that_wait_for_one_another_leave_threads_to_the_store() {
    const TRANSACTIONS: i64 = 12;
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let threads = threads.worker_threads(2).max_blocking_threads(2).enable_all().build().expect("there is room");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = folder.path().join("store.redb");
    let store = Embedded::open(runtime.clone(), file, EmbeddedOptions::default()).expect("it opens");
    let choice = choose("s3-fifo").expect("it is in the table");
    // Nothing stays cached, so each asks the store.
    let cache =
        CacheOptions { budget_bytes: 4 << 10, partitions: 1, policy: choice.policy, policy_values: choice.values };
    let engine = Engine::new(EngineOptions::new(runtime.clone(), Arc::new(store), cache));
    let keys: Arc<[Key]> = (0..600).map(|number| Key::new(0, format!("k{number:03}").as_bytes())).collect();
    let transaction = |_| {
        let (engine, keys, runtime) = (engine.clone(), keys.clone(), runtime.clone());
        threads.spawn(async move {
            let lock = |key: &Key| PlannedLock { key: key.clone(), mode: Mode::Exclusive, load: true };
            let plan = Plan { locks: keys.iter().map(lock).collect(), ..Plan::default() };
            let add = |documents: &mut Documents| {
                let one = || Change::AddInteger { field: None, delta: 1 };
                keys.iter().try_for_each(|key| documents.change(key.borrow(), one())).map_err(|_| ())
            };
            let steps = async {
                match engine.execute_locked(&plan, Context::default(), &mut Ahead::default(), add).await {
                    Ok(Executed::Done((), committing)) => committing.wait().await.is_ok(),
                    _ => false,
                }
            };
            runtime.in_long_steps(Box::pin(steps)).await
        })
    };
    let transactions: Vec<_> = (0..TRANSACTIONS).map(transaction).collect();
    threads.block_on(async {
        for transaction in transactions {
            let ended = tokio::time::timeout(PATIENCE, transaction).await.expect("all end");
            assert!(ended.expect("none panics"));
        }
    });
    let reads = threads.block_on(engine.store().get(&keys)).expect("it can be read");
    let counted = Value::bytes(TRANSACTIONS.to_string().into_bytes());
    assert!(reads.iter().all(|read| read.value.as_ref() == Some(&counted)), "each was done once");
}

/// It is a wait that ends with its task, and no panic.
#[test]
fn work_that_comes_when_its_runtime_has_ended_is_waited_for_in_vain() {
    let threads = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let runtime = forebay::runtime::tokio::runtime(threads.handle().clone());
    drop(threads);
    let mut waits = std::pin::pin!(runtime.blocking(|| 42));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..3 {
        assert!(waits.as_mut().poll(&mut context).is_pending());
    }
}
