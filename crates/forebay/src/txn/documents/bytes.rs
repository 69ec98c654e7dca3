//! What documents take in memory.

use super::{Document, Documents};
use crate::store::copied_bytes;
use crate::value::Value;

impl Document {
    /// Bytes that it takes, before and after its changes; constant time.
    pub(super) fn bytes(&self) -> usize {
        let base = self.base.as_ref().and_then(|base| base.value.as_ref()).map_or(0, Value::size);
        let copied = copied_bytes(&self.changes, self.remade, self.current.as_ref());
        size_of::<Document>() + self.key.heap_bytes() + base + self.changes_bytes + copied
    }
}

impl Documents {
    /// Bytes that all documents take: what was loaded, the changes, and what they make of it.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// How many there are, for [`Documents::unload`].
    pub(in crate::txn) fn loaded_so_far(&self) -> usize {
        self.list.len()
    }

    /// Forgets those that were loaded since there were so many: nobody has seen or changed them.
    pub(in crate::txn) fn unload(&mut self, before: usize) {
        for document in self.list.drain(before.min(self.list.len())..) {
            debug_assert!(document.changes.is_empty(), "{} was changed", document.key);
            self.held_bytes -= document.counted_bytes;
            if let Some(index) = &mut self.index {
                index.remove(&document.key);
            }
        }
    }

    /// Counts anew what the document at `at` takes.
    pub(super) fn weigh(&mut self, at: usize) {
        let document = &mut self.list[at];
        let bytes = document.bytes();
        let before = std::mem::replace(&mut document.counted_bytes, bytes);
        self.held_bytes = self.held_bytes + bytes - before;
    }
}
