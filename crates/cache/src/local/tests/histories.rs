//! Recorded histories, as those of the engine: changes by closures, beside others.

use crate::engine::tests::histories::{Subject, rounds};

use super::*;

/// Every other operation that has two forms takes the one.
struct Changing(Cache<u64, u64>, AtomicU64);

impl Changing {
    fn new(capacity: usize) -> Changing {
        Changing(Cache::new(capacity), AtomicU64::new(0))
    }

    fn is_turn(&self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    }

    /// What was there when it was changed. What is refused leaves nothing, as if it was evicted.
    fn change(&self, key: u64, op: impl Fn(Option<&u64>) -> Op<u64>) -> Option<u64> {
        let mut before = None;
        let computed = self.0.compute(key, |value| {
            before = value.copied();
            op(value)
        });
        assert_ne!(computed, Computed::Disturbed);
        before.filter(|_| computed != Computed::Refused)
    }
}

impl Subject for Changing {
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    fn peek(&self, key: u64) -> Option<u64> {
        self.0.peek(&key)
    }

    fn insert(&self, key: u64, value: u64) -> Option<u64> {
        self.change(key, |_| Op::Insert(value))
    }

    fn fill(&self, key: u64, value: u64) -> u64 {
        if self.is_turn() {
            return self.0.get_or_insert_with(key, || value);
        }
        self.change(key, |found| found.map_or(Op::Insert(value), |_| Op::Keep)).unwrap_or(value)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        if self.is_turn() { self.0.remove(&key) } else { self.change(key, |_| Op::Remove) }
    }

    fn validate(&self) {
        self.0.entries.validate_all();
    }
}

#[test]
fn changes_are_linearizable() {
    rounds(&Changing::new(1 << 20), &[1, 2, 3], &[], false);
}

/// Room for two of three keys.
#[test]
fn evictions_are_removals() {
    rounds(&Changing::new(2), &[1, 2, 3], &[], true);
}
