//! Fault 21: the database comes back as an older backup.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, entry, figure, said};
use crate::{ok, start};

/// What is buffered was built on what the backup lacks. Nothing is carried over by itself; what was buffered stays
/// readable. An operator compares, and says so.
#[test]
fn a_restored_database_is_left_alone_until_an_operator_says_so() {
    let server = Server::start();
    let database = server.database();
    let forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "old", "1"]), ok());
    server.stop(Stop::Fast);
    server.back_up();
    server.start_again();
    calm(forebay.address);
    assert_eq!(client.call(&["SET", "counter", "41"]), ok());
    server.stop(Stop::Fast);
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(42));
    assert_eq!(client.call(&["SET", "new", "1"]), ok());
    server.restore();
    server.start_again();
    let began = Instant::now();
    while entry(&mut client, "suspended") == Reply::Nil {
        assert!(began.elapsed() < PATIENCE, "{:?}", client.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
    let why = said(&entry(&mut client, "suspended"));
    assert!(why.contains("restored from a backup") && why.contains("CACHE DRAIN RESUME"), "{why}");
    std::thread::sleep(Duration::from_millis(500));
    let names = "SELECT string_agg(convert_from(name, 'UTF8'), ' ' ORDER BY name) FROM forebay.documents";
    assert_eq!(server.sql(&database, names), "old", "nothing was written to the backup");
    assert_eq!(figure(&mut client, "pending"), 2);
    assert_eq!(client.call(&["GET", "counter"]), Reply::bulk(b"42"));
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, names), "counter new old");
}
