//! Requests behind which others wait.

use std::io::{Read, Write};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::{bulk_request, connect};

/// Waits for locks that outlast a test: a reply that comes did not wait for one.
const PATIENT: [&str; 6] = ["--lock-wait-ms-min", "60000", "--lock-wait-ms-max", "60000", "--txn-yield-ms", "50000"];

/// What is ready is written before the first wait: for a lock, and for a commit that stands before it.
#[test]
fn a_reply_does_not_wait_for_the_request_behind_it() {
    for store in ["memory", "embedded"] {
        let forebay = Forebay::start(store, &PATIENT);
        let mut holder = Connection::new(forebay.address);
        assert_eq!(holder.call(&["SET", "k", "value"]), Reply::Simple("OK".into()));
        holder.call(&["TXN", "BEGIN"]);
        assert_eq!(holder.call(&["SET", "locked", "1"]), Reply::Simple("OK".into()));
        let mut stream = connect(forebay.address);
        let requests = [&["GET", "k"][..], &["SET", "free", "1"], &["SET", "locked", "2"], &["GET", "k"]];
        stream.write_all(&requests.map(bulk_request).concat()).expect("it is read");
        let mut replies = [0; 16];
        stream.read_exact(&mut replies).expect("both replies, while the third waits");
        assert_eq!(&replies, b"$5\r\nvalue\r\n+OK\r\n");
        assert!(matches!(holder.call(&["TXN", "COMMIT"]), Reply::Simple(_)));
        stream.read_exact(&mut replies).expect("the others, when the lock is free");
        assert_eq!(&replies, b"+OK\r\n$5\r\nvalue\r\n");
    }
}
