//! The data commands, driven through a session without a socket: bytes in, bytes out, on a simulated clock, so that
//! expiry is exact. What redis-server answers to the same is checked by `tests/differential.rs` at the root; here are
//! the cases that depend on the time, on size and on forebay's own limits, and one case at least for each command.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use forebay::cache::CacheOptions;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::memory::Memory;
use forebay::txn::{Engine, EngineOptions, TxnLimits};
use forebay::value::DOCUMENT_BYTES_MAX;
use forebay_protocol::{Batch, Decoder, Limits, Protocol, encode_command};
use forebay_server::command::{Effect, Run, all};
use forebay_server::{ServerOptions, Session, Shared};

fn engine(runtime: Runtime) -> Engine {
    let policy = choose("lru").expect("the policy lru");
    Engine::new(EngineOptions {
        runtime,
        store: Arc::new(Memory::new()),
        cache: CacheOptions {
            budget_bytes: 1 << 20,
            partitions: 1,
            policy: policy.policy,
            policy_values: policy.values,
        },
        limits: TxnLimits::default(),
        history: None,
    })
}

/// The replies to inline commands, one after the other, with `|` for each line end. `SLEEP ms` lets time pass.
fn replies(protocol: Protocol, requests: Vec<String>) -> Vec<String> {
    let simulation = Simulation::new(7);
    let runtime = simulation.runtime();
    let shared = Arc::new(Shared::new(ServerOptions::new(engine(runtime.clone()))));
    let client = shared.clients.add("client".into(), "server".into(), runtime.now_ms(), 10).expect("room for one");
    let mut session = Session::new(shared, client);
    session.protocol = protocol;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let told = answers.clone();
    let ended = simulation.run(async move {
        let mut decoder = Decoder::new(Limits::default());
        let mut batch = Batch::default();
        for request in requests {
            if let Some(pause) = request.strip_prefix("SLEEP ") {
                runtime.sleep(Duration::from_millis(pause.parse().expect("a number of ms"))).await;
                continue;
            }
            let mut input = BytesMut::new();
            // A long request does not fit an inline command; it has no quotes.
            match request.len() < 60_000 {
                true => input.extend_from_slice(format!("{request}\r\n").as_bytes()),
                false => encode_command(&mut input, &request.split(' ').collect::<Vec<_>>()),
            }
            decoder.decode_batch(&mut input, 100, &mut batch).expect("requests");
            session.serve(&batch).await;
            session.replies.settle().await;
            batch.clear();
            let output = session.replies.ready_mut().split();
            let text = String::from_utf8_lossy(&output).replace("\r\n", "|");
            told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    });
    assert!(matches!(ended, Ended::Done), "a request hung");
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.clone()
}

/// Checks requests against the replies that stand beside them.
fn check_in(protocol: Protocol, cases: &[(&str, &str)]) {
    let requests = cases.iter().map(|(request, _)| (*request).to_owned()).collect();
    let expected: Vec<_> = cases.iter().filter(|(request, _)| !request.starts_with("SLEEP ")).collect();
    let replies = replies(protocol, requests);
    assert_eq!(replies.len(), expected.len());
    for ((request, expected), reply) in expected.into_iter().zip(replies) {
        assert_eq!(reply, *expected, "{request}");
    }
}

fn check(cases: &[(&str, &str)]) {
    check_in(Protocol::Resp2, cases);
}

const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
const SYNTAX: &str = "-ERR syntax error|";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range|";
const NOT_A_FLOAT: &str = "-ERR value is not a valid float|";
const TOO_LONG: &str = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|";

#[test]
fn whole_strings() {
    check(&[
        ("GET k", "$-1|"),
        ("SET k v", "+OK|"),
        ("GET k", "$1|v|"),
        ("SET k w NX", "$-1|"),
        ("SET n w XX", "$-1|"),
        ("SET k w XX GET", "$1|v|"),
        ("SET k x NX GET", "$1|w|"),
        ("SET n v NX GET", "$-1|"),
        ("SET k v NX XX", SYNTAX),
        ("SET k v EX", SYNTAX),
        ("SET k v EX 1 PX 1", SYNTAX),
        ("SET k v EX 1 KEEPTTL", SYNTAX),
        ("SET k v EX x", NOT_AN_INTEGER),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command|"),
        ("SET k v PX 9223372036854775807", "-ERR invalid expire time in 'set' command|"),
        ("SETNX k v", ":0|"),
        ("SETNX m v", ":1|"),
        ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command|"),
        ("PSETEX k 0 v", "-ERR invalid expire time in 'psetex' command|"),
        ("GETSET k 10", "$1|w|"),
        ("GETDEL k", "$2|10|"),
        ("GETDEL k", "$-1|"),
        ("MSET a 1 b 2", "+OK|"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command|"),
        ("MSETNX c 1 b 3", ":0|"),
        ("MSETNX c 1", ":1|"),
        ("MSETNX c 1 d", "-ERR wrong number of arguments for 'msetnx' command|"),
        ("LPUSH l e", ":1|"),
        ("MGET a b x l", "*4|$1|1|$1|2|$-1|$-1|"),
    ]);
    for request in ["GET l", "GETSET l v", "GETDEL l", "GETEX l", "APPEND l x", "STRLEN l", "SET l v GET", "INCR l"] {
        check(&[("RPUSH l e", ":1|"), (request, WRONGTYPE), ("LLEN l", ":1|")]);
    }
}

#[test]
fn parts_of_strings() {
    check(&[
        ("SET a 1", "+OK|"),
        ("APPEND a 23", ":3|"),
        ("STRLEN a", ":3|"),
        ("STRLEN x", ":0|"),
        ("GETRANGE a -2 -1", "$2|23|"),
        ("GETRANGE a 0 -100", "$1|1|"),
        ("GETRANGE a -1 -2", "$0||"),
        ("GETRANGE a -9223372036854775808 9223372036854775807", "$3|123|"),
        ("SUBSTR a 1 1", "$1|2|"),
        ("SETRANGE a 5 x", ":6|"),
        ("GET a", "$6|123\0\0x|"),
        ("SETRANGE x 5 \"\"", ":0|"),
        ("EXISTS x", ":0|"),
        ("SETRANGE a -1 x", "-ERR offset is out of range|"),
        ("SETRANGE k 16777216 x", TOO_LONG),
        ("SETRANGE k 9223372036854775807 x", TOO_LONG),
        ("EXISTS k", ":0|"),
    ]);
}

#[test]
fn numbers() {
    check(&[
        ("INCR n", ":1|"),
        ("DECR n", ":0|"),
        ("INCRBY n 9223372036854775807", ":9223372036854775807|"),
        ("INCR n", "-ERR increment or decrement would overflow|"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow|"),
        ("DECRBY n 7", ":9223372036854775800|"),
        ("INCRBY n x", NOT_AN_INTEGER),
        ("SET s text", "+OK|"),
        ("INCR s", NOT_AN_INTEGER),
        ("INCRBYFLOAT s 1", NOT_A_FLOAT),
        ("INCRBYFLOAT f 0.1", "$3|0.1|"),
        ("INCRBYFLOAT f x", NOT_A_FLOAT),
        ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity|"),
        ("HINCRBY h f 5", ":5|"),
        ("HINCRBY h f x", NOT_AN_INTEGER),
        ("HINCRBY h f 9223372036854775807", "-ERR increment or decrement would overflow|"),
        ("HINCRBYFLOAT h f 0.5", "$3|5.5|"),
        ("HINCRBY h f 1", "-ERR hash value is not an integer|"),
        ("HINCRBYFLOAT h f x", NOT_A_FLOAT),
        ("HINCRBYFLOAT h f -inf", "-ERR value is NaN or Infinity|"),
        ("HSET h t text", ":1|"),
        ("HINCRBYFLOAT h t 1", "-ERR hash value is not a float|"),
    ]);
}

#[test]
fn time_passes() {
    check(&[
        ("SET k v PX 1500", "+OK|"),
        ("PTTL k", ":1500|"),
        ("TTL k", ":2|"),
        ("SLEEP 1001", ""),
        ("PTTL k", ":499|"),
        ("TTL k", ":0|"),
        ("SET k w KEEPTTL", "+OK|"),
        ("SLEEP 498", ""),
        ("GET k", "$1|w|"),
        ("SLEEP 1", ""),
        ("GET k", "$-1|"),
        ("TTL k", ":-2|"),
        ("TYPE k", "+none|"),
        ("EXISTS k", ":0|"),
        ("DEL k", ":0|"),
        ("RENAME k j", "-ERR no such key|"),
        ("HSET k f v", ":1|"),
        ("TTL k", ":-1|"),
    ]);
}

#[test]
fn expiry() {
    check(&[
        ("SET k v", "+OK|"),
        ("EXPIRE k 100", ":1|"),
        ("EXPIRE k 100 GT", ":0|"),
        ("EXPIRE k 101 GT", ":1|"),
        ("EXPIRE k 101 LT", ":0|"),
        ("EXPIRE k 100 NX", ":0|"),
        ("PEXPIRE k 99000 XX LT", ":1|"),
        ("PTTL k", ":99000|"),
        ("EXPIRE k 1 ZZ", "-ERR Unsupported option ZZ|"),
        ("EXPIRE k 1 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible|"),
        ("EXPIRE k 1 GT LT", "-ERR GT and LT options at the same time are not compatible|"),
        ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command|"),
        ("PERSIST k", ":1|"),
        ("PERSIST k", ":0|"),
        ("EXPIRE k 1 XX", ":0|"),
        ("EXPIRE k 1 GT", ":0|"),
        ("EXPIRE k 1 LT", ":1|"),
        ("GETEX k PERSIST", "$1|v|"),
        ("TTL k", ":-1|"),
        ("GETEX k EX 7", "$1|v|"),
        ("TTL k", ":7|"),
        ("EXPIREAT k 4000000000", ":1|"),
        ("EXPIRETIME k", ":4000000000|"),
        ("PEXPIREAT k 4000000000499", ":1|"),
        ("PEXPIRETIME k", ":4000000000499|"),
        ("EXPIRETIME k", ":4000000000|"),
        ("EXPIRE k -1", ":1|"),
        ("EXISTS k", ":0|"),
        ("EXPIRE k 1", ":0|"),
        ("EXPIRETIME k", ":-2|"),
    ]);
}

/// A moment that has passed removes at once, in the eyes of the same transaction too.
#[test]
fn the_past() {
    check(&[
        ("SET k v", "+OK|"),
        ("GETEX k EXAT 1", "$1|v|"),
        ("EXISTS k", ":0|"),
        ("MULTI", "+OK|"),
        ("SET k v EXAT 1", "+QUEUED|"),
        ("GET k", "+QUEUED|"),
        ("EXEC", "*2|+OK|$-1|"),
        ("TXN BEGIN", "+OK|"),
        ("SET k v PXAT 1", "+OK|"),
        ("GET k", "$-1|"),
        ("TXN ABORT", "+OK|"),
    ]);
}

#[test]
fn keys() {
    check(&[
        ("MSET a 1 b 2", "+OK|"),
        ("EXISTS a b a x", ":3|"),
        ("TOUCH a x", ":1|"),
        ("DEL a a x", ":1|"),
        ("UNLINK b", ":1|"),
        ("RENAME a b", "-ERR no such key|"),
        ("RENAMENX a b", "-ERR no such key|"),
        ("SETEX a 100 1", "+OK|"),
        ("RENAME a a", "+OK|"),
        ("RENAMENX a a", ":0|"),
        ("RENAME a b", "+OK|"),
        ("EXISTS a", ":0|"),
        ("TTL b", ":100|"),
        ("SET a 2", "+OK|"),
        ("RENAMENX a b", ":0|"),
        ("COPY a b", ":0|"),
        ("COPY a b REPLACE", ":1|"),
        ("COPY a a", "-ERR source and destination objects are the same|"),
        ("COPY a a DB 1", ":1|"),
        ("COPY x y", ":0|"),
        ("COPY a b DB 16", "-ERR DB index is out of range|"),
        ("COPY a b DB x", NOT_AN_INTEGER),
        ("COPY a b DB 2147483648", "-ERR value is out of range, value must between -2147483648 and 2147483647|"),
        ("COPY a b DB", SYNTAX),
        ("SELECT 1", "+OK|"),
        ("GET a", "$1|2|"),
    ]);
}

#[test]
fn types_and_encodings() {
    let long = "x".repeat(65);
    check(&[
        ("MSET n 1 e text", "+OK|"),
        ("RPUSH l e", ":1|"),
        ("SADD s 1 2", ":2|"),
        ("HSET h f v", ":1|"),
        ("TYPE n", "+string|"),
        ("TYPE l", "+list|"),
        ("TYPE s", "+set|"),
        ("TYPE h", "+hash|"),
        ("OBJECT ENCODING n", "$3|int|"),
        ("OBJECT ENCODING e", "$6|embstr|"),
        ("OBJECT ENCODING l", "$9|quicklist|"),
        ("OBJECT ENCODING s", "$6|intset|"),
        ("OBJECT ENCODING h", "$8|listpack|"),
        ("OBJECT ENCODING x", "$-1|"),
        ("SADD s a", ":1|"),
        ("OBJECT ENCODING s", "$9|hashtable|"),
        (&format!("SET e {long}"), "+OK|"),
        ("OBJECT ENCODING e", "$3|raw|"),
        (&format!("HSET h f {long}"), ":0|"),
        ("OBJECT ENCODING h", "$9|hashtable|"),
        ("OBJECT IDLETIME n", ":0|"),
        ("OBJECT REFCOUNT n", ":1|"),
        ("OBJECT FREQ x", "$-1|"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command|"),
        ("OBJECT HELP x", "-ERR wrong number of arguments for 'object|help' command|"),
        ("OBJECT FOO n", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.|"),
    ]);
}

#[test]
fn hashes() {
    check(&[
        ("HSET h a 1 b 2 a 3", ":2|"),
        ("HSET h a", "-ERR wrong number of arguments for 'hset' command|"),
        ("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command|"),
        ("HMSET h a 1 b", "-ERR wrong number of arguments for 'hmset' command|"),
        ("HMSET h c 4", "+OK|"),
        ("HSETNX h c 5", ":0|"),
        ("HSETNX h d 55", ":1|"),
        ("HGET h a", "$1|3|"),
        ("HGET h x", "$-1|"),
        ("HMGET h b x", "*2|$1|2|$-1|"),
        ("HMGET x b x", "*2|$-1|$-1|"),
        ("HEXISTS h a", ":1|"),
        ("HLEN h", ":4|"),
        ("HSTRLEN h d", ":2|"),
        ("HKEYS h", "*4|$1|a|$1|b|$1|c|$1|d|"),
        ("HVALS h", "*4|$1|3|$1|2|$1|4|$2|55|"),
        ("HDEL h a a x b", ":2|"),
        ("HGETALL h", "*4|$1|c|$1|4|$1|d|$2|55|"),
        ("HRANDFIELD h 5 WITHVALUES", "*4|$1|c|$1|4|$1|d|$2|55|"),
        ("HRANDFIELD h 0", "*0|"),
        ("HRANDFIELD h 1 X", SYNTAX),
        ("HRANDFIELD h -1048577", "-LIMIT repeated_elements_max 1048576|"),
        ("HSCAN h 0", "*2|$1|0|*4|$1|c|$1|4|$1|d|$2|55|"),
        ("HSCAN h 17 MATCH [^c]", "*2|$1|0|*2|$1|d|$2|55|"),
        ("HSCAN h x", "-ERR invalid cursor|"),
        ("HSCAN h 0 COUNT 0", SYNTAX),
        ("HSCAN h 0 COUNT", SYNTAX),
        ("HSCAN x 0 COUNT", "*2|$1|0|*0|"),
        ("HDEL h c d", ":2|"),
        ("EXISTS h", ":0|"),
    ]);
    for request in ["HSET h f v", "HGETALL h", "HSCAN h 0", "HDEL h f", "HRANDFIELD h", "HINCRBY h f 1", "HMGET h f"] {
        check(&[("SET h s", "+OK|"), (request, WRONGTYPE), ("GET h", "$1|s|")]);
    }
}

#[test]
fn lists() {
    check(&[
        ("LPUSHX l a", ":0|"),
        ("RPUSHX l a", ":0|"),
        ("RPUSH l a b c", ":3|"),
        ("LPUSH l y z", ":5|"),
        ("LPUSHX l a", ":6|"),
        ("RPUSHX l a", ":7|"),
        ("LRANGE l 0 -1", "*7|$1|a|$1|z|$1|y|$1|a|$1|b|$1|c|$1|a|"),
        ("LRANGE l -2 100", "*2|$1|c|$1|a|"),
        ("LRANGE l 5 4", "*0|"),
        ("LRANGE l -9223372036854775808 -9223372036854775808", "*0|"),
        ("LINDEX l -1", "$1|a|"),
        ("LINDEX l 7", "$-1|"),
        ("LINDEX l -9223372036854775808", "$-1|"),
        ("LINDEX l x", NOT_AN_INTEGER),
        ("LINDEX x x", "$-1|"),
        ("LREM l -2 a", ":2|"),
        ("LREM l 1 none", ":0|"),
        ("LREM l -9223372036854775808 a", ":1|"),
        ("LLEN l", ":4|"),
        ("LPOP l", "$1|z|"),
        ("RPOP l 2", "*2|$1|c|$1|b|"),
        ("LPOP l 0", "*0|"),
        ("LPOP l -1", "-ERR value is out of range, must be positive|"),
        ("LPOP l 1 1", "-ERR wrong number of arguments for 'lpop' command|"),
        ("LPOP l 9", "*1|$1|y|"),
        ("LPOP l", "$-1|"),
        ("RPOP l 1", "*-1|"),
        ("EXISTS l", ":0|"),
    ]);
}

#[test]
fn sets() {
    check(&[
        ("SADD s b a b", ":2|"),
        ("SADD s a", ":0|"),
        ("SCARD s", ":2|"),
        ("SISMEMBER s a", ":1|"),
        ("SMISMEMBER s a x", "*2|:1|:0|"),
        ("SMISMEMBER x a", "*1|:0|"),
        ("SMEMBERS s", "*2|$1|a|$1|b|"),
        ("SRANDMEMBER s 9", "*2|$1|a|$1|b|"),
        ("SRANDMEMBER x", "$-1|"),
        ("SRANDMEMBER x 2", "*0|"),
        ("SRANDMEMBER s 1 2", SYNTAX),
        ("SSCAN s 0 MATCH a*", "*2|$1|0|*1|$1|a|"),
        ("SREM s a x", ":1|"),
        ("SREM s b", ":1|"),
        ("EXISTS s", ":0|"),
        ("SET s v", "+OK|"),
        ("SADD s v", WRONGTYPE),
        ("SSCAN s 0", WRONGTYPE),
    ]);
}

#[test]
fn shapes_of_resp3() {
    check_in(
        Protocol::Resp3,
        &[
            ("GET k", "_|"),
            ("LPOP k 1", "_|"),
            ("HSET h f v", ":1|"),
            ("HGETALL h", "%1|$1|f|$1|v|"),
            ("HGETALL x", "%0|"),
            ("HRANDFIELD h 1 WITHVALUES", "*1|*2|$1|f|$1|v|"),
            ("HRANDFIELD h -2 WITHVALUES", "*2|*2|$1|f|$1|v|*2|$1|f|$1|v|"),
            ("SADD s m", ":1|"),
            ("SMEMBERS s", "~1|$1|m|"),
            ("SMEMBERS x", "~0|"),
            ("SRANDMEMBER s 2", "*1|$1|m|"),
        ],
    );
}

/// A large hash takes several calls of HSCAN, each of which answers about COUNT fields, and every field comes.
#[test]
fn a_large_hash_is_scanned_in_parts() {
    let fill: Vec<String> = (0..1000).map(|n| format!("field{n} v")).collect();
    let mut seen = BTreeSet::new();
    let (mut cursor, mut calls) = ("0".to_owned(), 0);
    loop {
        let requests = vec![format!("HSET h {}", fill.join(" ")), format!("HSCAN h {cursor} COUNT 50")];
        let reply = replies(Protocol::Resp2, requests).pop().expect("a reply");
        let parts: Vec<&str> = reply.split('|').collect();
        let fields: Vec<String> =
            parts.iter().filter(|part| part.starts_with("field")).map(ToString::to_string).collect();
        assert_eq!(fields.len(), 50);
        seen.extend(fields);
        (cursor, calls) = (parts[2].to_owned(), calls + 1);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((seen.len(), calls), (1000, 20));
}

#[test]
fn a_key_has_a_limit() {
    let longest = "k".repeat(65_536);
    let refusal = "-LIMIT key_bytes_max 65536|";
    check(&[
        (&format!("SET {longest} {longest}"), "+OK|"),
        (&format!("EXISTS {longest}"), ":1|"),
        (&format!("GET {longest}k"), refusal),
        (&format!("COPY {longest} {longest}k"), refusal),
        (&format!("MSET k v {longest}k v"), refusal),
        ("EXISTS k", ":0|"),
        (&format!("ECHO {longest}k"), &format!("$65537|{longest}k|")),
        ("MULTI", "+OK|"),
        (&format!("SET {longest}k v"), refusal),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
    ]);
}

/// What failed half way is undone: of a request whose second field is too large for the document, no field is set.
#[test]
fn a_command_that_fails_changes_nothing() {
    // Such a field takes a little more than 16 KiB; there is room for one more, not for four.
    let large = "x".repeat(15_000);
    let fields = DOCUMENT_BYTES_MAX / 16_384 - 8;
    let mut requests: Vec<String> = (0..fields).map(|n| format!("HSET h {n} {large}")).collect();
    let too_much = (0..4).map(|n| format!("more{n} {large}")).collect::<Vec<_>>().join(" ");
    requests.extend([format!("HSET h {too_much}"), "HLEN h".to_owned(), format!("HSET h one {large}")]);
    let answers = replies(Protocol::Resp2, requests);
    let refusal = format!("-LIMIT document_bytes_max {DOCUMENT_BYTES_MAX} exceeded|");
    assert_eq!(answers[answers.len() - 3..], [refusal, format!(":{fields}|"), ":1|".to_owned()]);
}

/// EXEC tells which command failed, and nothing of the script is left.
#[test]
fn a_script_that_fails_changes_nothing() {
    let discarded = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command|";
    check(&[
        ("SET s text", "+OK|"),
        ("MULTI", "+OK|"),
        ("SET k v", "+QUEUED|"),
        ("INCR s", "+QUEUED|"),
        ("EXEC", &format!("-EXECABORT rolled back: command 2 (INCR s): {}", &NOT_AN_INTEGER[1..])),
        ("GET k", "$-1|"),
        ("MULTI", "+OK|"),
        ("EXEC now", discarded),
        ("EXEC", "-ERR EXEC without MULTI|"),
    ]);
}

/// WATCH sees what changed, and does not see a command that changed nothing.
#[test]
fn what_changes_nothing_is_no_change() {
    let begin = ["SET k v", "SADD s m", "HSET h f v", "RPUSH l e", "WATCH k s h l x"];
    let outcome = |request: &str| {
        let script = begin.into_iter().chain([request, "MULTI", "PING", "EXEC"]).map(str::to_owned).collect();
        replies(Protocol::Resp2, script).pop().unwrap_or_default()
    };
    let nothing = "DEL x;SETNX k w;MSETNX k 1 x 2;PERSIST k;GETEX k;GETEX k PERSIST;SETRANGE k 3 \"\";LPUSHX x a;LPOP x;\
        HDEL x f;HDEL h x;SREM s z;SADD s m;HSETNX h f w;LREM l 0 z;RENAME k k;EXPIRE x 1;EXPIRE k 1 XX;COPY x k REPLACE;\
        GETDEL x;SET k w NX;SET x w XX;LPOP l 0;INCR s;HINCRBY h f 1";
    for request in nothing.split(';') {
        assert_eq!(outcome(request), "*1|+PONG|", "{request}");
    }
    let changes = "SET k v;HSET h f v;APPEND k \"\";INCRBY x 0;EXPIRE k 100;SADD s n;LPOP l;DEL k;COPY k x;RENAME k y";
    for request in changes.split(';') {
        assert_eq!(outcome(request), "*-1|", "{request}");
    }
}

/// Names are told apart, and a command whose record says that it reads, or that it writes blindly, does.
#[test]
fn records_are_consistent() {
    let mut names = BTreeSet::new();
    for command in all() {
        assert!(names.insert(command.name), "{} is declared twice", command.name);
        assert_eq!(command.name, command.name.to_ascii_lowercase());
        assert!(!command.summary.is_empty() && !command.summary.ends_with('.'), "{}", command.name);
        assert!(command.arity != 0, "{}", command.name);
        let Run::Documents(effect, _) = command.run else { continue };
        let least = command.arity.unsigned_abs() as usize - 1;
        let args = ["k"].into_iter().chain(std::iter::repeat("1")).take(least).collect::<Vec<_>>();
        let args = if command.name == "object" { vec!["encoding", "k"] } else { args };
        let request = format!("{} {}", command.name, args.join(" "));
        let script = vec!["TXN BEGIN READONLY".to_owned(), request];
        let reply = replies(Protocol::Resp2, script).pop().unwrap_or_default();
        let refused = reply.starts_with("-ERR the transaction was begun READONLY");
        assert!(effect != Effect::Read || !reply.starts_with('-'), "{}: {reply}", command.name);
        assert!(effect != Effect::Blind || refused, "{}: {reply}", command.name);
    }
}
