//! Fault 24: wall clocks that jump. The program is the real one; what it calls for the time is not.

use std::time::{Duration, Instant};

use crate::QUICK;
use crate::appends::Appends;
use crate::common::Connection;
use crate::common::process::Forebay;
use crate::moved::{Clock, HOUR_SECONDS};
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{PATIENCE, calm, figure, said};

/// Waits until writes wait for the database.
fn until_pending(address: std::net::SocketAddr) {
    let (mut client, began) = (Connection::new(address), Instant::now());
    while figure(&mut client, "pending") == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing is buffered");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The clocks of forebay and of the database jump by hours, before, in and after outages, and over a restart.
fn clocks_jump(more: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut ours, mut theirs) = (Clock::new(&folder, "ours"), Clock::new(&folder, "theirs"));
    let server = Server::start_in(&theirs.environment);
    let database = server.database();
    let network = Proxy::to_postgres(server.address());
    let url = server.url_through(&database, network.address);
    let mut forebay = Forebay::start_in(&ours.environment, &url, &[&QUICK[..], more].concat());
    let appends = Appends::new(4);
    let mut jump = |round: i64| {
        ours.set([1, -1, 0][round as usize % 3] * HOUR_SECONDS);
        theirs.set([-1, 0, 1, 0][round as usize % 4] * HOUR_SECONDS);
    };
    let mut told = appends.run(forebay.address, 4, || {
        for round in 0..6 {
            std::thread::sleep(Duration::from_millis(150));
            if round % 2 == 0 {
                network.close();
            } else {
                network.pass();
            }
            jump(round);
        }
        network.pass();
    });
    // The clock that it wakes up to is behind that of what it finds in its journal, and something is in there.
    calm(forebay.address);
    appends.cache(forebay.address);
    network.close();
    jump(0);
    told.extend(appends.run(forebay.address, 4, || until_pending(forebay.address)));
    jump(1);
    forebay.restart();
    told.extend(appends.run(forebay.address, 4, || std::thread::sleep(Duration::from_millis(200))));
    network.pass();
    calm(forebay.address);
    let mut client = Connection::new(forebay.address);
    let hour_ago = said(&client.call(&["TIME"])).split(' ').next().and_then(|seconds| seconds.parse::<i64>().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    assert!((now - hour_ago.expect("seconds") - HOUR_SECONDS).abs() < 100, "its clock was never wrong");
    let theirs = server.sql(&database, "SELECT extract(epoch FROM clock_timestamp())::bigint");
    assert!((now - theirs.parse::<i64>().expect("seconds")).abs() < 100 + HOUR_SECONDS);
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

/// Fault 24: clocks order nothing and decide nothing of what is buffered.
#[test]
fn clocks_that_jump_lose_and_repeat_nothing() {
    clocks_jump(&[]);
}

/// Likewise where age decides when writes are applied: a clock that was set back does not put that off.
#[test]
fn clocks_that_jump_do_not_stop_the_write_back() {
    clocks_jump(&["--write-back-ms", "300"]);
}
