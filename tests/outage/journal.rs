//! Fault 14: the journal loses what was not synced; its folder is removed, moved, or changed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{can_mount, forebay_command};
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, entry, figure, said};
use crate::{ok, start};

/// What `/metrics` says of one.
pub fn metric(http: &str, name: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("it serves");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

fn tickets(client: &mut Connection, keys: std::ops::Range<usize>) {
    for number in keys {
        let requests = ["TXN BEGIN".to_owned(), format!("SET key{number} {number}"), "TXN COMMIT".to_owned()];
        let requests: Vec<Vec<&str>> = requests.iter().map(|request| request.split(' ').collect()).collect();
        let last = client.pipeline(&requests).pop().expect("a reply");
        assert_eq!(said(&last), format!("BUFFERED {number}"));
    }
}

/// Fault 14: with durability `never` the power fails, and the journal's tail never reached the disk. What is left is a
/// prefix, and goes to the tables; that something is lost, and which tickets, is told by the log, by a metric and by
/// CACHE STATE; no later ticket is taken for one of those.
#[test]
fn what_a_power_loss_takes_is_reported() {
    if !can_mount() {
        eprintln!("skipped: `unshare -rm mount` is not allowed here, so no other boot of the machine can be shown");
        return;
    }
    let server = Server::start();
    let database = server.database();
    let http = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let mut forebay = start(&server, &database, &["--durability", "never", "--http", &http]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "before", "1"]), ok());
    server.stop(Stop::Immediate);
    tickets(&mut client, 1..21);
    let file = forebay.journal().join("journal");
    let length = std::fs::metadata(&file).expect("the journal").len();
    tickets(&mut client, 21..41);
    assert_eq!([said(&entry(&mut client, "lost")), metric(&http, "forebay_outage_losses")], ["Nil", "0"]);
    forebay.kill9();
    let journal = std::fs::OpenOptions::new().write(true).open(&file).expect("the journal");
    // In the middle of the next record.
    journal.set_len(length + 10).expect("it can be cut");
    server.start_again();
    forebay.restart_in_another_boot();
    calm(forebay.address);
    let log = forebay.log();
    let told = log.lines().find(|line| line.contains("ERROR") && line.contains("acknowledged")).expect("it is logged");
    assert!(told.contains("may be lost") && told.contains("after=20 up_to="), "{told}");
    let up_to = told.rsplit("up_to=").next().and_then(|number| number.parse::<usize>().ok()).expect("a ticket");
    assert!(up_to >= 40, "{told}");
    let mut client = Connection::new(forebay.address);
    let lost = said(&entry(&mut client, "lost"));
    assert!(lost.starts_with(&format!("tickets 21 to {up_to} of epoch ")), "{lost}");
    assert_eq!(metric(&http, "forebay_outage_losses"), "1");
    let there = "SELECT count(*), max(substr(convert_from(name, 'UTF8'), 4)::int) FROM forebay.documents
        WHERE convert_from(name, 'UTF8') LIKE 'key%'";
    assert_eq!(server.sql(&database, there), "20|20", "a prefix");
    assert_eq!(client.call(&["GET", "key20"]), Reply::bulk(b"20"));
    // None that was lost is ever taken for applied, and none that comes has its number.
    let told = said(&client.call(&["CACHE", "WAIT", "30", "0"]));
    assert!(told.starts_with("LOST "), "{told}");
    let told = said(&client.call(&["CACHE", "WAIT", "20", "0"]));
    assert!(told.starts_with("OVER ") || told.starts_with("APPLIED "), "{told}");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "30"]), ok());
    tickets(&mut client, up_to + 1..up_to + 3);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    forebay.restart_in_another_boot();
    let mut client = Connection::new(forebay.address);
    assert_eq!(said(&entry(&mut client, "lost")), lost, "it is remembered");
    assert_eq!(said(&client.call(&["GET", &format!("key{}", up_to + 2)])), (up_to + 2).to_string());
}

/// A restart of the process alone, or of the machine after an orderly end, loses nothing and reports nothing.
#[test]
fn no_loss_is_reported_where_there_is_none() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &["--durability", "never"]);
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    tickets(&mut client, 1..11);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!([figure(&mut client, "pending").to_string(), said(&entry(&mut client, "lost"))], ["10", "Nil"]);
    drop(client);
    forebay.terminate();
    if can_mount() {
        forebay.restart_in_another_boot();
        let mut client = Connection::new(forebay.address);
        assert_eq!([figure(&mut client, "pending").to_string(), said(&entry(&mut client, "lost"))], ["10", "Nil"]);
    }
    assert!(!forebay.log().contains("may be lost"));
}

/// A free port.
pub fn free() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string()
}

/// Somebody removes the journal's folder during an outage. What was acknowledged is in memory alone by then, and is
/// applied from there; nothing more is acknowledged that no start would find.
#[test]
fn a_folder_that_is_removed_takes_no_more_writes_and_costs_none() {
    let server = Server::start();
    let database = server.database();
    let http = free();
    let mut forebay = start(&server, &database, &["--http", &http]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "count", "7"]), ok());
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["INCR", "count"]), Reply::Integer(8));
    assert_eq!(client.call(&["SET", "first", "1"]), ok());
    assert_eq!([metric(&http, "forebay_outage_journal_failed"), said(&entry(&mut client, "closed"))], ["0", "Nil"]);
    std::fs::remove_dir_all(forebay.journal()).expect("it can be removed");
    for request in [vec!["SET", "second", "1"], vec!["INCR", "count"], vec!["SET", "third", "1"]] {
        let refused = said(&client.call(&request));
        assert!(refused.starts_with("STOREDOWN") && refused.contains("was removed"), "{refused}");
    }
    assert_eq!(metric(&http, "forebay_outage_journal_failed"), "1");
    let (closed, summary) = (said(&entry(&mut client, "closed")), said(&entry(&mut client, "summary")));
    assert!(closed.contains("was removed") && summary.contains("nothing more is buffered"), "{closed} {summary}");
    assert_eq!(forebay.log().matches("writes are refused while the database is down").count(), 1);
    assert_eq!(client.call(&["GET", "count"]), Reply::bulk(b"8"));
    server.start_again();
    calm(forebay.address);
    let names = "SELECT string_agg(convert_from(name, 'UTF8'), ' ' ORDER BY name) FROM forebay.documents";
    assert_eq!(server.sql(&database, names), "count first");
    assert_eq!(client.call(&["INCR", "count"]), Reply::Integer(9), "the database takes writes");
    drop(client);
    // Nothing is pending, so nothing is lost: an orderly end.
    forebay.terminate();
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!([said(&entry(&mut client, "closed")), said(&client.call(&["GET", "count"]))], ["Nil", "9"]);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["INCR", "count"]), Reply::Integer(10));
}

/// Likewise of one that is moved away, while nothing is written: it is noticed all the same, before it is needed. Moved
/// back, it is found by the next start, with all that was acknowledged.
#[test]
fn a_folder_that_is_moved_away_is_noticed_and_found_again() {
    let server = Server::start();
    let database = server.database();
    let http = free();
    let mut forebay = start(&server, &database, &["--http", &http]);
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["SET", "first", "1"]), ok());
    let (journal, away) = (forebay.journal(), forebay.journal().with_file_name("away"));
    std::fs::rename(&journal, &away).expect("it can be moved");
    let began = Instant::now();
    while metric(&http, "forebay_outage_journal_failed") == "0" {
        assert!(began.elapsed() < PATIENCE, "nobody noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = said(&client.call(&["SET", "second", "1"]));
    assert!(refused.starts_with("STOREDOWN") && refused.contains("put it back"), "{refused}");
    assert!(forebay.log().contains("put it back"), "the log does not say so");
    forebay.kill9();
    std::fs::rename(&away, &journal).expect("it can be moved back");
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!((figure(&mut client, "pending"), client.call(&["GET", "first"])), (1, Reply::bulk(b"1")));
    server.start_again();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "1");
}

/// A first start that fails leaves no folder behind.
#[test]
fn a_start_that_fails_makes_no_journal() {
    let server = Server::start();
    let database = server.database();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = folder.path().join("journal");
    let (path, url, taken) =
        (journal.to_str().expect("UTF-8"), server.url(&database), TcpListener::bind("127.0.0.1:0"));
    let port = taken.as_ref().map(|taken| taken.local_addr().expect("an address").to_string()).expect("a port");
    let nowhere = format!("postgres://app@127.0.0.1:{}/none", server.port());
    let cases: [(&str, &[&str], &str); 6] = [
        (&url, &["--map", "user:{id} -> nobody(id)"], "nobody"),
        (&url, &["--map", "nonsense"], "--map"),
        (&url, &["--outage-bytes-max", "much"], "outage-bytes-max"),
        (&url, &["--listen", &port], "127.0.0.1"),
        (&nowhere, &[], "\"none\" does not exist"),
        (&nowhere, &["--start-in-failed"], "start-in-failed"),
    ];
    for (store, more, expected) in cases {
        let mut command = forebay_command();
        command.args(["serve", "--store", store, "--journal", path, "--http", "off"]);
        if !more.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let output = command.args(more).output().expect("it runs");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains(expected), "{more:?}: {why}");
        assert!(!journal.exists(), "{more:?} made the journal's folder");
    }
}

/// The mapping is changed while nothing is buffered, and the database is away by then: what is buffered belongs to the
/// new mapping, and the next start takes it for that.
#[test]
fn what_is_buffered_belongs_to_the_mapping_that_it_was_written_with() {
    let server = Server::start();
    let database = server.database();
    server
        .sql(&database, "CREATE TABLE users (id integer PRIMARY KEY, name text); INSERT INTO users VALUES (1, 'Bob')");
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database), "--map", "user:{id} -> users(id)"]);
    assert!(init.status().expect("the binary runs").success());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = folder.path().join("journal");
    let journal = ["--journal", journal.to_str().expect("UTF-8")];
    let mut before = start(&server, &database, &[&["--map", "user:{id} -> users(id)"][..], &journal].concat());
    assert_eq!(Connection::new(before.address).call(&["HSET", "user:1", "name", "Bo"]), Reply::Integer(0));
    before.terminate();
    server.stop(Stop::Immediate);
    let other = ["--map", "person:{id} -> users(id)", "--start-in-failed"];
    let mut forebay = start(&server, &database, &[&other[..], &journal].concat());
    assert_eq!(Connection::new(forebay.address).call(&["HMSET", "person:1", "name", "Ada"]), ok());
    forebay.restart();
    assert_eq!(figure(&mut Connection::new(forebay.address), "pending"), 1);
    server.start_again();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT id, name FROM users"), "1|Ada");
}
