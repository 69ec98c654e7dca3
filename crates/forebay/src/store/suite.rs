//! What every driver must do, as a suite that any crate can run over its own store. It needs no runtime: it waits for
//! each call in the calling thread.

mod cases;
mod random;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use super::{Commit, CommitOutcome, GivenId, Read, ReadError, Resolved, Store, Write};
use crate::change::{Change, apply_all};
use crate::key::Key;
use crate::value::Value;
use crate::version::{Mint, TxnId, Version};

/// A store under test. Each case gets its own, empty.
pub trait Subject {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Panics if what the store keeps does not agree with itself.
    fn validate(&self) {}

    /// Closes the store and opens it again, if it keeps what it holds; else does nothing and returns `false`.
    fn reopen(&mut self) -> bool {
        false
    }
}

/// Makes an empty store.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Subject>;

/// Runs every case. Panics, naming the case, at the first that fails.
pub fn run(make: Make<'_>) {
    for (name, case) in cases::CASES {
        eprintln!("case {name}");
        case(&mut Bench::new(make()));
    }
    eprintln!("case random groups against a model");
    random::run(make);
}

/// Runs the cases that a store with faults must pass: whatever it answers in the end is true.
pub fn run_with_faults(make: Make<'_>) {
    random::run(make);
}

/// Calls that may fail before the suite gives a store up.
const TRIES_MAX: usize = 1_000;

/// A store under test and what mints for it.
struct Bench {
    subject: Box<dyn Subject>,
    mint: Mint,
}

impl Bench {
    fn new(subject: Box<dyn Subject>) -> Bench {
        let mint = Mint::new(subject.store().incarnation());
        Bench { subject, mint }
    }

    fn store(&self) -> &dyn Store {
        self.subject.store()
    }

    /// Opens the store again, with a new mint; `false` if it keeps nothing.
    fn reopen(&mut self) -> bool {
        let before = self.store().incarnation();
        if !self.subject.reopen() {
            return false;
        }
        let incarnation = self.store().incarnation();
        assert!(incarnation > before, "the incarnation must rise with each opening, {before} became {incarnation}");
        self.mint = Mint::new(incarnation);
        true
    }

    fn commit_of(&self, writes: Vec<Write>) -> Commit {
        Commit::new(TxnId(self.mint.next()), self.mint.next(), writes)
    }

    /// Commits `writes` as one transaction, which must succeed; returns its version.
    fn commit(&self, writes: Vec<Write>) -> Version {
        let commit = self.commit_of(writes);
        let version = commit.version;
        assert_eq!(self.outcomes(&[commit]), [CommitOutcome::Committed(Vec::new())]);
        version
    }

    fn outcomes(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        block_on(self.store().commit(group))
    }

    fn get(&self, keys: &[Key]) -> Vec<Read> {
        insist(|| block_on(self.store().get(keys)))
    }

    fn get_one(&self, key: &Key) -> Read {
        self.get(std::slice::from_ref(key)).remove(0)
    }

    fn scan(&self, space: u8, after: Option<&Key>, limit: usize) -> Vec<Key> {
        insist(|| block_on(self.store().scan(space, after, limit)))
    }

    fn count(&self, space: u8) -> u64 {
        insist(|| block_on(self.store().count(space)))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> Vec<Key> {
        insist(|| block_on(self.store().expired(now_ms, limit)))
    }

    fn given(&self) -> Vec<(GivenId, Version)> {
        insist(|| block_on(self.store().given()).map_err(ReadError::from))
    }

    fn clear(&self, spaces: &[u8]) -> Version {
        let version = self.mint.next();
        for _ in 0..TRIES_MAX {
            if block_on(self.store().clear(spaces, version)).is_ok() {
                return version;
            }
        }
        panic!("the store could not be cleared in {TRIES_MAX} tries");
    }

    fn outcome(&self, id: TxnId) -> Resolved {
        for _ in 0..TRIES_MAX {
            if let Ok(resolved) = block_on(self.store().outcome(id)) {
                return resolved;
            }
        }
        panic!("no outcome of {id} in {TRIES_MAX} tries");
    }
}

fn insist<T>(mut read: impl FnMut() -> Result<T, ReadError>) -> T {
    for _ in 0..TRIES_MAX {
        match read() {
            Ok(found) => return found,
            Err(ReadError::Unavailable(_) | ReadError::Locked(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no answer in {TRIES_MAX} tries");
}

/// The write that takes the document `before` through `changes`, which must fit it.
pub fn write(key: &Key, before: Option<&Value>, changes: Vec<Change>) -> Write {
    let mut after = before.cloned();
    if let Err(error) = apply_all(&mut after, &changes) {
        panic!("the changes don't fit {key}: {error}");
    }
    Write { key: key.clone(), changes: changes.into(), after, unseen: false, told: false }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` in this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
