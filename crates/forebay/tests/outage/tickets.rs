//! Tickets over starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay::mutation::{self, Fault};
use forebay::outage::lossy::Lossy;
use forebay::outage::{Description, Found, Gate, GateOptions, GateSettings, TicketState};
use forebay::runtime::Runtime;
use forebay::store::{CommitOutcome, Store};
use forebay::tier::memory::Memory;
use forebay::tier::{AppendError, Appending, Entry, Remembered, Tier};
use forebay::{Key, Version};
use futures_channel::oneshot;

use crate::gate::{Database, commit, open_in, open_on, put, simulated};

/// A tier that takes a second for each entry while it is `slow`.
struct Slow {
    inner: Arc<dyn Tier>,
    runtime: Runtime,
    slow: Arc<AtomicBool>,
}

impl Tier for Slow {
    fn append_all(&self, entries: Vec<Entry>) -> Appending {
        if !self.slow.load(Ordering::SeqCst) {
            return self.inner.append_all(entries);
        }
        let (sender, receiver) = oneshot::channel();
        let (inner, slept) = (self.inner.clone(), self.runtime.sleep(Duration::from_secs(1)));
        self.runtime.spawn(async move {
            slept.await;
            let _ = sender.send(inner.append_all(entries).await);
        });
        Appending::answered(receiver)
    }

    fn describe(&self, description: Description) -> Appending {
        self.inner.describe(description)
    }

    fn remember(&self, remembered: Remembered) -> Appending {
        self.inner.remember(remembered)
    }

    fn look(&self) -> Appending {
        self.inner.look()
    }

    fn closed(&self) -> Option<AppendError> {
        self.inner.closed()
    }

    fn flush(&self) -> Appending {
        self.inner.flush()
    }

    fn close(&self) -> Appending {
        self.inner.close()
    }
}

/// A verdict is told when the journal has it: else one that was told could be taken back by a restart.
#[test]
fn a_verdict_is_told_when_the_journal_has_it() {
    simulated(|runtime| async move {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, false));
        let (inner, kept) = memory.open(Description::default());
        let slow = Arc::new(AtomicBool::new(false));
        let journal = Slow { inner: Arc::new(inner), runtime: runtime.clone(), slow: slow.clone() };
        let (found, settings) = (Found::in_tier(kept), GateSettings::default());
        let (store, mapping, opens_late) = (database.clone(), String::new(), false);
        let options = GateOptions { runtime: runtime.clone(), store, journal, found, settings, mapping, opens_late };
        let gate = Gate::open(options).expect("it opens");
        gate.fail_for(Duration::from_secs(5));
        let mut stale = put(1, "a");
        stale.checks = vec![(Key::new(0, b"other"), Version { incarnation: 9, sequence: 9 })];
        let CommitOutcome::Buffered(kept) = commit(&gate, stale).await else { panic!("it is kept") };
        slow.store(true, Ordering::SeqCst);
        gate.fail_for(Duration::ZERO);
        runtime.sleep(Duration::from_millis(900)).await;
        assert_eq!(gate.state().amount.quarantined, 1, "it was found out");
        assert_eq!(gate.ticket(kept.ticket), TicketState::Pending, "the journal does not have it");
        let began = runtime.elapsed();
        let told = gate.wait_for(kept.ticket, Duration::from_secs(10)).await;
        assert!(matches!(told, TicketState::Conflict(_)), "{told:?}");
        assert!(runtime.elapsed() - began < Duration::from_secs(1), "as soon as the journal has it");
        drop(gate);
        let gate = open_in(&memory, &runtime, &database);
        assert!(matches!(gate.ticket(kept.ticket), TicketState::Conflict(_)), "a restart knows it");
    });
}

/// A ticket whose transaction was applied before a start is over, however many later ones are still quarantined; only
/// what may be part of one that is still there is pending.
#[test]
fn a_ticket_of_before_the_start_does_not_wait_for_others() {
    simulated(|runtime| async move {
        let (memory, database) = (Memory::new(1 << 20), Database::new(&runtime, true));
        let gate = open_in(&memory, &runtime, &database);
        database.inner.set_down(true);
        let mut tickets = Vec::new();
        for (sequence, name) in [(1, "first"), (2, "first"), (3, "second")] {
            let CommitOutcome::Buffered(kept) = commit(&gate, put(sequence, name)).await else { panic!("it is kept") };
            tickets.push(kept.ticket);
        }
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        assert!(tickets.iter().all(|ticket| matches!(gate.ticket(*ticket), TicketState::Applied(_))));
        database.inner.set_down(true);
        for sequence in 4..8 {
            let CommitOutcome::Buffered(kept) = commit(&gate, put(sequence, "last")).await else {
                panic!("it is kept")
            };
            tickets.push(kept.ticket);
        }
        drop(gate);
        let gate = open_in(&memory, &runtime, &database);
        let pending = gate.with_buffer(|buffer| buffer.numbers(None, 0, 10));
        let [.., last] = tickets[..] else { panic!("there are some") };
        assert_eq!(pending, [last], "they are one");
        assert_eq!(gate.ticket(tickets[5]), TicketState::Pending, "it is part of the last");
        drop(gate);
        // The same of one that nothing was merged into.
        let memory = Memory::new(1 << 20);
        let gate = open_in(&memory, &runtime, &database);
        database.inner.set_down(false);
        assert!(matches!(commit(&gate, put(10, "a")).await, CommitOutcome::Committed(_)));
        database.inner.set_down(true);
        let CommitOutcome::Buffered(first) = commit(&gate, put(11, "a")).await else { panic!("it is kept") };
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(5)).await;
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(12, "b")).await, CommitOutcome::Buffered(_)));
        drop(gate);
        let gate = open_in(&memory, &runtime, &database);
        assert_eq!(gate.state().amount.transactions, 1);
        assert_eq!(gate.ticket(first.ticket), TicketState::Over);
    });
}

/// Two starts in a row do not reach the database, and commit to it directly in between. The ids of the second are new:
/// the database would take what it buffers for what it has applied.
fn late_starts_give_new_ids(after: Duration) {
    simulated(move |runtime| async move {
        let (disk, database) = (Lossy::new(), Database::new(&runtime, false));
        let (_, reached) = open_on(&disk, &runtime, &database, || ());
        reached.start_remembering();
        runtime.sleep(Duration::from_secs(2)).await;
        drop(reached);
        let start = || {
            disk.kill();
            open_on(&disk, &runtime, &database, || ()).1.minted()
        };
        let first = start();
        runtime.sleep(after).await;
        let second = start();
        let committed = 60 * after.as_millis() as u64;
        assert!(second > first + committed, "{first} and {committed} more, then {second}");
    });
}

#[test]
fn a_start_that_does_not_reach_the_database_gives_new_ids() {
    for ms in [1, 10, 1_000] {
        late_starts_give_new_ids(Duration::from_millis(ms));
    }
    let _on = mutation::put_back(Some(Fault::IdsOfEarlierStart));
    assert!(std::panic::catch_unwind(|| late_starts_give_new_ids(Duration::from_millis(10))).is_err());
}
