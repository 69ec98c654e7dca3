//! What a request asks for is bounded before it is built.

mod support;

use support::{Peer, server};

#[tokio::test]
async fn a_script_ends_where_its_replies_have_no_room() {
    let shared = server(|options| options.limits.client_reply_bytes_max = 100_000);
    let mut peer = Peer::new(&shared);
    peer.say(&format!("SET k {}", "v".repeat(30_000))).await;
    assert!(peer.say("MULTI\nGET k\nGET k\nGET k\nEXEC").await.len() > 90_000, "it fits");
    // Once with all keys in the cache and nothing written, once under locks.
    for script in ["MULTI\nGET k\nGET k\nGET k\nGET k\nEXEC", "MULTI\nSET n 1\nGET k\nGET k\nGET k\nGET k\nEXEC"] {
        let said = peer.say(script).await;
        assert!(said.contains("-EXECABORT rolled back: command "), "{said}");
        assert!(said.ends_with(" (GET k): LIMIT client_reply_bytes_max 100000|"), "{said}");
    }
    let commands = peer.say(&format!("MULTI\n{}EXEC", "COMMAND\n".repeat(50))).await;
    assert!(commands.ends_with(" (COMMAND): LIMIT client_reply_bytes_max 100000|"), "{commands}");
    peer.check(&[("GET n", "$-1|")]).await;
}

#[tokio::test]
async fn nobody_is_told_of_a_command_again_and_again() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let count: usize = peer.say("COMMAND COUNT").await.trim_matches([':', '|']).parse().unwrap();
    for sub in ["INFO", "DOCS"] {
        let said = peer.say(&format!("COMMAND {sub}{}", " acl".repeat(count + 1))).await;
        assert_eq!(said, format!("-LIMIT command_names_max {count}|"));
        assert!(peer.say(&format!("COMMAND {sub}{}", " nosuch".repeat(count))).await.starts_with('*'));
    }
}

#[tokio::test]
async fn a_step_of_scan_ends_where_names_are_long() {
    let shared = server(|options| options.limits.client_reply_bytes_max = 8 << 20);
    let mut peer = Peer::new(&shared);
    let name = |n: usize| format!("{n:04}{}", "k".repeat(4000));
    for n in 0..3000 {
        peer.say(&format!("SET {} v", name(n))).await;
    }
    assert_eq!(peer.say("KEYS *").await, "-LIMIT client_reply_bytes_max 8388608; use SCAN|");
    for options in ["", " TYPE string"] {
        let (mut cursor, mut seen) = ("0".to_owned(), 0);
        loop {
            let said = peer.say(&format!("SCAN {cursor} COUNT 3000{options}")).await;
            assert!(said.len() < 6 << 20, "{} bytes in one step", said.len());
            seen += said.matches('k').count() / 4000;
            cursor = said.split('|').nth(2).unwrap().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen, 3000, "each key once");
    }
}

/// The longest names there may be: a step holds few of them, whatever its COUNT.
#[tokio::test]
async fn a_step_of_scan_ends_where_names_are_longest() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let name = |n: usize| format!("{n:04}{}", "k".repeat(65_000));
    for n in 0..100 {
        peer.say(&format!("SET {} v PX 3600000", name(n))).await;
    }
    let (mut cursor, mut seen, mut steps) = ("0".to_owned(), 0, 0);
    loop {
        let said = peer.say(&format!("SCAN {cursor} COUNT 1000")).await;
        assert!(said.len() < 3 << 20, "{} bytes in one step", said.len());
        (seen, steps) = (seen + said.matches("kkk|").count(), steps + 1);
        cursor = said.split('|').nth(2).unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert!(seen == 100 && steps >= 3, "{seen} keys in {steps} steps");
    assert_eq!(peer.say("KEYS *").await.matches("kkk|").count(), 100);
    assert!(peer.say("RANDOMKEY").await.starts_with("$65004|"));
}

#[tokio::test]
async fn what_a_script_takes_in_memory_is_counted() {
    let shared = server(|options| options.limits.multi_bytes_max = 10_000);
    let mut peer = Peer::new(&shared);
    // 200 arguments of one byte each.
    let said = peer.say(&format!("MULTI\nMGET{}\nEXEC", " k".repeat(200))).await;
    assert!(said.starts_with("+OK|-LIMIT multi_bytes_max 10000|-EXECABORT "), "{said}");
    let said = peer.say(&format!("MULTI\n{}EXEC", "PING\n".repeat(100))).await;
    assert!(said.contains("|-LIMIT multi_bytes_max 10000|"), "{said}");
}

#[tokio::test]
async fn patterns_are_bounded() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.say("HSET h f v\nSADD s e").await;
    for before in
        ["SCAN 0 MATCH", "KEYS", "HSCAN h 0 MATCH", "SSCAN s 0 MATCH", "COMMAND LIST FILTERBY PATTERN", "CONFIG GET"]
    {
        assert!(peer.say(&format!("{before} {}", "x".repeat(131_072))).await.starts_with('*'), "{before}");
        let said = peer.say(&format!("{before} {}", "x".repeat(131_073))).await;
        assert_eq!(said, "-LIMIT pattern_bytes_max 131072|", "{before}");
    }
}

/// Each name is matched against each pattern.
#[tokio::test]
async fn patterns_of_config_get_are_few() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let all = peer.say("CONFIG GET *").await;
    let count: usize = all[1..].split('|').next().unwrap().parse::<usize>().unwrap() / 2;
    assert_eq!(peer.say(&format!("CONFIG GET{}", " *".repeat(count))).await, all);
    let said = peer.say(&format!("CONFIG GET{}", " *".repeat(count + 1))).await;
    assert_eq!(said, format!("-LIMIT config_patterns_max {count}|"));
}

/// There are only so many names, and none is ever given back.
#[tokio::test]
async fn what_is_refused_takes_no_name() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.check(&[
        ("TXN STEP cart", "-ERR TXN STEP without TXN BEGIN|"),
        ("TXN BEGIN TYPE shop nosuch", "-ERR syntax error|"),
    ])
    .await;
    assert!(shared.labels.vertices(0).is_empty() && shared.labels.txn_types(0).is_empty());
    peer.check(&[("TXN BEGIN TYPE shop", "+OK|"), ("TXN STEP cart", "+OK|"), ("TXN ABORT", "+OK|")]).await;
    assert!(shared.labels.vertices(0).len() == 1 && shared.labels.txn_types(0).len() == 1);
}

/// Each key once, however often it is named, and no more than there may be; what is watched stays so.
#[tokio::test]
async fn watched_keys_are_counted() {
    let shared = server(|options| options.limits.watched_keys_max = 3);
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    peer.check(&[
        ("WATCH a b a", "+OK|"),
        ("WATCH b c c", "+OK|"),
        ("WATCH a d", "-LIMIT watched_keys_max 3|"),
        ("WATCH a b c", "+OK|"),
    ])
    .await;
    other.check(&[("SET d 1", "+OK|")]).await;
    let refused = "+OK|+QUEUED|-EXECABORT a WATCH or LEASE CHECK before it was refused|";
    assert_eq!(peer.say("MULTI\nPING\nEXEC").await, refused, "d was to be watched");
    assert_eq!(peer.say("MULTI\nPING\nEXEC").await, "+OK|+QUEUED|*1|+PONG|", "that is over");
    peer.check(&[("WATCH a b c", "+OK|"), ("WATCH d", "-LIMIT watched_keys_max 3|"), ("UNWATCH", "+OK|")]).await;
    assert_eq!(peer.say("MULTI\nPING\nEXEC").await, "+OK|+QUEUED|*1|+PONG|", "nothing is to be watched");
    peer.check(&[("WATCH a b c", "+OK|")]).await;
    other.check(&[("SET c 1", "+OK|")]).await;
    assert_eq!(peer.say("MULTI\nPING\nEXEC").await, "+OK|+QUEUED|*-1|", "c has changed");
    peer.check(&[("WATCH a b c", "+OK|"), ("UNWATCH", "+OK|"), ("WATCH d e f", "+OK|")]).await;
}
