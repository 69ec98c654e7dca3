//! Writes to documents that are not known while the database is away: HMSET as it is, others after CACHE BLIND ON.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure, said};
use crate::{ok, start};

/// The rule holds for each command of a script, and in TXN.
fn scripts_and_transactions(client: &mut Connection) {
    let refused = |reply: Reply| matches!(&reply, Reply::Error(text) if text.starts_with(b"STOREDOWN"));
    assert_eq!(client.call(&["LREM", "l", "0", "z"]), Reply::Nil);
    // What asks for the present value is refused all the same, and a script that holds such a command as a whole.
    assert!(refused(client.call(&["SETNX", "other", "1"])) && refused(client.call(&["GETSET", "count", "1"])));
    for request in [&["MULTI"][..], &["INCR", "count"], &["GET", "text"]] {
        client.call(request);
    }
    assert!(!matches!(client.call(&["EXEC"]), Reply::Array(_)));
    for request in [&["MULTI"][..], &["INCR", "count"], &["SET", "new", "1"], &["HMSET", "h2", "c", "3"]] {
        client.call(request);
    }
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![Reply::Nil, ok(), ok()]));
    client.call(&["TXN", "BEGIN"]);
    assert_eq!(client.call(&["INCR", "count"]), Reply::Nil);
    assert!(said(&client.call(&["TXN", "COMMIT"])).contains("BUFFERED"));
    assert_eq!(client.call(&["HMGET", "h2", "b", "c"]), Reply::Array(vec![Reply::bulk(b"2"), Reply::bulk(b"3")]));
}

/// What is taken unseen in front of forebay's own table, kept through SIGKILL, and made to what the table holds.
#[test]
fn unseen_changes_are_made_to_what_the_database_holds() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &["--start-in-failed"]);
    let mut client = Connection::new(forebay.address);
    for request in [
        &["SET", "count", "40"][..],
        &["SET", "text", "ab"],
        &["HSET", "h", "a", "1", "n", "5"],
        &["RPUSH", "l", "x", "z"],
        &["SADD", "s", "m", "n"],
        &["SET", "gone", "1"],
        &["HSET", "h2", "a", "1"],
        &["SET", "expires", "40", "PX", "200"],
    ] {
        assert!(!matches!(client.call(request), Reply::Error(_)), "{request:?}");
    }
    server.stop(Stop::Immediate);
    // Nothing is cached after a restart.
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    let refused = |reply: Reply| matches!(&reply, Reply::Error(text) if text.starts_with(b"STOREDOWN"));
    assert!(refused(client.call(&["INCR", "count"])) && refused(client.call(&["HSET", "h", "a", "2"])));
    assert_eq!(client.call(&["HMSET", "h2", "b", "2"]), ok());
    assert_eq!(client.call(&["HGET", "h2", "b"]), Reply::bulk(b"2"));
    assert!(refused(client.call(&["HGET", "h2", "a"])) && refused(client.call(&["HGETALL", "h2"])));
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    for request in [
        &["INCRBY", "count", "2"][..],
        &["APPEND", "text", "cd"],
        &["HSET", "h", "a", "2", "b", "3"],
        &["HDEL", "h", "n"],
        &["RPUSH", "l", "y"],
        &["SADD", "s", "o"],
        &["SREM", "s", "m"],
        &["DEL", "gone"],
    ] {
        assert_eq!(client.call(request), Reply::Nil, "{request:?}");
    }
    // By now that has expired: what is written is a new document.
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert_eq!(client.call(&["INCR", "expires"]), Reply::Nil);
    scripts_and_transactions(&mut client);
    forebay.kill9();
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HGET", "h", "b"]), Reply::bulk(b"3"));
    server.start_again();
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    what_came_of_it(&mut client);
    // The database was away at the start: nothing is lost by that, and no warning says so.
    let log = forebay.log();
    assert!(log.contains("INFO the database is open") && !log.contains("WARN the store was opened"), "{log}");
}

fn what_came_of_it(client: &mut Connection) {
    assert_eq!(client.call(&["TTL", "expires"]), Reply::Integer(-1));
    for (request, expected) in
        [(["GET", "count"], "44"), (["GET", "text"], "abcd"), (["GET", "new"], "1"), (["GET", "expires"], "1")]
    {
        assert_eq!(client.call(&request), Reply::bulk(expected.as_bytes()), "{request:?}");
    }
    let fields = |client: &mut Connection, key: &str, names: &[&str]| {
        let request: Vec<&str> = ["HMGET", key].into_iter().chain(names.iter().copied()).collect();
        said(&client.call(&request))
    };
    assert_eq!(
        fields(client, "h", &["a", "b", "n"]),
        said(&Reply::Array(vec![Reply::bulk(b"2"), Reply::bulk(b"3"), Reply::Nil]))
    );
    assert_eq!(
        said(&client.call(&["LRANGE", "l", "0", "-1"])),
        said(&Reply::Array(vec![Reply::bulk(b"x"), Reply::bulk(b"y")]))
    );
    for (member, there) in [("m", 0), ("n", 1), ("o", 1)] {
        assert_eq!(client.call(&["SISMEMBER", "s", member]), Reply::Integer(there), "{member}");
    }
    assert_eq!(client.call(&["EXISTS", "gone"]), Reply::Integer(0));
    assert_eq!(
        fields(client, "h2", &["a", "b", "c"]),
        said(&Reply::Array(vec![Reply::bulk(b"1"), Reply::bulk(b"2"), Reply::bulk(b"3")]))
    );
}

/// Likewise in front of a table that is not forebay's.
#[test]
fn unseen_changes_of_rows() {
    let server = Server::start();
    let database = server.database();
    server.sql(
        &database,
        "CREATE TABLE users (id integer PRIMARY KEY, name text, visits integer NOT NULL DEFAULT 0);
        INSERT INTO users VALUES (1, 'ann', 5), (2, 'bob', 6);
        CREATE TABLE friends (id integer PRIMARY KEY, list integer[]);
        INSERT INTO friends VALUES (1, '{2,3,4}')",
    );
    let maps = ["--map", "user:{id} -> users(id) delete=row", "--map", "friends:{id} -> friends(id).list as list"];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &maps);
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["HMSET", "user:1", "name", "Ann"]), ok());
    // A text names some of the fields: the others are not known by that.
    assert_eq!(client.call(&["SET", "user:3", "{\"name\": \"cid\"}"]), ok());
    assert!(matches!(client.call(&["GET", "user:3"]), Reply::Error(_)));
    assert_eq!(client.call(&["HGET", "user:3", "name"]), Reply::bulk(b"cid"));
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    assert_eq!(client.call(&["HINCRBY", "user:1", "visits", "1"]), Reply::Nil);
    assert_eq!(client.call(&["DEL", "user:2"]), Reply::Nil);
    for request in
        [&["LREM", "friends:1", "0", "3"][..], &["RPUSH", "friends:1", "5"], &["LREM", "friends:2", "1", "9"]]
    {
        assert_eq!(client.call(request), Reply::Nil, "{request:?}");
    }
    assert_eq!(client.call(&["HGET", "user:1", "name"]), Reply::bulk(b"Ann"));
    assert!(matches!(client.call(&["HGET", "user:1", "visits"]), Reply::Error(_)));
    server.start_again();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT id, name, visits FROM users ORDER BY id"), "1|Ann|6\n3|cid|0");
    assert_eq!(client.call(&["HGET", "user:1", "visits"]), Reply::bulk(b"6"));
    assert_eq!(server.sql(&database, "SELECT id, list FROM friends"), "1|{2,4,5}");
}
