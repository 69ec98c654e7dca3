//! A table that is gone, or that may not be read any more, is no outage of the database.

use std::net::TcpListener;
use std::time::Duration;

use forebay_protocol::Reply;

use crate::common::process::{Forebay, forebay_command};
use crate::common::{Connection, http};
use crate::postgres::Stop;
use crate::state::{calm, figure, mode, said};
use crate::tables::{MAPS, shop};
use crate::{QUICK, ok, start};

#[test]
fn a_lost_table_harms_no_other() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let address = format!("127.0.0.1:{port}");
    // A machine with much else to do takes its time for a connection; that would be an outage.
    let patient = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];
    let (server, database, forebay) = shop(&[&["--http", &address], &patient[..]].concat());
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
    // Until none is used any more that was ended.
    let settled = |client: &mut Connection| {
        let no_table = said(&client.call(&["HINCRBY", "photo:7", "views", "1"])).contains("42P01");
        no_table && !matches!(client.call(&["HGET", "album:20", "name"]), Reply::Error(_)) && mode(client) == "normal"
    };
    while !(0..8).all(|_| settled(&mut client)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    (21..30).for_each(|number| lost(&mut client, number));
    server.sql(&database, "ALTER TABLE pictures RENAME TO photos");
    assert_eq!(client.call(&["HINCRBY", "photo:7", "views", "1"]), Reply::Integer(6));
    assert_eq!(client.call(&["SET", "photo:8", "{\"album\": 10}"]), ok());
    assert_eq!(server.sql(&database, "SELECT id, album, views FROM photos ORDER BY id"), "7|1|6\n8|10|0");
}

/// A table is dropped while writes wait for it. A start goes by what the journal remembers of it, so that they are set
/// aside and can be given up; then the mapping can be changed. Or the table is made again, and they are applied.
#[test]
fn writes_for_a_table_that_is_gone_can_be_given_up() {
    let (server, database, mut forebay) = shop(&[]);
    server.stop(Stop::Immediate);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["HMSET", "photo:7", "album", "1"]), ok());
    assert_eq!(client.call(&["HMSET", "photo:8", "album", "1"]), ok());
    assert_eq!(client.call(&["HMSET", "album:2", "name", "summer"]), ok());
    forebay.kill9();
    server.start_again();
    server.sql(&database, "DROP TABLE photos");
    let (url, journal) = (server.url(&database), forebay.journal().display().to_string());
    let albums = [&["--journal", &journal], &MAPS[..2]].concat();
    let mut command = forebay_command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", &url]).args(QUICK).args(&albums);
    let output = command.output().expect("it runs");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("CACHE QUARANTINE DROP"), "{why}");

    forebay.restart();
    assert!(forebay.log().contains("a mapped table is gone"), "the log does not say so");
    let mut client = Connection::new(forebay.address);
    while figure(&mut client, "quarantined") < 2 || figure(&mut client, "waiting") > 0 {}
    assert_eq!(server.sql(&database, "SELECT id, name FROM albums ORDER BY id"), "1|spring\n2|summer");
    let list = said(&client.call(&["CACHE", "QUARANTINE", "LIST"]));
    assert!(list.contains("photos") && list.contains("42P01"), "{list}");
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "DROP", "1", "photos are gone"]), ok());
    let again = "CREATE TABLE photos (id integer PRIMARY KEY, album integer NOT NULL, views integer)";
    server.sql(&database, again);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url]).args(MAPS);
    assert!(init.status().expect("the binary runs").success());
    assert_eq!(client.call(&["CACHE", "QUARANTINE", "RETRY", "2"]), Reply::Integer(1));
    calm(forebay.address);
    assert_eq!(server.sql(&database, "SELECT id, album FROM photos"), "8|1");
    forebay.terminate();
    server.sql(&database, "DROP TABLE photos");
    let other: Forebay = start(&server, &database, &albums);
    assert_eq!(said(&Connection::new(other.address).call(&["HGET", "album:2", "name"])), "summer");
}
