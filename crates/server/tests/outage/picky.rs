//! A store that refuses one key, and may be away.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Read;
use forebay::error::Unavailable;
use forebay::key::Key;
use forebay::store::faulty::Faulty;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Resolved, Store};
use forebay::version::{TxnId, Version};
use futures_util::future::BoxFuture;

/// A store that may be away, and may refuse what writes the key `poison`.
pub struct Picky {
    pub inner: Faulty,
    pub refuses: AtomicBool,
}

impl Store for Picky {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn get<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get(keys)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let poison = |commit: &Commit| commit.writes.iter().any(|write| write.key == Key::new(0, b"poison"));
            let refused = self.refuses.load(Ordering::SeqCst).then(|| group.iter().position(poison)).flatten();
            let Some(at) = refused else { return self.inner.commit(group).await };
            let mut outcomes = self.inner.commit(&group[..at]).await;
            outcomes.push(CommitOutcome::Refused("it is poison".to_owned()));
            outcomes.resize(group.len(), CommitOutcome::Unavailable("behind poison".to_owned()));
            outcomes
        })
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        self.inner.outcome(id)
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        self.inner.scan(space, after, limit)
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        self.inner.count(space)
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        self.inner.clear(spaces, version)
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        self.inner.expired(now_ms, limit)
    }

    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        self.inner.flush()
    }
}
