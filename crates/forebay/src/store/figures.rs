//! What a store that is a separate database tells operators: connections, times, outcomes, and how what others write
//! is seen.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a histogram: bucket `n` holds times up to 2^n microseconds that no earlier one holds; the last has no
/// bound.
pub const TIME_BUCKETS: usize = 28;

/// How a commit can end, in the order in which [`StoreFigures::commits`] counts.
pub const OUTCOMES: [&str; 5] = ["committed", "conflict", "refused", "unavailable", "unknown"];

/// How long something took, as it stood at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// See [`TIME_BUCKETS`].
    pub buckets: [u64; TIME_BUCKETS],
    /// Microseconds of all together.
    pub sum_us: u64,
}

/// Counts times.
#[derive(Debug, Default)]
pub struct TimeHistogram {
    buckets: [AtomicU64; TIME_BUCKETS],
    sum_us: AtomicU64,
}

impl TimeHistogram {
    /// Something took so long.
    pub fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = match us {
            0 | 1 => 0,
            us => 64 - (us - 1).leading_zeros() as usize,
        };
        self.buckets[bucket.min(TIME_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Times {
        Times {
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// Connections to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Shared by reads.
    pub readers: u64,
    /// With a commit on its way, or asked what became of one.
    pub writing: u64,
    /// For commits, and without one now.
    pub idle: u64,
    /// Commits that wait until one of these is free.
    pub wanted: u64,
    /// Given up, with a backend in the database that may still be at work.
    pub lost: u64,
}

/// How what others write is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutsideFigures {
    /// In which way: `triggers` or `decoding`.
    pub by: &'static str,
    /// Looks that ended well.
    pub looks: u64,
    /// Looks that failed: the whole cache was suspect then.
    pub failures: u64,
    /// Documents that were told to the cache.
    pub keys: u64,
    /// From the beginning of the last look but one to the end of the last: no change that it told was visible for
    /// longer, in microseconds.
    pub within_us: u64,
    /// What the database keeps for the next look: rows of notes, or bytes of its log.
    pub backlog: u64,
}

/// All of it, as it stood at one moment; counted since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Connections.
    pub connections: Connections,
    /// Commits that were sent, or are about to be, and have no outcome yet.
    pub commits_on_their_way: u64,
    /// How long reads of documents took.
    pub reads: Times,
    /// Documents that they asked for.
    pub keys_read: u64,
    /// Reads among them that failed.
    pub reads_failed: u64,
    /// How long groups of commits took.
    pub groups: Times,
    /// Commits by outcome, see [`OUTCOMES`].
    pub commits: [u64; OUTCOMES.len()],
    /// How what others write is seen, if it is.
    pub outside: Option<OutsideFigures>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_holds_it() {
        let times = TimeHistogram::default();
        for us in [0, 1, 2, 3, 4, 5, 1 << 40] {
            times.add(Duration::from_micros(us));
        }
        let times = times.snapshot();
        assert_eq!(times.buckets[..4], [2, 1, 2, 1]);
        assert_eq!((times.buckets[TIME_BUCKETS - 1], times.sum_us), (1, 15 + (1 << 40)));
    }
}
