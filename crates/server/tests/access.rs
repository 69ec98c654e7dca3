//! Who may come in and what they may do, through sessions without sockets.

mod driven;
mod support;

use std::sync::Arc;

use forebay_protocol::Protocol;
use forebay_server::Shared;
use forebay_server::access::{Access, Source};
use forebay_server::command::PERMISSIONS;
use support::{Peer, server};

const NOAUTH: &str = "-NOAUTH Authentication required.|";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";

/// `hunter2`, as cheaply hashed as argon2 allows.
const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$HASHED";

/// [`HASH`] with its hash.
fn hash() -> String {
    use argon2::password_hash::phc;
    let params = argon2::Params::new(8, 1, 1, Some(16)).unwrap();
    let mut output = [0; 16];
    let argon2 = argon2::Argon2::from(params);
    argon2.hash_password_into(b"hunter2", b"somesalt", &mut output).unwrap();
    HASH.replace("HASHED", &phc::Output::new(&output).unwrap().to_string())
}

/// A server whose users' file has these lines.
fn with_users(lines: &str) -> (tempfile::TempDir, Arc<Shared>) {
    let (folder, access) = users(lines);
    (folder, server(|options| options.access = access))
}

/// The users of a file with these lines, `#HASH` in them replaced.
fn users(lines: &str) -> (tempfile::TempDir, Access) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, lines.replace("#HASH", &format!("#{}", hash()))).unwrap();
    let access = Access::open(Source::Users(file), &PERMISSIONS).unwrap();
    (folder, access)
}

#[tokio::test]
async fn a_stranger_may_only_authenticate_or_leave() {
    let (_folder, shared) = with_users("user default on #HASH ~* &* +@all\nuser bob off #HASH +@all");
    let mut peer = Peer::new(&shared);
    let noauth_hello = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
        <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
        at the same time|";
    peer.check(&[
        ("GET k", NOAUTH),
        ("PING", NOAUTH),
        ("MULTI", NOAUTH),
        ("EXEC", "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.|"),
        ("TXN BEGIN", NOAUTH),
        ("SHUTDOWN", NOAUTH),
        ("ACL WHOAMI", NOAUTH),
        // As in Redis, what is no command is told before.
        ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: |"),
        ("GET", "-ERR wrong number of arguments for 'get' command|"),
        ("HELLO 3", noauth_hello),
        ("HELLO", noauth_hello),
        ("HELLO 4", "-NOPROTO unsupported protocol version|"),
        ("AUTH nope", WRONGPASS),
        ("AUTH nobody hunter2", WRONGPASS),
        ("AUTH bob hunter2", WRONGPASS),
        ("AUTH a b c", "-ERR syntax error|"),
        ("HELLO 3 AUTH default nope", WRONGPASS),
        ("GET k", NOAUTH),
        ("AUTH hunter2", "+OK|"),
        ("GET k", "$-1|"),
        ("ACL WHOAMI", "$7|default|"),
        // What was right stays right when the next one is wrong.
        ("AUTH nope", WRONGPASS),
        ("GET k", "$-1|"),
        ("RESET", "+RESET|"),
        ("GET k", NOAUTH),
    ])
    .await;
    assert!(peer.say("HELLO 3 AUTH default hunter2 SETNAME me").await.starts_with("%7|"));
    assert_eq!(peer.say("CLIENT GETNAME").await, "$2|me|");
}

/// The answers to wrong passwords take longer and longer, until there are none. In virtual time.
#[test]
fn wrong_passwords_end_a_connection() {
    let (_folder, access) = users("user default on #HASH ~* +@all");
    let requests = vec!["AUTH nope".to_owned(); 17];
    let replies = driven::replies_of(|options| options.access = access, Protocol::Resp2, requests);
    let mut expected = vec![WRONGPASS; 16];
    expected.push("");
    assert_eq!(replies, expected);
    // RESET does not make a newcomer of it.
    let (_folder, access) = users("user default on #HASH ~* +@all");
    let requests: Vec<_> = ["AUTH nope", "RESET"].repeat(17).iter().map(|request| (*request).to_owned()).collect();
    let replies = driven::replies_of(|options| options.access = access, Protocol::Resp2, requests);
    assert_eq!(replies.iter().filter(|reply| *reply == WRONGPASS).count(), 16);
    assert_eq!(replies.last().map(String::as_str), Some(""));
}

#[tokio::test]
async fn without_a_password_all_is_as_before() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let text = "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
        configuration is correct?|";
    peer.check(&[
        ("AUTH x", text),
        ("AUTH default x", "+OK|"),
        ("AUTH nobody x", WRONGPASS),
        ("MULTI", "+OK|"),
        ("AUTH default x", "-ERR AUTH inside MULTI is not allowed|"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
        ("ACL SAVE", "-ERR no file with users; start with --users-file FILE|"),
        ("ACL LOAD", "-ERR no file with users; start with --users-file FILE|"),
    ])
    .await;
}

/// CLIENT TRACKING tells no name that its client may not read.
#[tokio::test]
async fn what_is_told_of_keys_follows_the_rights() {
    let (_folder, shared) =
        with_users("user default on nopass ~* &* +@all\nuser bob on #HASH ~bob:* +@all -@dangerous");
    let (mut admin, mut bob) = (Peer::new(&shared), Peer::new(&shared));
    assert!(bob.say("HELLO 3 AUTH bob hunter2").await.starts_with('%'));
    let lease = bob.say("LEASE GET 2 bob:1 other").await;
    assert!(lease.starts_with("-NOPERM"), "{lease}");
    let check = bob.say("LEASE CHECK other 1-1\nMULTI\nEXEC").await;
    assert!(check.starts_with("-NOPERM") && check.contains("-EXECABORT a WATCH or LEASE CHECK"), "{check}");
    bob.say("CLIENT TRACKING ON BCAST").await;
    admin.say("SET other 1\nSET bob:1 1").await;
    assert_eq!(bob.say("PING").await, ">2|$10|invalidate|*1|$5|bob:1|+PONG|");
    // A connection of another user may keep what bob's may not read: bob's is told that something has changed.
    let target = bob.session.client.id;
    bob.say("CLIENT TRACKING OFF").await;
    admin.say(&format!("CLIENT TRACKING ON REDIRECT {target}\nGET other\nSET other 2")).await;
    assert_eq!(bob.say("PING").await, ">2|$10|invalidate|_|+PONG|");
}

#[tokio::test]
async fn what_a_user_may_do_is_checked_everywhere() {
    let (_folder, shared) = with_users(
        "user default on nopass ~* &* +@all\nuser bob on #HASH ~bob:* %R~pub:* +@all -@dangerous -incr +config|get",
    );
    let mut admin = Peer::new(&shared);
    let mut bob = Peer::new(&shared);
    let no_key = "-NOPERM No permissions to access a key|";
    let no_command = |name: &str| format!("-NOPERM User bob has no permissions to run the '{name}' command|");
    bob.check(&[
        ("AUTH bob hunter2", "+OK|"),
        ("ACL WHOAMI", "$3|bob|"),
        ("SET bob:1 x", "+OK|"),
        ("GET bob:1", "$1|x|"),
        ("GET pub:1", "$-1|"),
        ("SET pub:1 x", no_key),
        ("COPY pub:1 bob:2", ":0|"),
        ("COPY bob:2 pub:1", no_key),
        ("MGET bob:1 other", no_key),
        ("WATCH other", no_key),
        ("INCR bob:n", &no_command("incr")),
        ("FLUSHALL", &no_command("flushall")),
        ("ACL SETUSER bob +@all", &no_command("acl|setuser")),
        ("CONFIG SET slowlog-max-len 1", &no_command("config|set")),
        ("CLIENT KILL ID 1", &no_command("client|kill")),
        ("MONITOR", &no_command("monitor")),
        ("CONFIG GET nosuch", "*0|"),
        ("MULTI", "+OK|"),
        ("GET other", no_key),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
        ("TXN BEGIN", "+OK|"),
        ("GET other", no_key),
        ("SET bob:1 y", "+OK|"),
        ("TXN ABORT", "+OK|"),
    ])
    .await;
    // Queued while it was permitted, refused when it is not: the whole script is rolled back.
    assert_eq!(bob.say("MULTI\nSET bob:1 z\nGET pub:1").await, "+OK|+QUEUED|+QUEUED|");
    assert_eq!(admin.say("ACL SETUSER bob resetkeys ~bob:*").await, "+OK|");
    let rolled_back = "-EXECABORT rolled back: command 2 (GET pub:1): NOPERM ACLs rules changed between the moment the \
        transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no \
        permission to touch the specified keys|";
    assert_eq!(bob.say("EXEC").await, rolled_back);
    assert_eq!(bob.say("GET bob:1\nGET pub:1").await, format!("$1|x|{no_key}"));
    // Written in TXN while it was permitted, refused when it is not: a key, and a command.
    assert_eq!(admin.say("ACL SETUSER bob ~pub:*").await, "+OK|");
    assert_eq!(bob.say("TXN BEGIN\nSET bob:1 z\nSET pub:2 z").await, "+OK|+OK|+OK|");
    assert_eq!(admin.say("ACL SETUSER bob resetkeys ~bob:*").await, "+OK|");
    assert_eq!(bob.say("TXN COMMIT").await, no_key);
    assert_eq!(
        (bob.say("TXN COMMIT").await, bob.say("GET bob:1").await),
        ("-ERR TXN COMMIT without TXN BEGIN|".into(), "$1|x|".into())
    );
    assert_eq!(bob.say("TXN BEGIN\nAPPEND bob:1 z").await, "+OK|:2|");
    assert_eq!(admin.say("ACL SETUSER bob -append").await, "+OK|");
    assert_eq!(bob.say("TXN COMMIT").await, no_command("append"));
    assert_eq!((bob.say("GET bob:1").await, admin.say("GET pub:2").await), ("$1|x|".into(), "$-1|".into()));
    // Without the right to EXEC the script is gone.
    assert_eq!(bob.say("MULTI\nSET bob:1 z").await, "+OK|+QUEUED|");
    admin.say("ACL SETUSER bob -exec").await;
    let aborted = "-EXECABORT Transaction discarded because of: NOPERM User bob has no permissions to run the 'exec' \
        command|";
    assert_eq!(bob.say("EXEC\nGET bob:1").await, format!("{aborted}$1|x|"));
    let log = admin.say("ACL LOG 1").await;
    assert!(log.contains("$4|exec|$8|username|$3|bob|") && log.contains("user=bob"), "{log}");
    admin.check(&[("ACL DRYRUN bob GET bob:1", "+OK|")]).await;
    let dry = admin.say("ACL DRYRUN bob GET k").await;
    assert!(dry.ends_with("|User bob has no permissions to access the 'k' key|"), "{dry}");
    admin.check(&[("ACL LOG RESET", "+OK|"), ("ACL LOG", "*0|")]).await;
}

#[tokio::test]
async fn users_are_made_changed_and_removed_while_they_are_connected() {
    let (folder, shared) = with_users("user default on nopass ~* &* +@all");
    let mut admin = Peer::new(&shared);
    admin.check(&[
        ("ACL SETUSER al on >hunter2 ~* +get +ping", "+OK|"),
        ("ACL SETUSER al foo", "-ERR Error in ACL SETUSER modifier 'foo': Syntax error|"),
        (
            "ACL SETUSER al <nope",
            "-ERR Error in ACL SETUSER modifier '<nope': The password you are trying to remove from the user does not \
             exist|",
        ),
        ("ACL USERS", "*2|$2|al|$7|default|"),
        ("ACL DELUSER default al", "-ERR The 'default' user cannot be removed|"),
    ])
    .await;
    let mut al = Peer::new(&shared);
    al.check(&[("AUTH al hunter3", WRONGPASS), ("AUTH al hunter2", "+OK|"), ("GET k", "$-1|")]).await;
    assert!(al.say("SET k v").await.starts_with("-NOPERM "));
    admin.say("ACL SETUSER al +set").await;
    assert_eq!(al.say("SET k v").await, "+OK|");
    // The same password twice is one; both the old and the new one are right until one is removed.
    admin.say("ACL SETUSER al >hunter2 >other").await;
    assert_eq!(shared.access.user(b"al").unwrap().passwords.len(), 2);
    assert_eq!(al.say("AUTH al other").await, "+OK|");
    admin.say("ACL SETUSER al <hunter2").await;
    al.check(&[("AUTH al hunter2", WRONGPASS), ("GET k", "$1|v|")]).await;
    // Off: nobody comes in any more, who is in stays.
    admin.say("ACL SETUSER al off").await;
    al.check(&[("AUTH al other", WRONGPASS), ("GET k", "$1|v|")]).await;
    // All of the rules or none.
    assert!(admin.say("ACL SETUSER al +del nosuch").await.starts_with("-ERR "));
    assert!(al.say("DEL k").await.starts_with("-NOPERM "));
    assert_eq!(admin.say("ACL SAVE").await, "+OK|");
    let saved = std::fs::read_to_string(folder.path().join("users")).unwrap();
    assert!(saved.contains("user al off #$argon2id$") && !saved.contains("other"), "{saved}");
    assert_eq!(admin.say("ACL DELUSER al nosuch").await, ":1|");
    assert!(al.session.client.is_killed());
    assert_eq!(al.say("GET k").await, NOAUTH);
    assert!(al.session.closing, "its user is no more");
    // Read again, it is another user of this name; the connection of the first is not its.
    assert_eq!(admin.say("ACL LOAD\nACL USERS").await, "+OK|*2|$2|al|$7|default|");
    assert_eq!(al.say("GET k").await, "");
    std::fs::write(folder.path().join("users"), "user al on >clear").unwrap();
    assert!(admin.say("ACL LOAD").await.contains("line 1") && shared.access.user(b"al").is_some());
}

#[tokio::test]
async fn passwords_are_made_by_chance() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let (one, two) = (peer.say("ACL GENPASS").await, peer.say("ACL GENPASS").await);
    assert!(one.starts_with("$64|") && one != two, "{one}");
    assert!(peer.say("ACL GENPASS 5").await.starts_with("$2|"));
    let bits = "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
        4096|";
    peer.check(&[
        ("ACL GENPASS 0", bits),
        ("ACL GENPASS 4097", bits),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range|"),
    ])
    .await;
}

/// Of a hundred clients that come with the same password at once, only the first pays for its hash.
#[tokio::test]
async fn clients_that_connect_again_do_not_pay_again() {
    let (_folder, shared) = with_users("user default on #HASH ~* +@all");
    let user = shared.access.default_user();
    assert!(!user.passwords[0].seen(b"hunter2"));
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("AUTH hunter2").await, "+OK|");
    assert!(user.passwords[0].seen(b"hunter2") && !user.passwords[0].seen(b"hunter3"));
    for _ in 0..100 {
        assert_eq!(Peer::new(&shared).say("AUTH default hunter2\nPING").await, "+OK|+PONG|");
    }
}

/// How long a wrong password takes tells nothing of users and their passwords.
#[tokio::test]
async fn a_wrong_password_costs_as_much_whoever_it_is_for() {
    let (_folder, shared) = with_users("user default on #HASH ~* +@all\nuser one on #HASH\nuser off off #HASH");
    let mut admin = Peer::new(&shared);
    admin.check(&[("AUTH hunter2", "+OK|"), ("ACL SETUSER three on >a >b >c", "+OK|")]).await;
    for name in ["one", "three", "off", "default", "nosuch"] {
        let before = shared.access.hashes();
        assert_eq!(Peer::new(&shared).say(&format!("AUTH {name} wrong")).await, WRONGPASS);
        assert_eq!(shared.access.hashes() - before, 3, "{name}");
    }
    admin.check(&[("ACL DELUSER three", ":1|")]).await;
    let before = shared.access.hashes();
    Peer::new(&shared).say("AUTH nosuch wrong").await;
    assert_eq!(shared.access.hashes() - before, 1);
}

/// A browser can be had to send commands to loopback as the body of a request: nothing behind its first line is served.
#[tokio::test]
async fn a_web_page_commands_nothing() {
    for request in
        ["POST / HTTP/1.1\r\n", "post / HTTP/1.1\r\n", "GET /\r\nHost: ::1\r\n", "hOST: a\r\n", "Host : a\r\n"]
    {
        let shared = server(|_| {});
        let mut peer = Peer::new(&shared);
        peer.raw(format!("{request}\r\nSET k v\r\n").as_bytes()).await;
        assert!(peer.session.closing, "{request}");
        assert_eq!(Peer::new(&shared).say("GET k").await, "$-1|", "{request}");
    }
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("MULTI\nGET Host:\nEXEC").await, "+OK|+QUEUED|*1|$-1|");
}

/// ACL LOAD and SIGHUP are no reason to pay for all hashes again, at once.
#[tokio::test]
async fn passwords_that_were_right_are_known_after_a_reload() {
    let (_folder, shared) = with_users("user default on nopass ~* +@all\nuser bob on #HASH ~* +@all");
    let mut peer = Peer::new(&shared);
    peer.check(&[("ACL LOAD", "+OK|"), ("AUTH bob hunter2", "+OK|"), ("ACL LOAD", "+OK|")]).await;
    assert!(shared.access.user(b"bob").unwrap().passwords[0].seen(b"hunter2"));
}

/// What would be refused at the start is so later, too.
#[tokio::test]
async fn users_without_a_password_are_not_read_where_others_can_reach_the_server() {
    let (folder, access) = users("user default on #HASH ~* +@all");
    let shared = server(|options| options.access = access.kept_closed());
    let mut peer = Peer::new(&shared);
    let refused = "-ERR the user default needs no password, and others can reach this server; give it one, or turn it \
        off|";
    std::fs::write(folder.path().join("users"), "user default on nopass ~* +@all").unwrap();
    peer.check(&[("AUTH hunter2", "+OK|"), ("ACL LOAD", refused), ("PING", "+PONG|")]).await;
    assert_eq!(Peer::new(&shared).say("PING").await, NOAUTH);
    let refused = "-ERR Error in ACL SETUSER modifier 'nopass': others can reach this server, and the user would need \
        no password; give it one, or start with --allow-public-without-password|";
    peer.check(&[("ACL SETUSER default on nopass", refused), ("ACL SETUSER new nopass", "+OK|")]).await;
    let refused = refused.replace("'nopass'", "'on'");
    peer.check(&[("ACL SETUSER new on", &refused), ("ACL SETUSER default on +@all", "+OK|")]).await;
    assert_eq!(Peer::new(&shared).say("PING").await, NOAUTH);
    std::fs::write(folder.path().join("users"), "user default off nopass ~* +@all").unwrap();
    peer.check(&[("ACL LOAD", "+OK|")]).await;
}

/// A monitor says nothing more, and yet is shown nothing more once it may not be.
#[tokio::test]
async fn a_monitor_is_shown_no_more_than_it_may() {
    let (_folder, shared) =
        with_users("user default on nopass ~* &* +@all\nuser bob on #HASH +monitor +ping\nuser admin on #HASH +@all");
    let (mut admin, mut bob, mut open) = (Peer::new(&shared), Peer::new(&shared), Peer::new(&shared));
    admin.check(&[("AUTH admin hunter2", "+OK|")]).await;
    bob.check(&[("AUTH bob hunter2", "+OK|"), ("MONITOR", "+OK|")]).await;
    open.check(&[("MONITOR", "+OK|")]).await;
    admin.say("PING one").await;
    assert!(bob.raw(b"").await.contains("\"one\"") && open.raw(b"").await.contains("\"one\""));
    admin.check(&[("ACL SETUSER bob ~*", "+OK|"), ("PING two", "$3|two|")]).await;
    assert!(bob.raw(b"").await.contains("\"two\""));
    admin.check(&[("ACL SETUSER bob -monitor", "+OK|"), ("ACL SETUSER default -@admin", "+OK|")]).await;
    admin.say("PING three").await;
    for (name, peer) in [("bob", &mut bob), ("default", &mut open)] {
        let refused = format!("-NOPERM User {name} has no permissions to run the 'monitor' command|");
        assert_eq!(peer.raw(b"").await, refused);
    }
    admin.say("PING four").await;
    assert_eq!(bob.raw(b"").await + &open.raw(b"").await, "");
    assert_eq!(shared.monitors.len(), 0);
    bob.check(&[("PING", "+PONG|")]).await;
}

#[tokio::test]
async fn users_are_saved_by_many_at_once() {
    let (_folder, shared) = with_users("user default on nopass ~* +@all");
    let saved = (0..50).map(|_| shared.access.save(shared.engine.runtime()));
    let saved = futures_util::future::join_all(saved).await;
    assert!(saved.iter().all(Result::is_ok), "{saved:?}");
}

/// A command waits for a lock, and its user loses the right to it: it is not done.
#[tokio::test]
async fn what_waited_for_a_lock_needs_its_right_still() {
    async fn done(change: &str, request: &str) -> (String, bool) {
        let shared = server(|_| {});
        let (mut holder, mut admin, mut peer) = (Peer::new(&shared), Peer::new(&shared), Peer::new(&shared));
        admin.say("SET k old\nACL SETUSER bob on nopass ~* +@all").await;
        assert_eq!(peer.say("AUTH bob any").await, "+OK|");
        assert_eq!(holder.say("TXN BEGIN\nTXN LOCK k").await, "+OK|+OK|");
        let answer = {
            let mut waits = Box::pin(peer.say(request));
            for _ in 0..100 {
                assert!(futures_util::poll!(&mut waits).is_pending(), "it waits");
                tokio::task::yield_now().await;
            }
            let changed = admin.say(change).await;
            assert!(changed == "+OK|" || changed == ":1|", "{changed}");
            assert_eq!(holder.say("TXN COMMIT").await, "+OK|");
            waits.await
        };
        (answer, admin.say("GET k").await != "$3|old|")
    }
    let requests = ["SET k new", "APPEND k new", "MSET a 1 k 2", "DEL k", "TXN BEGIN\nSET k new\nTXN COMMIT"];
    for request in requests {
        for change in ["ACL SETUSER bob -@all", "ACL SETUSER bob resetkeys ~a"] {
            let (answer, done) = done(change, request).await;
            assert!(answer.contains("-NOPERM ") && !done, "{change}, {request}: {answer}");
        }
        let (answer, done) = done("ACL SETUSER bob -get", request).await;
        assert!(!answer.contains("NOPERM") && done, "{request}: {answer}");
    }
    for request in ["FLUSHALL", "FLUSHDB", "TXN BEGIN\nTXN LOCK k"] {
        let (answer, done) = done("ACL SETUSER bob -@all", request).await;
        assert!(answer.contains("-NOPERM ") && !done, "{request}: {answer}");
    }
    assert!(done("ACL SETUSER bob -get", "FLUSHALL").await.1, "another right was taken");
    for request in ["SET k new", "FLUSHALL", "MULTI\nSET k new\nEXEC"] {
        let (answer, done) = done("ACL DELUSER bob", request).await;
        assert!(answer.contains("NOAUTH") && !done, "{request}: {answer}");
    }
    let _fault = forebay::mutation::put_back(Some(forebay::mutation::Fault::RightKeptInWait));
    assert!(done("ACL SETUSER bob -set", "SET k new").await.1, "the fault is found");
}

/// A request is read in slices, and its user loses the right to it between two of them: nothing of it is told.
#[tokio::test]
async fn what_is_read_in_slices_needs_its_right_still() {
    async fn told(change: &str) -> String {
        let shared = server(|_| {});
        let (mut admin, mut peer) = (Peer::new(&shared), Peer::new(&shared));
        admin.say("SET k old\nACL SETUSER bob on nopass ~* +@all").await;
        assert_eq!(peer.say("AUTH bob any").await, "+OK|");
        let request = format!("EXISTS{}", " k".repeat(20 * forebay::cache::LOOK_KEYS_MAX));
        let mut reads = Box::pin(peer.say(&request));
        assert!(futures_util::poll!(&mut reads).is_pending(), "it has several slices");
        assert_eq!(admin.say(change).await, "+OK|");
        reads.await
    }
    let found = format!(":{}|", 20 * forebay::cache::LOOK_KEYS_MAX);
    assert_eq!(told("ACL SETUSER bob -get").await, found);
    for change in ["ACL SETUSER bob -exists", "ACL SETUSER bob resetkeys ~a"] {
        assert!(told(change).await.starts_with("-NOPERM "), "{change}");
    }
    let _fault = forebay::mutation::put_back(Some(forebay::mutation::Fault::RightKeptInWait));
    assert_eq!(told("ACL SETUSER bob -exists").await, found, "the fault is found");
}
