//! Time per request against the number of hint sets, 100 to 50,000: on keys and hints made up for it, one thread, the
//! fastest of several runs, since whatever else the machine does only adds.

use std::error::Error;
use std::fmt::Write;
use std::time::Instant;

use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::bare::Bare;
use forebay::policy::{Access, AccessKind, Unit, choose};

use crate::Args;
use crate::plot::{Axes, Line, Panel, draw};

const SETS: [u32; 6] = [100, 500, 2000, 10_000, 25_000, 50_000];
const POLICIES: [&str; 5] = ["clic", "clic-top-k", "clic-tree", "clic-g", "lru"];
const REQUESTS: u64 = 600_000;
const KEYS: u64 = 200_000;
const CAPACITY: u64 = 40_000;
const RUNS: usize = 3;

/// Draws it.
pub fn hint_sets(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut csv = String::from("policy,hint_sets,ns_per_request\n");
    let mut lines = Vec::new();
    for policy in POLICIES {
        let mut points = Vec::new();
        for sets in SETS {
            let ns = (0..RUNS).map(|_| run(policy, sets)).collect::<Result<Vec<f64>, _>>()?;
            let ns = ns.into_iter().fold(f64::INFINITY, f64::min);
            writeln!(csv, "{policy},{sets},{ns:.0}")?;
            points.push((f64::from(sets), ns));
        }
        lines.push(Line { name: policy.to_owned(), points });
    }
    std::fs::write(args.out.join("clic-time.csv"), csv)?;
    let panels = [Panel { title: format!("{KEYS} keys, {CAPACITY} of them cached"), lines }];
    let axes = Axes { x: "hint sets".into(), y: "ns per request".into(), logarithmic: true, scatter: false };
    draw(&args.out.join("clic-time.svg"), &panels, &axes)
}

fn run(policy: &str, sets: u32) -> Result<f64, Box<dyn Error>> {
    let choice = choose(policy)?;
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, CAPACITY));
    for set in 1..=sets {
        let digits = [set % 10, set / 10 % 20, set / 200].map(|digit| digit.to_string().into_bytes().into());
        let types = ["one", "two", "three"].map(|name| name.as_bytes().into());
        cache.define_hints(HintSet(set), &HintMeaning { schema: 1, types: types.into(), values: digits.into() });
    }
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let begun = Instant::now();
    for _ in 0..REQUESTS {
        // A skew that is cheap to draw: the least of two.
        let key = (draw() % KEYS).min(draw() % KEYS);
        let kind = if draw() % 4 == 0 { AccessKind::Write } else { AccessKind::Read };
        let hints = HintSet(1 + (key.wrapping_mul(0x9e37_79b9) % u64::from(sets)) as u32);
        cache.access(Access { kind, hints, ..Access::read(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1) });
    }
    Ok(begun.elapsed().as_nanos() as f64 / REQUESTS as f64)
}
