//! `--keys`: what frameworks keep beside the rows of mapped tables, in the same database and the same transactions.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::Server;
use crate::start;

const TABLE: &str = "CREATE TABLE users (id integer PRIMARY KEY, name text, visits integer CHECK (visits >= 0)); \
    INSERT INTO users VALUES (1, 'Ada', 1), (2, 'Bob', 2)";

const SETTINGS: [&str; 8] = [
    "--map",
    "user:{id} -> users(id)",
    "--keys",
    ":1:* -> documents",
    "--keys",
    "session:{id} -> documents",
    "--keys",
    "n:* -> documents",
];

fn world() -> (Server, String, Forebay) {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLE);
    let forebay = start(&server, &database, &SETTINGS);
    (server, database, forebay)
}

fn call(client: &mut Connection, line: &str) -> Reply {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn texts(values: &[&str]) -> Reply {
    Reply::Array(values.iter().map(|value| Reply::bulk(value.as_bytes())).collect())
}

/// Commands of the kind that Django's cache, django-redis and connect-redis send. The packages themselves are no part
/// of it.
#[test]
fn a_frameworks_cache_and_sessions_work_beside_rows() {
    let (_server, _, mut forebay) = world();
    let mut client = Connection::new(forebay.address);
    let mut says = |line: &str, expected: Reply| assert_eq!(call(&mut client, line), expected, "{line}");
    // django.core.cache.backends.redis, with the key prefix `:1:`.
    says("SET :1:views.home x EX 300", ok());
    says("SET :1:forever y", ok());
    says("GET :1:views.home", Reply::bulk(b"x"));
    says("GET :1:nothing", Reply::Nil);
    says("SET :1:views.home z EX 300 NX", Reply::Nil);
    says("SET :1:added z EX 300 NX", Reply::Simple("OK".into()));
    says("TTL :1:added", Reply::Integer(300));
    says(
        "MGET :1:views.home :1:nothing :1:added",
        Reply::Array(vec![Reply::bulk(b"x"), Reply::Nil, Reply::bulk(b"z")]),
    );
    says("EXISTS :1:added", Reply::Integer(1));
    says("INCRBY :1:hits 1", Reply::Integer(1));
    says("INCRBY :1:hits 5", Reply::Integer(6));
    says("EXPIRE :1:hits 100", Reply::Integer(1));
    says("TTL :1:hits", Reply::Integer(100));
    says("PERSIST :1:hits", Reply::Integer(1));
    says("TTL :1:hits", Reply::Integer(-1));
    // set_many: MULTI, MSET, one EXPIRE each.
    says("MULTI", ok());
    says("MSET :1:a 1 :1:b 2", Reply::Simple("QUEUED".into()));
    says("EXPIRE :1:a 300", Reply::Simple("QUEUED".into()));
    says("EXPIRE :1:b 300", Reply::Simple("QUEUED".into()));
    says("EXEC", Reply::Array(vec![ok(), Reply::Integer(1), Reply::Integer(1)]));
    says("DEL :1:a :1:b :1:nothing", Reply::Integer(2));
    // Sessions.
    says("SETEX session:abc 100 {}", ok());
    says("EXPIRE session:abc 200", Reply::Integer(1));
    says("UNLINK session:abc", Reply::Integer(1));
    says("PSETEX session:short 1 {}", ok());
    std::thread::sleep(Duration::from_millis(20));
    says("GET session:short", Reply::Nil);
    says("GETSET :1:forever w", Reply::bulk(b"y"));
    says("TYPE :1:forever", Reply::Simple("string".into()));
    says("HSET :1:hash f v", Reply::Integer(1));
    says("LPUSH :1:list a b", Reply::Integer(2));
    says("SADD :1:set a", Reply::Integer(1));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(call(&mut client, "GET :1:hits"), Reply::bulk(b"6"));
    assert_eq!(call(&mut client, "LRANGE :1:list 0 -1"), texts(&["b", "a"]));
    let Reply::Integer(left) = call(&mut client, "TTL :1:views.home") else { panic!("a number") };
    assert!((200..=300).contains(&left), "{left}");
}

#[test]
fn a_transaction_has_rows_and_documents() {
    let (server, database, forebay) = world();
    let mut client = Connection::new(forebay.address);
    let mut other = Connection::new(forebay.address);
    let transaction = |client: &mut Connection, lines: &[&str]| {
        assert_eq!(call(client, "MULTI"), ok());
        for line in lines {
            assert_eq!(call(client, line), Reply::Simple("QUEUED".into()), "{line}");
        }
        call(client, "EXEC")
    };
    let done = transaction(&mut client, &["HINCRBY user:1 visits 1", "INCR n:1", "SET session:1 a EX 50"]);
    assert_eq!(done, Reply::Array(vec![Reply::Integer(2), Reply::Integer(1), ok()]));
    // What the database refuses of the row undoes the documents.
    let refused = transaction(&mut client, &["INCR n:1", "HINCRBY user:1 visits -50", "SET session:1 b"]);
    assert!(error(refused).contains("visits"), "the constraint is named");
    assert_eq!(call(&mut client, "MGET n:1 session:1"), texts(&["1", "a"]));
    // What others write to the row has the transaction run again, or fail, as a whole.
    assert_eq!(call(&mut client, "WATCH user:1 n:1"), ok());
    assert_eq!(call(&mut client, "HGET user:1 visits"), Reply::bulk(b"2"));
    server.sql(&database, "UPDATE users SET visits = 9 WHERE id = 1");
    assert_eq!(transaction(&mut client, &["HSET user:1 name x", "INCR n:1"]), Reply::NilArray);
    assert_eq!(call(&mut client, "WATCH n:1 n:absent"), ok());
    assert_eq!(call(&mut other, "INCR n:1"), Reply::Integer(2));
    assert_eq!(transaction(&mut client, &["HSET user:1 name x", "INCR n:1"]), Reply::NilArray);
    assert_eq!(call(&mut client, "WATCH n:absent"), ok());
    assert_eq!(call(&mut other, "SET n:absent 1"), ok());
    assert_eq!(transaction(&mut client, &["HSET user:1 name x"]), Reply::NilArray);
    // To clear is no change to what is absent.
    assert_eq!(call(&mut client, "WATCH n:none user:9 user:1"), ok());
    assert_eq!(call(&mut other, "FLUSHDB"), ok());
    assert_eq!(transaction(&mut client, &["SET n:none 1"]), Reply::Array(vec![ok()]));
    assert_eq!(call(&mut client, "WATCH n:none"), ok());
    assert_eq!(call(&mut other, "FLUSHDB"), ok());
    assert_eq!(transaction(&mut client, &["SET n:none 1"]), Reply::NilArray);
    assert_eq!(call(&mut other, "SET n:1 2"), ok());
    assert_eq!(server.sql(&database, "SELECT name, visits FROM users WHERE id = 1"), "Ada|9");
    assert_eq!(call(&mut client, "GET n:1"), Reply::bulk(b"2"));
}

#[test]
fn databases_are_listed_and_cleared_but_for_rows() {
    let (server, database, forebay) = world();
    let mut client = Connection::new(forebay.address);
    let mut says = |line: &str, expected: Reply| assert_eq!(call(&mut client, line), expected, "{line}");
    says("MSET :1:a 1 n:1 1", ok());
    says("DBSIZE", Reply::Integer(4));
    says("KEYS *", texts(&["user:1", "user:2", ":1:a", "n:1"]));
    says("KEYS n:*", texts(&["n:1"]));
    says("SCAN 0 MATCH :1:* COUNT 100", Reply::Array(vec![Reply::bulk(b"0"), texts(&[":1:a"])]));
    says("SELECT 15", ok());
    says("MSET anything 1 user:1 2", ok());
    says("GET user:1", Reply::bulk(b"2"));
    says("DEL user:1", Reply::Integer(1));
    says("RANDOMKEY", Reply::bulk(b"anything"));
    says("FLUSHDB", ok());
    says("DBSIZE", Reply::Integer(0));
    says("SET again 1", ok());
    says("SELECT 0", ok());
    says("HGET user:1 name", Reply::bulk(b"Ada"));
    says("FLUSHDB", ok());
    says("DBSIZE", Reply::Integer(2));
    says("MGET :1:a n:1", Reply::Array(vec![Reply::Nil, Reply::Nil]));
    says("HGET user:1 name", Reply::bulk(b"Ada"));
    says("SET n:1 5", ok());
    says("FLUSHALL", ok());
    says("KEYS *", texts(&["user:1", "user:2"]));
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "0");
    assert!(error(call(&mut client, "DEL user:1")).contains("delete=row"), "of a row it is refused as before");
    // What has expired leaves the table.
    assert_eq!(call(&mut client, "SET n:1 x PX 2000"), ok());
    assert_eq!(server.sql(&database, "SELECT count(*) FROM forebay.documents"), "1");
    let began = Instant::now();
    while server.sql(&database, "SELECT count(*) FROM forebay.documents") != "0" {
        assert!(began.elapsed() < Duration::from_secs(20), "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.sql(&database, "SELECT count(*) FROM users"), "2");
}

#[test]
fn what_neither_names_is_refused_with_the_line_to_add() {
    let (server, database, mut forebay) = world();
    let mut client = Connection::new(forebay.address);
    let says = "no mapping names cart:1; there is user:{id}; if it is no row, add --keys 'cart:* -> documents'";
    for line in ["GET cart:1", "SET cart:1 x", "INCR cart:1", "DEL cart:1"] {
        let error = error(call(&mut client, line));
        assert!(error.contains(says), "{line}: {error}");
    }
    // A mistyped key of a row is no document.
    for line in ["GET user:abc", "SET user:abc {}"] {
        let error = error(call(&mut client, line));
        assert!(error.contains("user:abc names no row") && !error.contains("--keys"), "{line}: {error}");
    }
    forebay.terminate();
    let all = start(&server, &database, &["--map", "user:{id} -> users(id)", "--keys", "* -> documents"]);
    let mut client = Connection::new(all.address);
    assert_eq!(call(&mut client, "SET cart:1 x"), ok());
    assert!(error(call(&mut client, "SET user:abc {}")).contains("user:abc names no row"));
    drop(all);
    // Without --keys all is as it was.
    let none = start(&server, &database, &["--map", "user:{id} -> users(id)"]);
    let mut client = Connection::new(none.address);
    assert!(error(call(&mut client, "GET cart:1")).contains(says));
    assert!(error(call(&mut client, "SELECT 1")).contains("out of range"));
    assert!(error(call(&mut client, "FLUSHDB")).contains("would delete what others wrote"));
    assert_eq!(call(&mut client, "DBSIZE"), Reply::Integer(2));
}
