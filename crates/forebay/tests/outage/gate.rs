//! The gate's rules that need a store of their own to be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay::change::End;
use forebay::mutation::{self, Fault};
use forebay::outage::lanes::HASH_LANES;
use forebay::outage::lossy::Lossy;
use forebay::outage::{
    BreakerSettings, Description, Found, Gate, GateOptions, GateSettings, Journal, JournalOptions, Mode, ResumeError,
    TicketState,
};
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store;
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::{Caps, Commit, CommitOutcome, Outside, Priority, ReadError, Store, Write};
use forebay::tier::Remembered;
use forebay::tier::memory::Memory;
use forebay::value::Blob;
use forebay::{Change, Key, Read, TxnId, Value, Version};
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::lock::Mutex as AsyncMutex;

/// A database that may go away, may come back in an earlier state, and that others may write to.
pub struct Database {
    pub inner: Faulty,
    pub incarnation: AtomicU64,
    owned: bool,
    /// What it is about to say of others.
    others: (UnboundedSender<Outside>, AsyncMutex<UnboundedReceiver<Outside>>),
    /// It was opened in an earlier state than was known.
    pub went_back: AtomicBool,
}

impl Database {
    /// Says so next.
    pub fn says(&self, outside: Outside) {
        self.others.0.unbounded_send(outside).expect("the database is there");
    }

    pub fn new(runtime: &Runtime, owned: bool) -> Arc<Database> {
        let inner = Faulty::new(runtime.clone(), Arc::new(store::memory::Memory::new()), Faults::default(), 1);
        let (sender, receiver) = unbounded();
        let (incarnation, went_back) = (AtomicU64::new(1), AtomicBool::new(false));
        Arc::new(Database { inner, incarnation, owned, others: (sender, AsyncMutex::new(receiver)), went_back })
    }
}

impl Store for Database {
    fn caps(&self) -> Caps {
        Caps { ordered: false, owned: self.owned, applies: false }
    }

    fn name(&self) -> String {
        "database".into()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    fn went_back(&self) -> bool {
        self.went_back.load(Ordering::SeqCst)
    }

    /// As many as its incarnation: so it is news.
    fn acknowledged(&self) -> Vec<TxnId> {
        (0..self.incarnation()).map(|sequence| TxnId(Version { incarnation: 1, sequence })).collect()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.inner.commit(group)
    }

    fn outside(&self) -> BoxFuture<'_, Option<Outside>> {
        Box::pin(async { self.others.1.lock().await.next().await })
    }

    /// `row:x` and `list:x` are one row.
    fn beside(&self, key: &Key) -> Vec<Key> {
        let other = |name: &[u8], from: &str, to: &str| {
            name.strip_prefix(from.as_bytes()).map(|rest| Key::new(0, &[to.as_bytes(), rest].concat()))
        };
        let name = key.name();
        other(name, "row:", "list:").or_else(|| other(name, "list:", "row:")).into_iter().collect()
    }

    forebay::rest_of_store!(inner);
}

pub fn open(runtime: &Runtime, owned: bool, change: impl FnOnce(&mut GateSettings)) -> (Arc<Database>, Gate) {
    let database = Database::new(runtime, owned);
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let (journal, found) = Journal::open(runtime.clone(), Lossy::new().handle(), options).expect("a new journal");
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 5, pause_ms_max: 20 };
    let mut settings = GateSettings { breaker, ..GateSettings::default() };
    change(&mut settings);
    let (mapping, opens_late) = (String::new(), false);
    let (runtime, store) = (runtime.clone(), database.clone());
    let options = GateOptions { runtime, store, journal, found, settings, mapping, opens_late };
    (database, Gate::open(options).expect("nothing is pending"))
}

/// A gate over what `memory` keeps.
pub fn open_in(memory: &Memory, runtime: &Runtime, database: &Arc<Database>) -> Gate {
    open_as(memory, runtime, database, false)
}

/// The same; if it `opens_late`, of a store that could not be reached yet.
pub fn open_as(memory: &Memory, runtime: &Runtime, database: &Arc<Database>, opens_late: bool) -> Gate {
    let (journal, kept) = memory.open(Description::default());
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 5, pause_ms_max: 20 };
    let settings = GateSettings { breaker, ..GateSettings::default() };
    let (runtime, store, found) = (runtime.clone(), database.clone(), Found::in_tier(kept));
    let mapping = String::new();
    Gate::open(GateOptions { runtime, store, journal, found, settings, mapping, opens_late }).expect("it opens")
}

/// What the journal on `disk` says of the store.
fn described(disk: &Lossy, runtime: &Runtime) -> String {
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let (_, found) = Journal::open(runtime.clone(), disk.handle(), options).expect("it can be opened");
    found.description.catalogue
}

/// A gate over the journal on `disk`, once `meanwhile` was done to the disk, and what that journal said of the store.
pub fn open_on(disk: &Lossy, runtime: &Runtime, store: &Arc<Database>, meanwhile: impl FnOnce()) -> (Remembered, Gate) {
    open_as_set(disk, runtime, store, |_| meanwhile())
}

/// Likewise; `change` is made to its settings.
pub fn open_as_set(
    disk: &Lossy,
    runtime: &Runtime,
    store: &Arc<Database>,
    change: impl FnOnce(&mut GateSettings),
) -> (Remembered, Gate) {
    let description = Description { mapping: String::new(), catalogue: String::new() };
    let options = JournalOptions { durability: Durability::Always, bytes_max: 1 << 20, description };
    let (journal, found) = Journal::open(runtime.clone(), disk.handle(), options).expect("it can be opened");
    let remembered = found.remembered.clone();
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 5, pause_ms_max: 20 };
    let mut settings = GateSettings { breaker, ..GateSettings::default() };
    change(&mut settings);
    let (runtime, store, mapping, opens_late) = (runtime.clone(), store.clone(), String::new(), false);
    let options = GateOptions { runtime, store, journal, found, settings, mapping, opens_late };
    (remembered, Gate::open(options).expect("it opens"))
}

pub fn put(sequence: u64, name: &str) -> Commit {
    put_in(1, sequence, name)
}

/// Of a transaction that has begun in this incarnation of the store.
pub fn put_in(incarnation: u64, sequence: u64, name: &str) -> Commit {
    let version = Version { incarnation, sequence };
    let value = Value::bytes(sequence.to_string().as_bytes());
    let changes = [Change::Put(value.clone())].into_iter().collect();
    let writes =
        vec![Write { key: Key::new(0, name.as_bytes()), changes, after: Some(value), unseen: false, told: false }];
    Commit::new(TxnId(version), version, writes)
}

pub async fn commit(gate: &Gate, commit: Commit) -> CommitOutcome {
    gate.commit(std::slice::from_ref(&commit)).await.remove(0)
}

pub fn simulated<F: Future<Output = ()> + Send + 'static>(work: impl FnOnce(Runtime) -> F) {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime();
    assert_eq!(simulation.run(work(runtime)), Ended::Done);
}

/// Fault 21: a database that comes back from a backup may have lost what buffered writes were built on, and the ids of
/// those that had landed. Nothing is applied before an operator says so.
fn a_restored_store(expected: bool) {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, true, |_| {});
        assert_eq!(commit(&gate, put(1, "a")).await, CommitOutcome::Committed(Vec::new()));
        database.inner.set_down(true);
        let CommitOutcome::Buffered(kept) = commit(&gate, put(2, "a")).await else { panic!("it is kept") };
        database.incarnation.store(2, Ordering::SeqCst);
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!(gate.state().suspended.is_some(), expected);
        if expected {
            assert_eq!(gate.ticket(kept.ticket), TicketState::Pending);
            // What began before may have read what is lost. What comes in after that waits behind it.
            assert!(matches!(commit(&gate, put(3, "a")).await, CommitOutcome::Conflict(_)));
            assert!(matches!(commit(&gate, put_in(2, gate.minted() + 1, "a")).await, CommitOutcome::Buffered(_)));
            assert_eq!(gate.resume().await, Ok(()));
            assert_eq!(gate.resume().await, Err(ResumeError::NotSuspended));
        }
        runtime.sleep(Duration::from_secs(5)).await;
        let TicketState::Applied(version) = gate.ticket(kept.ticket) else { panic!("it is applied") };
        // Another than the one under which it was shown.
        assert_eq!(version == Version { incarnation: 1, sequence: 2 }, !expected);
        assert_eq!((gate.state().mode, gate.state().amount.transactions), (Mode::Normal, 0));
    });
}

#[test]
fn a_restored_store_waits_for_an_operator() {
    a_restored_store(true);
    let _on = mutation::put_back(Some(Fault::RestoredStoreDrained));
    a_restored_store(false);
}

/// Likewise of a store that was put back while no gate was there. What is undecided stays so over further starts, and
/// what is decided, too; what the store has acknowledged is told to the tier when it is news.
fn a_store_restored_before_the_start(expected: bool) {
    simulated(|runtime| async move {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, true));
        let gate = open_in(&memory, &runtime, &database);
        gate.start_remembering();
        database.incarnation.store(3, Ordering::SeqCst);
        runtime.sleep(Duration::from_secs(2)).await;
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put_in(3, 2, "a")).await, CommitOutcome::Buffered(_)));
        drop(gate);
        let remembered = memory.open(Description::default()).1.remembered;
        assert_eq!((remembered.acknowledged.len(), remembered.suspended), (3, false));
        database.inner.set_down(false);
        database.went_back.store(true, Ordering::SeqCst);
        let gate = open_in(&memory, &runtime, &database);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!((gate.state().suspended.is_some(), gate.state().amount.transactions == 1), (expected, expected));
        drop(gate);
        database.went_back.store(false, Ordering::SeqCst);
        let gate = open_in(&memory, &runtime, &database);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!(gate.state().suspended.is_some(), expected, "a start decides nothing");
        assert_eq!(gate.resume().await.is_ok(), expected);
        runtime.sleep(Duration::from_secs(5)).await;
        drop(gate);
        let gate = open_in(&memory, &runtime, &database);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!((gate.state().suspended, gate.state().amount.transactions), (None, 0));
        gate.close().await.expect("it is up");
        assert!(!memory.open(Description::default()).1.remembered.suspended);
    });
}

#[test]
fn a_store_that_was_restored_before_the_start_waits_for_an_operator() {
    a_store_restored_before_the_start(true);
    let _on = mutation::put_back(Some(Fault::RestoredStoreDrained));
    a_store_restored_before_the_start(false);
}

/// The disk is full for a moment at the start: what could not be noted then is noted later, although nothing changes.
#[test]
fn what_could_not_be_noted_at_the_start_is_noted_later() {
    simulated(|runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, true));
        let (_, gate) = open_on(&disk, &runtime, &database, || ());
        runtime.sleep(Duration::from_secs(1)).await;
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(1, "a")).await, CommitOutcome::Buffered(_)));
        drop(gate);
        disk.kill();
        database.inner.set_down(false);
        database.went_back.store(true, Ordering::SeqCst);
        database.incarnation.store(3, Ordering::SeqCst);
        let (_, gate) = open_on(&disk, &runtime, &database, || disk.hold_at_most(Some(0)));
        gate.start_remembering();
        assert!(gate.state().suspended.is_some());
        runtime.sleep(Duration::from_secs(3)).await;
        disk.hold_at_most(None);
        runtime.sleep(Duration::from_secs(12)).await;
        drop(gate);
        disk.kill();
        assert_eq!(described(&disk, &runtime), "incarnation 3");
        disk.kill();
        database.went_back.store(false, Ordering::SeqCst);
        let (remembered, gate) = open_on(&disk, &runtime, &database, || ());
        assert_eq!((remembered.acknowledged.len(), remembered.suspended), (3, true));
        assert!(gate.state().suspended.is_some(), "a start decides nothing");
    });
}

/// What is cached of a store that others write to is given up when it could not be asked for too long, once.
#[test]
fn what_is_too_old_is_given_up() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |settings| settings.stale_ms_max = 1000);
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(1, "a")).await, CommitOutcome::Buffered(_)));
        let began = runtime.elapsed();
        assert_eq!(gate.outside().await, Some(Outside::Everything));
        assert!(runtime.elapsed() - began >= Duration::from_millis(900));
    });
}

/// That a store is out of sight is no news in an outage. That it can be watched again is, even where that comes before
/// the breaker has closed: what is cached is compared then, once, and given up when it was lost from sight otherwise.
#[test]
fn what_was_cached_in_an_outage_is_doubtful() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let says = |outside: Outside| database.says(outside);
        says(Outside::Everything);
        assert_eq!(gate.outside().await, Some(Outside::Everything));
        database.inner.set_down(true);
        let shown = shown_under(commit(&gate, put(1, "a")).await);
        for _ in 0..2 {
            says(Outside::OutOfSight);
            says(Outside::Everything);
            assert_eq!(gate.outside().await, Some(Outside::Doubtful));
        }
        database.inner.set_down(false);
        while gate.state().mode != Mode::Normal {
            runtime.sleep(Duration::from_millis(1)).await;
        }
        says(Outside::OutOfSight);
        let carried = gate.outside().await;
        let (key, version) = (Key::new(0, b"a"), Version { incarnation: 1, sequence: 1 });
        assert!(
            matches!(&carried, Some(Outside::Restamped(those)) if those[..] == [(key, shown, version)]),
            "{carried:?}"
        );
        assert_eq!(gate.outside().await, Some(Outside::OutOfSight));
        says(Outside::Everything);
        assert_eq!(gate.outside().await, Some(Outside::Everything));
    });
}

/// Under which version the only document of what is buffered is shown.
fn shown_under(outcome: CommitOutcome) -> Version {
    match outcome {
        CommitOutcome::Buffered(kept) => kept.reads[0].1.version,
        other => panic!("{other:?}"),
    }
}

/// Two names of one lane, and one of another.
fn names() -> [String; 3] {
    let lane = |name: &str| Key::new(0, name.as_bytes()).borrow().hash64() % u64::from(HASH_LANES);
    let first = "k0".to_owned();
    let all = || (1..1000).map(|number| format!("k{number}"));
    let same = all().find(|name| lane(name) == lane(&first)).expect("lanes are few");
    let other = all().find(|name| lane(name) != lane(&first)).expect("lanes are several");
    [first, same, other]
}

/// What a buffered transaction has read is not changed by a later one before it is applied, in whatever lane it lies:
/// it would be taken for what others have changed.
#[test]
fn what_was_read_is_not_overtaken_by_our_own() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |settings| settings.workers = 1);
        let [first, read, written] = names();
        assert_eq!(commit(&gate, put(1, &read)).await, CommitOutcome::Committed(Vec::new()));
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(2, &first)).await, CommitOutcome::Buffered(_)));
        let checks = vec![(Key::new(0, read.as_bytes()), Version { incarnation: 1, sequence: 1 })];
        assert!(matches!(commit(&gate, Commit { checks, ..put(3, &written) }).await, CommitOutcome::Buffered(_)));
        assert!(matches!(commit(&gate, put(4, &read)).await, CommitOutcome::Buffered(_)));
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        let state = gate.state();
        assert_eq!((state.amount.transactions, state.counts.conflicts, state.counts.quarantined), (0, 0, 0));
    });
}

/// What has read what is buffered queues after that: the store does not know that version yet.
#[test]
fn what_was_read_from_the_buffer_is_not_checked_in_the_store() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let [read, _, written] = names();
        database.inner.set_down(true);
        let others = vec![(Key::new(0, b"changed by others"), Version { incarnation: 1, sequence: 99 })];
        let shown = shown_under(commit(&gate, Commit { checks: others, ..put(1, &read) }).await);
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!((gate.state().mode, gate.state().amount.quarantined), (Mode::Normal, 1));
        let checks = vec![(Key::new(0, read.as_bytes()), shown)];
        let outcome = commit(&gate, Commit { checks, ..put(3, &written) }).await;
        assert!(matches!(outcome, CommitOutcome::Buffered(_)), "{outcome:?}");
    });
}

/// With much in its way a write is kept at once, one that matters more waits first, one that matters little is kept
/// also where nothing is in its way.
#[test]
fn priority_says_how_long_a_write_waits() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, true, |settings| (settings.merge, settings.per_second_max) = (false, 1));
        let [first, _, busy] = names();
        database.inner.set_down(true);
        for sequence in 1..=200 {
            commit(&gate, put(sequence, if sequence <= 100 { &first } else { &busy })).await;
        }
        database.inner.set_down(false);
        while !matches!(gate.ticket(100), TicketState::Applied(_)) {
            runtime.sleep(Duration::from_millis(1)).await;
        }
        let took = async |priority: Priority, sequence: u64, name: &str| {
            let began = runtime.elapsed();
            let outcome = commit(&gate, Commit { priority, ..put(sequence, name) }).await;
            (matches!(outcome, CommitOutcome::Buffered(_)), (runtime.elapsed() - began).as_millis() >= 250)
        };
        assert_eq!(took(Priority::Normal, 201, &busy).await, (true, false));
        assert_eq!(took(Priority::High, 202, &busy).await, (true, true));
        assert_eq!(took(Priority::Low, 203, &busy).await, (true, false));
        assert_eq!(took(Priority::Normal, 204, &first).await, (false, false));
        assert_eq!(took(Priority::Low, 205, &first).await, (true, false));
    });
}

/// Two documents of one row: what happens to one does not move past what happened to the other, and one that is deleted
/// takes the other along.
#[test]
fn documents_of_one_row_keep_their_order() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let change = |sequence: u64, name: &str, change: Change| {
            let mut commit = put(sequence, name);
            commit.writes[0].after = None;
            commit.writes[0].changes = [change].into_iter().collect();
            commit
        };
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(1, "list:x")).await, CommitOutcome::Buffered(_)));
        assert!(matches!(commit(&gate, put(2, "list:x")).await, CommitOutcome::Buffered(_)));
        assert_eq!(gate.state().counts.merged, 1);
        let list = [Key::new(0, b"list:x")];
        assert!(gate.get(&list).await.is_ok());
        assert!(matches!(commit(&gate, change(3, "row:x", Change::Delete)).await, CommitOutcome::Buffered(_)));
        assert!(gate.get(&list).await.is_err(), "nobody knows what it is now");
        let push = Change::Push(End::Right, Blob::from(b"e".as_slice()));
        assert!(matches!(commit(&gate, change(4, "list:x", push)).await, CommitOutcome::Buffered(_)));
        assert_eq!((gate.state().counts.merged, gate.state().amount.transactions), (1, 3));
        gate.validate();
    });
}

/// A gate over another tier than the journal: what it has acknowledged is there for the one that takes it over, and
/// what the first tries to keep from then on is refused.
#[test]
fn what_is_buffered_may_lie_in_another_tier() {
    simulated(|runtime| async move {
        let memory = Memory::new(1 << 20);
        let database = Database::new(&runtime, true);
        let open = || open_in(&memory, &runtime, &database);
        let first = open();
        database.inner.set_down(true);
        for (sequence, name) in [(1, "a"), (2, "b"), (3, "a")] {
            assert!(matches!(commit(&first, put(sequence, name)).await, CommitOutcome::Buffered(_)));
        }
        let second = open();
        assert_eq!(second.state().amount.transactions, 2, "two became one");
        assert!(matches!(commit(&first, put(4, "c")).await, CommitOutcome::Unavailable(_)));
        let key = [Key::new(0, b"a")];
        assert_eq!(second.get(&key).await.expect("it is kept").remove(0).value, Some(Value::bytes(*b"3")));
        drop(first);
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        assert_eq!((second.state().mode, second.state().amount.transactions), (Mode::Normal, 0));
        assert_eq!(database.get(&key).await.expect("it is up").remove(0).value, Some(Value::bytes(*b"3")));
        assert!(memory.open(Description::default()).1.entries.is_empty(), "what was applied is not kept");
    });
}

/// With write-back every write is kept at first, neighbours become one, and what is old is applied.
#[test]
fn write_back_merges_and_carries_over_what_is_old() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, true, |settings| settings.write_back_ms = Some(1000));
        for sequence in 1..=100 {
            assert!(matches!(commit(&gate, put(sequence, "a")).await, CommitOutcome::Buffered(_)));
        }
        let key = [Key::new(0, b"a")];
        let read = gate.get(&key).await.expect("it is buffered").remove(0);
        assert_eq!(read.value, Some(Value::bytes(*b"100")));
        assert_eq!(database.get(&key).await.expect("it is up").remove(0).value, None);
        let state = gate.state();
        assert_eq!((state.mode, state.amount.transactions, state.counts.merged), (Mode::Normal, 1, 99));
        runtime.sleep(Duration::from_millis(1500)).await;
        assert_eq!(database.get(&key).await.expect("it is up").remove(0).value, Some(Value::bytes(*b"100")));
        assert_eq!((gate.state().amount.transactions, gate.state().counts.applied), (0, 1));
        // The first ticket became part of the last.
        let version = Version { incarnation: 1, sequence: 100 };
        assert_eq!(gate.ticket(1), TicketState::Applied(version));
    });
}
