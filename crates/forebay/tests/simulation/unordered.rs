//! A store that promises no order, as the drivers of other databases will: commits go to it side by side, and locks
//! stay until each is published.

use std::sync::Arc;

use forebay::error::Unavailable;
use forebay::read::Read;
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Resolved, Store};
use forebay::{Key, TxnId, Version};
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

    fn get<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.memory.get(keys)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.memory.commit(group)
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        self.memory.outcome(id)
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        self.memory.scan(space, after, limit)
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        self.memory.count(space)
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        self.memory.clear(spaces, version)
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        self.memory.expired(now_ms, limit)
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        self.memory.flush()
    }
}
