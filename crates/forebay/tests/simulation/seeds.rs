//! Which seeds are run, and what is said of one that fails.

use std::cell::Cell;

use forebay::mutation::{self, Fault};
use forebay::policy::{Choice, POLICIES, choose};
use forebay::runtime::simulated::SplitMix;

use crate::SEEDS;
use crate::book::{Broken, Marks, broken};
use crate::world::{CRASH_STEPS_MAX, Ran, Scenario, run, run_with_crash};
use crate::{quiet, range};

/// Seeds of one scenario with FOREBAY_NIGHTLY.
const SEEDS_NIGHTLY: u64 = 20_000;

/// Of so many seeds one is crashed at each of its steps.
const SEEDS_PER_CRASHED: u64 = 1000;
/// In so many seeds everything happens.
const SEEDS_FOR_MARKS: u64 = 100;

/// Those that are run.
pub fn seeds() -> std::ops::Range<u64> {
    range::seeds(SEEDS, SEEDS_NIGHTLY)
}

thread_local! {
    static IN_GATE: Cell<bool> = const { Cell::new(false) };
}

/// Policies of the gates' runs. A gate counts on what its seeds do, which is not to change with the table of policies.
const GATE_POLICIES: [&str; 8] = ["lru", "s3-fifo", "fifo", "w-tinylfu", "clock", "arc", "gdsf", "deferred-lru"];

/// A policy by chance: any of the table, or in a gate one of a fixed list.
pub fn policy(random: &mut SplitMix) -> Choice {
    let all = POLICIES.iter().map(|policy| policy.name);
    let names: Vec<&str> = if IN_GATE.get() { GATE_POLICIES.to_vec() } else { all.collect() };
    let name = names[random.below(names.len() as u64) as usize];
    choose(name).unwrap_or_else(|error| broken("policies", error.to_string()))
}

/// Runs `runs` as part of a gate.
pub fn in_gate<T>(runs: impl FnOnce() -> T) -> T {
    let before = IN_GATE.replace(true);
    let ran = runs();
    IN_GATE.set(before);
    ran
}

/// A run that may fail: which promise was broken, and how that was seen.
pub fn attempt(seed: u64, scenario: Scenario) -> Result<Ran, (&'static str, String)> {
    caught(|| run(seed, scenario))
}

/// Runs `run`; a panic of it prints nothing.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, (&'static str, String)> {
    quiet::caught(run).map_err(|panic| {
        let text = quiet::text(&*panic);
        match panic.downcast::<Broken>() {
            Ok(broken) => (broken.oracle, broken.what),
            Err(_) => ("an assertion", text),
        }
    })
}

/// Runs all seeds of a scenario, each twice: one seed is one run, event by event.
pub fn run_all(name: &str, scenario: Scenario) {
    let mut marks = Marks::default();
    let seeds = seeds();
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p {} --test simulation {name}", env!("CARGO_PKG_NAME"));
        match attempt(seed, scenario) {
            Ok(ran) => {
                let again = attempt(seed, scenario).ok();
                assert_eq!(again.as_ref(), Some(&ran), "seed {seed} ran differently: {repeat}");
                marks.add(&ran.marks);
            }
            Err((oracle, what)) => panic!("seed {seed}: {oracle}: {what}; repeat: {repeat}"),
        }
    }
    println!("{name}: {seeds:?}: {marks:?}");
    if seeds.end - seeds.start >= SEEDS_FOR_MARKS {
        marks.all_happened(scenario);
    }
}

/// Crashes some runs at each of their steps; FOREBAY_SEED names one.
pub fn crash_everywhere(name: &str) {
    let (first, seeds) = (seeds().start, seeds().count() as u64);
    for seed in first..first + seeds.div_ceil(SEEDS_PER_CRASHED) {
        for step in 0..CRASH_STEPS_MAX {
            match caught(|| run_with_crash(seed, step)) {
                Ok(true) => {}
                Ok(false) => break,
                Err((oracle, what)) => {
                    let package = env!("CARGO_PKG_NAME");
                    let repeat = format!("FOREBAY_SEED={seed} cargo test -p {package} --test simulation {name}");
                    panic!("seed {seed}, crashed at step {step}: {oracle}: {what}; repeat: {repeat}");
                }
            }
        }
    }
}

/// A fault, where it shows, and within how many seeds.
pub type Expected = (Fault, Scenario, u64);

/// Puts each fault back and panics unless the simulation finds it, in a run that is well without it.
pub fn gate_of(gate: &[Expected]) {
    in_gate(|| gate_within(gate));
}

fn gate_within(gate: &[Expected]) {
    let mut missed = Vec::new();
    for (fault, scenario, seeds) in gate {
        let with_fault = |seed: u64| {
            let _on = mutation::put_back(Some(*fault));
            attempt(seed, *scenario).err().map(|broken| (seed, broken))
        };
        let Some((seed, (oracle, what))) = (0..*seeds).find_map(with_fault) else {
            missed.push(format!("{fault:?} within {seeds} seeds of {scenario:?}"));
            continue;
        };
        if let Err(broken) = attempt(seed, *scenario) {
            missed.push(format!("{fault:?}: seed {seed} of {scenario:?} fails without it: {broken:?}"));
        }
        let what: String = what.chars().take(120).collect();
        println!("{fault:?}: seed {seed} of {scenario:?}: {oracle}: {what}");
    }
    assert!(missed.is_empty(), "the simulation does not find {missed:#?}");
}
