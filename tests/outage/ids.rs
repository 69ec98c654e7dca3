//! Ids that clients give their transactions are remembered through restarts, by the store and by the journal.

use std::time::Instant;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, figure, said};
use crate::tables::cache;
use crate::{ok, start};

const IDS: [&str; 4] = [
    "00000000-0000-0000-0000-00000000000a",
    "00000000-0000-0000-0000-00000000000b",
    "00000000-0000-0000-0000-00000000000c",
    "00000000-0000-0000-0000-00000000000d",
];

/// Adds to a counter in a transaction with this id; what its begin says, then its commit.
fn add(client: &mut Connection, id: &str, request: &[&str]) -> (String, String) {
    let begun = said(&client.call(&["TXN", "BEGIN", "ID", id]));
    client.call(request);
    (begun, said(&client.call(&["TXN", "COMMIT"])))
}

#[test]
fn a_local_store_remembers_ids() {
    let mut forebay = Forebay::start("embedded", &[]);
    let (begun, first) = add(&mut Connection::new(forebay.address), IDS[0], &["INCR", "n"]);
    assert!(begun == "OK" && first.starts_with("OK "), "{begun} {first}");
    for _ in 0..2 {
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        let (begun, again) = add(&mut client, IDS[0], &["INCR", "n"]);
        assert_eq!((begun, &again), (first.replace("OK", "COMMITTED"), &first));
        assert_eq!(said(&client.call(&["GET", "n"])), "1");
    }
}

/// Fault 8 as far as it is a client's: a commit repeated under its id, before and after a restart, while the database
/// is there, while it is away, and when what was kept is applied.
fn remembered(maps: &[&str], key: &[&str], count: &[&str]) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE counts (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)");
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let mut forebay = start(&server, &database, &[maps, &["--start-in-failed"]].concat());
    let mut client = Connection::new(forebay.address);
    let (_, direct) = add(&mut client, IDS[0], key);
    assert!(direct.starts_with("OK "), "{direct}");
    client.call(count);
    if !maps.is_empty() {
        // What was written leaves the cache once more when it is seen in the table.
        cache(&mut client, &[count[1]]);
    }
    server.stop(Stop::Immediate);
    // Two that become one: neighbours on one document.
    let kept: Vec<String> = IDS[1..3].iter().map(|id| add(&mut client, id, key).1).collect();
    assert!(kept.iter().all(|told| told.starts_with("BUFFERED ")), "{kept:?}");
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    for id in &IDS[1..3] {
        let (begun, again) = add(&mut client, id, key);
        assert!(begun.starts_with("BUFFERED ") && again == begun, "{begun} {again}");
    }
    let first = kept[0].strip_prefix("BUFFERED ").expect("a ticket");
    assert_eq!(said(&client.call(&["CACHE", "WAIT", first, "0"])), "PENDING");
    // Nobody can say whether this one was committed before.
    let begun = said(&client.call(&["TXN", "BEGIN", "ID", IDS[0]]));
    assert!(begun.starts_with("STOREDOWN "), "{begun}");
    server.start_again();
    calm(forebay.address);
    for restarts in 0..2 {
        // What a ticket stood for is remembered until the restart; that it is over, for good. The first became part of
        // the second before the first restart.
        let ticket = kept[1].strip_prefix("BUFFERED ").expect("a ticket");
        let told = said(&client.call(&["CACHE", "WAIT", ticket, "0"]));
        assert!(told.starts_with(["APPLIED ", "OVER "][restarts]), "{told}");
        assert!(said(&client.call(&["CACHE", "WAIT", "999999999", "0"])).starts_with("ERR there is no ticket"));
        for id in &IDS[..3] {
            let (begun, again) = add(&mut client, id, key);
            assert!(begun.starts_with("COMMITTED ") && again.starts_with("OK "), "{restarts} {begun} {again}");
        }
        assert_eq!(said(&client.call(count)), "3");
        forebay.restart();
        client = Connection::new(forebay.address);
    }
    assert_eq!(add(&mut client, IDS[3], key).0, said(&ok()));
    assert_eq!(said(&client.call(count)), "4");
}

#[test]
fn a_commit_repeated_under_its_id_is_applied_once() {
    remembered(&[], &["INCR", "n"], &["GET", "n"]);
}

#[test]
fn and_so_it_is_in_front_of_tables() {
    remembered(&["--map", "count:{id} -> counts(id)"], &["HINCRBY", "count:1", "n", "1"], &["HGET", "count:1", "n"]);
}

/// An operator's decision outlives the process: the ticket and the id that the client gave say so.
#[test]
fn what_was_given_up_is_told_after_a_restart() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE counts (id integer PRIMARY KEY, n integer NOT NULL CHECK (n >= 0))");
    let maps = ["--map", "count:{id} -> counts(id)"];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let mut forebay = start(&server, &database, &maps);
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    let refused = ["HMSET", "count:1", "n", "-5"];
    let (_, kept) = add(&mut client, IDS[0], &refused);
    let ticket = kept.strip_prefix("BUFFERED ").expect("a ticket").to_owned();
    server.start_again();
    while figure(&mut client, "quarantined") == 0 {}
    // It may have been on its way when this process ends, until the database has said that it does not have it.
    server.stop(Stop::Immediate);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    let drop = ["CACHE", "QUARANTINE", "DROP", &ticket, "not wanted"];
    while !said(&client.call(&["CACHE", "STATE"])).contains("mode failed") {
        client.call(&["HGET", "count:9", "n"]);
    }
    let away = said(&client.call(&drop));
    assert!(away.starts_with("STOREDOWN ") && away.contains("it may have been sent"), "{away}");
    server.start_again();
    while !said(&client.call(&["CACHE", "STATE"])).contains("mode normal") {}
    // A database that has just started may still be too slow for one answer.
    let began = Instant::now();
    let mut given_up = client.call(&drop);
    while said(&given_up).starts_with("STOREDOWN ") && began.elapsed() < PATIENCE {
        given_up = client.call(&drop);
    }
    assert_eq!(given_up, ok());
    for _ in 0..2 {
        assert_eq!(said(&client.call(&["CACHE", "WAIT", &ticket, "0"])), "DROPPED not wanted");
        let (begun, _) = add(&mut client, IDS[0], &refused);
        assert_eq!(begun, "DROPPED not wanted");
        forebay.restart();
        client = Connection::new(forebay.address);
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM counts"), "0");
}

/// Two starts do not reach the database, and write to it directly once they do. What the second keeps has other ids
/// than the direct writes after the first: the database would take it for applied.
#[test]
fn starts_that_do_not_reach_the_database_give_other_ids() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE counts (id integer PRIMARY KEY, n integer)");
    let maps = ["--map", "count:{id} -> counts(id)", "--start-in-failed"];
    let mut forebay = start(&server, &database, &maps);
    let mut kept = Vec::new();
    for outage in 0..2 {
        server.stop(Stop::Immediate);
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        for number in 1..=5 * outage {
            let row = format!("count:{number}");
            assert_eq!(client.call(&["HMSET", &row, "n", "1"]), ok());
            kept.push(said(&client.call(&["CACHE", "OUTCOME"])));
        }
        server.start_again();
        calm(forebay.address);
        for number in 11..=13 {
            assert_eq!(client.call(&["HMSET", &format!("count:{number}"), "n", "2"]), ok());
        }
    }
    assert!(kept.len() == 5 && kept.iter().all(|told| told.starts_with("BUFFERED ")), "{kept:?}");
    let rows = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM counts";
    assert_eq!(server.sql(&database, rows), "1 2 3 4 5 11 12 13");
}
