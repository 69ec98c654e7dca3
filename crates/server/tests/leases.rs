//! LEASE GET and LEASE CHECK over the wire: what they answer, what they refuse, and that a refused check never ends in
//! a commit.

#[path = "leases/hits.rs"]
mod hits;
mod support;

use forebay::mutation::{self, Fault};
use support::{Peer, server};

/// What was said, with `WRITES` for each number of writes per second.
fn without_rates(said: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in said.split('|') {
        if word.contains('.') && word.parse::<f64>().is_ok_and(|rate| rate > 0.0) {
            words.pop();
            words.push("WRITES");
        } else {
            words.push(word);
        }
    }
    words.join("|")
}

const REFUSED: &str = "-EXECABORT a WATCH or LEASE CHECK before it was refused|";

#[tokio::test]
async fn documents_come_with_their_versions() {
    let mut peer = Peer::new(&server(|_| {}));
    peer.say("SET s v\nHSET h f 1 g 2\nRPUSH l a b a\nSADD m x").await;
    for (request, expected) in [
        ("LEASE GET 1 s", "*1|*6|+string|$1|v|$3|1-1|$3|1-4|WRITES|$-1|"),
        ("LEASE GET 1 h", "*1|*6|+hash|*4|$1|f|$1|1|$1|g|$1|2|$3|1-2|$3|1-4|WRITES|$-1|"),
        (
            "lease get 2 l m",
            "*2|*6|+list|*3|$1|a|$1|b|$1|a|$3|1-3|$3|1-4|WRITES|$-1|*6|+set|*1|$1|x|$3|1-4|$3|1-4|WRITES|$-1|",
        ),
        ("LEASE GET 1 none", "*1|*6|+none|$-1|$4|-1-0|$3|1-4|WRITES|$-1|"),
        ("DEL s", ":1|"),
        (
            "LEASE GET 2 s s HITS 3 0",
            "*2|*6|+none|$-1|$4|-1-5|$3|1-5|WRITES|$-1|*6|+none|$-1|$4|-1-5|$3|1-5|WRITES|$-1|",
        ),
    ] {
        assert_eq!(without_rates(&peer.say(request).await), expected, "{request}");
    }
    peer.say("SET s v PX 100000").await;
    let said = without_rates(&peer.say("LEASE GET 1 s").await);
    let fresh: u64 = said.trim_end_matches('|').rsplit(':').next().unwrap().parse().unwrap();
    assert!(said.starts_with("*1|*6|+string|$1|v|$3|1-6|$3|1-6|WRITES|:") && (1..=100_000).contains(&fresh), "{said}");
    let said = without_rates(&peer.say("SELECT 3\nLEASE GET 1 s").await);
    assert_eq!(said, "+OK|*1|*6|+none|$-1|$4|-1-0|$3|1-6|WRITES|$-1|");
}

/// Of first keys that are at the version of HAVE no document comes. All of it holds as of one version.
#[tokio::test]
async fn what_the_client_has_is_not_sent() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.say("SET a 1\nSET b 2\nRPUSH l x").await;
    for (request, expected) in [
        ("LEASE GET 1 a HAVE 1-1", "*1|*6|+same|$-1|$3|1-1|$3|1-3|WRITES|$-1|"),
        (
            "LEASE GET 2 a b HAVE 1-1",
            "*2|*6|+same|$-1|$3|1-1|$3|1-3|WRITES|$-1|*6|+string|$1|2|$3|1-2|$3|1-3|WRITES|$-1|",
        ),
        ("LEASE GET 1 a HAVE 1-2", "*1|*6|+string|$1|1|$3|1-1|$3|1-3|WRITES|$-1|"),
        ("LEASE GET 1 a HAVE -1-1", "*1|*6|+string|$1|1|$3|1-1|$3|1-3|WRITES|$-1|"),
        ("LEASE GET 1 none HAVE -1-0", "*1|*6|+same|$-1|$4|-1-0|$3|1-3|WRITES|$-1|"),
        ("LEASE GET 1 none have 1-0 hits 4", "*1|*6|+none|$-1|$4|-1-0|$3|1-3|WRITES|$-1|"),
        (
            "LEASE GET 2 l a HITS 3 0 HAVE 1-3 1-1",
            "*2|*6|+same|$-1|$3|1-3|$3|1-3|WRITES|$-1|*6|+same|$-1|$3|1-1|$3|1-3|WRITES|$-1|",
        ),
    ] {
        assert_eq!(without_rates(&peer.say(request).await), expected, "{request}");
    }
    // Of large documents as well, which are not written at once.
    peer.say(&format!("SET big {}", "x".repeat(300_000))).await;
    let said = peer.say("LEASE GET 2 big big HAVE 1-4").await;
    assert!(said.starts_with("*2|*6|+same|$-1|$3|1-4|") && said.contains("|$300000|xxx"), "{} bytes", said.len());
    // Presence is compared as well as the version.
    peer.say("SET c 1 PX 1").await;
    while peer.say("EXISTS c").await == ":1|" {
        tokio::task::yield_now().await;
    }
    let said = peer.say("LEASE GET 1 c HAVE 1-5").await;
    assert!(said.starts_with("*1|*6|+none|$-1|$4|-1-5|"), "{said}");
    let _on = mutation::put_back(Some(Fault::HaveIgnoresExpiry));
    assert!(peer.say("LEASE GET 1 c HAVE 1-5").await.starts_with("*1|*6|+same|"), "presence is what tells");
}

#[tokio::test]
async fn others_writes_are_counted() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    let rate = |said: String| said.split('|').rev().nth(2).unwrap().parse::<f64>().unwrap();
    let none = rate(peer.say("LEASE GET 1 a").await);
    for n in 0..30 {
        peer.say(&format!("SET a {n}")).await;
        other.say(&format!("SET a {n}\nSET b {n}")).await;
    }
    // A moment later; nobody knows how much.
    let [all, own] = [rate(Peer::new(&shared).say("LEASE GET 1 a").await), rate(peer.say("LEASE GET 1 a").await)];
    assert!(all > 1.5 * own && own > 5.0 * none, "{all} {own} {none}");
    assert!(rate(other.say("LEASE GET 1 b").await) <= none, "it is the only one that writes it");
}

/// Connections that say whose they are: what their client writes over another of them is no other's.
#[tokio::test]
async fn connections_of_one_client_are_one_writer() {
    let shared = server(|_| {});
    let rate = |said: String| said.split('|').rev().nth(2).unwrap().parse::<f64>().unwrap();
    let [mut one, mut two, mut other] = [(); 3].map(|()| Peer::new(&shared));
    let id = "00000000-0000-0000-0000-000000000007";
    for peer in [&mut one, &mut two] {
        assert_eq!(peer.say(&format!("LEASE CLIENT {id}")).await, "+OK|");
    }
    other.say("LEASE CLIENT 00000000-0000-0000-0000-000000000008").await;
    let none = rate(one.say("LEASE GET 1 a").await);
    for n in 0..30 {
        two.say(&format!("SET a {n}")).await;
    }
    let [own, others] = [rate(one.say("LEASE GET 1 a").await), rate(other.say("LEASE GET 1 a").await)];
    assert!(own <= none && others > 5.0 * none, "{own} {others} {none}");
    // What is not said counts by connection, as it does after RESET.
    two.say("RESET").await;
    for n in 0..30 {
        two.say(&format!("SET b {n}")).await;
    }
    let [others, own] = [rate(one.say("LEASE GET 1 b").await), rate(two.say("LEASE GET 1 b").await)];
    assert!(own <= none && others > 5.0 * none, "{own} {others} {none}");
    let refused = "-ERR a client's id is a UUID, or 32 hexadecimal digits|";
    one.check(&[
        ("LEASE CLIENT me", refused),
        ("LEASE CLIENT", "-ERR wrong number of arguments for 'lease|client' command|"),
    ])
    .await;
}

#[tokio::test]
async fn a_batch_commits_on_what_is_current() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    peer.say("SET a 1\nSET b 1").await;
    let commits = "LEASE CHECK a 1-1 b 1-2 c -1-0\nMULTI\nINCR a\nEXEC";
    assert_eq!(peer.say(commits).await, "+OK|+OK|+QUEUED|*3|*1|:2|$3|1-3|$3|1-2|");
    assert_eq!(peer.say(commits).await, "+OK|+OK|+QUEUED|-TXSTALE a 1-3|", "it ran");
    // What only validates answers as of when that holds.
    assert_eq!(peer.say("LEASE CHECK a 1-3 c -1-0\nMULTI\nEXEC").await, "+OK|+OK|*3|*0|$-1|$3|1-3|");
    assert_eq!(peer.say("MULTI\nPING\nEXEC").await, "+OK|+QUEUED|*1|+PONG|", "EXEC ends what was checked");
    other.say("DEL a\nSET c 1").await;
    let stale = "-TXSTALE a -1-4 c 1-5|";
    assert_eq!(
        peer.say("LEASE CHECK a 1-3 b 1-2 c -1-0\nMULTI\nSET b 2\nEXEC").await,
        format!("+OK|+OK|+QUEUED|{stale}")
    );
    assert_eq!(peer.say("LEASE CHECK a 1-3\nUNWATCH\nMULTI\nEXEC").await, "+OK|+OK|+OK|*0|");
    assert_eq!(peer.say("LEASE CHECK a 1-3\nMULTI\nDISCARD\nMULTI\nEXEC").await, "+OK|+OK|+OK|+OK|*0|");
    // Presence is compared as well as the version.
    assert_eq!(peer.say("LEASE CHECK a 1-4\nMULTI\nEXEC").await, "+OK|+OK|-TXSTALE a -1-4|");
    peer.check(&[("GET b", "$1|1|")]).await;
}

#[tokio::test]
async fn an_expired_document_is_stale() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.say("SET a 1 PX 1").await;
    while peer.say("EXISTS a").await == ":1|" {
        tokio::task::yield_now().await;
    }
    assert_eq!(peer.say("LEASE CHECK a 1-1\nMULTI\nSET b 1\nEXEC").await, "+OK|+OK|+QUEUED|-TXSTALE a -1-1|");
    let _on = mutation::put_back(Some(Fault::WatchIgnoresExpiry));
    assert!(peer.say("LEASE CHECK a 1-1\nMULTI\nSET b 1\nEXEC").await.contains("*3|"), "presence is what tells");
}

/// An absence that no write has made has the version of what was there, and so is as of no version.
#[tokio::test]
async fn what_has_expired_is_absent_as_of_no_version() {
    let mut peer = Peer::new(&server(|_| {}));
    peer.say("SET b old\nSET lock x PX 1").await;
    while peer.say("EXISTS lock").await == ":1|" {
        tokio::task::yield_now().await;
    }
    let gone = "*1|*6|+none|$-1|$4|-1-2|$-1|WRITES|$-1|";
    assert_eq!(without_rates(&peer.say("LEASE GET 1 lock").await), gone);
    assert_eq!(
        without_rates(&peer.say("LEASE GET 2 b lock").await),
        "*2|*6|+string|$3|old|$3|1-1|$-1|WRITES|$-1|*6|+none|$-1|$4|-1-2|$-1|WRITES|$-1|"
    );
    assert_eq!(peer.say("LEASE CHECK lock -1-2\nMULTI\nEXEC").await, "+OK|+OK|*3|*0|$-1|$-1|");
    assert_eq!(peer.say("LEASE CHECK b 1-1\nMULTI\nEXEC").await, "+OK|+OK|*3|*0|$-1|$3|1-2|");
    peer.say("CACHE RESET").await;
    assert_eq!(without_rates(&peer.say("LEASE GET 1 lock").await), gone, "read from the store");
    let _on = mutation::put_back(Some(Fault::ExpiredAsOfVersion));
    let told = "*1|*6|+none|$-1|$4|-1-2|$3|1-2|WRITES|$-1|";
    assert_eq!(without_rates(&peer.say("LEASE GET 1 lock").await), told, "at 1-2 it was there");
}

#[tokio::test]
async fn what_is_watched_and_what_is_checked() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    peer.say("SET a 1\nSET b 1\nWATCH a\nLEASE CHECK b 1-2").await;
    other.say("SET a 2\nSET b 2").await;
    assert_eq!(peer.say("MULTI\nEXEC").await, "+OK|*-1|", "as WATCH answers");
    peer.say("LEASE CHECK b 1-4\nWATCH b").await;
    other.say("SET b 3").await;
    assert_eq!(peer.say("MULTI\nEXEC").await, "+OK|*-1|", "a key may be watched as well");
}

#[tokio::test]
async fn stale_keys_are_told_of_in_one_line() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let names: Vec<String> = (0..20).map(|n| format!("k{n}")).collect();
    for name in &names {
        peer.say(&format!("SET {name} 1")).await;
    }
    let named: Vec<String> = names.iter().map(|name| format!("{name} 9-9")).collect();
    let said = peer.say(&format!("LEASE CHECK {}\nMULTI\nEXEC", named.join(" "))).await;
    let told = said.strip_prefix("+OK|+OK|-TXSTALE ").unwrap().trim_end_matches('|');
    assert_eq!(told.split(' ').count(), 32, "the first 16: {said}");
    peer.say("SET k\\\u{1} 1").await;
    assert_eq!(peer.say("LEASE CHECK k\\\u{1} 9-9\nMULTI\nEXEC").await, "+OK|+OK|-TXSTALE k\\x5c\\x01 1-21|");
}

#[tokio::test]
async fn a_refused_check_refuses_the_commit() {
    let shared = server(|options| (options.limits.lease_checks_max, options.limits.watched_keys_max) = (3, 4));
    let mut peer = Peer::new(&shared);
    let cases = [
        ("LEASE CHECK a", "-ERR wrong number of arguments for 'lease|check' command|"),
        ("LEASE CHECK a 1-1 b", "-ERR wrong number of arguments for 'lease|check' command|"),
        ("LEASE CHECK a 1", "-ERR '1' is no version: expected 1-3, or -1-3 of an absent key|"),
        ("LEASE CHECK ID nonsense a", "-ERR wrong number of arguments for 'lease|check' command|"),
        ("LEASE CHECK a 1-1 a 1-1", "-ERR key 'a' is checked twice|"),
        ("LEASE CHECK a 1-1\nLEASE CHECK a 1-1", "+OK|-ERR key 'a' is checked twice|"),
        ("LEASE CHECK a 1-1 b 1-1 c 1-1 d 1-1", "-LIMIT lease_checks_max 3|"),
        ("LEASE CHECK a 1-1 b 1-1\nLEASE CHECK c 1-1 d 1-1", "+OK|-LIMIT lease_checks_max 3|"),
        ("WATCH a b c\nLEASE CHECK a 1-1 b 1-1", "+OK|-LIMIT watched_keys_max 4|"),
    ];
    for (check, refused) in cases {
        let said = peer.say(&format!("{check}\nMULTI\nSET x 1\nEXEC")).await;
        assert_eq!(said, format!("{refused}+OK|+QUEUED|{REFUSED}"), "{check}");
        peer.check(&[("EXISTS x", ":0|")]).await;
    }
    let said = peer.say("MULTI\nLEASE CHECK a 1-1\nSET x 1\nEXEC").await;
    assert!(said.starts_with("+OK|-ERR LEASE inside MULTI is not allowed|+QUEUED|-EXECABORT Transaction"), "{said}");
    let said = peer.say("TXN BEGIN\nLEASE CHECK a 1-1\nTXN ABORT").await;
    assert_eq!(said, "+OK|-ERR LEASE inside TXN is not allowed|+OK|");
    peer.say("UNWATCH").await;
    let _on = mutation::put_back(Some(Fault::RefusedCheckCommits));
    let said = peer.say("LEASE CHECK a 1\nMULTI\nSET x 1\nEXEC").await;
    assert!(said.ends_with("*1|+OK|"), "without the rule the commit is not validated: {said}");
}

/// What is checked is counted before it is kept.
#[tokio::test]
async fn checks_of_many_clients_are_bounded() {
    let shared = server(|options| options.limits.held_bytes_max = 1 << 20);
    let named: Vec<String> = (0..2_000).map(|n| format!("key{n} 1-1")).collect();
    let check = format!("LEASE CHECK {}", named.join(" "));
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::new(&shared)).collect();
    let mut said = Vec::new();
    for peer in &mut peers {
        said.push(peer.say(&check).await);
    }
    assert_eq!(said[0], "+OK|");
    assert!(said[1..].iter().all(|said| said == "-LIMIT held_bytes_max 1048576|"), "{said:?}");
    assert_eq!(peers[3].say("MULTI\nSET a 1\nEXEC").await, format!("+OK|+QUEUED|{REFUSED}"));
}

#[tokio::test]
async fn what_get_refuses() {
    let shared = server(|options| options.limits.lease_keys_max = 2);
    let mut peer = Peer::new(&shared);
    peer.check(&[
        ("LEASE GET 1", "-ERR wrong number of arguments for 'lease|get' command|"),
        ("LEASE GET x a", "-ERR value is not an integer or out of range|"),
        ("LEASE GET 0 a", "-ERR numkeys should be greater than 0|"),
        ("LEASE GET -1 a", "-ERR numkeys should be greater than 0|"),
        ("LEASE GET 2 a", "-ERR Number of keys can't be greater than number of args|"),
        ("LEASE GET 3 a b c", "-LIMIT lease_keys_max 2|"),
        ("LEASE GET 9223372036854775807 a", "-LIMIT lease_keys_max 2|"),
        ("LEASE GET 1 a b", "-ERR syntax error|"),
        ("LEASE GET 1 a HITS", "-ERR HITS takes a number of hits, not negative, for each key|"),
        ("LEASE GET 1 a HITS 1 2", "-ERR HITS takes a number of hits, not negative, for each key|"),
        ("LEASE GET 1 a HITS -1", "-ERR HITS takes a number of hits, not negative, for each key|"),
        ("LEASE GET 1 a HITS 1 HITS 1", "-ERR HITS takes a number of hits, not negative, for each key|"),
        ("LEASE GET 1 a HITS 1 HAVE 1-1 HITS 1", "-ERR an option is there twice|"),
        ("LEASE GET 1 a HAVE 1-1 HITS 1 HAVE 1-1", "-ERR an option is there twice|"),
        ("LEASE GET 1 a HAVE", "-ERR HAVE takes the versions of the first keys|"),
        ("LEASE GET 1 a HAVE HITS 1", "-ERR HAVE takes the versions of the first keys|"),
        ("LEASE GET 1 a HAVE 1-1 1-1", "-ERR HAVE names more versions than there are keys|"),
        ("LEASE GET 1 a HAVE 01-1", "-ERR '01-1' is no version: expected 1-3, or -1-3 of an absent key|"),
        ("LEASE GET 1 a HAVE nil", "-ERR 'nil' is no version: expected 1-3, or -1-3 of an absent key|"),
        ("LEASE NONE", "-ERR unknown subcommand 'NONE'. Try LEASE HELP.|"),
    ])
    .await;
    let said = peer.say("MULTI\nSET a 1\nEXEC").await;
    assert_eq!(said, format!("+OK|+QUEUED|{REFUSED}"), "LEASE NONE may have been meant for a LEASE CHECK");
    let said = peer.say("LEASE GET x a\nMULTI\nSET a 1\nEXEC").await;
    assert!(said.ends_with("+OK|+QUEUED|*1|+OK|"), "EXEC does not follow from it: {said}");
}

#[tokio::test]
async fn an_id_is_committed_once() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let id = "00000000-0000-0000-0000-000000000007";
    peer.say("SET a 1").await;
    let batch = format!("LEASE CHECK ID {id} a 1-1\nMULTI\nINCR a\nEXEC");
    assert_eq!(peer.say(&batch).await, "+OK|+OK|+QUEUED|*3|*1|:2|$3|1-2|$3|1-1|");
    // The answer was lost: the client asks again, perhaps on another connection.
    let mut again = Peer::new(&shared);
    assert_eq!(again.say(&batch).await, "+COMMITTED 1-2|+OK|+QUEUED|-TXOVER COMMITTED 1-2|");
    assert_eq!(again.say(&format!("TXN BEGIN ID {id}")).await, "+COMMITTED 1-2|");
    again.say("TXN ABORT").await;
    peer.check(&[("GET a", "$1|2|")]).await;
    // What was not committed leaves its id free, however it ended.
    let other = "00000000-0000-0000-0000-000000000008";
    let batch = format!("LEASE CHECK ID {other} a 1-1\nMULTI\nINCR a\nEXEC");
    assert_eq!(peer.say(&batch).await, "+OK|+OK|+QUEUED|-TXSTALE a 1-2|");
    assert_eq!(peer.say(&format!("LEASE CHECK ID {other} a 1-2")).await, "+OK|");
    let busy = "-TXCONFLICT the transaction with this id is not over, retry|";
    assert_eq!(again.say(&format!("LEASE CHECK ID {other} a 1-2")).await, busy);
    assert_eq!((peer.say("UNWATCH").await, again.say("UNWATCH").await), ("+OK|".to_owned(), "+OK|".to_owned()));
    let said = again.say(&format!("LEASE CHECK ID {other} a 1-2\nMULTI\nEXEC")).await;
    assert_eq!(said, "+OK|+OK|*3|*0|$-1|$3|1-2|");
    // Also a key may have that name.
    assert_eq!(peer.say("LEASE CHECK ID -1-0 a 1-2\nMULTI\nEXEC").await, "+OK|+OK|*3|*0|$-1|$3|1-2|");
}
