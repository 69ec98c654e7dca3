//! What operators see of a cache.

use std::sync::PoisonError;

use super::partition::Partition;
use super::{Cache, CacheStats, Inner};
use crate::key::KeyRef;
use crate::read::Read;
use crate::sync::{MutexGuard, Ordering};

impl Cache {
    /// What the policy has learned, as names with values, for `CACHE STATS`.
    pub fn learned(&self, lines_max: usize) -> Vec<(String, String)> {
        self.inner.learned.report(lines_max)
    }

    /// What `CACHE EXPLAIN` says of a cached key: bytes charged and the policy's view.
    pub fn explain(&self, key: KeyRef<'_>) -> Option<(Read, usize, String)> {
        self.inner.partition(key).explain(key)
    }

    /// What the policy remembers of a key that is not cached, and what would let it in; `None`: nothing.
    pub fn explain_absent(&self, key: KeyRef<'_>) -> Option<String> {
        self.inner.partition(key).explain_absent(key)
    }

    /// What the hits take that wait for the policy to hear of them. It is not charged to the budget.
    pub fn hits_waiting_bytes(&self) -> usize {
        let of_partitions: usize = self.inner.partitions.iter().map(|partition| partition.hits_bytes()).sum();
        of_partitions + self.inner.turns.as_ref().map_or(0, |turns| turns.bytes())
    }

    /// Figures over all partitions.
    pub fn stats(&self) -> CacheStats {
        let (hits, misses) = self.inner.counted();
        let mut stats = CacheStats { hits, misses, ..CacheStats::default() };
        self.inner.all().for_each(|partition| partition.add_to(&mut stats));
        stats.used_bytes = self.inner.used_bytes.load(Ordering::Relaxed) as u64;
        stats.budget_bytes = self.inner.budget_bytes as u64;
        stats
    }

    /// Sets the counted figures back to zero.
    pub fn reset_stats(&self) {
        self.inner.all().for_each(|mut partition| partition.reset_stats());
        self.inner.begin_counting();
        if let Some(meter) = self.meter() {
            meter.reset();
        }
    }
}

impl Inner {
    /// Hits and misses since the counted figures were set back.
    fn counted(&self) -> (u64, u64) {
        let ((hits, misses), before) = (self.beside.readers.counted(), self.counted_before());
        (hits - before.0, misses - before.1)
    }

    fn begin_counting(&self) {
        *self.counted_before() = self.beside.readers.counted();
    }

    fn counted_before(&self) -> MutexGuard<'_, (u64, u64)> {
        self.counted_before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Partition {
    fn explain(&self, key: KeyRef<'_>) -> Option<(Read, usize, String)> {
        let slot = self.slot(key.hash64(), key)?;
        self.view(slot).map(|view| (view.read(), self.charged(slot), self.order.explain(slot)))
    }

    /// What the policy says of a key that is not cached.
    fn explain_absent(&self, key: KeyRef<'_>) -> Option<String> {
        self.order.explain_absent(key.hash64())
    }
}
