//! Fault 19: the database answers reads and takes no writes. These are buffered, and reads are merged with them.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure, mode, said};
use crate::tables::shop;
use crate::{ok, start};

/// Documents of which nothing is cached.
const COLD: usize = 12;

fn cold(number: usize) -> String {
    format!("cold{number}")
}

/// Documents in the database, of which some are changed while it refuses writes; checks what is read during that.
fn written_while_refused(forebay: &Forebay) {
    let mut client = Connection::new(forebay.address);
    for number in 0..COLD {
        assert_eq!(client.call(&["INCRBY", &cold(number), "3"]), Reply::Integer(4), "known by a read, and buffered");
    }
    // In the mode failed as in recovery: what waits is merged, what does not is read.
    for round in 0..3 {
        for number in 0..COLD {
            assert_eq!(said(&client.call(&["GET", &cold(number)])), "4");
        }
        let other = format!("other{round}");
        assert_eq!(said(&client.call(&["GET", &other])), "1", "{other}");
        let replies = client.pipeline(&[
            vec!["MULTI"],
            vec!["INCR", "sum"],
            vec!["RPUSH", "list", &other],
            vec!["GET", "cold0"],
            vec!["EXEC"],
        ]);
        let last = replies.last().map(said).unwrap_or_default();
        assert_eq!(last, format!("Integer({0}) Integer({0}) 4", round + 1));
    }
    assert!(figure(&mut client, "pending") > 0, "nothing waits");
}

/// Documents that the cache has forgotten.
fn stored(forebay: &Forebay) {
    let mut client = Connection::new(forebay.address);
    for number in 0..COLD {
        assert_eq!(client.call(&["SET", &cold(number), "1"]), ok());
        assert_eq!(client.call(&["SET", &format!("other{number}"), "1"]), ok());
    }
    assert!(!matches!(client.call(&["CACHE", "RESET"]), Reply::Error(_)));
}

fn all_there(forebay: &mut Forebay) {
    calm(forebay.address);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    for number in 0..COLD {
        assert_eq!(said(&client.call(&["GET", &cold(number)])), "4");
    }
    assert_eq!(said(&client.call(&["GET", "sum"])), "3");
    assert_eq!(said(&client.call(&["LRANGE", "list", "0", "-1"])), "other0 other1 other2");
}

/// Fault 19: writes hang, as they do while an index is made, or behind a disk that is too slow; reads go on.
#[test]
fn reads_go_on_while_writes_hang() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    stored(&forebay);
    server.while_locked(&database, "LOCK TABLE forebay.documents IN SHARE MODE", || written_while_refused(&forebay));
    all_there(&mut forebay);
}

/// Fault 19: an operator has made the database read-only.
#[test]
fn a_read_only_database_is_read_and_writes_wait() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    stored(&forebay);
    let read_only = |on: &str| {
        server.sql("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {on}"));
        server.sql("postgres", "SELECT pg_reload_conf()");
    };
    read_only("on");
    while server.sql(&database, "SHOW default_transaction_read_only") != "on" {}
    written_while_refused(&forebay);
    let mut client = Connection::new(forebay.address);
    let state = said(&client.call(&["CACHE", "STATE"]));
    assert!(state.contains("read-only transaction (SQLSTATE 25006)"), "{state}");
    let there = "SELECT count(*) FROM forebay.documents WHERE name IN ('sum', 'list')";
    assert_eq!(server.sql(&database, there), "0", "it was not to be written to");
    read_only("off");
    all_there(&mut forebay);
}

/// Fault 19: what answers is a standby, until it is promoted. A commit is not taken for refused.
#[test]
fn a_standby_is_read_and_writes_wait_for_its_promotion() {
    let (server, database, mut forebay) = shop(&[]);
    server.sql(&database, "INSERT INTO photos SELECT id, 1, 5 FROM generate_series(10, 40) AS id");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HSET", "album:1", "shared", "friends"]), Reply::Integer(0));
    server.stop(Stop::Fast);
    server.start_as_standby();
    for id in 10..15 {
        let key = format!("photo:{id}");
        // Known by a read, and buffered.
        while client.call(&["HINCRBY", &key, "views", "1"]) != Reply::Integer(6) {}
        assert_eq!(said(&client.call(&["HGET", &key, "views"])), "6");
        assert_eq!(said(&client.call(&["HGET", &format!("photo:{}", id + 10), "views"])), "5");
    }
    assert_eq!(figure(&mut client, "quarantined"), 0);
    assert_ne!(mode(&mut client), "normal");
    server.promote();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT count(*), sum(views) FROM photos"), "31|160");
    assert_eq!(server.sql(&database, "SELECT name, shared FROM albums"), "spring|friends");
    forebay.restart();
    assert_eq!(said(&Connection::new(forebay.address).call(&["HGET", "photo:12", "views"])), "6");
}
