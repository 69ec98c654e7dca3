//! Writes survive outages of a real PostgreSQL: they are acknowledged while it is down, and are in its tables exactly
//! once and in order when it is back.

#[path = "outage/appends.rs"]
mod appends;
#[path = "outage/blind.rs"]
mod blind;
#[path = "outage/clock.rs"]
mod clock;
mod common;
#[path = "outage/decoded.rs"]
mod decoded;
#[path = "outage/ids.rs"]
mod ids;
#[path = "outage/in_doubt.rs"]
mod in_doubt;
#[path = "outage/journal.rs"]
mod journal;
#[path = "outage/killed.rs"]
mod killed;
#[path = "outage/lanes.rs"]
mod lanes;
#[path = "outage/large.rs"]
mod large;
#[path = "outage/lists.rs"]
mod lists;
#[path = "outage/lost_table.rs"]
mod lost_table;
#[path = "outage/merged.rs"]
mod merged;
#[path = "outage/minutes.rs"]
mod minutes;
#[path = "outage/network.rs"]
mod network;
#[path = "outage/on_tables.rs"]
mod on_tables;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "outage/pressure.rs"]
mod pressure;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "outage/races.rs"]
mod races;
#[path = "outage/records.rs"]
mod records;
#[path = "outage/refusing.rs"]
mod refusing;
#[path = "outage/remembered.rs"]
mod remembered;
#[path = "outage/restored.rs"]
mod restored;
#[path = "outage/slow.rs"]
mod slow;
#[path = "outage/state.rs"]
mod state;
#[path = "outage/tables.rs"]
mod tables;
#[path = "outage/warm.rs"]
mod warm;

use std::time::Duration;

use appends::Appends;
use common::Connection;
use common::process::Forebay;
use forebay_protocol::Reply;
use postgres::{Server, Stop};
use proxy::Proxy;
use state::{calm, figure, mode};

/// Finds out soon that the database is there again.
const QUICK: [&str; 6] = ["--breaker-pause-ms", "20", "--breaker-pause-ms-max", "200", "--log-level", "info"];

fn start(server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url(database), &[&QUICK[..], more].concat())
}

/// The same over a network that can be made bad.
fn start_through(network: &Proxy, server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url_through(database, network.address), &[&QUICK[..], more].concat())
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// Fault 1: the store stops while many write, and starts again; twice.
#[test]
fn acknowledged_writes_are_there_once_and_in_order() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let appends = Appends::new(6);
    let told = appends.run(forebay.address, 4, || {
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(500));
            server.stop(Stop::Immediate);
            std::thread::sleep(Duration::from_millis(1500));
            server.start_again();
        }
        std::thread::sleep(Duration::from_millis(500));
    });
    calm(forebay.address);
    let mut client = Connection::new(forebay.address);
    let mut figure = |name: &str| figure(&mut client, name);
    let (buffered, applied, merged) = (figure("buffered"), figure("applied"), figure("merged"));
    assert!(buffered > 0 && applied + merged == buffered, "{buffered} {applied} {merged}");
    // From the tables, with nothing cached.
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// The same with SIGKILL of every process of the database's: sessions end without a word.
#[test]
fn all_processes_of_the_database_are_killed() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let appends = Appends::new(4);
    let told = appends.run(forebay.address, 4, || {
        std::thread::sleep(Duration::from_millis(400));
        server.signal("KILL", &server.processes());
        std::thread::sleep(Duration::from_millis(1000));
        server.start_again();
        std::thread::sleep(Duration::from_millis(400));
    });
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// The same with SIGKILL of the postmaster alone: its children live on for a while, so connections that are open go on
/// being answered by a database that takes no new ones.
#[test]
fn the_postmaster_alone_is_killed() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let appends = Appends::new(4);
    let told = appends.run(forebay.address, 4, || {
        std::thread::sleep(Duration::from_millis(400));
        let (postmaster, all) = (server.postmaster(), server.processes());
        assert!(all.len() > 1, "it has children");
        server.signal("KILL", &[postmaster]);
        std::thread::sleep(Duration::from_millis(1000));
        server.start_again();
        std::thread::sleep(Duration::from_millis(400));
    });
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// Faults 3 and 6: all processes hang, with requests in their sockets, and go on later: what they execute then was
/// carried over by somebody else, or is.
#[test]
fn a_database_that_hangs_and_goes_on_applies_nothing_twice() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let appends = Appends::new(4);
    let told = appends.run(forebay.address, 4, || {
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            let hanging = server.processes();
            server.signal("STOP", &hanging);
            std::thread::sleep(Duration::from_millis(1500));
            server.signal("CONT", &hanging);
        }
        std::thread::sleep(Duration::from_millis(300));
    });
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// Faults 4, 5 and 13: forebay is killed while it buffers, starts without the database, buffers on, and is killed while
/// it carries over.
#[test]
fn what_was_buffered_survives_sigkill() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &["--drain-per-second-max", "300"]);
    let appends = Appends::new(4);
    let first = appends.run(forebay.address, 4, || std::thread::sleep(Duration::from_millis(300)));
    server.stop(Stop::Immediate);
    let second = appends.run(forebay.address, 4, || std::thread::sleep(Duration::from_millis(700)));
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "counter", "7"]), ok());
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(8));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(mode(&mut client), "failed");
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(9));
    match client.call(&["GET", "unheard-of"]) {
        Reply::Error(text) => assert!(text.starts_with(b"STOREDOWN not cached"), "{text:?}"),
        other => panic!("{other:?}"),
    }
    let third = appends.run(forebay.address, 4, || std::thread::sleep(Duration::from_millis(300)));
    server.start_again();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        forebay.restart();
    }
    calm(forebay.address);
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["GET", "counter"]), Reply::bulk(b"9"));
    appends.check(&[first, second, third].concat(), &mut client);
}

/// Fault 10: no more room. What was acknowledged is kept, what was not is refused with the reason.
#[test]
fn a_full_buffer_refuses_and_loses_nothing() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &["--outage-bytes-max", "256KiB"]);
    let mut client = Connection::new(forebay.address);
    server.stop(Stop::Immediate);
    let value = "x".repeat(1000);
    let mut kept = 0;
    let why = loop {
        match client.call(&["SET", &format!("key{kept}"), &value]) {
            Reply::Simple(_) => kept += 1,
            Reply::Error(text) => break String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert!(kept > 50 && why.starts_with("BUFFERFULL") && why.contains("--outage-bytes-max"), "{kept} {why}");
    assert_eq!(client.call(&["GET", "key0"]), Reply::bulk(value.as_bytes()));
    server.start_again();
    calm(forebay.address);
    assert_eq!(client.call(&["SET", "more", "1"]), ok());
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer(kept + 1));
}

/// Fault 17: the store flaps.
#[test]
fn a_flapping_database_makes_progress() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    let appends = Appends::new(4);
    let told = appends.run(forebay.address, 4, || {
        for _ in 0..15 {
            let hanging = server.processes();
            server.signal("STOP", &hanging);
            std::thread::sleep(Duration::from_millis(200));
            server.signal("CONT", &hanging);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}
