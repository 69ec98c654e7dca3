//! A store that refuses one key, and may be away. Keys that begin with `row:` are rows to it: it takes of them what a
//! table does.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay::Read;
use forebay::key::Key;
use forebay::outage::Mode;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::forms::{self, OnDelete, RowForm};
use forebay::store::{Caps, Commit, CommitOutcome, Form, ReadError, Store};
use forebay::value::Blob;
use futures_util::future::BoxFuture;

use crate::support::Peer;
use crate::world;

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

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let untaken = |commit: &Commit| forms::untaken(commit, |key| self.form(key)).is_some();
            if let Some(at) = group.iter().position(untaken) {
                let mut outcomes = self.inner.commit(&group[..at]).await;
                outcomes.push(CommitOutcome::Refused("a row does not take it".to_owned()));
                outcomes.resize(group.len(), CommitOutcome::Unavailable("behind what is not taken".to_owned()));
                return outcomes;
            }
            let poison = |commit: &Commit| commit.writes.iter().any(|write| write.key == Key::new(0, b"poison"));
            let refused = self.refuses.load(Ordering::SeqCst).then(|| group.iter().position(poison)).flatten();
            let Some(at) = refused else { return self.inner.commit(group).await };
            let mut outcomes = self.inner.commit(&group[..at]).await;
            outcomes.push(CommitOutcome::Refused("it is poison".to_owned()));
            outcomes.resize(group.len(), CommitOutcome::Unavailable("behind poison".to_owned()));
            outcomes
        })
    }

    fn form(&self, key: &Key) -> Form {
        match key.name().strip_prefix(b"row:") {
            Some(id) => {
                let key = [(Blob::from(&b"id"[..]), Blob::from(id))].into_iter().collect();
                Form::Row(RowForm { key, on_delete: OnDelete::Row, ..RowForm::default() })
            }
            None => Form::Document,
        }
    }

    forebay::rest_of_store!(inner);
}

/// What waits of a row that was deleted and made again is what a table takes.
#[tokio::test]
async fn a_row_that_is_deleted_and_made_again_is_taken() {
    let world = world(Faults::default(), |_| ());
    let mut peer = Peer::new(&world.shared);
    peer.check(&[("HSET row:1 items 1", ":1|"), ("HSET other items 1", ":1|")]).await;
    world.set_down(true);
    for key in ["row:1", "other"] {
        let again = [format!("DEL {key}"), format!("HSET {key} items 3"), format!("HINCRBY {key} items 1")];
        peer.check(&[(&again[0], ":1|"), (&again[1], ":1|"), (&again[2], ":4|")]).await;
    }
    assert_eq!(world.gate.state().amount.transactions, 2);
    world.set_down(false);
    world.reaches(Mode::Normal).await;
    assert_eq!((world.gate.state().amount.transactions, world.gate.state().amount.quarantined), (0, 0));
    peer.check(&[("HGET row:1 items", "$1|4|"), ("HGET other items", "$1|4|")]).await;
    world.gate.validate();
}
