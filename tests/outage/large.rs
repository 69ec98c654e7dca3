//! Rows that take longer to send than the database is given for an answer.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure};
use crate::{ok, start};

/// Bytes of a text.
const LARGE: usize = 14 << 20;

/// Documents of nearly the greatest size, buffered and carried over.
#[test]
fn large_rows_arrive() {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, "CREATE TABLE pages (id integer PRIMARY KEY, body text, note text)");
    let map = ["--map", "page:{id} -> pages(id)"];
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(map);
    assert!(init.status().expect("the binary runs").success());
    let forebay = start(&server, &database, &[&map[..], &["--outage-bytes-max", "256MiB"]].concat());
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    let body = "x'".repeat(LARGE / 2);
    assert_eq!(client.call(&["SET", "page:1", &format!("{{\"body\": \"{body}\"}}")]), ok());
    assert_eq!(client.call(&["HMSET", "page:2", "body", &body]), ok());
    assert_eq!(client.call(&["HMSET", "page:3", "note", "small"]), ok());
    server.start_again();
    calm(forebay.address);
    let left = [figure(&mut client, "quarantined"), figure(&mut client, "pending")];
    assert_eq!(left, [0, 0], "{:?}", client.call(&["CACHE", "QUARANTINE", "LIST"]));
    let rows = server.sql(&database, "SELECT id, length(body), note FROM pages ORDER BY id");
    assert_eq!(rows, format!("1|{LARGE}|\n2|{LARGE}|\n3||small"));
    assert_eq!(client.call(&["HSTRLEN", "page:1", "body"]), Reply::Integer(LARGE as i64));
}
