//! The real binary over a real PostgreSQL.

#[path = "postgres/absent.rs"]
mod absent;
mod common;
#[path = "postgres/deletions.rs"]
mod deletions;
#[path = "postgres/keys.rs"]
mod keys;
#[path = "postgres/leased.rs"]
mod leased;
#[path = "postgres/outside.rs"]
mod outside;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "postgres/tracked.rs"]
mod tracked;
#[path = "postgres/warm.rs"]
mod warm;
#[path = "postgres/wide.rs"]
mod wide;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::Connection;
use common::process::{Forebay, forebay_command};
use forebay_protocol::Reply;
use postgres::{Server, Stop};

/// A database on a busy machine, and locks that wait longer than it.
const PATIENT: [&str; 6] = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];

fn start(server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url(database), &[&PATIENT[..], more].concat())
}

#[test]
fn any_client_reads_and_writes_documents() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "a", "1"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["INCRBY", "a", "41"]), Reply::Integer(42));
    assert_eq!(client.call(&["HSET", "h", "f", "v", "g", "w"]), Reply::Integer(2));
    assert_eq!(client.call(&["RPUSH", "l", "1", "2", "3"]), Reply::Integer(3));
    client.call(&["MULTI"]);
    client.call(&["INCR", "a"]);
    client.call(&["HDEL", "h", "g"]);
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![Reply::Integer(43), Reply::Integer(1)]));
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(3));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["GET", "a"]), Reply::bulk(b"43"));
    assert_eq!(client.call(&["HGETALL", "h"]), Reply::Array(vec![Reply::bulk(b"f"), Reply::bulk(b"v")]));
    assert_eq!(
        client.call(&["LRANGE", "l", "0", "-1"]),
        Reply::Array(["1", "2", "3"].map(|e| Reply::bulk(e.as_bytes())).into())
    );
    assert_eq!(client.call(&["FLUSHALL"]), Reply::Simple("OK".into()));
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "0");
    forebay.terminate();
}

/// Counters, while PostgreSQL is stopped as in a crash and started again: what was acknowledged is there exactly once.
#[test]
fn counters_stay_exact_over_crashes_of_the_database() {
    let server = Server::start();
    let database = server.database();
    let forebay = start(&server, &database, &[]);
    let stop = AtomicBool::new(false);
    let counted: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let count = || {
            let mut client = Connection::new(forebay.address);
            let (mut acknowledged, mut unknown) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                match client.call(&["INCR", "counter"]) {
                    Reply::Integer(_) => acknowledged += 1,
                    Reply::Error(text) if text.starts_with(b"TXUNKNOWN") => unknown += 1,
                    Reply::Error(text) if text.starts_with(b"STOREDOWN") => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    other => panic!("{other:?}"),
                }
            }
            (acknowledged, unknown)
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(400));
            server.stop(Stop::Immediate);
            std::thread::sleep(Duration::from_millis(200));
            server.start_again();
        }
        std::thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("the client ends well")).collect()
    });
    let acknowledged: u64 = counted.iter().map(|(acknowledged, _)| acknowledged).sum();
    let unknown: u64 = counted.iter().map(|(_, unknown)| unknown).sum();
    let mut client = Connection::new(forebay.address);
    let there = loop {
        match client.call(&["GET", "counter"]) {
            Reply::Bulk(text) => break String::from_utf8_lossy(&text).parse::<u64>().expect("a number"),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    assert!(acknowledged > 0);
    assert!((acknowledged..=acknowledged + unknown).contains(&there), "{there}: {acknowledged} and {unknown} unknown");
}

#[test]
fn what_is_wrong_is_said_at_the_start() {
    let refused = |arguments: &[&str]| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = forebay_command();
        command.current_dir(&folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off"]).args(arguments);
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = refused(&["--store", "postgres://app@127.0.0.1:1/shop"]);
    assert!(text.contains("can't reach PostgreSQL at 127.0.0.1:1/shop"), "{text}");
    let text = refused(&["--store", "postgres://app:secret@127.0.0.1/shop"]);
    assert!(text.contains("--store-password-file"), "{text}");
    let text = refused(&["--store", "postgres://app@127.0.0.1/shop", "--store-timeout-ms", "500"]);
    assert!(text.contains("lock-wait-ms-min"), "{text}");
    let never = ["--durability", "never", "--on-outage", "refuse"];
    let text = refused(&[&["--store", "postgres://app@127.0.0.1/shop"], &never[..]].concat());
    assert!(text.contains("durability"), "{text}");
}

/// `forebay store ..` with these arguments: exit code and output.
fn store(arguments: &[&str]) -> (Option<i32>, String) {
    let output = forebay_command().arg("store").args(arguments).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn bulks(reply: Reply) -> Vec<String> {
    let Reply::Array(items) = reply else { panic!("{reply:?}") };
    let text = |item| match item {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(text).collect()
}

#[test]
fn an_existing_table_is_fronted() {
    let server = Server::start();
    let database = server.database();
    let table = "CREATE TABLE users (id integer PRIMARY KEY, name text NOT NULL, visits integer NOT NULL DEFAULT 0
        CHECK (visits < 1000)); INSERT INTO users VALUES (1, 'Ada', 5)";
    server.sql(&database, table);
    let url = server.url(&database);
    let map = ["--store", &url, "--map", "user:{id} -> users(id)", "--store-timeout-ms", "400"];
    let (code, text) = store(&[&["check"], &map[..]].concat());
    assert!(code == Some(1) && text.contains("fsync is off") && text.contains("3 fields"), "{text}");
    let (code, script) = store(&[&["init", "--print"], &map[..]].concat());
    assert!(code == Some(0) && script.contains("ADD COLUMN IF NOT EXISTS forebay_version"), "{script}");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM pg_namespace WHERE nspname = 'forebay'"), "0");
    server.sql(&database, &script);
    // A second run keeps the mode; no other is taken.
    assert_eq!(store(&[&["init"], &map[..]].concat()).0, Some(0));
    for (mode, kept) in [("column", true), ("side", false), ("none", false)] {
        let (code, text) = store(&[&["init", "--version", mode], &map[..]].concat());
        assert_eq!((code == Some(0), !text.contains("keeps its versions by `column`")), (kept, kept), "{text}");
    }
    let (code, text) = store(&[&["check"], &map[..]].concat());
    assert!(code == Some(1) && text.contains("version(column)") && text.contains("other writers are seen"), "{text}");

    let forebay = start(&server, &database, &["--map", "user:{id} -> users(id) delete=row"]);
    let mut client = Connection::new(forebay.address);
    let row = |visits: &str| ["id", "1", "name", "Ada", "visits", visits].map(str::to_owned).to_vec();
    assert_eq!(bulks(client.call(&["HGETALL", "user:1"])), row("5"));
    assert_eq!(client.call(&["HINCRBY", "user:1", "visits", "1"]), Reply::Integer(6));
    assert_eq!(server.sql(&database, "SELECT visits FROM users"), "6");
    assert!(matches!(client.call(&["HINCRBY", "user:1", "visits", "2000"]), Reply::Error(_)));
    assert!(matches!(client.call(&["GET", "account:1"]), Reply::Error(_)));
    assert!(matches!(client.call(&["FLUSHALL"]), Reply::Error(_)));
    // A row of nothing but its key: refused where it needs a name, made where it does not, and only once.
    assert!(matches!(client.call(&["SET", "user:7", "{}", "NX"]), Reply::Error(_)));
    server.sql(&database, "ALTER TABLE users ALTER name DROP NOT NULL");
    assert_eq!(client.call(&["SET", "user:7", "{}", "NX"]), Reply::Simple("OK".into()));
    assert_eq!(client.call(&["SET", "user:7", "{}", "NX"]), Reply::Nil);
    assert_eq!(client.call(&["SETNX", "user:8", "{\"name\":null}"]), Reply::Integer(1));
    assert_eq!(client.call(&["SETNX", "user:8", "{\"name\":null}"]), Reply::Integer(0));
    assert_eq!(server.sql(&database, "SELECT string_agg(id::text, ',' ORDER BY id) FROM users"), "1,7,8");
    assert_eq!(client.call(&["DEL", "user:7", "user:8"]), Reply::Integer(2));
    assert_eq!(bulks(client.call(&["HGETALL", "user:1"])), row("6"));
    // Another program writes what is cached.
    server.sql(&database, "UPDATE users SET visits = 50");
    while bulks(client.call(&["HGETALL", "user:1"])) != row("50") {}
    // And what a transaction has read, before it commits.
    client.call(&["TXN", "BEGIN"]);
    assert_eq!(client.call(&["HGET", "user:1", "visits"]), Reply::bulk(b"50"));
    server.sql(&database, "UPDATE users SET visits = 60");
    client.call(&["HSET", "user:2", "name", "Bob"]);
    match client.call(&["TXN", "COMMIT"]) {
        Reply::Error(text) => assert!(text.starts_with(b"TXCONFLICT"), "{text:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM users"), "1");
    // A plain command reads and commits again by itself.
    assert_eq!(client.call(&["HINCRBY", "user:1", "visits", "1"]), Reply::Integer(61));
    assert_eq!(client.call(&["HSET", "user:2", "name", "Bob"]), Reply::Integer(1));
    assert_eq!(bulks(client.call(&["HGETALL", "user:2"])), ["id", "2", "name", "Bob", "visits", "0"]);
    assert_eq!(client.call(&["DEL", "user:1"]), Reply::Integer(1));
    assert_eq!(server.sql(&database, "SELECT id, name FROM users"), "2|Bob");
}

#[test]
fn counters_are_shared_with_another_program() {
    counters_are_shared("triggers");
}

#[test]
fn counters_are_shared_with_another_program_that_is_decoded() {
    counters_are_shared("decoding");
}

/// Many clients and another program add to the same rows; nothing is lost, and what is cached ends up right.
fn counters_are_shared(outside: &str) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE users (id integer PRIMARY KEY, visits integer NOT NULL DEFAULT 0)");
    server.sql(&database, "INSERT INTO users SELECT generate_series(1, 4), 0");
    let url = server.url(&database);
    let map = ["--store", &url, "--map", "user:{id} -> users(id)", "--outside", outside];
    assert_eq!(store(&[&["init", "--store-timeout-ms", "400"], &map[..]].concat()).0, Some(0));
    let triggers = server.sql(&database, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'users'::regclass");
    assert_eq!(triggers == "0", outside == "decoding");
    let mut forebay = start(&server, &database, &[&map[2..], &["--retries-max", "100"]].concat());
    let added: u64 = std::thread::scope(|scope| {
        let count = |number: usize| {
            let mut client = Connection::new(forebay.address);
            (0..60).map(move |at| format!("user:{}", 1 + (at + number) % 4)).fold(0, |added, key| {
                match client.call(&["HINCRBY", &key, "visits", "1"]) {
                    Reply::Integer(_) => added + 1,
                    other => panic!("{other:?}"),
                }
            })
        };
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || count(number))).collect();
        for _ in 0..30 {
            server.sql(&database, "UPDATE users SET visits = visits + 1 WHERE id = 2");
        }
        clients.into_iter().map(|client| client.join().expect("the client ends well")).sum()
    });
    assert_eq!(added, 240);
    assert_eq!(server.sql(&database, "SELECT sum(visits) FROM users"), "270");
    let mut client = Connection::new(forebay.address);
    for id in 1..=4 {
        let there = server.sql(&database, &format!("SELECT visits FROM users WHERE id = {id}"));
        while client.call(&["HGET", &format!("user:{id}"), "visits"]) != Reply::bulk(there.as_bytes()) {}
    }
    let Reply::Bulk(figures) = client.call(&["INFO", "database"]) else { panic!("INFO answers text") };
    let figures = String::from_utf8_lossy(&figures).into_owned();
    for line in [format!("outside_by:{outside}\r\n"), "database_commits_committed:240\r\n".into()] {
        assert!(figures.contains(&line), "{line}: {figures}");
    }
    let slot = |arguments: &[&str]| store(&[arguments, &map[..2], &["--store-timeout-ms", "400"]].concat());
    let (code, said) = slot(&["drop-slot"]);
    assert!(code == Some(2) && said.contains("another forebay has"), "{said}");
    forebay.terminate();
    let (code, said) = slot(&["drop-slot"]);
    assert_eq!((code, said.contains("is gone")), (Some(0), outside == "decoding"), "{said}");
}

/// OK, with a version if it is a commit that wrote.
fn ok(reply: &Reply) -> bool {
    matches!(reply, Reply::Simple(text) if text.starts_with("OK"))
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

const MEMBERS: &str = "CREATE TABLE members (id integer PRIMARY KEY, name text NOT NULL, visits integer NOT NULL
    DEFAULT 0, flag boolean, friends integer[]); INSERT INTO members VALUES (1, 'Ada', 5, true, '{5,6}');
    INSERT INTO members (id, name) VALUES (2, 'Bob')";

/// A forebay in front of the members, with two documents in each row.
fn members(server: &Server) -> (String, Forebay) {
    let database = server.database();
    server.sql(&database, MEMBERS);
    let maps = ["--map", "user:{id} -> members(id) delete=row", "--map", "friends:{id} -> members(id).friends as list"];
    let url = server.url(&database);
    let (code, said) = store(&[&["init", "--store", &url, "--store-timeout-ms", "400"], &maps[..]].concat());
    assert_eq!(code, Some(0), "{said}");
    let forebay = start(server, &database, &maps);
    (database, forebay)
}

#[test]
fn a_row_is_json_for_get_and_set() {
    let server = Server::start();
    let (database, forebay) = members(&server);
    let mut client = Connection::new(forebay.address);
    let ada = "{\"id\":1,\"name\":\"Ada\",\"visits\":5,\"flag\":true}";
    for _ in 0..2 {
        assert_eq!(text(client.call(&["GET", "user:1"])), ada, "from the database, then from the cache");
    }
    assert_eq!(client.call(&["GET", "user:9"]), Reply::Nil);
    assert_eq!(error(client.call(&["GET", "friends:1"])).split(' ').next(), Some("WRONGTYPE"));
    // Only what is named is changed; what was got can be set again.
    assert!(ok(&client.call(&["SET", "user:1", "{\"visits\": 7, \"flag\": null}"])));
    assert_eq!(server.sql(&database, "SELECT name, visits, flag, friends FROM members WHERE id = 1"), "Ada|7||{5,6}");
    assert!(ok(&client.call(&["SET", "user:1", ada])));
    assert_eq!(text(client.call(&["GET", "user:1"])), ada);
    assert!(ok(&client.call(&["SET", "user:3", "{\"name\": \"Cleo\"}"])));
    assert_eq!(server.sql(&database, "SELECT name, visits FROM members WHERE id = 3"), "Cleo|0");
    for (key, value, part) in [
        ("user:1", "{\"nothing\": 1}", "no field nothing"),
        ("user:1", "{\"id\": 2}", "read-only"),
        ("user:1", "{\"friends\": [1]}", "no field friends"),
        ("user:1", "hello", "JSON object"),
        ("user:1", "{\"visits\": \"many\"}", "22P02"),
        ("friends:1", "{}", "LPUSH"),
        ("user:8", "{\"visits\": 1}", "23502"),
    ] {
        let said = error(client.call(&["SET", key, value]));
        assert!(said.contains(part), "{key} {value}: {said}");
    }
    // A transaction sees the fields that it has set, known before or not.
    for key in ["user:1", "user:2"] {
        assert!(ok(&client.call(&["TXN", "BEGIN"])));
        assert!(ok(&client.call(&["SET", key, "{\"visits\": 40}"])));
        assert_eq!(client.call(&["HINCRBY", key, "visits", "2"]), Reply::Integer(42));
        assert!(ok(&client.call(&["TXN", "COMMIT"])));
    }
    assert_eq!(server.sql(&database, "SELECT id, visits FROM members ORDER BY id"), "1|42\n2|42\n3|0");
    assert_eq!(
        text(client.call(&["GETSET", "user:2", "{\"visits\": 1}"])),
        "{\"id\":2,\"name\":\"Bob\",\"visits\":42,\"flag\":null}"
    );
}

/// Lock, version and cache entry belong to the row: what changes one of its documents is seen in the others.
#[test]
fn a_row_is_several_documents() {
    let server = Server::start();
    let (database, forebay) = members(&server);
    let mut client = Connection::new(forebay.address);
    let friends = |client: &mut Connection| bulks(client.call(&["LRANGE", "friends:1", "0", "-1"]));
    assert_eq!(friends(&mut client), ["5", "6"]);
    assert_eq!(bulks(client.call(&["HGETALL", "user:1"])), ["flag", "true", "id", "1", "name", "Ada", "visits", "5"]);
    assert_eq!(client.call(&["RPUSH", "friends:1", "7"]), Reply::Integer(3));
    assert_eq!(client.call(&["HINCRBY", "user:1", "visits", "1"]), Reply::Integer(6));
    // Both at once, in one transaction of the database.
    client.call(&["MULTI"]);
    client.call(&["HSET", "user:1", "name", "Adele"]);
    client.call(&["LPUSH", "friends:1", "4"]);
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![Reply::Integer(0), Reply::Integer(4)]));
    assert_eq!(server.sql(&database, "SELECT name, visits, friends FROM members WHERE id = 1"), "Adele|6|{4,5,6,7}");
    // Another program's write to the row takes both out of the cache, and DEL of one the other.
    server.sql(&database, "UPDATE members SET friends = '{9}', visits = 9 WHERE id = 1");
    while friends(&mut client) != ["9"] {}
    while client.call(&["HGET", "user:1", "visits"]) != Reply::bulk(b"9") {}
    assert_eq!(friends(&mut client), ["9"]);
    assert_eq!(client.call(&["DEL", "user:1"]), Reply::Integer(1));
    assert_eq!(client.call(&["EXISTS", "friends:1", "user:1"]), Reply::Integer(0));
    // The holder of one holds the other: the writer waits for the reader, and then writes.
    let mut reader = Connection::new(forebay.address);
    assert!(ok(&reader.call(&["TXN", "BEGIN"])));
    assert_eq!(reader.call(&["HGET", "user:2", "name"]), Reply::bulk(b"Bob"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| Connection::new(forebay.address).call(&["RPUSH", "friends:2", "1"]));
        assert_eq!(reader.call(&["LLEN", "friends:2"]), Reply::Integer(0));
        assert!(ok(&reader.call(&["TXN", "COMMIT"])));
        assert_eq!(writer.join().expect("it ends well"), Reply::Integer(1));
    });
    let said = |maps: [&str; 2]| {
        let url = server.url(&database);
        store(&["check", "--store", &url, "--store-timeout-ms", "400", "--map", maps[0], "--map", maps[1]]).1
    };
    let twice = said(["a:{id} -> members(id)", "b:{id} -> members(id) fields(name)"]);
    assert!(twice.contains("name is a field of"), "{twice}");
    let fine = said(["a:{id} -> members(id) fields(visits)", "b:{id} -> members(id) fields(name)"]);
    assert!(!fine.contains("--map"), "{fine}");
}

/// A row does not expire: EXPIRE and its kind say how long its copy in the cache is believed.
#[test]
fn an_expiry_bounds_the_copy_in_the_cache() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, MEMBERS);
    // Nothing tells what others write.
    let forebay = start(&server, &database, &["--map", "user:{id} -> members(id) version(none)"]);
    let mut client = Connection::new(forebay.address);
    let visits = |client: &mut Connection| text(client.call(&["HGET", "user:1", "visits"]));
    assert_eq!(visits(&mut client), "5");
    server.sql(&database, "UPDATE members SET visits = 6 WHERE id = 1");
    assert_eq!(visits(&mut client), "5", "it is cached");
    assert_eq!(client.call(&["PEXPIRE", "user:1", "50"]), Reply::Integer(1));
    assert_eq!(client.call(&["PEXPIRE", "user:9", "50"]), Reply::Integer(0));
    assert_eq!(client.call(&["TTL", "user:1"]), Reply::Integer(-1), "the row does not expire");
    while visits(&mut client) != "6" {}
    // A moment that has come does not delete the row either.
    server.sql(&database, "UPDATE members SET visits = 7 WHERE id = 1");
    assert_eq!(client.call(&["EXPIRE", "user:1", "-1"]), Reply::Integer(1));
    assert_eq!(visits(&mut client), "7");
    assert!(ok(&client.call(&["SET", "user:1", "{\"visits\": 8}", "PX", "50"])));
    server.sql(&database, "UPDATE members SET visits = 9 WHERE id = 1");
    while visits(&mut client) != "9" {}
    assert_eq!(server.sql(&database, "SELECT count(*) FROM members"), "2");
}

#[test]
fn a_checked_reader_saw_one_moment() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, MEMBERS);
    let forebay = start(&server, &database, &["--map", "user:{id} -> members(id) version(none)"]);
    let mut client = Connection::new(forebay.address);
    let mut read = |kind: &[&str], between: &str| {
        assert!(ok(&client.call(&[&["TXN", "BEGIN"], kind].concat())));
        client.call(&["HGET", "user:1", "visits"]);
        server.sql(&database, between);
        client.call(&["HGET", "user:2", "visits"]);
        client.call(&["HGET", "user:3", "visits"]);
        client.call(&["TXN", "COMMIT"])
    };
    let both = "UPDATE members SET visits = visits + 1";
    assert!(ok(&read(&["READONLY"], both)), "it may mix");
    let said = error(read(&["READONLY", "CHECKED"], both));
    assert!(said.starts_with("TXCONFLICT") && said.contains("user:"), "{said}");
    // What was overtaken has left the cache, so to begin again helps.
    assert!(ok(&read(&["READONLY", "CHECKED"], "SELECT 1")));
    assert!(
        error(read(&["READONLY", "CHECKED"], "INSERT INTO members (id, name) VALUES (3, 'Cleo')"))
            .starts_with("TXCONFLICT")
    );
    assert!(error(client.call(&["TXN", "BEGIN", "CHECKED"])).contains("syntax"));
}
