//! CLIENT TRACKING: what is told beyond what `tests/tracking.rs` compares with a redis-server.

mod support;

use std::sync::Arc;

use forebay::mutation::{self, Fault};
use forebay_server::Shared;
use support::{Peer, server};

/// A peer of RESP3 that tracks.
async fn tracking(shared: &Arc<Shared>, mode: &str) -> Peer {
    let mut peer = Peer::new(shared);
    peer.say("HELLO 3").await;
    assert_eq!(peer.say(&format!("CLIENT TRACKING ON{mode}")).await, "+OK|");
    peer
}

const NAMED: &str = ">2|$10|invalidate|*1|$1|a|";
const UNNAMED: &str = ">2|$10|invalidate|_|";

/// What it is told, without being asked.
async fn told(peer: &mut Peer) -> String {
    peer.session.take_shown();
    peer.say("").await
}

fn id(peer: &Peer) -> u64 {
    peer.session.client.id
}

#[tokio::test]
async fn an_idle_client_is_told() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, "").await, Peer::new(&shared));
    assert_eq!(peer.say("GET a").await, "_|");
    other.say("SET a 1").await;
    assert_eq!(told(&mut peer).await, ">2|$10|invalidate|*1|$1|a|");
    other.say("SET a 2").await;
    assert_eq!(told(&mut peer).await, "", "once");
    // All that was read, at a clearing, and what the cache has lost.
    peer.say("GET a").await;
    for clearing in ["FLUSHALL", "CACHE RESET"] {
        other.say(clearing).await;
        assert_eq!(told(&mut peer).await, ">2|$10|invalidate|_|", "{clearing}");
    }
    // Those of another database are others.
    peer.say("GET a").await;
    other.say("SELECT 3\nSET a 1").await;
    assert_eq!(told(&mut peer).await, "");
    assert_eq!(peer.say("LEASE GET 1 b\nCLIENT TRACKING OFF").await.split('|').next_back(), Some(""));
    other.say("SELECT 0\nSET b 1").await;
    assert_eq!(told(&mut peer).await, "", "it tracks no more");
}

/// Of an idle client only what tells it looks at its rights. What it has read, and may not read now, has no names.
#[tokio::test]
async fn what_is_told_is_checked_against_the_rights_of_that_moment() {
    let told_after = |mode: &'static str, change: &'static str| async move {
        let shared = server(|_| {});
        let (mut peer, mut admin) = (Peer::new(&shared), Peer::new(&shared));
        admin.say("ACL SETUSER bob on nopass ~* +@all").await;
        peer.say("HELLO 3 AUTH bob any").await;
        assert_eq!(peer.say(&format!("CLIENT TRACKING ON{mode}")).await, "+OK|");
        assert_eq!(peer.say("GET a").await, "_|");
        admin.say(change).await;
        admin.say("SET a 1").await;
        let told = told(&mut peer).await;
        assert!(!peer.session.closing || change.contains("DELUSER"));
        told
    };
    for kept in ["PING", "ACL SETUSER bob -@all +mget", "ACL SETUSER bob resetkeys %R~a"] {
        assert_eq!(
            (told_after("", kept).await, told_after(" BCAST", kept).await),
            (NAMED.into(), NAMED.into()),
            "{kept}"
        );
    }
    for lost in
        ["ACL SETUSER bob -@all", "ACL SETUSER bob -@all +set", "ACL SETUSER bob resetkeys %W~a", "ACL DELUSER bob"]
    {
        // Who is sent away keeps nothing.
        let broadcast = if lost.contains("DELUSER") { "" } else { UNNAMED };
        assert_eq!(
            (told_after("", lost).await, told_after(" BCAST", lost).await),
            (UNNAMED.into(), broadcast.into()),
            "{lost}"
        );
        let _fault = mutation::put_back(Some(Fault::ToldByOldRights));
        assert_eq!(told_after("", lost).await, NAMED, "the fault is found: {lost}");
    }
}

/// With BCAST a client keeps what it has read, and loses the right to it for a while. It must not keep what was written
/// in that while; and is told once, not of each key that it may not read.
#[tokio::test]
async fn what_was_written_while_a_right_was_taken_is_not_kept() {
    let shared = server(|_| {});
    let (mut peer, mut admin) = (Peer::new(&shared), Peer::new(&shared));
    admin.say("SET a 1\nACL SETUSER bob on nopass ~* +@all\nACL SETUSER eve on nopass ~b +@all").await;
    peer.say("HELLO 3 AUTH bob any\nCLIENT TRACKING ON BCAST\nGET a").await;
    for (taken, given) in
        [("ACL SETUSER bob resetkeys ~b", "ACL SETUSER bob ~*"), ("ACL SETUSER bob -@all", "ACL SETUSER bob +@all")]
    {
        admin.say(taken).await;
        admin.say("SET a 2").await;
        assert_eq!(told(&mut peer).await, UNNAMED, "{taken}");
        admin.say("SET a 3").await;
        assert_eq!(told(&mut peer).await, "", "{taken}: it keeps nothing");
        admin.say(given).await;
        admin.say("SET a 4").await;
        assert_eq!(told(&mut peer).await, NAMED, "{given}");
    }
    // So it is with another user.
    peer.say("AUTH eve any").await;
    admin.say("SET a 5").await;
    assert_eq!(told(&mut peer).await, UNNAMED);
    peer.say("AUTH bob any").await;
    admin.say("SET a 6").await;
    assert_eq!(told(&mut peer).await, NAMED);
    // What it says of tracking does not make it forget that.
    admin.say("ACL SETUSER bob resetkeys ~b").await;
    assert_eq!(peer.say("CLIENT TRACKING ON BCAST NOLOOP").await, "+OK|");
    admin.say("SET a 7").await;
    assert_eq!(told(&mut peer).await, UNNAMED);
}

/// Found by Valkey's `tracking.tcl`: a client was told of what it had read before it tracked.
#[tokio::test]
async fn nothing_stays_noted_when_no_client_tracks() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, "").await, Peer::new(&shared));
    peer.say("GET a").await;
    assert_eq!(shared.trackers.amounts().0, 1);
    peer.say("CLIENT TRACKING OFF").await;
    assert_eq!(shared.trackers.amounts().0, 0);
    peer.say("CLIENT TRACKING ON").await;
    other.say("SET a 1").await;
    assert_eq!(told(&mut peer).await, "");
}

/// The two cases on scripts of Valkey's `tracking.tcl`: only what a script reads is noted.
#[cfg(feature = "lua")]
#[tokio::test]
async fn what_a_script_reads_is_noted() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, "").await, tracking(&shared, " NOLOOP").await);
    other.say("MSET key1 1 key2 1").await;
    let named = ">2|$10|invalidate|*1|$4|key2|";
    for (eval, writes, read) in
        [("EVAL", "key3 bar", false), ("EVAL", "", true), ("EVAL_RO", "", false), ("EVAL_RO", "", true)]
    {
        let script = match (read, writes) {
            (true, _) => "redis.call('get','key2')".to_owned(),
            (false, "") => "redis.call('ping')".to_owned(),
            (false, _) => "redis.call('set','key3','bar')".to_owned(),
        };
        assert_eq!(peer.say(&format!("{eval} {script} 3 key1 key2 key3")).await, "_|", "{eval} {script}");
        other.say("MSET key1 2 key2 2 key3 2").await;
        assert_eq!(told(&mut peer).await, if read { named } else { "" }, "{eval} {script}");
    }
    // With NOLOOP a client is not told of what its script writes.
    other.say("SET key1 1").await;
    assert_eq!(other.say("GET key1").await, "$1|1|");
    assert_eq!(other.say("EVAL return(redis.call('set','key1','2')) 1 key1").await, "+OK|");
    assert_eq!((told(&mut other).await, other.say("GET key1").await), (String::new(), "$1|2|".to_owned()));
}

/// As in Redis: CLIENT REPLY leaves out replies, not what is told. What confirms a subscription is told.
#[tokio::test]
async fn a_subscription_is_confirmed_without_replies() {
    let shared = server(|_| {});
    let (mut peer, channel) = (Peer::new(&shared), "$20|__redis__:invalidate|");
    assert_eq!(peer.say("CLIENT REPLY OFF").await, "");
    for (hello, begin) in [("PING", "*3|"), ("HELLO 3", ">3|")] {
        assert_eq!(peer.say(hello).await, "");
        assert_eq!(peer.say("SUBSCRIBE __redis__:invalidate").await, format!("{begin}$9|subscribe|{channel}:1|"));
        assert_eq!(peer.say("SUBSCRIBE another\nPING").await, "");
        let ended = format!("{begin}$11|unsubscribe|{channel}:0|");
        assert_eq!(peer.say("UNSUBSCRIBE __redis__:invalidate\nPING").await, ended);
    }
    assert_eq!(peer.say("HELLO 2\nCLIENT REPLY ON").await, "+OK|");
    let skipped = format!("*3|$9|subscribe|{channel}:1|*2|$4|pong|$0||");
    assert_eq!(peer.say("CLIENT REPLY SKIP\nSUBSCRIBE __redis__:invalidate\nPING").await, skipped);
}

/// As in Redis: the keys of one prefix stand in one message, and each prefix has its own.
#[tokio::test]
async fn each_prefix_has_a_message() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, " BCAST PREFIX a: PREFIX b:").await, Peer::new(&shared));
    other.say("MULTI\nINCR b:1\nINCR a:1\nINCR c:1\nINCR b:2\nEXEC").await;
    assert_eq!(told(&mut peer).await, ">2|$10|invalidate|*1|$3|a:1|>2|$10|invalidate|*2|$3|b:1|$3|b:2|");
}

#[tokio::test]
async fn a_lease_is_tracked_and_told_behind_its_reply() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, "").await, Peer::new(&shared));
    peer.say("LEASE GET 1 a").await;
    other.say("SET a 1").await;
    let said = peer.say("GET b\nPING").await;
    assert_eq!(said, ">2|$10|invalidate|*1|$1|a|_|+PONG|", "before what is read next");
}

#[tokio::test]
async fn what_was_read_over_a_connection_that_has_ended_is_told_to_its_target() {
    let shared = server(|_| {});
    let (mut target, mut other) = (Peer::new(&shared), Peer::new(&shared));
    target.say("HELLO 3").await;
    let mut data = tracking(&shared, &format!(" REDIRECT {}", id(&target))).await;
    data.say("GET a\nGET b").await;
    drop(data);
    other.say("SET a 1").await;
    assert_eq!(told(&mut target).await, ">2|$10|invalidate|*1|$1|a|", "Redis leaves it stale");
    // The target ends: who has it learns that.
    let mut data = tracking(&shared, &format!(" REDIRECT {}", id(&target))).await;
    let gone = id(&target);
    drop(target);
    assert_eq!(told(&mut data).await, format!(">2|$21|tracking-redir-broken|:{gone}|"));
    assert!(data.say("CLIENT TRACKINGINFO").await.contains("broken_redirect"));
    other.say("SET b 1").await;
    assert_eq!(told(&mut data).await, "");
}

/// The letters of Redis: `t` tracks, `R` its target is gone, `B` by prefixes, `P` listens on the channel.
#[tokio::test]
async fn lists_show_who_tracks() {
    let shared = server(|_| {});
    let (mut admin, mut peer, mut target) = (Peer::new(&shared), Peer::new(&shared), Peer::new(&shared));
    let (peer_id, target_id) = (id(&peer), id(&target));
    let words = |line: &str| {
        let shown = |word: &&str| ["flags=", "redir=", "sub="].iter().any(|name| word.starts_with(name));
        line.split(' ').filter(shown).collect::<Vec<_>>().join(" ")
    };
    for (request, expected) in [
        ("PING".to_owned(), "flags=N sub=0 redir=-1".to_owned()),
        ("CLIENT TRACKING ON".into(), "flags=t sub=0 redir=0".into()),
        ("MULTI".into(), "flags=xt sub=0 redir=0".into()),
        ("DISCARD\nCLIENT TRACKING OFF\nCLIENT TRACKING ON BCAST".into(), "flags=tB sub=0 redir=0".into()),
        (
            format!("CLIENT TRACKING OFF\nCLIENT TRACKING ON REDIRECT {target_id}"),
            format!("flags=t sub=0 redir={target_id}"),
        ),
        ("CLIENT TRACKING OFF".into(), "flags=N sub=0 redir=-1".into()),
        ("SUBSCRIBE __redis__:invalidate".into(), "flags=P sub=1 redir=-1".into()),
        ("RESET\nCLIENT TRACKING ON BCAST".into(), "flags=tB sub=0 redir=0".into()),
        ("RESET".into(), "flags=N sub=0 redir=-1".into()),
    ] {
        peer.say(&request).await;
        let listed = admin.say(&format!("CLIENT LIST ID {peer_id}")).await;
        assert_eq!(words(&listed), expected, "{request}");
    }
    target.say("HELLO 3").await;
    peer.say(&format!("HELLO 3\nCLIENT TRACKING ON REDIRECT {target_id}\nGET a")).await;
    drop(target);
    told(&mut peer).await;
    let listed = admin.say(&format!("CLIENT LIST ID {peer_id}")).await;
    assert_eq!(words(&listed), format!("flags=tR sub=0 redir={target_id}"));
}

#[tokio::test]
async fn the_key_noted_longest_ago_is_given_up_and_told() {
    let shared = server(|options| options.limits.tracking_keys_max = 16);
    let mut peer = tracking(&shared, "").await;
    let names: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    for name in &names {
        peer.say(&format!("GET {name}")).await;
    }
    let said = format!("{}{}", told(&mut peer).await, peer.say("PING").await);
    let (keys, items, _) = shared.trackers.amounts();
    assert!(keys <= 16 && items <= 16, "{keys} keys");
    drop(said);
    // All that is not noted was told: nothing that it keeps is stale.
    let mut peer = tracking(&shared, "").await;
    let mut kept: std::collections::BTreeSet<&str> = Default::default();
    for name in &names {
        let said = peer.say(&format!("GET {name}")).await + &told(&mut peer).await;
        kept.insert(name);
        kept.retain(|name| !said.contains(&format!("|{name}|")));
    }
    assert!(kept.len() <= 16, "{kept:?}");
    assert!(shared.engine.cache().lent_bytes() < 16 * 320);
}

#[tokio::test]
async fn too_much_to_name_is_everything() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, " BCAST PREFIX k").await, Peer::new(&shared));
    for n in 0..40 {
        let pairs: Vec<String> = (0..100).map(|m| format!("k{n}-{m}{} v", "x".repeat(100))).collect();
        other.say(&format!("MSET {}", pairs.join(" "))).await;
    }
    assert_eq!(told(&mut peer).await, ">2|$10|invalidate|_|");
    other.say("SET k1 v\nSET x v\nSET k2 v").await;
    assert_eq!(told(&mut peer).await, ">2|$10|invalidate|*2|$2|k1|$2|k2|");
}

/// With NOLOOP a transaction may read what it has written. Its client may keep that, so the key stays tracked.
#[tokio::test]
async fn what_a_transaction_wrote_and_read_stays_tracked() {
    let told_after = |script: &'static str| async move {
        let shared = server(|_| {});
        let (mut peer, mut other) = (tracking(&shared, " NOLOOP").await, Peer::new(&shared));
        peer.say(script).await;
        assert_eq!(told(&mut peer).await, "", "its own");
        other.say("SET a 2").await;
        let told_of = told(&mut peer).await;
        other.say("SET a 3").await;
        assert_eq!(told(&mut peer).await, "", "once");
        told_of
    };
    let scripts = [
        "MULTI\nSET a 1\nGET a\nEXEC",
        "MULTI\nGET a\nSET a 1\nGET a\nEXEC",
        "MULTI\nSET a 1\nGET a\nPERSIST a\nEXEC",
        "MULTI\nSET a 1\nGET a\nSETNX a 2\nEXEC",
        "TXN BEGIN\nSET a 1\nGET a\nTXN COMMIT",
        "SET a 1\nGET a",
    ];
    for script in scripts {
        assert_eq!(told_after(script).await, NAMED, "{script}");
    }
    let _on = mutation::put_back(Some(Fault::OwnWriteUntracks));
    assert_eq!(told_after(scripts[0]).await, "", "it keeps 1 for ever");
}

/// CLIENT CACHING is about the next command, a script or one that is refused among them.
#[tokio::test]
async fn what_caching_says_ends_with_the_next_command() {
    let mut rows = vec![
        (" OPTIN", "CLIENT CACHING YES\nGET a", NAMED),
        (" OPTIN", "CLIENT CACHING YES\nGET\nGET a", ""),
        (" OPTIN", "CLIENT CACHING YES\nNONSENSE\nGET a", ""),
        (" OPTOUT", "CLIENT CACHING NO\nGET a", ""),
        (" OPTOUT", "CLIENT CACHING NO\nGET\nGET a", NAMED),
    ];
    if cfg!(feature = "lua") {
        let script = "EVAL return(redis.call('GET',KEYS[1])) 1 a";
        rows.push((" OPTIN", "CLIENT CACHING YES\nEVAL return(redis.call('GET',KEYS[1])) 1 a", NAMED));
        rows.push((" OPTIN", "CLIENT CACHING YES\nMULTI\nEVAL return(redis.call('GET',KEYS[1])) 1 a\nEXEC", NAMED));
        rows.push((" OPTIN", script, ""));
    }
    for (mode, said, expected) in rows {
        let shared = server(|_| {});
        let (mut peer, mut other) = (tracking(&shared, mode).await, Peer::new(&shared));
        peer.say(said).await;
        other.say("SET a 2").await;
        assert_eq!(told(&mut peer).await, expected, "{mode} {said}");
    }
}

/// A client that does not read its replies: what it is to be told waits where that is bounded.
#[tokio::test]
async fn what_is_told_waits_for_a_client_that_does_not_read() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (tracking(&shared, " BCAST").await, Peer::new(&shared));
    let unread = |peer: &mut Peer| {
        peer.session.take_shown();
        peer.session.replies.bytes()
    };
    let pairs: Vec<String> = (0..100).map(|n| format!("k{n}{} v", "x".repeat(1000))).collect();
    let mut most = 0;
    for _ in 0..50 {
        other.say(&format!("MSET {}", pairs.join(" "))).await;
        most = most.max(unread(&mut peer));
    }
    assert!(most < 1 << 20, "{most} bytes wait");
    peer.say("PING").await;
    assert_eq!(told(&mut peer).await, ">2|$10|invalidate|_|", "what it was not told in time");
    let _on = mutation::put_back(Some(Fault::PushedUnread));
    for _ in 0..50 {
        other.say(&format!("MSET {}", pairs.join(" "))).await;
        most = most.max(unread(&mut peer));
    }
    assert!(most > 2 << 20, "without the rule {most} bytes wait");
}

#[tokio::test]
async fn a_client_of_resp2_is_told_on_the_channel() {
    let shared = server(|_| {});
    let (mut target, mut data, mut other) = (Peer::new(&shared), Peer::new(&shared), Peer::new(&shared));
    target
        .check(&[
            ("SUBSCRIBE news", "-ERR forebay has no channel but __redis__:invalidate|"),
            ("SUBSCRIBE __redis__:invalidate", "*3|$9|subscribe|$20|__redis__:invalidate|:1|"),
            ("PING", "*2|$4|pong|$0||"),
        ])
        .await;
    assert!(target.say("GET a").await.starts_with("-ERR Can't execute 'get': only "));
    data.say(&format!("CLIENT TRACKING ON REDIRECT {}\nGET a", id(&target))).await;
    other.say("SET a 1\nFLUSHALL").await;
    let channel = "*3|$7|message|$20|__redis__:invalidate|";
    // What may have changed is everything by now.
    assert_eq!(told(&mut target).await, format!("{channel}*-1|"));
    target.check(&[("UNSUBSCRIBE", "*3|$11|unsubscribe|$20|__redis__:invalidate|:0|"), ("GET a", "$-1|")]).await;
    data.say("GET a").await;
    other.say("SET a 1").await;
    assert_eq!(told(&mut target).await, "");
    // Without a target a client of RESP2 is told nothing.
    data.say("CLIENT TRACKING OFF\nCLIENT TRACKING ON\nGET a").await;
    other.say("SET a 2").await;
    assert_eq!(told(&mut data).await, "");
}

/// Prefixes count as what clients make the server hold: before they are kept.
#[tokio::test]
async fn prefixes_are_bounded() {
    let shared = server(|options| options.limits.held_bytes_max = 1 << 20);
    let of =
        |bytes: usize| (0..100).map(|number| format!(" PREFIX {number:03}{}", "x".repeat(bytes))).collect::<String>();
    let mut peers: Vec<Peer> = Vec::new();
    let mut said = Vec::new();
    for _ in 0..4 {
        let mut peer = Peer::new(&shared);
        peer.say("HELLO 3").await;
        said.push(peer.say(&format!("CLIENT TRACKING ON BCAST{}", of(2_000))).await);
        peers.push(peer);
    }
    let refused = "-LIMIT held_bytes_max 1048576|";
    assert_eq!(said, ["+OK|", "+OK|", refused, refused]);
    assert!(peers[2].say("CLIENT TRACKINGINFO").await.contains("off"), "nothing of it is done");
    assert_eq!(peers[2].say("CLIENT TRACKING ON BCAST PREFIX a").await, "+OK|");
}
