//! Fault 23: the disk under the journal is full.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Disk, Forebay};
use crate::journal::{free, metric};
use crate::postgres::{Server, Stop};
use crate::state::{PATIENCE, calm, entry, figure, said};
use crate::{QUICK, ok};

/// Writes documents `<name><number>` until there is no room; how many were acknowledged.
fn fill(client: &mut Connection, name: &str) -> usize {
    let filler = "x".repeat(5_000);
    for number in 0..10_000 {
        let document = format!("{name}{number}");
        let both = [vec!["MULTI"], vec!["SET", &document, &filler], vec!["INCR", "count"], vec!["EXEC"]];
        let last = client.pipeline(&both).pop().expect("a reply");
        if !matches!(last, Reply::Array(_)) {
            let refused = said(&last);
            assert!(refused.starts_with("BUFFERFULL") && refused.contains("no room on the disk"), "{refused}");
            return number;
        }
    }
    panic!("there is always room");
}

/// Nothing is acknowledged that is not on it. When the database is back all is applied and written directly again,
/// while the disk is as full as before; the next outage finds room, and more when others make some. No restart.
#[test]
fn a_full_disk_under_the_journal_holds_nothing_up() {
    let Some(disk) = Disk::mount(1024) else { return };
    let server = Server::start();
    let database = server.database();
    let http = free();
    let more = [&QUICK[..], &["--http", &http]].concat();
    let mut forebay = Forebay::start_with_journal_on(disk, &server.url(&database), &more);
    let ballast = forebay.file("ballast");
    std::fs::write(&ballast, vec![1; 300 << 10]).expect("room for a ballast");
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "count", "0"]), ok());
    let began = Instant::now();
    while !forebay.log().contains("has less room than --outage-bytes-max") {
        assert!(began.elapsed() < PATIENCE, "nobody says that the disk is short");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(metric(&http, "forebay_outage_disk_short"), "1");
    let room = figure(&mut client, "room_bytes");
    assert!((0..1 << 20).contains(&room), "{room}: the disk has less than --outage-bytes-max");
    assert!(said(&entry(&mut client, "summary")).contains("on the journal's disk"));
    server.stop(Stop::Immediate);
    let first = fill(&mut client, "first");
    assert!(first > 20, "{first}");
    let log = forebay.log();
    assert!(log.contains("the disk of the journal is full") && log.contains("no restart is needed"), "{log}");
    let length = client.call(&["STRLEN", &format!("first{}", first - 1)]);
    assert_eq!(length, Reply::Integer(5_000), "what was acknowledged is read");
    server.start_again();
    calm(forebay.address);
    assert_eq!([figure(&mut client, "unnoted"), figure(&mut client, "quarantined")], [0, 0]);
    assert_eq!(client.call(&["SET", "first0", "direct"]), ok());
    assert_eq!(said(&client.call(&["CACHE", "OUTCOME"])).split(' ').next(), Some("COMMITTED"));
    server.stop(Stop::Immediate);
    let second = fill(&mut client, "second");
    assert!(second > first / 2, "{second} behind {first}: what was carried over takes no room");
    std::fs::remove_file(&ballast).expect("it can be removed");
    let third = fill(&mut client, "third");
    assert!(third > 10, "{third}: there is room again");
    server.start_again();
    calm(forebay.address);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(figure(&mut client, "pending"), 0);
    let count = "SELECT count(*) FROM forebay.documents WHERE convert_from(name, 'UTF8') ~ '^(first|second|third)'";
    let all = first + second + third;
    assert_eq!(server.sql(&database, count), all.to_string());
    assert_eq!(said(&client.call(&["GET", "count"])), all.to_string(), "each once");
    assert_eq!(client.call(&["GET", "first0"]), Reply::bulk(b"direct"));
}

/// Counts documents that others count, too, until there is no room; what was acknowledged of each.
fn count(address: std::net::SocketAddr, writer: usize) -> [u64; DOCUMENTS] {
    let (mut client, mut counted) = (Connection::new(address), [0; DOCUMENTS]);
    for round in 0..10_000 {
        let [one, other] = [round * (writer + 1) % DOCUMENTS, (round * round + writer) % DOCUMENTS];
        let names = [one, other].map(|number| format!("counted:{number}"));
        let long = format!("{round} ").repeat(200 + 100 * writer);
        let both = [
            vec!["MULTI"],
            vec!["HINCRBY", &names[0], "n", "1"],
            vec!["HSET", &names[1], "long", &long],
            vec!["HINCRBY", &names[1], "n", "1"],
            vec!["EXEC"],
        ];
        match client.pipeline(&both).pop().expect("a reply") {
            Reply::Array(_) => [one, other].iter().for_each(|number| counted[*number] += 1),
            refused => {
                let refused = said(&refused);
                assert!(refused.starts_with("BUFFERFULL"), "{refused}");
                return counted;
            }
        }
    }
    panic!("there is always room");
}

/// Counts each once more, by a direct write, and has it answered what was acknowledged before.
fn count_each(client: &mut Connection, counted: &mut [u64; DOCUMENTS]) {
    for (number, count) in counted.iter_mut().enumerate() {
        *count += 1;
        let told = client.call(&["HINCRBY", &format!("counted:{number}"), "n", "1"]);
        assert_eq!(told, Reply::Integer(*count as i64), "each once");
        assert_eq!(said(&client.call(&["CACHE", "OUTCOME"])).split(' ').next(), Some("COMMITTED"));
    }
}

const DOCUMENTS: usize = 40;

/// The journal itself fills its disk, with writes that are made to what others have written: what is learned of those
/// while they are applied has no room. All is noted all the same, and written directly.
#[test]
fn a_journal_that_fills_its_disk_holds_nothing_up() {
    let Some(disk) = Disk::mount(2 * 1024) else { return };
    let server = Server::start();
    let database = server.database();
    let mut forebay = Forebay::start_with_journal_on(disk, &server.url(&database), &QUICK);
    let mut client = Connection::new(forebay.address);
    let mut counted = [0; DOCUMENTS];
    for round in 0..3 {
        count_each(&mut client, &mut counted);
        server.stop(Stop::Immediate);
        let address = forebay.address;
        let by_all = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || count(address, writer))).collect();
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect::<Vec<_>>()
        });
        by_all.iter().for_each(|some| counted.iter_mut().zip(some).for_each(|(sum, one)| *sum += one));
        server.start_again();
        calm(forebay.address);
        let began = Instant::now();
        while figure(&mut client, "unnoted") > 0 {
            assert!(began.elapsed() < PATIENCE, "round {round}: what is applied is not noted");
            std::thread::sleep(Duration::from_millis(50));
        }
        count_each(&mut client, &mut counted);
        forebay.restart();
        client = Connection::new(forebay.address);
        assert_eq!(figure(&mut client, "pending"), 0);
    }
}
