//! Hole 16: a write that never comes to an end within the store's timeout, while the database answers all else.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, figure, mode, said};
use crate::{ok, start};

const MAPS: [&str; 4] = ["--map", "job:{id} -> jobs(id)", "--map", "other:{id} -> others(id)"];

/// Each row takes as long to change as it says.
const JOBS: &str = "CREATE TABLE jobs (id integer PRIMARY KEY, seconds double precision, note text);
    CREATE TABLE others (id integer PRIMARY KEY, note text);
    INSERT INTO jobs SELECT n, 0, 'old' FROM generate_series(1, 9) n; UPDATE jobs SET seconds = 0.7 WHERE id = 1;
    UPDATE jobs SET seconds = 1000 WHERE id = 2;
    CREATE FUNCTION takes_time() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(OLD.seconds); RETURN NEW; END';
    CREATE TRIGGER takes_time BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION takes_time();";

fn jobs(timeout_ms: &str) -> (Server, String, Forebay) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, JOBS);
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(MAPS);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &[&MAPS[..], &["--store-timeout-ms", timeout_ms]].concat());
    (server, database, forebay)
}

/// It is given more time until it lands, once; others are not kept from the database by it.
#[test]
fn a_write_that_takes_longer_than_the_timeout_lands() {
    let (server, database, forebay) = jobs("300");
    let mut client = Connection::new(forebay.address);
    let mut other = Connection::new(forebay.address);
    assert_eq!(client.call(&["HMSET", "job:1", "note", "new"]), ok());
    let began = Instant::now();
    assert_eq!(other.call(&["CACHE", "STRICT", "ON"]), ok());
    while figure(&mut client, "pending") > 0 {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        assert_eq!(other.call(&["HMSET", "other:1", "note", "x"]), ok(), "the database takes all others");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.sql(&database, "SELECT note FROM jobs WHERE id = 1"), "new");
    assert!(!forebay.log().contains("-> failed"), "{}", forebay.log());
}

/// One that never comes to an end is set aside, with what waits behind it; the rest arrives.
#[test]
fn a_write_that_never_comes_to_an_end_is_set_aside() {
    let (server, database, forebay) = jobs("80");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HMSET", "job:2", "note", "new"]), ok());
    assert_eq!(client.call(&["HMSET", "job:3", "note", "new"]), ok(), "of the same lane: behind it, for now");
    let began = Instant::now();
    while figure(&mut client, "quarantined") == 0 {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let why = said(&client.call(&["CACHE", "QUARANTINE", "LIST"]));
    assert!(why.contains("did not answer in 5120 ms") && why.contains("job:2"), "{why}");
    while figure(&mut client, "pending") > 1 {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.sql(&database, "SELECT note FROM jobs WHERE id = 3"), "new");
    assert_eq!(mode(&mut client), "normal");
    // What was in its way is mended.
    server.sql(&database, "ALTER TABLE jobs DISABLE TRIGGER takes_time");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT note FROM jobs WHERE id = 2"), "new");
}

/// One that the database answers with an internal error each time is set aside, and the mode stays as it is. A client
/// that waits for the database is told.
#[test]
fn a_write_at_which_the_database_fails_is_set_aside() {
    let (server, database, forebay) = jobs("400");
    server.sql(
        &database,
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN IF NEW.note = ''bad'' THEN RAISE ''could not read block'' USING ERRCODE = ''XX001''; END IF;
             RETURN NEW; END';
         CREATE TRIGGER fails BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION fails();",
    );
    let mut client = Connection::new(forebay.address);
    let told = said(&client.call(&["HMSET", "job:4", "note", "bad"]));
    assert!(told.contains("XX001"), "{told}");
    assert_eq!((mode(&mut client), figure(&mut client, "pending")), ("normal".to_owned(), 0));
    server.stop(Stop::Fast);
    assert_eq!(client.call(&["HMSET", "job:3", "note", "new"]), ok());
    assert_eq!(client.call(&["HMSET", "job:4", "note", "bad"]), ok());
    assert_eq!(client.call(&["HMSET", "job:5", "note", "new"]), ok());
    server.start_again();
    let began = Instant::now();
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "pending") > 1 {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let why = said(&client.call(&["CACHE", "QUARANTINE", "LIST"]));
    assert!(why.contains("XX001") && why.contains("job:4"), "{why}");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM jobs WHERE note = 'new'"), "2");
    assert_eq!(forebay.log().matches("-> failed").count(), 1, "{}", forebay.log());
    server.sql(&database, "DROP TRIGGER fails ON jobs");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT note FROM jobs WHERE id = 4"), "bad");
}
