//! Fault 21: the database comes back as an older backup.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, entry, figure, mode, said};
use crate::{ok, start};

/// What the log says where a start finds an earlier state.
const NOTICED: &str = "the database does not know commits that it had acknowledged";

/// Longer than what is acknowledged takes to be remembered.
const REMEMBERED: Duration = Duration::from_millis(2_500);

const NAMES: &str = "SELECT string_agg(convert_from(name, 'UTF8'), ' ' ORDER BY name) FROM forebay.documents";

fn is_suspended(client: &mut Connection) {
    let began = Instant::now();
    while entry(client, "suspended") == Reply::Nil {
        assert!(began.elapsed() < PATIENCE, "{:?}", client.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
    let why = said(&entry(client, "suspended"));
    assert!(why.contains("restored from a backup") && why.contains("CACHE DRAIN RESUME"), "{why}");
}

/// A forebay, and a backup that has `old`.
fn backed_up(server: &Server, database: &str) -> Forebay {
    let forebay = start(server, database, &[]);
    assert_eq!(Connection::new(forebay.address).call(&["SET", "old", "1"]), ok());
    server.stop(Stop::Fast);
    server.back_up();
    server.start_again();
    calm(forebay.address);
    forebay
}

/// A database with `counter` behind its backup, and a forebay that has buffered `counter` and `new`.
fn buffered_behind_a_backup(server: &Server, database: &str) -> Forebay {
    let forebay = backed_up(server, database);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "counter", "41"]), ok());
    server.stop(Stop::Fast);
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(42));
    assert_eq!(client.call(&["SET", "new", "1"]), ok());
    forebay
}

/// Nothing was written to the backup, and what is buffered is read on top of what that has.
fn is_left_alone(server: &Server, database: &str, client: &mut Connection) {
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.sql(database, NAMES), "old", "nothing was written to the backup");
    assert_eq!(figure(client, "pending"), 2);
    assert_eq!(client.call(&["GET", "counter"]), Reply::bulk(b"1"));
}

/// What is buffered was built on what the backup lacks. Nothing is applied by itself; what was buffered stays
/// readable. An operator compares, and says so.
#[test]
fn a_restored_database_is_left_alone_until_an_operator_says_so() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = buffered_behind_a_backup(&server, &database);
    server.restore();
    server.start_again();
    let mut client = Connection::new(forebay.address);
    is_suspended(&mut client);
    is_left_alone(&server, &database, &mut client);
    // To start forebay again is no decision.
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    is_suspended(&mut client);
    is_left_alone(&server, &database, &mut client);
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, NAMES), "counter new old");
    // The increment was applied, and what it was made to is lost.
    assert_eq!(client.call(&["GET", "counter"]), Reply::bulk(b"1"));
}

/// Likewise of one that is started when the backup is there already, after an orderly end.
#[test]
fn a_forebay_that_was_not_there_notices_a_restored_database() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = buffered_behind_a_backup(&server, &database);
    forebay.terminate();
    server.restore();
    server.start_again();
    for _ in 0..2 {
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        is_suspended(&mut client);
        is_left_alone(&server, &database, &mut client);
    }
    assert!(forebay.log().contains(NOTICED), "the log does not say so");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "other", "1"]), ok());
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, NAMES), "counter new old other");
    let told = forebay.log().matches(NOTICED).count();
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!([said(&entry(&mut client, "suspended")), mode(&mut client)], ["Nil", "normal"], "it is decided");
    // The increment was applied, and what it was made to is lost.
    assert_eq!(client.call(&["GET", "counter"]), Reply::bulk(b"1"));
    assert_eq!(forebay.log().matches(NOTICED).count(), told);
}

/// Likewise of one that was killed, and is started before any database is there.
#[test]
fn a_forebay_that_was_killed_and_starts_without_the_database_notices_a_restored_one() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = buffered_behind_a_backup(&server, &database);
    std::thread::sleep(REMEMBERED);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(mode(&mut client), "failed");
    // It has nothing newer to remember in that time, and must not forget.
    std::thread::sleep(REMEMBERED);
    forebay.restart();
    server.restore();
    server.start_again();
    let mut client = Connection::new(forebay.address);
    is_suspended(&mut client);
    is_left_alone(&server, &database, &mut client);
    assert_eq!(client.call(&["CACHE", "DRAIN", "RESUME"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, NAMES), "counter new old");
}

/// A backup from before the last start, in which all that was acknowledged since is missing; nothing is buffered. It is
/// said once, and served as it is: no version is given a second time.
#[test]
fn a_backup_of_an_earlier_run_is_noticed_and_served() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = backed_up(&server, &database);
    for _ in 0..3 {
        forebay.restart();
    }
    calm(forebay.address);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "old", "2"]), ok());
    let version = |client: &mut Connection| said(&client.call(&["CACHE", "OUTCOME"]));
    let lost = version(&mut client);
    forebay.terminate();
    assert!(!forebay.log().contains(NOTICED), "a restart was taken for a restored backup");
    server.stop(Stop::Fast);
    server.restore();
    server.start_again();
    forebay.restart();
    assert_eq!(forebay.log().matches(NOTICED).count(), 1);
    let mut client = Connection::new(forebay.address);
    assert_eq!([said(&entry(&mut client, "suspended")), mode(&mut client)], ["Nil", "normal"]);
    assert_eq!(client.call(&["GET", "old"]), Reply::bulk(b"1"));
    assert_eq!(client.call(&["SET", "old", "3"]), ok());
    let number = |text: &str| -> u64 {
        let version = text.strip_prefix("COMMITTED ").expect("a version");
        version.split('-').next().and_then(|incarnation| incarnation.parse().ok()).expect("an incarnation")
    };
    let after = version(&mut client);
    assert!(number(&after) > number(&lost), "{after} after {lost}");
    forebay.restart();
    assert_eq!(forebay.log().matches(NOTICED).count(), 1);
}

/// What is no earlier state: restarts of either side, orderly and not, while others write; a journal that is new; a
/// standby that had all.
#[test]
fn nothing_else_is_taken_for_a_restored_database() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let write = |forebay: &Forebay, from: usize| {
        let mut client = Connection::new(forebay.address);
        for number in from..from + 50 {
            assert_eq!(client.call(&["SET", &format!("key{number}"), "1"]), ok());
        }
    };
    write(&forebay, 0);
    std::thread::sleep(REMEMBERED);
    write(&forebay, 50);
    forebay.restart();
    write(&forebay, 100);
    forebay.terminate();
    forebay.restart();
    server.stop(Stop::Immediate);
    write(&forebay, 150);
    forebay.restart();
    server.start_again();
    calm(forebay.address);
    forebay.terminate();
    std::fs::remove_dir_all(forebay.journal()).expect("it can be removed");
    forebay.restart();
    write(&forebay, 200);
    server.start_standby();
    write(&forebay, 250);
    server.await_standby();
    server.stop_standby();
    server.stop(Stop::Immediate);
    write(&forebay, 300);
    forebay.kill9();
    server.fail_over();
    forebay.restart();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "350");
    let log = forebay.log();
    assert!(!log.contains(NOTICED) && !log.contains("the database has lost"), "{log}");
}

/// A standby that lagged takes over while no forebay runs.
#[test]
fn a_standby_that_lagged_is_noticed() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "old", "1"]), ok());
    server.start_standby();
    server.await_standby();
    server.stop_standby();
    assert_eq!(client.call(&["SET", "counter", "41"]), ok());
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(42));
    assert_eq!(client.call(&["SET", "new", "1"]), ok());
    std::thread::sleep(REMEMBERED);
    forebay.kill9();
    server.fail_over();
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    is_suspended(&mut client);
    is_left_alone(&server, &database, &mut client);
}
