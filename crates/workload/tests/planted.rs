//! The judges of histories find what was planted, and agree with `adya` on histories of databases that are known to be
//! serializable or not.

#![cfg(feature = "cross-check")]

use adya::history::{Mop, OpType, ReadValue};
use adya::sim::{Isolation, SimOpts};
use forebay_workload::checkers::bank::Bank;
use forebay_workload::checkers::write_skew::WriteSkew;
use forebay_workload::checkers::{Event, Op, Outcome, Style, Workload, cross_check, list_append};

fn append(key: u64, element: u64) -> Op {
    Op::Append { key, element, length: None }
}

fn list(key: u64, elements: &[u64]) -> Op {
    Op::List { key, elements: elements.to_vec() }
}

/// Committed, each by a client of its own.
fn event(span: (u64, u64), ops: Vec<Op>) -> Event {
    let client = span.0 as u32;
    Event { client, name: "txn", invoked: span.0, completed: span.1, ops, outcome: Outcome::Committed }
}

fn failed(event: Event) -> Event {
    Event { outcome: Outcome::Failed("TXCONFLICT".into()), ..event }
}

fn unknown(event: Event) -> Event {
    Event { outcome: Outcome::Unknown("LOST".into()), ..event }
}

/// Both judges refuse; `theirs` is among the names that adya gives, `ours` part of what we say.
fn refused(history: &[Event], theirs: &str, ours: &str) {
    let names = cross_check::strictly_serializable(history).expect_err("adya passes it");
    assert!(names.split(", ").any(|name| name == theirs), "adya says {names}, not {theirs}");
    let violation = list_append::strictly_serializable(history).expect_err("we pass it");
    assert!(violation.what.contains(ours), "we say {violation}, not {ours}");
    assert!(list_append::check(history).is_err());
}

fn passes(history: &[Event]) {
    assert_eq!(list_append::strictly_serializable(history), Ok(()));
    assert_eq!(cross_check::strictly_serializable(history), Ok(()));
    assert!(list_append::check(history).is_ok());
}

#[test]
fn serial_and_concurrent_histories_pass() {
    passes(&[]);
    passes(&[
        event((0, 1), vec![append(1, 1), list(1, &[1]), append(1, 2)]),
        event((2, 5), vec![list(1, &[1, 2]), append(2, 3)]),
        // Overlaps the one before and comes first.
        event((3, 4), vec![list(2, &[])]),
        event((6, 7), vec![list(2, &[3]), append(1, 4), append(2, 5), list(1, &[1, 2, 4])]),
    ]);
}

#[test]
fn unknown_outcomes_may_go_either_way() {
    let lost = || unknown(event((0, 3), vec![append(1, 1), append(2, 2)]));
    passes(&[lost(), event((4, 5), vec![list(1, &[]), list(2, &[])])]);
    passes(&[lost(), event((4, 5), vec![list(1, &[1]), list(2, &[2])])]);
    // It may take effect long after its client gave up.
    let late = event((6, 7), vec![list(1, &[1]), list(2, &[2])]);
    passes(&[lost(), event((4, 5), vec![list(1, &[]), list(2, &[])]), late]);
    // But not by halves.
    refused(&[lost(), event((4, 5), vec![list(1, &[1]), list(2, &[])])], "G-single-item", "cycle");
}

#[test]
fn g0_write_cycle() {
    let writers = [event((0, 9), vec![append(1, 1), append(2, 1)]), event((1, 8), vec![append(1, 2), append(2, 2)])];
    let reader = event((10, 11), vec![list(1, &[1, 2]), list(2, &[2, 1])]);
    refused(&[&writers[..], &[reader]].concat(), "G0", "ww");
}

#[test]
fn g1a_aborted_read() {
    let writer = failed(event((0, 3), vec![append(1, 1)]));
    refused(&[writer, event((1, 2), vec![list(1, &[1])])], "G1a", "failed");
}

#[test]
fn g1b_intermediate_read() {
    let writer = event((0, 3), vec![append(1, 1), append(1, 2)]);
    let readers = [event((1, 2), vec![list(1, &[1])]), event((4, 5), vec![list(1, &[1, 2])])];
    refused(&[&[writer][..], &readers].concat(), "G1b", "cycle");
}

#[test]
fn g1c_circular_information_flow() {
    let history = [event((0, 9), vec![append(1, 1), list(2, &[2])]), event((1, 8), vec![append(2, 2), list(1, &[1])])];
    refused(&history, "G1c", "wr");
}

#[test]
fn g_single_read_skew() {
    let writer = event((0, 9), vec![append(1, 1), append(2, 2)]);
    refused(&[writer, event((1, 8), vec![list(1, &[1]), list(2, &[])])], "G-single-item", "rw");
}

#[test]
fn g2_write_skew() {
    let history = [
        event((0, 9), vec![list(1, &[]), list(2, &[]), append(1, 1)]),
        event((1, 8), vec![list(1, &[]), list(2, &[]), append(2, 2)]),
    ];
    refused(&history, "G2-item", "rw");
}

#[test]
fn lost_update() {
    let history = [
        event((0, 9), vec![list(1, &[]), append(1, 1)]),
        event((1, 8), vec![list(1, &[]), append(1, 2)]),
        event((10, 11), vec![list(1, &[2])]),
    ];
    refused(&history, "lost-update", "cycle");
    // One of them is gone: acknowledged, then not there.
    let gone = [event((0, 1), vec![append(1, 1)]), event((2, 3), vec![list(1, &[])])];
    refused(&gone, "G-single-item-realtime", "real time");
}

#[test]
fn stale_read() {
    let history =
        [event((0, 1), vec![append(1, 1)]), event((2, 3), vec![list(1, &[])]), event((4, 5), vec![list(1, &[1])])];
    refused(&history, "G-single-item-realtime", "real time");
}

#[test]
fn lists_that_no_order_explains() {
    let history = [
        event((0, 1), vec![append(1, 1), append(1, 2)]),
        event((2, 3), vec![list(1, &[1, 2])]),
        event((4, 5), vec![list(1, &[2, 1])]),
    ];
    refused(&history, "incompatible-order", "not one order");
    refused(&[event((0, 1), vec![append(1, 1), list(1, &[])])], "internal", "own appends");
    let twice = [event((0, 1), vec![append(1, 1)]), event((2, 3), vec![list(1, &[1, 1])])];
    refused(&twice, "duplicate-elements", "twice");
}

#[test]
fn lengths_tell_what_lists_do_not() {
    let append = |element, length| Op::Append { key: 1, element, length: Some(length) };
    let check = |history: &[Event]| list_append::strictly_serializable(history);
    assert_eq!(check(&[event((0, 1), vec![append(1, 1)]), event((2, 3), vec![append(2, 2)])]), Ok(()));
    // Two that were first, and one before what had ended when it began.
    assert!(check(&[event((0, 2), vec![append(1, 1)]), event((1, 3), vec![append(2, 1)])]).is_err());
    assert!(check(&[event((0, 1), vec![append(1, 2)]), event((2, 3), vec![append(2, 1)])]).is_err());
    // An element that only an unknown outcome can have put between.
    let between = unknown(event((0, 9), vec![Op::Append { key: 1, element: 3, length: None }]));
    let around = [event((1, 2), vec![append(1, 1)]), event((3, 4), vec![append(2, 3)])];
    assert!(check(&around).unwrap_err().what.contains("nobody can have put there"));
    let history = [&around[..], &[between]].concat();
    assert_eq!(check(&history), Ok(()));
    assert_eq!(cross_check::strictly_serializable(&history), Ok(()));
}

/// What a simulated database of this isolation did.
fn simulated(isolation: Isolation, seed: u64) -> Vec<Event> {
    let options = SimOpts { isolation, txns: 150, seed, abort_rate: 0.05, info_rate: 0.05, ..SimOpts::default() };
    let history = adya::History::from_json(&adya::sim::run(&options)).expect("a history");
    let number = u64::from;
    let mut events = Vec::new();
    for (at, op) in history.ops.iter().enumerate() {
        let Some(end) = history.pair[at].filter(|_| op.kind == OpType::Invoke) else { continue };
        let done = &history.ops[end];
        let ops = done.value.iter().filter_map(|mop| match mop {
            Mop::Append { key, value } => Some(append(number(*key), number(*value))),
            Mop::Read { key, value: ReadValue::List(elements) } => {
                Some(list(number(*key), &elements.iter().copied().map(number).collect::<Vec<_>>()))
            }
            Mop::Read { key, .. } if done.kind == OpType::Ok => Some(list(number(*key), &[])),
            _ => None,
        });
        let event = Event { client: op.process.unwrap_or(0) as u32, ..event((at as u64, end as u64), ops.collect()) };
        events.push(match done.kind {
            OpType::Ok => event,
            OpType::Fail => failed(event),
            _ => unknown(event),
        });
    }
    assert!(events.len() > 100);
    events
}

#[test]
fn both_judges_agree_on_simulated_databases() {
    use Isolation::{LostUpdate, ReadCommitted, ReadUncommitted, Serializable, SnapshotIsolation};
    for isolation in [Serializable, SnapshotIsolation, ReadCommitted, ReadUncommitted, LostUpdate] {
        let mut refused = 0;
        for seed in 0..20 {
            let history = simulated(isolation, seed);
            let ours = list_append::strictly_serializable(&history);
            let theirs = cross_check::strictly_serializable(&history);
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{isolation:?} seed {seed}: we {ours:?}, adya {theirs:?}");
            refused += u32::from(ours.is_err());
        }
        match isolation {
            Serializable => assert_eq!(refused, 0),
            _ => assert!(refused >= 10, "{isolation:?} was refused only {refused} times in 20"),
        }
    }
}

fn numbers(span: (u64, u64), name: &'static str, ops: Vec<Op>) -> Event {
    Event { name, ..event(span, ops) }
}

fn read(key: u64, value: i64) -> Op {
    Op::Read { key, value }
}

fn add(key: u64, delta: i64) -> Op {
    Op::Add { key, delta }
}

#[test]
fn the_bank_finds_torn_audits_lost_transfers_and_debts() {
    let bank = Bank::new("bank", 3, &[Style::Txn]);
    let transfer = || numbers((0, 1), "transfer", vec![read(0, 100), read(1, 100), add(0, -7), add(1, 7)]);
    let look = |name, balances: [i64; 3]| {
        numbers((2, 3), name, balances.iter().zip(0..).map(|(value, key)| read(key, *value)).collect())
    };
    let check = |history: &[Event]| bank.check(history).map_err(|violation| violation.what);
    assert!(check(&[transfer(), look("last look", [93, 107, 100])]).is_ok());
    assert!(check(&[transfer(), look("audit", [93, 100, 100])]).unwrap_err().contains("sum is 293"));
    assert!(check(&[transfer(), look("last look", [100, 100, 100])]).unwrap_err().contains("key 0 holds 100"));
    assert!(check(&[look("audit", [-1, 201, 100])]).unwrap_err().contains("holds -1"));
    assert!(check(&[transfer()]).unwrap_err().contains("last look"));
    // A transfer of unknown outcome may be there or not; a failed one must not.
    for balances in [[93, 107, 100], [100, 100, 100]] {
        assert!(check(&[unknown(transfer()), look("last look", balances)]).is_ok());
    }
    assert!(check(&[failed(transfer()), look("last look", [93, 107, 100])]).is_err());
}

#[test]
fn write_skew_is_found() {
    let skew = WriteSkew::new("skew", 1, &[Style::Txn]);
    let take = |key| numbers((key, 9 + key), "take", vec![read(0, 20), read(1, 20), add(key, -30)]);
    let look = |x, y| numbers((20, 21), "last look", vec![read(0, x), read(1, y)]);
    assert!(skew.check(&[take(0), look(-10, 20)]).is_ok());
    assert!(skew.check(&[take(0), take(1), look(-10, -10)]).unwrap_err().what.contains("sum is -20"));
    assert!(skew.check(&[take(0), take(1), look(-10, 20)]).unwrap_err().what.contains("key 1 holds 20"));
}
