//! The mutation gate: every rule of the protocol is left out once, and the simulation has to notice.

use forebay::mutation::Fault;

use crate::seeds::{Expected, gate_of};
use crate::world::Scenario;

/// The faults that one thread can show; `tests/schedules.rs` has those that need several.
const GATE: &[Expected] = &[
    (Fault::ReadLockReleasedEarly, Scenario::Sound, 20),
    (Fault::CacheBeforeStore, Scenario::Sound, 20),
    (Fault::OvertakenFill, Scenario::Sound, 100),
    (Fault::VersionFenceOff, Scenario::Disk, 300),
    (Fault::AppliedIdsIgnored, Scenario::Faulty, 20),
    (Fault::LockWithoutResult, Scenario::Sound, 20),
    (Fault::FillWhileHeld, Scenario::Sound, 100),
    (Fault::AbsentNotLocked, Scenario::Sound, 20),
    (Fault::AbortLeavesWrites, Scenario::Sound, 20),
    (Fault::OwnWritesHidden, Scenario::Sound, 20),
    (Fault::AcknowledgedBeforeFsync, Scenario::Disk, 100),
    (Fault::CommitDiesWithConnection, Scenario::Sound, 100),
    (Fault::FillSurvivesInvalidation, Scenario::Sound, 300),
    (Fault::WatchIgnored, Scenario::Sound, 20),
    (Fault::OrphanCommitted, Scenario::Faulty, 100),
    (Fault::PendingShown, Scenario::Sound, 100),
];

#[test]
fn gate() {
    gate_of(GATE);
}
