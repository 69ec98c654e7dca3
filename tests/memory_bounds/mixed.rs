//! Clients that never stop: wide requests, long documents and large values at a time, and what others wait beside them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const LOOKED_AT: Duration = Duration::from_secs(12);

/// What a client sends, by its number.
type Make = fn(usize) -> Vec<Vec<String>>;

/// Sends `requests` again and again, and reads all that is answered, until it is `over`.
fn loops(address: std::net::SocketAddr, requests: &[Vec<String>], over: &AtomicBool) {
    let mut out = bytes::BytesMut::new();
    requests.iter().for_each(|words| forebay_protocol::encode_command(&mut out, words));
    while !over.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let mut answers = vec![0; 64 << 10];
        let mut left: &[u8] = &out;
        // One that is made to wait goes on where it was; what comes back is of no interest.
        while !over.load(Ordering::Relaxed) {
            match stream.write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if is_timeout(&error) => {}
                Err(_) => break,
            }
            if left.is_empty() {
                match stream.read(&mut answers) {
                    Ok(0) => break,
                    Err(error) if !is_timeout(&error) => break,
                    Ok(_) => left = &out,
                    Err(_) => {}
                }
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// SETs of so many bytes, one after the other, until it is `over`; how many, and the longest that one took.
fn polite(address: std::net::SocketAddr, bytes: usize, over: &AtomicBool) -> (u64, Duration) {
    let (mut connection, value) = (Connection::new(address), "x".repeat(bytes));
    let (served, mut worst) = (AtomicU64::new(0), Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        assert_eq!(connection.call(&["SET", &format!("polite{bytes}"), &value]), Reply::Simple("OK".into()));
        worst = worst.max(began.elapsed());
        served.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
    }
    (served.into_inner(), worst)
}

fn wide(client: usize) -> Vec<Vec<String>> {
    let pairs = (0..30_000).flat_map(|key| [format!("w{}:{key}", client % 7), "v".to_owned()]);
    vec![["MSET".to_owned()].into_iter().chain(pairs).collect()]
}

fn sets(client: usize) -> Vec<Vec<String>> {
    let set = format!("s{client}");
    let members = (0..20_000).map(|member| member.to_string());
    vec![["SADD".to_owned(), set.clone()].into_iter().chain(members).collect(), request(&["DEL", &set])]
}

fn copies(client: usize) -> Vec<Vec<String>> {
    let (from, to) = (format!("src{}", client % 3), format!("dst{client}"));
    vec![request(&["SETRANGE", &from, "15000000", "x"]), request(&["COPY", &from, &to, "REPLACE"])]
}

fn large(client: usize) -> Vec<Vec<String>> {
    vec![request(&["SET", &format!("big{}", client % 4), &"x".repeat(8 << 20)])]
}

/// A request of 100 KiB has room among the short ones, however many large and wide ones came before it.
#[test]
fn clients_that_never_stop() {
    const MEMORY_OF_ALL: u64 = 64 * MIB;
    // A debug build has 8 MiB more of its program in memory, and its frames are larger.
    const DEBUG_MORE: u64 = if cfg!(debug_assertions) { 12 * MIB } else { 0 };
    let arguments = ["--memory", "64MiB", "--durability", "interval"];
    let forebay = Arc::new(Forebay::start("embedded", &arguments));
    let server = Server { forebay: forebay.clone(), row: "mixed", before: 0 };
    let kinds: [(usize, Make); 4] = [(30, wide), (30, sets), (8, copies), (8, large)];
    let (address, over) = (forebay.address, AtomicBool::new(false));
    let polite = std::thread::scope(|scope| {
        let over = &over;
        for (clients, make) in kinds {
            for client in 0..clients {
                scope.spawn(move || loops(address, &make(client), over));
            }
        }
        let polite = [1_000, 100_000].map(|bytes| scope.spawn(move || polite(address, bytes, over)));
        std::thread::sleep(LOOKED_AT);
        over.store(true, Ordering::Relaxed);
        polite.map(|one| one.join().expect("it is served"))
    });
    let (peak, most) = (server.peak(), MEMORY_OF_ALL / 10 * 11 + 64 * MIB + DEBUG_MORE);
    println!("mixed: peak {} MiB, at most {}; others: {polite:?}", peak / MIB, most / MIB);
    assert!(peak <= most, "a peak of {} MiB, at most {}", peak / MIB, most / MIB);
    let [small, short] = polite.map(|(served, _)| served);
    // Where it waited for its turn among the large ones it was served once or twice.
    assert!(small >= 10 && short >= 10, "{small} of 1 KB, {short} of 100 KB");
}
