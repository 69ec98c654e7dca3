//! The text of a record names some of its fields: what is written so stays readable in an outage.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, figure, mode, said};
use crate::tables::{cache, shop};
use crate::{ok, start};

/// A record that was cached whole is still known whole.
#[test]
fn a_record_that_was_cached_is_known_behind_a_set() {
    let (server, database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1", "album:2"]);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "album:1", "{\"name\": \"summer\"}"]), ok());
    let album = said(&client.call(&["GET", "album:1"]));
    assert!(album.contains("summer") && album.contains("family"), "{album}");
    assert_eq!(said(&client.call(&["HGET", "album:1", "shared"])), "family");
    assert_eq!(client.call(&["HSET", "album:1", "shared", "all"]), Reply::Integer(0));
    assert_eq!(client.call(&["MSET", "album:1", "{\"name\": \"autumn\"}"]), ok());
    assert_eq!(said(&client.call(&["HMGET", "album:1", "name", "shared"])), "autumn all");
    // One that is known not to be there, too.
    assert_eq!(client.call(&["SET", "album:2", "{\"name\": \"winter\"}"]), ok());
    assert_eq!(client.call(&["HSETNX", "album:2", "shared", "none"]), Reply::Integer(1));
    server.start_again();
    calm(forebay.address);
    let rows = server.sql(&database, "SELECT string_agg(name || ' ' || shared, ', ' ORDER BY id) FROM albums");
    assert_eq!(rows, "autumn all, winter none");
}

/// What was written unseen is read as a merge with the row, as soon as the database answers: also while the write is
/// quarantined.
#[test]
fn what_was_written_unseen_is_read_as_a_merge() {
    let (server, database, forebay) = shop(&[]);
    server.sql(&database, "INSERT INTO albums VALUES (2, 'summer', 'friends')");
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "album:2", "{\"name\": \"spring\"}"]), ok(), "a name that is taken");
    let refused = said(&client.call(&["HGETALL", "album:2"]));
    assert!(refused.starts_with("STOREDOWN ") && refused.contains("store unreachable for"), "{refused}");
    server.start_again();
    let began = Instant::now();
    while figure(&mut client, "quarantined") == 0 || mode(&mut client) != "normal" {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(said(&client.call(&["HMGET", "album:2", "name", "shared"])), "spring friends");
    assert!(said(&client.call(&["GET", "album:2"])).contains("friends"));
    assert_eq!(client.call(&["HSET", "album:2", "shared", "all"]), Reply::Integer(0), "behind it");
    assert_eq!(said(&client.call(&["HGET", "album:2", "shared"])), "all");
    server.sql(&database, "UPDATE albums SET name = 'first' WHERE id = 1");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT name || ' ' || shared FROM albums WHERE id = 2"), "spring all");
    let log = forebay.log();
    assert!(log.contains("(recovered 0/1 in ") && log.contains(" ms, 0 conflicts, 1 quarantined)"), "{log}");
    assert!(log.contains("(recovered 2/2 in ") && log.contains(" ms, 0 conflicts)"), "{log}");
}

/// What is buffered on purpose is read whole, does not keep a strict client from the database, and is there after an
/// orderly end.
#[test]
fn what_is_buffered_on_purpose_is_there_in_the_end() {
    let (server, database, mut forebay) = shop(&["--write-back-ms", "3600000"]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "album:1", "{\"name\": \"summer\"}"]), ok());
    let album = said(&client.call(&["GET", "album:1"]));
    assert!(album.contains("summer") && album.contains("family"), "{album}");
    let mut strict = Connection::new(forebay.address);
    assert_eq!(strict.call(&["CACHE", "STRICT", "ON"]), ok());
    assert_eq!(strict.call(&["SET", "album:2", "{\"name\": \"winter\"}"]), ok(), "behind what is buffered");
    assert_eq!(server.sql(&database, "SELECT string_agg(name, ' ' ORDER BY id) FROM albums"), "summer winter");
    assert_eq!(client.call(&["HMSET", "album:2", "shared", "all"]), ok());
    assert_eq!(figure(&mut client, "pending"), 1);
    forebay.terminate();
    assert_eq!(server.sql(&database, "SELECT shared FROM albums WHERE id = 2"), "all");
}

/// A document that forebay owns is gone when it expires, whether the database is there or not.
#[test]
fn a_document_that_expires_in_an_outage_is_gone() {
    let server = Server::start();
    let database = server.database();
    let forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "before", "1", "PX", "2000"]), ok());
    assert_eq!(said(&client.call(&["GET", "before"])), "1");
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "within", "1", "PX", "1000"]), ok());
    assert_eq!(said(&client.call(&["GET", "within"])), "1");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(client.call(&["GET", "before"]), Reply::Nil);
    assert_eq!(client.call(&["GET", "within"]), Reply::Nil);
    server.start_again();
    calm(forebay.address);
    assert_eq!(client.call(&["EXISTS", "before", "within"]), Reply::Integer(0));
}
