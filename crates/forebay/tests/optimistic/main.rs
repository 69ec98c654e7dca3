//! Optimistic transactions over many nodes: clients, validators and shards as cores, in a world of chance.
//!
//! Clocks differ, drift and jump. Messages are late, lost, repeated, and overtake each other. Partitions cut one
//! direction. Clients pause for long, and vanish; validators vanish and begin again. One seed is one run.
//!
//! `judge.rs` looks for cycles among what has committed, for what each level promises. `gate.rs` proves that it finds
//! each rule of the protocol that is left out.
//!
//! The cores have no tasks, so this world needs no executor: a queue of events is all of it.
//!
//! FOREBAY_SEED repeats one seed; FOREBAY_SEEDS says how many are run, or which (`5000..6000`).

mod actor;
mod gate;
mod judge;
mod network;
#[path = "../simulation/range.rs"]
mod range;
mod setting;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use setting::{Ran, Scenario};
use world::run;

/// Seeds of one scenario unless FOREBAY_SEEDS says otherwise.
const SEEDS: u64 = 100;

/// Seeds of one scenario with FOREBAY_NIGHTLY.
const SEEDS_NIGHTLY: u64 = 10_000;

/// Runs all seeds of a scenario, each tenth twice: one seed is one run, event by event.
fn run_all(name: &str, scenario: Scenario) {
    let (mut all, seeds) = (Ran::default(), range::seeds(SEEDS, SEEDS_NIGHTLY));
    for seed in seeds.clone() {
        let ran = catch_unwind(AssertUnwindSafe(|| run(seed, scenario).unwrap_or_else(|broken| panic!("{broken}"))));
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p {} --test optimistic {name}", env!("CARGO_PKG_NAME"));
        let ran = ran.unwrap_or_else(|_| panic!("seed {seed}; repeat: {repeat}"));
        if seed % 10 == 0 {
            assert_eq!(run(seed, scenario).as_ref(), Ok(&ran), "seed {seed} ran differently: {repeat}");
        }
        all.add(&ran);
    }
    println!("{name}: {seeds:?}: {all:?}");
    if seeds.end - seeds.start >= SEEDS {
        all.much_happened(scenario);
    }
}

#[test]
fn clocks_and_late_messages() {
    run_all("clocks_and_late_messages", Scenario::Calm);
}

#[test]
fn crashes_pauses_and_partitions() {
    run_all("crashes_pauses_and_partitions", Scenario::Faults);
}

#[test]
fn validators_that_begin_again() {
    run_all("validators_that_begin_again", Scenario::Restarts);
}

#[test]
fn strict() {
    run_all("strict", Scenario::Strict);
}

/// Both are well, but for what `gate.rs` puts back: few seeds, since nothing of forebay works so.
#[test]
fn what_clients_tell_each_other() {
    for seed in range::seeds(30, SEEDS_NIGHTLY) {
        for scenario in [Scenario::Watermarks, Scenario::Paper] {
            run(seed, scenario).unwrap_or_else(|broken| panic!("seed {seed} of {scenario:?}: {broken}"));
        }
    }
}
