//! Hole 16: a write that a store never answers in time, while it answers others. What it costs others is bounded, and
//! so is how often it is tried.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::change::{End, apply_all};
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::HASH_LANES;
use forebay::outage::lossy::Lossy;
use forebay::outage::pending::TRIES_ALONE_MAX;
use forebay::outage::{
    BreakerSettings, Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, Mode, TicketState,
};
use forebay::runtime::Runtime;
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Store, Write};
use forebay::value::Blob;
use forebay::{Change, Key, Read, TxnId, Version};
use futures_util::future::BoxFuture;

use crate::gate::{commit, put, simulated};

/// What it gives to a commit.
const TIME: Duration = Duration::from_millis(300);

/// A store with a time limit, and rows that take their time.
struct Slow {
    inner: Faulty,
    runtime: Runtime,
    needs: Mutex<HashMap<Key, Duration>>,
    /// How many more times it fails at a commit that writes this document.
    failing: Mutex<HashMap<Key, u32>>,
    /// It says then that it gives the commit up for another transaction.
    gives_up: AtomicBool,
    /// Transactions that it was not in time for.
    late: AtomicU64,
}

impl Slow {
    fn takes(&self, name: &str, time: Duration) {
        self.needs.lock().expect("nobody panicked").insert(Key::new(0, name.as_bytes()), time);
    }

    fn fails_at(&self, name: &str, times: u32) {
        self.failing.lock().expect("nobody panicked").insert(Key::new(0, name.as_bytes()), times);
    }

    /// The first of `group` at which it fails, which is one failure less to come.
    fn failed(&self, group: &[Commit]) -> Option<usize> {
        let mut failing = self.failing.lock().expect("nobody panicked");
        let fails = |write: &Write| failing.get(&write.key).is_some_and(|left| *left > 0);
        let at = group.iter().position(|commit| commit.writes.iter().any(fails))?;
        for write in &group[at].writes {
            failing.entry(write.key.clone()).and_modify(|left| *left = left.saturating_sub(1));
        }
        Some(at)
    }

    fn time_of(&self, group: &[Commit]) -> Duration {
        let needs = self.needs.lock().expect("nobody panicked");
        group.iter().flat_map(|commit| &commit.writes).filter_map(|write| needs.get(&write.key)).sum()
    }
}

impl Store for Slow {
    fn caps(&self) -> Caps {
        Caps { ordered: false, ..self.inner.caps() }
    }

    fn name(&self) -> String {
        "slow".into()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let needed = self.time_of(group);
            let given = TIME * group.iter().map(|commit| commit.patience).max().unwrap_or(1);
            self.runtime.sleep(needed.min(given)).await;
            if let Some(at) = self.failed(group) {
                let mut outcomes = if at == 0 { Vec::new() } else { self.inner.commit(&group[..at]).await };
                outcomes.truncate(at);
                if outcomes.iter().all(CommitOutcome::is_applied) {
                    outcomes.push(match self.gives_up.load(Ordering::SeqCst) {
                        true => CommitOutcome::Conflict(Vec::new()),
                        false => CommitOutcome::Failed("an internal error".to_owned()),
                    });
                }
                outcomes.resize(group.len(), CommitOutcome::Unavailable("one before it failed".to_owned()));
                return outcomes;
            }
            if needed <= given {
                return self.inner.commit(group).await;
            }
            self.late.fetch_add(1, Ordering::SeqCst);
            vec![CommitOutcome::Unknown(format!("no answer in {} ms", given.as_millis())); group.len()]
        })
    }

    forebay::rest_of_store!(inner);
}

fn open(runtime: &Runtime, workers: usize) -> (Arc<Slow>, Gate) {
    open_with(runtime, |settings| settings.workers = workers)
}

fn open_with(runtime: &Runtime, change: impl FnOnce(&mut GateSettings)) -> (Arc<Slow>, Gate) {
    let inner = Faulty::new(runtime.clone(), Arc::new(Memory::new()), Faults::default(), 1);
    let (needs, failing, late) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
    let gives_up = AtomicBool::new(false);
    let store = Arc::new(Slow { inner, runtime: runtime.clone(), needs, failing, gives_up, late });
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let (journal, found) = Journal::open(runtime.clone(), Lossy::new().handle(), options).expect("a new journal");
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 5, pause_ms_max: 20 };
    let mut settings = GateSettings { breaker, ..GateSettings::default() };
    change(&mut settings);
    let (mapping, opens_late) = (String::new(), false);
    let (runtime, inner) = (runtime.clone(), store.clone());
    let options = GateOptions { runtime, store: inner, journal, found, settings, mapping, opens_late };
    (store, Gate::open(options).expect("nothing is pending"))
}

async fn buffered(gate: &Gate, sequence: u64, name: &str) -> u64 {
    match commit(gate, put(sequence, name)).await {
        CommitOutcome::Buffered(kept) => kept.ticket,
        other => panic!("{name}: {other:?}"),
    }
}

/// Whether they are applied in one order.
fn of_its_lane(name: &str, other: &str) -> bool {
    let lane = |name: &str| Key::new(0, name.as_bytes()).borrow().hash64() % u64::from(HASH_LANES);
    lane(name) == lane(other)
}

/// It lands as soon as it is given the time that it needs, and nobody takes the store for away.
#[test]
fn a_write_that_needs_longer_than_the_timeout_lands() {
    simulated(|runtime| async move {
        let (store, gate) = open(&runtime, 1);
        store.takes("slow", Duration::from_secs(5));
        let ticket = buffered(&gate, 1, "slow").await;
        for sequence in 2..100 {
            assert_ne!(gate.state().mode, Mode::Failed, "the store answers all others");
            let name = format!("k{sequence}");
            match commit(&gate, put(sequence, &name)).await {
                CommitOutcome::Committed(_) => {}
                other => assert!(of_its_lane(&name, "slow"), "{name}: {other:?}"),
            }
            runtime.sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(gate.ticket(ticket), TicketState::Applied(Version { incarnation: 1, sequence: 1 }));
        let (state, late) = (gate.state(), store.late.load(Ordering::SeqCst));
        assert_eq!((state.mode, state.amount.transactions, state.counts.outages), (Mode::Normal, 0, 0));
        assert!(late < 8, "{late} tries");
    });
}

/// Among many it is found by halves, and these are there long before it; what never comes to an end is set aside.
fn a_write_that_never_ends(expected: bool) {
    simulated(move |runtime| async move {
        let (store, gate) = open(&runtime, 1);
        store.takes("endless", Duration::from_secs(1 << 30));
        store.inner.set_down(true);
        let endless = buffered(&gate, 1, "endless").await;
        for sequence in 2..600 {
            buffered(&gate, sequence, &format!("k{sequence}")).await;
        }
        let behind = buffered(&gate, 600, "endless").await;
        store.inner.set_down(false);
        runtime.sleep(Duration::from_secs(20)).await;
        let left = gate.with_buffer(|buffer| buffer.numbers(None, 0, usize::MAX));
        let lane = |number: &u64| of_its_lane(&format!("k{number}"), "endless");
        assert!(left.iter().all(|number| [endless, behind].contains(number) || lane(number)), "{left:?}");
        runtime.sleep(Duration::from_secs(200)).await;
        let late = store.late.load(Ordering::SeqCst);
        assert_eq!(matches!(gate.ticket(endless), TicketState::Quarantined(_)), expected, "{late} tries");
        if !expected {
            return;
        }
        assert_eq!(gate.state().amount.transactions, 2, "all others are there");
        assert!(late <= u64::from(TRIES_ALONE_MAX) + 10, "{late} tries");
        assert_eq!(gate.state().counts.outages, 1, "the one that was ordered");
        assert_eq!(gate.ticket(behind), TicketState::Pending);
        // Whoever has mended the cause has it tried again, under the same id.
        store.takes("endless", Duration::ZERO);
        assert_eq!(gate.retry(None).await, 1);
        runtime.sleep(Duration::from_secs(1)).await;
        assert!([endless, behind].iter().all(|number| matches!(gate.ticket(*number), TicketState::Applied(_))));
        gate.validate();
    });
}

#[test]
fn a_write_that_never_ends_is_set_aside() {
    a_write_that_never_ends(true);
    let _on = mutation::put_back(Some(Fault::PoisonRetried));
    a_write_that_never_ends(false);
}

/// What becomes of a write at which the store fails.
#[derive(Clone, Copy)]
enum Expected {
    SetAside,
    Applied,
    Tried,
}

/// One at which the store fails each time is set aside, and all others are there before it. The mode stays as it is.
fn a_write_at_which_the_store_fails(times: u32, expected: Expected) {
    simulated(move |runtime| async move {
        let (store, gate) = open(&runtime, 1);
        store.inner.set_down(true);
        let failing = buffered(&gate, 1, "failing").await;
        for sequence in 2..200 {
            buffered(&gate, sequence, &format!("k{sequence}")).await;
        }
        store.fails_at("failing", times);
        store.inner.set_down(false);
        runtime.sleep(Duration::from_secs(20)).await;
        match (gate.ticket(failing), expected) {
            (TicketState::Quarantined(_), Expected::SetAside) => {}
            (TicketState::Applied(_), Expected::Applied) | (TicketState::Pending, Expected::Tried) => return,
            (other, _) => panic!("{other:?} after {times} failures"),
        }
        let state = gate.state();
        assert_eq!((state.amount.transactions, state.counts.outages), (1, 1), "all others are there");
        // A client that waits for the store is told.
        store.fails_at("direct", 1);
        assert!(matches!(commit(&gate, put(300, "direct")).await, CommitOutcome::Failed(_)));
        assert_eq!(commit(&gate, put(301, "direct")).await, CommitOutcome::Committed(vec![]));
        store.fails_at("failing", 0);
        assert_eq!(gate.retry(None).await, 1);
        runtime.sleep(Duration::from_secs(1)).await;
        assert!(matches!(gate.ticket(failing), TicketState::Applied(_)));
        gate.validate();
    });
}

#[test]
fn a_write_at_which_the_store_fails_is_set_aside() {
    a_write_at_which_the_store_fails(u32::MAX, Expected::SetAside);
    // An internal error may pass.
    a_write_at_which_the_store_fails(TRIES_ALONE_MAX / 2, Expected::Applied);
    let _on = mutation::put_back(Some(Fault::PoisonRetried));
    a_write_at_which_the_store_fails(u32::MAX, Expected::Tried);
}

/// What the store gives up for another transaction is tried again as well, and set aside if that does not end.
fn a_write_that_is_given_up(times: u32, expected: Expected) {
    simulated(move |runtime| async move {
        let (store, gate) = open(&runtime, 1);
        store.inner.set_down(true);
        let given_up = buffered(&gate, 1, "given up").await;
        store.gives_up.store(true, Ordering::SeqCst);
        store.fails_at("given up", times);
        store.inner.set_down(false);
        runtime.sleep(Duration::from_secs(20)).await;
        match (gate.ticket(given_up), expected) {
            (TicketState::Quarantined(_), Expected::SetAside)
            | (TicketState::Applied(_), Expected::Applied)
            | (TicketState::Pending, Expected::Tried) => {}
            (other, _) => panic!("{other:?} after {times} times"),
        }
    });
}

#[test]
fn a_write_that_is_given_up_for_another_is_tried_again() {
    a_write_that_is_given_up(TRIES_ALONE_MAX / 2, Expected::Applied);
    a_write_that_is_given_up(u32::MAX, Expected::SetAside);
    let _on = mutation::put_back(Some(Fault::GivenUpIsOvertaken));
    a_write_that_is_given_up(u32::MAX, Expected::Tried);
}

/// A store that answers nothing is away, however little it was asked for.
#[test]
fn a_store_that_answers_nothing_is_away() {
    simulated(|runtime| async move {
        let (store, gate) = open(&runtime, 4);
        store.takes("slow", Duration::from_secs(1));
        let ticket = buffered(&gate, 1, "slow").await;
        runtime.sleep(Duration::from_millis(10)).await;
        store.inner.set_down(true);
        runtime.sleep(Duration::from_secs(300)).await;
        assert_eq!((gate.state().mode, gate.ticket(ticket)), (Mode::Failed, TicketState::Pending));
        store.inner.set_down(false);
        runtime.sleep(Duration::from_secs(10)).await;
        assert!(matches!(gate.ticket(ticket), TicketState::Applied(_)));
    });
}

/// What is quarantined is no reason to apply the rest before its time.
#[test]
fn what_is_quarantined_has_no_age() {
    simulated(|runtime| async move {
        let (store, gate) = open_with(&runtime, |settings| settings.write_back_ms = Some(60_000));
        store.takes("endless", Duration::from_secs(1 << 30));
        let endless = buffered(&gate, 1, "endless").await;
        runtime.sleep(Duration::from_secs(300)).await;
        assert!(matches!(gate.ticket(endless), TicketState::Quarantined(_)));
        let later = buffered(&gate, 2, "later").await;
        runtime.sleep(Duration::from_secs(50)).await;
        assert_eq!(gate.ticket(later), TicketState::Pending);
        runtime.sleep(Duration::from_secs(20)).await;
        assert!(matches!(gate.ticket(later), TicketState::Applied(_)));
    });
}

/// What is kept on purpose: a client that wants the store's word gets it, and an orderly end leaves nothing behind.
#[test]
fn what_is_kept_on_purpose_goes_when_somebody_waits_for_it() {
    simulated(|runtime| async move {
        let (_, gate) = open_with(&runtime, |settings| settings.write_back_ms = Some(60_000));
        let strict = |sequence: u64| Commit { strict: true, ..put(sequence, "a") };
        assert_eq!(commit(&gate, strict(1)).await, CommitOutcome::Committed(vec![]), "nothing is in its way");
        let first = buffered(&gate, 2, "a").await;
        assert_eq!(commit(&gate, strict(3)).await, CommitOutcome::Committed(vec![]));
        assert!(matches!(gate.ticket(first), TicketState::Applied(_)), "it went first");
        let last = buffered(&gate, 4, "a").await;
        runtime.sleep(Duration::from_secs(10)).await;
        assert_eq!(gate.ticket(last), TicketState::Pending);
        let began = runtime.elapsed();
        gate.carry_over(Duration::from_secs(5)).await;
        assert!(matches!(gate.ticket(last), TicketState::Applied(_)));
        assert!(runtime.elapsed() - began < Duration::from_secs(1));
    });
}

/// A change to a document that nobody knew: where the store answers, what it holds is merged with that.
#[test]
fn what_was_changed_unseen_is_read_as_a_merge_while_the_store_answers() {
    simulated(|runtime| async move {
        let (store, gate) = open_with(&runtime, |settings| settings.write_back_ms = Some(60_000));
        let key = Key::new(0, b"list");
        let version = |sequence| Version { incarnation: 1, sequence };
        let change = || Change::Push(End::Right, Blob::from(b"x".as_slice()));
        let list = |elements: u64| {
            let mut value = None;
            apply_all(&mut value, &(0..elements).map(|_| change()).collect::<Vec<_>>()).expect("it is a list");
            value
        };
        let push = |sequence, unseen| {
            let changes = [change()].into_iter().collect();
            let write = Write { key: key.clone(), changes, after: list(1), unseen, told: false };
            Commit::new(TxnId(version(sequence)), version(sequence), vec![write])
        };
        assert_eq!(store.inner.commit(&[push(1, false)]).await, [CommitOutcome::Committed(vec![])]);
        for sequence in 2..5 {
            assert!(matches!(commit(&gate, push(sequence, true)).await, CommitOutcome::Buffered(_)));
            let read = gate.get(std::slice::from_ref(&key)).await.expect("the store answers").remove(0);
            assert_eq!(read.version, version(sequence));
            assert_eq!(read.value, list(sequence));
        }
        gate.carry_over(Duration::from_secs(5)).await;
        let read = store.inner.get(std::slice::from_ref(&key)).await.expect("it answers").remove(0);
        assert_eq!(read.value, list(4));
        gate.validate();
    });
}
