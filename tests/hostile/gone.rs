//! Clients that send a wide request and go away.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use forebay_protocol::Reply;

use crate::PATIENCE;
use crate::common::Connection;
use crate::common::process::Forebay;

/// Keys of a request that leaves no room for another.
const KEYS: usize = 6_000;

/// Those that go away.
const GOING: usize = 30;

/// MSET of keys that begin with `prefix`, behind `first`.
fn mset(first: &str, prefix: &str) -> bytes::BytesMut {
    let mut words = vec!["MSET".to_owned(), first.to_owned(), "v".to_owned()];
    words.extend((0..KEYS).flat_map(|key| [format!("{prefix}:{key}"), "v".to_owned()]));
    let mut out = bytes::BytesMut::new();
    forebay_protocol::encode_command(&mut out, &words);
    out
}

fn send(forebay: &Forebay, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(forebay.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request).expect("the server reads it");
    stream
}

/// How many clients are in CLIENT LIST with `what`.
fn listed(connection: &mut Connection, what: &str) -> usize {
    match connection.call(&["CLIENT", "LIST"]) {
        Reply::Bulk(list) => String::from_utf8_lossy(&list).lines().filter(|line| line.contains(what)).count(),
        other => panic!("{other:?}"),
    }
}

fn wait_until(connection: &mut Connection, what: &str, wanted: usize) {
    let began = Instant::now();
    while listed(connection, what) != wanted {
        assert!(began.elapsed() < PATIENCE, "{} of {wanted} clients with {what}", listed(connection, what));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// They wait for room behind a request that waits for a lock. None of theirs runs, and their connections end.
#[test]
fn a_wide_request_goes_with_its_client() {
    let forebay = Forebay::start(
        "embedded",
        &["--txn-yield-ms", "50000", "--lock-wait-ms-min", "60000", "--lock-wait-ms-max", "60000"],
    );
    let (mut holder, mut other) = (Connection::new(forebay.address), Connection::new(forebay.address));
    holder.pipeline(&[vec!["TXN", "BEGIN"], vec!["TXN", "LOCK", "held"]]);
    let mut waits = send(&forebay, &mset("held", "waits"));
    wait_until(&mut other, "cmd=mset", 1);
    for client in 0..GOING {
        drop(send(&forebay, &mset("first", &format!("gone{client}"))));
    }
    // The holder, the one that waits, and the one that looks.
    wait_until(&mut other, "addr=", 3);
    assert_eq!(holder.call(&["TXN", "ABORT"]), Reply::Simple("OK".into()));
    let mut answer = [0; 5];
    waits.read_exact(&mut answer).expect("an answer");
    assert_eq!((&answer, other.call(&["DBSIZE"])), (b"+OK\r\n", Reply::Integer(KEYS as i64 + 1)));

    // One that only sends nothing more is served where nothing else is under way.
    let mut half = send(&forebay, &mset("held", "half"));
    half.shutdown(Shutdown::Write).expect("it is open");
    half.read_exact(&mut answer).expect("an answer");
    assert_eq!((&answer, other.call(&["DBSIZE"])), (b"+OK\r\n", Reply::Integer(2 * KEYS as i64 + 1)));
}
