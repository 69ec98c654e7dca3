//! Interactive transactions yield to plain commands, scripts and clearings, and keep durations until their commit; in
//! virtual time.

mod common;

use std::time::Duration;

use common::{Peer, with_server};

const WOUNDED: &str = "-TXABORTED wounded:";

#[test]
fn a_plain_command_a_script_and_a_clearing_are_yielded_to() {
    with_server(|shared, runtime| async move {
        for (opened, waits, answer, reason) in [
            ("TXN BEGIN\r\nSET k 1", "SET k 2", "+OK|", "SET k"),
            ("TXN BEGIN READONLY\r\nGET k", "SET k 3", "+OK|", "SET k"),
            ("TXN BEGIN\r\nGET k", "MULTI\r\nSET k 4\r\nEXEC", "+OK|+QUEUED|*1|+OK|", "EXEC k"),
            ("TXN BEGIN\r\nGET elsewhere", "FLUSHALL", "+OK|", "FLUSHALL"),
            ("TXN BEGIN\r\nGET elsewhere", "FLUSHDB", "+OK|", "FLUSHDB"),
        ] {
            let (mut holder, other) = (Peer::new(&shared), Peer::new(&shared));
            let answers = holder.say(opened).await;
            assert!(!answers.contains("|-"), "{answers}");
            let began = runtime.elapsed();
            let (said, _) = other.says(waits, &runtime).await.expect("it is answered");
            assert_eq!(said, answer, "{waits}");
            assert_eq!(runtime.elapsed() - began, Duration::from_millis(250), "{waits}");
            let told = format!("{WOUNDED} {reason} waited 250 ms|");
            assert_eq!(holder.say("GET k").await, told);
            assert_eq!(holder.say("TXN COMMIT").await, told);
            assert_eq!(holder.say("TXN COMMIT").await, "-ERR TXN COMMIT without TXN BEGIN|");
        }
        assert_eq!((shared.engine.locked_keys(), shared.engine.wounded()), (0, 5));
    });
}

/// One that waits for a lock itself is told at once; its other keys are free at once.
#[test]
fn one_that_waits_yields_too() {
    with_server(|shared, runtime| async move {
        let (mut first, mut second, mut plain) = (Peer::new(&shared), Peer::new(&shared), Peer::new(&shared));
        assert_eq!(first.say("TXN BEGIN\r\nSET a 1").await, "+OK|+OK|");
        assert_eq!(second.say("TXN BEGIN\r\nSET b 1").await, "+OK|+OK|");
        let waits = second.says("SET a 2", &runtime);
        assert_eq!(plain.say("SET b 2").await, "+OK|");
        let (told, _) = waits.await.expect("it is told");
        assert_eq!(told, format!("{WOUNDED} SET b waited 250 ms|"));
        // Nobody but a transaction waited for the other.
        assert!(first.say("TXN COMMIT").await.starts_with("+OK"));
        assert_eq!(plain.say("MGET a b").await, "*2|$1|1|$1|2|");
    });
}

#[test]
fn transactions_do_not_yield_to_each_other() {
    with_server(|shared, runtime| async move {
        let (mut first, second) = (Peer::new(&shared), Peer::new(&shared));
        assert_eq!(first.say("TXN BEGIN\r\nSET a 1").await, "+OK|+OK|");
        let (told, _) = second.says("TXN BEGIN\r\nSET a 2", &runtime).await.expect("its wait has an end");
        assert!(told.starts_with("+OK|-TXCONFLICT waited"), "{told}");
        assert!(first.say("TXN COMMIT").await.starts_with("+OK"));
        assert_eq!(shared.engine.wounded(), 0);
    });
}

/// Readers of a key that take turns keep no writer out.
#[test]
fn readers_in_turn_do_not_keep_a_writer_waiting() {
    with_server(|shared, runtime| async move {
        let mut readers = [Peer::new(&shared), Peer::new(&shared), Peer::new(&shared)];
        for reader in &mut readers {
            assert_eq!(reader.say("TXN BEGIN READONLY\r\nGET hot").await, "+OK|$-1|");
        }
        let began = runtime.elapsed();
        let (said, mut writer) = Peer::new(&shared).says("SET hot 1", &runtime).await.expect("it is answered");
        assert_eq!((said.as_str(), runtime.elapsed() - began), ("+OK|", Duration::from_millis(250)));
        for reader in &mut readers {
            assert!(reader.say("GET hot").await.starts_with(WOUNDED));
        }
        assert_eq!(writer.say("GET hot").await, "$1|1|");
    });
}

#[test]
fn keys_are_locked_together() {
    with_server(|shared, runtime| async move {
        let (mut first, second) = (Peer::new(&shared), Peer::new(&shared));
        let outside = first.say("TXN LOCK a").await;
        assert_eq!(outside, "-ERR TXN LOCK without TXN BEGIN|");
        assert_eq!(first.say("TXN BEGIN\r\nTXN LOCK b a b\r\nGET a").await, "+OK|+OK|$-1|");
        assert_eq!(shared.engine.locked_keys(), 2);
        // Others may read on, and lock when it is their turn.
        let (told, _) = Peer::new(&shared).says("TXN BEGIN\r\nGET b\r\nTXN ABORT", &runtime).await.expect("a reply");
        assert_eq!(told, "+OK|$-1|+OK|");
        let waits = second.says("TXN BEGIN\r\nTXN LOCK a\r\nGET a\r\nSET a 2\r\nTXN COMMIT", &runtime);
        assert_eq!(first.say("SET a 1").await, "+OK|");
        assert!(first.say("TXN COMMIT").await.starts_with("+OK"));
        let (told, _) = waits.await.expect("it has its turn");
        assert!(told.starts_with("+OK|+OK|$1|1|+OK|+OK"), "{told}");
        let refused = first.say("TXN BEGIN READONLY\r\nTXN LOCK a").await;
        assert_eq!(refused, "+OK|-ERR the transaction was begun READONLY|");
    });
}

#[test]
fn durations_count_from_the_commit() {
    with_server(|shared, runtime| async move {
        let mut peer = Peer::new(&shared);
        let at_ms = runtime.now_ms() + 60_000;
        // The transaction has looked at its clock.
        assert_eq!(peer.say("SET m 1 PX 100000\r\nTXN BEGIN\r\nTTL k\r\nPTTL m").await, "+OK|+OK|:-2|:100000|");
        runtime.sleep(Duration::from_millis(3200)).await;
        assert_eq!(
            peer.say("SET k v EX 3\r\nPTTL k\r\nSET l v\r\nEXPIRE l 3\r\nPTTL l").await,
            "+OK|:3000|+OK|:1|:3000|"
        );
        assert_eq!(peer.say("EXPIRE l 2 GT\r\nPTTL l\r\nSET k w KEEPTTL\r\nCOPY k copied").await, ":0|:3000|+OK|:1|");
        assert_eq!(peer.say(&format!("PEXPIREAT m {at_ms}\r\nINCR m\r\nPTTL m")).await, ":1|:2|:60000|");
        assert!(peer.say("TXN COMMIT").await.starts_with("+OK"));
        assert_eq!(peer.say("PTTL k\r\nPTTL l\r\nPTTL copied").await, ":3000|:3000|:3000|");
        assert_eq!(peer.say("PEXPIRETIME m").await, format!(":{at_ms}|"));
        runtime.sleep(Duration::from_millis(2999)).await;
        assert_eq!(peer.say("GET k").await, "$1|w|");
        runtime.sleep(Duration::from_millis(2)).await;
        assert_eq!(peer.say("GET k").await, "$-1|");
    });
}
