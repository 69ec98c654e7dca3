//! A store that makes changes to what it holds by then, as a database does. It needs no computed documents, and says
//! what came of a change.

use std::sync::Arc;

use forebay::Key;
use forebay::change::apply_all;
use forebay::read::Read;
use forebay::store::forms;
use forebay::store::{Caps, Commit, CommitOutcome, Form, ReadError, Store, Write};
use futures_util::future::BoxFuture;

pub struct Applying {
    pub inner: Arc<dyn Store>,
}

impl Applying {
    /// One commit, with its documents as they become now.
    async fn apply(&self, commit: &Commit) -> CommitOutcome {
        if forms::untaken(commit, |key| self.form(key)).is_some() {
            return CommitOutcome::Refused("it is not taken".into());
        }
        let keys: Vec<Key> = commit.writes.iter().map(|write| write.key.clone()).collect();
        let Ok(reads) = self.inner.get(&keys).await else { return CommitOutcome::Unavailable("no read".into()) };
        let mut commit = commit.clone();
        let mut changed = Vec::new();
        for (write, read) in commit.writes.iter_mut().zip(reads) {
            let mut value = read.value;
            if let Err(error) = apply_all(&mut value, &write.changes) {
                return CommitOutcome::Refused(error.to_string());
            }
            if value != write.after || write.unseen {
                changed.push((write.key.clone(), Read { value: value.clone(), version: commit.version }));
            }
            (write.after, write.unseen) = (value, false);
        }
        match self.inner.commit(std::slice::from_ref(&commit)).await.pop() {
            Some(CommitOutcome::Committed(_)) => {
                // Of one that had come before it does not know any more what came of it.
                let now = self.inner.get(&keys).await.unwrap_or_default();
                let as_made =
                    |(write, read): (&Write, &Read)| read.version == commit.version && read.value == write.after;
                let made = commit.writes.iter().zip(&now).all(as_made);
                CommitOutcome::Committed(if made { changed } else { Vec::new() })
            }
            Some(outcome) => outcome,
            None => CommitOutcome::Unknown("no answer".into()),
        }
    }
}

impl Store for Applying {
    fn caps(&self) -> Caps {
        Caps { applies: true, ..self.inner.caps() }
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let mut outcomes: Vec<CommitOutcome> = Vec::new();
            for commit in group {
                let applied = outcomes.last().is_none_or(|last| matches!(last, CommitOutcome::Committed(_)));
                outcomes.push(match applied {
                    true => self.apply(commit).await,
                    false => CommitOutcome::Unavailable("behind one that was not applied".into()),
                });
            }
            outcomes
        })
    }

    fn form(&self, key: &Key) -> Form {
        self.inner.form(key)
    }

    forebay::rest_of_store!(inner);
}
