//! Clients that write 15,000 keys again and again: what another client has of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;

/// Keys of one wide request.
const KEYS: usize = 15_000;

/// Clients that send such, and how often each.
const CLIENTS: usize = 2;
const ROUNDS: usize = 2;

fn request(name: &str, client: usize, value: Option<&str>) -> Vec<String> {
    let words = (0..KEYS).flat_map(|n| [Some(format!("wide{client}:{n}")), value.map(str::to_owned)]);
    std::iter::once(name.to_owned()).chain(words.flatten()).collect()
}

/// Prints the worst and the 99th percentile of INCR beside them. All are answered, whatever that takes: to bound it in
/// time is not for a test on a busy machine.
fn measure(what: &str, store: &str) {
    let forebay = Forebay::start(store, &["--memory", "16MiB"]);
    let left = AtomicUsize::new(CLIENTS);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (left, address) = (&left, forebay.address);
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                for _ in 0..ROUNDS {
                    let replies = connection.pipeline(&[request("MSET", client, Some("value"))]);
                    assert_eq!(replies, [Reply::Simple("OK".into())]);
                    assert_eq!(connection.pipeline(&[request("DEL", client, None)]), [Reply::Integer(KEYS as i64)]);
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let mut connection = Connection::new(forebay.address);
        while left.load(Ordering::SeqCst) > 0 {
            let asked = Instant::now();
            assert_eq!(connection.call(&["INCR", "n"]), Reply::Integer(times.len() as i64 + 1));
            times.push(asked.elapsed());
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert!(times.len() >= CLIENTS * ROUNDS, "it is served beside wide requests, not behind all of them");
    times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (worst, p99) = (times[times.len() - 1], times[(times.len() - 1) * 99 / 100]);
    println!("{what}: INCR worst {:.0} ms, p99 {:.0} ms of {}", ms(worst), ms(p99), times.len());
}

#[test]
fn wide_writes_over_embedded() {
    let folder = tempfile::tempdir().expect("a folder");
    measure("embedded", &format!("embedded:{}", folder.path().join("wide.redb").display()));
}

#[cfg(feature = "postgres")]
#[test]
fn wide_writes_over_postgres() {
    let server = crate::postgres::Server::start();
    measure("postgres", &server.url(&server.database()));
}
