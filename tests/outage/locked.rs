//! Another program has locked a table: that is no outage, and no matter of other tables.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::state::{PATIENCE, mode, said};
use crate::tables::shop;

/// A time that a database keeps which has to share its machine with compilers.
const TIMEOUT_MS: &str = "3000";

/// Reads of the locked table are refused when they have waited for as long as any; all others are answered in that
/// time, the mode stays, and when the lock goes that table is read as ever.
#[test]
fn a_locked_table_is_no_outage() {
    let (server, database, forebay) = shop(
        &[
            ["--breaker-failures", "3", "--store-timeout-ms", TIMEOUT_MS],
            ["--lock-wait-ms-min", "7000", "--lock-wait-ms-max", "8000"],
        ]
        .concat(),
    );
    server.sql(&database, "INSERT INTO photos SELECT n, 1, 5 FROM generate_series(1, 20000) AS n");
    let (stop, refused) = (AtomicBool::new(false), AtomicU32::new(0));
    server.while_locked(&database, "LOCK TABLE albums IN ACCESS EXCLUSIVE MODE", || {
        std::thread::scope(|scope| {
            let (stop, refused, address) = (&stop, &refused, forebay.address);
            // Each a row: reads of one row wait for each other as well.
            let asked: Vec<_> = (1..=8)
                .map(|album| {
                    scope.spawn(move || {
                        let mut client = Connection::new(address);
                        while !stop.load(Ordering::SeqCst) {
                            let told = said(&client.call(&["HGETALL", &format!("album:{album}")]));
                            assert!(told.starts_with("STOREDOWN") && told.contains("locked"), "{told}");
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            let (mut client, began, mut photo) = (Connection::new(forebay.address), Instant::now(), 0);
            let mut wrong = Vec::new();
            // More often than an outage needs.
            let enough = |photo| photo > 20 && refused.load(Ordering::SeqCst) >= 16;
            while !enough(photo) && began.elapsed() < PATIENCE {
                photo += 1;
                let reply = client.call(&["HGET", &format!("photo:{photo}"), "views"]);
                if reply != Reply::bulk(b"5") || mode(&mut client) != "normal" {
                    wrong.push((photo, said(&reply), mode(&mut client)));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::SeqCst);
            asked.into_iter().for_each(|client| client.join().expect("it ends well"));
            assert!(wrong.is_empty() && enough(photo), "{photo} photos, {refused:?} refused, {wrong:?}");
        });
    });
    let (mut client, began) = (Connection::new(forebay.address), Instant::now());
    while client.call(&["HGET", "album:1", "name"]) != Reply::bulk(b"spring") {
        assert!(began.elapsed() < PATIENCE, "it is not locked any more");
    }
}
