//! Real sessions and the real client library in one seeded world. Its nodes have clocks that differ, drift and jump.
//! Its network is late, closed one way, or cut. Clients pause and vanish, and the server is killed and starts again.
//!
//! Clients run list-append, a bank, pairs and a register (`tests/client/tasks.rs`), at levels by chance. What they saw
//! is judged by each transaction's level. Commits whose answer was lost are asked for until it is known what became of
//! them. `FOREBAY_SEED` repeats a seed, `FOREBAY_LOG` says what happens when, and `FOREBAY_SEEDS` runs more.

mod brief;
#[path = "../../../../tests/client/judge.rs"]
mod judge;
mod kept;
mod leased;
mod lives;
#[path = "../../../forebay/tests/simulation/quiet.rs"]
mod quiet;
#[path = "../../../forebay/tests/simulation/range.rs"]
mod range;
mod regressions;
mod seeds;
mod server;
mod setting;
#[path = "../../../../tests/client/tasks.rs"]
mod tasks;
mod trouble;
mod world;

use forebay::mutation::Fault as ServerFault;
use forebay_client::mutation::Fault;
use seeds::{Expected, Rule, gate_of, run_all};
use setting::Scenario;

#[test]
fn late_messages() {
    run_all("late_messages", Scenario::Late);
}

#[test]
fn faults() {
    run_all("faults", Scenario::Faults);
}

#[test]
fn lives_that_keep_nothing() {
    run_all("lives_that_keep_nothing", Scenario::Lives);
}

#[test]
fn leases_of_one_length() {
    run_all("leases_of_one_length", Scenario::Leased);
}

/// Rules, where a world shows that one is left out, and in which seeds. They begin near the first that does, so that
/// those which show nothing are not run each day. Three are not among them; the tests of
/// the library itself find those.
///
/// - `FlightOfBefore` is of cost alone: an answer that is too old for a level costs a message, and is never shown.
/// - `IncarnationsMixed` has two rules more before it. What is of an earlier life ends no transaction alone. A version
///   names its life, so one of a greater life lies above each moment of a lesser one.
/// - `RenewedUnchecked` would need a server that confirms a version after it has named a later one.
const GATE: &[Expected] = &[
    (Rule::Library(Fault::MomentsMixed), Scenario::Late, 0..50),
    (Rule::Library(Fault::FloorIgnored), Scenario::Late, 0..50),
    (Rule::Library(Fault::OwnCommitForgotten), Scenario::Late, 0..100),
    (Rule::Library(Fault::ReadOnlyForgotten), Scenario::Late, 0..100),
    (Rule::Library(Fault::BoundIgnored), Scenario::Late, 0..50),
    (Rule::Library(Fault::LifeFromAnswer), Scenario::Late, 0..50),
    (Rule::Library(Fault::FlightOutlived), Scenario::Late, 80..180),
    (Rule::Library(Fault::LeaseFromAnswer), Scenario::Leased, 0..100),
    (Rule::Library(Fault::LateAnswerKept), Scenario::Leased, 0..100),
    (Rule::Library(Fault::StaleServesOn), Scenario::Leased, 0..100),
    (Rule::Library(Fault::LeaseOverIncarnation), Scenario::Lives, 0..100),
    (Rule::Library(Fault::StaleTakenForDone), Scenario::Late, 0..50),
    (Rule::Library(Fault::ChangedTakenForSame), Scenario::Late, 0..50),
    (Rule::Library(Fault::ValidatedInParts), Scenario::Late, 0..50),
    (Rule::Library(Fault::LostCommitRepeated), Scenario::Faults, 0..50),
    (Rule::Library(Fault::IdReused), Scenario::Faults, 0..50),
    (Rule::Library(Fault::ErrorUnchecked), Scenario::Late, 0..50),
    (Rule::Library(Fault::ReadTwice), Scenario::Late, 0..50),
    (Rule::Server(ServerFault::LeaseAheadOfPlaced), Scenario::Late, 50..150),
    (Rule::Server(ServerFault::LivesAlike), Scenario::Lives, 10..110),
    (Rule::Server(ServerFault::AcknowledgedBeforeFsync), Scenario::Faults, 0..50),
];

#[test]
fn gate() {
    gate_of(GATE);
}
