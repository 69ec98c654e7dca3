//! Rows of mapped tables: they travel whole, so there is a most that a row may be.

use forebay_protocol::Reply;

use super::over_postgres::{DEBUG, PATIENT, at_once, drained, exec, of_clients};
use super::{PROMISED, Server, request, says};
use crate::common::process::forebay_command;
use crate::postgres;

/// Rows of nearly a megabyte, as large as they may be with this memory.
const ROWS: usize = 60;
const LONG: usize = 1_000_000;

/// Those with texts and bytes that are too large.
const TOO_LARGE: [&str; 2] = ["page:1001", "page:1002"];

const MAP: [&str; 2] = ["--map", "page:{id} -> pages(id)"];

fn page(number: usize) -> String {
    format!("page:{number}")
}

fn says_too_large(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if String::from_utf8_lossy(text).contains("row-bytes-max is 1048576"))
}

fn start(cluster: &postgres::Server, row: &'static str, more: &[&str]) -> (Server, String) {
    let database = cluster.database();
    cluster.sql(&database, "CREATE TABLE pages (id integer PRIMARY KEY, body text, data bytea)");
    let fill = format!("INSERT INTO pages SELECT g, repeat('x', {LONG}) FROM generate_series(1, {ROWS}) g");
    cluster.sql(&database, &fill);
    cluster.sql(&database, "INSERT INTO pages VALUES (1001, repeat('x', 16000000))");
    cluster.sql(&database, "INSERT INTO pages VALUES (1002, 'x', convert_to(repeat('x', 600000), 'UTF8'))");
    let server = Server::over(row, &cluster.url(&database), &[&PATIENT[..], &MAP, more].concat());
    (server, database)
}

#[test]
fn rows_of_mapped_tables() {
    let cluster = postgres::Server::start();
    let (server, database) = start(&cluster, "mapped rows", &[]);
    assert!(server.forebay.log().contains("2 rows of public.pages have more than 1048576 bytes"), "the start counts");
    let row = |row: &'static str, work: &dyn Fn(&Server)| {
        let server = server.again(row);
        work(&server);
        server.stayed_below(PROMISED + DEBUG);
    };
    row("mapped rows that are too large", &|server| {
        at_once(server, |_, connection| {
            for key in TOO_LARGE {
                for command in ["HGETALL", "GET", "HLEN"] {
                    assert!(says_too_large(&connection.call(&[command, key])), "{command} {key}");
                }
            }
        });
        let mut connection = server.connect();
        assert!(says_too_large(&connection.call(&["MGET", "page:1", TOO_LARGE[0]])));
        let text = "y".repeat(16_000_000);
        assert!(says_too_large(&connection.call(&["HSET", "page:1", "body", &text])));
        let object = connection.call(&["SET", "page:1", &format!("{{\"body\": \"{text}\"}}")]);
        assert!(says_too_large(&object), "{object:?}");
        assert_eq!(connection.call(&["HSTRLEN", "page:1", "body"]), Reply::Integer(LONG as i64));
    });
    row("4 clients, pipelines of HGETALL of mapped rows of 1 MB", &|server| {
        at_once(server, |client, connection| {
            let all: Vec<_> = (0..ROWS).map(|at| request(&["HGETALL", &page(1 + (at + 15 * client) % ROWS)])).collect();
            let whole = |reply: &Reply| matches!(reply, Reply::Array(words) if words.len() == 4);
            assert!(connection.pipeline(&all).iter().all(whole));
        });
    });
    row("MGET of 60 mapped rows of 1 MB", &|server| {
        let all: Vec<_> = std::iter::once("MGET".to_owned()).chain((1..=ROWS).map(page)).collect();
        let refused = server.connect().pipeline(&[all]);
        assert!(says(&refused[0], "LIMIT client_reply_bytes_max"), "it is more than is answered");
    });
    row("30 clients, MGET of 12 mapped rows of 1 MB each", &|server| {
        of_clients(30, server, |client, connection| {
            let all: Vec<_> = (0..12).map(|at| page(1 + (at + 7 * client) % ROWS)).collect();
            let asked = [vec!["MGET".to_owned()], all].concat();
            let whole = |reply: &Reply| matches!(reply, Reply::Bulk(text) if text.len() > LONG);
            let replies = connection.pipeline(&[asked]);
            assert!(matches!(&replies[0], Reply::Array(rows) if rows.len() == 12 && rows.iter().all(whole)));
        });
    });
    row("30 clients, MGET of 20 mapped rows of 1 MB each, refused", &|server| {
        of_clients(30, server, |client, connection| {
            let all: Vec<_> = (0..20).map(|at| page(1 + (at + 7 * client) % ROWS)).collect();
            let refused = connection.pipeline(&[[vec!["MGET".to_owned()], all].concat()]);
            assert!(says(&refused[0], "LIMIT client_reply_bytes_max"), "it is more than is answered");
        });
    });
    row("EXEC of 10 SET of mapped rows of 1 MB", &|server| {
        let object = format!("{{\"body\": \"{}\"}}", "z".repeat(LONG));
        exec(server, (1..=10).map(|number| request(&["SET", &page(number), &object])).collect());
        // What is free goes back while the server works.
        let few = (1..=ROWS).cycle().take(200);
        server.connect().pipeline(&few.map(|number| request(&["HGET", &page(number), "id"])).collect::<Vec<_>>());
    });
    assert_eq!(cluster.sql(&database, "SELECT count(*) FROM pages WHERE body LIKE 'zz%'"), "10");
    assert_eq!(cluster.sql(&database, "SELECT octet_length(body) FROM pages WHERE id = 1001"), "16000000");
}

/// In an outage, too, what would be too large is refused at once.
#[test]
fn rows_of_an_outage() {
    let cluster = postgres::Server::start();
    let (server, database) = start(&cluster, "10 HSET of mapped rows of 1 MB in an outage", &["--drain", "serial"]);
    let mut connection = server.connect();
    server.reset_peak();
    connection.call(&["DEBUG", "STORE", "FAIL", "600"]);
    for number in 1..=10 {
        let reply = connection.call(&["HMSET", &page(number), "body", &"z".repeat(LONG)]);
        assert_eq!(reply, Reply::Simple("OK".into()));
    }
    let refused = connection.call(&["HMSET", "page:11", "body", &"z".repeat(2 * LONG)]);
    assert!(says_too_large(&refused), "{refused:?}");
    // What nobody has seen is changed, and is too large to be read back.
    assert_eq!(connection.call(&["HMSET", "page:1001", "data", "x"]), Reply::Simple("OK".into()));
    connection.call(&["DEBUG", "STORE", "FAIL", "0"]);
    drained(&mut connection);
    assert_eq!(cluster.sql(&database, "SELECT count(*) FROM pages WHERE body LIKE 'zz%'"), "10");
    assert_eq!(cluster.sql(&database, "SELECT octet_length(body), data FROM pages WHERE id = 1001"), "16000000|\\x78");
    assert!(says_too_large(&connection.call(&["HGETALL", "page:1001"])));
    server.stayed_below(PROMISED + DEBUG);
    let mut check = forebay_command();
    check.args(["store", "check", "--memory", "16MiB", "--store", &cluster.url(&database)]).args(MAP);
    let said = String::from_utf8(check.output().expect("the binary runs").stdout).expect("UTF-8");
    assert!(said.contains("2 rows of public.pages have more than 1048576 bytes (row-bytes-max)"), "{said}");
}
