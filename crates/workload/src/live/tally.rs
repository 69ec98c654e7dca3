//! What one client counts, and all of them together.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Ended, Failure};
use crate::latency::{latencies, note};

/// Kinds of failures that are counted apart; the others are counted as one.
const KINDS_MAX: usize = 32;

/// Intervals that are counted: a day of tenths of a second.
const INTERVALS_MAX: usize = 864_000;

/// Actions of one name.
pub(super) struct Action {
    pub done: u64,
    pub missing: u64,
    pub buffered: u64,
    pub failed: u64,
    /// Of those that did not fail.
    pub latency: Histogram<u64>,
}

/// How often something failed, and the first text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failures {
    pub count: u64,
    pub first: String,
}

/// Done and failed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    pub done: u32,
    pub failed: u32,
}

/// What was counted.
#[derive(Default)]
pub(super) struct Tally {
    pub actions: BTreeMap<&'static str, Action>,
    pub failures: BTreeMap<String, Failures>,
    pub intervals: Vec<Count>,
}

impl Action {
    fn new() -> Action {
        Action { done: 0, missing: 0, buffered: 0, failed: 0, latency: latencies() }
    }
}

impl Tally {
    /// An action ended well in this interval.
    pub fn ended(&mut self, name: &'static str, ended: Ended, latency: Duration, interval: usize) {
        if ended == Ended::Skipped {
            return;
        }
        let action = self.actions.entry(name).or_insert_with(Action::new);
        action.done += 1;
        action.missing += u64::from(ended == Ended::Missing);
        action.buffered += u64::from(ended == Ended::Buffered);
        note(&mut action.latency, latency);
        self.count(interval, |count| count.done += 1);
    }

    /// An action failed in this interval.
    pub fn failed(&mut self, name: &'static str, failure: Failure, interval: usize) {
        self.actions.entry(name).or_insert_with(Action::new).failed += 1;
        self.fail(failure.kind, 1, failure.text);
        self.count(interval, |count| count.failed += 1);
    }

    fn fail(&mut self, mut kind: String, count: u64, text: String) {
        if self.failures.len() >= KINDS_MAX && !self.failures.contains_key(&kind) {
            kind = "other".into();
        }
        self.failures.entry(kind).or_insert(Failures { count: 0, first: text }).count += count;
    }

    fn count(&mut self, interval: usize, add: impl FnOnce(&mut Count)) {
        let interval = interval.min(INTERVALS_MAX);
        if self.intervals.len() <= interval {
            self.intervals.resize(interval + 1, Count::default());
        }
        add(&mut self.intervals[interval]);
    }

    /// Adds what another client has counted.
    pub fn add(&mut self, other: Tally) {
        for (name, theirs) in other.actions {
            let ours = self.actions.entry(name).or_insert_with(Action::new);
            ours.done += theirs.done;
            ours.missing += theirs.missing;
            ours.buffered += theirs.buffered;
            ours.failed += theirs.failed;
            // Both have the same bounds, so nothing can be out of range.
            let _ = ours.latency.add(&theirs.latency);
        }
        for (kind, theirs) in other.failures {
            self.fail(kind, theirs.count, theirs.first);
        }
        for (interval, theirs) in other.intervals.into_iter().enumerate() {
            self.count(interval, |count| {
                count.done += theirs.done;
                count.failed += theirs.failed;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_add_up_and_kinds_are_bounded() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.ended("read", Ended::Missing, Duration::from_micros(5), 0);
        other.ended("read", Ended::Buffered, Duration::from_micros(7), 2);
        other.ended("read", Ended::Skipped, Duration::from_micros(7), 9);
        other.failed("write", Failure::refused("STOREDOWN not cached"), 2);
        for kind in 0..2 * KINDS_MAX {
            other.failed("write", Failure::of_kind(format!("k{kind}"), "why"), 1);
        }
        one.add(other);
        let read = &one.actions["read"];
        assert_eq!((read.done, read.missing, read.buffered, read.failed, read.latency.len()), (2, 1, 1, 0, 2));
        assert_eq!(one.failures["STOREDOWN"], Failures { count: 1, first: "STOREDOWN not cached".into() });
        assert_eq!(one.failures.len(), KINDS_MAX + 1);
        let failed: u64 = one.failures.values().map(|failures| failures.count).sum();
        assert_eq!(failed, 2 * KINDS_MAX as u64 + 1);
        let done: Vec<u32> = one.intervals.iter().map(|count| count.done).collect();
        assert_eq!(done, [1, 0, 1]);
    }
}
