//! Reads of what can only be read when something that is buffered is in the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay::store::{CommitOutcome, ReadError, Store};
use forebay::{Key, Read, Version};

use crate::gate::{commit, open, put, simulated};

/// With write-back, too, documents may share a row: one is read when what is buffered of the other is in the store,
/// which does not wait for its age then. Where that can't be, the error says why.
#[test]
fn a_document_of_a_row_waits_for_the_other() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, true, |settings| settings.write_back_ms = Some(60_000));
        let row = [Key::new(0, b"row:x")];
        assert!(matches!(commit(&gate, put(1, "list:x")).await, CommitOutcome::Buffered(_)));
        let began = runtime.elapsed();
        assert_eq!(gate.get(&row).await.map(|mut reads| reads.remove(0).value), Ok(None));
        assert!(runtime.elapsed() - began < Duration::from_millis(250));
        assert_eq!((gate.state().amount.transactions, gate.state().counts.applied), (0, 1));
        // The next is as old as it is again.
        assert!(matches!(commit(&gate, put(2, "list:x")).await, CommitOutcome::Buffered(_)));
        runtime.sleep(Duration::from_secs(1)).await;
        assert_eq!(gate.state().amount.transactions, 1);
        let why = |answer: Result<Vec<Read>, ReadError>| answer.expect_err("it waits").to_string();
        gate.fail_for(Duration::from_secs(10));
        let away = why(gate.get(&row).await);
        assert!(away.contains("store unreachable for 0 s (an operator ordered it"), "{away}");
        gate.fail_for(Duration::ZERO);
        runtime.sleep(Duration::from_secs(1)).await;
        database.incarnation.store(2, Ordering::SeqCst);
        let suspended = why(gate.get(&row).await);
        assert!(suspended.contains("row:x waits for what is buffered before it, which waits for an"), "{suspended}");
    });
}

/// A read does not wait for what waits for an operator.
#[test]
fn a_document_whose_row_has_something_quarantined_says_so() {
    simulated(|runtime| async move {
        let (_, gate) = open(&runtime, false, |settings| settings.write_back_ms = Some(60_000));
        let row = [Key::new(0, b"row:x")];
        let mut stale = put(1, "list:x");
        stale.checks = vec![(Key::new(0, b"other"), Version { incarnation: 9, sequence: 9 })];
        assert!(matches!(commit(&gate, stale).await, CommitOutcome::Buffered(_)));
        for _ in 0..2 {
            let began = runtime.elapsed();
            let stuck = gate.get(&row).await.expect_err("it is in quarantine").to_string();
            assert!(stuck.contains("which waits for an operator"), "{stuck}");
            assert!(runtime.elapsed() - began < Duration::from_millis(250));
        }
        assert_eq!(gate.state().amount.quarantined, 1);
    });
}

/// What the cache asks for itself is no read that was refused, and nothing is applied early for it.
#[test]
fn looks_of_the_cache_are_not_counted() {
    simulated(|runtime| async move {
        let (_, gate) = open(&runtime, true, |settings| settings.write_back_ms = Some(60_000));
        let row = [Key::new(0, b"row:x")];
        assert!(matches!(commit(&gate, put(1, "list:x")).await, CommitOutcome::Buffered(_)));
        let began = runtime.elapsed();
        assert!(gate.peek(&row, usize::MAX).await.is_err());
        assert_eq!(gate.peek(&[Key::new(0, b"list:x")], usize::MAX).await.map(|reads| reads.len()), Ok(1));
        assert_eq!((runtime.elapsed() - began, gate.state().counts.applied), (Duration::ZERO, 0));
        gate.fail_for(Duration::from_secs(10));
        let keys = [Key::new(0, b"y")];
        assert!(gate.peek(&keys, usize::MAX).await.is_err() && gate.peek(&row, usize::MAX).await.is_err());
        let counts = gate.state().counts;
        assert_eq!((counts.reads_refused, counts.reads_merged), (0, 0));
        assert!(gate.get(&keys).await.is_err() && gate.get(&row).await.is_err());
        assert_eq!(gate.state().counts.reads_refused, 2);
    });
}
