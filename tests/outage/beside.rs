//! Documents beside rows (`--keys`) while the database is away: both are kept, shown, and applied together, once.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::lanes::away;
use crate::postgres::{Server, Stop};
use crate::start;
use crate::state::{PATIENCE, calm, figure, said};

const TABLE: &str = "CREATE TABLE counts (id integer PRIMARY KEY, n integer CHECK (n < 1000)); \
    INSERT INTO counts SELECT i, 0 FROM generate_series(1, 9) AS i";

const SETTINGS: [&str; 4] = ["--map", "count:{id} -> counts(id)", "--keys", "* -> documents"];

fn world() -> (Server, String, Forebay) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLE);
    let forebay = start(&server, &database, &SETTINGS);
    (server, database, forebay)
}

fn call(client: &mut Connection, line: &str) -> Reply {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

fn number(client: &mut Connection, line: &str) -> i64 {
    match call(client, line) {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).parse().expect("a number"),
        other => panic!("{line}: {other:?}"),
    }
}

/// What each of both has counted.
fn counts(client: &mut Connection) -> Vec<(i64, i64)> {
    let both = |at: i64| (number(client, &format!("HGET count:{at} n")), number(client, &format!("GET n:{at}")));
    (1..=3).map(both).collect()
}

/// Adds to both, as one transaction; whether it was told so.
fn add(client: &mut Connection, at: usize) -> bool {
    let lines = ["MULTI".to_owned(), format!("HINCRBY count:{at} n 1"), format!("INCR n:{at}"), "EXEC".to_owned()];
    matches!(lines.iter().map(|line| call(client, line)).last(), Some(Reply::Array(_)))
}

/// The store stops as in a crash while transactions come that change a row and a document, and starts again; now and
/// then forebay is killed.
#[test]
fn rows_and_documents_stay_one_over_outages_and_kills() {
    let (server, _, mut forebay) = world();
    let mut client = Connection::new(forebay.address);
    for at in 1..=3 {
        call(&mut client, &format!("SET n:{at} 0"));
    }
    let (mut told, mut asked) = ([0_i64; 3], [0_i64; 3]);
    for turn in 0..6_u64 {
        let began = Instant::now();
        // All is cached, so that it is known in the outage.
        counts(&mut client);
        server.stop(Stop::Immediate);
        for step in 0..30 {
            let at = step % 3;
            asked[at] += 1;
            told[at] += i64::from(add(&mut client, at + 1));
        }
        if turn % 2 == 1 {
            forebay.kill9();
            if turn == 1 {
                server.start_again();
            }
            forebay.restart();
            client = Connection::new(forebay.address);
        }
        if turn > 1 && turn % 2 == 1 {
            // Started while the database is away: what waits is shown, and more comes.
            let (row, document) = (number(&mut client, "HGET count:1 n"), number(&mut client, "GET n:1"));
            assert_eq!(row, document, "turn {turn}");
            asked[0] += 1;
            told[0] += i64::from(add(&mut client, 1));
        }
        if turn != 1 {
            server.start_again();
        }
        if turn == 3 {
            // In the drain, once more.
            forebay.kill9();
            forebay.restart();
            client = Connection::new(forebay.address);
        }
        calm(forebay.address);
        for (at, (row, document)) in counts(&mut client).into_iter().enumerate() {
            assert_eq!(row, document, "turn {turn}: half of a transaction");
            assert!((told[at]..=asked[at]).contains(&row), "turn {turn}: {row} of {} {}", told[at], asked[at]);
        }
        assert!(began.elapsed() < PATIENCE, "turn {turn}");
    }
    assert!(told.iter().sum::<i64>() > 90, "{told:?}: most were kept");
    assert_eq!(figure(&mut client, "quarantined"), 0);
}

#[test]
fn what_is_kept_is_shown_with_its_expiry_and_its_database() {
    let (server, database, mut forebay) = world();
    let mut client = Connection::new(forebay.address);
    for key in ["s:1", "list", "gone"] {
        assert!(matches!(call(&mut client, &format!("EXISTS {key}")), Reply::Integer(0)), "it is cached as absent");
    }
    call(&mut client, "SET gone 1");
    away(&mut client, true);
    let mut says = |line: &str, expected: Reply| assert_eq!(call(&mut client, line), expected, "{line}");
    let ok = || Reply::Simple("OK".into());
    says("SET s:1 x EX 500", ok());
    says("TTL s:1", Reply::Integer(500));
    says("APPEND s:1 y", Reply::Integer(2));
    says("RPUSH list a b", Reply::Integer(2));
    says("LPOP list", Reply::bulk(b"a"));
    says("DEL gone", Reply::Integer(1));
    says("GET gone", Reply::Nil);
    says("SELECT 5", ok());
    says("SET count:1 document", ok());
    says("GET count:1", Reply::bulk(b"document"));
    says("SELECT 0", ok());
    assert!(said(&call(&mut client, "FLUSHDB")).starts_with("STOREDOWN"), "it is refused");
    forebay.kill9();
    forebay.restart();
    calm(forebay.address);
    let mut client = Connection::new(forebay.address);
    assert_eq!(call(&mut client, "GET s:1"), Reply::bulk(b"xy"));
    let Reply::Integer(left) = call(&mut client, "TTL s:1") else { panic!("a number") };
    assert!((400..=500).contains(&left), "{left}");
    assert_eq!(call(&mut client, "LRANGE list 0 -1"), Reply::Array(vec![Reply::bulk(b"b")]));
    assert_eq!(call(&mut client, "EXISTS gone"), Reply::Integer(0));
    call(&mut client, "SELECT 5");
    assert_eq!(call(&mut client, "GET count:1"), Reply::bulk(b"document"));
    assert_eq!(server.sql(&database, "SELECT sum(n) FROM counts"), "0");
    assert_eq!(figure(&mut client, "quarantined"), 0);
}

/// What the database refuses of a row takes the documents of its transaction along.
#[test]
fn what_is_set_aside_is_so_as_a_whole() {
    let (server, database, forebay) = world();
    let mut client = Connection::new(forebay.address);
    for line in ["SET n:1 0", "SET n:2 0", "HGET count:1 n", "HGET count:2 n", "GET n:1", "GET n:2"] {
        call(&mut client, line);
    }
    away(&mut client, true);
    for line in ["MULTI", "HINCRBY count:1 n 1", "INCR n:1", "EXEC", "MULTI", "HINCRBY count:2 n 1", "INCR n:2", "EXEC"]
    {
        call(&mut client, line);
    }
    assert_eq!((number(&mut client, "GET n:1"), number(&mut client, "HGET count:1 n")), (1, 1));
    server.sql(&database, "ALTER TABLE counts ADD CONSTRAINT later CHECK (id <> 1 OR n = 0)");
    away(&mut client, false);
    let began = Instant::now();
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", call(&mut client, "CACHE STATE"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(server.sql(&database, "SELECT n FROM counts WHERE id < 3 ORDER BY id"), "0\n1");
    let listed = said(&call(&mut client, "CACHE QUARANTINE LIST"));
    assert!(listed.contains("n:1") && listed.contains("count:1") && !listed.contains("n:2"), "{listed}");
    server.sql(&database, "ALTER TABLE counts DROP CONSTRAINT later");
    assert!(!matches!(call(&mut client, "CACHE QUARANTINE RETRY ALL"), Reply::Error(_)));
    calm(forebay.address);
    assert_eq!((number(&mut client, "GET n:1"), number(&mut client, "HGET count:1 n")), (1, 1));
}
