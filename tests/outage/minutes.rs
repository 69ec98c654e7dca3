//! The outages of the paper, one, five and ten minutes long, with clients that go on. What they were told is printed.

use std::time::{Duration, Instant};

use crate::appends::Appends;
use crate::common::Connection;
use crate::postgres::{Server, Stop};
use crate::start;
use crate::state::{calm, figure, mode};

/// Clients, and how long each rests between two appends.
const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(10);

/// Before and after the outage.
const CALM: Duration = Duration::from_secs(5);

fn outage_of(minutes: u64) {
    let server = Server::start();
    let database = server.database();
    let mut forebay = start(&server, &database, &["--outage-bytes-max", "1GiB"]);
    let appends = Appends::new(128).with_pause(PAUSE);
    let (mut figures, mut began) = (Vec::new(), Instant::now());
    let told = appends.run(forebay.address, CLIENTS, || {
        std::thread::sleep(CALM);
        figures.push((appends.acknowledged(), appends.refused()));
        server.stop(Stop::Immediate);
        began = Instant::now();
        std::thread::sleep(Duration::from_secs(60 * minutes));
        figures.push((appends.acknowledged(), appends.refused()));
        let mut client = Connection::new(forebay.address);
        assert_eq!(mode(&mut client), "failed");
        let [pending, merged, bytes] = ["pending", "merged", "bytes"].map(|name| figure(&mut client, name));
        eprintln!("{minutes} min: {pending} pending, {merged} merged, {bytes} bytes");
        server.start_again();
        began = Instant::now();
        while mode(&mut client) == "failed" {}
        eprintln!("{minutes} min: in recovery after {:?}", began.elapsed());
        std::thread::sleep(CALM);
    });
    calm(forebay.address);
    eprintln!("{minutes} min: normal again {:?} after the database, clients at work", began.elapsed());
    let [(before, _), (after, refused)] = figures[..] else { panic!("two looks") };
    eprintln!("{minutes} min: {} writes acknowledged in the outage, {refused} refused", after - before);
    // Each list was known by then: only while the outage was found out may a write have been refused.
    assert!(after - before > 1_000 * minutes && refused * 100 < after - before, "{before} {after} {refused}");
    forebay.restart();
    appends.check(&told, &mut Connection::new(forebay.address));
}

#[test]
#[ignore = "long: a minute; part of make nightly"]
fn an_outage_of_one_minute() {
    outage_of(1);
}

#[test]
#[ignore = "long: five minutes; part of make nightly"]
fn an_outage_of_five_minutes() {
    outage_of(5);
}

#[test]
#[ignore = "long: ten minutes; part of make nightly"]
fn an_outage_of_ten_minutes() {
    outage_of(10);
}
