//! What the library counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts since the client was made, over all its sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Reads that a copy served, in transactions that ended well.
    pub fresh: u64,
    /// Reads that a copy served which a check found stale.
    pub stale: u64,
    /// Documents that were fetched.
    pub missed: u64,
    /// Transactions that ended without a message of their end.
    pub alone: u64,
    /// Transactions that only read and were validated.
    pub validated: u64,
    /// Transactions that wrote.
    pub committed: u64,
    /// Attempts that ended because a document had changed.
    pub stale_aborts: u64,
    /// Attempts that ended because another transaction was in the way.
    pub conflict_aborts: u64,
    /// Attempts that ended because a connection was lost, and nothing was changed.
    pub lost_aborts: u64,
    /// Commits whose answer was lost.
    pub unknown: u64,
    /// The mean length of the leases that were given to copies.
    pub lease_mean: Duration,
}

/// The counts, as they grow.
#[derive(Debug, Default)]
pub struct Counts {
    pub fresh: Count,
    pub stale: Count,
    pub missed: Count,
    pub alone: Count,
    pub validated: Count,
    pub committed: Count,
    pub stale_aborts: Count,
    pub conflict_aborts: Count,
    pub lost_aborts: Count,
    pub unknown: Count,
    leases: Count,
    lease_us: Count,
}

/// One count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    /// A copy is used for `length` at most.
    pub fn lease(&self, length: Duration) {
        self.leases.add(1);
        self.lease_us.add(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
    }

    /// The counts now.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            fresh: self.fresh.get(),
            stale: self.stale.get(),
            missed: self.missed.get(),
            alone: self.alone.get(),
            validated: self.validated.get(),
            committed: self.committed.get(),
            stale_aborts: self.stale_aborts.get(),
            conflict_aborts: self.conflict_aborts.get(),
            lost_aborts: self.lost_aborts.get(),
            unknown: self.unknown.get(),
            lease_mean: Duration::from_micros(self.lease_us.get().checked_div(self.leases.get()).unwrap_or(0)),
        }
    }
}
