//! Rows that take longer to send than the database is given for an answer.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::forebay_command;
use crate::lanes::away;
use crate::postgres::{Server, Stop};
use crate::proxy::Proxy;
use crate::state::{calm, figure, mode, said};
use crate::{ok, start, start_through};

/// Bytes of a text.
const LARGE: usize = 14 << 20;

/// Documents of nearly the greatest size, buffered and applied.
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
    let forebay =
        start(&server, &database, &[&map[..], &["--outage-bytes-max", "256MiB", "--row-bytes-max", "16MiB"]].concat());
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

/// One write that takes many times what a call may take, since the network is slow, is no outage: it is committed, and
/// so is what others write at that time; the mode stays, and nothing is buffered.
#[test]
fn a_large_write_over_a_slow_network_is_no_outage() {
    let server = Server::start();
    let database = server.database();
    let network = Proxy::to_postgres(server.address());
    let forebay = start_through(&network, &server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "small", "0"]), ok());
    network.limit(8 << 20);
    let (done, large) = (AtomicBool::new(false), "x".repeat(LARGE));
    let others = std::thread::scope(|threads| {
        let beside = threads.spawn(|| {
            let mut client = Connection::new(forebay.address);
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                count += 1;
                assert_eq!(client.call(&["SET", "small", &count.to_string()]), ok());
                assert_eq!(mode(&mut client), "normal");
                assert_eq!(client.call(&["GET", &format!("absent{count}")]), Reply::Nil);
            }
            count
        });
        assert_eq!(client.call(&["SET", "large", &large]), ok());
        let outcome = said(&client.call(&["CACHE", "OUTCOME"]));
        done.store(true, Ordering::SeqCst);
        assert!(outcome.starts_with("COMMITTED"), "{outcome}");
        beside.join().expect("nobody else notices")
    });
    assert!(others > 3, "{others} others were served meanwhile");
    assert_eq!([figure(&mut client, "buffered"), figure(&mut client, "pending")], [0, 0]);
    let length = "SELECT octet_length(value) > 14000000 FROM forebay.documents
        WHERE convert_from(name, 'UTF8') = 'large'";
    assert_eq!(server.sql(&database, length), "t");
}

/// In an outage a large write takes room by its size. What finds none is told what it needs; small ones go on, and all
/// that was acknowledged arrives.
#[test]
fn large_writes_in_an_outage_leave_room_for_small_ones() {
    let server = Server::start();
    let database = server.database();
    let forebay = start(&server, &database, &[]);
    let mut client = Connection::new(forebay.address);
    away(&mut client, true);
    let (large, mut kept, mut room) = ("x".repeat(LARGE), 0, figure(&mut client, "room_bytes"));
    let refused = loop {
        let reply = client.call(&["SET", &format!("large{kept}"), &large]);
        if reply != ok() {
            break said(&reply);
        }
        kept += 1;
        let left = figure(&mut client, "room_bytes");
        assert!(room - left < 2 * LARGE as i64 + (1 << 20), "{left} left of {room}");
        room = left;
    };
    assert!(refused.starts_with("BUFFERFULL") && refused.contains("bytes are needed"), "{refused}");
    assert!(kept >= 2, "{kept} were kept of 64 MiB");
    for number in 0..100 {
        assert_eq!(client.call(&["SET", &format!("small{number}"), "1"]), ok());
    }
    away(&mut client, false);
    calm(forebay.address);
    let there = "SELECT count(*) FROM forebay.documents WHERE convert_from(name, 'UTF8') ~ ";
    assert_eq!(server.sql(&database, &format!("{there} '^large'")), kept.to_string());
    assert_eq!(server.sql(&database, &format!("{there} '^small'")), "100");
}
