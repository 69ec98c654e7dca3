//! Whole sessions in a seeded world: bytes of pipelined requests in, bytes of replies out, over transactions, cache,
//! group commit and store in virtual time, with faults, crashes and connections that are gone in the middle of a
//! commit.
//!
//! The world and its oracles are those of the library's simulation (`crates/forebay/tests/simulation`), which says how
//! to repeat a seed; what clients do and see is in `client.rs`.

#[path = "../../../forebay/tests/simulation/applying.rs"]
mod applying;
#[path = "../../../forebay/tests/simulation/book.rs"]
mod book;
mod client;
mod connection;
#[path = "../../../forebay/tests/simulation/demanding.rs"]
mod demanding;
#[path = "../../../forebay/tests/simulation/detached.rs"]
mod detached;
mod leasing;
#[path = "../../../forebay/tests/simulation/oracle.rs"]
mod oracle;
mod orders;
#[path = "../../../forebay/tests/simulation/outages.rs"]
mod outages;
#[path = "../../../forebay/tests/simulation/quiet.rs"]
mod quiet;
#[path = "../../../forebay/tests/simulation/range.rs"]
mod range;
#[path = "../../../forebay/tests/simulation/seeds.rs"]
mod seeds;
mod tracked;
#[path = "../../../forebay/tests/simulation/unordered.rs"]
mod unordered;
#[path = "../../../forebay/tests/simulation/world.rs"]
mod world;

use forebay::mutation::Fault;
use seeds::{Expected, crash_everywhere, gate_of, run_all};
use world::Scenario;

/// Seeds of one scenario unless FOREBAY_SEEDS says otherwise: the library's simulation runs more of them.
const SEEDS: u64 = 300;

#[test]
fn sound_stores() {
    run_all("sound_stores", Scenario::Sound);
}

#[test]
fn faulty_stores() {
    run_all("faulty_stores", Scenario::Faulty);
}

#[test]
fn crashing_disks() {
    run_all("crashing_disks", Scenario::Disk);
}

#[test]
fn outages() {
    run_all("outages", Scenario::Outage);
}

/// Some runs, crashed at each of their steps in turn.
#[test]
fn a_crash_at_every_step() {
    crash_everywhere("a_crash_at_every_step");
}

/// The faults that only a session can show; those that it shows too stand beside them.
const GATE: &[Expected] = &[
    (Fault::PipelinedReadOvertakes, Scenario::Sound, 200),
    (Fault::CommitDiesWithConnection, Scenario::Sound, 200),
    (Fault::OwnWritesHidden, Scenario::Sound, 200),
    (Fault::AbortLeavesWrites, Scenario::Sound, 200),
    (Fault::WatchIgnored, Scenario::Sound, 200),
    (Fault::PauseIgnored, Scenario::Sound, 200),
    (Fault::KilledInPauseServed, Scenario::Sound, 300),
    (Fault::KillWaitsForPause, Scenario::Sound, 200),
    (Fault::UnpauseWakesNobody, Scenario::Sound, 200),
    (Fault::LockWithoutResult, Scenario::Sound, 200),
    (Fault::AppliedIdsIgnored, Scenario::Faulty, 200),
    (Fault::AcknowledgedBeforeFsync, Scenario::Disk, 200),
    (Fault::ToldBeforePublication, Scenario::Sound, 500),
    (Fault::NotedAfterRead, Scenario::Sound, 500),
];

#[test]
fn gate() {
    gate_of(GATE);
}
