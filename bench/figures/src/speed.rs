//! Time per request: against the number of hint sets, 100 to 50,000, on keys and hints made up for it; and on the
//! traces. One thread, by its processor time, the policies by turns, the fastest of several rounds: whatever else the
//! machine does only adds.

use std::fmt::Write;
use std::sync::Arc;

use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::bare::Bare;
use forebay::policy::{Access, AccessKind, Unit, choose};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use crate::{Args, Failed, clic};

const SETS: [u32; 6] = [100, 500, 2000, 10_000, 25_000, 50_000];
const POLICIES: [&str; 5] = ["clic-g", "clic-tree", "clic", "clic-top-k", "lru"];
const REQUESTS: usize = 600_000;
const KEYS: u64 = 200_000;
const CAPACITY: u64 = 40_000;
const ROUNDS: usize = 3;

/// Traces whose requests are timed, and the share of the database that the cache holds.
const TRACES: [&str; 4] = ["pgc_c10", "pgc_c50", "pgc_c90", "my_b28"];
const SHARE: f64 = 0.2;

/// A hint set with its meaning.
type Set = (HintSet, Arc<HintMeaning>);

/// Against the number of hint sets.
pub fn hint_sets(_: &Args) -> Result<String, Failed> {
    let mut times = Vec::new();
    for sets in SETS {
        times.push(fastest(&meanings(sets), &made_up(sets), CAPACITY)?);
    }
    let mut csv = String::from("policy,hint_sets,ns_per_request\n");
    for (at, policy) in POLICIES.iter().enumerate() {
        SETS.iter().zip(&times).try_for_each(|(sets, ns)| writeln!(csv, "{policy},{sets},{:.0}", ns[at]))?;
    }
    Ok(csv)
}

/// On the traces.
pub fn traces(args: &Args) -> Result<String, Failed> {
    let mut csv = String::from("trace,policy,pages,ns_per_request\n");
    for trace in TRACES {
        let pages = (SHARE * clic::pages(trace)) as u64;
        let (sets, requests) = clic::requests(&clic::path(args, trace)?)?;
        for (policy, ns) in POLICIES.iter().zip(fastest(&sets, &requests, pages)?) {
            writeln!(csv, "{trace},{policy},{pages},{ns:.0}")?;
        }
    }
    Ok(csv)
}

/// Three hint types, which all matter a little.
fn meanings(sets: u32) -> Vec<Set> {
    let meaning = |set: u32| {
        let digits = [set % 10, set / 10 % 20, set / 200].map(|digit| digit.to_string().into_bytes().into());
        let types = ["one", "two", "three"].map(|name| name.as_bytes().into());
        (HintSet(set), Arc::new(HintMeaning { schema: 1, types: types.into(), values: digits.into() }))
    };
    (1..=sets).map(meaning).collect()
}

/// Reads and writes of skewed keys, each key with a hint set of its own.
fn made_up(sets: u32) -> Vec<Access> {
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let request = |_| {
        // A skew that is cheap to draw: the least of two.
        let key = (draw() % KEYS).min(draw() % KEYS);
        let kind = if draw() % 4 == 0 { AccessKind::Write } else { AccessKind::Read };
        let hints = HintSet(1 + (key.wrapping_mul(0x9e37_79b9) % u64::from(sets)) as u32);
        Access { kind, hints, ..Access::read(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1) }
    };
    (0..REQUESTS).map(request).collect()
}

/// Nanoseconds per request of each policy.
fn fastest(sets: &[Set], requests: &[Access], capacity: u64) -> Result<[f64; POLICIES.len()], Failed> {
    let mut fastest = [f64::INFINITY; POLICIES.len()];
    for _ in 0..ROUNDS {
        for (least, policy) in fastest.iter_mut().zip(POLICIES) {
            *least = least.min(run(policy, sets, requests, capacity)?);
        }
    }
    Ok(fastest)
}

fn run(policy: &str, sets: &[Set], requests: &[Access], capacity: u64) -> Result<f64, Failed> {
    let choice = choose(policy)?;
    let mut cache = Bare::new(choice.policy, &choice.settings(Unit::Entries, capacity));
    sets.iter().for_each(|(set, meaning)| cache.define_hints(*set, meaning));
    let begun = cpu_ns()?;
    for request in requests {
        cache.access(*request);
    }
    Ok((cpu_ns()? - begun) / requests.len() as f64)
}

/// Processor time of this thread; what /proc says of it is as coarse as the scheduler's ticks.
fn cpu_ns() -> Result<f64, Failed> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.num_nanoseconds() as f64)
}
