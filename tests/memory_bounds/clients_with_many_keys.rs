//! Many clients that each name many keys or elements at once, and what another client waits beside them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const MANY_KEYS_MEMORY: u64 = 64 * MIB;

/// What a debug build may take more. With MGET in TXN a release took 121 to 131 MiB, and a debug build 134 to 143, of
/// its program's pages no more than a release's counted.
const DEBUG_MORE: u64 = if cfg!(debug_assertions) { 16 * MIB } else { 0 };

const CLIENTS_WITH_MANY_KEYS: usize = 900;

fn encoded<'a>(words: impl IntoIterator<Item = &'a str>, out: &mut bytes::BytesMut) {
    forebay_protocol::encode_command(out, &words.into_iter().collect::<Vec<_>>());
}

/// What client `number` sends: `times` requests of `keys` absent keys, each with `words` before them.
fn requests(words: &[&str], number: usize, keys: usize, times: usize) -> bytes::BytesMut {
    let mut out = bytes::BytesMut::new();
    if times > 1 {
        encoded(["TXN", "BEGIN"], &mut out);
    }
    for time in 0..times {
        let keys: Vec<String> = (0..keys).map(|key| format!("k{number}:{time}:{key}")).collect();
        encoded(words.iter().copied().chain(keys.iter().map(String::as_str)), &mut out);
    }
    out
}

/// What another client waits at most, until `over`.
fn worst_beside(forebay: &Forebay, over: &AtomicBool) -> Duration {
    let (mut other, mut worst) = (Connection::new(forebay.address), Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        assert_eq!(other.call(&["SET", "other", "value"]), Reply::Simple("OK".into()));
        assert_eq!(other.call(&["GET", "other"]), Reply::Bulk(b"value".as_slice().into()));
        worst = worst.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    worst
}

/// As [`all_ask_by`], with few threads that send.
fn all_ask(row: &str, clients: usize, make: impl Fn(usize) -> bytes::BytesMut) {
    all_ask_by(20, DEBUG_MORE, row, clients, make);
}

/// Has all clients send what `make` makes for them, by so many at a time, and waits until each has an answer. Fails if
/// memory was ever above what is promised, and so many bytes `more`.
fn all_ask_by(threads: usize, more: u64, row: &str, clients: usize, make: impl Fn(usize) -> bytes::BytesMut) {
    rlimit::increase_nofile_limit(4_096).expect("the limit of open files can be asked for");
    let arguments = ["--memory", "64MiB", "--durability", "never", "--log-level", "info"];
    let forebay = Arc::new(Forebay::start("embedded", &arguments));
    let over = AtomicBool::new(false);
    let connect = |_| TcpStream::connect(forebay.address).expect("it listens");
    let streams: Vec<TcpStream> = (0..clients).map(connect).collect();
    let sent: Vec<_> = (0..clients).map(&make).collect();
    let (answers, worst) = std::thread::scope(|scope| {
        let other = scope.spawn(|| worst_beside(&forebay, &over));
        // Each in a thread where there are few: a large request is read when there is room for it.
        let ask = |(mut stream, sent): (&TcpStream, &bytes::BytesMut)| {
            stream.set_read_timeout(Some(PATIENCE * 3)).expect("a timeout");
            // One that keeps too much is sent away before it has sent all.
            let _ = stream.write_all(sent);
        };
        let pairs: Vec<_> = streams.iter().zip(&sent).collect();
        for some in pairs.chunks(clients.div_ceil(threads)) {
            let some = some.to_vec();
            scope.spawn(move || some.into_iter().for_each(ask));
        }
        // Unlike `read`, it goes on when a child of the tests has ended.
        let answer = |mut stream: &TcpStream| stream.read_exact(&mut [0]).map_err(|error| error.to_string());
        let answers: Vec<Result<(), String>> = streams.iter().map(answer).collect();
        over.store(true, Ordering::Relaxed);
        (answers, other.join().expect("the other client is served"))
    });
    let server = Server { forebay, row: "", before: 0 };
    let (peak, most) = (server.peak(), MANY_KEYS_MEMORY / 10 * 11 + 64 * MIB + more);
    println!("{row}: peak {} MiB, another client waited {worst:?} at most", peak / MIB);
    let unanswered: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(unanswered.is_empty(), "{row}: {} of {clients} are not answered: {}", unanswered.len(), unanswered[0]);
    assert!(peak <= most, "{row}: a peak of {} MiB, at most {}", peak / MIB, most / MIB);
}

#[test]
fn clients_that_name_many_keys() {
    for name in ["MGET", "DEL", "WATCH"] {
        all_ask(name, CLIENTS_WITH_MANY_KEYS, |number| requests(&[name], number, 1_000, 1));
    }
}

#[test]
fn clients_that_keep_many_keys_locked() {
    for words in [["MGET"].as_slice(), &["TXN", "LOCK"]] {
        all_ask(&words.join(" "), CLIENTS_WITH_MANY_KEYS, |number| requests(words, number, 200, 30));
    }
}

#[test]
fn clients_that_make_large_collections() {
    all_ask("SADD", 20, |number| requests(&["SADD", &format!("set{number}")], 0, 100_000, 1));
    all_ask("LPUSH", 20, |number| {
        let (mut out, list) = (bytes::BytesMut::new(), format!("list{number}"));
        encoded(["LPUSH", &list].into_iter().chain(std::iter::repeat_n("", 200_000)), &mut out);
        out
    });
}

/// Each has hundreds of KiB on its way, and takes 1 KiB for each key while it runs. They are looked at for seconds,
/// for all of them take a debug build a minute.
#[test]
fn clients_that_write_many_keys() {
    const PAIRS: usize = 30_000;
    const LOOKED_AT: Duration = Duration::from_secs(12);
    let forebay = Arc::new(Forebay::start("embedded", &["--memory", "64MiB", "--durability", "interval"]));
    let server = Server { forebay: forebay.clone(), row: "MSET", before: 0 };
    let connect = |_| TcpStream::connect(forebay.address).expect("it listens");
    let streams: Vec<TcpStream> = (0..300).map(connect).collect();
    std::thread::scope(|scope| {
        for (client, mut stream) in streams.iter().enumerate() {
            scope.spawn(move || {
                let keys: Vec<String> = (0..PAIRS).map(|key| format!("m{client}-{key}")).collect();
                let mut out = bytes::BytesMut::new();
                encoded(["MSET"].into_iter().chain(keys.iter().flat_map(|key| [key.as_str(), "v"])), &mut out);
                stream.set_write_timeout(Some(LOOKED_AT)).expect("a timeout");
                // Most of them wait for their turn.
                let _ = stream.write_all(&out);
            });
        }
        std::thread::sleep(LOOKED_AT);
    });
    let (peak, most) = (server.peak(), MANY_KEYS_MEMORY / 10 * 11 + 64 * MIB);
    println!("MSET: peak {} MiB", peak / MIB);
    assert!(peak <= most, "a peak of {} MiB, at most {}", peak / MIB, most / MIB);
    drop(streams);
}

/// What is kept of each argument is more than the argument; what breaks the protocol at its end keeps none of it.
#[test]
fn clients_that_send_many_short_arguments() {
    all_ask_by(CLIENTS_WITH_MANY_KEYS, 0, "30,000 short arguments", CLIENTS_WITH_MANY_KEYS, |_| {
        let mut out = bytes::BytesMut::from(&b"*30000\r\n"[..]);
        (0..29_000).for_each(|_| out.extend_from_slice(b"$3\r\nabc\r\n"));
        out.extend_from_slice(b"*1\r\n");
        out
    });
}

/// The document that is copied, and the one that gives way, are read for each of them.
#[test]
fn clients_that_copy_a_long_document() {
    let server = Server::over("16 clients with COPY of 15 MB", "embedded", &["--durability", "interval"]);
    let mut connection = server.connect();
    connection.call(&["SETRANGE", "long", "14999999", "x"]);
    let copies = (0..16).map(|client| request(&["COPY", "long", &format!("copy{client}"), "REPLACE"]));
    let copies: Vec<Vec<String>> = copies.collect();
    assert_eq!(connection.pipeline(&copies), vec![Reply::Integer(1); 16]);
    std::thread::scope(|scope| {
        for copy in copies {
            let mut connection = server.connect();
            scope.spawn(move || {
                for _ in 0..2 {
                    assert_eq!(
                        connection.pipeline(&[copy.clone(), copy.clone()]),
                        [Reply::Integer(1), Reply::Integer(1)]
                    );
                }
            });
        }
    });
    server.stayed_below(PROMISED);
}

/// Answers of many short items are large before they are encoded: one is made at a time.
#[test]
fn clients_that_read_long_lists() {
    const ELEMENTS: usize = 300_000;
    const READS: usize = 4;
    let arguments = ["--memory", "64MiB", "--durability", "never"];
    let forebay = Arc::new(Forebay::start("embedded", &arguments));
    let (mut connection, empty) = (Connection::new(forebay.address), vec![""; ELEMENTS / 2]);
    for part in 1..=2 {
        let words = [["RPUSH", "list"].as_slice(), &empty].concat();
        assert_eq!(connection.call(&words), Reply::Integer((part * ELEMENTS / 2) as i64));
    }
    let server = Server { forebay: forebay.clone(), row: "LRANGE", before: 0 };
    server.reset_peak();
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(forebay.address).expect("it listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let mut out = bytes::BytesMut::new();
                (0..READS).for_each(|_| encoded(["LRANGE", "list", "0", "-1"], &mut out));
                stream.write_all(&out).expect("written");
                let answer = format!("*{ELEMENTS}\r\n").len() + ELEMENTS * "$0\r\n\r\n".len();
                let read = std::io::copy(&mut stream.take((READS * answer) as u64), &mut std::io::sink());
                assert_eq!(read.expect("all answers"), (READS * answer) as u64);
            });
        }
    });
    let (peak, most) = (server.peak(), MANY_KEYS_MEMORY / 10 * 11 + 64 * MIB + DEBUG_MORE);
    println!("LRANGE: peak {} MiB", peak / MIB);
    assert!(peak <= most, "a peak of {} MiB, at most {}", peak / MIB, most / MIB);
}

/// What waits for clients that read nothing is bounded, with the memory that it keeps. Each answer is too short to have
/// memory of its length made.
#[test]
fn clients_that_read_no_answer() {
    rlimit::increase_nofile_limit(4_096).expect("the limit of open files can be asked for");
    for elements in [1_000, 1_500] {
        let forebay = Arc::new(Forebay::start("embedded", &["--memory", "64MiB", "--durability", "never"]));
        let mut other = Connection::new(forebay.address);
        assert_eq!(other.call(&[["RPUSH", "list"].as_slice(), &["e"; 2_000]].concat()), Reply::Integer(2_000));
        let mut out = bytes::BytesMut::new();
        (0..300).for_each(|_| encoded(["LRANGE", "list", "0", &(elements - 1).to_string()], &mut out));
        let server = Server { forebay: forebay.clone(), row: "", before: 0 };
        server.reset_peak();
        let streams: Vec<TcpStream> = (0..CLIENTS_WITH_MANY_KEYS)
            .map(|_| TcpStream::connect(forebay.address).expect("it listens"))
            .inspect(|mut stream| stream.write_all(&out).expect("sent"))
            .collect();
        for _ in 0..12 {
            assert_eq!(other.call(&["PING"]), Reply::Simple("PONG".into()));
            std::thread::sleep(Duration::from_millis(250));
        }
        let (peak, most) = (server.peak(), MANY_KEYS_MEMORY / 10 * 11 + 64 * MIB + DEBUG_MORE);
        println!("{} answers of {elements} that are not read: peak {} MiB", streams.len(), peak / MIB);
        assert!(peak <= most, "a peak of {} MiB, at most {}", peak / MIB, most / MIB);
    }
}

/// The answers of a script may take a thousand times its bytes. One that has no room for them is run again in its turn.
#[test]
fn scripts_with_long_answers() {
    const READS: usize = 20;
    const FIELDS: usize = 2_000;
    const SCRIPTS: usize = 3;
    let forebay = Arc::new(Forebay::start("embedded", &["--memory", "64MiB", "--durability", "never"]));
    let mut other = Connection::new(forebay.address);
    let pairs: Vec<String> = (0..FIELDS).flat_map(|field| [format!("f{field:04}"), "v".to_owned()]).collect();
    let words = ["HSET", "hash"].into_iter().chain(pairs.iter().map(String::as_str));
    assert_eq!(other.call(&words.collect::<Vec<_>>()), Reply::Integer(FIELDS as i64));
    let server = Server { forebay: forebay.clone(), row: "", before: 0 };
    server.reset_peak();
    let script = |writes: bool| {
        let mut out = bytes::BytesMut::new();
        encoded(["MULTI"], &mut out);
        (0..READS).for_each(|_| encoded(["HGETALL", "hash"], &mut out));
        encoded(if writes { ["INCR", "n"].as_slice() } else { &["PING"] }.iter().copied(), &mut out);
        encoded(["EXEC"], &mut out);
        out
    };
    // OK, QUEUED for each, and the answers.
    let answer = 5 + (READS + 1) * 9 + "*21\r\n".len() + READS * (7 + FIELDS * ("$5\r\nf0000\r\n$1\r\nv\r\n".len()));
    std::thread::scope(|scope| {
        for number in 0..200 {
            let (out, forebay) = (script(number % 2 == 0), &forebay);
            scope.spawn(move || {
                let stream = TcpStream::connect(forebay.address).expect("it listens");
                stream.set_read_timeout(Some(PATIENCE * 3)).expect("a timeout");
                for _ in 0..SCRIPTS {
                    (&stream).write_all(&out).expect("written");
                    let read = std::io::copy(&mut (&stream).take(answer as u64), &mut std::io::sink());
                    assert_eq!(read.expect("all answers"), answer as u64);
                    let mut last = Vec::new();
                    while !last.ends_with(b"\r\n") {
                        let mut byte = [0];
                        (&stream).read_exact(&mut byte).expect("the last answer");
                        last.push(byte[0]);
                    }
                    assert!(last == b"+PONG\r\n" || last.starts_with(b":"), "{}", last.escape_ascii());
                }
            });
        }
    });
    assert_eq!(other.call(&["GET", "n"]), Reply::Bulk((100 * SCRIPTS).to_string().as_bytes().into()));
    let (peak, most) = (server.peak(), MANY_KEYS_MEMORY / 10 * 11 + 64 * MIB + DEBUG_MORE);
    println!("EXEC of {READS} HGETALL: peak {} MiB", peak / MIB);
    assert!(peak <= most, "a peak of {} MiB, at most {}", peak / MIB, most / MIB);
}
