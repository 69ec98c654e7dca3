//! Documents of which only changes are known, some of them sent and not answered. They are read all the same while
//! the database answers reads, each change in them once.

use std::time::Instant;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::lanes::away;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::start_through;
use crate::state::{PATIENCE, calm, figure, said};

/// What has landed of commits, as the database knows it.
const LANDED: &str = "SELECT count(*) FROM forebay.applied WHERE applied";

/// What waits for a lock there.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";

/// A machine that is busy is not to be taken for a database that does not answer.
const PATIENT: [&str; 6] = ["--store-timeout-ms", "3000", "--lock-wait-ms-min", "4000", "--lock-wait-ms-max", "5000"];

fn add(client: &mut Connection, key: &str, number: &str) -> Reply {
    client.call(&["HINCRBY", key, "n", number])
}

fn blind(forebay: &Forebay) -> Connection {
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), Reply::Simple("OK".into()));
    client
}

/// `keys`, in `table`, are hashes whose field `n` is 5 in the database. Of the first one change lands without an
/// answer, and more is kept behind that; of the second what is kept was never sent. Then forebay is killed, and
/// started while the database takes no writes.
fn read_as_a_merge(
    server: &Server,
    database: &str,
    network: &Proxy,
    forebay: &mut Forebay,
    [table, keys @ ..]: [&str; 3],
) {
    let mut client = blind(forebay);
    away(&mut client, true);
    assert_eq!(add(&mut client, keys[0], "1"), Reply::Nil, "unseen");
    let number = |statement: &str| server.sql(database, statement).parse::<u64>().expect("a number");
    let began = Instant::now();
    let until_more = |statement: &str, before: u64| {
        while number(statement) <= before {
            assert!(began.elapsed() < PATIENCE, "{statement}");
        }
    };
    let before = number(LANDED);
    server.while_locked(database, &format!("LOCK TABLE {table} IN EXCLUSIVE MODE"), || {
        away(&mut client, false);
        until_more(WAITING, 0);
        network.drop_ends();
    });
    until_more(LANDED, before);
    away(&mut client, true);
    assert_eq!([add(&mut client, keys[0], "10"), add(&mut client, keys[1], "100")], [Reply::Nil, Reply::Nil]);
    forebay.kill9();
    network.pass();
    server.while_locked(database, "LOCK TABLE forebay.applied IN SHARE MODE", || {
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        for _ in 0..3 {
            let fields = keys.map(|key| said(&client.call(&["HGET", key, "n"])));
            let wholes = keys.map(|key| said(&client.call(&["HGETALL", key])));
            assert_eq!(fields, ["16", "105"], "{}", forebay.log());
            assert!(wholes[0].contains("n 16") && wholes[1].contains("n 105"), "{wholes:?}");
        }
        // A client that knows it can build on it.
        assert_eq!(add(&mut client, keys[0], "1"), Reply::Integer(17));
        assert_eq!(figure(&mut client, "pending"), 4, "nothing was carried over meanwhile");
    });
    calm(forebay.address);
    assert_eq!(figure(&mut Connection::new(forebay.address), "quarantined"), 0);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(keys.map(|key| said(&client.call(&["HGET", key, "n"]))), ["17", "105"]);
}

/// Faults 2 and 4, in front of the table of our own.
#[test]
fn a_document_in_doubt_is_read_as_a_merge() {
    let server = Server::start();
    let database = server.database();
    let network = Proxy::to_postgres(server.address());
    let mut forebay = start_through(&network, &server, &database, &PATIENT);
    let mut client = Connection::new(forebay.address);
    for key in ["h1", "h2"] {
        assert_eq!(client.call(&["HSET", key, "a", "1", "n", "5"]), Reply::Integer(2));
    }
    assert!(!matches!(client.call(&["CACHE", "RESET"]), Reply::Error(_)));
    read_as_a_merge(&server, &database, &network, &mut forebay, ["forebay.documents", "h1", "h2"]);
}

/// Likewise in front of a table that other programs know.
#[test]
fn a_row_in_doubt_is_read_as_a_merge() {
    let server = Server::start();
    let database = server.database();
    server.sql(
        &database,
        "CREATE TABLE counts (id integer PRIMARY KEY, n integer, note text); INSERT INTO counts VALUES (1, 5), (2, 5)",
    );
    let map = ["--map", "count:{id} -> counts(id)"];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(map);
    assert!(init.status().expect("the binary runs").success());
    let network = Proxy::to_postgres(server.address());
    let mut forebay = start_through(&network, &server, &database, &[&map[..], &PATIENT].concat());
    read_as_a_merge(&server, &database, &network, &mut forebay, ["counts", "count:1", "count:2"]);
    assert_eq!(server.sql(&database, "SELECT n FROM counts ORDER BY id"), "17\n105");
}
