//! The same over PostgreSQL: what commits write, and what requests read, is not in memory several times on its way.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use super::{CLIENTS, MIB, PATIENCE, PROMISED, Server, request, says};
use crate::common::Connection;
use crate::postgres;

/// What a debug build takes more than what is promised.
pub const DEBUG: u64 = 10 * MIB;

const AT_ONCE: usize = CLIENTS / 2;

/// Fields or elements of a large collection, and how many a command adds.
const ELEMENTS: usize = 60_000;
const ADDED: usize = 5_000;

/// The machine may be busy.
pub const PATIENT: [&str; 6] =
    ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "10000", "--lock-wait-ms-max", "20000"];

const LONG: usize = 4_000_000;

pub fn exec(server: &Server, commands: Vec<Vec<String>>) {
    let script = [vec![request(&["MULTI"])], commands, vec![request(&["EXEC"])]].concat();
    let last = server.connect().pipeline(&script).pop();
    let refused = |reply: &Reply| matches!(reply, Reply::Error(..)) || says(reply, "LIMIT");
    assert!(matches!(&last, Some(Reply::Array(replies)) if !replies.iter().any(refused)), "{}", server.row);
}

/// Clients that do `work` at a time, each with its number.
pub fn at_once(server: &Server, work: impl Fn(usize, &mut Connection) + Sync) {
    of_clients(AT_ONCE, server, work);
}

/// As [`at_once`], so many clients.
pub fn of_clients(count: usize, server: &Server, work: impl Fn(usize, &mut Connection) + Sync) {
    std::thread::scope(|clients| {
        for client in 0..count {
            let (work, mut connection) = (&work, server.connect());
            clients.spawn(move || work(client, &mut connection));
        }
    });
}

fn grows(name: &str, key: &str, connection: &mut Connection) {
    for part in 0..ELEMENTS / ADDED {
        let numbers = part * ADDED..(part + 1) * ADDED;
        let element = |number: usize| match name {
            "HSET" => vec![format!("f{number}"), "v".repeat(60)],
            _ => vec![format!("{number:060}")],
        };
        let words = [request(&[name, key]), numbers.flat_map(element).collect()].concat();
        let count = if name == "HSET" { ADDED } else { (part + 1) * ADDED };
        assert_eq!(connection.pipeline(&[words]), [Reply::Integer(count as i64)]);
    }
    assert_eq!(connection.call(&["DEL", key]), Reply::Integer(1));
}

#[test]
fn what_commits_write_over_postgres() {
    let cluster = postgres::Server::start();
    let server = Server::over("PostgreSQL", &cluster.url(&cluster.database()), &PATIENT);
    let long = "x".repeat(LONG);
    let row = |row: &'static str, work: &dyn Fn(&Server)| {
        let server = server.again(row);
        work(&server);
        server.stayed_below(PROMISED + DEBUG);
    };
    row("EXEC of 7 SETRANGE of 4 MB", &|server| {
        let end = LONG.to_string();
        exec(server, (0..7).map(|number| request(&["SETRANGE", &format!("w{number}"), &end, "x"])).collect());
    });
    row("EXEC of 3 SET of 4 MB and 100 short ones", &|server| {
        let short = (0..100).map(|number| request(&["SET", &format!("a{number}"), "1"]));
        exec(server, short.chain((0..3).map(|number| request(&["SET", &format!("s{number}"), &long]))).collect());
    });
    row("EXEC of 3 COPY of 4 MB", &|server| {
        let copy = |number| request(&["COPY", &format!("s{number}"), &format!("u{number}"), "REPLACE"]);
        exec(server, (0..3).map(copy).collect());
    });
    row("4 clients that SET and APPEND to 12 MB", &|server| {
        let large = "x".repeat(12_000_000);
        at_once(server, |client, connection| {
            let key = format!("large{client}");
            assert_eq!(connection.call(&["SET", &key, &large]), Reply::Simple("OK".into()));
            assert_eq!(connection.call(&["APPEND", &key, "x"]), Reply::Integer(12_000_001));
        });
    });
    row("4 clients with hashes of 60,000 fields", &|server| {
        at_once(server, |client, connection| grows("HSET", &format!("h{client}"), connection));
    });
    row("4 clients with lists of 60,000 elements", &|server| {
        at_once(server, |client, connection| grows("RPUSH", &format!("l{client}"), connection));
    });
}

/// Rows are sent whole: a megabyte at a time is within the promise, see `docs/benchmarks.md` for more.
#[test]
fn rows_of_a_megabyte() {
    let cluster = postgres::Server::start();
    let database = cluster.database();
    cluster.sql(&database, "CREATE TABLE pages (id integer PRIMARY KEY, body text)");
    let map = [&PATIENT[..], &["--map", "page:{id} -> pages(id)"]].concat();
    let server = Server::over("4 clients that write rows of 1 MB", &cluster.url(&database), &map);
    server.reset_peak();
    let body = "x".repeat(1_000_000);
    at_once(&server, |client, connection| {
        for _ in 0..3 {
            let set = connection.call(&["HSET", &format!("page:{client}"), "body", &body]);
            assert!(matches!(set, Reply::Integer(_)), "{set:?}");
        }
    });
    server.stayed_below(PROMISED + DEBUG);
}

/// A hash of so many fields.
fn fill(connection: &mut Connection, key: &str) {
    for part in 0..ELEMENTS / ADDED {
        let fields = (part * ADDED..(part + 1) * ADDED).flat_map(|number| [format!("f{number}"), "v".repeat(60)]);
        let words = [request(&["HSET", key]), fields.collect()].concat();
        assert_eq!(connection.pipeline(&[words]), [Reply::Integer(ADDED as i64)]);
    }
}

/// Few clients have their turn with large documents at a time, until their replies are written down.
#[test]
fn what_pipelines_read_over_postgres() {
    const READ: usize = 10;
    let cluster = postgres::Server::start();
    let server = Server::over("PostgreSQL", &cluster.url(&cluster.database()), &PATIENT);
    let (mut connection, long) = (server.connect(), "x".repeat(LONG));
    let of = |name: &str, numbers: &mut dyn Iterator<Item = usize>| {
        let keys = numbers.map(|number| format!("{}{}", if name == "HGETALL" { "h" } else { "s" }, number % READ));
        std::iter::once(name.to_owned()).chain(keys).collect::<Vec<_>>()
    };
    for number in 0..READ {
        fill(&mut connection, &format!("h{number}"));
        assert_eq!(connection.call(&["SET", &format!("s{number}"), &long]), Reply::Simple("OK".into()));
    }
    let hashes = server.again("8 clients, pipelines of HGETALL");
    of_clients(CLIENTS, &hashes, |client, connection| {
        let all: Vec<_> = (0..READ).map(|at| of("HGETALL", &mut std::iter::once(client + at))).collect();
        for reply in connection.pipeline(&all) {
            assert!(matches!(&reply, Reply::Array(words) if words.len() == 2 * ELEMENTS));
        }
    });
    hashes.stayed_below(PROMISED + DEBUG);
    let mixed = server.again("4 clients, pipelines of MGET of 4 MB each");
    at_once(&mixed, |client, connection| {
        let some: Vec<_> = (0..READ).map(|at| of("MGET", &mut (4 * at..4 * at + 1 + client % 4))).collect();
        let wide = of("MGET", &mut (0..READ));
        let replies = connection.pipeline(&[&some[..], &[wide]].concat());
        let (last, sound) = replies.split_last().expect("replies");
        let whole = |reply: &Reply| matches!(reply, Reply::Bulk(bytes) if bytes.len() == LONG);
        assert!(sound.iter().all(|reply| matches!(reply, Reply::Array(all) if all.iter().all(whole))));
        assert!(says(last, "LIMIT client_reply_bytes_max"), "it is more than is answered");
    });
    mixed.stayed_below(PROMISED + DEBUG);
}

/// What an outage leaves of one document is there once, however many changes made it.
#[test]
fn appends_of_an_outage() {
    let cluster = postgres::Server::start();
    for (row, drain) in [("7 APPEND of 2 MB in an outage, serial", "serial"), ("the same, lanes", "lanes")] {
        let settings = [&PATIENT[..], &["--drain", drain]].concat();
        let server = Server::over(row, &cluster.url(&cluster.database()), &settings);
        let (mut connection, part) = (server.connect(), "x".repeat(LONG / 2));
        assert_eq!(connection.call(&["SET", "log", "x"]), Reply::Simple("OK".into()));
        server.reset_peak();
        connection.call(&["DEBUG", "STORE", "FAIL", "600"]);
        for number in 1..=7 {
            let len = 1 + number * part.len();
            assert_eq!(connection.call(&["APPEND", "log", &part]), Reply::Integer(len as i64));
        }
        connection.call(&["DEBUG", "STORE", "FAIL", "0"]);
        drained(&mut connection);
        server.stayed_below(PROMISED + DEBUG);
    }
}

/// Waits until all that an outage has left is in the database.
pub fn drained(connection: &mut Connection) {
    let began = Instant::now();
    // Its first line says the mode, and what waits.
    let is_drained = |reply: &Reply| match reply {
        Reply::Array(words) => match words.get(1) {
            Some(Reply::Bulk(text)) => {
                let text = String::from_utf8_lossy(text);
                text.contains("mode normal") && text.contains("pending 0 ")
            }
            _ => false,
        },
        _ => false,
    };
    while !is_drained(&connection.call(&["CACHE", "STATE"])) {
        assert!(began.elapsed() < PATIENCE, "{:?}", connection.call(&["CACHE", "STATE"]));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is buffered on purpose takes the room that it is charged, its tables included.
#[test]
fn wide_writes_that_are_buffered_on_purpose() {
    /// Of `outage-bytes-max`, beside what is promised.
    const ROOM: u64 = 32 * MIB;
    const PAIRS: usize = 20_000;
    let cluster = postgres::Server::start();
    let arguments = [&PATIENT[..], &["--write-back-ms", "300", "--outage-bytes-max", "32MiB"]].concat();
    let server = Server::over("8 clients with MSET of 20,000 pairs", &cluster.url(&cluster.database()), &arguments);
    of_clients(CLIENTS, &server, |client, connection| {
        let pairs = (0..PAIRS).flat_map(|pair| [format!("m{client}:{pair}"), "value".to_owned()]);
        let words = [request(&["MSET"]), pairs.collect()].concat();
        let began = Instant::now();
        // While the database takes one wide transaction there may be no room for another.
        loop {
            let reply = connection.pipeline(std::slice::from_ref(&words)).pop();
            if reply == Some(Reply::Simple("OK".into())) {
                break;
            }
            let full = reply.as_ref().is_some_and(|reply| says(reply, "BUFFERFULL"));
            assert!(full && began.elapsed() < 3 * PATIENCE, "{reply:?}");
        }
    });
    server.stayed_below(PROMISED + ROOM + DEBUG);
}
