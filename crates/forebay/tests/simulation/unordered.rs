//! A store that promises no order, as the drivers of other databases will. Commits go to it side by side, and locks
//! stay until each is published.

use std::sync::Arc;

use forebay::Key;
use forebay::read::Read;
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Store};
use futures_util::future::BoxFuture;

/// The memory store without the promise of order, as it is opened for the n-th time.
pub struct Unordered {
    pub memory: Arc<Memory>,
    pub incarnation: u64,
}

impl Store for Unordered {
    fn caps(&self) -> Caps {
        Caps { ordered: false, ..self.memory.caps() }
    }

    fn name(&self) -> String {
        self.memory.name()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.memory.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.memory.commit(group)
    }

    forebay::rest_of_store!(memory);
}
