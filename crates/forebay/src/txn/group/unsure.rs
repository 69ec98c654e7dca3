//! What the log says of commits whose outcome is unknown. A store that can't tell is asked every second for each of
//! them, for as long as it takes. The first time is said at once, all others are counted and said now and then.

use std::time::Duration;

use crate::error::Unavailable;
use crate::store::CommitOutcome;
use crate::version::TxnId;

/// From one line of a kind to the next.
const PAUSE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(super) struct Unsure {
    /// Commits that the store is asked about.
    asked: usize,
    begun: Seldom,
    failed: Seldom,
}

impl Unsure {
    /// The store is asked about a commit from now on.
    pub(super) fn begins(&mut self, now: Duration, id: &TxnId, outcome: &CommitOutcome) {
        self.asked += 1;
        if let Some(others) = self.begun.due(now) {
            tracing::warn!(%id, ?outcome, others, "what became of a commit is unknown; asking the store");
        }
    }

    /// It could not say what became of these.
    pub(super) fn failed(&mut self, now: Duration, ids: &[TxnId], error: &Unavailable) {
        if let Some(others) = self.failed.due(now) {
            let (commits, id) = (self.asked, ids.first().map(TxnId::to_string).unwrap_or_default());
            tracing::error!(commits, id, %error, others, "the store can't say what became of commits; asking again");
        }
    }

    /// It has said what became of so many.
    pub(super) fn ends(&mut self, count: usize) {
        self.asked -= count;
    }
}

/// A line that is not said more often than once in [`PAUSE`].
#[derive(Default)]
struct Seldom {
    said: Option<Duration>,
    unsaid: u64,
}

impl Seldom {
    /// How many were not said before this one, if it is said.
    fn due(&mut self, now: Duration) -> Option<u64> {
        if self.said.is_some_and(|said| now.saturating_sub(said) < PAUSE) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_each_second_is_said_now_and_then() {
        let mut line = Seldom::default();
        let said: Vec<_> =
            (0..35).filter_map(|second| Some((second, line.due(Duration::from_secs(second))?))).collect();
        assert_eq!(said, [(0, 0), (10, 9), (20, 9), (30, 9)]);
    }
}
