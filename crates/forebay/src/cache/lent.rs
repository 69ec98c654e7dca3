//! Memory that the cache gives up for a time to what is on its way. These are commits that are placed, replies that
//! wait for their clients, and requests that are not complete. They come and go, and have separate limits. Since
//! entries make way for them, the whole stays within the memory that was given.

use super::{AccessKind, Cache, Context, forced};
use crate::sync::Ordering;

/// Entries of one partition that are evicted before the next has its turn.
const EVICTED_IN_A_ROW: usize = 32;

/// The cache keeps one so-manyth of its budget in any case.
const KEPT_SHARE: usize = 4;

/// Lent bytes that cost no entry its place. What one ordinary request takes comes and goes with each: were entries to
/// make way for it, what is cached would hang on the moment, and a server's hits would not be those of the simulator.
pub const LENT_UNNOTICED_BYTES: usize = 2 << 20;

/// What is lent as long as this is there.
pub struct Lent {
    cache: Cache,
    bytes: usize,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.cache.give_back(self.bytes);
    }
}

impl Cache {
    /// As [`Cache::lend`], until what it answers is dropped.
    pub fn lend_while(&self, bytes: usize) -> Lent {
        self.lend(bytes);
        Lent { cache: self.clone(), bytes }
    }

    /// Entries make way for `bytes` that somebody else is about to use.
    pub fn lend(&self, bytes: usize) {
        self.inner.lent_bytes.fetch_add(bytes, Ordering::Relaxed);
        let partitions = &self.inner.partitions;
        let mut stuck = 0;
        // The key of nobody: each partition names its victim by its own order.
        let start = self.inner.next_fill.load(Ordering::Relaxed) as usize;
        for step in 0.. {
            if self.is_within_budget() || stuck == partitions.len() {
                return;
            }
            let mut partition = partitions[(start + step) % partitions.len()].lock(&self.inner.beside);
            let access = forced(&partition.access(0, None, &Context::default(), AccessKind::Read, 0));
            stuck += 1;
            for _ in 0..EVICTED_IN_A_ROW {
                let Some(freed) = partition.evict(&access) else { break };
                self.inner.used_bytes.fetch_sub(freed, Ordering::Relaxed);
                stuck = 0;
                if self.is_within_budget() {
                    return;
                }
            }
        }
    }

    /// What was lent is not used any more.
    pub fn give_back(&self, bytes: usize) {
        let before = self.inner.lent_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes given back of {before}");
    }

    /// Bytes that are lent now.
    pub fn lent_bytes(&self) -> usize {
        self.inner.lent_bytes.load(Ordering::Relaxed)
    }

    /// What entries may take now.
    pub(super) fn room_bytes(&self) -> usize {
        let most = self.inner.budget_bytes - self.inner.budget_bytes / KEPT_SHARE;
        self.inner.budget_bytes - self.lent_bytes().saturating_sub(LENT_UNNOTICED_BYTES).min(most)
    }
}
