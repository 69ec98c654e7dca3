//! What operators want to know of the database and of us at it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::store::CommitOutcome;
use forebay::store::figures::{Connections, OUTCOMES, OutsideFigures, StoreFigures, TimeHistogram};

use super::Inner;
use super::outside::OutsideBy;

/// Counted since the database was opened.
#[derive(Default)]
pub(super) struct Counted {
    reads: TimeHistogram,
    keys_read: AtomicU64,
    reads_failed: AtomicU64,
    groups: TimeHistogram,
    outcomes: [AtomicU64; OUTCOMES.len()],
}

impl Counted {
    /// A read of so many documents took so long.
    pub(super) fn read(&self, took: Duration, keys: usize, well: bool) {
        self.reads.add(took);
        self.keys_read.fetch_add(keys as u64, Ordering::Relaxed);
        self.reads_failed.fetch_add(u64::from(!well), Ordering::Relaxed);
    }

    /// A group took so long.
    pub(super) fn group(&self, took: Duration, outcomes: &[CommitOutcome]) {
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

impl Inner {
    /// All of it, as it stands now.
    pub(super) fn figures(&self) -> StoreFigures {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counted, seen) = (&self.counted, self.watch.seen());
        let outside = match self.watch.by() {
            OutsideBy::Decoding => Some("decoding"),
            OutsideBy::Triggers | OutsideBy::Auto if self.has_notes() => Some("triggers"),
            _ => None,
        };
        let connections: Connections = self.pool.connections();
        StoreFigures {
            connections,
            commits_on_their_way: self.ids.on_their_way() as u64,
            reads: counted.reads.snapshot(),
            keys_read: load(&counted.keys_read),
            reads_failed: load(&counted.reads_failed),
            groups: counted.groups.snapshot(),
            commits: std::array::from_fn(|at| load(&counted.outcomes[at])),
            outside: outside.map(|by| OutsideFigures {
                by,
                looks: load(&seen.looks),
                failures: load(&seen.failures),
                keys: load(&seen.keys),
                within_us: load(&seen.within_us),
                backlog: load(&seen.backlog),
            }),
        }
    }
}
