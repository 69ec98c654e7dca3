//! TARDIS, model-checked: every interleaving of two or three writers and one or two recovery workers on one document,
//! with non-idempotent writes and budgets of faults. The paper's protocols lose, repeat, misorder and orphan writes in
//! the ways that `docs/papers/tardis.md` tells; the corrected one, which forebay builds, does none of it.
//!
//! * `state`: what a state is, and what is wrong with it.
//! * `paper`: algorithms 1 to 3 (Recon) and algorithm 4 (snapshot recovery).
//! * `corrected`: fenced claims, tokens, atomic commands of the cache.
//! * `check`: a protocol under budgets of faults as a model of stateright, and the count of what was found.
//!
//! Counts are those of an independent explorer of the same models, written in another language. `FOREBAY_NIGHTLY=1`
//! adds the largest; `FOREBAY_LOG=1` prints a shortest trace to each kind of violation that is expected.

mod check;
mod corrected;
mod paper;
mod state;

use check::{Budget, Found, Model, Readers};
use state::{Kind, Protocol, Violations};

use Protocol::{Corrected, LeaseKept, Literal, Snapshot};

const NO_FAULT: Budget = Budget { ambiguous: 0, expiries: 0, crashes: 0, writers: 2, workers: 2, sequential: false };
const AMBIGUOUS: Budget = Budget { ambiguous: 1, ..NO_FAULT };
const CRASH: Budget = Budget { crashes: 1, ..NO_FAULT };
const EXPIRY: Budget = Budget { expiries: 1, ..NO_FAULT };
const BOTH: Budget = Budget { ambiguous: 1, expiries: 1, ..NO_FAULT };
const IN_TURN: Budget = Budget { sequential: true, ..BOTH };
const MANY: Budget = Budget { ambiguous: 2, expiries: 2, crashes: 1, workers: 1, ..NO_FAULT };
const THREE: Budget = Budget { ambiguous: 1, writers: 3, workers: 1, ..NO_FAULT };
const THREE_AND_EXPIRY: Budget = Budget { expiries: 1, ..THREE };
const ONE_WORKER: Budget = Budget { workers: 1, ..NO_FAULT };

/// Cases with more states than this run with `FOREBAY_NIGHTLY=1` only.
const STATES_MAX: usize = 110_000;

struct Case {
    name: &'static str,
    budget: Budget,
    states: usize,
    terminal: usize,
    violations: Violations,
}

const fn case(
    name: &'static str,
    budget: Budget,
    [states, terminal]: [usize; 2],
    [lost, duplicate, orphan, order]: [usize; 4],
) -> Case {
    Case { name, budget, states, terminal, violations: Violations { lost, duplicate, orphan, order } }
}

/// As the paper prints it: algorithm 2 lets the lease go before the application's own write.
const LITERAL: [Case; 6] = [
    case("no fault: the store is down, then up", NO_FAULT, [8_950, 14], [4, 0, 0, 0]),
    case("1 ambiguous store write", AMBIGUOUS, [56_398, 66], [8, 54, 0, 0]),
    case("1 crash", CRASH, [41_130, 138], [20, 46, 26, 0]),
    case("1 lease expiry", EXPIRY, [62_464, 82], [22, 44, 18, 0]),
    case("writers in turn, 1 ambiguous + 1 expiry", IN_TURN, [36_932, 31], [2, 35, 5, 0]),
    case("1 ambiguous + 1 expiry", BOTH, [411_704, 362], [44, 390, 82, 0]),
];

/// Read generously: the lease is kept through the application's own write.
const LEASE_KEPT: [Case; 6] = [
    case("no fault: the store is down, then up", NO_FAULT, [3_600, 8], [0; 4]),
    case("1 ambiguous store write", AMBIGUOUS, [26_082, 38], [0, 36, 0, 0]),
    case("1 crash", CRASH, [15_740, 72], [4, 20, 12, 0]),
    case("1 lease expiry", EXPIRY, [32_146, 50], [6, 26, 6, 0]),
    case("writers in turn, 1 ambiguous + 1 expiry", IN_TURN, [37_237, 31], [2, 35, 5, 0]),
    case("1 ambiguous + 1 expiry", BOTH, [226_504, 238], [12, 266, 36, 0]),
];

/// Likewise with snapshot recovery, algorithm 4.
const SNAPSHOT: [Case; 6] = [
    case("no fault: the store is down, then up", NO_FAULT, [4_322, 10], [0; 4]),
    case("1 ambiguous store write", AMBIGUOUS, [45_318, 72], [0, 54, 0, 0]),
    case("1 crash", CRASH, [15_340, 54], [4, 0, 12, 0]),
    case("1 lease expiry", EXPIRY, [91_770, 76], [6, 38, 6, 2]),
    case(
        "writers in turn, 1 ambiguous + 1 expiry, 1 worker",
        Budget { workers: 1, ..IN_TURN },
        [12_127, 67],
        [11, 48, 9, 6],
    ),
    case("1 ambiguous + 1 expiry, 1 worker", Budget { workers: 1, ..BOTH }, [63_180, 400], [46, 302, 54, 12]),
];

/// What forebay builds.
const CORRECTED: [Case; 9] = [
    case("no fault: the store is down, then up", NO_FAULT, [416, 12], [0; 4]),
    case("1 ambiguous store write", AMBIGUOUS, [2_496, 30], [0; 4]),
    case("1 crash", CRASH, [1_350, 46], [0; 4]),
    case("1 lease expiry", EXPIRY, [3_666, 34], [0; 4]),
    case("writers in turn, 1 ambiguous + 1 expiry", IN_TURN, [4_758, 15], [0; 4]),
    case("1 ambiguous + 1 expiry", BOTH, [30_752, 86], [0; 4]),
    case("2 ambiguous + 2 expiries + 1 crash, 1 worker", MANY, [105_030, 974], [0; 4]),
    case("3 writers, 1 ambiguous, 1 worker", THREE, [56_495, 630], [0; 4]),
    case("3 writers, 1 ambiguous + 1 expiry, 1 worker", THREE_AND_EXPIRY, [226_811, 1_596], [0; 4]),
];

fn nightly() -> bool {
    std::env::var_os("FOREBAY_NIGHTLY").is_some()
}

fn run(protocol: Protocol, cases: &[Case]) {
    for case in cases {
        if case.states > STATES_MAX && !nightly() {
            eprintln!("{protocol:?}, {}: {} states, skipped without FOREBAY_NIGHTLY=1", case.name, case.states);
            continue;
        }
        let found = Model::new(protocol, case.budget).explore();
        eprintln!("{protocol:?}, {}: {found}", case.name);
        if std::env::var_os("FOREBAY_LOG").is_some() {
            eprintln!("{}", found.traces());
        }
        let expected = (case.states, case.terminal, case.violations);
        let Found { states, terminal, violations, .. } = &found;
        assert_eq!((*states, *terminal, *violations), expected, "{protocol:?}, {}\n{}", case.name, found.traces());
        for (kind, count) in violations.by_kind() {
            assert_eq!(found.has_trace(kind), count > 0, "{protocol:?}, {}: a trace to {kind:?}", case.name);
        }
    }
}

#[test]
fn the_paper_as_printed_loses_an_acknowledged_write_without_any_fault() {
    run(Literal, &LITERAL);
    assert_eq!(LITERAL[0].violations.lost, 4);
}

#[test]
fn the_paper_with_the_lease_kept() {
    run(LeaseKept, &LEASE_KEPT);
}

#[test]
fn the_paper_with_snapshot_recovery() {
    run(Snapshot, &SNAPSHOT);
}

/// A snapshot that outlives its application is put over what was written since: what was in the store goes again.
#[test]
fn a_snapshot_that_was_not_deleted_in_time_takes_writes_out_of_the_store() {
    let found = Model::new(Snapshot, EXPIRY).explore();
    assert!(found.unwrites(Kind::Lost), "{}", found.traces());
    let without = Model::new(LeaseKept, EXPIRY).explore();
    assert!(without.has_trace(Kind::Lost) && !without.unwrites(Kind::Lost), "{}", without.traces());
}

#[test]
fn the_corrected_protocol_breaks_nothing() {
    run(Corrected, &CORRECTED);
}

/// A read that misses the cache, in every state in which the store answers: what it holds, with what is queued.
#[test]
fn a_read_merges_only_what_the_store_has_not_applied() {
    let cases = [
        (Budget { ambiguous: 1, ..ONE_WORKER }, 1_504, 816),
        (Budget { ambiguous: 1, expiries: 1, ..ONE_WORKER }, 5_484, 3_452),
        (Budget { expiries: 1, ..MANY }, 53_606, 37_096),
    ];
    for (budget, states, whole_queue) in cases {
        let found = Model::new(Corrected, budget).explore();
        eprintln!("readers, {budget:?}: {found}");
        assert_eq!(found.states, states);
        assert_eq!(found.readers, Readers { whole_queue, above_token: 0 });
    }
}
