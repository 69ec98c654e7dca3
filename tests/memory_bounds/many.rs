//! Many clients of which each makes the server hold a little, and then says nothing.

use super::*;

/// As many as there may be with so little memory, but for the one that looks.
const MANY: usize = 900;

fn connected(server: &Server, count: usize) -> Vec<TcpStream> {
    rlimit::increase_nofile_limit(4_096).expect("the limit of open files can be asked for");
    (0..count).map(|_| TcpStream::connect(server.forebay.address).expect("it listens")).collect()
}

/// A large request that is served leaves no large buffer behind.
#[test]
fn clients_that_sent_something_large() {
    let server = Server::start("200 clients after a SET of 1 MB each");
    let value = "v".repeat(1 << 20);
    let clients: Vec<Connection> = (0..200)
        .map(|number| {
            let mut client = server.connect();
            assert_eq!(client.call(&["SET", &format!("k{}", number % 4), &value]), Reply::Simple("OK".into()));
            assert!(!matches!(client.call(&["GET", "k0"]), Reply::Nil | Reply::Error(_)));
            client
        })
        .collect();
    server.stayed_below(PROMISED);
    drop(clients);
}

/// Parts of requests, each of which is too small to wait for room when it comes.
#[test]
fn clients_that_finish_no_small_request() {
    let server = Server::start("900 clients with 60 of 65 kB");
    let part = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$65000\r\n".as_slice(), &[b'v'; 60_000]].concat();
    let mut streams = connected(&server, MANY);
    for stream in &mut streams {
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        // One that is not read waits for room.
        let _ = stream.write_all(&part);
    }
    std::thread::sleep(Duration::from_secs(1));
    server.stayed_below(PROMISED);
    drop(streams);
}

/// What small transactions keep is counted: beyond the limit they are closed.
#[test]
fn clients_with_small_transactions() {
    let server = Server::over("900 TXN of 60 kB", "embedded", &["--durability", "never"]);
    let value = "v".repeat(30_000);
    let mut refused = 0;
    let clients: Vec<Connection> = (0..MANY)
        .map(|number| {
            let mut client = server.connect();
            client.call(&["TXN", "BEGIN"]);
            for part in 0..2 {
                let reply = client.try_call(&["SET", &format!("k{number}:{part}"), &value]);
                refused += usize::from(reply.map_or(true, |reply| says(&reply, "LIMIT held_bytes_max")));
            }
            client
        })
        .collect();
    assert!(refused > 100, "{refused} of {MANY} were refused: all of it is more than held-bytes-max");
    // The floors of the limits allow that much more: the start says so.
    server.stayed_below(PROMISED + 24 * MIB);
    drop(clients);
}

/// Each asks for all keys, with a pattern that takes much, and reads nothing.
#[test]
fn clients_that_ask_for_all_keys() {
    const KEYS: usize = 5_000;
    let server = Server::start("60 clients with KEYS of 1 MB that nobody reads");
    let mut client = server.connect();
    for from in (0..KEYS).step_by(500) {
        let keys: Vec<String> = (from..from + 500).map(|number| format!("{number:0200}")).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_str(), ""]);
        let command: Vec<&str> = std::iter::once("MSET").chain(pairs).collect();
        assert_eq!(client.call(&command), Reply::Simple("OK".into()));
    }
    let all = connected(&server, 60);
    all.iter().for_each(|mut stream| stream.write_all(b"KEYS *\r\n").expect("it is taken"));
    let some = connected(&server, 60);
    some.iter().for_each(|mut stream| stream.write_all(b"SCAN 0 COUNT 100000\r\n").expect("it is taken"));
    std::thread::sleep(Duration::from_secs(2));
    server.stayed_below(PROMISED);
    drop((all, some));

    let server = Server::start("100 clients with KEYS of a long pattern");
    let pattern = format!("{}b", "*a".repeat(60_000));
    let mut out = bytes::BytesMut::new();
    forebay_protocol::encode_command(&mut out, &["KEYS", &pattern]);
    let clients = connected(&server, 100);
    clients.iter().for_each(|mut stream| stream.write_all(&out).expect("it is taken"));
    std::thread::sleep(Duration::from_secs(1));
    server.stayed_below(PROMISED);
    drop(clients);
}

/// Long documents that are not cached: each client has one of its own, and reads it again and again, or changes it so
/// that most of it is made again.
#[test]
fn clients_with_a_long_list_each() {
    const LISTS: usize = 20;
    let server = Server::start("20 lists of 50,000 elements");
    let elements: Vec<String> = (0..10_000).map(|number| format!("e{number}")).collect();
    let mut client = server.connect();
    for list in 0..LISTS {
        let name = format!("list{list}");
        let command: Vec<&str> = ["RPUSH", &name].into_iter().chain(elements.iter().map(String::as_str)).collect();
        for pushed in 1..=5 {
            assert_eq!(client.call(&command), Reply::Integer(pushed * 10_000));
        }
    }
    for command in [&["LINDEX", "", "5"][..], &["LREM", "", "1", "e7"]] {
        let server = server.again(command[0]);
        let clients = (0..LISTS).map(|list| {
            let (mut client, name) = (server.connect(), format!("list{list}"));
            let command: Vec<String> =
                command.iter().map(|word| if word.is_empty() { &name } else { *word }.to_owned()).collect();
            std::thread::spawn(move || {
                let words: Vec<&str> = command.iter().map(String::as_str).collect();
                assert!(!matches!(client.call(&words), Reply::Error(_)));
            })
        });
        clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().expect("it ends"));
        server.stayed_below(PROMISED);
    }
}

/// Elements that repeat fill more than there is before they are encoded.
#[test]
fn a_client_that_asks_for_many_repeats() {
    let server = Server::start("HRANDFIELD and SRANDMEMBER with repeats");
    let mut client = server.connect();
    assert_eq!(client.call(&["HSET", "h", "field", "value"]), Reply::Integer(1));
    assert_eq!(client.call(&["SADD", "s", "member"]), Reply::Integer(1));
    for command in [&["HRANDFIELD", "h", "-1048576", "WITHVALUES"][..], &["SRANDMEMBER", "s", "-1048576"]] {
        let reply = client.call(command);
        assert!(says(&reply, "LIMIT repeated_elements_max "), "{reply:?}");
    }
    assert!(matches!(client.call(&["SRANDMEMBER", "s", "-50000"]), Reply::Array(members) if members.len() == 50_000));
    server.stayed_below(PROMISED);
}
