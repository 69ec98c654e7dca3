//! Scripts that hold many documents, of many clients at a time.

use super::*;

/// 30 MB of documents, by a request of a few bytes.
const WRITES: &str = "for n = 1, 30 do redis.call('SET', ARGV[1] .. n, ('x'):rep(1e6)) end return 30";
const READS: &str = "local all = 0 for n = 1, 30 do all = all + redis.call('STRLEN', ARGV[1] .. n) end return all";
const LONG_NAMES: &str =
    "local name = ('k'):rep(60000) for n = 1, 100 do redis.call('SET', ARGV[1] .. name .. n, 1) end return 100";

fn eval(script: &str, arg: &str) -> Vec<String> {
    request(&["EVAL", script, "0", arg])
}

/// What as many clients are answered to the last of their own `requests`, which they send at a time; of an array its
/// last part.
fn at_a_time(server: &Server, clients: usize, requests: fn(usize) -> Vec<Vec<String>>) -> Vec<Reply> {
    let address = server.forebay.address;
    let client = move |client: usize| {
        let mut connection = Connection::new(address);
        match connection.pipeline(&requests(client)).pop() {
            Some(Reply::Array(mut replies)) => replies.pop(),
            last => last,
        }
    };
    let clients: Vec<_> = (0..clients).map(|number| std::thread::spawn(move || client(number))).collect();
    clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
}

#[test]
fn scripts_that_write_much() {
    let server = Server::start("6 scripts that write 30 MB");
    server.reset_peak();
    let done = at_a_time(&server, 6, |client| vec![eval(WRITES, &format!("k{client}:"))]);
    assert_eq!(done, vec![Reply::Integer(30); 6]);
    server.stayed_below(PROMISED);

    let server = Server::start("4 MULTI of scripts that write 6 MB");
    server.reset_peak();
    let done = at_a_time(&server, 4, |client| {
        let script = WRITES.replace("30", "6");
        let scripts = (0..5).map(|n| eval(&script, &format!("k{client}:{n}:")));
        [vec![request(&["MULTI"])], scripts.collect(), vec![request(&["EXEC"])]].concat()
    });
    assert_eq!(done, vec![Reply::Integer(6); 4]);
    server.stayed_below(PROMISED);
}

#[test]
fn scripts_that_read_much_or_name_much() {
    let server = Server::start("20 scripts that read 30 MB");
    server.connect().pipeline(&[eval(WRITES, "k")]);
    server.reset_peak();
    let done = at_a_time(&server, 20, |_| vec![eval(READS, "k")]);
    assert_eq!(done, vec![Reply::Integer(30_000_000); 20]);
    server.stayed_below(PROMISED);

    let server = Server::start("8 scripts that write 100 keys of 60 kB");
    server.reset_peak();
    let done = at_a_time(&server, 8, |client| vec![eval(LONG_NAMES, &format!("k{client}"))]);
    assert_eq!(done, vec![Reply::Integer(100); 8]);
    server.stayed_below(PROMISED);
}

/// What a script has taken is left to it by large requests.
#[test]
fn scripts_that_write_much_beside_large_requests() {
    let server = Server::start("8 scripts that write 18 MB beside 4 SETs of 10 MB, three times");
    server.reset_peak();
    let script = WRITES.replace("30", "18");
    let sets = |client: usize| request(&["SET", &format!("s{client}"), &"s".repeat(10_000_000)]);
    let address = server.forebay.address;
    std::thread::scope(|scope| {
        for client in 0..12 {
            let script = &script;
            scope.spawn(move || {
                let asks = if client < 8 { eval(script, &format!("k{}:", client % 4)) } else { sets(client) };
                let mut connection = Connection::new(address);
                for _ in 0..3 {
                    let reply = connection.pipeline(std::slice::from_ref(&asks)).remove(0);
                    // A script that writes a document again holds the old one and the new one, which may be too much.
                    let is_done =
                        [Reply::Integer(18), Reply::OK].contains(&reply) || says(&reply, "LIMIT txn_bytes_max");
                    assert!(is_done, "{reply:?}");
                }
            });
        }
    });
    server.stayed_below(PROMISED);
}
