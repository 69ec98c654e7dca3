//! What happened, counted if it was asked for.
//!
//! Threads count on lines of memory of their own, as long as there are no more threads than lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines that threads count on.
const STRIPES: usize = 64;

/// What happened to a cache since it was made. See [`Cache::statistics`](crate::Cache::statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Questions for a value that found one.
    pub hits: u64,
    /// Questions that found none.
    pub misses: u64,
    /// Loaders that came to an end without a panic.
    pub loads: u64,
    /// Those of them that answered an error.
    pub load_failures: u64,
    /// The time that they took together.
    pub load_time: Duration,
    /// Entries that left because others needed their room.
    pub evicted: u64,
    /// Entries that left because their time was over.
    pub expired: u64,
    /// Entries whose key was given another value.
    pub replaced: u64,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries that were not stored: too heavy, over at once, kept out by pins or by guards, or by the policy.
    pub refused: u64,
    /// The weight of entries that are pinned.
    pub pinned: usize,
    /// The weight of what has left and is not dropped yet. Guards that are held for long keep it; beyond an eighth of
    /// the capacity ([`DEFERRED_SHARE`](crate::DEFERRED_SHARE)) nothing new is stored.
    pub deferred: usize,
    /// Guards that were held so long that something was not stored for them.
    pub held_guards: u64,
    /// Entries that there are.
    pub entries: usize,
    /// What they weigh.
    pub weight: usize,
}

impl Statistics {
    /// The share of questions that found a value; 0 if there was none.
    pub fn hit_ratio(&self) -> f64 {
        let asked = self.hits + self.misses;
        if asked == 0 { 0.0 } else { self.hits as f64 / asked as f64 }
    }
}

#[repr(align(128))]
#[derive(Default)]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
    loads: AtomicU64,
    load_failures: AtomicU64,
    load_nanos: AtomicU64,
    refused: AtomicU64,
}

/// See the module.
pub(super) struct Counters {
    stripes: [Stripe; STRIPES],
}

impl Counters {
    pub fn new() -> Counters {
        Counters { stripes: std::array::from_fn(|_| Stripe::default()) }
    }

    /// A question of the thread at this place.
    #[inline]
    pub fn looked(&self, place: usize, found: bool) {
        let Stripe { hits, misses, .. } = &self.stripes[place % STRIPES];
        (if found { hits } else { misses }).fetch_add(1, Ordering::Relaxed);
    }

    pub fn loaded(&self, place: usize, nanos: u64, failed: bool) {
        let stripe = &self.stripes[place % STRIPES];
        stripe.loads.fetch_add(1, Ordering::Relaxed);
        stripe.load_failures.fetch_add(u64::from(failed), Ordering::Relaxed);
        stripe.load_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn refused(&self, place: usize) {
        self.stripes[place % STRIPES].refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The sums of all threads.
    pub fn sums(&self) -> Statistics {
        let sum = |of: fn(&Stripe) -> &AtomicU64| -> u64 {
            self.stripes.iter().map(|stripe| of(stripe).load(Ordering::Relaxed)).sum()
        };
        Statistics {
            hits: sum(|stripe| &stripe.hits),
            misses: sum(|stripe| &stripe.misses),
            loads: sum(|stripe| &stripe.loads),
            load_failures: sum(|stripe| &stripe.load_failures),
            load_time: Duration::from_nanos(sum(|stripe| &stripe.load_nanos)),
            refused: sum(|stripe| &stripe.refused),
            ..Statistics::default()
        }
    }
}
