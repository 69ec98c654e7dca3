//! Writes to tables that constraints join are applied in one order, to others at the same time.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, psql};
use crate::state::{PATIENCE, calm, figure, mode, said};
use crate::{ok, start};

/// Albums and photos are joined, accounts and their addresses too; nothing joins the two pairs.
const TABLES: &str = "
    CREATE TABLE albums (id integer PRIMARY KEY, name text);
    CREATE TABLE photos (id integer PRIMARY KEY, album integer NOT NULL REFERENCES albums, views integer NOT NULL
        DEFAULT 0 CHECK (views < 100));
    CREATE TABLE accounts (id integer PRIMARY KEY, email text UNIQUE);
    CREATE TABLE addresses (id integer PRIMARY KEY, account integer REFERENCES accounts, city text)";

const MAPS: [&str; 8] = [
    "--map",
    "album:{id} -> albums(id)",
    "--map",
    "photo:{id} -> photos(id)",
    "--map",
    "account:{id} -> accounts(id)",
    "--map",
    "address:{id} -> addresses(id)",
];

/// The database may be made to wait for long without being taken for one that is away.
const PATIENT: [&str; 6] =
    ["--store-timeout-ms", "20000", "--lock-wait-ms-min", "30000", "--lock-wait-ms-max", "40000"];

pub struct World {
    pub server: Server,
    pub database: String,
    pub forebay: Forebay,
}

impl World {
    /// A database with these tables in front of which a server stands.
    pub fn new(tables: &str, maps: &[&str]) -> World {
        World::prepared(tables, maps, &[])
    }

    /// The same, with more that is said to `store init`.
    pub fn prepared(tables: &str, maps: &[&str], more: &[&str]) -> World {
        let server = Server::start();
        let database = server.database();
        server.sql(&database, tables);
        init(&server, &database, &[maps, more].concat());
        let forebay = start(&server, &database, &[maps, &PATIENT].concat());
        World { server, database, forebay }
    }

    pub fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.database, statements)
    }

    pub fn client(&self) -> Connection {
        Connection::new(self.forebay.address)
    }
}

/// Makes what keeps versions of rows.
pub fn init(server: &Server, database: &str, more: &[&str]) {
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(database)]).args(PATIENT).args(more);
    assert!(init.status().expect("the binary runs").success());
}

/// Writes a row whatever it was: that needs no knowledge of it.
pub fn put(client: &mut Connection, key: &str, row: &str) {
    assert_eq!(client.call(&["SET", key, row]), ok(), "{key}");
}

/// The database counts as away from now on, or is asked again.
pub fn away(client: &mut Connection, away: bool) {
    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", if away { "600" } else { "0" }]), ok());
}

/// While one lane waits for a lock that another program holds, the other lane is applied.
#[test]
fn lanes_are_carried_over_side_by_side() {
    let world = World::new(TABLES, &MAPS);
    let mut client = world.client();
    away(&mut client, true);
    for number in 1..=50 {
        put(&mut client, &format!("album:{number}"), "{\"name\": \"a\"}");
        put(&mut client, &format!("photo:{number}"), &format!("{{\"album\": {number}}}"));
        put(&mut client, &format!("account:{number}"), &format!("{{\"email\": \"{number}@x\"}}"));
        put(&mut client, &format!("address:{number}"), &format!("{{\"account\": {number}}}"));
    }
    let url = world.server.url(&world.database);
    let locking = "LOCK TABLE albums IN EXCLUSIVE MODE; SELECT pg_sleep(77)";
    let holder = std::thread::spawn(move || psql(&url, locking));
    let backends = "FROM pg_stat_activity WHERE query LIKE '%pg_sleep(77)%' AND pid <> pg_backend_pid()
        AND wait_event = 'PgSleep'";
    while world.sql(&format!("SELECT count(*) {backends}")) == "0" {}
    away(&mut client, false);
    while world.sql("SELECT count(*) FROM addresses") != "50" {}
    assert_eq!(world.sql("SELECT (SELECT count(*) FROM albums), (SELECT count(*) FROM photos)"), "0|0");
    world.sql(&format!("SELECT pg_terminate_backend(pid) {backends}"));
    assert!(holder.join().expect("psql ran").is_err(), "it was ended");
    calm(world.forebay.address);
    let rows = "SELECT (SELECT count(*) FROM albums), (SELECT count(*) FROM photos), (SELECT count(*) FROM accounts)";
    assert_eq!(world.sql(rows), "50|50|50");
    assert_eq!(figure(&mut client, "quarantined"), 0);
}

/// A poison in one lane holds no other lane up, nor what stands behind it in its own. In each, what depends on
/// something earlier comes behind it: a name is handed on from row to row, children follow their parents.
#[test]
fn a_poison_stops_no_lane_and_chains_stay_in_order() {
    let world = World::new(TABLES, &MAPS);
    let mut client = world.client();
    away(&mut client, true);
    for number in 1..=40 {
        put(&mut client, &format!("account:{number}"), "{\"email\": \"the one\"}");
        put(&mut client, &format!("address:{number}"), &format!("{{\"account\": {number}}}"));
        put(&mut client, &format!("album:{number}"), "{\"name\": \"a\"}");
        let views = if number == 20 { 100 } else { number };
        put(&mut client, &format!("photo:{number}"), &format!("{{\"album\": {number}, \"views\": {views}}}"));
        // It is free for the next one.
        put(&mut client, &format!("account:{number}"), &format!("{{\"email\": \"was {number}\"}}"));
        if number % 10 == 0 {
            // One transaction over both lanes.
            client.call(&["MULTI"]);
            client.call(&["SET", &format!("album:{}", 1000 + number), "{\"name\": \"b\"}"]);
            client.call(&["SET", &format!("address:{}", 1000 + number), &format!("{{\"account\": {number}}}")]);
            assert!(matches!(client.call(&["EXEC"]), Reply::Array(_)));
        }
    }
    away(&mut client, false);
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    assert_eq!(figure(&mut client, "pending"), 1, "{}", said(&client.call(&["CACHE", "QUARANTINE", "LIST"])));
    let photos = "SELECT count(*), sum(views), bool_or(id = 20) FROM photos";
    assert_eq!(world.sql(photos), format!("39|{}|f", 820 - 20));
    assert_eq!(world.sql("SELECT count(*), count(*) FILTER (WHERE email = 'was ' || id) FROM accounts"), "40|40");
    assert_eq!(world.sql("SELECT count(*) FROM addresses"), "44");
    assert_eq!(world.sql("SELECT count(*) FROM albums"), "44");
    world.sql("ALTER TABLE photos DROP CONSTRAINT photos_views_check");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(world.forebay.address);
    assert_eq!(world.sql("SELECT views FROM photos WHERE id = 20"), "100");
}

/// A customer with orders, and those with lines whose keys name their order.
const SHOP: &str = "
    CREATE TABLE customers (id bigint PRIMARY KEY, credit integer CHECK (credit >= 0));
    CREATE TABLE orders (id integer PRIMARY KEY, customer integer NOT NULL REFERENCES customers, total integer);
    CREATE TABLE lines (\"order\" integer REFERENCES orders, number integer, what text,
        PRIMARY KEY (\"order\", number))";

const SHOP_MAPS: [&str; 6] = [
    "--map",
    "customer:{id} -> customers(id) delete=row",
    "--map",
    "order:{id} -> orders(id) delete=row",
    "--map",
    "line:{order}:{number} -> lines(order, number) delete=row",
];

fn entry(map: &Reply, name: &str) -> Reply {
    let Reply::Array(pairs) = map else { panic!("{map:?}") };
    let found = pairs.chunks(2).find(|pair| pair[0] == Reply::bulk(name.as_bytes()));
    found.expect("it is said")[1].clone()
}

/// States and reasons of what is pending, in order.
fn pending(client: &mut Connection) -> Vec<String> {
    let Reply::Array(all) = client.call(&["CACHE", "PENDING"]) else { panic!("a list") };
    all.iter().map(|map| format!("{} {}", said(&entry(map, "state")), said(&entry(map, "reason")))).collect()
}

/// A customer that the database refuses, with an order and a line behind; another that it takes.
fn refused_customer() -> (World, Connection) {
    let world = World::new(SHOP, &SHOP_MAPS);
    let mut client = world.client();
    away(&mut client, true);
    put(&mut client, "customer:1", "{\"credit\": -5}");
    put(&mut client, "customer:2", "{\"credit\": 5}");
    put(&mut client, "order:1", "{\"customer\": 1}");
    put(&mut client, "order:2", "{\"customer\": 2}");
    put(&mut client, "line:1:1", "{\"what\": \"tea\"}");
    away(&mut client, false);
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    assert_eq!(world.sql("SELECT id FROM customers"), "2");
    assert_eq!(world.sql("SELECT id FROM orders"), "2");
    (world, client)
}

/// One transaction is set aside and three are behind it, after a restart as before; then it is mended.
fn mended_after_a_restart(world: &mut World) {
    world.forebay.restart();
    let mut client = world.client();
    while figure(&mut client, "waiting") > 0 {}
    assert_eq!((figure(&mut client, "quarantined"), figure(&mut client, "behind")), (1, 3));
    world.sql("ALTER TABLE customers DROP CONSTRAINT customers_credit_check");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(world.forebay.address);
}

/// Rows that name a row which the database refuses are not refused for that: they wait until an operator has mended the
/// cause, in the buffer or newly written, and arrive behind it.
#[test]
fn children_wait_for_their_parent() {
    let (mut world, mut client) = refused_customer();
    let listed = pending(&mut client);
    assert!(listed[0].starts_with("quarantined") && listed[0].contains("customers_credit_check"), "{listed:?}");
    assert_eq!(listed[1..], ["behind it waits for what becomes of 1", "behind it waits for what becomes of 3"]);
    assert_eq!(mode(&mut client), "normal");
    put(&mut client, "order:3", "{\"customer\": \"01\", \"total\": 7}");
    assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("BUFFERED"));
    put(&mut client, "order:4", "{\"customer\": 2}");
    assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("COMMITTED"));
    mended_after_a_restart(&mut world);
    assert_eq!(world.sql("SELECT id, customer FROM orders ORDER BY id"), "1|1\n2|2\n3|1\n4|2");
    assert_eq!(world.sql("SELECT what FROM lines"), "tea");
}

/// Once a row is given up, those that name it are tried, and refused for what they are.
#[test]
fn children_of_a_row_that_was_given_up_are_refused_by_the_database() {
    let (_world, mut client) = refused_customer();
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "no credit"]), ok());
    let mut next = |part: &str, pending_now: usize| {
        while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
        let listed = pending(&mut client);
        assert!(listed[0].starts_with("quarantined") && listed[0].contains(part), "{listed:?}");
        assert_eq!(listed.len(), pending_now, "{listed:?}");
        let Reply::Array(list) = client.call(&["CACHE", "QUARANTINE", "LIST"]) else { panic!("a list") };
        let Reply::Integer(ticket) = entry(&list[0], "ticket") else { panic!("{list:?}") };
        let ticket = ticket.to_string();
        assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", &ticket, "no customer"]), ok());
    };
    next("orders_customer_fkey", 2);
    next("lines_order_fkey", 1);
    assert_eq!(figure(&mut client, "pending"), 0);
}

/// Nor is a row deleted before those that name it are: where their deletion is set aside with something else, that of
/// what they name waits for it, buffered or new, and after a restart.
#[test]
fn a_parent_stays_as_long_as_its_children_do() {
    let mut world = World::new(SHOP, &SHOP_MAPS);
    world.sql("INSERT INTO customers VALUES (1, 1), (2, 2), (3, 3); INSERT INTO orders VALUES (1, 1, 7), (2, 2, 7)");
    world.sql("INSERT INTO lines VALUES (2, 5, 'tea')");
    let mut client = world.client();
    away(&mut client, true);
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    for request in [&["MULTI"][..], &["DEL", "order:1", "line:2:5"], &["SET", "customer:9", "{\"credit\": -5}"]] {
        client.call(request);
    }
    assert_eq!(client.call(&["EXEC"]), Reply::Array(vec![Reply::Nil, ok()]));
    for key in ["order:2", "customer:1", "customer:2", "customer:3"] {
        assert_eq!(client.call(&["DEL", key]), Reply::Nil, "{key}");
    }
    away(&mut client, false);
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    let listed = pending(&mut client);
    assert!(listed[0].contains("customers_credit_check"), "{listed:?}");
    let behind = |number: u8| format!("behind it waits for what becomes of {number}");
    // The line names its order, and that its customer.
    assert_eq!(listed[1..], [behind(1), behind(1), behind(2)]);
    assert_eq!(world.sql("SELECT id FROM customers ORDER BY id"), "1\n2");
    put(&mut client, "customer:3", "{\"credit\": 3}");
    assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("COMMITTED"));
    mended_after_a_restart(&mut world);
    assert_eq!(world.sql("SELECT id FROM customers ORDER BY id"), "3\n9");
    assert_eq!(world.sql("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM lines)"), "0|0");
}

/// A parent that is deleted while nothing is away, and yet not before its child.
#[test]
fn a_new_deletion_waits_for_a_child_that_stays() {
    let world = World::new(SHOP, &SHOP_MAPS);
    world.sql("INSERT INTO customers SELECT id, 1 FROM generate_series(11, 60) AS id");
    world.sql("INSERT INTO customers VALUES (1, 1); INSERT INTO orders VALUES (1, 1, 7)");
    let mut client = world.client();
    away(&mut client, true);
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    for request in [&["MULTI"][..], &["DEL", "order:1"], &["SET", "customer:9", "{\"credit\": -5}"], &["EXEC"]] {
        client.call(request);
    }
    away(&mut client, false);
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    let mut delete = |key: &str| {
        assert_eq!(client.call(&["DEL", key]), Reply::Integer(1), "{key}");
        said(&client.call(&["CACHE", "OUTCOME"]))
    };
    // Once it is known what the order names.
    let mut others = (11..=60).map(|id| format!("customer:{id}"));
    assert!(others.any(|key| delete(&key).starts_with("COMMITTED")));
    assert!(delete("customer:1").starts_with("BUFFERED"));
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "it stays"]), ok());
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    let listed = pending(&mut client);
    assert!(listed.len() == 1 && listed[0].contains("orders_customer_fkey"), "{listed:?}");
}

/// As long as it can't be read what a deletion that was set aside leaves, deletions behind it wait, and nothing else.
#[test]
fn a_table_that_can_not_be_read_holds_up_deletions_alone() {
    let server = Server::start();
    let database = server.database();
    let sql = |statements: &str| server.sql(&database, statements);
    sql(SHOP);
    sql("CREATE TABLE notes (id integer PRIMARY KEY, text text); INSERT INTO customers VALUES (1, 1), (2, 2)");
    sql("INSERT INTO orders VALUES (1, 1, 7)");
    let maps = [&SHOP_MAPS[..], &["--map", "note:{id} -> notes(id)"]].concat();
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database), "--store-timeout-ms", "400"]).args(&maps);
    assert!(init.status().expect("the binary runs").success());
    let mut forebay = start(&server, &database, &maps);
    let mut client = Connection::new(forebay.address);
    away(&mut client, true);
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    for request in [&["MULTI"][..], &["DEL", "order:1"], &["SET", "customer:9", "{\"credit\": -5}"], &["EXEC"]] {
        client.call(request);
    }
    away(&mut client, false);
    while figure(&mut client, "quarantined") == 0 || figure(&mut client, "waiting") > 0 {}
    away(&mut client, true);
    put(&mut client, "note:1", "{\"text\": \"kept\"}");
    // A start does not know what the order names.
    forebay.kill9();
    server.while_locked(&database, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE", || {
        forebay.restart();
        let (mut client, began) = (Connection::new(forebay.address), Instant::now());
        while sql("SELECT count(*) FROM notes") == "0" {
            assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        put(&mut client, "note:2", "{\"text\": \"new\"}");
        assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("COMMITTED"));
        // A read may stand behind one of the locked table, on the same connection.
        while client.call(&["DEL", "customer:1"]) != Reply::Integer(1) {
            assert!(began.elapsed() < PATIENCE, "{}", forebay.log());
        }
        assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("BUFFERED"));
        assert_eq!(figure(&mut client, "quarantined"), 1);
    });
    let mut client = Connection::new(forebay.address);
    while figure(&mut client, "behind") == 0 {}
    sql("ALTER TABLE customers DROP CONSTRAINT customers_credit_check");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "ALL"]), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(sql("SELECT id FROM customers ORDER BY id"), "2\n9");
}
