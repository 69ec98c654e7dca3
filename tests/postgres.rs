//! The real binary over a real PostgreSQL.

mod common;
#[path = "common/postgres.rs"]
mod postgres;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;
use postgres::{Server, Stop};

/// A database on a busy machine, and locks that wait longer than it.
const PATIENT: [&str; 6] = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];

fn start(server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url(database), &[&PATIENT[..], more].concat())
}

#[test]
fn any_client_reads_and_writes_documents() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "a", "1"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["INCRBY", "a", "41"]), Reply::Integer(42));
    assert_eq!(client.call(&["HSET", "h", "f", "v", "g", "w"]), Reply::Integer(2));
    assert_eq!(client.call(&["RPUSH", "l", "1", "2", "3"]), Reply::Integer(3));
    client.call(&["MULTI"]);
    client.call(&["INCR", "a"]);
    client.call(&["HDEL", "h", "g"]);
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![Reply::Integer(43), Reply::Integer(1)]));
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(3));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["GET", "a"]), Reply::bulk(b"43"));
    assert_eq!(client.call(&["HGETALL", "h"]), Reply::Array(vec![Reply::bulk(b"f"), Reply::bulk(b"v")]));
    assert_eq!(
        client.call(&["LRANGE", "l", "0", "-1"]),
        Reply::Array(["1", "2", "3"].map(|e| Reply::bulk(e.as_bytes())).into())
    );
    assert_eq!(client.call(&["FLUSHALL"]), Reply::Simple("OK".into()));
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "0");
    forebay.terminate();
}

/// Counters, while PostgreSQL is stopped as in a crash and started again: what was acknowledged is there exactly once.
#[test]
fn counters_stay_exact_over_crashes_of_the_database() {
    let server = Server::start();
    let database = server.database();
    let forebay = start(&server, &database, &[]);
    let stop = AtomicBool::new(false);
    let counted: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let count = || {
            let mut client = Connection::new(forebay.address);
            let (mut acknowledged, mut unknown) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                match client.call(&["INCR", "counter"]) {
                    Reply::Integer(_) => acknowledged += 1,
                    Reply::Error(text) if text.starts_with(b"TXUNKNOWN") => unknown += 1,
                    Reply::Error(text) if text.starts_with(b"STOREDOWN") => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    other => panic!("{other:?}"),
                }
            }
            (acknowledged, unknown)
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(400));
            server.stop(Stop::Immediate);
            std::thread::sleep(Duration::from_millis(200));
            server.start_again();
        }
        std::thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("the client ends well")).collect()
    });
    let acknowledged: u64 = counted.iter().map(|(acknowledged, _)| acknowledged).sum();
    let unknown: u64 = counted.iter().map(|(_, unknown)| unknown).sum();
    let mut client = Connection::new(forebay.address);
    let there = loop {
        match client.call(&["GET", "counter"]) {
            Reply::Bulk(text) => break String::from_utf8_lossy(&text).parse::<u64>().expect("a number"),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    assert!(acknowledged > 0);
    assert!((acknowledged..=acknowledged + unknown).contains(&there), "{there}: {acknowledged} and {unknown} unknown");
}

#[test]
fn what_is_wrong_is_said_at_the_start() {
    let refused = |arguments: &[&str]| {
        let mut command = forebay_command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off"]).args(arguments);
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = refused(&["--store", "postgres://app@127.0.0.1:1/shop"]);
    assert!(text.contains("can't reach PostgreSQL at 127.0.0.1:1/shop"), "{text}");
    let text = refused(&["--store", "postgres://app:secret@127.0.0.1/shop"]);
    assert!(text.contains("--store-password-file"), "{text}");
    let text = refused(&["--store", "postgres://app@127.0.0.1/shop", "--store-timeout-ms", "500"]);
    assert!(text.contains("lock-wait-ms-min"), "{text}");
    let text = refused(&["--store", "postgres://app@127.0.0.1/shop", "--durability", "never"]);
    assert!(text.contains("durability"), "{text}");
}
