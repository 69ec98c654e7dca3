//! Clients that are slow but steady: they are served to the end, and no other client waits for them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::{MIB, PATIENCE, Scene, bulk_request, until};

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

/// One that sends no more has as much time to read as others: for ten seconds it takes a little at a time.
#[test]
fn a_client_that_sends_no_more_gets_all_of_its_reply() {
    let scene = Scene::new(&[]);
    let value = "v".repeat(9 << 20);
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SET", "large", &value]), Reply::Simple("OK".into()));
    let mut stream = scene.connect();
    stream.write_all(&bulk_request(&["GET", "large"])).expect("it is read");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut reply = vec![0; "$9437184\r\n\r\n".len() + value.len()];
    for part in reply.chunks_mut(48 << 10) {
        stream.read_exact(part).expect("it is not closed");
        std::thread::sleep(STEP);
    }
    assert_eq!(stream.read(&mut [0]).expect("an end"), 0);
    scene.others_are_served("");
}

/// A client that writes all of its pipeline before it reads, and never reads, is closed in the end.
#[test]
fn a_client_that_never_reads_is_closed() {
    let scene = Scene::new(&["--client-reply-bytes-max", "2MiB"]);
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["SET", "some", &"v".repeat(1 << 20)]), Reply::Simple("OK".into()));
    let mut stream = scene.connect();
    stream.write_all(&bulk_request(&["GET", "some"]).repeat(30)).expect("it is read");
    let why = "closing a client that does not read its replies in time: client_reply_bytes_max";
    until("it is closed", || scene.forebay.log().contains(why));
    scene.others_are_served("");
}

/// A client that reads none of its replies is idle, though its transaction has more requests to serve.
#[test]
fn a_transaction_whose_client_reads_nothing_is_rolled_back() {
    let limits = ["--txn-idle-ms-max", "400", "--txn-yield-ms", "50000", "--client-reply-bytes-max", "2MiB"];
    let scene = Scene::new(&[&limits[..], &["--lock-wait-ms-min", "60000", "--lock-wait-ms-max", "60000"]].concat());
    let mut other = Connection::new(scene.address());
    assert_eq!(other.call(&["SET", "some", &"v".repeat(1 << 20)]), Reply::Simple("OK".into()));
    let mut stream = scene.connect();
    let (begin, set) = (bulk_request(&["TXN", "BEGIN"]), bulk_request(&["SET", "held", "v"]));
    let sent = [begin, set, bulk_request(&["GET", "some"]).repeat(30), bulk_request(&["TXN", "COMMIT"])].concat();
    stream.write_all(&sent).expect("it is read");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut begun = [0; 10];
    stream.read_exact(&mut begun).expect("it has the lock");
    assert_eq!(&begun, b"+OK\r\n+OK\r\n");
    other.call(&["TXN", "BEGIN"]);
    assert_eq!(other.call(&["TXN", "LOCK", "held"]), Reply::Simple("OK".into()), "the lock goes on");
    assert_eq!(other.call(&["GET", "held"]), Reply::Nil);
    let (mut last, mut part) = (Vec::new(), [0; 1 << 16]);
    while !last.ends_with(b"-TXABORTED timeout: txn_idle_ms_max\r\n") {
        let count = stream.read(&mut part).expect("it is not closed before");
        last.extend_from_slice(&part[..count]);
        last.drain(..last.len().saturating_sub(100));
        assert!(count > 0, "{}", String::from_utf8_lossy(&last));
    }
    scene.others_are_served("");
}

/// 16 clients read pipelines of large replies slowly, and then nothing for a while. A quick one is served meanwhile.
/// So is one that is new, while they read.
#[test]
fn slow_readers_hold_up_no_quick_one() {
    let scene = Scene::new(&[]);
    let value = "v".repeat(3 << 20);
    let mut quick = Connection::new(scene.address());
    assert_eq!(quick.call(&["SET", "large", &value]), Reply::Simple("OK".into()));
    assert_eq!(quick.call(&["GET", "large"]), Reply::bulk(value.as_bytes()));
    let (ends, pauses, read) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
    let slow: Vec<_> = (0..16)
        .map(|_| {
            let (mut stream, ends, pauses, read) = (scene.connect(), ends.clone(), pauses.clone(), read.clone());
            std::thread::spawn(move || {
                stream.write_all(&bulk_request(&["GET", "large"]).repeat(8)).expect("it is read");
                stream.set_read_timeout(Some(STEP)).expect("a timeout");
                let mut part = [0; 20_000];
                while !ends.load(Ordering::Relaxed) {
                    match stream.read(&mut part) {
                        Ok(bytes) => _ = read.fetch_add(bytes, Ordering::Relaxed),
                        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                        Err(error) => panic!("it is closed: {error}"),
                    }
                    std::thread::sleep(STEP);
                    while pauses.load(Ordering::Relaxed) {
                        std::thread::sleep(STEP);
                    }
                }
            })
        })
        .collect();
    // For so long that the server knows their pace.
    let began = Instant::now();
    until("they have read", || began.elapsed().as_secs() >= 4 && read.load(Ordering::Relaxed) > 4 << 20);
    pauses.store(true, Ordering::Relaxed);
    std::thread::sleep(2 * STEP);
    let before = read.load(Ordering::Relaxed);
    for _ in 0..10 {
        assert_eq!(quick.call(&["GET", "large"]), Reply::bulk(value.as_bytes()));
    }
    assert_eq!(read.load(Ordering::Relaxed), before, "it waits for slow readers");
    pauses.store(false, Ordering::Relaxed);
    let mut new = Connection::new(scene.address());
    assert_eq!(new.call(&["GET", "large"]), Reply::bulk(value.as_bytes()));
    println!(
        "while a new client waited for 3 MiB, slow ones read {} KB",
        (read.load(Ordering::Relaxed) - before) >> 10
    );
    ends.store(true, Ordering::Relaxed);
    slow.into_iter().for_each(|one| one.join().expect("it was not closed"));
    assert!(!scene.forebay.log().contains("does not read its replies"), "{}", scene.forebay.log());
    scene.others_are_served("");
}

/// Eight clients ask for a reply of half of the room and read nothing. One that comes later is not served behind all of
/// them, and a shorter reply is served beside them.
#[test]
fn those_that_read_nothing_do_not_hold_up_a_newcomer_one_after_the_other() {
    let scene = Scene::new(&["--replies-bytes-max", "16MiB"]);
    let (large, short) = ("v".repeat(8 << 20), "v".repeat(3 << 20));
    let mut connection = Connection::new(scene.address());
    assert_eq!(connection.call(&["MSET", "large", &large, "short", &short]), Reply::Simple("OK".into()));
    let stalled = Vec::from_iter((0..8).map(|_| {
        let mut stream = scene.connect();
        stream.write_all(&bulk_request(&["GET", "large"])).expect("it is read");
        stream
    }));
    let closed = || scene.forebay.log().matches("closing a client that does not read its replies").count();
    let ask = |key: &str, value: &str| {
        let (mut stream, began) = (scene.connect(), Instant::now());
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        stream.write_all(&bulk_request(&["GET", key])).expect("it is read");
        let mut reply = vec![0; format!("${}\r\n\r\n", value.len()).len() + value.len()];
        stream.read_exact(&mut reply).expect("it is not closed");
        println!("GET of {} MiB beside 8 that read nothing: {} ms", value.len() >> 20, began.elapsed().as_millis());
    };
    ask("short", &short);
    assert_eq!(closed(), 0, "a short reply waits for none of them");
    ask("large", &large);
    assert!(closed() < stalled.len() / 2, "it waits for {} of {}", closed(), stalled.len());
    scene.others_are_served("");
}
