//! Writes that find no room behind an outage: they wait while the drain makes some, in their turn, and are answered
//! once. Where nothing makes room they are refused at once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::Key;
use forebay::mutation::{self, Fault};
use forebay::outage::{Gate, GateSettings, Mode};
use forebay::runtime::Runtime;
use forebay::store::{Commit, CommitOutcome, Priority, Store};

use crate::gate::{self, commit, simulated};
use crate::write_back::{Busy, open_with, put};

const ROOM: usize = 192 << 10;

/// Documents that are written in the outage, and bytes of each: more than the few for which any write waits.
const NAMES: u64 = 100;
const BYTES: usize = 200;

/// A gate whose buffer is nearly full behind an outage that has just ended: `change` is made to its settings.
async fn full(runtime: &Runtime, change: impl FnOnce(&mut GateSettings)) -> (Arc<Busy>, Gate) {
    let (store, gate) = open_with(runtime, ROOM, |settings| {
        (settings.workers, settings.batch_max) = (1, 4);
        change(settings);
    });
    store.inner.set_down(true);
    for sequence in 1..=NAMES {
        let outcome = commit(&gate, put(sequence, &name(sequence), BYTES)).await;
        assert!(matches!(outcome, CommitOutcome::Buffered(_)), "{outcome:?}");
    }
    (store, gate)
}

fn name(sequence: u64) -> String {
    format!("key{}", sequence % NAMES)
}

/// The store is back, and the drain has begun.
async fn comes_back(runtime: &Runtime, store: &Busy, gate: &Gate) {
    store.inner.set_down(false);
    while gate.state().mode == Mode::Failed {
        runtime.sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(gate.state().mode, Mode::Recovery);
}

/// A write of all that is buffered, of so many bytes: it has to queue, and needs most of the room.
fn wide(sequence: u64, bytes: usize) -> Commit {
    let mut all = put(sequence, &name(0), bytes / NAMES as usize);
    for other in 1..NAMES {
        all.writes.extend(put(sequence, &name(other), bytes / NAMES as usize).writes);
    }
    all
}

fn is_full(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Full(_))
}

fn is_kept(outcome: &CommitOutcome) -> bool {
    outcome.is_applied() || matches!(outcome, CommitOutcome::Buffered(_))
}

/// All is in the store as it was written last.
async fn ends(runtime: &Runtime, store: &Busy, gate: &Gate, last: &Commit) {
    let began = runtime.elapsed();
    while gate.state().mode != Mode::Normal {
        assert!(runtime.elapsed() - began < Duration::from_secs(60), "{:?}", gate.state());
        runtime.sleep(Duration::from_millis(1)).await;
    }
    for write in &last.writes {
        let read = store.get(std::slice::from_ref(&write.key)).await.expect("it is there").remove(0);
        assert_eq!(read.value, write.after, "{}", write.key);
    }
    gate.validate();
}

#[test]
fn a_wide_write_waits_for_the_drain() {
    waits_for_the_drain(true);
    let _on = mutation::put_back(Some(Fault::WriteBackUnpaced));
    waits_for_the_drain(false);
}

fn waits_for_the_drain(expected: bool) {
    simulated(move |runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        let began = runtime.elapsed();
        assert!(is_full(&commit(&gate, wide(100, 30_000)).await), "the store is away");
        assert_eq!(runtime.elapsed(), began, "nothing to wait for");
        comes_back(&runtime, &store, &gate).await;
        let all = wide(101, 30_000);
        let outcome = commit(&gate, all.clone()).await;
        assert_eq!(is_full(&outcome), !expected);
        assert_eq!(gate.state().counts.full, 1 + u64::from(!expected));
        if expected {
            assert!(is_kept(&outcome));
            ends(&runtime, &store, &gate, &all).await;
        }
    });
}

/// Others that queue are answered after the one that waits, though there is room for them: of whatever priority, known
/// or not.
#[test]
fn nothing_takes_the_room_that_is_waited_for() {
    for priority in [Priority::Normal, Priority::High, Priority::Low] {
        for unseen in [false, true] {
            takes_no_room(priority, unseen, true);
            let _on = mutation::put_back(Some(Fault::RoomPassed));
            takes_no_room(priority, unseen, false);
        }
    }
}

fn takes_no_room(priority: Priority, unseen: bool, expected: bool) {
    simulated(move |runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        comes_back(&runtime, &store, &gate).await;
        let answered = Arc::new(Mutex::new(Vec::new()));
        let spawn = |what: u64, commits: Vec<Commit>| {
            let (gate, answered) = (gate.clone(), answered.clone());
            runtime.spawn(async move {
                for one in commits {
                    let outcome = commit(&gate, one).await;
                    answered.lock().expect("nothing panicked").push((what, is_full(&outcome)));
                }
            });
        };
        spawn(0, vec![wide(101, 30_000)]);
        runtime.sleep(Duration::from_micros(1)).await;
        assert_eq!(*answered.lock().expect("nothing panicked"), [], "it waits");
        // Of one that goes late.
        let mut small = put(102, &name(NAMES - 1), 10);
        small.priority = priority;
        small.writes[0].unseen = unseen;
        spawn(1, vec![small]);
        while answered.lock().expect("nothing panicked").len() < 2 {
            runtime.sleep(Duration::from_millis(1)).await;
        }
        let answered = answered.lock().expect("nothing panicked").clone();
        assert_eq!(answered == [(0, false), (1, false)], expected, "{answered:?}");
    });
}

/// Behind a slow drain a wide write waits for 10 s, and others that queue for one.
#[test]
fn a_slow_drain_holds_others_up_for_a_second() {
    slow_drain(true);
    let _on = mutation::put_back(Some(Fault::RoomKept));
    slow_drain(false);
}

fn slow_drain(expected: bool) {
    simulated(move |runtime| async move {
        let (store, gate) = full(&runtime, |settings| settings.per_second_max = 2).await;
        comes_back(&runtime, &store, &gate).await;
        let began = runtime.elapsed();
        let (waits, answer) = (gate.clone(), Arc::new(Mutex::new(None)));
        let (told, clock) = (answer.clone(), runtime.clone());
        runtime.spawn(async move {
            let outcome = commit(&waits, wide(101, 30_000)).await;
            *told.lock().expect("nothing panicked") = Some((outcome, (clock.elapsed() - began).as_millis()));
        });
        runtime.sleep(Duration::from_micros(1)).await;
        assert!(is_kept(&commit(&gate, put(102, &name(NAMES - 1), 10)).await));
        let others = (runtime.elapsed() - began).as_millis();
        assert_eq!((900..1_500).contains(&others), expected, "{others} ms");
        runtime.sleep(Duration::from_secs(120)).await;
        let (outcome, waited) = answer.lock().expect("nothing panicked").take().expect("it is answered");
        let at_most = is_full(&outcome) && (9_000..11_000).contains(&waited);
        assert_eq!(at_most, expected, "{outcome:?} after {waited} ms");
    });
}

/// Many clients at full speed write what has to queue, and many wait for room: each is answered, and the recovery ends.
#[test]
fn every_write_that_waits_is_answered() {
    all_are_answered(true);
    let _on = mutation::put_back(Some(Fault::WriteBackUnpaced));
    all_are_answered(false);
}

fn all_are_answered(expected: bool) {
    simulated(move |runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        comes_back(&runtime, &store, &gate).await;
        let answered = Arc::new(Mutex::new(Vec::new()));
        for client in 0..20u64 {
            let (gate, answered) = (gate.clone(), answered.clone());
            runtime.spawn(async move {
                for turn in 0..10 {
                    let sequence = 1_000 + turn * 100 + client;
                    let one = if client < 4 { wide(sequence, 30_000) } else { put(sequence, &name(client), BYTES) };
                    let outcome = commit(&gate, one).await;
                    assert!(is_kept(&outcome) || is_full(&outcome));
                    answered.lock().expect("nothing panicked").push(is_full(&outcome));
                }
            });
        }
        let began = runtime.elapsed();
        while answered.lock().expect("nothing panicked").len() < 200 || gate.state().mode != Mode::Normal {
            assert!(runtime.elapsed() - began < Duration::from_secs(60), "{:?}", gate.state());
            runtime.sleep(Duration::from_millis(1)).await;
        }
        let refused = answered.lock().expect("nothing panicked").iter().filter(|full| **full).count() as u64;
        assert_eq!((gate.state().amount.transactions, gate.state().counts.full), (0, refused));
        assert_eq!(refused == 0, expected, "{refused}");
        gate.validate();
    });
}

/// Behind one that there is never room for, nothing has to wait.
#[test]
fn what_never_fits_is_refused_at_once() {
    simulated(|runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        comes_back(&runtime, &store, &gate).await;
        let began = runtime.elapsed();
        assert!(is_full(&commit(&gate, wide(101, 2 * ROOM)).await));
        assert_eq!(runtime.elapsed(), began);
        assert_eq!(gate.state().mode, Mode::Recovery);
    });
}

/// A drain that stands still makes no room: it is waited for for 10 s, by all together.
#[test]
fn a_drain_that_stands_still_is_not_waited_for() {
    simulated(|runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        store.is_stuck.store(true, Ordering::SeqCst);
        comes_back(&runtime, &store, &gate).await;
        for (sequence, least, most) in [(101, 9_000, 11_000), (102, 0, 300)] {
            let began = runtime.elapsed();
            assert!(is_full(&commit(&gate, wide(sequence, 30_000)).await));
            let waited = (runtime.elapsed() - began).as_millis();
            assert!((least..=most).contains(&waited), "{waited} ms");
        }
        store.is_stuck.store(false, Ordering::SeqCst);
        let all = wide(103, 30_000);
        runtime.sleep(Duration::from_secs(3_600)).await;
        assert!(!is_full(&commit(&gate, all.clone()).await));
        ends(&runtime, &store, &gate, &all).await;
    });
}

/// A write that waits is told when the store goes away again.
#[test]
fn a_write_that_waits_is_told_of_the_next_outage() {
    simulated(|runtime| async move {
        let (store, gate) = full(&runtime, |_| {}).await;
        comes_back(&runtime, &store, &gate).await;
        let told = Arc::new(Mutex::new(None));
        let (waits, answer) = (gate.clone(), told.clone());
        runtime.spawn(async move {
            let outcome = commit(&waits, wide(101, 30_000)).await;
            *answer.lock().expect("nothing panicked") = Some(outcome);
        });
        runtime.sleep(Duration::from_micros(1)).await;
        store.inner.set_down(true);
        let began = runtime.elapsed();
        while told.lock().expect("nothing panicked").is_none() {
            assert!(runtime.elapsed() - began < Duration::from_secs(1), "{:?}", gate.state());
            runtime.sleep(Duration::from_millis(1)).await;
        }
        let outcome = told.lock().expect("nothing panicked").take();
        assert!(
            matches!(&outcome, Some(CommitOutcome::Full(why)) if why.contains("; wait for the store")),
            "{outcome:?}"
        );
        assert_eq!(gate.state().mode, Mode::Failed);
    });
}

/// What waits for an operator makes no room.
#[test]
fn what_waits_for_an_operator_is_not_waited_for() {
    for restored in [false, true] {
        simulated(move |runtime| async move {
            let (database, gate) = gate::open(&runtime, false, |settings| settings.bytes_max = 1_600);
            database.inner.set_down(true);
            let mut stale = gate::put(1, "a");
            stale.checks = vec![(Key::new(0, b"other"), forebay::Version { incarnation: 9, sequence: 9 })];
            let first = if restored { gate::put(1, "a") } else { stale };
            assert!(matches!(commit(&gate, first).await, CommitOutcome::Buffered(_)));
            if restored {
                database.incarnation.store(2, Ordering::SeqCst);
            }
            database.inner.set_down(false);
            runtime.sleep(Duration::from_secs(1)).await;
            let state = gate.state();
            assert_eq!((state.suspended.is_some(), state.amount.quarantined), (restored, usize::from(!restored)));
            let began = runtime.elapsed();
            let outcome = commit(&gate, gate::put_in(2, 2, "a")).await;
            assert!(is_full(&outcome), "{outcome:?}");
            assert_eq!(runtime.elapsed(), began);
        });
    }
}
