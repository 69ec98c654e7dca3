//! A store whose commits go on when no caller waits for them any more, as those of a database do. What was given up
//! may land later.

use std::sync::Arc;
use std::time::Duration;

use forebay::Key;
use forebay::read::Read;
use forebay::runtime::Runtime;
use forebay::store::{Caps, Commit, CommitOutcome, Form, Outside, ReadError, Store};
use futures_util::future::BoxFuture;

/// What hangs takes so long.
const LATE: Duration = Duration::from_millis(12);

/// Commits to `store` in tasks of their own.
pub struct Detached {
    pub runtime: Runtime,
    pub store: Arc<dyn Store>,
}

impl Store for Detached {
    fn caps(&self) -> Caps {
        self.store.caps()
    }

    fn name(&self) -> String {
        self.store.name()
    }

    fn incarnation(&self) -> u64 {
        self.store.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.store.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        let (store, group, count) = (self.store.clone(), group.to_vec(), group.len());
        let (runtime, drawn) = (self.runtime.clone(), self.runtime.random());
        let (sender, answer) = futures_channel::oneshot::channel();
        self.runtime.spawn(async move {
            // Now and then it is late; of that its sender hears in time, or nothing.
            let sender = Some(sender).filter(|_| !drawn.is_multiple_of(32));
            if drawn.is_multiple_of(16) {
                runtime.sleep(LATE).await;
            }
            let outcomes = store.commit(&group).await;
            if let Some(sender) = sender {
                let _ = sender.send(outcomes);
            }
        });
        Box::pin(async move { answer.await.unwrap_or_else(|_| vec![CommitOutcome::Unknown("gone".into()); count]) })
    }

    fn form(&self, key: &Key) -> Form {
        self.store.form(key)
    }

    fn beside(&self, key: &Key) -> Vec<Key> {
        self.store.beside(key)
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        self.store.outside()
    }

    forebay::rest_of_store!(store);
}
