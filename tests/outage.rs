//! Writes survive outages of a real PostgreSQL. They are acknowledged while it is down, and are in its tables exactly
//! once and in order when it is back.

#[path = "outage/altered.rs"]
mod altered;
#[path = "outage/answered.rs"]
mod answered;
#[path = "outage/appends.rs"]
mod appends;
#[path = "outage/beside.rs"]
mod beside;
#[path = "outage/blind.rs"]
mod blind;
#[path = "outage/clock.rs"]
mod clock;
mod common;
#[path = "outage/decided.rs"]
mod decided;
#[path = "outage/decoded.rs"]
mod decoded;
#[path = "outage/defaults.rs"]
mod defaults;
#[path = "outage/differential.rs"]
mod differential;
#[path = "outage/disk_full.rs"]
mod disk_full;
#[path = "outage/ground.rs"]
mod ground;
#[path = "outage/ids.rs"]
mod ids;
#[path = "outage/in_doubt.rs"]
mod in_doubt;
#[path = "outage/journal.rs"]
mod journal;
#[path = "outage/journal_files.rs"]
mod journal_files;
#[path = "outage/killed.rs"]
mod killed;
#[path = "outage/lanes.rs"]
mod lanes;
#[path = "outage/large.rs"]
mod large;
#[path = "outage/lists.rs"]
mod lists;
#[path = "outage/locked.rs"]
mod locked;
#[path = "outage/lost_table.rs"]
mod lost_table;
#[path = "outage/merged.rs"]
mod merged;
#[path = "outage/minutes.rs"]
mod minutes;
#[path = "common/clock.rs"]
mod moved;
#[path = "outage/network.rs"]
mod network;
#[path = "outage/overtaken.rs"]
mod overtaken;
#[path = "outage/owners.rs"]
mod owners;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "outage/pressure.rs"]
mod pressure;
#[path = "common/proxy.rs"]
mod proxy;
#[path = "outage/quarantined.rs"]
mod quarantined;
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
#[path = "outage/siblings.rs"]
mod siblings;
#[path = "outage/slow.rs"]
mod slow;
#[path = "outage/state.rs"]
mod state;
#[path = "outage/tables.rs"]
mod tables;
#[path = "outage/takeover.rs"]
mod takeover;
#[path = "outage/together.rs"]
mod together;
#[path = "outage/tracked.rs"]
mod tracked;
#[path = "outage/versions.rs"]
mod versions;
#[path = "outage/warm.rs"]
mod warm;
#[path = "outage/write_back.rs"]
mod write_back;

use std::time::Duration;

use appends::Appends;
use common::Connection;
use common::process::Forebay;
use forebay_protocol::Reply;
use ground::Ground;
use postgres::{Server, Stop};
use proxy::Proxy;
use state::{calm, figure, mode};

/// Finds out soon that the database is there again.
const QUICK: [&str; 6] = ["--breaker-pause-ms", "20", "--breaker-pause-ms-max", "200", "--log-level", "info"];

fn start(server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url(database), &[&QUICK[..], more].concat())
}

/// Likewise over a network that can be made bad.
fn start_through(network: &Proxy, server: &Server, database: &str, more: &[&str]) -> Forebay {
    Forebay::start(&server.url_through(database, network.address), &[&QUICK[..], more].concat())
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// Fault 1: the store stops while many write, and starts again; twice.
#[test]
fn acknowledged_writes_are_there_once_and_in_order() {
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let mut forebay = start(&server, &database, ground.prepare(&server, &database));
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
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Likewise with SIGKILL of every process of the database's: sessions end without a word.
#[test]
fn all_processes_of_the_database_are_killed() {
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let mut forebay = start(&server, &database, ground.prepare(&server, &database));
        let appends = Appends::new(4);
        let told = appends.run(forebay.address, 4, || {
            std::thread::sleep(Duration::from_millis(400));
            server.signal("KILL", &server.processes());
            std::thread::sleep(Duration::from_millis(1000));
            server.start_again();
            std::thread::sleep(Duration::from_millis(400));
        });
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Likewise with SIGKILL of one backend, again and again: the database takes that for a crash, ends all others, and
/// recovers by itself.
#[test]
fn one_backend_is_killed() {
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let mut forebay = start(&server, &database, ground.prepare(&server, &database));
        let appends = Appends::new(4);
        let one = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'forebay%' ORDER BY random() LIMIT 1";
        let mut killed = 0;
        let told = appends.run(forebay.address, 4, || {
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(500));
                // Between a crash and the end of its recovery nobody is let in.
                let found = server.try_sql(&database, one).unwrap_or_default();
                if let Ok(backend) = found.parse() {
                    server.signal("KILL", &[backend]);
                    killed += 1;
                }
            }
            std::thread::sleep(Duration::from_millis(500));
        });
        assert!(killed > 1, "{killed} were killed");
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Likewise with SIGKILL of the postmaster alone: its children live on for a while, so connections that are open go on
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
/// applied by somebody else, or is.
#[test]
fn a_database_that_hangs_and_goes_on_applies_nothing_twice() {
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let mut forebay = start(&server, &database, ground.prepare(&server, &database));
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
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}

/// Faults 4, 5 and 13: forebay is killed while it buffers, starts without the database, buffers on, and is killed while
/// it applies.
#[test]
fn what_was_buffered_survives_sigkill() {
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let map = ground.prepare(&server, &database);
        let mut forebay = start(&server, &database, &[&["--drain-per-second-max", "300"], map].concat());
        let appends = Appends::new(4);
        let run =
            |forebay: &Forebay, ms| appends.run(forebay.address, 4, || std::thread::sleep(Duration::from_millis(ms)));
        let first = run(&forebay, 300);
        server.stop(Stop::Immediate);
        let second = run(&forebay, 700);
        forebay.restart();
        let mut client = Connection::new(forebay.address);
        assert_eq!(mode(&mut client), "failed");
        match client.call(&["LRANGE", "list999", "0", "-1"]) {
            Reply::Error(text) => assert!(text.starts_with(b"STOREDOWN not cached"), "{text:?}"),
            other => panic!("{other:?}"),
        }
        let third = run(&forebay, 300);
        server.start_again();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(300));
            forebay.restart();
        }
        ground.check(&appends, &[first, second, third].concat(), &mut forebay, (&server, &database));
    }
}

/// What was computed before a SIGKILL is computed on behind it.
#[test]
fn a_counter_counts_on_after_sigkill() {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &[]);
    server.stop(Stop::Immediate);
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["SET", "counter", "7"]), ok());
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(8));
    forebay.restart();
    let mut client = Connection::new(forebay.address);
    assert_eq!(client.call(&["INCR", "counter"]), Reply::Integer(9));
    server.start_again();
    calm(forebay.address);
    forebay.restart();
    assert_eq!(Connection::new(forebay.address).call(&["GET", "counter"]), Reply::bulk(b"9"));
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
    for ground in Ground::ALL {
        let server = Server::start();
        let database = server.database();
        let mut forebay = start(&server, &database, ground.prepare(&server, &database));
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
        ground.check(&appends, &told, &mut forebay, (&server, &database));
    }
}
