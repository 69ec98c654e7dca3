//! Outages in front of tables that other programs know, with constraints and with writers of their own.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::proxy::Proxy;
use crate::state::{calm, figure, mode, said};
use crate::{ok, start, start_through};

const SHOP: &str = "CREATE TABLE albums (id integer PRIMARY KEY, name text NOT NULL UNIQUE, shared text);
    CREATE TABLE photos (id integer PRIMARY KEY, album integer NOT NULL REFERENCES albums, views integer NOT NULL
        DEFAULT 0 CHECK (views < 100));
    INSERT INTO albums VALUES (1, 'spring', 'family')";

pub const MAPS: [&str; 4] = ["--map", "album:{id} -> albums(id)", "--map", "photo:{id} -> photos(id) delete=row"];

/// A database with tables in front of which a server stands.
pub fn shop(more: &[&str]) -> (Server, String, Forebay) {
    let server = Server::start();
    let database = shop_of(&server);
    let forebay = start(&server, &database, &[&MAPS[..], more].concat());
    (server, database, forebay)
}

/// Likewise over a network that can be made bad.
pub fn shop_behind(network: &Proxy, server: &Server, more: &[&str]) -> (String, Forebay) {
    let database = shop_of(server);
    let forebay = start_through(network, server, &database, &[&MAPS[..], more].concat());
    (database, forebay)
}

fn shop_of(server: &Server) -> String {
    let database = server.database();
    server.sql(&database, SHOP);
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(MAPS);
    assert!(init.status().expect("the binary runs").success());
    database
}

/// Has documents cached, once what others have written by now is known to the server.
pub fn cache(client: &mut Connection, keys: &[&str]) {
    let hit = |client: &mut Connection, key: &str| match client.call(&["CACHE", "EXPLAIN", key]) {
        Reply::Bulk(text) => !text.starts_with(b"not cached"),
        other => panic!("{other:?}"),
    };
    // All of them cached for longer than several looks at what others write, or one that meets a dead connection and
    // says so a while later: so none was behind it.
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(1000) {
        for key in keys {
            if !hit(client, key) {
                client.call(&["HGETALL", key]);
                since = Instant::now();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn integer(client: &mut Connection, request: &[&str]) -> i64 {
    match client.call(request) {
        Reply::Integer(number) => number,
        other => panic!("{request:?}: {other:?}"),
    }
}

/// Fault 18 as far as one node goes, and the paper's open problem: rows that depend on each other arrive in order.
/// A name is freed and taken, a child follows its parent.
#[test]
fn dependent_rows_arrive_in_order() {
    let (server, database, forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    cache(&mut client, &["album:1", "album:2", "album:3", "album:4", "photo:7", "photo:8", "photo:9"]);
    server.stop(Stop::Immediate);
    assert_eq!(client.call(&["HSET", "album:1", "name", "summer"]), Reply::Integer(0));
    assert_eq!(integer(&mut client, &["HSET", "album:2", "name", "spring"]), 1);
    assert_eq!(integer(&mut client, &["HSET", "photo:7", "album", "2"]), 1);
    client.call(&["MULTI"]);
    client.call(&["HSET", "album:3", "name", "autumn"]);
    client.call(&["HSET", "photo:8", "album", "3"]);
    assert!(matches!(client.call(&["EXEC"]), Reply::Array(_)));
    // Neither the order of keys nor that in which they were read is the order of what was done.
    swap_names(&mut client, ["winter", "autumn"]);
    client.call(&["TXN", "BEGIN"]);
    assert_eq!(client.call(&["HGET", "photo:9", "album"]), Reply::Nil);
    client.call(&["HSET", "album:4", "name", "advent"]);
    client.call(&["HSET", "photo:9", "album", "4"]);
    assert!(!matches!(client.call(&["TXN", "COMMIT"]), Reply::Error(_)));
    // What the catalogue can tell is told at once.
    assert!(matches!(client.call(&["HSET", "album:1", "colour", "red"]), Reply::Error(_)));
    server.start_again();
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    let albums = server.sql(&database, "SELECT id, name FROM albums ORDER BY id");
    assert_eq!(albums, "1|autumn\n2|spring\n3|winter\n4|advent");
    assert_eq!(server.sql(&database, "SELECT id, album FROM photos ORDER BY id"), "7|2\n8|3\n9|4");
    swap_names(&mut client, ["yule", "winter"]);
    let albums = server.sql(&database, "SELECT id, name FROM albums ORDER BY id");
    assert_eq!(albums, "1|winter\n2|spring\n3|yule\n4|advent");
}

/// Has the third album take the first of these names, and the first one the other, which the third one had.
fn swap_names(client: &mut Connection, names: [&str; 2]) {
    client.call(&["MULTI"]);
    client.call(&["HSET", "album:3", "name", names[0]]);
    client.call(&["HSET", "album:1", "name", names[1]]);
    assert!(matches!(client.call(&["EXEC"]), Reply::Array(_)));
}

/// Fault 20: a change that the database refuses is set aside, what is behind it waits, the others go on; an operator
/// mends the table and has it tried again, or gives it up.
#[test]
fn a_poisonous_change_is_set_aside() {
    let (server, database, mut forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    server.sql(&database, "INSERT INTO photos VALUES (7, 1, 5), (8, 1, 5), (9, 1, 5)");
    cache(&mut client, &["photo:7", "photo:8", "photo:9"]);
    server.stop(Stop::Immediate);
    assert_eq!(integer(&mut client, &["HINCRBY", "photo:7", "views", "200"]), 205);
    assert_eq!(integer(&mut client, &["HINCRBY", "photo:7", "views", "1"]), 206);
    assert_eq!(integer(&mut client, &["HINCRBY", "photo:8", "views", "1"]), 6);
    assert_eq!(integer(&mut client, &["HINCRBY", "photo:9", "views", "300"]), 305);
    server.start_again();
    while figure(&mut client, "quarantined") < 2 || figure(&mut client, "waiting") > 0 {}
    let views = || server.sql(&database, "SELECT id, views FROM photos ORDER BY id");
    assert_eq!(views(), "7|5\n8|6\n9|5");
    // It stays readable, and is still there after a restart.
    assert_eq!(client.call(&["HGET", "photo:7", "views"]), Reply::bulk(b"206"));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    while figure(&mut client, "quarantined") < 2 {}
    assert_eq!(client.call(&["HGET", "photo:7", "views"]), Reply::bulk(b"206"));
    let list = said(&client.call(&["CACHE", "QUARANTINE", "LIST"]));
    assert!(list.contains("photos_views_check"), "{list}");
    assert!(matches!(client.call(&["CACHE", "QUARANTINE", "DROP", "4", ""]), Reply::Error(_)));
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "4", "photo 9 was never so popular"]), ok());
    assert_eq!(client.call(&["HGET", "photo:9", "views"]), Reply::bulk(b"5"));
    server.sql(&database, "ALTER TABLE photos DROP CONSTRAINT photos_views_check");
    assert_eq!(integer(&mut client, &["CACHE", "QUARANTINE", "RETRY", "ALL"]), 1);
    calm(forebay.address);
    assert_eq!(views(), "7|206\n8|6\n9|5");
}

/// Fault 22: another program writes while the database is away from us. What it wrote to a row that we wrote is kept,
/// field by field, and counted; what it wrote to a row that a transaction of ours only read sets that aside.
#[test]
fn what_others_write_meanwhile_is_kept() {
    let (server, database, mut forebay) = shop(&[]);
    let mut client = Connection::new(forebay.address);
    server.sql(&database, "INSERT INTO photos VALUES (7, 1, 5)");
    cache(&mut client, &["photo:7", "album:1"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "30"]), ok());
    assert_eq!(mode(&mut client), "failed");
    assert_eq!(integer(&mut client, &["HINCRBY", "photo:7", "views", "1"]), 6);
    client.call(&["HSET", "album:1", "shared", "friends"]);
    server.sql(&database, "UPDATE photos SET views = views + 10; UPDATE albums SET name = 'winter'");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT views FROM photos"), "16");
    assert_eq!(server.sql(&database, "SELECT name, shared FROM albums"), "winter|friends");
    assert_eq!(client.call(&["HGET", "photo:7", "views"]), Reply::bulk(b"16"));
    assert_eq!(figure(&mut client, "conflicts"), 2);

    cache(&mut client, &["photo:7", "album:1"]);
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "30"]), ok());
    client.call(&["TXN", "BEGIN"]);
    assert_eq!(client.call(&["HGET", "album:1", "name"]), Reply::bulk(b"winter"));
    client.call(&["HSET", "photo:7", "views", "1"]);
    let Reply::Simple(text) = client.call(&["TXN", "COMMIT"]) else { panic!("it is buffered") };
    let ticket = text.strip_prefix("BUFFERED ").expect("a ticket").to_owned();
    server.sql(&database, "UPDATE albums SET name = 'spring again'");
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "0"]), ok());
    let state = said(&client.call(&["CACHE", "WAIT", &ticket, "30000"]));
    let conflict = "CONFLICT it read album:1, which has changed since";
    assert_eq!(state, conflict);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    // Killed before the journal had that, it finds it out again.
    assert_eq!(said(&client.call(&["CACHE", "WAIT", &ticket, "30000"])), conflict, "behind a restart");
    assert_eq!(server.sql(&database, "SELECT views FROM photos"), "16");
}

/// What the database would surely refuse is refused while somebody waits for the answer, known document or not; what it
/// takes is applied.
#[test]
fn what_fits_no_column_is_refused_at_once() {
    let server = Server::start();
    let database = server.database();
    let table = "CREATE TABLE users (id integer PRIMARY KEY, name text NOT NULL, visits integer, code varchar(5),
        price numeric(6,2), born date); INSERT INTO users (id, name) VALUES (1, 'Ada'), (4, 'Dora')";
    server.sql(&database, table);
    let forebay = start(&server, &database, &["--map", "user:{id} -> users(id) version(none)"]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HGET", "user:1", "name"]), Reply::bulk(b"Ada"));
    assert_eq!(client.call(&["HGET", "user:5", "name"]), Reply::Nil);
    server.stop(Stop::Immediate);
    // The one whose connection breaks may be kept as one of which nobody knows what became.
    assert_eq!(client.call(&["HMSET", "user:1", "visits", "1"]), ok());
    for (request, part) in [
        (&["HMSET", "user:4", "visits", "xyz"][..], "'xyz' is no integer"),
        (&["HMSET", "user:4", "visits", "99999999999"], "is no integer"),
        (&["HSET", "user:1", "code", "abcdef"], "more than 5 characters"),
        (&["HSET", "user:1", "price", "10000"], "more than 4 digits"),
        (&["SET", "user:1", "{\"name\":null}"], "NOT NULL"),
        (&["HDEL", "user:1", "name"], "NOT NULL"),
        (&["HSET", "user:5", "visits", "1"], "needs name"),
        (&["HSET", "user:1", "born", "yesterday"], "give the moment itself"),
    ] {
        let reply = client.call(request);
        assert!(matches!(&reply, Reply::Error(_)) && said(&reply).contains(part), "{request:?}: {}", said(&reply));
    }
    assert_eq!(client.call(&["HMSET", "user:4", "visits", "4", "code", "abcde"]), ok());
    assert_eq!(client.call(&["HSET", "user:5", "name", "Eve", "price", "1.50"]), Reply::Integer(2));
    server.start_again();
    calm(forebay.address);
    assert_eq!(figure(&mut client, "quarantined"), 0);
    let rows = "SELECT string_agg(concat_ws(',', id, name, visits, code, price), ' ' ORDER BY id) FROM users";
    assert_eq!(server.sql(&database, rows), "1,Ada,1 4,Dora,4,abcde 5,Eve,1.50");
}
