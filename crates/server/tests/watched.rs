//! WATCH on keys that are absent, beside clearings.

mod common;

use common::{Peer, with_server};

#[test]
fn a_clearing_is_no_change_to_what_was_absent() {
    with_server(|shared, _| async move {
        let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
        for clearing in ["FLUSHALL", "FLUSHDB", "FLUSHALL\r\nSET elsewhere 1\r\nFLUSHDB"] {
            assert_eq!(peer.say("DEL k\r\nWATCH k").await.split('|').nth(1), Some("+OK"));
            assert!(other.say(clearing).await.ends_with("+OK|"));
            assert_eq!(peer.say("MULTI\r\nSET k 1\r\nEXEC").await, "+OK|+QUEUED|*1|+OK|", "{clearing}");
        }
    });
}

#[test]
fn what_was_written_between_has_changed() {
    with_server(|shared, _| async move {
        let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
        let changes = [
            "SET k 1",
            "SET k 1\r\nDEL k",
            "SET k 1\r\nFLUSHALL",
            "SET k 1\r\nDEL k\r\nFLUSHDB",
            "FLUSHALL\r\nSET k 1",
            "FLUSHALL\r\nSET k 1\r\nDEL k",
            "FLUSHALL\r\nSET k 1\r\nFLUSHALL",
        ];
        for change in changes {
            assert_eq!(peer.say("DEL k\r\nWATCH k").await.split('|').nth(1), Some("+OK"));
            other.say(change).await;
            assert_eq!(peer.say("MULTI\r\nSET k 2\r\nEXEC").await, "+OK|+QUEUED|*-1|", "{change}");
        }
        // What was there is gone with a clearing.
        assert_eq!(peer.say("SET k 1\r\nWATCH k").await, "+OK|+OK|");
        assert_eq!(other.say("FLUSHALL").await, "+OK|");
        assert_eq!(peer.say("MULTI\r\nSET k 2\r\nEXEC").await, "+OK|+QUEUED|*-1|");
    });
}
