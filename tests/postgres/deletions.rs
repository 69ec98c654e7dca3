//! Forgetting is not deleting: DEL of a row does what its mapping says.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::Server;
use crate::{start, store};

const TABLES: &str = "\
CREATE TABLE users (id integer PRIMARY KEY, name text, friends text[]);
INSERT INTO users VALUES (1, 'Ada', '{2}'), (2, 'Bob', '{}');
CREATE TABLE pages (id integer PRIMARY KEY, text text);
INSERT INTO pages VALUES (1, 'a');
CREATE TABLE carts (id integer PRIMARY KEY, items integer);
INSERT INTO carts VALUES (1, 3), (2, 4)";

const MAPS: [&str; 8] = [
    "--map",
    "user:{id} -> users(id) fields(name)",
    "--map",
    "friends:{id} -> users(id).friends as list",
    "--map",
    "page:{id} -> pages(id) delete=invalidate",
    "--map",
    "cart:{id} -> carts(id) delete=row",
];

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_is_deleted_where_its_mapping_says_so() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLES);
    let url = server.url(&database);
    let (code, said) = store(&[&["init", "--store", &url, "--store-timeout-ms", "400"][..], &MAPS].concat());
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = store(&[&["check", "--store", &url, "--store-timeout-ms", "400"][..], &MAPS].concat());
    for choice in ["DEL is refused", "DEL empties the column", "DEL drops the cached copy", "DEL deletes the row"] {
        assert!(said.contains(choice), "{said}");
    }
    let forebay = start(&server, &database, &[&MAPS[..], &["--log-level", "info"]].concat());
    let mut client = Connection::new(forebay.address);
    for command in ["DEL", "UNLINK", "GETDEL"] {
        let why = error(client.call(&[command, "user:1"]));
        assert!(why.contains("CACHE INVALIDATE user:1") && why.contains("delete=row"), "{why}");
        client.call(&["MULTI"]);
        assert!(error(client.call(&[command, "user:1"])).contains("delete=row"), "{command}");
        assert!(error(client.call(&["EXEC"])).starts_with("EXECABORT"), "{command}");
        client.call(&["TXN", "BEGIN"]);
        assert!(error(client.call(&[command, "user:1"])).contains("delete=row"), "{command}");
        assert_eq!(client.call(&["HGET", "user:1", "name"]), Reply::bulk(b"Ada"));
        client.call(&["TXN", "COMMIT"]);
    }
    // One that may be deleted beside one that may not.
    error(client.call(&["DEL", "cart:1", "user:1"]));
    assert_eq!(client.call(&["DEL", "friends:1"]), Reply::Integer(1));
    assert_eq!(client.call(&["DEL", "cart:1", "cart:9"]), Reply::Integer(1));
    assert_eq!(client.call(&["UNLINK", "cart:2"]), Reply::Integer(1));
    let rows = server.sql(&database, "SELECT id, name, friends FROM users ORDER BY id; SELECT count(*) FROM carts");
    assert_eq!(rows, "1|Ada|{}\n2|Bob|{}\n0");
    copies_are_dropped(&mut client, &server, &database);
    let log = forebay.log();
    assert_eq!(log.matches("let them delete its rows as before").count(), 1, "{log}");
    assert!(log.contains("user:{id} -> users(id)") && !log.contains("page:{id} -> pages(id)"), "{log}");
}

/// With `delete=invalidate` the row stays, and what is read next comes from the database.
fn copies_are_dropped(client: &mut Connection, server: &Server, database: &str) {
    let cached = |client: &mut Connection| match client.call(&["CACHE", "EXPLAIN", "page:1"]) {
        Reply::Bulk(text) => !text.starts_with(b"not cached"),
        other => panic!("{other:?}"),
    };
    for (command, answer) in [("DEL", Reply::Integer(0)), ("UNLINK", Reply::Integer(0)), ("GETDEL", Reply::Nil)] {
        while !cached(client) {
            assert_eq!(client.call(&["HGET", "page:1", "text"]), Reply::bulk(b"a"));
        }
        assert_eq!(client.call(&[command, "page:1"]), answer, "{command}");
        assert!(!cached(client), "{command}");
    }
    assert_eq!(server.sql(database, "SELECT text FROM pages"), "a");
}
