//! Transactions that the store does not answer although it answers others. One may take longer than a store gives to
//! any (a trigger, a large document), or wait for a lock that another program holds. One at which the store fails by an
//! internal error ([`crate::store::CommitOutcome::Failed`]) is dealt with like these.
//!
//! **Invariant.** Each is tried a bounded number of times, and what it costs others is bounded. What was not answered
//! together goes in halves, until the one in the way is alone. Alone it is given twice the time with each try, up to
//! [`PATIENCE_MAX`] times the usual. After [`TRIES_ALONE_MAX`] tries alone it is poison like what the store refuses,
//! and set aside. At most one goes with more than the usual time, beside the others' batches. All tries are under one
//! id. So it is applied once if several of them arrive, and can be tried again. To give it up takes its id first. The
//! counts are not journaled: a start begins at zero.

use super::Buffer;
use crate::error::there;
use crate::mutation::{self, Fault};
use crate::store::CommitOutcome;

/// Times the usual time that one transaction is given at most.
pub const PATIENCE_MAX: u32 = 64;

/// Tries alone after which a transaction is set aside.
pub const TRIES_ALONE_MAX: u32 = 8;

/// What was seen of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slow {
    /// Transactions that it may go with, if it was in a batch that was not answered.
    together: Option<usize>,
    /// Tries alone that were not answered.
    alone: u32,
}

impl Slow {
    /// Transactions that a batch with it may have.
    pub(super) fn together_max(self) -> usize {
        self.together.unwrap_or(usize::MAX)
    }

    /// Whether it is given more than the usual time.
    pub(super) fn is_slow(self) -> bool {
        self.alone > 0
    }

    /// How many times the usual time it is given.
    pub(super) fn patience(self) -> u32 {
        1u32.checked_shl(self.alone).unwrap_or(PATIENCE_MAX).min(PATIENCE_MAX)
    }
}

/// What the store gave up for another transaction has not read what is not so any more. It is tried a few times, as
/// what the store fails at.
pub fn in_the_way(outcome: CommitOutcome) -> CommitOutcome {
    match outcome {
        CommitOutcome::Conflict(keys) if keys.is_empty() && !mutation::on(Fault::GivenUpIsOvertaken) => {
            CommitOutcome::Failed("the store gives it up for another transaction".to_owned())
        }
        outcome => outcome,
    }
}

impl Buffer {
    /// The store did not answer for these, which went as one, or fails at the only one, and answers others. Answers the
    /// one that is to be set aside for that, if one is.
    pub fn unanswered(&mut self, numbers: &[u64]) -> Option<u64> {
        let alone = numbers.len() <= 1;
        for number in numbers {
            let Some(entry) = there(self.entries.get_mut(number)) else { continue };
            entry.slow.together = Some((numbers.len() / 2).max(1));
            entry.slow.alone += u32::from(alone);
            if entry.slow.alone >= TRIES_ALONE_MAX {
                // A try that is ordered is meant.
                entry.slow.alone = 0;
                return Some(*number);
            }
        }
        None
    }

    /// Whether one that takes long is on its way.
    pub fn carries_slow(&self) -> bool {
        self.slow_carried
    }
}
