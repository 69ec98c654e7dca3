//! Whether what a transaction has read was there at one moment, by versions alone (`docs/guarantees.md`, K).
//!
//! If the greatest version is at most the least `as_of`, it was: at the moment when that `as_of` was taken. Then a
//! transaction that only reads may end without a message, where its level asks for no later moment. A session's own
//! commits, those that only read included, are such a moment: its floor.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay::version::Version;

use crate::copy::Copy;
use crate::mutation::{Fault, on};

/// How new what a transaction reads has to be. All of them are serializable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// A transaction that only reads may show what was there so long ago, even before the session's last commit.
    Bounded(Duration),
    /// It shows nothing that is older than the session's last commit.
    #[default]
    Session,
    /// Each transaction is validated at its end: what it read is current then.
    Strict,
}

/// The version that a session has come to: what it reads next is not older.
#[derive(Debug, Default)]
pub struct Floor(Mutex<Version>);

impl Floor {
    /// A transaction of the session has committed at `version`.
    pub fn raise(&self, version: Version) {
        let mut floor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *floor = version.max(*floor);
    }

    /// That version.
    pub fn version(&self) -> Version {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version as of which all of `reads` were there together; `None` if that is not known.
pub fn moment<'c>(reads: impl Iterator<Item = &'c Copy> + Clone) -> Option<Version> {
    let mut least: Option<Version> = None;
    for copy in reads.clone() {
        let as_of = copy.as_of?;
        let one = least.is_none_or(|least| least.incarnation == as_of.incarnation) || on(Fault::IncarnationsMixed);
        if !one {
            return None;
        }
        least = Some(least.map_or(as_of, |least| least.min(as_of)));
    }
    let newest = reads.map(|copy| copy.version).max()?;
    least.filter(|least| newest <= *least || on(Fault::MomentsMixed))
}

/// Whether a transaction that has read `reads`, which were there at `moment`, may end there at `now`.
pub fn is_late_enough<'c>(
    level: Level,
    moment: Version,
    floor: Version,
    mut reads: impl Iterator<Item = &'c Copy>,
    now: Instant,
) -> bool {
    match level {
        Level::Strict => false,
        Level::Session => moment >= floor || on(Fault::FloorIgnored),
        Level::Bounded(most) => {
            reads.all(|copy| now.saturating_duration_since(copy.asked) <= most) || on(Fault::BoundIgnored)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::copies::tests::copy as copy_of;

    fn version(sequence: u64) -> Version {
        Version { incarnation: 1, sequence }
    }

    fn moment_of(reads: &[Copy]) -> Option<u64> {
        moment(reads.iter()).map(|moment| moment.sequence)
    }

    /// The examples of docs/leases.md, and each condition broken once.
    #[test]
    pub fn copies_of_one_moment() {
        let now = Instant::now();
        let copy = |at, as_of| copy_of(version(at), Some(version(as_of)), now);
        assert_eq!(moment_of(&[copy(4, 9), copy(8, 8)]), Some(8));
        assert_eq!(moment_of(&[copy(4, 6), copy(8, 8)]), None);
        assert_eq!(moment_of(&[copy(4, 4)]), Some(4));
        let unknown = copy_of(version(1), None, now);
        assert_eq!(moment_of(&[copy(4, 9), unknown]), None);
        let mut other = copy(1, 9);
        other.as_of = Some(Version { incarnation: 2, sequence: 9 });
        assert_eq!(moment_of(&[copy(4, 9), other]), None, "one incarnation");
        assert_eq!(moment_of(&[]), None);
    }

    #[test]
    pub fn each_level_asks_for_its_moment() {
        let now = Instant::now();
        let reads = [copy_of(version(1), Some(version(5)), now)];
        let late = |level, floor, after| {
            is_late_enough(level, version(5), version(floor), reads.iter(), now + Duration::from_millis(after))
        };
        assert!(late(Level::Session, 5, 1000) && !late(Level::Session, 6, 0));
        assert!(!late(Level::Strict, 0, 0));
        let bounded = Level::Bounded(Duration::from_millis(20));
        assert!(late(bounded, 9, 20) && !late(bounded, 0, 21));
    }

    #[test]
    pub fn a_floor_only_rises() {
        let floor = Floor::default();
        floor.raise(version(5));
        floor.raise(version(3));
        assert_eq!(floor.version(), version(5));
    }
}
