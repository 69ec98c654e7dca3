//! The suite over every store of this crate, bare and through each decorator.

use std::sync::Arc;
use std::time::Duration;

use forebay::change::Change;
use forebay::runtime::Runtime;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::store::suite::{self, Subject, block_on};
use forebay::store::{Commit, CommitOutcome, Resolved, Store};
use forebay::{Key, TxnId, Value, Version};

/// How a store is wrapped.
type Wrap = fn(&Runtime, Arc<dyn Store>) -> Arc<dyn Store>;

struct Memories(Arc<dyn Store>);

impl Subject for Memories {
    fn store(&self) -> &dyn Store {
        &*self.0
    }
}

struct Files {
    runtime: Runtime,
    folder: tempfile::TempDir,
    options: EmbeddedOptions,
    wrap: Wrap,
    embedded: Option<Arc<Embedded>>,
    store: Option<Arc<dyn Store>>,
}

impl Files {
    fn new(runtime: &Runtime, durability: Durability, wrap: Wrap) -> Files {
        let options = EmbeddedOptions { durability, page_cache_bytes: 4 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files { runtime: runtime.clone(), folder, options, wrap, embedded: None, store: None };
        files.open();
        files
    }

    fn open(&mut self) {
        let path = self.folder.path().join("test.redb");
        let embedded = Arc::new(Embedded::open(self.runtime.clone(), path, self.options).unwrap());
        self.store = Some((self.wrap)(&self.runtime, embedded.clone()));
        self.embedded = Some(embedded);
    }
}

impl Subject for Files {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().unwrap()
    }

    fn validate(&self) {
        assert_eq!(self.embedded.as_ref().unwrap().validate(), Ok(()));
    }

    fn reopen(&mut self) -> bool {
        (self.store, self.embedded) = (None, None);
        self.open();
        true
    }
}

fn with_runtime(test: impl FnOnce(&Runtime)) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    test(&forebay::runtime::tokio::runtime(tokio.handle().clone()));
}

fn bare(_: &Runtime, store: Arc<dyn Store>) -> Arc<dyn Store> {
    store
}

fn delayed(runtime: &Runtime, store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Delayed::new(runtime.clone(), store, Delay::default()))
}

fn faultless(runtime: &Runtime, store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Faulty::new(runtime.clone(), store, Faults::default(), 1))
}

fn metered(runtime: &Runtime, store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Metered::new(runtime.clone(), store))
}

/// Faults of every kind, often, behind a short delay.
fn faulty(runtime: &Runtime, store: Arc<dyn Store>) -> Arc<dyn Store> {
    let faults = Faults {
        read_per_mille: 150,
        portion_per_mille: 300,
        unavailable_per_mille: 150,
        unknown_applied_per_mille: 150,
        unknown_partial_per_mille: 250,
        outcome_per_mille: 500,
        outages: Vec::new(),
    };
    let faulty = Faulty::new(runtime.clone(), store, faults, 0x5eed);
    let delay = Delay { fixed: Duration::ZERO, jitter: Duration::from_nanos(2) };
    Arc::new(Delayed::new(runtime.clone(), Arc::new(faulty), delay))
}

fn memory(runtime: &Runtime, wrap: Wrap) -> Box<dyn Subject> {
    Box::new(Memories(wrap(runtime, Arc::new(Memory::new()))))
}

#[test]
fn memory_passes() {
    with_runtime(|runtime| suite::run(&|| memory(runtime, bare)));
}

#[test]
fn embedded_passes() {
    with_runtime(|runtime| suite::run(&|| Box::new(Files::new(runtime, Durability::Always, bare))));
}

#[test]
fn embedded_passes_with_every_durability() {
    for durability in [Durability::Interval { sync_ms: 2 }, Durability::Never] {
        with_runtime(|runtime| suite::run(&|| Box::new(Files::new(runtime, durability, bare))));
    }
}

#[test]
fn decorators_that_do_nothing_change_nothing() {
    for wrap in [delayed, faultless, metered] {
        with_runtime(|runtime| suite::run(&|| memory(runtime, wrap)));
    }
    let all: Wrap = |runtime, store| metered(runtime, faultless(runtime, delayed(runtime, store)));
    with_runtime(|runtime| suite::run(&|| Box::new(Files::new(runtime, Durability::Never, all))));
}

#[test]
fn outcomes_are_true_whatever_fails() {
    with_runtime(|runtime| suite::run_with_faults(&|| memory(runtime, faulty)));
    with_runtime(|runtime| suite::run_with_faults(&|| Box::new(Files::new(runtime, Durability::Never, faulty))));
}

/// More commits than ids are remembered: the last answer as before, the first are refused, never applied again.
#[test]
fn ids_are_forgotten_below_a_floor() {
    with_runtime(|runtime| {
        let mut files = Files::new(runtime, Durability::Never, bare);
        ids_beyond_the_limit(files.store());
        files.validate();
        files.reopen();
        let first = commit_of(Version { incarnation: 1, sequence: 1 });
        let last = commit_of(Version { incarnation: 1, sequence: COMMITS });
        assert!(matches!(block_on(files.store().commit(&[first]))[..], [CommitOutcome::Refused(_)]));
        assert_eq!(block_on(files.store().commit(&[last])), [CommitOutcome::Committed(Vec::new())]);
        ids_beyond_the_limit(&Memory::new());
    });
}

const COMMITS: u64 = 70_000;

fn commit_of(version: Version) -> Commit {
    let writes = vec![suite::write(&Key::new(0, b"a"), None, vec![Change::Put(Value::bytes(*b"x"))])];
    Commit::new(TxnId(version), version, writes)
}

fn ids_beyond_the_limit(store: &dyn Store) {
    let version = |sequence| Version { incarnation: store.incarnation(), sequence };
    let commits = (1..=COMMITS).map(|sequence| commit_of(version(sequence))).collect::<Vec<_>>();
    for group in commits.chunks(700) {
        let outcomes = block_on(store.commit(group));
        assert!(outcomes.iter().all(|outcome| *outcome == CommitOutcome::Committed(Vec::new())));
    }
    let repeat = |sequence| block_on(store.commit(&[commit_of(version(sequence))])).remove(0);
    assert!(matches!(repeat(1), CommitOutcome::Refused(_)));
    assert!(block_on(store.outcome(TxnId(version(1)))).is_err(), "what became of it is not known any more");
    assert_eq!(repeat(COMMITS - 65_000), CommitOutcome::Committed(Vec::new()));
    assert_eq!(block_on(store.outcome(TxnId(version(COMMITS)))), Ok(Resolved::Applied));
    let read = block_on(store.get(&[Key::new(0, b"a")])).unwrap().remove(0);
    assert_eq!(read.version, version(COMMITS));
}

#[cfg(unix)]
#[test]
fn others_may_not_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    with_runtime(|runtime| {
        let files = Files::new(runtime, Durability::Never, bare);
        let mode = std::fs::metadata(files.folder.path().join("test.redb")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    });
}
