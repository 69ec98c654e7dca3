//! Resident memory under requests that are short and make much: its peak, and what is left of it. Each row is run
//! against a fresh server with `--memory 16MiB`, a debug build, whose pages of code are 8 MiB more than a release's.

#[path = "memory_bounds/clients_with_many_keys.rs"]
mod clients_with_many_keys;
mod common;
#[path = "memory_bounds/many.rs"]
mod many;
#[path = "memory_bounds/mapped.rs"]
mod mapped;
#[path = "memory_bounds/mixed.rs"]
mod mixed;
#[path = "memory_bounds/over_postgres.rs"]
mod over_postgres;
#[path = "common/postgres.rs"]
mod postgres;
#[path = "memory_bounds/scripts.rs"]
mod scripts;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Connection;
use common::process::Forebay;
use forebay_protocol::Reply;

const MIB: u64 = 1 << 20;

/// The share of the whole that the cache and the store's pages have.
const MEMORY: u64 = 16 * MIB;

/// What is promised: 1.1 times the memory, and 64 MiB.
const PROMISED: u64 = MEMORY + MEMORY / 10 + 64 * MIB;

/// Pages of its program that a release has in memory. A debug build has 8 MiB more.
const RELEASE_CODE: u64 = 15 * MIB;

/// How long memory may take to go back.
const PATIENCE: Duration = Duration::from_secs(20);

/// Documents that a pipeline or a transaction makes: all together many times the memory.
const DOCUMENTS: usize = 30;

/// Clients with a large request each.
const CLIENTS: usize = 8;

/// Keys of a wide request.
const KEYS: usize = 40_000;

struct Server {
    forebay: Arc<Forebay>,
    row: &'static str,
    before: u64,
}

impl Server {
    fn start(row: &'static str) -> Server {
        let server = Server::over(row, "embedded", &["--durability", "never"]);
        assert!(server.forebay.log().contains("more_mib="), "the start says that floors break the promise");
        server
    }

    fn over(row: &'static str, store: &str, arguments: &[&str]) -> Server {
        let forebay = Arc::new(Forebay::start(store, &[&["--memory", "16MiB"], arguments].concat()));
        let before = forebay.resident_bytes();
        Server { forebay, row, before }
    }

    /// The same server, for another row.
    fn again(&self, row: &'static str) -> Server {
        let server = Server { forebay: self.forebay.clone(), row, before: self.forebay.resident_bytes() };
        server.reset_peak();
        server
    }

    fn connect(&self) -> Connection {
        Connection::new(self.forebay.address)
    }

    /// The peak is counted from now on.
    fn reset_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.forebay.id()), "5").expect("its peak can be reset");
    }

    /// Of its program's pages no more than a release has.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.forebay.id())).expect("its status");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of its status");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB") * 1024
        };
        bytes("VmHWM:") - bytes("RssFile:").saturating_sub(RELEASE_CODE)
    }

    /// Fails if memory was ever above `most`, or stays above what is promised.
    fn stayed_below(self, most: u64) {
        let peak = self.peak();
        let began = Instant::now();
        while self.forebay.resident_bytes() > PROMISED && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
        let rest = self.forebay.resident_bytes();
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        println!("{}: {:.1} MiB before, peak {:.1}, rest {:.1}", self.row, mib(self.before), mib(peak), mib(rest));
        assert!(peak <= most, "{}: a peak of {:.1} MiB, at most {:.1}", self.row, mib(peak), mib(most));
        assert!(rest <= PROMISED, "{}: {:.1} MiB stay, at most {:.1}", self.row, mib(rest), mib(PROMISED));
    }
}

fn request(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Documents of 16 MB, each by a few bytes.
fn long_documents() -> Vec<Vec<String>> {
    (0..DOCUMENTS).map(|number| request(&["SETRANGE", &format!("b{number}"), "16000000", "x"])).collect()
}

fn wide(name: &str, keys: usize) -> Vec<String> {
    std::iter::once(name.to_owned()).chain((0..keys).map(|number| format!("absent{number:07}"))).collect()
}

fn says(reply: &Reply, text: &str) -> bool {
    format!("{reply:?}").contains(text)
}

#[test]
fn a_pipeline_that_makes_long_documents() {
    let server = Server::start("SETRANGE of other documents");
    server.reset_peak();
    let replies = server.connect().pipeline(&long_documents());
    assert!(replies.iter().all(|reply| *reply == Reply::Integer(16_000_001)), "{replies:?}");
    server.stayed_below(PROMISED);

    let server = Server::start("APPEND to one document");
    let mut connection = server.connect();
    connection.call(&["SETRANGE", "big", "8000000", "x"]);
    server.reset_peak();
    let replies = connection.pipeline(&vec![request(&["APPEND", "big", "x"]); DOCUMENTS]);
    assert_eq!(replies.last(), Some(&Reply::Integer(8_000_001 + DOCUMENTS as i64)));
    server.stayed_below(PROMISED);
}

#[test]
fn transactions_that_make_long_documents() {
    let server = Server::start("TXN");
    server.reset_peak();
    let script = [vec![request(&["TXN", "BEGIN"])], long_documents(), vec![request(&["TXN", "COMMIT"])]].concat();
    let replies = server.connect().pipeline(&script);
    let refused = replies.iter().filter(|reply| says(reply, "LIMIT txn_bytes_max")).count();
    assert_eq!(refused, DOCUMENTS - 2, "two documents of 16 MB are within the limit: {replies:?}");
    assert!(matches!(replies.last(), Some(Reply::Simple(_))), "what was not refused commits: {replies:?}");
    server.stayed_below(PROMISED);

    let server = Server::start("MULTI");
    server.reset_peak();
    let script = [vec![request(&["MULTI"])], long_documents(), vec![request(&["EXEC"])]].concat();
    let replies = server.connect().pipeline(&script);
    assert!(replies.last().is_some_and(|reply| says(reply, "LIMIT txn_bytes_max")), "{replies:?}");
    assert_eq!(server.connect().call(&["EXISTS", "b0"]), Reply::Integer(0), "nothing of it was done");
    server.stayed_below(PROMISED);
}

#[test]
fn requests_of_many_keys() {
    let server = Server::start("EXISTS of absent keys");
    server.reset_peak();
    assert_eq!(server.connect().pipeline(&[wide("EXISTS", KEYS)]), [Reply::Integer(0)]);
    server.stayed_below(PROMISED);

    let server = Server::start("MGET of absent keys");
    server.reset_peak();
    assert_eq!(server.connect().pipeline(&[wide("MGET", KEYS)]), [Reply::Array(vec![Reply::Nil; KEYS])]);
    server.stayed_below(PROMISED);

    let server = Server::start("DEL of half a million keys");
    server.reset_peak();
    let refused = server.connect().pipeline(&[wide("DEL", 500_000)]);
    assert!(says(&refused[0], "LIMIT locked_keys_max"), "{refused:?}");
    server.stayed_below(PROMISED);

    let server = Server::start("DEL of as many keys as may be locked");
    server.reset_peak();
    assert_eq!(server.connect().pipeline(&[wide("DEL", 32 << 10)]), [Reply::Integer(0)]);
    server.stayed_below(PROMISED);
}

/// The whole of the row above: a million keys take a debug build more than a minute.
#[test]
#[ignore = "takes minutes; run with --ignored"]
fn requests_of_a_million_keys() {
    let server = Server::start("EXISTS of a million absent keys");
    server.reset_peak();
    let mut stream = TcpStream::connect(server.forebay.address).expect("it listens");
    let mut out = bytes::BytesMut::new();
    forebay_protocol::encode_command(&mut out, &wide("EXISTS", 1_000_000));
    stream.write_all(&out).expect("written");
    let mut answer = [0; 4];
    std::io::Read::read_exact(&mut stream, &mut answer).expect("an answer");
    assert_eq!(&answer, b":0\r\n");
    server.stayed_below(PROMISED + 8 * MIB);
}

/// A server with as many strings of 4 MB, none of them in its memory all at once.
fn with_long_strings(row: &'static str) -> Server {
    let server = Server::start(row);
    let mut connection = server.connect();
    for number in 0..DOCUMENTS {
        let len = connection.call(&["SETRANGE", &format!("b{number}"), "3999999", "x"]);
        assert_eq!(len, Reply::Integer(4_000_000));
    }
    server.reset_peak();
    server
}

fn of_all(name: &str) -> Vec<Vec<String>> {
    (0..DOCUMENTS).map(|number| request(&[name, &format!("b{number}")])).collect()
}

/// However little is answered of them, they have to be read.
#[test]
fn requests_that_read_long_documents() {
    let server = with_long_strings("STRLEN of long strings in a pipeline");
    assert_eq!(server.connect().pipeline(&of_all("STRLEN")), vec![Reply::Integer(4_000_000); DOCUMENTS]);
    server.stayed_below(PROMISED);

    let server = with_long_strings("EXEC that reads long strings");
    let script = [vec![request(&["MULTI"])], of_all("STRLEN"), vec![request(&["EXEC"])]].concat();
    let replies = server.connect().pipeline(&script);
    assert!(replies.last().is_some_and(|reply| says(reply, "LIMIT txn_bytes_max")), "{replies:?}");
    server.stayed_below(PROMISED);

    let server = with_long_strings("TXN that reads long strings");
    let script = [vec![request(&["TXN", "BEGIN"])], of_all("STRLEN"), vec![request(&["TXN", "COMMIT"])]].concat();
    let replies = server.connect().pipeline(&script);
    let refused = replies.iter().filter(|reply| says(reply, "LIMIT txn_bytes_max")).count();
    assert!((20..DOCUMENTS).contains(&refused), "{refused} of them: {replies:?}");
    assert!(matches!(replies.last(), Some(Reply::Simple(_))), "what was read is of one moment: {replies:?}");
    server.stayed_below(PROMISED);

    let all = |name: &str| {
        let names = (0..DOCUMENTS).map(|number| format!("b{number}"));
        std::iter::once(name.to_owned()).chain(names).collect::<Vec<_>>()
    };
    let server = with_long_strings("EXISTS and MGET of long strings");
    let replies = server.connect().pipeline(&[all("EXISTS"), all("MGET")]);
    assert_eq!(replies[0], Reply::Integer(DOCUMENTS as i64), "in parts");
    assert!(says(&replies[1], "LIMIT "), "{replies:?}");
    server.stayed_below(PROMISED);
}

/// Each of them may hold 28 MB; one at a time does.
#[test]
fn scripts_that_read_long_documents_at_a_time() {
    let server = with_long_strings("8 EXEC that read long strings at a time");
    let address = server.forebay.address;
    let reads = move |client: usize| {
        let names = (0..7).map(|at| format!("b{}", (3 * client + at) % DOCUMENTS));
        let lens: Vec<_> = names.map(|name| request(&["STRLEN", &name])).collect();
        let script = [vec![request(&["MULTI"])], lens, vec![request(&["EXEC"])]].concat();
        let mut connection = Connection::new(address);
        (0..2).map(|_| connection.pipeline(&script).pop()).collect::<Vec<_>>()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|client| std::thread::spawn(move || reads(client))).collect();
    for client in clients {
        let all = Some(Reply::Array(vec![Reply::Integer(4_000_000); 7]));
        assert_eq!(client.join().expect("a client"), [all.clone(), all]);
    }
    server.stayed_below(PROMISED);
}

#[test]
fn replies_that_nobody_reads() {
    let server = Server::start("replies that nobody reads");
    assert_eq!(server.connect().call(&["SET", "v", &"x".repeat(100_000)]), Reply::Simple("OK".into()));
    server.reset_peak();
    let mut stream = TcpStream::connect(server.forebay.address).expect("it listens");
    // They take 10 GB, so most of these requests wait.
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let _ = stream.write_all(&b"GET v\r\n".repeat(100_000));
    assert_eq!(server.connect().call(&["STRLEN", "v"]), Reply::Integer(100_000), "others are served");
    server.stayed_below(PROMISED);
}

/// Clients that send the same, each as far as it is read; then they say no more.
fn all_send(server: &Server, head: &'static [u8], part: &'static [u8], parts: usize) -> Vec<TcpStream> {
    let address = server.forebay.address;
    let sends = move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // Who is not read for so long waits for room.
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        let _ = stream.write_all(head);
        (0..parts).all(|_| stream.write_all(part).is_ok());
        stream
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| std::thread::spawn(sends)).collect();
    clients.into_iter().map(|client| client.join().expect("a client")).collect()
}

/// As much as they send is never there: some wait to be read, and who does not go on makes way for who does.
#[test]
fn requests_that_nobody_finishes() {
    let server = Server::start("8 unfinished requests");
    server.reset_peak();
    let streams = all_send(&server, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000000\r\n", &[b'x'; 1_000_000], 8);
    let large = "x".repeat(500_000);
    assert_eq!(server.connect().call(&["SET", "large", &large]), Reply::Simple("OK".into()), "others are served");
    drop(streams);
    server.stayed_below(PROMISED);

    let server = Server::start("8 requests that are too large");
    server.reset_peak();
    let part = [b"$1000000\r\n".as_slice(), &[b'x'; 1_000_000], b"\r\n"].concat().leak();
    let streams = all_send(&server, b"*400\r\n$4\r\nMSET\r\n", part, 134);
    drop(streams);
    server.stayed_below(PROMISED);
}

/// All of them together are many times the room for them, and each has its turn.
#[test]
fn large_requests_wait_for_their_turn() {
    let server = Server::start("8 requests of 8 MB at a time");
    server.reset_peak();
    let address = server.forebay.address;
    let sets = move |client: usize| {
        let value = "x".repeat(8_000_000);
        let mut connection = Connection::new(address);
        (0..2).map(|_| connection.call(&["SET", &format!("k{client}"), &value])).collect::<Vec<_>>()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|client| std::thread::spawn(move || sets(client))).collect();
    for client in clients {
        assert_eq!(client.join().expect("a client"), vec![Reply::Simple("OK".into()); 2]);
    }
    assert!(!server.forebay.log().contains("held_bytes_max"), "{}", server.forebay.log());
    server.stayed_below(PROMISED);
}
