//! Write-back under more load than the store can take. No client is told that there is no room while the store takes
//! what it is given. What waits is about as old as was asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{BreakerSettings, Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, Mode};
use forebay::runtime::Runtime;
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Store, Write};
use forebay::{Change, Key, Read, TxnId, Value, Version};
use futures_util::future::BoxFuture;

use crate::gate::{self, commit, simulated};

/// A batch takes so long, and each transaction of it.
const BATCH: Duration = Duration::from_millis(2);
const EACH: Duration = Duration::from_micros(400);

/// A store that takes its time.
pub struct Busy {
    pub inner: Faulty,
    runtime: Runtime,
    /// It takes an hour for a batch.
    pub is_stuck: AtomicBool,
}

impl Store for Busy {
    fn caps(&self) -> Caps {
        Caps { ordered: false, ..self.inner.caps() }
    }

    fn name(&self) -> String {
        "busy".into()
    }

    fn incarnation(&self) -> u64 {
        1
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(async move {
            let stuck = Duration::from_secs(if self.is_stuck.load(Ordering::SeqCst) { 3_600 } else { 0 });
            self.runtime.sleep(stuck + BATCH + EACH * group.len() as u32).await;
            self.inner.commit(group).await
        })
    }

    forebay::rest_of_store!(inner);
}

fn open(runtime: &Runtime, age_ms: u64, bytes_max: usize) -> (Arc<Busy>, Gate) {
    open_with(runtime, bytes_max, |settings| settings.write_back_ms = Some(age_ms))
}

pub fn open_with(runtime: &Runtime, bytes_max: usize, change: impl FnOnce(&mut GateSettings)) -> (Arc<Busy>, Gate) {
    let inner = Faulty::new(runtime.clone(), Arc::new(Memory::new()), Faults::default(), 1);
    let store = Arc::new(Busy { inner, runtime: runtime.clone(), is_stuck: AtomicBool::new(false) });
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 30, description };
    let (journal, found) = Journal::open(runtime.clone(), Lossy::new().handle(), options).expect("a new journal");
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 5, pause_ms_max: 20 };
    let mut settings = GateSettings { breaker, bytes_max, workers: 4, ..GateSettings::default() };
    change(&mut settings);
    let (mapping, opens_late) = (String::new(), false);
    let (runtime, inner) = (runtime.clone(), store.clone());
    let options = GateOptions { runtime, store: inner, journal, found, settings, mapping, opens_late };
    (store, Gate::open(options).expect("nothing is pending"))
}

/// A write of so many bytes to `name`.
pub fn put(sequence: u64, name: &str, bytes: usize) -> Commit {
    let version = Version { incarnation: 1, sequence };
    let value = Value::bytes(vec![b'x'; bytes]);
    let changes = [Change::Put(value.clone())].into_iter().collect();
    let writes =
        vec![Write { key: Key::new(0, name.as_bytes()), changes, after: Some(value), unseen: false, told: false }];
    Commit::new(TxnId(version), version, writes)
}

/// Clients that write until it is enough, each again as soon as it is answered.
struct Clients {
    running: AtomicUsize,
    enough: AtomicBool,
    /// Writes so far.
    written: AtomicU64,
    /// Those of them that went directly.
    direct: AtomicU64,
    /// What another answer than `OK` was.
    refused: Mutex<Vec<CommitOutcome>>,
}

impl Clients {
    fn start(runtime: &Runtime, gate: &Gate, count: usize, name: fn(u64) -> String) -> Arc<Clients> {
        let clients = Arc::new(Clients {
            running: AtomicUsize::new(count),
            enough: AtomicBool::new(false),
            written: AtomicU64::new(0),
            direct: AtomicU64::new(0),
            refused: Mutex::default(),
        });
        for _ in 0..count {
            let (clients, gate, clock) = (clients.clone(), gate.clone(), runtime.clone());
            runtime.spawn(async move {
                while !clients.enough.load(Ordering::SeqCst) {
                    clock.sleep(Duration::from_micros(100)).await;
                    let sequence = clients.written.fetch_add(1, Ordering::SeqCst) + 1;
                    clients.told(commit(&gate, put(sequence, &name(sequence), 100)).await);
                }
                clients.running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        clients
    }

    fn told(&self, outcome: CommitOutcome) {
        match outcome {
            CommitOutcome::Buffered(_) => {}
            CommitOutcome::Committed(_) => drop(self.direct.fetch_add(1, Ordering::SeqCst)),
            other => {
                self.enough.store(true, Ordering::SeqCst);
                self.refused.lock().expect("nobody panicked").push(other);
            }
        }
    }

    /// They stop; all that they wrote is in the store soon.
    async fn end(&self, runtime: &Runtime, gate: &Gate) {
        self.enough.store(true, Ordering::SeqCst);
        while self.running.load(Ordering::SeqCst) > 0 {
            runtime.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*self.refused.lock().expect("nobody panicked"), []);
        gate.carry_over(Duration::from_secs(600)).await;
        let state = gate.state();
        let written = self.written.load(Ordering::SeqCst) - self.direct.load(Ordering::SeqCst);
        assert_eq!((state.amount.transactions, state.mode, state.counts.full), (0, Mode::Normal, 0));
        assert_eq!(state.counts.applied + state.counts.merged, written);
        gate.validate();
    }
}

/// The greatest age that waits within so long.
async fn oldest_ms(runtime: &Runtime, gate: &Gate, time: Duration) -> u64 {
    let (until, mut most) = (runtime.elapsed() + time, 0);
    while runtime.elapsed() < until {
        runtime.sleep(Duration::from_millis(5)).await;
        let oldest = gate.state().oldest_ms.unwrap_or(u64::MAX);
        most = most.max(runtime.now_ms().saturating_sub(oldest));
    }
    most
}

/// The limit of the drain is not for those that wait for it, and clients are held up so that it keeps up with them.
#[test]
fn what_waits_is_no_older_than_was_asked_for() {
    what_waits(true);
    let _on = mutation::put_back(Some(Fault::WriteBackUnpaced));
    what_waits(false);
}

fn what_waits(expected: bool) {
    simulated(move |runtime| async move {
        let (_, gate) = open(&runtime, 500, 64 << 20);
        let clients = Clients::start(&runtime, &gate, 64, |sequence| format!("key{sequence}"));
        let oldest = oldest_ms(&runtime, &gate, Duration::from_secs(3)).await;
        eprintln!("the oldest was {oldest} ms old; {:?}", gate.state().counts);
        assert_eq!((250..650).contains(&oldest), expected, "{oldest} ms");
        if !expected {
            return;
        }
        let applied = gate.state().counts.applied;
        assert!(applied > 16_500, "{applied} in 3 s, by a store that takes 7,000 a second in batches of 16");
        clients.end(&runtime, &gate).await;
    });
}

/// A document that is written all the time has its turn, too, although it goes behind all others with each write.
#[test]
fn what_is_written_all_the_time_is_carried_over() {
    simulated(|runtime| async move {
        let (store, gate) = open(&runtime, 500, 64 << 20);
        let name = |sequence: u64| if sequence.is_multiple_of(2) { "hot".into() } else { format!("key{sequence}") };
        let clients = Clients::start(&runtime, &gate, 1, name);
        let (key, mut versions) = ([Key::new(0, b"hot")], Vec::new());
        for _ in 0..3 {
            runtime.sleep(Duration::from_secs(1)).await;
            versions.push(store.get(&key).await.expect("it is there").remove(0).version);
        }
        assert!(versions.is_sorted_by(|before, after| before < after), "{versions:?}");
        assert!(gate.state().counts.merged > 1_000, "{:?}", gate.state().counts);
        clients.end(&runtime, &gate).await;
    });
}

/// Hours are more than there is room for: then the room is the bound.
#[test]
fn a_store_that_answers_leaves_nobody_without_room() {
    for clients in [4, 64, 500] {
        without_room(clients, true);
        let _on = mutation::put_back(Some(Fault::WriteBackUnpaced));
        without_room(clients, false);
    }
}

fn without_room(clients: usize, expected: bool) {
    simulated(move |runtime| async move {
        let (_, gate) = open(&runtime, 3_600_000, 64 << 10);
        let clients = Clients::start(&runtime, &gate, clients, |sequence| format!("key{sequence}"));
        runtime.sleep(Duration::from_secs(1)).await;
        if expected {
            return clients.end(&runtime, &gate).await;
        }
        clients.enough.store(true, Ordering::SeqCst);
        let refused = clients.refused.lock().expect("nobody panicked");
        assert!(refused.iter().any(|outcome| matches!(outcome, CommitOutcome::Full(_))), "{refused:?}");
    });
}

/// One that takes most of the room gets it, and one that there is never room for goes past it, although many others
/// want it all the time.
#[test]
fn what_is_large_gets_its_room() {
    simulated(|runtime| async move {
        let (store, gate) = open(&runtime, 3_600_000, 64 << 10);
        let clients = Clients::start(&runtime, &gate, 64, |sequence| format!("key{sequence}"));
        runtime.sleep(Duration::from_secs(1)).await;
        for (sequence, bytes) in [(1 << 30, 20_000), (1 << 31, 200_000)] {
            let name = format!("large{bytes}");
            let outcome = commit(&gate, put(sequence, &name, bytes)).await;
            let direct = matches!(outcome, CommitOutcome::Committed(_));
            assert!(direct || matches!(outcome, CommitOutcome::Buffered(_)), "{outcome:?}");
            assert_eq!(
                direct,
                store.get(&[Key::new(0, name.as_bytes())]).await.expect("it is there")[0].value.is_some()
            );
            clients.written.fetch_add(u64::from(!direct), Ordering::SeqCst);
        }
        clients.end(&runtime, &gate).await;
    });
}

/// A write that is held up for the drain goes on when the store goes away: then the room is all there is.
#[test]
fn who_waits_for_room_is_told_when_the_store_goes_away() {
    simulated(|runtime| async move {
        let (store, gate) = open(&runtime, 3_600_000, 64 << 10);
        let clients = Clients::start(&runtime, &gate, 64, |sequence| format!("key{sequence}"));
        runtime.sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.state().counts.full, 0);
        store.inner.set_down(true);
        let began = runtime.elapsed();
        while clients.running.load(Ordering::SeqCst) > 0 {
            assert!(runtime.elapsed() - began < Duration::from_secs(60), "{:?}", gate.state());
            runtime.sleep(Duration::from_millis(1)).await;
        }
        let refused = std::mem::take(&mut *clients.refused.lock().expect("nobody panicked"));
        let away = |outcome: &CommitOutcome| match outcome {
            CommitOutcome::Full(why) => why.contains("; wait for the store, or raise it"),
            // It was on its way past the buffer.
            CommitOutcome::Unknown(_) => true,
            _ => false,
        };
        assert!(!refused.is_empty() && refused.iter().all(away), "{refused:?}");
        store.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        gate.carry_over(Duration::from_secs(600)).await;
        assert_eq!((gate.state().amount.transactions, gate.state().mode), (0, Mode::Normal));
        gate.validate();
    });
}

/// What is kept on purpose is nothing unusual, but what an operator has to decide about is: with write-back, too.
#[test]
fn what_waits_for_an_operator_is_no_normal_mode() {
    for write_back_ms in [None, Some(500)] {
        simulated(move |runtime| async move {
            let (database, gate) = gate::open(&runtime, true, |settings| settings.write_back_ms = write_back_ms);
            database.inner.set_down(true);
            assert!(matches!(commit(&gate, gate::put(1, "a")).await, CommitOutcome::Buffered(_)));
            database.incarnation.store(2, Ordering::SeqCst);
            database.inner.set_down(false);
            runtime.sleep(Duration::from_secs(5)).await;
            let state = gate.state();
            assert_eq!((state.suspended.is_some(), state.mode), (true, Mode::Recovery), "{write_back_ms:?}");
            assert_eq!(gate.resume().await, Ok(()));
            runtime.sleep(Duration::from_secs(5)).await;
            assert_eq!(gate.state().mode, Mode::Normal);
        });
    }
}
