//! Faults in front of a table that other programs know: the lists of the tester are rows.

use std::time::Duration;

use crate::appends::Appends;
use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::{Server, Stop};
use crate::proxy::Proxy;
use crate::state::calm;
use crate::{start, start_through};

const MAP: [&str; 2] = ["--map", "list{id} -> lists(id).items as list"];

/// Rows without an array yet, and with one; others are made.
const LISTS: &str = "CREATE TABLE lists (id integer PRIMARY KEY, items text[], note text NOT NULL DEFAULT 'ours');
    INSERT INTO lists VALUES (0, NULL), (1, '{}')";

fn prepared(server: &Server) -> String {
    let database = server.database();
    server.sql(&database, LISTS);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &server.url(&database), "--store-timeout-ms", "400"]).args(MAP);
    assert!(init.status().expect("the binary runs").success());
    database
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Fault 1: the database stops while many write, and starts again.
#[test]
fn acknowledged_writes_are_in_the_table() {
    let server = Server::start();
    let database = prepared(&server);
    let mut forebay = start(&server, &database, &MAP);
    let appends = Appends::new(6);
    let told = appends.run(forebay.address, 4, || {
        pause(400);
        server.stop(Stop::Immediate);
        pause(1200);
        server.start_again();
        pause(400);
    });
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
    assert_eq!(server.sql(&database, "SELECT count(*), count(note) FROM lists"), "6|6");
}

/// Faults 2, 3 and 6: replies are lost, and requests are held up and delivered late.
#[test]
fn late_and_unheard_requests_change_rows_once() {
    let server = Server::start();
    let database = prepared(&server);
    let network = Proxy::to_postgres(server.address());
    let mut forebay = start_through(&network, &server, &database, &MAP);
    let appends = Appends::new(4);
    let told = appends.run(forebay.address, 4, || {
        for round in 0..3 {
            pause(200);
            network.hold();
            pause(500 + 100 * round);
            network.release();
            network.drop_ends();
            pause(200);
            network.pass();
        }
        pause(300);
    });
    assert!(network.held() > 3 && network.dropped() > 0, "{} held, {} dropped", network.held(), network.dropped());
    calm(forebay.address);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// Faults 4, 5 and 13: forebay is killed while it buffers, and while it carries over.
#[test]
fn what_was_buffered_for_a_table_survives_sigkill() {
    let server = Server::start();
    let database = prepared(&server);
    let mut forebay = start(&server, &database, &[&MAP[..], &["--drain-per-second-max", "300"]].concat());
    let appends = Appends::new(4);
    let buffers = |forebay: &Forebay| appends.run(forebay.address, 4, || pause(400));
    let first = buffers(&forebay);
    server.stop(Stop::Immediate);
    let second = buffers(&forebay);
    forebay.restart();
    let third = buffers(&forebay);
    server.start_again();
    for _ in 0..3 {
        pause(300);
        forebay.restart();
    }
    calm(forebay.address);
    forebay.restart();
    appends.check(&[first, second, third].concat(), &mut Connection::new(forebay.address));
}
