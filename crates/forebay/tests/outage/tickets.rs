//! Tickets over starts.

use std::time::Duration;

use forebay::outage::TicketState;
use forebay::store::CommitOutcome;
use forebay::tier::memory::Memory;

use crate::gate::{Database, commit, open_in, put, simulated};

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
