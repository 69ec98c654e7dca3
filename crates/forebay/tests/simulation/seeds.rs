//! Which seeds are run, and what is said of one that fails.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::book::{Broken, Marks};
use crate::world::{Ran, Scenario, run};

/// Seeds of one scenario unless FOREBAY_SEEDS says otherwise.
const SEEDS: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

fn seeds() -> std::ops::Range<u64> {
    let forever = std::env::var("FOREBAY_SEEDS").is_ok_and(|seeds| seeds == "forever");
    match number("FOREBAY_SEED") {
        Some(seed) => seed..seed + 1,
        None if forever => 0..u64::MAX,
        None => 0..number("FOREBAY_SEEDS").unwrap_or(SEEDS),
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A run that may fail: which promise was broken, and how that was seen. The panic itself prints nothing.
pub fn attempt(seed: u64, scenario: Scenario) -> Result<Ran, (&'static str, String)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                shown(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let ran = catch_unwind(AssertUnwindSafe(|| run(seed, scenario)));
    QUIET.set(before);
    ran.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        match panic.downcast::<Broken>() {
            Ok(broken) => (broken.oracle, broken.what),
            Err(_) => ("an assertion", text.unwrap_or_default()),
        }
    })
}

/// Runs all seeds of a scenario, every tenth twice: one seed is one run, event by event.
pub fn run_all(name: &str, scenario: Scenario) {
    let mut marks = Marks::default();
    let seeds = seeds();
    for seed in seeds.clone() {
        let repeat = format!("FOREBAY_SEED={seed} cargo test -p forebay --test simulation {name}");
        match attempt(seed, scenario) {
            Ok(ran) => {
                if seed % 10 == 0 || seeds.end - seeds.start == 1 {
                    assert_eq!(
                        attempt(seed, scenario).ok().as_ref(),
                        Some(&ran),
                        "seed {seed} ran differently: {repeat}"
                    );
                }
                marks.add(&ran.marks);
            }
            Err((oracle, what)) => panic!("seed {seed}: {oracle}: {what}; repeat: {repeat}"),
        }
        if seeds.end == u64::MAX && seed % 1000 == 999 {
            eprintln!("{name}: {} seeds", seed + 1);
        }
    }
    println!("{name}: {seeds:?}: {marks:?}");
    if seeds.end - seeds.start >= SEEDS {
        marks.all_happened(scenario);
    }
}
