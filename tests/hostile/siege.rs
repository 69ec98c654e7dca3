//! All of it at once and for long: FOREBAY_HOSTILE_SECONDS=300, part of `make nightly`.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::long::{Clock, slow_pattern};
use crate::{MIB, Scene, bulk_request, connect};

/// A name, what is sent, and how long the client stays after that, in ms.
type Attack = (&'static str, fn() -> Vec<u8>, u64);

const ATTACKS: [Attack; 8] = [
    ("reads nothing", reads_nothing, 200),
    ("never ends its request", never_ends, 200),
    ("vanishes in a transaction", || words(&["TXN BEGIN", "INCR a", "INCR b"]), 0),
    ("vanishes in a commit", || words(&["MULTI", "INCR a", "INCR b", "EXEC"]), 0),
    ("leaves a transaction open", || words(&["TXN BEGIN", "SET hot 1", "GET a"]), 300),
    ("waits for a lock and vanishes", || words(&["INCR hot"]), 5),
    ("speaks another protocol", || b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc".to_vec(), 0),
    ("asks what takes long", || bulk_request(&["KEYS", &slow_pattern(50)]), 20),
];

fn words(commands: &[&str]) -> Vec<u8> {
    commands.iter().flat_map(|command| bulk_request(&command.split(' ').collect::<Vec<_>>())).collect()
}

fn reads_nothing() -> Vec<u8> {
    bulk_request(&["GET", "large"]).repeat(100)
}

fn never_ends() -> Vec<u8> {
    [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n"[..], &[b'v'; 1 << 20]].concat()
}

/// A client that is refused, or closed in the middle, comes again.
fn attack(address: SocketAddr, bytes: &[u8], stays_ms: u64) {
    let mut stream = connect(address);
    // It may be closed by then.
    let _ = stream.write_all(bytes);
    std::thread::sleep(Duration::from_millis(stays_ms));
    let _ = stream.shutdown(Shutdown::Both);
}

#[test]
#[ignore = "long: minutes; part of make nightly"]
fn all_at_once_and_for_long() {
    let seconds = std::env::var("FOREBAY_HOSTILE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let lasts = Duration::from_secs(seconds.unwrap_or(300));
    let limits = ["--client-reply-bytes-max", "8MiB", "--replies-bytes-max", "32MiB", "--held-bytes-max", "32MiB"];
    let more = ["--request-bytes-max", "256MiB", "--txn-idle-ms-max", "400", "--threads", "2"];
    let scene = Scene::new(&[&limits[..], &more].concat());
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SET", "large", &"v".repeat(1 << 20)]), Reply::Simple("OK".into()));
    let (clock, ends, address) = (Clock::new(&scene), Arc::new(AtomicBool::new(false)), scene.address());
    let attackers = ATTACKS.map(|(what, bytes, stays_ms)| {
        let (ends, count) = (ends.clone(), Arc::new(AtomicU64::new(0)));
        let counted = count.clone();
        let thread = std::thread::spawn(move || {
            let bytes = bytes();
            while !ends.load(Ordering::Relaxed) {
                attack(address, &bytes, stays_ms);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        (what, count, thread)
    });
    let began = Instant::now();
    while began.elapsed() < lasts {
        scene.others_are_served("");
        scene.grown_at_most(256 * MIB, "all at once");
        let Reply::Array(both) = connection.call(&["MGET", "a", "b"]) else { panic!("MGET answers a list") };
        assert_eq!(both[0], both[1], "half a transaction was applied");
        std::thread::sleep(Duration::from_millis(200));
    }
    ends.store(true, Ordering::Relaxed);
    for (what, count, thread) in attackers {
        thread.join().expect("an attacker can always come again");
        println!("one who {what}: {} times", count.load(Ordering::Relaxed));
        assert!(count.load(Ordering::Relaxed) > 0, "{what}");
    }
    clock.end("all at once");
    // A lock that stays behind would make this fail.
    assert!(matches!(connection.call(&["INCR", "hot"]), Reply::Integer(_)));
    scene.others_are_served("");
}
