//! What a transaction writes.

use smallvec::SmallVec;

use super::{Document, Documents};
use crate::key::Key;
use crate::store::{Write, memory_bytes_of};

impl Documents {
    /// Whether anything is to be committed.
    pub fn changed(&self) -> bool {
        self.list.iter().any(|document| !document.changes.is_empty())
    }

    /// Keys that are to be written.
    pub fn written(&self) -> impl Iterator<Item = &Key> {
        self.list.iter().filter(|document| !document.changes.is_empty()).map(|document| &document.key)
    }

    /// The writes to commit; the changes are taken out. They stand in the order in which the documents were first
    /// changed: a row behind the one that it names, a name behind the row that gave it up.
    pub fn take_writes(&mut self) -> Vec<Write> {
        let mut changed: SmallVec<[&mut Document; 1]> =
            self.list.iter_mut().filter(|document| !document.changes.is_empty()).collect();
        changed.sort_unstable_by_key(|document| document.turn);
        let write = |document: &mut Document| Write {
            key: document.key.clone(),
            changes: std::mem::take(&mut document.changes),
            after: document.current.clone(),
            unseen: document.unseen,
        };
        changed.into_iter().map(write).collect()
    }

    /// Bytes that the writes to commit take in memory; 0 if there are none.
    pub(in crate::txn) fn commit_bytes(&self) -> usize {
        let changed = self.list.iter().filter(|document| !document.changes.is_empty());
        changed.map(|doc| memory_bytes_of(&doc.key, &doc.changes, doc.current.as_ref())).sum()
    }
}
