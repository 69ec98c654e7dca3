//! The same over PostgreSQL: what commits write, and what requests read, is not in memory several times on its way.

use forebay_protocol::Reply;

use super::{CLIENTS, MIB, PROMISED, Server, request, says};
use crate::common::Connection;
use crate::postgres;

/// What a debug build takes more than what is promised.
const DEBUG: u64 = 10 * MIB;

const AT_ONCE: usize = CLIENTS / 2;

/// Fields or elements of a large collection, and how many a command adds.
const ELEMENTS: usize = 60_000;
const ADDED: usize = 5_000;

/// The machine may be busy.
const PATIENT: [&str; 6] = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "10000", "--lock-wait-ms-max", "20000"];

const LONG: usize = 4_000_000;

fn exec(server: &Server, commands: Vec<Vec<String>>) {
    let script = [vec![request(&["MULTI"])], commands, vec![request(&["EXEC"])]].concat();
    let last = server.connect().pipeline(&script).pop();
    let refused = |reply: &Reply| matches!(reply, Reply::Error(..)) || says(reply, "LIMIT");
    assert!(matches!(&last, Some(Reply::Array(replies)) if !replies.iter().any(refused)), "{}", server.row);
}

/// Clients that do `work` at a time, each with its number.
fn at_once(server: &Server, work: impl Fn(usize, &mut Connection) + Sync) {
    std::thread::scope(|clients| {
        for client in 0..AT_ONCE {
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
