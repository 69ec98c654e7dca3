//! The mutation gate: each rule of the protocol is left out once, and the worlds have to notice.

use std::ops::Range;

use forebay::Key;
use forebay::mutation::{self, Fault};
use forebay::txn::optimistic::message::{Parties, Stage};
use forebay::txn::optimistic::{Message, Node, Shard, ShardOptions, Stamp, TxnName};

use crate::setting::Scenario;
use crate::world::run;

/// A fault, where it shows, and in which seeds. They begin near the first that shows it, so that those which show
/// nothing are not run each day.
type Expected = (Fault, Scenario, Range<u64>);

const GATE: &[Expected] = &[
    (Fault::FreshWhenRead, Scenario::Calm, 20..420),
    (Fault::SettledAtDecision, Scenario::Calm, 5..105),
    (Fault::LatestReadAssigned, Scenario::Calm, 0..400),
    (Fault::FreshnessUnchecked, Scenario::Calm, 0..100),
    (Fault::NoFloor, Scenario::Restarts, 0..100),
    (Fault::StagedNotReloaded, Scenario::Restarts, 40..440),
    (Fault::OldVotesCommit, Scenario::Restarts, 5..405),
    (Fault::AboveCeiling, Scenario::Faults, 0..100),
    (Fault::WritesIntoClosed, Scenario::Calm, 15..115),
    (Fault::ReadsUnguarded, Scenario::Calm, 0..100),
    (Fault::HeldUnlisted, Scenario::Calm, 0..100),
    (Fault::ReadsForgotten, Scenario::Calm, 0..400),
    (Fault::PreparedUnseen, Scenario::Calm, 0..100),
    (Fault::GivenUpAlone, Scenario::Restarts, 0..400),
    (Fault::SettledUnapplied, Scenario::Restarts, 150..1150),
    (Fault::AbortForgotten, Scenario::Faults, 25..425),
    (Fault::DecidedTwice, Scenario::Faults, 10..410),
    (Fault::AnsweredUndecided, Scenario::Faults, 0..400),
    (Fault::NamesReused, Scenario::Faults, 0..400),
    (Fault::OlderOverNewer, Scenario::Calm, 0..100),
    (Fault::LocalUnchecked, Scenario::Calm, 0..100),
    (Fault::ValidatedBelow, Scenario::Calm, 0..400),
    (Fault::SessionForgetsWrites, Scenario::Calm, 0..100),
    (Fault::SessionForgetsReads, Scenario::Calm, 0..400),
    (Fault::RenewedByFailure, Scenario::Calm, 0..400),
    (Fault::StaleKept, Scenario::Calm, 0..100),
    (Fault::AgeIgnored, Scenario::Calm, 0..100),
    (Fault::StrictUnheld, Scenario::Strict, 660..1660),
    (Fault::SilentDropped, Scenario::Watermarks, 0..400),
    (Fault::LatestReadAssigned, Scenario::Paper, 0..1000),
];

/// Puts each fault back and panics unless a world is broken within so many seeds that is well without it.
#[test]
fn every_rule_is_needed() {
    let mut missed = Vec::new();
    for (fault, scenario, seeds) in GATE {
        let with_fault = |seed: u64| {
            let _put_back = mutation::put_back(Some(*fault));
            run(seed, *scenario).err().map(|broken| (seed, broken))
        };
        let Some((seed, broken)) = seeds.clone().find_map(with_fault) else {
            missed.push(format!("{fault:?} within seeds {seeds:?} of {scenario:?}"));
            continue;
        };
        if let Err(without) = run(seed, *scenario) {
            missed.push(format!("{fault:?}: seed {seed} of {scenario:?} fails without it: {without}"));
        }
        let told: String = broken.chars().take(40).collect();
        println!("{fault:?}: seed {seed}: {told}");
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// A validator that begins again is told what is staged of it, once. What comes afterwards and counts on its earlier
/// epoch would stay unknown to it: such writes are refused. In worlds of chance the home refuses the commit nearly
/// always, so this is tried alone.
#[test]
fn late_writes_for_an_ended_epoch_are_refused() {
    assert!(!is_staged_late());
    let _put_back = mutation::put_back(Some(Fault::StagedUnfenced));
    assert!(is_staged_late());
}

fn is_staged_late() -> bool {
    let mut shard =
        Shard::new(0, ShardOptions { recover_us: 1000, decide_us_max: 1000, rates_max: 4, tells: |_| false }, 0);
    let fenced = shard.step(Node::Validator(0), Message::Fence(0, 2), 0);
    assert_eq!(fenced, [(Node::Validator(0), Message::Fenced(0, 2, Stamp::ZERO, Vec::new()))]);
    let stamp = Stamp::new(5, TxnName { client: 1, number: 1 });
    let parties = Parties { home: 1, shards: vec![0, 1], validators: vec![(0, 1)] };
    let stage = Stage { stamp, parties, writes: vec![(Key::new(0, b"k"), None)] };
    let staged = shard.step(Node::Client(1), Message::Stage(stage), 1);
    staged == [(Node::Client(1), Message::Staged(stamp, 0, true))]
}
