//! Rows of which the database makes more than it is given.
//!
//! A column shows what it is given in another form. A row is made in an outage, and read. Forebay is killed. When the
//! next one applies what was buffered, the database goes away once more, and takes an answer with it.
//!
//! A column has a default. A row that is made in an outage is not known, since the default is not.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::lanes::away;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::siblings::leave;
use crate::state::{PATIENCE, calm, figure, mode, said};
use crate::{ok, start, start_through};

const TABLE: &str = "\
CREATE TABLE items (id integer PRIMARY KEY, n interval, note text, made integer);
INSERT INTO items VALUES (4, '4', 'new', 1)";

const MAP: [&str; 4] = ["--map", "item:{id} -> items(id) delete=row", "--outside", "off"];

/// What has landed of commits, as the database knows it; and what waits for a lock there.
const LANDED: &str = "SELECT count(*) FROM forebay.applied WHERE applied";
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

const ROWS: &str = "SELECT string_agg(concat_ws(':', id, n, note, made), ' ' ORDER BY id) FROM items";

/// How row 1 is made, while none is there.
const MADE: [&[&str]; 2] = [&["SETNX item:1 {\"n\":1}"], &["HSET item:1 n 5", "DEL item:1", "HSET item:1 n 1"]];

fn call(client: &mut Connection, request: &str) -> Reply {
    client.call(&request.split(' ').collect::<Vec<_>>())
}

/// Notes in another item what item 1 has, in a transaction.
fn copies(client: &mut Connection, to: u32) {
    assert_eq!(call(client, "TXN BEGIN"), ok());
    let read = said(&call(client, "HGET item:1 n"));
    call(client, &format!("HSET item:{to} note of-{read}"));
    let told = said(&call(client, "TXN COMMIT"));
    assert!(told.starts_with("BUFFERED"), "{told}");
}

fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Applies what waits as far as the first answer, which is lost.
fn lost(server: &Server, database: &str, network: &Proxy) {
    let number = |statement: &str| server.sql(database, statement).parse::<u64>().expect("a number");
    let before = number(LANDED);
    server.while_locked(database, "LOCK TABLE items IN EXCLUSIVE MODE", || {
        network.pass();
        until("the drain has begun", || number(WAITING) > 0);
        network.drop_ends();
    });
    until("it is applied", || number(LANDED) > before);
    network.close();
}

/// Nobody else writes: all of it is applied, and nothing is set aside.
#[test]
fn what_the_database_shows_otherwise_is_no_other_programs_write() {
    let server = Server::start();
    for made in MADE {
        let database = server.database();
        server.sql(&database, TABLE);
        let mut init = forebay_command();
        init.args(["store", "init", "--store", &server.url(&database)]).args(&MAP[..2]);
        assert!(init.status().expect("the binary runs").success());
        let network = Proxy::to_postgres(server.address());
        let mut forebay = start_through(&network, &server, &database, &MAP);
        let mut client = Connection::new(forebay.address);
        for number in [1, 4] {
            call(&mut client, &format!("HGETALL item:{number}"));
        }
        away(&mut client, true);
        for command in made {
            let told = call(&mut client, command);
            assert!(!matches!(told, Reply::Error(_)), "{command}: {told:?}");
        }
        copies(&mut client, 4);
        network.close();
        forebay.kill9();
        forebay.restart();
        lost(&server, &database, &network);
        network.pass();
        let began = Instant::now();
        let mut client = Connection::new(forebay.address);
        while mode(&mut client) != "normal" || figure(&mut client, "waiting") > 0 {
            assert!(began.elapsed() < PATIENCE, "{made:?}: {}", said(&call(&mut client, "CACHE STATE")));
        }
        let why = said(&call(&mut client, "CACHE QUARANTINE LIST"));
        assert_eq!(figure(&mut client, "quarantined"), 0, "{made:?}: {why}");
        assert_eq!(server.sql(&database, ROWS), "1:00:00:01 4:00:00:04:of-1:1", "{made:?}");
    }
}

/// Nor where forebay is killed before it is applied, and read by the next one: that reads rows in its own incarnation.
#[test]
fn what_the_database_shows_otherwise_is_none_behind_a_kill() {
    let server = Server::start();
    for version in ["column", "side", "none"] {
        let database = server.database();
        server.sql(&database, TABLE);
        let mut init = forebay_command();
        init.args(["store", "init", "--version", version, "--store", &server.url(&database)]).args(&MAP[..2]);
        assert!(init.status().expect("the binary runs").success());
        let mut forebay = start(&server, &database, &[&MAP[..2], &["--write-back-ms", "1500"]].concat());
        let mut client = Connection::new(forebay.address);
        call(&mut client, "HGETALL item:4");
        for life in 0..2 {
            assert_eq!(call(&mut client, &format!("HSET item:4 n {}", life + 2)), Reply::Integer(0));
            forebay.kill9();
            forebay.restart();
            client = Connection::new(forebay.address);
            // It is read, and something else rests on that.
            assert_eq!(call(&mut client, &format!("HSETNX item:4 made {life}")), Reply::Integer(0));
            for command in ["TXN BEGIN", "HGET item:4 n", "HSET item:5 note read", "TXN COMMIT"] {
                let told = call(&mut client, command);
                assert!(!matches!(told, Reply::Error(_)), "{command}: {told:?}");
            }
        }
        calm(forebay.address);
        let why = said(&call(&mut client, "CACHE QUARANTINE LIST"));
        assert_eq!(figure(&mut client, "quarantined"), 0, "{version}: {why}");
        assert_eq!(server.sql(&database, ROWS), "4:00:00:03:new:1 5:read", "{version}");
    }
}

const CARTS: &str = "\
CREATE TABLE carts (id integer PRIMARY KEY, items integer DEFAULT 5, note text, twice integer
    GENERATED ALWAYS AS (items * 2) STORED, seq integer GENERATED BY DEFAULT AS IDENTITY)";

const CART_MAP: [&str; 2] = ["--map", "cart:{id} -> carts(id) delete=row"];

const CART_ROWS: &str = "SELECT string_agg(concat_ws(':', id, items, note, twice), ' ' ORDER BY id) FROM carts";

fn open(server: &Server, more: &[&str]) -> (String, Forebay) {
    let database = server.database();
    server.sql(&database, CARTS);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database)]).args(CART_MAP);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(server, &database, &[&CART_MAP[..], more].concat());
    (database, forebay)
}

/// What is computed from a row, or read of it, whose columns the database fills when it is made.
const ASKS: [&str; 8] = [
    "HINCRBY cart:1 items 1",
    "HSETNX cart:1 items 1",
    "HDEL cart:1 items",
    "HGET cart:1 items",
    "HGETALL cart:1",
    "HMGET cart:1 note items",
    "GET cart:1",
    "HLEN cart:1",
];

/// A row that is made in an outage is not known before it is in the table: nothing is computed from a guess.
#[test]
fn a_row_whose_columns_have_defaults_is_not_known_before_it_is_made() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[1, 2, 3].map(|number| ["EXISTS".into(), format!("cart:{number}")]));
    assert_eq!(call(&mut client, "HSET cart:1 note a"), Reply::Integer(1));
    for asks in ASKS {
        let told = said(&call(&mut client, asks));
        assert!(told.starts_with("STOREDOWN"), "{asks}: {told}");
        assert_eq!(call(&mut client, "TXN BEGIN"), ok());
        let told = said(&call(&mut client, asks));
        assert!(told.starts_with("STOREDOWN"), "{asks} in TXN: {told}");
        call(&mut client, "TXN ABORT");
    }
    assert_eq!(said(&call(&mut client, "HGET cart:1 note")), "a", "what was set is known");
    assert_eq!(call(&mut client, "HMSET cart:1 note b"), ok(), "what needs no knowledge is taken");
    // All that the database would fill is given but what it computes.
    assert_eq!(call(&mut client, "SET cart:2 {\"items\":1,\"note\":\"c\",\"seq\":9}"), ok());
    assert!(said(&call(&mut client, "HGET cart:2 twice")).starts_with("STOREDOWN"));
    away(&mut client, false);
    calm(forebay.address);
    assert_eq!(call(&mut client, "HINCRBY cart:1 items 1"), Reply::Integer(6));
    assert_eq!(server.sql(&database, CART_ROWS), "1:6:b:12 2:1:c:2");
}

/// To empty a field of a row that is not there does nothing, also where the row is made later in that transaction.
#[test]
fn a_field_that_is_emptied_before_its_row_is_made_has_its_default() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(call(&mut client, "CACHE BLIND ON"), ok());
    let scripts: [&[&str]; 4] = [
        &["HDEL cart:1 items", "HMSET cart:1 note a"],
        &["HDEL cart:3 items", "HINCRBY cart:3 items 2"],
        &["HDEL cart:4 items", "HMSET cart:4 note b"],
        &["HDEL cart:5 items", "SET cart:5 {\"items\":null}"],
    ];
    let mut rows = Vec::new();
    for is_away in [false, true] {
        server.sql(&database, "DELETE FROM carts; INSERT INTO carts VALUES (4, 7, 'n')");
        assert_eq!(call(&mut client, "CACHE RESET"), ok());
        if is_away {
            leave(&mut client, &[["EXISTS".into(), "cart:9".into()]]);
        }
        for script in scripts {
            call(&mut client, "MULTI");
            script.iter().for_each(|command| drop(call(&mut client, command)));
            let replies = call(&mut client, "EXEC");
            assert!(matches!(replies, Reply::Array(_)), "{script:?}: {replies:?}");
        }
        if is_away {
            let told = said(&call(&mut client, "HGET cart:1 items"));
            assert!(told.starts_with("STOREDOWN"), "{told}");
            away(&mut client, false);
            calm(forebay.address);
        }
        rows.push(server.sql(&database, CART_ROWS));
    }
    assert_eq!(rows, ["1:5:a:10 3:2:4 4:b 5"; 2], "without an outage, and with one");
}

/// What the database computes from a column is not known while that column's write is buffered.
#[test]
fn what_is_computed_from_a_buffered_write_is_not_known() {
    let server = Server::start();
    let (database, forebay) = open(&server, &[]);
    server.sql(&database, "INSERT INTO carts VALUES (1, 5, 'a'), (2, 5, 'b')");
    let mut client = Connection::new(forebay.address);
    call(&mut client, "CACHE SYNC");
    leave(&mut client, &[1, 2].map(|number| ["HLEN".into(), format!("cart:{number}")]));
    assert_eq!(call(&mut client, "HSET cart:1 items 50"), Reply::Integer(0));
    for asks in ["HGET cart:1 twice", "HGETALL cart:1", "GET cart:1", "HINCRBY cart:1 items 1"] {
        let told = said(&call(&mut client, asks));
        assert!(told.starts_with("STOREDOWN"), "{asks}: {told}");
    }
    for (field, value) in [("items", "50"), ("note", "a"), ("id", "1")] {
        assert_eq!(said(&call(&mut client, &format!("HGET cart:1 {field}"))), value);
    }
    // From what is written here nothing is computed.
    assert_eq!(call(&mut client, "HSET cart:2 note c"), Reply::Integer(0));
    assert_eq!(said(&call(&mut client, "HGET cart:2 twice")), "10");
    away(&mut client, false);
    calm(forebay.address);
    assert_eq!(said(&call(&mut client, "HGET cart:1 twice")), "100");
    assert_eq!(server.sql(&database, CART_ROWS), "1:50:a:100 2:5:c:10");
}

/// What is surely known of the form in which the database shows a value is shown, and computed with, at once.
#[test]
fn what_waits_is_shown_as_it_will_be() {
    let server = Server::start();
    let database = server.database();
    server.sql(
        &database,
        "CREATE TABLE forms (id integer PRIMARY KEY, n integer, q numeric(8, 2), flag boolean, xs integer[])",
    );
    server.sql(&database, "INSERT INTO forms SELECT id, 1, 1, false, '{8}' FROM generate_series(1, 2) AS id");
    let maps = ["--map", "form:{id} -> forms(id) fields(n, q, flag)", "--map", "list:{id} -> forms(id).xs as list"];
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database)]).args(maps);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &maps);
    let mut client = Connection::new(forebay.address);
    leave(&mut client, &[["HLEN".into(), "form:1".into()], ["LLEN".into(), "list:2".into()]]);
    assert_eq!(call(&mut client, "HSET form:1 n 007 q 1.255 flag YES"), Reply::Integer(0));
    assert_eq!(said(&call(&mut client, "GET form:1")), r#"{"id":1,"n":7,"q":1.26,"flag":true}"#);
    assert_eq!(call(&mut client, "HINCRBY form:1 n 1"), Reply::Integer(8));
    assert_eq!(call(&mut client, "RPUSH list:2 08"), Reply::Integer(2));
    assert_eq!(call(&mut client, "LREM list:2 0 8"), Reply::Integer(2));
    away(&mut client, false);
    calm(forebay.address);
    let rows = "SELECT string_agg(concat_ws(':', n, q, flag, cardinality(xs)), ' ' ORDER BY id) FROM forms";
    assert_eq!(server.sql(&database, rows), "8:1.26:t:1 1:1.00:f:0");
}

/// With write-back the database is there: what is buffered is applied before it is asked.
#[test]
fn what_is_written_back_is_applied_before_it_is_computed_with() {
    let server = Server::start();
    let (database, forebay) = open(&server, &["--write-back-ms", "5000"]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(call(&mut client, "HSET cart:1 note a"), Reply::Integer(1));
    assert_eq!(call(&mut client, "HINCRBY cart:1 items 1"), Reply::Integer(6));
    assert_eq!(call(&mut client, "HSET cart:2 note a"), Reply::Integer(1));
    assert_eq!(call(&mut client, "HSETNX cart:2 items 1"), Reply::Integer(0));
    assert_eq!(call(&mut client, "HSET cart:3 note a"), Reply::Integer(1));
    assert_eq!(said(&call(&mut client, "HGET cart:3 items")), "5");
    assert_eq!(said(&call(&mut client, "HGET cart:3 twice")), "10");
    assert_eq!(call(&mut client, "HSET cart:3 items 8"), Reply::Integer(0));
    assert_eq!(said(&call(&mut client, "HGET cart:3 twice")), "16");
    assert_eq!(call(&mut client, "HDEL cart:3 items"), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(server.sql(&database, CART_ROWS), "1:6:a:12 2:5:a:10 3:a");
}
