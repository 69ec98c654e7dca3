//! The suite over every store of this crate, bare and through each decorator.

use std::sync::Arc;
use std::time::Duration;

use forebay::runtime::Runtime;
use forebay::store::Store;
use forebay::store::delayed::{Delay, Delayed};
use forebay::store::embedded::{Durability, Embedded, EmbeddedOptions};
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::metered::Metered;
use forebay::store::suite::{self, Subject};

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
    store: Option<Arc<dyn Store>>,
}

impl Files {
    fn new(runtime: &Runtime, durability: Durability, wrap: Wrap) -> Files {
        let options = EmbeddedOptions { durability, page_cache_bytes: 4 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files { runtime: runtime.clone(), folder, options, wrap, store: None };
        files.open();
        files
    }

    fn open(&mut self) {
        let path = self.folder.path().join("test.redb");
        let store = Embedded::open(self.runtime.clone(), path, self.options).unwrap();
        self.store = Some((self.wrap)(&self.runtime, Arc::new(store)));
    }
}

impl Subject for Files {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().unwrap()
    }

    fn reopen(&mut self) -> bool {
        self.store = None;
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
