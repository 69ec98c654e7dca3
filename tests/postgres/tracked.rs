//! Clients that keep what they read (CLIENT TRACKING), in front of tables that other programs write to.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use super::outside::{Program, world};
use crate::common::Connection;
use crate::common::process::Forebay;

const PATIENCE: Duration = Duration::from_secs(20);

/// The first look at what others write tells that all may have changed: waits until that is over.
fn looked_at(forebay: &Forebay) {
    assert_eq!(Connection::new(forebay.address).call(&["CACHE", "SYNC"]), Reply::Simple("OK".into()));
}

/// A connection of RESP3 that tracks, and has read these keys.
pub fn tracking(forebay: &Forebay, mode: &[&str], keys: &[&str]) -> Connection {
    let mut client = Connection::new(forebay.address);
    client.call(&["HELLO", "3"]);
    assert_eq!(client.call(&[&["CLIENT", "TRACKING", "ON"], mode].concat()), Reply::Simple("OK".into()));
    read(&mut client, keys);
    client
}

fn read(client: &mut Connection, keys: &[&str]) {
    for key in keys {
        let reply = client.call(&["HGETALL", key]);
        assert!(matches!(reply, Reply::Map(_)), "{key}: {reply:?}");
    }
}

/// What it is told next: names, or `*` for everything.
pub fn told(client: &mut Connection) -> Vec<String> {
    let Reply::Push(parts) = client.receive() else { panic!("nothing was asked") };
    assert_eq!(parts[0], Reply::bulk(b"invalidate"));
    match &parts[1] {
        Reply::Array(names) => names.iter().map(name).collect(),
        _ => vec!["*".into()],
    }
}

fn name(reply: &Reply) -> String {
    let Reply::Bulk(name) = reply else { panic!("{reply:?}") };
    String::from_utf8_lossy(name).into_owned()
}

/// Whether it was told nothing up to now.
fn is_untold(client: &mut Connection) -> bool {
    client.call(&["PING"]) == Reply::Simple("PONG".into())
}

/// Of rows with triggers the server looks at what was written; of others it compares what is cached.
#[test]
fn clients_are_told_what_others_write() {
    let (server, database, forebay) = world(true, &["--unwatched-ms", "50"]);
    looked_at(&forebay);
    let mut keeps = tracking(&forebay, &[], &["user:1", "user:2", "plain:1"]);
    let mut by_prefix = tracking(&forebay, &["BCAST", "PREFIX", "user:"], &["user:1"]);
    // By a psql, which knows nothing of forebay.
    server.sql(&database, "UPDATE users SET visits = 5 WHERE id = 1");
    assert_eq!((told(&mut keeps), told(&mut by_prefix)), (vec!["user:1".into()], vec!["user:1".into()]));
    assert_eq!(keeps.call(&["HGET", "user:1", "visits"]), Reply::bulk(b"5"), "it was told of what is visible");
    assert!(is_untold(&mut keeps));
    server.sql(&database, "DELETE FROM users WHERE id = 2");
    assert_eq!((told(&mut keeps), told(&mut by_prefix)), (vec!["user:2".into()], vec!["user:2".into()]));
    // What is compared was read before: else there is nothing to compare.
    let began = Instant::now();
    server.sql(&database, "UPDATE plain SET visits = 5 WHERE id = 1");
    let mut other = Connection::new(forebay.address);
    while other.call(&["HGET", "plain:1", "visits"]) != Reply::bulk(b"5") {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(told(&mut keeps), ["plain:1"]);
    // The operator knows better.
    read(&mut keeps, &["user:3", "plain:2"]);
    assert_eq!(other.call(&["CACHE", "INVALIDATE", "plain:2"]), Reply::Integer(1));
    assert_eq!(told(&mut keeps), ["plain:2"]);
    assert_eq!(other.call(&["CACHE", "RESET"]), Reply::Simple("OK".into()));
    assert_eq!((told(&mut keeps), told(&mut by_prefix)), (vec!["*".into()], vec!["*".into()]));
}

/// TRUNCATE names no rows.
#[test]
fn clients_are_told_what_goes_as_a_whole() {
    let (server, database, forebay) = world(true, &[]);
    looked_at(&forebay);
    let mut keeps = tracking(&forebay, &[], &["user:1"]);
    Program::new(&server, &database).sql("BEGIN; UPDATE users SET visits = 7 WHERE id = 1; TRUNCATE users; COMMIT");
    let told = told(&mut keeps);
    assert!(told == ["*"] || told == ["user:1"], "{told:?}");
    let reply = keeps.call(&["HGETALL", "user:1"]);
    assert_eq!(reply, Reply::Map(Vec::new()));
}

/// A restart ends all connections, and so what was tracked over them: a client gives up what it has kept.
#[test]
fn a_restart_ends_what_was_tracked() {
    let (_server, _database, mut forebay) = world(true, &[]);
    let mut keeps = tracking(&forebay, &[], &["user:1"]);
    forebay.restart();
    assert!(keeps.is_closed());
    looked_at(&forebay);
    let mut keeps = tracking(&forebay, &[], &["user:1"]);
    let mut other = Connection::new(forebay.address);
    assert_eq!(other.call(&["HINCRBY", "user:1", "visits", "1"]), Reply::Integer(1));
    assert_eq!(told(&mut keeps), ["user:1"]);
}
