//! A client that sends a byte now and then must not keep the room of large requests.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_protocol::Reply;

use crate::Scene;
use crate::common::Connection;

#[test]
fn who_trickles_does_not_keep_others_waiting() {
    let scene = Scene::new(&["--held-bytes-max", "32MiB", "--request-bytes-max", "32MiB"]);
    let mut slow = scene.connect();
    slow.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$16000000\r\n").expect("it is read");
    slow.write_all(&vec![b'v'; 4 << 20]).expect("the first has room");
    let ends = Arc::new(AtomicBool::new(false));
    let end = ends.clone();
    let trickles = std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) && slow.write_all(&[b'v'; 2048]).is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    // It is not the first, and a quarter of the room is too little for it.
    let stored = Connection::new(scene.address()).call(&["SET", "b", &"v".repeat(12 << 20)]);
    assert_eq!(stored, Reply::Simple("OK".into()));
    ends.store(true, Ordering::Relaxed);
    trickles.join().expect("it did not panic");
    scene.others_are_served("large_request_bytes_per_s_min");
}
