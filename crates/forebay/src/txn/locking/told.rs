//! What the policy is told of a transaction, if it wants to know: as what it wrote its keys, and how it ended.

use super::{Mode, PlannedLock, Transaction};
use crate::cache::Context;
use crate::txn::placed::Caching;

impl Transaction {
    /// Notes as which vertex of the transaction's type keys are written that a command is about to write.
    pub(super) fn note_vertices(&mut self, locks: &[PlannedLock]) {
        let vertex = self.context.vertex;
        if vertex != 0 && self.inner.cache.follows_transactions() {
            let written = locks.iter().filter(|lock| lock.mode == Mode::Exclusive);
            self.vertices.get_or_insert_default().extend(written.map(|lock| (lock.key.clone(), vertex)));
        }
    }

    /// What is to become of its writes in the cache. They are a level of their own behind all that it has read: a round
    /// trip that no cache saves.
    pub(super) fn caching(&mut self) -> Caching {
        let reads = u16::from(self.documents.reads().next().is_some());
        let context = Context { level: self.context.level.saturating_add(reads), ..self.context };
        Caching { uncached: self.uncached, context, vertices: std::mem::take(&mut self.vertices) }
    }

    /// Tells how it ended; once. What asked for nothing was no transaction.
    pub(super) fn tell_end(&mut self, committed: bool) {
        if std::mem::take(&mut self.ends) && self.asked && self.inner.cache.follows_transactions() {
            self.inner.cache.ended(&self.context, committed);
        }
    }
}
