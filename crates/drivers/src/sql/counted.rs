//! What is counted of reads and commits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::store::CommitOutcome;
use forebay::store::figures::{OUTCOMES, TimeHistogram};

/// Counted since the database was opened.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) reads: TimeHistogram,
    pub(crate) keys_read: AtomicU64,
    pub(crate) reads_failed: AtomicU64,
    pub(crate) groups: TimeHistogram,
    pub(crate) outcomes: [AtomicU64; OUTCOMES.len()],
}

impl Counted {
    /// A read of so many documents took so long.
    pub(crate) fn read(&self, took: Duration, keys: usize, well: bool) {
        self.reads.add(took);
        self.keys_read.fetch_add(keys as u64, Ordering::Relaxed);
        self.reads_failed.fetch_add(u64::from(!well), Ordering::Relaxed);
    }

    /// A group took so long.
    pub(crate) fn group(&self, took: Duration, outcomes: &[CommitOutcome]) {
        self.groups.add(took);
        for outcome in outcomes {
            let at = match outcome {
                CommitOutcome::Committed(_) | CommitOutcome::Repeated(_) => 0,
                CommitOutcome::Conflict(_) => 1,
                CommitOutcome::Refused(_) | CommitOutcome::Failed(_) => 2,
                CommitOutcome::Unknown(_) => 4,
                // The others come from the gate alone.
                _ => 3,
            };
            self.outcomes[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}
