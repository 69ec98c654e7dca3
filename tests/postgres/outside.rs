//! What other programs write with SQL, and what clients do about it: CACHE SYNC, CACHE INVALIDATE, and tables that
//! nothing watches.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use forebay_drivers::postgres::plain::Plain;
use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::Server;
use crate::{bulks, start, store};

/// Another program with a connection of its own, since a psql per write would take most of the time.
pub struct Program {
    connection: Plain,
    runtime: tokio::runtime::Runtime,
}

impl Program {
    pub fn new(server: &Server, database: &str) -> Program {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let address = server.url(database).parse().expect("a URL");
        let connection = runtime.block_on(Plain::connect(&address, None, "another program")).expect("it is there");
        Program { connection, runtime }
    }

    pub fn sql(&self, text: &str) {
        self.runtime.block_on(self.connection.client.batch_execute(text)).expect("it can be written");
    }
}

/// Two tables; triggers note what is written to the first.
pub fn world(triggers: bool, more: &[&str]) -> (Server, String, Forebay) {
    let server = Server::start();
    let database = server.database();
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (id integer PRIMARY KEY, visits integer NOT NULL DEFAULT 0, secret text);
             INSERT INTO {name} SELECT generate_series(1, 9);"
        )
    };
    server.sql(&database, &(table("users") + &table("plain")));
    let url = server.url(&database);
    let users = "user:{id} -> users(id) fields(visits)";
    if triggers {
        assert_eq!(store(&["init", "--store", &url, "--store-timeout-ms", "400", "--map", users]).0, Some(0));
    }
    let maps = ["--map", users, "--map", "plain:{id} -> plain(id) fields(visits)"];
    let forebay = start(&server, &database, &[&maps[..], more].concat());
    (server, database, forebay)
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn starts(reply: &Reply, with: &str) {
    assert!(matches!(reply, Reply::Error(text) if text.starts_with(with.as_bytes())), "{reply:?}, not {with}");
}

fn visits(client: &mut Connection, key: &str) -> String {
    match client.call(&["HGET", key, "visits"]) {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

fn state(client: &mut Connection, name: &str) -> Reply {
    let Reply::Array(pairs) = client.call(&["CACHE", "STATE"]) else { panic!("CACHE STATE is a map") };
    let at = pairs.iter().position(|item| *item == Reply::bulk(name.as_bytes())).expect("it has this figure");
    pairs[at + 1].clone()
}

/// Writes by SQL, asks for it, and reads, many times over both tables.
fn what_was_committed_is_read_behind_sync(more: &[&str], triggers: bool, rounds: usize) {
    // A pause that nobody could wait out so often.
    let more = [more, &["--outside-ms", "2000"]].concat();
    let (server, database, forebay) = world(triggers, &more);
    let (program, mut client) = (Program::new(&server, &database), Connection::new(forebay.address));
    assert_eq!(client.call(&["CACHE", "SYNC"]), ok());
    let mut took: Vec<Duration> = Vec::new();
    for round in 1..=rounds {
        for table in ["user", "plain"] {
            visits(&mut client, &format!("{table}:1"));
        }
        program.sql(&format!("UPDATE users SET visits = {round}; UPDATE plain SET visits = {round};"));
        let began = Instant::now();
        assert_eq!(client.call(&["CACHE", "SYNC"]), ok());
        took.push(began.elapsed());
        for table in ["user", "plain"] {
            assert_eq!(visits(&mut client, &format!("{table}:1")), round.to_string(), "{table} in round {round}");
        }
    }
    took.sort_unstable();
    println!("CACHE SYNC: median {:?}, p99 {:?}", took[rounds / 2], took[rounds * 99 / 100]);
}

/// It prints what CACHE SYNC takes. With `FOREBAY_NIGHTLY=1` and `cargo test --release` that is a measurement.
#[test]
fn behind_sync_all_is_read_that_others_have_committed() {
    let rounds = if std::env::var_os("FOREBAY_NIGHTLY").is_some() { 5_000 } else { 200 };
    what_was_committed_is_read_behind_sync(&["--unwatched-ms", "86400000"], true, rounds);
}

#[test]
fn behind_sync_all_is_read_that_is_decoded() {
    what_was_committed_is_read_behind_sync(&["--outside", "decoding"], false, 30);
}

/// Nothing is watched, and nothing is asked for again: what is cached is dropped.
#[test]
fn behind_sync_all_is_read_of_what_nothing_watches() {
    what_was_committed_is_read_behind_sync(&["--outside", "off"], false, 20);
}

#[test]
fn what_is_invalidated_is_read_again_and_nothing_else() {
    let (server, database, forebay) = world(false, &["--outside", "off"]);
    let (program, mut client) = (Program::new(&server, &database), Connection::new(forebay.address));
    for at in 1..=3 {
        assert_eq!(visits(&mut client, &format!("user:{at}")), "0");
    }
    program.sql("UPDATE users SET visits = 5");
    assert_eq!(client.call(&["CACHE", "INVALIDATE", "user:1", "user:2", "user:8", "nothing"]), Reply::Integer(2));
    assert_eq!([1, 2, 3].map(|at| visits(&mut client, &format!("user:{at}"))), ["5", "5", "0"]);
    assert_eq!(client.call(&["CACHE", "INVALIDATE", "FORCE"]), Reply::Integer(0), "a key of that name");
    // In transactions what was read stays read.
    client.call(&["MULTI"]);
    starts(&client.call(&["CACHE", "INVALIDATE", "user:1"]), "ERR");
    starts(&client.call(&["EXEC"]), "EXECABORT");
    client.call(&["TXN", "BEGIN"]);
    starts(&client.call(&["CACHE", "INVALIDATE", "user:1"]), "ERR CACHE INVALIDATE inside TXN");
    starts(&client.call(&["CACHE", "SYNC"]), "ERR CACHE SYNC inside TXN");
    assert_eq!(client.call(&["TXN", "ABORT"]), ok());
    // The right to write the keys, and to write.
    client.call(&["ACL", "SETUSER", "writer", "on", ">p", "+@write", "%W~user:*"]);
    client.call(&["ACL", "SETUSER", "reader", "on", ">p", "+@read", "+cache|sync", "~*"]);
    let mut other = Connection::new(forebay.address);
    assert_eq!(other.call(&["AUTH", "writer", "p"]), ok());
    assert_eq!(other.call(&["CACHE", "INVALIDATE", "user:1"]), Reply::Integer(1));
    starts(&other.call(&["CACHE", "INVALIDATE", "user:1", "plain:1"]), "NOPERM");
    assert_eq!(other.call(&["AUTH", "reader", "p"]), ok());
    starts(&other.call(&["CACHE", "INVALIDATE", "user:1"]), "NOPERM");
    assert_eq!(other.call(&["CACHE", "SYNC"]), ok());
    // While the database is away, what is cached is all there is, and what is buffered more so.
    assert_eq!(["user:1", "user:3"].map(|key| visits(&mut client, key)), ["5", "5"]);
    client.call(&["DEBUG", "STORE", "FAIL", "600"]);
    assert_eq!(client.call(&["HINCRBY", "user:3", "visits", "7"]), Reply::Integer(12));
    starts(&client.call(&["CACHE", "INVALIDATE", "user:1"]), "STOREDOWN");
    starts(&client.call(&["CACHE", "SYNC"]), "STOREDOWN");
    assert_eq!(visits(&mut client, "user:1"), "5");
    assert_eq!(client.call(&["CACHE", "INVALIDATE", "user:1", "user:3", "FORCE"]), Reply::Integer(1));
    starts(&client.call(&["HGET", "user:1", "visits"]), "STOREDOWN");
    assert_eq!(visits(&mut client, "user:3"), "12", "what is buffered stays");
    client.call(&["DEBUG", "STORE", "FAIL", "0"]);
    let told = client.call(&["CACHE", "WAIT", "1", "60000"]);
    assert!(matches!(&told, Reply::Simple(text) if text.starts_with("APPLIED")), "{told:?}");
}

/// A table without triggers beside one that has some: its rows are compared again, and read where they differ.
#[test]
fn what_nothing_watches_is_compared_again() {
    let http = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let (server, database, forebay) = world(true, &["--unwatched-ms", "50", "--http", &http]);
    let (program, mut client) = (Program::new(&server, &database), Connection::new(forebay.address));
    assert_eq!(state(&mut client, "unwatched"), Reply::Array(vec![Reply::bulk(b"public.plain")]));
    assert!(forebay.log().contains("nothing tells what other programs write to this table"), "{}", forebay.log());
    for round in 1..=5 {
        program.sql(&format!("UPDATE plain SET visits = {round} WHERE id = 1"));
        while visits(&mut client, "plain:1") != round.to_string() {
            visits(&mut client, "plain:2");
        }
    }
    // What has not changed is compared, and stays.
    let figures = crate::common::http(&http, "/metrics");
    let of = |name: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(&format!("{name}{{table=\"public.plain\"}} ")));
        line.and_then(|count| count.parse::<f64>().ok()).unwrap_or_else(|| panic!("no {name} in {figures}"))
    };
    let (compared, changed) = (of("forebay_unwatched_compared_total"), of("forebay_unwatched_changed_total"));
    assert!((1.0..=5.0).contains(&changed) && compared > changed, "{compared} {changed}");
    // In an outage what is cached is all there is.
    client.call(&["DEBUG", "STORE", "FAIL", "600"]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(visits(&mut client, "plain:1"), "5");
}

/// A column gets another name, and one is added: forebay finds out the first by itself, and the second when asked.
#[test]
fn an_altered_table_is_looked_up_again() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE items (id integer PRIMARY KEY, a integer); INSERT INTO items VALUES (1, 1)");
    let forebay = start(&server, &database, &["--map", "item:{id} -> items(id)", "--outside", "off"]);
    let (program, mut client) = (Program::new(&server, &database), Connection::new(forebay.address));
    let fields = |client: &mut Connection| bulks(client.call(&["HGETALL", "item:1"]));
    assert_eq!(fields(&mut client), ["a", "1", "id", "1"]);
    program.sql("ALTER TABLE items RENAME a TO b");
    starts(&client.call(&["HSET", "item:1", "a", "5"]), "ERR the store refuses it");
    while client.call(&["HSET", "item:1", "b", "5"]) != Reply::Integer(0) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fields(&mut client), ["b", "5", "id", "1"]);
    program.sql("ALTER TABLE items ADD COLUMN c integer DEFAULT 7");
    assert_eq!(fields(&mut client), ["b", "5", "id", "1"]);
    assert_eq!(client.call(&["CACHE", "RELOAD"]), ok());
    assert_eq!(fields(&mut client), ["b", "5", "c", "7", "id", "1"]);
    // What waits for the tables has its place by what they were.
    client.call(&["DEBUG", "STORE", "FAIL", "600"]);
    assert_eq!(client.call(&["HSET", "item:1", "c", "8"]), Reply::Integer(0));
    starts(&client.call(&["CACHE", "RELOAD"]), "ERR the mapped tables stay as they were");
    client.call(&["DEBUG", "STORE", "FAIL", "0"]);
    client.call(&["CACHE", "WAIT", "1", "60000"]);
    program.sql("ALTER TABLE items DROP COLUMN id CASCADE");
    while !matches!(client.call(&["CACHE", "RELOAD"]), Reply::Error(text) if text.ends_with(b"it has b, c")) {}
}
