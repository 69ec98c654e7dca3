//! The mutation gate: every rule of the protocol is left out once, and the simulation has to notice.

use forebay::mutation::{self, Fault};

use crate::seeds::{Expected, caught, gate_of, in_gate};
use crate::world::Scenario;

/// The faults that one thread can show; `tests/schedules.rs` has those that need several.
const GATE: &[Expected] = &[
    (Fault::ReadLockReleasedEarly, Scenario::Sound, 200),
    (Fault::CacheBeforeStore, Scenario::Sound, 200),
    (Fault::OvertakenFill, Scenario::Sound, 500),
    (Fault::VersionFenceOff, Scenario::Disk, 500),
    (Fault::AppliedIdsIgnored, Scenario::Faulty, 200),
    (Fault::LockWithoutResult, Scenario::Sound, 200),
    (Fault::FillWhileHeld, Scenario::Sound, 500),
    (Fault::AbsentNotLocked, Scenario::Sound, 200),
    (Fault::AbortLeavesWrites, Scenario::Sound, 200),
    (Fault::OwnWritesHidden, Scenario::Sound, 200),
    (Fault::AcknowledgedBeforeFsync, Scenario::Disk, 200),
    (Fault::CommitDiesWithConnection, Scenario::Sound, 200),
    (Fault::FillSurvivesInvalidation, Scenario::Sound, 500),
    (Fault::WatchIgnored, Scenario::Sound, 200),
    (Fault::OrphanCommitted, Scenario::Faulty, 200),
    (Fault::RefusedLeavesResults, Scenario::Faulty, 200),
    (Fault::PendingShown, Scenario::Sound, 200),
    (Fault::RoomKeptByFailed, Scenario::Faulty, 200),
    (Fault::AppliedIdsIgnored, Scenario::Outage, 500),
    (Fault::QueueTrimmedWhole, Scenario::Outage, 200),
    (Fault::LaneForgotten, Scenario::Outage, 200),
    (Fault::RestoredUnderNewId, Scenario::Outage, 500),
    (Fault::AmbiguousUnderNewId, Scenario::Outage, 200),
    (Fault::LanesIgnored, Scenario::Outage, 200),
    (Fault::WritesOvertakeDrain, Scenario::Outage, 200),
    (Fault::AcknowledgedBeforeJournal, Scenario::Outage, 200),
    (Fault::ReadsUnmerged, Scenario::Outage, 200),
    (Fault::AppliedNotNoted, Scenario::Outage, 500),
    (Fault::UnnotedForgotten, Scenario::Outage, 500),
    (Fault::UnnotedStopsDrain, Scenario::Outage, 200),
    (Fault::PoisonRetried, Scenario::Outage, 200),
    (Fault::RestoredStoreDrained, Scenario::Outage, 200),
    (Fault::OutcomeWithoutTombstone, Scenario::Faulty, 500),
    (Fault::IdsTrimmedByAge, Scenario::Outage, 200),
    (Fault::QueueMergedWhole, Scenario::Outage, 200),
    (Fault::LearnedUnasked, Scenario::Outage, 500),
    (Fault::DrainedByDocument, Scenario::Outage, 200),
    (Fault::WoundedGoesOn, Scenario::Sound, 200),
    (Fault::UpgradeAtTail, Scenario::Sound, 200),
    (Fault::ReapedUnseen, Scenario::Sound, 500),
    (Fault::WatchIgnoresExpiry, Scenario::Sound, 200),
    (Fault::PendingDroppedEarly, Scenario::Sound, 200),
    (Fault::WrongSequence, Scenario::Sound, 200),
    (Fault::SecondLookSkipped, Scenario::Sound, 200),
    (Fault::ElisionBesideClearing, Scenario::Sound, 500),
    (Fault::LeaseTakenLate, Scenario::Sound, 500),
    (Fault::LeaseAheadOfPlaced, Scenario::Sound, 500),
    (Fault::LeaseForgetsClearing, Scenario::Sound, 2000),
];

/// Puts each fault back and panics unless `run` finds it within so many seeds, in a run that is well without it.
pub fn finds<T>(faults: &[(Fault, u64)], run: impl Fn(u64) -> T) {
    in_gate(|| finds_within(faults, run));
}

fn finds_within<T>(faults: &[(Fault, u64)], run: impl Fn(u64) -> T) {
    for (fault, seeds) in faults {
        let broken = |seed: u64| {
            let broken = {
                let _on = mutation::put_back(Some(*fault));
                caught(|| run(seed)).err()?
            };
            match caught(|| run(seed)) {
                Ok(_) => Some((seed, broken)),
                Err((oracle, what)) => panic!("{fault:?}: seed {seed} fails without it: {oracle}: {what}"),
            }
        };
        let found = (0..*seeds).find_map(broken);
        let (seed, (oracle, what)) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: seed {seed}: {oracle}: {what}");
    }
}

#[test]
fn gate() {
    gate_of(GATE);
}
