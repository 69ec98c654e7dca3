//! The budget of the whole cache, in entries or in weight, which is never exceeded.
//!
//! An entry needs credit. A shard keeps credit, takes more from the rest in steps so that the common word is not
//! written per miss, and gives back what it does not need. All credit that there is, in shards and in the rest, is the
//! capacity; a shard never has more entries than credit. So no count has to be corrected afterwards, and one shard's
//! entries may use what the others do not.

use crate::sync::{AtomicUsize, Ordering};

/// Credit that moves at once, at most.
const STEP_MAX: usize = 64;

/// The steps in which a shard's share of a weight moves: at most two of them lie idle in each shard.
const WEIGHT_STEPS: usize = 64;

/// See the module.
pub(super) struct Budget {
    /// What no shard has.
    rest: AtomicUsize,
    capacity: AtomicUsize,
    shards: usize,
    /// Credit that moves at once.
    step: AtomicUsize,
}

impl Budget {
    pub fn new(capacity: usize, shards: usize) -> Budget {
        let floors = shards * floor_of(capacity, shards);
        let step = AtomicUsize::new((capacity / (16 * shards)).clamp(1, STEP_MAX));
        Budget { rest: AtomicUsize::new(capacity - floors), capacity: AtomicUsize::new(capacity), shards, step }
    }

    /// A budget of weights: no shard keeps anything from the start, and a step is a share of the whole.
    pub fn weights(capacity: usize, shards: usize) -> Budget {
        let (rest, capacity) = (AtomicUsize::new(capacity), AtomicUsize::new(capacity));
        let budget = Budget { rest, capacity, shards, step: AtomicUsize::new(1) };
        budget.set_weight_step();
        budget
    }

    /// Makes the step that of a budget of weights of this capacity.
    pub fn set_weight_step(&self) {
        self.step.store((self.capacity() / (WEIGHT_STEPS * self.shards)).max(1), Ordering::Relaxed);
    }

    fn step(&self) -> usize {
        self.step.load(Ordering::Relaxed)
    }

    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// There is more to share. One thread at a time changes the capacity.
    pub fn grow(&self, by: usize) {
        self.capacity.store(self.capacity() + by, Ordering::Relaxed);
        self.rest.fetch_add(by, Ordering::Relaxed);
    }

    /// Takes of the rest what is there, at most `most`, and out of the capacity; answers how much that was.
    pub fn shrink_rest(&self, most: usize) -> usize {
        let take = |rest: usize| Some(rest - rest.min(most));
        let before = self.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        self.shrink(before.min(most));
        before.min(most)
    }

    /// Credit that a shard had is no longer there.
    pub fn shrink(&self, by: usize) {
        self.capacity.store(self.capacity() - by, Ordering::Relaxed);
    }

    /// What no shard has.
    pub fn left(&self) -> usize {
        self.rest.load(Ordering::Relaxed)
    }

    /// What a shard has from the start and keeps: it is never without credit because of others, if there is any to
    /// share.
    pub fn floor(&self) -> usize {
        floor_of(self.capacity(), self.shards)
    }

    /// Takes a step of what is left, at most `most`; 0: there is nothing. The less is left, the smaller the step: what
    /// is left at the end goes to those that need it.
    #[inline]
    pub fn take(&self, most: usize) -> usize {
        self.take_by(|rest| (rest / (2 * self.shards)).clamp(1, self.step()).min(most))
    }

    /// Takes what is needed, as far as it is there, and a step if that is more.
    pub fn take_weight(&self, needed: usize) -> usize {
        self.take_by(|rest| (rest / (2 * self.shards)).min(self.step()).max(needed))
    }

    /// Takes all that is there, at most `most`.
    pub fn take_all(&self, most: usize) -> usize {
        self.take_by(|_| most)
    }

    fn take_by(&self, wanted: impl Fn(usize) -> usize) -> usize {
        let mut rest = self.rest.load(Ordering::Relaxed);
        loop {
            // As a rule there is nothing: a miss of a full cache is spared the division.
            if rest == 0 {
                return 0;
            }
            let taken = wanted(rest).min(rest);
            if taken == 0 {
                return 0;
            }
            let next = rest - taken;
            match self.rest.compare_exchange_weak(rest, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => rest = now,
            }
        }
    }

    /// Credit beyond the entries that a shard keeps for those to come.
    pub fn spare_max(&self) -> usize {
        2 * self.step()
    }

    pub fn give_back(&self, credit: usize) {
        let before = self.rest.fetch_add(credit, Ordering::Relaxed);
        debug_assert!(before + credit <= self.capacity(), "credit that was never there comes back");
    }
}

/// Half of a shard's share.
pub(super) fn floor_of(capacity: usize, shards: usize) -> usize {
    if shards == 1 { capacity } else { capacity / (2 * shards) }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn all_credit_is_the_capacity() {
        let most = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        for (capacity, shards) in [(0, 1), (1, 1), (7, 1), (100, 4), (most / 10, 8), (most, 16)] {
            let budget = Budget::new(capacity, shards);
            let mut taken = 0;
            loop {
                let step = budget.take(usize::MAX);
                taken += step;
                assert!(step <= budget.step());
                assert_eq!(taken + budget.left() + shards * budget.floor(), capacity);
                if step == 0 {
                    break;
                }
            }
            assert_eq!(budget.left(), 0, "nothing is left lying");
            budget.give_back(taken);
            assert_eq!(budget.left() + shards * budget.floor(), capacity);
            assert_eq!(budget.take(0), 0);
        }
    }
}
