//! Logical decoding beside what forebay keeps itself: write-back, and lists to which another program appends as well.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::{Server, Stop};
use crate::start;
use crate::state::{PATIENCE, calm, figure, said};

const TABLE: &str = "CREATE TABLE members (id integer PRIMARY KEY, visits integer NOT NULL DEFAULT 0,
    friends integer[] NOT NULL DEFAULT '{}'); INSERT INTO members SELECT generate_series(1, 6)";

const DECODED: [&str; 6] = [
    "--outside",
    "decoding",
    "--map",
    "member:{id} -> members(id) version(none)",
    "--map",
    "friends:{id} -> members(id).friends as list version(none)",
];

/// Clients that append through forebay, and how often each does; the other program appends as often as one of them.
const CLIENTS: usize = 3;
const APPENDS: usize = 60;

/// What writer `writer` appends the `nth` time.
fn number(writer: usize, nth: usize) -> usize {
    writer * 1_000 + nth
}

/// Waits until forebay shows of each list and counter what the table holds.
fn until_shown(server: &Server, database: &str, forebay: &Forebay) {
    let mut client = Connection::new(forebay.address);
    for id in 1..=6 {
        let row = "SELECT array_to_string(friends, ' ') || '|' || visits FROM members WHERE id =";
        let there = server.sql(database, &format!("{row} {id}"));
        let began = Instant::now();
        loop {
            let list = said(&client.call(&["LRANGE", &format!("friends:{id}"), "0", "-1"]));
            let visits = said(&client.call(&["HGET", &format!("member:{id}"), "visits"]));
            if format!("{list}|{visits}") == there {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{list}|{visits} is shown, {there} is there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Has something counted; again where the machine is too busy for what it waits for to be applied in time.
fn counted(client: &mut Connection, request: &[&str]) {
    loop {
        match client.call(request) {
            Reply::Integer(1..) => return,
            Reply::Error(text) if text.ends_with(b"try again") => {}
            other => panic!("{request:?}: {}", said(&other)),
        }
    }
}

/// Many append to the same lists and add to the same rows, another program among them; the database is away for a
/// while. Nothing is lost, nothing is there twice, each writer's are in order, and what is cached ends up right.
///
/// Lists and counters are documents of the same rows: with write-back each waits until what is buffered of the other is
/// in the table.
fn appends_beside_another_program(more: &[&str], buffers: bool) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLE);
    let forebay = start(&server, &database, &[&DECODED[..], more].concat());
    let most = Connection::new(forebay.address).call(&["LRANGE", "friends:1", "0", "-1"]);
    assert_eq!(most, Reply::Array(Vec::new()));
    std::thread::scope(|scope| {
        for writer in 1..=CLIENTS {
            let address = forebay.address;
            scope.spawn(move || {
                let mut client = Connection::new(address);
                for nth in 0..APPENDS {
                    let (list, row) = (format!("friends:{}", 1 + nth % 3), format!("member:{}", 1 + nth % 3));
                    counted(&mut client, &["RPUSH", &list, &number(writer, nth).to_string()]);
                    counted(&mut client, &["HINCRBY", &row, "visits", "1"]);
                }
            });
        }
        for nth in 0..APPENDS {
            let id = 1 + nth % 3;
            let append = format!("UPDATE members SET friends = friends || {} WHERE id = {id}", number(0, nth));
            server.sql(&database, &append);
            server.sql(&database, &format!("UPDATE members SET visits = visits + 1 WHERE id = {id}"));
        }
    });
    calm_or_quarantine(&forebay);
    let mut client = Connection::new(forebay.address);
    if buffers {
        let buffered = said(&client.call(&["INFO", "outage"]));
        assert!(!buffered.contains("outage_buffered_total:0\r"), "{buffered}");
    }
    assert_eq!(figure(&mut client, "quarantined"), 0);
    for id in 1..=3 {
        let friends = format!("SELECT array_to_string(friends, ' ') FROM members WHERE id = {id}");
        let friends = server.sql(&database, &friends);
        let friends: Vec<usize> = friends.split(' ').map(|text| text.parse().expect("a number")).collect();
        for writer in 0..=CLIENTS {
            let its: Vec<usize> = friends.iter().copied().filter(|friend| friend / 1_000 == writer).collect();
            let all: Vec<usize> = (0..APPENDS).filter(|nth| 1 + nth % 3 == id).map(|nth| number(writer, nth)).collect();
            assert_eq!(its, all, "list {id} of writer {writer}");
        }
    }
    let visits = server.sql(&database, "SELECT sum(visits) FROM members");
    assert_eq!(visits, ((CLIENTS + 1) * APPENDS).to_string());
    until_shown(&server, &database, &forebay);
    // What others write when nothing of ours is on its way is seen, too.
    server.sql(&database, "UPDATE members SET visits = 7, friends = '{5}'");
    until_shown(&server, &database, &forebay);
}

/// Nothing waits but what an operator has to decide.
fn calm_or_quarantine(forebay: &Forebay) {
    let mut client = Connection::new(forebay.address);
    let began = Instant::now();
    while figure(&mut client, "waiting") > 0 {
        assert!(began.elapsed() < PATIENCE, "{:?}", client.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn appends_go_on_beside_another_program_that_is_decoded() {
    appends_beside_another_program(&["--retries-max", "200"], false);
}

#[test]
fn write_back_goes_on_beside_another_program_that_is_decoded() {
    appends_beside_another_program(&["--retries-max", "200", "--write-back-ms", "100"], true);
}

/// The slot goes and can't be made again, so the log can't be read: what others write is seen all the same, since
/// nothing stays cached. It is logged once, with what to do; when the slot can be made, it is.
#[test]
fn nothing_old_is_served_while_the_log_can_not_be_read() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLE);
    server.sql(&database, "ALTER SYSTEM SET max_replication_slots = 1");
    server.stop(Stop::Fast);
    server.start_again();
    let forebay = start(&server, &database, &DECODED);
    calm(forebay.address);
    until_shown(&server, &database, &forebay);
    let take = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots;
        SELECT pg_create_physical_replication_slot('others')";
    while server.try_sql(&database, take).is_err() {}
    let began = Instant::now();
    while !forebay.log().contains("raise max_replication_slots") {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        until_shown(&server, &database, &forebay);
    }
    for visits in 0..10 {
        server.sql(&database, &format!("UPDATE members SET visits = {visits}, friends = '{{{visits}}}'"));
        until_shown(&server, &database, &forebay);
    }
    let said_so = |forebay: &Forebay| forebay.log().matches("can't be seen; the cache is dropped").count();
    let often = said_so(&forebay);
    assert!(often <= 4, "{often} times: {}", forebay.log());
    server.sql(&database, "SELECT pg_drop_replication_slot('others')");
    let slot = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'forebay%'";
    while server.sql(&database, slot) == "0" {
        assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
    }
    server.sql(&database, "UPDATE members SET visits = 77");
    until_shown(&server, &database, &forebay);
}
