//! Judges a history of lists by the level of its transactions.
//!
//! The check of `forebay_workload` is for strict serializability. A level that allows less is told to it by other
//! times. A transaction that only reads may have happened as much earlier as its level allows. The order of a session
//! becomes one more list, to which each of its transactions appends.

use std::collections::BTreeMap;

use forebay_client::Level;
use forebay_workload::checkers::list_append::strictly_serializable;
use forebay_workload::checkers::{Event, Op, Violation};

/// Numbers of the lists that stand for sessions.
const SESSIONS: u64 = 1 << 32;

fn reads_only(event: &Event) -> bool {
    event.ops.iter().all(|op| matches!(op, Op::List { .. }))
}

/// Whether it has surely appended something.
pub fn has_appended(event: &Event) -> bool {
    event.committed() && !reads_only(event)
}

/// The history as a strict one; sessions have levels.
fn told(history: &[Event], level_of: impl Fn(u32) -> Level) -> Vec<Event> {
    let mut history = history.to_vec();
    history.sort_by_key(|event| event.invoked);
    let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
    for event in history.iter_mut().filter(|event| event.committed()) {
        match level_of(event.client) {
            Level::Strict => {}
            Level::Bounded(most) if reads_only(event) => {
                event.invoked = event.invoked.saturating_sub(most.as_nanos() as u64);
            }
            Level::Session => {
                let length = lengths.entry(event.client).or_default();
                *length += 1;
                event.invoked = if reads_only(event) { 0 } else { event.invoked };
                let (key, element) = (SESSIONS + u64::from(event.client), *length);
                event.ops.push(Op::Append { key, element, length: Some(element) });
            }
            Level::Bounded(_) => {}
        }
    }
    history
}

/// Whether a history is serializable, and what was seen as new as the level wants it.
pub fn at_level(history: &[Event], level: Level) -> Result<(), Violation> {
    at_levels(history, |_| level)
}

/// As [`at_level`], where each session, which is a client of the history, has a level.
pub fn at_levels(history: &[Event], level_of: impl Fn(u32) -> Level) -> Result<(), Violation> {
    strictly_serializable(&told(history, level_of))
}

/// A judge that passes everything shows nothing: two reads of one list in one session are given what the other saw, and
/// an append that committed is taken out.
pub fn finds_what_is_planted(history: &[Event], level: Level) {
    let mut history = history.to_vec();
    history.sort_by_key(|event| event.invoked);
    let single = |event: &Event| match event.ops.as_slice() {
        [Op::List { key, elements }] if event.committed() => Some((*key, elements.clone())),
        _ => None,
    };
    let pair = history.iter().enumerate().find_map(|(at, early)| {
        let (key, elements) = single(early)?;
        let late = history[at..].iter().position(|late| {
            let grown = single(late).is_some_and(|(other, seen)| other == key && seen.len() > elements.len());
            grown && late.client == early.client && late.invoked > early.completed
        });
        Some((at, at + late?))
    });
    if let (Some((early, late)), Level::Session | Level::Strict) = (pair, level) {
        let mut swapped = history.clone();
        let ops = swapped[early].ops.clone();
        swapped[early].ops = std::mem::replace(&mut swapped[late].ops, ops);
        assert!(at_level(&swapped, level).is_err(), "reads in the wrong order are found");
    }
    let wrote = history.iter().position(has_appended).expect("an append that committed");
    history.remove(wrote);
    assert!(at_level(&history, level).is_err(), "elements that were never appended are found");
}
