//! What a transaction writes.

use smallvec::SmallVec;

use super::{Document, DocumentError, Documents};
use crate::change::Change;
use crate::key::{Key, KeyRef};
use crate::read::record;
use crate::store::{Footprint, Write};
use crate::value::Value;
use crate::version::Version;

impl Documents {
    /// What is written will have this version, if it is committed at all. Over a store that is owned.
    pub(in crate::txn) fn will_have(&mut self, version: Version) {
        debug_assert!(self.fronted.is_none(), "what others write to gives its own versions");
        self.version = Some(version);
    }

    /// Puts a byte string under `key`. Where its version is known, it is made as it will be kept: all who have it, and
    /// its key, then share one allocation.
    pub fn put(&mut self, key: KeyRef<'_>, bytes: &[u8], expires_at_ms: Option<u64>) -> Result<(), DocumentError> {
        let version = self.version.filter(|_| !self.read_only);
        match version.and_then(|version| record::written(key, bytes, expires_at_ms, version)) {
            Some((own, value)) => {
                let at = self.position(key).unwrap_or_else(|| self.push(Document::new(own)));
                self.change_at(at, Change::Put(value))
            }
            None => self.change(key, Change::Put(Value { expires_at_ms, ..Value::bytes(bytes) })),
        }
    }

    /// Whether anything is to be committed.
    pub fn changed(&self) -> bool {
        self.list.iter().any(|document| !document.changes.is_empty())
    }

    /// Keys that are to be written.
    pub fn written(&self) -> impl Iterator<Item = &Key> {
        self.list.iter().filter(|document| !document.changes.is_empty()).map(|document| &document.key)
    }

    /// What `key` holds is told, or decides what is written: what others write to it before the commit is not merged
    /// with the changes of this transaction ([`Write::told`](crate::store::Write::told)).
    pub fn tell(&mut self, key: KeyRef<'_>) {
        if let Some(at) = self.position(key) {
            self.list[at].told = true;
        }
    }

    /// Likewise of all that has been read.
    pub(in crate::txn) fn tell_all(&mut self) {
        self.list.iter_mut().for_each(|document| document.told = true);
    }

    /// The writes to commit; the changes and what they made are taken out. They stand in the order in which the
    /// documents were first changed: a row behind the one that it names, a name behind the row that gave it up.
    pub fn take_writes(&mut self) -> Vec<Write> {
        let mut changed = SmallVec::<[&mut Document; 1]>::new();
        for document in self.list.iter_mut().filter(|document| !document.changes.is_empty()) {
            changed.push(document);
        }
        changed.sort_unstable_by_key(|document| document.turn);
        let mut writes = Vec::with_capacity(changed.len());
        for document in changed {
            writes.push(Write {
                key: document.key.clone(),
                changes: std::mem::take(&mut document.changes),
                after: document.current.take(),
                unseen: document.unseen,
                told: document.told && document.base.is_some(),
            });
        }
        writes
    }

    /// What the writes to commit take in memory.
    pub(in crate::txn) fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::default();
        let changed = self.list.iter().filter(|document| !document.changes.is_empty());
        changed.for_each(|doc| footprint.add(&doc.key, &doc.changes, doc.current.as_ref()));
        footprint
    }
}
