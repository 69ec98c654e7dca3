//! The mutation gate: every rule of the protocol is left out once, and the simulation has to notice.

use forebay::mutation::{self, Fault};

use crate::seeds::attempt;
use crate::world::Scenario;

/// A fault, where it shows, and within how many seeds.
const GATE: &[(Fault, Scenario, u64)] = &[
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
    let mut missed = Vec::new();
    for (fault, scenario, seeds) in GATE {
        let _on = mutation::put_back(Some(*fault));
        let found =
            (0..*seeds).find_map(|seed| attempt(seed, *scenario).err().map(|(oracle, what)| (seed, oracle, what)));
        match found {
            Some((seed, oracle, what)) => {
                let what: String = what.chars().take(120).collect();
                println!("{fault:?}: seed {seed} of {scenario:?}: {oracle}: {what}");
            }
            None => missed.push(format!("{fault:?} within {seeds} seeds of {scenario:?}")),
        }
    }
    assert!(missed.is_empty(), "the simulation does not find {missed:#?}");
}
