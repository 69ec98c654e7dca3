//! Another program has locked a table: that is no outage, and no matter of other tables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::state::{PATIENCE, mode, said};
use crate::tables::shop;

/// Reads of the locked table are refused when they have waited for as long as any; all others are answered in that
/// time, the mode stays, and when the lock goes that table is read as ever.
#[test]
fn a_locked_table_is_no_outage() {
    let (server, database, forebay) = shop(
        &[
            ["--breaker-failures", "3", "--store-timeout-ms", "1000"],
            ["--lock-wait-ms-min", "2000", "--lock-wait-ms-max", "3000"],
        ]
        .concat(),
    );
    server.sql(&database, "INSERT INTO photos SELECT n, 1, 5 FROM generate_series(1, 20000) AS n");
    let stop = AtomicBool::new(false);
    server.while_locked(&database, "LOCK TABLE albums IN ACCESS EXCLUSIVE MODE", || {
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut client, mut refused) = (Connection::new(forebay.address), 0);
                        while !stop.load(Ordering::SeqCst) {
                            let told = said(&client.call(&["HGETALL", "album:1"]));
                            assert!(told.starts_with("STOREDOWN") && told.contains("locked"), "{told}");
                            refused += 1;
                        }
                        refused
                    })
                })
                .collect();
            let (mut client, began, mut photo) = (Connection::new(forebay.address), Instant::now(), 0);
            let mut wrong = Vec::new();
            while began.elapsed() < Duration::from_secs(4) {
                photo += 1;
                let reply = client.call(&["HGET", &format!("photo:{photo}"), "views"]);
                if reply != Reply::bulk(b"5") || mode(&mut client) != "normal" {
                    wrong.push((photo, said(&reply), mode(&mut client)));
                }
            }
            stop.store(true, Ordering::SeqCst);
            let refused: u32 = asked.into_iter().map(|client| client.join().expect("it ends well")).sum();
            assert!(wrong.is_empty() && photo > 20 && refused >= 8, "{photo} photos, {refused} refused, {wrong:?}");
        });
    });
    let (mut client, began) = (Connection::new(forebay.address), Instant::now());
    while client.call(&["HGET", "album:1", "name"]) != Reply::bulk(b"spring") {
        assert!(began.elapsed() < PATIENCE, "it is not locked any more");
    }
}
