//! Guards that are held so long that newcomers are refused. Each of them is told once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::{AtomicU64, Ordering};

/// A guard that an operation has waited for in vain. As long as it is held, nothing more is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldGuard {
    /// The weight of what has left and is not dropped, since guards may see it.
    pub deferred: usize,
    /// The bound: with more than this deferred nothing is stored. It is the capacity divided by
    /// [`DEFERRED_SHARE`](crate::DEFERRED_SHARE).
    pub deferred_max: usize,
}

/// Is told of such a guard, without a lock and without a guard.
pub(crate) type HeldListener = Box<dyn Fn(HeldGuard) + Send + Sync>;

/// What is known of guards that were waited for. Guards are told apart by the age in which they began (`reclaim.rs`).
pub(super) struct Waits {
    /// The latest age of a guard that was waited for in vain. It only grows, so no age is told twice.
    latest: AtomicU64,
    guards: AtomicU64,
    listener: Option<HeldListener>,
}

impl Waits {
    pub fn new() -> Waits {
        Waits { latest: AtomicU64::new(0), guards: AtomicU64::new(0), listener: None }
    }

    /// From now on this listener is told.
    pub fn listened_to(&mut self, listener: Option<HeldListener>) {
        self.listener = listener;
    }

    /// Whether a guard that is so old, or a later one, was waited for in vain: it is not waited for again.
    pub fn was_in_vain(&self, age: u64) -> bool {
        age <= self.latest.load(Ordering::Relaxed)
    }

    /// A guard was waited for in vain. A panic of the listener ends here, as one of the other listener does.
    pub fn in_vain(&self, age: u64, held: HeldGuard) {
        if self.latest.fetch_max(age, Ordering::Relaxed) >= age {
            return;
        }
        self.guards.fetch_add(1, Ordering::Relaxed);
        if let Some(listener) = &self.listener {
            catch_unwind(AssertUnwindSafe(|| listener(held))).unwrap_or_else(std::mem::forget);
        }
    }

    /// Guards that were waited for in vain, ever.
    pub fn guards(&self) -> u64 {
        self.guards.load(Ordering::Relaxed)
    }
}
