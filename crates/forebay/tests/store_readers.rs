//! Readers of the embedded store while its file is flushed, or fails. They wait for no disk that is not theirs, and
//! see all that was acknowledged for as long as it is there.

mod common;

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use common::runtime;
use forebay::mutation::{self, Fault};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::forgetful::Forgetful;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Store};
use forebay::version::Mint;
use forebay::{Change, Key, Read, TxnId, Value, Version};
use redb::{BackendError, StorageBackend};

/// Longer than anything takes here that is to happen at all: what waits for longer hangs.
const HANGS: Duration = Duration::from_secs(60);

/// For so long is waited for what must not happen.
const MUST_NOT: Duration = Duration::from_millis(300);

const PAGE_CACHE_BYTES: usize = 1 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// What happens at the next call of a kind, in the middle of it.
#[derive(Clone, Default)]
struct Calls {
    read: Arc<Mutex<Option<Work>>>,
    sync: Arc<Mutex<Option<Work>>>,
}

fn at_next(call: &Mutex<Option<Work>>, work: impl FnOnce() + Send + 'static) {
    *call.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
}

fn happens(call: &Mutex<Option<Work>>) {
    let work = call.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(work) = work {
        work();
    }
}

/// A disk that can be interrupted.
#[derive(Debug)]
struct Interrupted {
    disk: Box<dyn StorageBackend>,
    calls: Calls,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

impl StorageBackend for Interrupted {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        happens(&self.calls.read);
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        happens(&self.calls.sync);
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.write(offset, data)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.disk.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.disk.unlock_range(start, end)
    }
}

/// A store that flushes when it is told to, on such a disk.
struct Scene {
    calls: Calls,
    store: Arc<Embedded>,
    mint: Arc<Mint>,
}

impl Scene {
    fn new() -> Scene {
        Scene::on(Forgetful::new())
    }

    fn on(disk: Forgetful) -> Scene {
        let calls = Calls::default();
        let interrupted = calls.clone();
        let make = Arc::new(move || -> io::Result<Box<dyn StorageBackend>> {
            Ok(Box::new(Interrupted { disk: disk.handle(), calls: interrupted.clone() }))
        });
        let options = EmbeddedOptions { durability: Durability::Never, page_cache_bytes: PAGE_CACHE_BYTES };
        let store = Embedded::open_with_backend(runtime(), make, options).expect("the store opens");
        let mint = Arc::new(Mint::new(store.incarnation()));
        Scene { calls, store: Arc::new(store), mint }
    }
}

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn put(store: &Embedded, mint: &Mint, name: &str, value: Value) -> CommitOutcome {
    let writes = vec![write(&key(name), None, vec![Change::Put(value)])];
    let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
    block_on(store.commit(&[commit])).remove(0)
}

/// Writes that nobody can read before it is shown.
fn put_hidden(store: &Embedded, mint: &Mint, name: &str) {
    // The group after a read is shown at once, the next one is not.
    for value in [b"0", b"1"] {
        assert_eq!(put(store, mint, name, Value::bytes(*value)), CommitOutcome::Committed(Vec::new()));
    }
}

fn get(store: &Embedded, name: &str) -> Read {
    block_on(store.get(&[key(name)])).expect("it can be read").remove(0)
}

/// Whether a reader gets its answer while the flush is at the disk, for which it is waited so long.
fn read_during_a_flush(patience: Duration) -> bool {
    let Scene { calls, store, mint } = Scene::new();
    put_hidden(&store, &mint, "a");
    let (reading, read_by) = (store.clone(), Arc::new(Mutex::new(None)));
    let (reader, answered) = (read_by.clone(), Arc::new(AtomicBool::new(false)));
    let answer = answered.clone();
    at_next(&calls.sync, move || {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            assert_eq!(get(&reading, "a").value, Some(Value::bytes(*b"1")));
            let _ = sender.send(());
        });
        answer.store(receiver.recv_timeout(patience).is_ok(), Ordering::SeqCst);
        *reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    });
    assert_eq!(block_on(store.flush()), Ok(()));
    let thread = read_by.lock().unwrap_or_else(PoisonError::into_inner).take().expect("the flush went to the disk");
    thread.join().expect("it read what was acknowledged");
    answered.load(Ordering::SeqCst)
}

#[test]
fn a_reader_does_not_wait_behind_the_flush() {
    assert!(read_during_a_flush(HANGS));
    let _on = mutation::put_back(Some(Fault::ShownByFlushing));
    assert!(!read_during_a_flush(MUST_NOT), "if readers were shown it by the flush this test must fail");
}

/// A group fails while one before it is acknowledged but not shown: the file is closed, and a reader comes in the midst
/// of it. Whether it was answered as if that group had never been, by a store that had not lost anything yet.
fn read_during_a_close(patience: Duration) -> bool {
    let disk = Forgetful::new();
    let Scene { store, mint, .. } = Scene::on(disk.clone());
    put_hidden(&store, &mint, "a");
    let (reading, thread) = (store.clone(), Arc::new(Mutex::new(None)));
    let (sender, receiver) = mpsc::channel();
    let started = thread.clone();
    mutation::do_meanwhile(move || {
        *started.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::spawn(move || {
            let read = block_on(reading.get(&[key("a")]));
            let _ = sender.send(());
            (read, reading.incarnation())
        }));
        let _ = receiver.recv_timeout(patience);
    });
    disk.fail_in(Some(0));
    let failed = put(&store, &mint, "large", Value::bytes(vec![b'x'; 3 * PAGE_CACHE_BYTES]));
    assert!(matches!(failed, CommitOutcome::Unknown(_)), "{failed:?}");
    let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take().expect("the file was closed");
    let (read, incarnation) = thread.join().expect("a reader does not panic");
    assert!(read.is_err() || incarnation == 1, "nobody but who asks for the outcome opens the file");
    read.is_ok_and(|reads| reads[0].value != Some(Value::bytes(*b"1")))
}

#[test]
fn a_reader_never_finds_the_file_without_what_was_acknowledged() {
    assert!(!read_during_a_close(MUST_NOT));
    let _on = mutation::put_back(Some(Fault::NothingHiddenTooEarly));
    assert!(read_during_a_close(HANGS), "with the steps of closing in the other order this test must fail");
}

/// The database panics over a page that one reader wants, and at that time a group is acknowledged but not shown; what
/// is left of it once the store is open again, and the store's incarnation, which rises when something is lost.
fn after_a_failed_read() -> (Option<Value>, u64) {
    let disk = Forgetful::new();
    let first = Scene::on(disk.clone());
    for number in 0..1000 {
        let name = format!("page {number}");
        let outcome = put(&first.store, &first.mint, &name, Value::bytes(vec![b'x'; 2_000]));
        assert_eq!(outcome, CommitOutcome::Committed(Vec::new()));
    }
    drop(first);
    let Scene { calls, store, mint } = Scene::on(disk);
    let incarnation = store.incarnation();
    let writing = store.clone();
    at_next(&calls.read, move || {
        thread::spawn(move || put_hidden(&writing, &mint, "a")).join().expect("the file takes it");
        panic!("a page makes no sense");
    });
    let unreadable = block_on(store.get(&[key("page 500")]));
    assert!(unreadable.is_err());
    assert!(calls.read.lock().unwrap_or_else(PoisonError::into_inner).is_none(), "the page came from the disk");
    let read = get(&store, "a");
    assert!(read.version > Version::ZERO);
    (read.value, store.incarnation() - incarnation)
}

#[test]
fn a_read_that_fails_takes_nothing_acknowledged_with_it() {
    assert_eq!(after_a_failed_read(), (Some(Value::bytes(*b"1")), 0));
    let _on = mutation::put_back(Some(Fault::FailedReadLosesHidden));
    assert_eq!(
        after_a_failed_read(),
        (Some(Value::bytes(*b"0")), 1),
        "if the file were closed as it is this test must fail"
    );
}

/// Two documents that each commit writes together, one of which comes and goes: between a reader's look at the
/// documents and at the versions of absent ones a commit comes. The versions that it was told.
fn read_of_two_that_belong_together() -> [Version; 2] {
    let Scene { store, mint, .. } = Scene::new();
    let commit = |store: &Embedded, mint: &Mint, other: Option<Value>| {
        let (put, version) = (Change::Put(Value::bytes(*b"1")), mint.next());
        let change = other.map_or(Change::Delete, Change::Put);
        let writes = vec![write(&key("a"), None, vec![put]), write(&key("b"), None, vec![change])];
        let outcome = block_on(store.commit(&[Commit::new(TxnId(version), version, writes)]));
        assert_eq!(outcome, [CommitOutcome::Committed(Vec::new())]);
    };
    commit(&store, &mint, Some(Value::bytes(*b"1")));
    commit(&store, &mint, None);
    let writing = store.clone();
    mutation::do_meanwhile(move || {
        thread::spawn(move || commit(&writing, &mint, None)).join().expect("the file takes it");
    });
    let reads = block_on(store.get(&[key("a"), key("b")])).expect("the file is sound");
    assert!(reads[1].value.is_none());
    [reads[0].version, reads[1].version]
}

#[test]
fn a_read_of_several_is_of_one_moment() {
    let [first, second] = read_of_two_that_belong_together();
    assert_eq!(first, second);
    let _on = mutation::put_back(Some(Fault::AbsenceOvertakes));
    let [first, second] = read_of_two_that_belong_together();
    assert_ne!(first, second, "with the version of a later absence this test must fail");
}

/// INFO asks for it. Deletions are noted in a table of their own, under the writer's lock.
#[test]
fn its_size_can_be_asked_while_others_commit() {
    let Scene { store, mint, .. } = Scene::new();
    let (done, all_done) = mpsc::channel();
    let (asking, asked) = (store.clone(), done.clone());
    thread::spawn(move || {
        let bytes = (0..300_000).map(|_| asking.memory_bytes()).max();
        let _ = asked.send(bytes);
    });
    thread::spawn(move || {
        for _ in 0..3_000 {
            let writes = vec![write(&key("gone"), None, vec![Change::Delete])];
            let commit = Commit::new(TxnId(mint.next()), mint.next(), writes);
            assert_eq!(block_on(store.commit(&[commit])), [CommitOutcome::Committed(Vec::new())]);
        }
        let _ = done.send(None);
    });
    for _ in 0..2 {
        all_done.recv_timeout(HANGS).expect("neither waits for the other for ever");
    }
}
