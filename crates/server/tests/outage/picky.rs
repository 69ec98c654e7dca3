//! A store that refuses one key, and may be away.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Read;
use forebay::key::Key;
use forebay::store::faulty::Faulty;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Store};
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

    forebay::rest_of_store!(inner);
}
