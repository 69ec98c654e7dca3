//! What becomes of requests that wait out CLIENT PAUSE, in virtual time.

mod common;

use std::time::Duration;

use common::{Peer, with_server};

#[test]
fn who_is_killed_in_a_pause_is_not_served() {
    with_server(|shared, runtime| async move {
        let (mut operator, other) = (Peer::new(&shared), Peer::new(&shared));
        let id = other.0.client.id;
        assert_eq!(operator.say("CLIENT PAUSE 600000 WRITE").await, "+OK|");
        let waits = other.says("GET k\r\nSET k 1\r\nSET l 1", &runtime);
        runtime.sleep(Duration::from_millis(100)).await;
        assert_eq!(operator.say(&format!("CLIENT KILL ID {id}")).await, ":1|");
        let (answer, other) = waits.await.expect("it is told at once");
        assert_eq!((answer.as_str(), other.0.closing), ("$-1|", true));
        drop(other);
        assert_eq!(operator.say("MGET k l").await, "*2|$-1|$-1|");
        assert_eq!(operator.say("CLIENT UNPAUSE\r\nMGET k l").await, "+OK|*2|$-1|$-1|");
    });
}

#[test]
fn a_transaction_does_not_hold_its_locks_for_as_long_as_a_pause() {
    with_server(|shared, runtime| async move {
        let (mut operator, mut other) = (Peer::new(&shared), Peer::new(&shared));
        assert_eq!(other.say("TXN BEGIN\r\nSET k 1").await, "+OK|+OK|");
        assert_eq!(operator.say("CLIENT PAUSE 600000 WRITE").await, "+OK|");
        let waits = other.says("INCR k\r\nTXN COMMIT", &runtime);
        // Its client is not idle: it waits for us.
        runtime.sleep(Duration::from_secs(15)).await;
        assert_eq!(shared.engine.locked_keys(), 1);
        runtime.sleep(Duration::from_secs(10)).await;
        assert_eq!(shared.engine.locked_keys(), 0);
        assert_eq!(operator.say("CLIENT UNPAUSE").await, "+OK|");
        let (answer, mut other) = waits.await.expect("it is told");
        assert_eq!(answer, "-TXABORTED timeout: txn_ms_max|-TXABORTED timeout: txn_ms_max|");
        assert_eq!(other.say("GET k").await, "$-1|");
    });
}

#[test]
fn a_transaction_goes_on_after_a_pause() {
    with_server(|shared, runtime| async move {
        let (mut operator, mut other) = (Peer::new(&shared), Peer::new(&shared));
        assert_eq!(other.say("TXN BEGIN\r\nSET k 1").await, "+OK|+OK|");
        assert_eq!(operator.say("CLIENT PAUSE 15000").await, "+OK|");
        let (answer, mut other) = other.says("INCR k", &runtime).await.expect("the pause ends");
        assert_eq!(answer, ":2|");
        assert!(other.say("TXN COMMIT").await.starts_with("+OK"));
        assert_eq!(operator.say("GET k").await, "$1|2|");
    });
}
