//! What the clients of BG share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::log::{Log, Room};
use crate::bg::{Data, Graph, Mix};

/// Resources of a wall that are shown: the range of `LRANGE`, and how many.
pub(super) const SHOWN: &str = "-5";
pub(super) const SHOWN_COUNT: u32 = 5;

/// Writes by what became of them.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) applied: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) nothing: AtomicU64,
    /// Answered as if there had been nothing to remove.
    pub(super) strange: AtomicU64,
    pub(super) first_strange: Mutex<Option<String>>,
}

impl Counts {
    /// Counts from nothing.
    pub(super) fn reset(&self) {
        let Counts { applied, failed, unknown, busy, nothing, strange, first_strange } = self;
        [applied, failed, unknown, busy, nothing, strange]
            .into_iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
        *lock(first_strange) = None;
    }
}

/// One run.
pub(super) struct Run {
    pub(super) epoch: Instant,
    pub(super) room: Room,
    /// The graph before it.
    pub(super) first: Arc<Graph>,
    /// Of clients that have ended.
    pub(super) logs: Vec<Log>,
    pub(super) notes: Vec<String>,
}

/// What its clients share.
pub(super) struct Bg {
    pub(super) mix: &'static Mix,
    pub(super) data: Data,
    pub(super) graph: Mutex<Graph>,
    /// The graph is what the target holds.
    pub(super) known: AtomicBool,
    pub(super) run: Mutex<Run>,
    pub(super) counts: Counts,
    pub(super) transactions: bool,
    pub(super) think: Duration,
    pub(super) pause: Duration,
}

/// What a mutex holds, whatever became of who held it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
