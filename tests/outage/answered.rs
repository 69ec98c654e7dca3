//! What an operator is told about tickets while nothing is applied, and what he was answered, through a kill.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{calm, entry, figure, said};
use crate::{ok, start, start_through};

const TABLES: &str = "CREATE TABLE parents (id integer PRIMARY KEY, name text);
    CREATE TABLE children (id integer PRIMARY KEY, parent integer NOT NULL REFERENCES parents);
    INSERT INTO parents VALUES (1, 'first');
    INSERT INTO children VALUES (1, 1)";

const MAPS: [&str; 4] =
    ["--map", "parent:{id} -> parents(id) delete=row", "--map", "child:{id} -> children(id) delete=row"];

fn decide(client: &mut Connection, words: &[&str]) -> String {
    said(&client.call(&[&["CACHE", "QUARANTINE"], words].concat()))
}

#[test]
fn what_is_decided_while_nothing_is_applied() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, TABLES);
    let network = Proxy::to_postgres(server.address());
    let mut forebay = start_through(&network, &server, &database, &MAPS);
    let mut client = Connection::new(forebay.address);
    network.close();
    assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
    for request in [&["DEL", "child:1"][..], &["DEL", "parent:1"], &["HMSET", "parent:3", "name", "mine"]] {
        let reply = client.call(request);
        assert!(!matches!(reply, Reply::Error(_)), "{request:?}: {reply:?}");
    }
    let mut second = start(&server, &database, &MAPS);
    assert_eq!(Connection::new(second.address).call(&["HMSET", "parent:2", "name", "second"]), ok());
    second.terminate();
    forebay.kill9();
    network.pass();
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(figure(&mut client, "pending"), 3);

    let Reply::Array(list) = client.call(&["CACHE", "QUARANTINE", "LIST"]) else { panic!("a list") };
    assert_eq!(list.len(), 3, "all that waits for an operator");
    let retried = decide(&mut client, &["RETRY", "1"]);
    assert!(retried.starts_with("ERR ticket 1 waits since nothing is applied"), "{retried}");
    assert_eq!(decide(&mut client, &["SHOW", "9"]), "ERR there is no ticket 9");
    assert_eq!(decide(&mut client, &["DROP", "9", "why"]), "ERR there is no ticket 9");
    // The row that the other one deletes names it, as only the table says.
    let behind = decide(&mut client, &["APPLY", "2", "why"]);
    assert!(behind.starts_with("ERR ticket 2 goes behind ticket 1,"), "{behind}");
    for ticket in ["1", "2"] {
        assert_eq!(decide(&mut client, &["APPLY", ticket, "why"]), "OK");
        let told = said(&client.call(&["CACHE", "WAIT", ticket, "60000"]));
        assert!(told.starts_with("APPLIED "), "{told}");
    }
    for again in ["APPLY", "DROP"] {
        let told = decide(&mut client, &[again, "1", "why"]);
        assert!(told.starts_with("ERR ticket 1 is already applied: APPLIED "), "{told}");
    }

    assert_eq!(client.call(&["DEBUG", "STORE", "FAIL", "600"]), ok());
    assert_eq!(decide(&mut client, &["APPLY", "3", "why"]), "OK");
    let told = decide(&mut client, &["DROP", "3", "why"]);
    assert_eq!(told, "ERR ticket 3 is already being applied (CACHE QUARANTINE APPLY)");
    forebay.kill9();
    forebay.restart();
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT id, name FROM parents ORDER BY id"), "2|second\n3|mine");
    assert_eq!(said(&entry(&mut Connection::new(forebay.address), "suspended")), "Nil");
}
