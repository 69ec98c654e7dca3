//! Where the watching of other programs' writes stands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Key;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::decoding::decoder::Decoding;
use crate::sql::watching::{Asked, OutsideBy, Own};

/// Reasons of failures in a row that are logged.
const REASONS_MAX: usize = 4;

/// Where the watching stands.
pub(super) struct Watch {
    by: OutsideBy,
    pause: Duration,
    pub(super) last: AsyncMutex<Last>,
    pub(super) decoding: AsyncMutex<Decoding>,
    own: Mutex<Own>,
    seen: Seen,
    asked: Asked,
}

/// What was counted of looking.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) looks: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) keys: AtomicU64,
    /// See [`OutsideFigures::within_us`](forebay::store::figures::OutsideFigures::within_us).
    pub(super) within_us: AtomicU64,
    /// Bytes of the log that are kept, or rows of notes.
    pub(super) backlog: AtomicU64,
    /// Why looks have failed since one did not; each is said once.
    reasons: Mutex<Vec<String>>,
    began: Mutex<Option<Instant>>,
}

/// The last look.
#[derive(Default)]
pub(super) struct Last {
    /// The snapshot of the last look; without one, nothing is known of what was before.
    pub(super) snapshot: Option<String>,
    pub(super) looks: u32,
    /// When looks fail: when everything was said to be suspect last.
    pub(super) suspect: Option<Instant>,
    /// What removes old notes.
    pub(super) removal: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn new(by: OutsideBy, pause: Duration) -> Watch {
        let (last, decoding) = (AsyncMutex::default(), AsyncMutex::default());
        Watch { by, pause, last, decoding, own: Mutex::default(), seen: Seen::default(), asked: Asked::default() }
    }

    pub(super) fn by(&self) -> OutsideBy {
        self.by
    }

    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that transaction `number` was ours and wrote `keys`: the cache has what became of them.
    pub(super) fn is_ours(&self, number: u64, keys: Vec<Key>) {
        self.own().add(number, keys);
    }

    /// A look that began then has ended well. What was committed before it has been told; the one before it began
    /// earlier than anything that it did not have.
    pub(super) fn looked(&self, began: Instant, keys: usize) {
        let seen = &self.seen;
        seen.looks.fetch_add(1, Ordering::Relaxed);
        seen.keys.fetch_add(keys as u64, Ordering::Relaxed);
        self.reasons().clear();
        let before = seen.began.lock().unwrap_or_else(PoisonError::into_inner).replace(began).unwrap_or(began);
        let within = u64::try_from(before.elapsed().as_micros()).unwrap_or(u64::MAX);
        seen.within_us.store(within, Ordering::Relaxed);
    }

    /// A look has failed, the first if the last one had not. A reason that is new is logged.
    pub(super) fn failed(&self, why: &str) -> bool {
        self.seen.failures.fetch_add(1, Ordering::Relaxed);
        let mut reasons = self.reasons();
        let first = reasons.is_empty();
        if reasons.len() < REASONS_MAX && !reasons.iter().any(|reason| reason == why) {
            let then = "until it can, what is cached is dropped, or compared behind an outage";
            tracing::warn!(why, "what others write to PostgreSQL can't be seen; {then}");
            reasons.push(why.to_owned());
        }
        first
    }

    fn reasons(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much is kept in the database for our next look.
    pub(super) fn retains(&self, backlog: u64) {
        self.seen.backlog.store(backlog, Ordering::Relaxed);
    }
}
