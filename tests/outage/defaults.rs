//! A table whose column has a default that no command sets. A row is made in an outage, and read. Forebay is killed.
//! When the next one applies what was buffered, the database goes away once more, and takes an answer with it.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::lanes::away;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{PATIENCE, figure, mode, said};
use crate::{ok, start_through};

const TABLE: &str = "\
CREATE TABLE items (id integer PRIMARY KEY, n integer, note text, made integer DEFAULT 7);
INSERT INTO items VALUES (4, 4, 'new', 1)";

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
fn what_a_default_adds_is_no_other_programs_write() {
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
        assert_eq!(server.sql(&database, ROWS), "1:1:7 4:4:of-1:1", "{made:?}");
    }
}
