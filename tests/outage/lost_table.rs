//! A table that is gone, or that may not be read any more, is no outage of the database.

use std::net::TcpListener;

use forebay_protocol::Reply;

use crate::common::{Connection, http};
use crate::ok;
use crate::state::mode;
use crate::tables::shop;

#[test]
fn a_lost_table_harms_no_other() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let address = format!("127.0.0.1:{port}");
    let (server, database, forebay) = shop(&["--http", &address]);
    let mut client = Connection::new(forebay.address);
    server.sql(&database, "INSERT INTO photos VALUES (7, 1, 5); ALTER TABLE photos RENAME TO pictures");
    let lost = |client: &mut Connection, number: usize| {
        for command in [["HGET", "photo:7", "views"], ["HINCRBY", "photo:7", "views"]] {
            let command = [&command[..], if command[0] == "HGET" { &[] } else { &["1"] }].concat();
            match client.call(&command) {
                Reply::Error(why) => {
                    let why = String::from_utf8_lossy(&why);
                    assert!(why.contains("42P01") && !why.starts_with("STOREDOWN"), "{why}");
                }
                other => panic!("{command:?}: {other:?}"),
            }
        }
        let album = format!("album:{number}");
        assert_eq!(client.call(&["HGET", &album, "name"]), Reply::Nil);
        assert_eq!(client.call(&["HSET", &album, "name", &album]), Reply::Integer(1));
        assert_eq!(mode(client), "normal");
        for path in ["/readyz", "/readyz?strict=1"] {
            let answer = http(&address, path);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    (10..20).for_each(|number| lost(&mut client, number));
    // Nor does it keep new connections from being made.
    server.sql(
        &database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND datname = current_database()",
    );
    while mode(&mut client) != "normal" || matches!(client.call(&["HGET", "album:20", "name"]), Reply::Error(_)) {}
    (21..30).for_each(|number| lost(&mut client, number));
    server.sql(&database, "ALTER TABLE pictures RENAME TO photos");
    assert_eq!(client.call(&["HINCRBY", "photo:7", "views", "1"]), Reply::Integer(6));
    assert_eq!(client.call(&["SET", "photo:8", "{\"album\": 10}"]), ok());
    assert_eq!(server.sql(&database, "SELECT id, album, views FROM photos ORDER BY id"), "7|1|6\n8|10|0");
}
