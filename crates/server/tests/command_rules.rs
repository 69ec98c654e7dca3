//! What holds for all commands: their limits, that a failure leaves nothing behind, that only changes are changes, and
//! that the records say what is so.

mod driven;

use std::collections::BTreeSet;

use driven::{check, replies};
use forebay::value::DOCUMENT_BYTES_MAX;
use forebay_protocol::Protocol;
use forebay_server::command::{Effect, Run, all};

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
        ("EXEC", "-EXECABORT rolled back: command 2 (INCR s): ERR value is not an integer or out of range|"),
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
    let nothing = "DEL x;SETNX k w;MSETNX k 1 x 2;PERSIST k;GETEX k;GETEX k PERSIST;SETRANGE k 3 \"\";LPUSHX x a;\
        LPOP x;HDEL x f;HDEL h x;SREM s z;SADD s m;HSETNX h f w;LREM l 0 z;RENAME k k;EXPIRE x 1;EXPIRE k 1 XX;\
        COPY x k REPLACE;GETDEL x;SET k w NX;SET x w XX;LPOP l 0;INCR s;HINCRBY h f 1";
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
