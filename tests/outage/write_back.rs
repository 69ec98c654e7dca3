//! Write-back under more load than the database can take, and beside programs that write with SQL.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::postgres::{Server, Stop};
use crate::state::{calm, figure, mode, said};
use crate::{ok, start};

/// Connections, requests that each sends at once, and how often.
const CLIENTS: usize = 8;
const PIPELINE: usize = 64;
const ROUNDS: usize = 12;

/// More is on its way at once than there is room for, and the database takes what it is given: nobody is refused, the
/// mode stays, and all is in the table in the end.
#[test]
fn a_database_that_is_there_leaves_nobody_without_room() {
    let server = Server::start();
    let database = server.database();
    let more = ["--write-back-ms", "1000", "--outage-bytes-max", "256KiB", "--drain-per-second-max", "100"];
    // However busy the machine is, that is no outage.
    let patient = ["--store-timeout-ms", "20000", "--lock-wait-ms-min", "30000", "--lock-wait-ms-max", "40000"];
    let forebay = start(&server, &database, &[more, patient].concat());
    let value = "x".repeat(1_000);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, value) = (forebay.address, &value);
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                for round in 0..ROUNDS {
                    let set = |at: usize| vec!["SET".to_owned(), format!("{client}:{round}:{at}"), value.clone()];
                    let requests: Vec<Vec<String>> = (0..PIPELINE).map(set).collect();
                    for reply in connection.pipeline(&requests) {
                        assert_eq!(reply, ok(), "{}", said(&reply));
                    }
                }
            });
        }
    });
    let mut client = Connection::new(forebay.address);
    assert_eq!((mode(&mut client), figure(&mut client, "full")), ("normal".into(), 0));
    let told = said(&client.call(&["INFO", "outage"]));
    assert!(!told.contains("outage_buffered_total:0\r"), "{told}");
    calm(forebay.address);
    let rows = server.sql(&database, "SELECT count(*) FROM forebay.documents WHERE length(value) >= 1000");
    assert_eq!(rows, (CLIENTS * PIPELINE * ROUNDS).to_string());
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer((CLIENTS * PIPELINE * ROUNDS) as i64));
}

/// Another program writes to rows that have buffered writes. Behind CACHE SYNC, or CACHE INVALIDATE of the row, reads
/// show that and the buffered write; in the end the table has both.
#[test]
fn what_others_write_beside_kept_writes_is_read_behind_a_sync() {
    const MAP: [&str; 2] = ["--map", "user:{id} -> users(id) fields(name, visits)"];
    for outside in ["off", "triggers"] {
        let server = Server::start();
        let database = server.database();
        server.sql(&database, "CREATE TABLE users (id bigint PRIMARY KEY, name text, visits bigint NOT NULL)");
        server.sql(&database, "INSERT INTO users SELECT n, 'before', 0 FROM generate_series(1, 12) AS n");
        if outside == "triggers" {
            let mut init = forebay_command();
            init.args(["store", "init", "--store", &server.url(&database)]).args(MAP);
            assert!(init.status().expect("the binary runs").success());
        }
        // Nothing is applied by itself while this looks.
        let more = ["--outside", outside, "--write-back-ms", "60000"];
        let mut forebay = start(&server, &database, &[&MAP[..], &more].concat());
        let mut client = Connection::new(forebay.address);
        for id in 1..=12_i64 {
            let key = format!("user:{id}");
            let read = |client: &mut Connection| client.call(&["HMGET", &key, "name", "visits"]);
            // Read before, and after, what was written.
            let add = |client: &mut Connection| client.call(&["HINCRBY", &key, "visits", &id.to_string()]);
            if id % 2 == 0 {
                read(&mut client);
            }
            assert_eq!(add(&mut client), Reply::Integer(id), "{outside}");
            read(&mut client);
            server.sql(&database, &format!("UPDATE users SET name = 'after', visits = visits + 100 WHERE id = {id}"));
            let told = match id % 3 {
                0 => client.call(&["CACHE", "INVALIDATE", &key]),
                _ => client.call(&["CACHE", "SYNC"]),
            };
            assert!(!matches!(told, Reply::Error(_)), "{}", said(&told));
            let visits = (100 + id).to_string();
            let expected = Reply::Array(vec![Reply::bulk(b"after"), Reply::bulk(visits.as_bytes())]);
            assert_eq!(read(&mut client), expected, "{outside} {key}");
            assert_eq!(read(&mut client), expected, "{outside} {key} once more");
        }
        assert_eq!(mode(&mut client), "normal");
        // At an orderly end all is applied.
        forebay.terminate();
        let wrong = "SELECT count(*) FROM users WHERE name <> 'after' OR visits <> 100 + id";
        assert_eq!(server.sql(&database, wrong), "0", "{outside}");
    }
}

/// Another program writes to a row that has a buffered write, and CACHE SYNC or CACHE INVALIDATE is answered. While the
/// database is away then, the row is not shown as it was before. Writes that need no reading are taken.
#[test]
fn a_row_in_doubt_is_not_shown_while_the_database_is_away() {
    const MAP: [&str; 2] = ["--map", "user:{id} -> users(id) fields(name, visits)"];
    for told in [&["CACHE", "SYNC"][..], &["CACHE", "INVALIDATE", "user:1"]] {
        let server = Server::start();
        let database = server.database();
        server.sql(&database, "CREATE TABLE users (id bigint PRIMARY KEY, name text, visits bigint NOT NULL)");
        server.sql(&database, "INSERT INTO users VALUES (1, 'before', 0)");
        let forebay = start(&server, &database, &[&MAP[..], &["--outside", "off", "--write-back-ms", "5000"]].concat());
        let mut client = Connection::new(forebay.address);
        assert_eq!(client.call(&["HGET", "user:1", "visits"]), Reply::bulk(b"0"));
        assert_eq!(client.call(&["HSET", "user:1", "name", "kept"]), Reply::Integer(0));
        server.sql(&database, "UPDATE users SET visits = 100 WHERE id = 1");
        let answer = client.call(told);
        assert!(!matches!(answer, Reply::Error(_)), "{}", said(&answer));
        server.stop(Stop::Immediate);
        for _ in 0..2 {
            let read = said(&client.call(&["HGET", "user:1", "visits"]));
            assert!(read.starts_with("STOREDOWN "), "{told:?}: {read}");
        }
        assert_eq!(client.call(&["HMSET", "user:1", "name", "blind"]), ok(), "{told:?}");
        server.start_again();
        calm(forebay.address);
        let row = server.sql(&database, "SELECT name || ' ' || visits FROM users");
        assert_eq!(row, "blind 100", "{told:?}");
        assert_eq!(client.call(&["HGET", "user:1", "visits"]), Reply::bulk(b"100"));
    }
}
