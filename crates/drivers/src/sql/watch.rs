//! Where the watching of other programs' writes stands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Key;
use forebay::store::figures::OutsideFigures;
use tokio::time::Instant;

use super::watching::{Asked, OutsideBy, Own};

/// Reasons of failures in a row that are logged.
const REASONS_MAX: usize = 4;

/// Where the watching stands.
pub(crate) struct Watch {
    /// The database's name, for the log.
    database: &'static str,
    by: OutsideBy,
    pause: Duration,
    own: Mutex<Own>,
    seen: Seen,
    asked: Asked,
}

/// What was counted of looking.
#[derive(Default)]
struct Seen {
    looks: AtomicU64,
    failures: AtomicU64,
    keys: AtomicU64,
    /// See [`OutsideFigures::within_us`](forebay::store::figures::OutsideFigures::within_us).
    within_us: AtomicU64,
    /// Bytes of the log that are kept, or rows of notes.
    backlog: AtomicU64,
    /// Why looks have failed since one did not; each is said once.
    reasons: Mutex<Vec<String>>,
    began: Mutex<Option<Instant>>,
}

impl Watch {
    pub(crate) fn new(database: &'static str, by: OutsideBy, pause: Duration) -> Watch {
        Watch { database, by, pause, own: Mutex::default(), seen: Seen::default(), asked: Asked::default() }
    }

    pub(crate) fn by(&self) -> OutsideBy {
        self.by
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    pub(crate) fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that transaction `number` was ours and wrote `keys`: the cache has what became of them.
    pub(crate) fn is_ours(&self, number: u64, keys: Vec<Key>) {
        self.own().add(number, keys);
    }

    /// A look that began then has ended well. What was committed before it has been told; the one before it began
    /// earlier than anything that it did not have.
    pub(crate) fn looked(&self, began: Instant, keys: usize) {
        let seen = &self.seen;
        seen.looks.fetch_add(1, Ordering::Relaxed);
        seen.keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.reasons().clear();
        let before = seen.began.lock().unwrap_or_else(PoisonError::into_inner).replace(began).unwrap_or(began);
        let within = u64::try_from(before.elapsed().as_micros()).unwrap_or(u64::MAX);
        seen.within_us.store(within, Ordering::Relaxed);
    }

    /// A look has failed, the first if the last one had not. A reason that is new is logged.
    pub(crate) fn failed(&self, why: &str) -> bool {
        self.seen.failures.fetch_add(1, Ordering::Relaxed);
        let mut reasons = self.reasons();
        let first = reasons.is_empty();
        if reasons.len() < REASONS_MAX && !reasons.iter().any(|reason| reason == why) {
            let then = "until it can, what is cached is dropped, or compared behind an outage";
            let database = self.database;
            tracing::warn!(why, "what others write to {database} can't be seen; {then}");
            reasons.push(why.to_owned());
        }
        first
    }

    fn reasons(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much is kept in the database for our next look.
    pub(crate) fn retains(&self, backlog: u64) {
        self.seen.backlog.store(backlog, Ordering::Relaxed);
    }

    /// What operators want to know of it, where others are seen `by` these means.
    pub(crate) fn figures(&self, by: &'static str) -> OutsideFigures {
        let (load, seen) = (|counter: &AtomicU64| counter.load(Ordering::Relaxed), &self.seen);
        OutsideFigures {
            by,
            looks: load(&seen.looks),
            failures: load(&seen.failures),
            keys: load(&seen.keys),
            within_us: load(&seen.within_us),
            backlog: load(&seen.backlog),
        }
    }
}
