//! The disk under the journal is full: what is buffered is applied all the same.

use std::time::Duration;

use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{Gate, GateSettings, GivenUp, Mode};
use forebay::runtime::Runtime;
use forebay::store::{Commit, CommitOutcome, Store, Write};
use forebay::value::Data;
use forebay::{Change, Key, TxnId, Value, Version};

use crate::gate::{Database, commit, open_as_set, open_on, put, simulated};

/// Buffers documents `d<n>` until there is no room; how many there are.
async fn fill(gate: &Gate, from: u64) -> u64 {
    for number in from..from + 100_000 {
        match commit(gate, put(number, &format!("d{number}"))).await {
            CommitOutcome::Buffered(_) => {}
            CommitOutcome::Full(why) => {
                assert!(why.contains("no room on the disk") && why.contains("no restart"), "{why}");
                return number - from;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("there is always room");
}

async fn stored(database: &Database, number: u64) -> Option<Version> {
    let reads = database.inner.get(&[Key::new(0, format!("d{number}").as_bytes())]).await.expect("it is up");
    reads[0].value.is_some().then_some(reads[0].version)
}

async fn calm(runtime: &Runtime, gate: &Gate) {
    runtime.sleep(Duration::from_secs(60)).await;
    let state = gate.state();
    assert_eq!((state.mode, state.amount.transactions), (Mode::Normal, 0), "{state:?}");
}

/// Room was taken for the notes: all is applied, noted, and written directly, while the disk is as full as before;
/// and the next outage finds room, since the journal takes less.
#[test]
fn a_full_disk_holds_nothing_up() {
    simulated(|runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        gate.start_remembering();
        disk.hold_at_most(Some(disk.takes() + 50_000));
        runtime.sleep(Duration::from_secs(2)).await;
        let state = gate.state();
        assert!(state.short && state.room < 500_000, "the disk has less room than the memory: {state:?}");
        database.inner.set_down(true);
        let taken = fill(&gate, 1).await;
        assert!(taken > 500, "{taken}");
        assert!(gate.state().room < 1_000, "{:?}", gate.state());
        // That it is looked at says nothing of what was refused: room for notes is always there.
        runtime.sleep(Duration::from_secs(2)).await;
        database.inner.set_down(false);
        calm(&runtime, &gate).await;
        assert_eq!((gate.state().unnoted, gate.state().counts.applied), (0, taken));
        for number in [1, taken] {
            assert!(stored(&database, number).await.is_some());
            let direct = commit(&gate, put(100_000 + number, &format!("d{number}"))).await;
            assert_eq!(direct, CommitOutcome::Committed(Vec::new()));
        }
        database.inner.set_down(true);
        let again = fill(&gate, 200_001).await;
        assert!(again > taken / 2, "{again} of {taken}");
        database.inner.set_down(false);
        calm(&runtime, &gate).await;
        disk.hold_at_most(None);
        runtime.sleep(Duration::from_secs(2)).await;
        assert!(!gate.state().short);
    });
}

/// Documents, how often each was counted, and the bytes that each holds besides.
struct Counted(Vec<u64>, usize);

impl Counted {
    fn key(number: usize) -> Key {
        Key::new(0, format!("c{number}").as_bytes())
    }

    fn value(&self, number: usize) -> Value {
        let fields = [("long", "7".repeat(self.1)), ("n", self.0[number].to_string())];
        let fields = fields.iter().map(|(field, value)| (field.as_bytes().into(), value.as_bytes().into()));
        Value { data: Data::Hash(fields.collect()), expires_at_ms: None }
    }

    /// Makes all of them.
    fn made(&self) -> Commit {
        let write = |number| {
            let value = self.value(number);
            let changes = [Change::Put(value.clone())].into_iter().collect();
            Write { key: Counted::key(number), changes, after: Some(value), unseen: false, told: false }
        };
        let version = Version { incarnation: 1, sequence: 1 };
        Commit::new(TxnId(version), version, (0..self.0.len()).map(write).collect())
    }

    /// Counts two of them.
    fn counts(&mut self, sequence: u64) -> Commit {
        let version = Version { incarnation: 1, sequence };
        let mut write = |number: usize| {
            self.0[number] += 1;
            let changes = [Change::AddInteger { field: Some(b"n"[..].into()), delta: 1 }].into_iter().collect();
            let after = Some(self.value(number));
            Write { key: Counted::key(number), changes, after, unseen: false, told: false }
        };
        let writes = vec![write(sequence as usize % 23), write(23 + sequence as usize % 19)];
        Commit::new(TxnId(version), version, writes)
    }

    async fn are_stored(&self, database: &Database) {
        for number in 0..self.0.len() {
            let reads = database.inner.get(&[Counted::key(number)]).await.expect("it is up");
            assert_eq!(reads[0].value, Some(self.value(number)), "{number}, each once");
        }
    }
}

/// What is learned of documents while they are applied is as long as these, and there is no room for it. All is noted
/// in the end, with the disk as full as before, and a start needs no room either.
fn what_is_learned_finds_no_room(long: usize, room: usize, restarts: bool) {
    simulated(move |runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        // Few at a time: what comes after them is made to what they have made.
        let few = |settings: &mut GateSettings| (settings.workers, settings.batch_max) = (2, 4);
        let (_, gate) = open_as_set(&disk, &runtime, &database, few);
        gate.start_remembering();
        let mut counted = Counted(vec![0; 42], long);
        assert_eq!(commit(&gate, counted.made()).await, CommitOutcome::Committed(Vec::new()));
        disk.hold_at_most(Some(disk.takes() + room));
        runtime.sleep(Duration::from_secs(2)).await;
        database.inner.set_down(true);
        let mut sequence = 100;
        loop {
            sequence += 1;
            let before = counted.0.clone();
            match commit(&gate, counted.counts(sequence)).await {
                CommitOutcome::Buffered(_) => {}
                CommitOutcome::Full(_) => {
                    counted.0 = before;
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(sequence > 150, "{sequence}");
        database.inner.set_down(false);
        calm(&runtime, &gate).await;
        assert_eq!(gate.state().unnoted, 0, "of {sequence}");
        counted.are_stored(&database).await;
        let direct = commit(&gate, counted.counts(sequence + 1)).await;
        assert_eq!(direct, CommitOutcome::Committed(Vec::new()));
        if restarts {
            drop(gate);
            disk.kill();
            let (_, gate) = open_on(&disk, &runtime, &database, || ());
            assert_eq!(gate.state().amount.transactions, 0, "all is noted");
        }
        counted.are_stored(&database).await;
    });
}

#[test]
fn what_is_learned_is_noted_without_room() {
    for (long, room) in [(6_000, 90_000), (6_000, 400_000), (100, 400_000)] {
        what_is_learned_finds_no_room(long, room, false);
        what_is_learned_finds_no_room(long, room, true);
    }
}

#[test]
fn what_is_learned_of_what_is_applied_is_found() {
    let _on = mutation::put_back(Some(Fault::AppliedLearned));
    assert!(std::panic::catch_unwind(|| what_is_learned_finds_no_room(6_000, 400_000, false)).is_err());
}

/// Of some rows a transaction is set aside, and others wait after it. What is learned of these rows finds no room, and
/// they wait for that alone. All others are written directly. These are, once the operator has given it up.
fn what_is_set_aside_holds_no_other_up() {
    simulated(move |runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        gate.start_remembering();
        let mut counted = Counted(vec![0; 42], 6_000);
        assert_eq!(commit(&gate, counted.made()).await, CommitOutcome::Committed(Vec::new()));
        disk.hold_at_most(Some(disk.takes() + 90_000));
        runtime.sleep(Duration::from_secs(2)).await;
        database.inner.set_down(true);
        let one = |counted: &mut Counted, sequence: u64, number: usize| {
            let mut one = counted.counts(sequence);
            one.writes.truncate(1);
            counted.0[number] += 1;
            one.writes[0].key = Counted::key(number);
            one.writes[0].after = Some(counted.value(number));
            one
        };
        let (mut sequence, mut stale) = (100, Vec::new());
        for number in 0..30 {
            for nth in 0..3 {
                sequence += 1;
                let mut counts = one(&mut counted, sequence, number);
                if nth == 1 {
                    counts.checks = vec![(Key::new(0, b"other"), Version { incarnation: 9, sequence: 9 })];
                }
                let CommitOutcome::Buffered(kept) = commit(&gate, counts).await else { panic!("it is kept") };
                if nth == 1 {
                    stale.push(kept.ticket);
                }
            }
        }
        let taken = fill(&gate, 10_000).await;
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(60)).await;
        let state = gate.state();
        assert_eq!(
            (state.mode, state.amount.quarantined, state.amount.transactions),
            (Mode::Normal, 30, 60),
            "{state:?}"
        );
        for number in 10_000..10_000 + taken {
            let direct = commit(&gate, put(100_000 + number, &format!("d{number}"))).await;
            assert_eq!(direct, CommitOutcome::Committed(Vec::new()), "{number}");
        }
        for ticket in stale {
            assert_eq!(gate.give_up(ticket, "why").await, Ok(GivenUp::Dropped));
        }
        runtime.sleep(Duration::from_secs(60)).await;
        assert_eq!((gate.state().amount.transactions, gate.state().unnoted), (0, 0));
    });
}

#[test]
fn what_is_set_aside_on_a_full_disk_holds_no_other_up() {
    what_is_set_aside_holds_no_other_up();
    let _on = mutation::put_back(Some(Fault::UnnotedTogether));
    assert!(std::panic::catch_unwind(what_is_set_aside_holds_no_other_up).is_err());
}

/// Where no room could be taken ahead and nothing can be noted, all is applied; but what the journal would bring
/// back is not written directly, and a start in between has each once.
fn what_can_not_be_noted(restarts: bool) {
    simulated(move |runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        disk.reserves(false);
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        gate.start_remembering();
        database.inner.set_down(true);
        for number in 1..=200 {
            let kept = commit(&gate, put(number, &format!("d{number}"))).await;
            assert!(matches!(kept, CommitOutcome::Buffered(_)), "{kept:?}");
        }
        disk.hold_at_most(Some(0));
        database.inner.set_down(false);
        calm(&runtime, &gate).await;
        assert_eq!((gate.state().unnoted, gate.state().counts.applied), (200, 200));
        assert!(stored(&database, 200).await.is_some());
        let refused = commit(&gate, put(1_001, "d1")).await;
        assert!(matches!(refused, CommitOutcome::Full(_)), "the journal would bring the old one back: {refused:?}");
        assert_eq!(commit(&gate, put(1_002, "other")).await, CommitOutcome::Committed(Vec::new()));
        assert!(gate.clear(&[0], Version { incarnation: 1, sequence: 1_003 }).await.is_err());
        disk.hold_at_most(None);
        let gate = match restarts {
            true => {
                drop(gate);
                disk.kill();
                let (_, gate) = open_on(&disk, &runtime, &database, || ());
                assert_eq!(gate.state().amount.transactions, 200);
                gate
            }
            false => gate,
        };
        calm(&runtime, &gate).await;
        assert_eq!(gate.state().unnoted, 0);
        assert_eq!(stored(&database, 1).await, Some(Version { incarnation: 1, sequence: 1 }), "once");
        assert_eq!(commit(&gate, put(1_004, "d1")).await, CommitOutcome::Committed(Vec::new()));
        drop(gate);
        disk.kill();
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        assert_eq!(gate.state().amount.transactions, 0, "all is noted");
    });
}

#[test]
fn what_can_not_be_noted_waits_and_holds_up_nothing_else() {
    what_can_not_be_noted(false);
    what_can_not_be_noted(true);
}

#[test]
fn a_drain_that_waits_for_the_disk_is_found() {
    for fault in [Fault::UnnotedStopsDrain, Fault::UnnotedForgotten] {
        let _on = mutation::put_back(Some(fault));
        assert!(std::panic::catch_unwind(|| what_can_not_be_noted(false)).is_err(), "{fault:?}");
    }
}

/// A start finds no room for anything: it begins, and notes what it applies once there is some.
#[test]
fn a_start_needs_no_room() {
    simulated(|runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        disk.reserves(false);
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        gate.start_remembering();
        database.inner.set_down(true);
        for number in 1..=20 {
            assert!(matches!(commit(&gate, put(number, &format!("d{number}"))).await, CommitOutcome::Buffered(_)));
        }
        disk.hold_at_most(Some(0));
        for _ in 0..3 {
            disk.kill();
            let (_, gate) = open_on(&disk, &runtime, &database, || ());
            assert_eq!(gate.state().amount.transactions, 20);
            assert!(matches!(commit(&gate, put(100, "new")).await, CommitOutcome::Full(_)));
        }
        let (_, gate) = {
            disk.kill();
            open_on(&disk, &runtime, &database, || ())
        };
        database.inner.set_down(false);
        calm(&runtime, &gate).await;
        assert_eq!((gate.state().unnoted, gate.state().counts.applied), (20, 20));
        disk.hold_at_most(None);
        calm(&runtime, &gate).await;
        assert_eq!(gate.state().unnoted, 0);
        drop(gate);
        disk.kill();
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        assert_eq!(gate.state().amount.transactions, 0, "all is noted");
    });
}

/// Another program has changed a document, so what waits for it is not sent as the journal says. While that can't be
/// noted it waits, and all else is applied; a start in between takes nothing for checked.
fn what_goes_unchecked(restarts: bool) {
    simulated(move |runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        disk.reserves(false);
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        let by_others = |number| [put(number, "counted")];
        assert!(database.inner.commit(&by_others(1)).await[0].is_applied());
        database.inner.set_down(true);
        let mut adds = put(2, "counted");
        let before = Version { incarnation: 1, sequence: 1 };
        adds.checks = vec![(Key::new(0, b"counted"), before)];
        adds.writes[0].changes = vec![Change::AddInteger { field: None, delta: 1 }].into();
        for commit_of in [adds, put(3, "d3")] {
            assert!(matches!(commit(&gate, commit_of).await, CommitOutcome::Buffered(_)));
        }
        disk.hold_at_most(Some(0));
        database.inner.set_down(false);
        assert!(database.inner.commit(&by_others(50)).await[0].is_applied());
        runtime.sleep(Duration::from_secs(10)).await;
        let state = gate.state();
        assert_eq!((state.amount.transactions, state.unnoted, state.counts.applied), (1, 1, 1), "{state:?}");
        assert!(stored(&database, 3).await.is_some());
        let counted =
            || async { database.inner.get(&[Key::new(0, b"counted")]).await.expect("it is up")[0].value.clone() };
        assert_eq!(counted().await, Some(Value::bytes(&b"50"[..])), "that it goes unchecked is not noted yet");
        let gate = match restarts {
            true => {
                drop(gate);
                disk.kill();
                disk.hold_at_most(None);
                open_on(&disk, &runtime, &database, || ()).1
            }
            false => gate,
        };
        disk.hold_at_most(None);
        calm(&runtime, &gate).await;
        assert_ne!(counted().await, Some(Value::bytes(&b"50"[..])), "it is applied");
        assert_eq!((gate.state().amount.quarantined, gate.state().unnoted), (0, 0));
    });
}

#[test]
fn what_goes_unchecked_waits_until_that_is_noted_and_holds_up_nothing_else() {
    what_goes_unchecked(false);
    what_goes_unchecked(true);
    let _on = mutation::put_back(Some(Fault::UncheckedUnnoted));
    assert!(std::panic::catch_unwind(|| what_goes_unchecked(false)).is_err());
}
