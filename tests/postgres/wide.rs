//! A commit that shares no key with a wide one goes to the database beside it, on another connection.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::Server;

/// Each more than all the room for commits at this memory.
const KEYS: usize = 10_000;

/// Wide requests: more than are on their way at a time.
const WIDE: usize = 3;

fn wide(number: usize, value: &str) -> Vec<Vec<u8>> {
    let pairs = (0..KEYS).flat_map(|at| [format!("wide{number}:{at}").into_bytes(), value.as_bytes().to_vec()]);
    [b"MSET".to_vec()].into_iter().chain(pairs).collect()
}

/// While rows that they write are locked, no wide request is answered, and all small ones are.
#[test]
fn small_writes_are_committed_beside_wide_ones() {
    let server = Server::start();
    let database = server.database();
    // A wide commit waits for the lock without being taken for an outage.
    let patient = [["--store-timeout-ms", "30000"], ["--lock-wait-ms-min", "31000"], ["--lock-wait-ms-max", "32000"]];
    let options = [&["--memory", "16MiB"][..], patient.as_flattened()].concat();
    let forebay = Forebay::start(&server.url(&database), &options);
    let mut client = Connection::new(forebay.address);
    let first: Vec<String> = (0..WIDE).map(|number| format!("wide{number}:0")).collect();
    let pairs = first.iter().flat_map(|key| [key.as_str(), "before"]);
    assert_eq!(client.call(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>()), Reply::Simple("OK".into()));
    let waiting = || server.sql(&database, "SELECT count(*) FROM pg_locks WHERE NOT granted");
    let answers = std::thread::scope(|scope| {
        let lock = "SELECT FROM forebay.documents FOR UPDATE";
        server
            .while_locked(&database, lock, || {
                let ask = |number| {
                    let address = forebay.address;
                    scope.spawn(move || Connection::new(address).pipeline(&[wide(number, "v")]).remove(0))
                };
                let asked: Vec<_> = (0..WIDE).map(ask).collect();
                let began = Instant::now();
                while waiting() == "0" {
                    assert!(began.elapsed() < Duration::from_secs(60), "no wide request reached the database");
                }
                for count in 1..=100 {
                    assert_eq!(client.call(&["INCR", "n"]), Reply::Integer(count));
                }
                assert_ne!(waiting(), "0", "a wide commit is still on its way");
                assert!(asked.iter().all(|asked| !asked.is_finished()));
                asked
            })
            .into_iter()
            .map(|asked| asked.join().expect("it is answered"))
            .collect::<Vec<_>>()
    });
    assert_eq!(answers, vec![Reply::Simple("OK".into()); WIDE]);
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer((WIDE * KEYS + 1) as i64));
}
