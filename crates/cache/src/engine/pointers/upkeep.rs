//! What is done to the cache as a whole: another capacity, a walk over all entries, the end of what has expired.

use crate::sync::MutexGuard;

use super::super::reclaim::Guard;
use super::limbo::Cause;
use super::{Found, Pointers};

/// Entries that go under one hold of a shard's lock.
const STEP: usize = 64;

impl<T> Pointers<T> {
    /// Changes what the entries may weigh, while the cache is in use. A smaller capacity evicts in small steps; when
    /// this returns, all entries weigh no more. The number of shards stays what the first capacity made it. Answers
    /// the capacity that there is now: more than was asked for where entries are pinned that weigh more.
    pub fn set_capacity(&self, capacity: usize) -> usize {
        let capacity = capacity.min(isize::MAX as usize);
        let _alone = self.resizing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.budget.grow(capacity.saturating_sub(self.capacity()));
        let share = capacity / self.shards.len();
        self.shards.iter().for_each(|shard| shard.lock().ranks.set_share(share));
        let mut is_pinned = false;
        while self.capacity() > capacity && !is_pinned {
            let before = self.capacity();
            self.budget.shrink_rest(self.capacity() - capacity);
            is_pinned = true;
            for shard in &self.shards {
                let most = self.capacity() - capacity;
                let mut guarded = shard.lock();
                let given = guarded.give(&shard.root.0, most, 0, STEP);
                self.budget.shrink(given);
                is_pinned &= guarded.used == guarded.pinned;
                let due = guarded.limbo.due(self);
                drop(guarded);
                drop(due);
            }
            is_pinned &= self.capacity() == before;
        }
        self.budget.set_weight_step();
        self.capacity()
    }

    /// Removes everything, one shard after the other and a few entries at a time: what is put in meanwhile may stay.
    pub fn clear(&self) {
        for shard in &self.shards {
            // What comes in between does not keep it here.
            let mut left = shard.lock().records.len();
            while left > 0 {
                let mut guarded = shard.lock();
                let step = left.min(STEP);
                let slots: Vec<u32> = guarded.records.iter().take(step).map(|(slot, _)| slot).collect();
                slots.iter().for_each(|&slot| guarded.take(&shard.root.0, slot, Cause::Removed));
                left -= step;
                guarded.return_credit(&self.budget);
                let due = guarded.limbo.due(self);
                drop(guarded);
                drop(due);
            }
        }
    }

    /// Takes out all that has expired, and drops what no guard keeps.
    pub(crate) fn run_pending(&self, now: u64) {
        for shard in &self.shards {
            let mut over = false;
            while !over {
                let mut guarded = shard.lock();
                over = guarded.turn(&shard.root.0, now, STEP);
                guarded.return_credit(&self.budget);
                let due = guarded.limbo.all(self);
                drop(guarded);
                drop(due);
            }
        }
        self.collector.collect_with(drop);
    }

    /// Tells `each` of the entries with hashes like `from`, as many as stand together, with their hashes; answers from
    /// where to go on, `None` at the end. Who begins at 0 is told once of each entry that is in all the time.
    pub(crate) fn scan<'g>(
        &'g self,
        from: u64,
        guard: &'g Guard<'_>,
        mut each: impl FnMut(u64, Found<'g, T>),
    ) -> Option<u64> {
        let ours = self.collector.is_guarded_by(guard);
        debug_assert!(ours, "the guard is this cache's");
        if !ours {
            return None;
        }
        let (all, next) = self.shard(from).root.0.around(from, guard);
        all.for_each(|here| each(here.entry.hash, Found::from(here)));
        next
    }

    /// Entries that left, ever, by cause; summed up shard after shard.
    pub(crate) fn left(&self) -> [u64; Cause::ALL.len()] {
        let mut sum = [0; Cause::ALL.len()];
        for shard in &self.shards {
            let guarded: MutexGuard<'_, _> = shard.lock();
            sum.iter_mut().zip(guarded.left).for_each(|(sum, left)| *sum += left);
        }
        sum
    }
}
