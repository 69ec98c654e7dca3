//! The data commands, driven through a session without a socket. What redis-server answers to the same is checked by
//! `tests/differential.rs` at the root; here are the cases that depend on the time and on size, and one case at least
//! for each command. What holds for all commands: `command_rules.rs`.

mod driven;

use std::collections::BTreeSet;

use driven::{check, check_in, replies};
use forebay_protocol::Protocol;

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
        ("HSCAN h 0 NOVALUES MATCH [^c]", "*2|$1|0|*1|$1|d|"),
        ("HSCAN h 0 MATCH [^c] NOVALUES", "*2|$1|0|*1|$1|d|"),
        ("HSCAN h 0 NOVALUES COUNT", SYNTAX),
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
        ("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN|"),
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

/// Fields that take long to compare are compared while others have their turn, with values and without.
#[test]
fn fields_that_take_long_to_compare() {
    let field = format!("{}b", "a".repeat(20_000));
    let (fill, pattern) = (format!("HSET h {field} 1 {field}c 2"), format!("*{}b", "a".repeat(100)));
    let (with, without) = (format!("*2|$1|0|*2|$20001|{field}|$1|1|"), format!("*2|$1|0|*1|$20001|{field}|"));
    let scans = ["MATCH {}", "NOVALUES MATCH {}", "COUNT 5 MATCH {} NOVALUES"];
    let scans = scans.map(|options| format!("HSCAN h 0 {}", options.replace("{}", &pattern)));
    let said = replies(Protocol::Resp2, [vec![fill], scans.to_vec()].concat());
    assert!(said[1..] == [with, without.clone(), without], "{said:?}");
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
