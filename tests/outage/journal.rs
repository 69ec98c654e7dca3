//! Faults 14 and 23: the journal loses what was not synced, and its disk is full.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Disk, Forebay, can_mount};
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, entry, figure, mode, said};
use crate::{QUICK, ok, start};

/// What `/metrics` says of one.
fn metric(http: &str, name: &str) -> String {
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

/// Fault 23: the disk under the journal is full. Nothing is acknowledged that is not on it; what was acknowledged is
/// read, and carried over by the next start at the latest, once.
#[test]
fn a_full_disk_under_the_journal_refuses_writes_and_keeps_what_was_acknowledged() {
    let Some(disk) = Disk::mount(3 * 1024) else { return };
    let server = Server::start();
    let database = server.database();
    let mut forebay = Forebay::start_with_journal_on(disk, &server.url(&database), &QUICK);
    let ballast = forebay.file("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).expect("room for a ballast");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "count", "0"]), ok());
    server.stop(Stop::Immediate);
    let filler = "x".repeat(20_000);
    let (mut acknowledged, mut unknown) = (0, 0);
    let refused = loop {
        let document = format!("document{}", acknowledged + unknown);
        let both = [vec!["MULTI"], vec!["SET", &document, &filler], vec!["INCR", "count"], vec!["EXEC"]];
        match client.pipeline(&both).pop().expect("a reply") {
            Reply::Array(_) => acknowledged += 1,
            // Perhaps it is on the disk: what it wrote is held until that is known.
            Reply::Error(text) if text.starts_with(b"TXUNKNOWN") => {
                unknown += 1;
                break said(&client.call(&["SET", "other", &filler]));
            }
            other => break said(&other),
        }
    };
    assert!(acknowledged > 10, "{acknowledged} fit: {refused}");
    assert!(refused.starts_with("STOREDOWN") && refused.contains("No space left on device"), "{refused}");
    assert!(forebay.log().contains("No space left on device"), "the log does not say why");
    assert_eq!(mode(&mut client), "failed");
    for request in [["SET", "small", "1"], ["APPEND", "small", "1"]] {
        assert!(said(&client.call(&request)).starts_with("STOREDOWN"), "a journal that failed takes nothing more");
    }
    // Room does not mend it: what its file holds nobody can know.
    std::fs::remove_file(&ballast).expect("it can be removed");
    assert!(said(&client.call(&["SET", "small", "1"])).starts_with("STOREDOWN"));
    for number in 0..acknowledged {
        let length = client.call(&["STRLEN", &format!("document{number}")]);
        assert_eq!(length, Reply::Integer(20_000), "what was acknowledged is read");
    }
    server.start_again();
    let began = Instant::now();
    while mode(&mut client) == "failed" {
        assert!(began.elapsed() < PATIENCE, "the database is there again");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(client);
    forebay.restart();
    calm(forebay.address);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "small", "1"]), ok());
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    let documents = "SELECT count(*) FROM forebay.documents WHERE convert_from(name, 'UTF8') LIKE 'document%'";
    let documents: usize = server.sql(&database, documents).parse().expect("a number");
    assert!((acknowledged..=acknowledged + unknown).contains(&documents), "{documents} of {acknowledged} + {unknown}");
    assert_eq!(said(&client.call(&["GET", "count"])), documents.to_string(), "each once");
    assert_eq!(client.call(&["GET", "small"]), Reply::bulk(b"1"));
}
