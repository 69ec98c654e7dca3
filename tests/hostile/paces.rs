//! Clients that are slow but steady: they are served to the end, and no other client waits for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::{MIB, Scene, bulk_request};

const STEP: Duration = Duration::from_millis(50);

/// A request that is sent at a pace, until it is told to hurry.
fn trickles(mut stream: TcpStream, request: Vec<u8>, per_step: usize, hurry: Arc<AtomicBool>) -> Vec<u8> {
    for part in request.chunks(per_step) {
        stream.write_all(part).expect("it is not closed");
        if !hurry.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
    }
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).expect("it is answered");
    reply.to_vec()
}

/// Five large requests come slowly. Small ones that came later are done long before the first of them is.
#[test]
fn slow_senders_are_served_and_hold_up_no_small_request() {
    let scene = Scene::new(&[]);
    let hurry = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicUsize::new(0));
    let slow: Vec<_> = (0..5)
        .map(|number| {
            let request = bulk_request(&["SET", &format!("slow{number}"), &"v".repeat(12_000_000)]);
            let (stream, hurry, done) = (scene.connect(), hurry.clone(), done.clone());
            stream.set_write_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            std::thread::spawn(move || {
                // 700 KB in a second: those that are not first have all the room for them within a few.
                let reply = trickles(stream, request, 35_000, hurry);
                done.fetch_add(1, Ordering::Relaxed);
                reply
            })
        })
        .collect();
    let mut connection = Connection::new(scene.address());
    let (value, mut worst) = ("y".repeat(3_000_000), Duration::ZERO);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        let asked = Instant::now();
        assert_eq!(connection.call(&["SET", "quick", &value]), Reply::Simple("OK".into()));
        worst = worst.max(asked.elapsed());
        std::thread::sleep(STEP);
    }
    assert_eq!(done.load(Ordering::Relaxed), 0, "a small request is done before the large ones that came before it");
    println!("SET of 3 MB beside 5 slow ones of 12 MB: at worst {} ms", worst.as_millis());
    hurry.store(true, Ordering::Relaxed);
    for one in slow {
        assert_eq!(one.join().expect("it was not closed"), b"+OK\r\n");
    }
    assert!(!scene.forebay.log().contains("sends a large request slowly"), "{}", scene.forebay.log());
    scene.others_are_served("");
}

/// Four pipelines of many times what may wait are read slowly, to their ends.
#[test]
fn slow_readers_get_all_of_their_replies() {
    let scene = Scene::new(&["--client-reply-bytes-max", "8MiB", "--replies-bytes-max", "12MiB"]);
    let value = "v".repeat(4 << 20);
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SET", "large", &value]), Reply::Simple("OK".into()));
    let one = format!("${}\r\n{value}\r\n", value.len()).into_bytes();
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (mut stream, one) = (scene.connect(), one.clone());
            std::thread::spawn(move || {
                stream.write_all(&bulk_request(&["GET", "large"]).repeat(12)).expect("it is read");
                let mut reply = vec![0; one.len()];
                for _ in 0..12 {
                    for part in reply.chunks_mut(1 << 20) {
                        stream.read_exact(part).expect("it is not closed");
                        std::thread::sleep(STEP / 2);
                    }
                    assert!(reply == one, "another reply");
                }
            })
        })
        .collect();
    scene.grown_at_most(96 * MIB, "4 pipelines of 48 MiB of replies");
    for reader in readers {
        reader.join().expect("it was not closed");
    }
    assert!(!scene.forebay.log().contains("does not read its replies"), "{}", scene.forebay.log());
    scene.others_are_served("");
}
