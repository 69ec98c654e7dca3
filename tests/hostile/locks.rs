//! Locks: hundreds of clients on one key, clients that hold or want locks and go away.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
#[cfg(feature = "postgres")]
use crate::postgres::Server;

/// Clients on one key.
const CROWD: usize = 900;

/// Waits for locks that outlast a test: what goes on earlier goes on for another reason.
const PATIENT: [&str; 4] = ["--lock-wait-ms-min", "60000", "--lock-wait-ms-max", "60000"];

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// A client of another key, and the longest that it waited for a reply.
struct Witness {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<(i64, Duration)>,
}

impl Witness {
    fn new(address: SocketAddr) -> Witness {
        let ends = Arc::new(AtomicBool::new(false));
        let end = ends.clone();
        let thread = std::thread::spawn(move || {
            let (mut connection, mut worst, mut count) = (Connection::new(address), Duration::ZERO, 0);
            while !end.load(Ordering::Relaxed) {
                let began = Instant::now();
                count += 1;
                assert_eq!(connection.call(&["INCR", "witness"]), Reply::Integer(count));
                worst = worst.max(began.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            (count, worst)
        });
        Witness { ends, thread }
    }

    fn end(self, what: &str) {
        self.ends.store(true, Ordering::Relaxed);
        let (count, worst) = self.thread.join().expect("it is served");
        println!("{what}: the other client made {count} increments, the longest took {} ms", worst.as_millis());
        assert!(count > 0);
    }
}

/// All write one key while a transaction has it: none is refused, and another key's client is served.
fn crowd(what: &str, store: &str, more: &[&str]) {
    let forebay = Forebay::start(store, &[&["--clients-max", "3000"], more].concat());
    let mut holder = Connection::new(forebay.address);
    assert_eq!(holder.pipeline(&[vec!["TXN", "BEGIN"], vec!["SET", "hot", "0"]]), [ok(), ok()]);
    let witness = Witness::new(forebay.address);
    let mut clients: Vec<Connection> = (0..CROWD).map(|_| Connection::new(forebay.address)).collect();
    clients.iter_mut().for_each(|client| client.send(&["INCR", "hot"]));
    let mut numbers: Vec<i64> = clients
        .iter_mut()
        .map(|client| match client.receive() {
            Reply::Integer(number) => number,
            other => panic!("{other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=CROWD as i64), "an increment is lost");
    witness.end(what);
    let Reply::Error(told) = holder.call(&["TXN", "COMMIT"]) else { panic!("it kept others waiting") };
    assert!(told.starts_with(b"TXABORTED wounded: INCR hot waited"), "{}", told.escape_ascii());
}

#[test]
fn a_crowd_on_one_key() {
    crowd("memory", "memory", &[]);
}

#[test]
fn a_crowd_on_one_key_of_a_file() {
    crowd("embedded", "embedded", &[]);
}

/// There each commit is waited for by all behind it.
#[cfg(feature = "postgres")]
#[test]
fn a_crowd_on_one_key_of_postgresql() {
    let server = Server::start();
    // A database on a busy machine.
    let patient = ["--store-timeout-ms", "5000", "--lock-wait-ms-min", "6000", "--lock-wait-ms-max", "7000"];
    crowd("postgres", &server.url(&server.database()), &patient);
}

/// A transaction that has locked `mine` and waits for `theirs`, which another has.
fn one_that_waits(address: SocketAddr) -> (Connection, Connection, String) {
    let (mut holder, mut waits) = (Connection::new(address), Connection::new(address));
    assert_eq!(holder.pipeline(&[vec!["TXN", "BEGIN"], vec!["SET", "theirs", "1"]]), [ok(), ok()]);
    let Reply::Integer(id) = waits.call(&["CLIENT", "ID"]) else { panic!("a number") };
    assert_eq!(waits.pipeline(&[vec!["TXN", "BEGIN"], vec!["SET", "mine", "1"]]), [ok(), ok()]);
    waits.send(&["SET", "theirs", "2"]);
    (holder, waits, id.to_string())
}

/// `mine` can be had by a transaction, to which others do not yield.
fn mine_is_free(address: SocketAddr) {
    let mut next = Connection::new(address);
    assert_eq!(next.pipeline(&[vec!["TXN", "BEGIN"], vec!["SET", "mine", "3"]]), [ok(), ok()]);
}

#[test]
fn who_is_killed_while_it_waits_holds_nothing() {
    let forebay = Forebay::start("memory", &PATIENT);
    let (mut holder, _waits, id) = one_that_waits(forebay.address);
    assert_eq!(Connection::new(forebay.address).call(&["CLIENT", "KILL", "ID", &id]), Reply::Integer(1));
    mine_is_free(forebay.address);
    assert!(matches!(holder.call(&["TXN", "COMMIT"]), Reply::Simple(_)));
}

#[test]
fn who_closes_its_socket_while_it_waits_holds_nothing() {
    let forebay = Forebay::start("memory", &PATIENT);
    let (mut holder, waits, _) = one_that_waits(forebay.address);
    drop(waits);
    mine_is_free(forebay.address);
    assert!(matches!(holder.call(&["TXN", "COMMIT"]), Reply::Simple(_)));
}

#[test]
fn who_quits_holds_nothing() {
    let forebay = Forebay::start("memory", &PATIENT);
    let mut quits = Connection::new(forebay.address);
    let asked = [vec!["TXN", "BEGIN"], vec!["SET", "mine", "1"], vec!["QUIT"]];
    assert_eq!(quits.pipeline(&asked), [ok(), ok(), ok()]);
    // Its socket stays open, and nobody reads from it.
    mine_is_free(forebay.address);
    drop(quits);
}

/// GET, then SET, of one key by many: with TXN LOCK all have their turn.
#[test]
fn many_read_and_write_one_key() {
    let forebay = Forebay::start("embedded", &PATIENT);
    let address = forebay.address;
    let add = move || {
        let mut client = Connection::new(address);
        for _ in 0..10 {
            let begun = client.pipeline(&[vec!["TXN", "BEGIN"], vec!["TXN", "LOCK", "count"], vec!["GET", "count"]]);
            let count: u64 = match &begun[..] {
                [Reply::Simple(_), Reply::Simple(_), Reply::Bulk(bytes)] => {
                    String::from_utf8_lossy(bytes).parse().expect("a number")
                }
                [Reply::Simple(_), Reply::Simple(_), Reply::Nil] => 0,
                other => panic!("{other:?}"),
            };
            let ended = client.pipeline(&[
                vec!["SET".to_owned(), "count".to_owned(), (count + 1).to_string()],
                vec!["TXN".to_owned(), "COMMIT".to_owned()],
            ]);
            assert!(ended.iter().all(|reply| matches!(reply, Reply::Simple(_))), "{ended:?}");
        }
    };
    let clients: Vec<_> = (0..16).map(|_| std::thread::spawn(add)).collect();
    clients.into_iter().for_each(|client| client.join().expect("none is refused"));
    assert_eq!(Connection::new(address).call(&["GET", "count"]), Reply::bulk(b"160"));
}
