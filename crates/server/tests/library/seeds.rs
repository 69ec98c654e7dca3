//! Which seeds are run, what is said of one that fails, and which rules they find left out.

use std::ops::Range;

use crate::setting::{Marks, Scenario};
use crate::world::run;
use crate::{Fault, ServerFault, quiet, range};

/// Seeds of one scenario, in each run of the tests and by night.
const SEEDS: u64 = 100;
const SEEDS_NIGHTLY: u64 = 10_000;

/// In so many seeds everything happens.
const SEEDS_FOR_MARKS: u64 = 100;

/// Of so many seeds one runs twice.
const SEEDS_PER_REPEATED: u64 = 10;

/// A run that may fail, and how; it prints nothing.
fn attempt(seed: u64, scenario: Scenario) -> Result<Marks, String> {
    quiet::caught(|| run(seed, scenario)).map_err(|panic| quiet::text(&*panic))
}

/// Runs all seeds of a scenario, some of them twice: one seed is one run, event by event.
pub fn run_all(name: &str, scenario: Scenario) {
    let (mut marks, seeds) = (Marks::default(), range::seeds(SEEDS, SEEDS_NIGHTLY));
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p {} --test library {name}", env!("CARGO_PKG_NAME"));
        let ran = attempt(seed, scenario).unwrap_or_else(|what| panic!("seed {seed}: {what}; repeat: {repeat}"));
        if seed % SEEDS_PER_REPEATED == 0 {
            assert_eq!(attempt(seed, scenario), Ok(ran), "seed {seed} ran differently: {repeat}");
        }
        marks.add(&ran);
    }
    println!("{name}: {seeds:?}: {marks:?}");
    if seeds.end - seeds.start >= SEEDS_FOR_MARKS {
        marks.much_happened(scenario);
    }
}

/// A rule of the library, or of the server.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Library(Fault),
    Server(ServerFault),
}

/// A rule, where it shows that it is left out, and in which seeds.
pub type Expected = (Rule, Scenario, Range<u64>);

fn without(rule: Rule, seed: u64, scenario: Scenario) -> Result<Marks, String> {
    match rule {
        Rule::Library(fault) => {
            forebay_client::mutation::put_back(Some(fault));
            let ran = attempt(seed, scenario);
            forebay_client::mutation::put_back(None);
            ran
        }
        Rule::Server(fault) => {
            let _on = forebay::mutation::put_back(Some(fault));
            attempt(seed, scenario)
        }
    }
}

/// Leaves each rule out, and panics unless a world notices, which is well without that.
pub fn gate_of(gate: &[Expected]) {
    let mut missed = Vec::new();
    for (rule, scenario, seeds) in gate {
        let found = seeds.clone().find_map(|seed| without(*rule, seed, *scenario).err().map(|what| (seed, what)));
        let Some((seed, what)) = found else {
            missed.push(format!("{rule:?} within seeds {seeds:?} of {scenario:?}"));
            continue;
        };
        if let Err(broken) = attempt(seed, *scenario) {
            missed.push(format!("{rule:?}: seed {seed} of {scenario:?} fails without it: {broken}"));
        }
        let what: String = what.chars().take(120).collect();
        println!("{rule:?}: seed {seed} of {scenario:?}: {what}");
    }
    assert!(missed.is_empty(), "the worlds do not find {missed:#?}");
}
