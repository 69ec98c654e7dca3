//! Commands of the connection and of the server, over raw RESP. Expected texts and shapes without a remark are those of
//! redis-server 7.0.15.

mod support;

use std::time::Duration;

use forebay_server::cursors::CURSORS_MAX;
use support::{Peer, server};

const HELLO_2: &str = "*14|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:2|$2|id|:1|$4|mode|$10|standalone|\
    $4|role|$6|master|$7|modules|*0|";
const HELLO_3: &str = "%7|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:3|$2|id|:1|$4|mode|$10|standalone|\
    $4|role|$6|master|$7|modules|*0|";

#[tokio::test]
async fn handshakes_of_clients_pipelined_as_they_send_them() {
    let maintenance = "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.|";
    let cases = [
        // redis-py 8.1
        (
            "HELLO 3\nCLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip\nCLIENT SETNAME app\n\
             CLIENT SETINFO LIB-NAME redis-py\nCLIENT SETINFO LIB-VER 8.1.0\nSELECT 1",
            format!("{HELLO_3}{maintenance}+OK|+OK|+OK|+OK|"),
        ),
        // node-redis 6.3
        (
            "HELLO 3\nCLIENT SETINFO LIB-VER 6.3.1\nCLIENT SETINFO LIB-NAME node-redis\n\
             CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip",
            format!("{HELLO_3}+OK|+OK|{maintenance}"),
        ),
        // ioredis 6.0; its ready check is in `info_says_what_ready_checks_read`
        (
            "hello 3\nclient SETINFO LIB-VER 6.0.0\nclient SETINFO LIB-NAME ioredis\nselect 2",
            format!("{HELLO_3}+OK|+OK|+OK|"),
        ),
        // go-redis 9.22
        (
            "HELLO 3 AUTH default secret SETNAME app\nSELECT 3\nCLIENT TRACKING ON\nCLIENT MAINT_NOTIFICATIONS ON\n\
             CLIENT SETINFO LIB-NAME go-redis(,go1.24)\nCLIENT SETINFO LIB-VER 9.22.0",
            format!("{HELLO_3}+OK|+OK|{maintenance}+OK|+OK|"),
        ),
        // redis-rs 1.6, which speaks RESP2 unless told otherwise
        ("SELECT 4\nCLIENT SETINFO LIB-NAME redis-rs\nCLIENT SETINFO LIB-VER 1.6.0", "+OK|+OK|+OK|".to_owned()),
        // redis-benchmark
        ("CONFIG GET save\nCONFIG GET appendonly\nPING", "*2|$4|save|$0||*2|$10|appendonly|$2|no|+PONG|".to_owned()),
    ];
    for (sent, expected) in cases {
        let mut peer = Peer::new(&server(|_| {}));
        assert_eq!(peer.say(sent).await, expected, "{sent}");
        assert_eq!(peer.say("ECHO on").await, "$2|on|");
    }
}

#[tokio::test]
async fn hello_auth_and_reset() {
    let mut peer = Peer::new(&server(|_| {}));
    let no_password = "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
        your configuration is correct?|";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.|";
    peer.check(&[
        ("HELLO", HELLO_2),
        ("HELLO 4", "-NOPROTO unsupported protocol version|"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range|"),
        ("HELLO 3 AUTH nobody x", wrong),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'|"),
        ("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'|"),
        ("HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'|"),
        // What was refused has changed nothing.
        ("CLIENT GETNAME", "$-1|"),
        ("HELLO 3 SETNAME app", HELLO_3),
        ("CLIENT GETNAME", "$3|app|"),
        ("AUTH x", no_password),
        ("AUTH default x", "+OK|"),
        ("AUTH nobody x", wrong),
        ("AUTH a b c", "-ERR syntax error|"),
        ("SELECT 3", "+OK|"),
        ("MULTI", "+OK|"),
        ("RESET", "+RESET|"),
        ("EXEC", "-ERR EXEC without MULTI|"),
        ("CLIENT GETNAME", "$-1|"),
    ])
    .await;
    assert_eq!((peer.session.space, peer.session.protocol.number()), (0, 2));
}

#[tokio::test]
async fn client_subcommands() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    let mut other = Peer::new(&shared);
    peer.check(&[
        ("CLIENT", "-ERR wrong number of arguments for 'client' command|"),
        ("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.|"),
        ("CLIENT ID", ":1|"),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command|"),
        ("CLIENT LIST TYPE pubsub", "$0||"),
        ("CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'|"),
        ("CLIENT LIST ID x", "-ERR Invalid client ID|"),
        ("CLIENT LIST FOO", "-ERR syntax error|"),
        ("CLIENT SETNAME a\u{e4}", "-ERR Client names cannot contain spaces, newlines or special characters.|"),
        ("CLIENT SETNAME ab", "+OK|"),
        ("CLIENT NO-EVICT ON", "+OK|"),
        ("CLIENT NO-EVICT FOO", "-ERR syntax error|"),
        ("CLIENT KILL 1.2.3.4:5", "-ERR No such client|"),
        ("CLIENT KILL ID", "-ERR No such client|"),
        ("CLIENT KILL ID 99", ":0|"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0|"),
        ("CLIENT KILL ID 4 LADDR", "-ERR syntax error|"),
        ("CLIENT KILL USER foo", "-ERR No such user 'foo'|"),
        ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0|"),
        ("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range|"),
        ("CLIENT KILL MAXAGE 9223372036854775807", ":0|"),
        ("CLIENT KILL TYPE foo x y", "-ERR Unknown client type 'foo'|"),
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range|"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative|"),
        ("CLIENT PAUSE 10 FOO", "-ERR CLIENT PAUSE mode must be WRITE or ALL|"),
        // Our own bound.
        ("CLIENT PAUSE 600001", "-LIMIT pause_ms_max 600000|"),
        ("CLIENT REPLY FOO", "-ERR syntax error|"),
    ])
    .await;
    assert_eq!(peer.say("CLIENT REPLY SKIP\nPING\nPING").await, "+PONG|");
    assert_eq!(peer.say("CLIENT REPLY OFF\nPING\nCLIENT REPLY SKIP\nPING\nPING\nCLIENT REPLY ON").await, "+OK|");
    let list = peer.say("CLIENT LIST").await;
    assert!(list.contains("id=1 addr=127.0.0.1:") && list.contains("name=ab") && list.contains("id=2 "), "{list}");
    assert!(!other.session.client.is_killed());
    let old = Peer::new(&shared);
    let id = old.session.client.id;
    assert_eq!(peer.say(&format!("CLIENT KILL ID {id} MAXAGE 9223372036854775807")).await, ":0|");
    assert!(!old.session.client.is_killed());
    assert_eq!(peer.say(&format!("CLIENT KILL ID {id} MAXAGE 1")).await, ":1|");
    assert!(old.session.client.is_killed());
    drop(old);
    assert_eq!(peer.say("CLIENT KILL TYPE normal").await, ":1|");
    assert!(other.session.client.is_killed());
    let own = peer.session.client.address.clone();
    assert_eq!(peer.say(&format!("CLIENT KILL {own}\nPING")).await, "+OK|");
    assert!(peer.session.closing);
    drop(other.say("PING").await);
}

#[tokio::test]
async fn a_pause_holds_requests_until_it_is_ended() {
    let shared = server(|_| {});
    let (mut peer, mut other) = (Peer::new(&shared), Peer::new(&shared));
    assert_eq!(peer.say("CLIENT PAUSE 600000 WRITE").await, "+OK|");
    assert_eq!(other.say("GET k").await, "$-1|");
    let mut write = Box::pin(other.say("SET k v"));
    assert!(futures_util::FutureExt::now_or_never(&mut write).is_none());
    assert_eq!(peer.say("CLIENT UNPAUSE").await, "+OK|");
    assert_eq!(write.await, "+OK|");
    assert_eq!(shared.attention.get(), 0);
    // Of all requests, and ended by its time.
    assert_eq!(peer.say("CLIENT PAUSE 1").await, "+OK|");
    assert_eq!(other.say("GET k").await, "$1|v|");
}

#[tokio::test]
async fn the_commands_are_shown_in_redis_shapes() {
    let mut peer = Peer::new(&server(|_| {}));
    let get = "*1|*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*3|+@read|+@string|+@fast|*0|*1|*6|$5|flags|*2|+RO|+access|\
        $12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|\
        $7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|";
    let found = get.split_once("$12|").expect("where its key is").1.replacen("$5|index|:1|", "$5|index|:2|", 1);
    let found = found.strip_suffix("*0|").expect("it has no subcommands");
    let usage = format!(
        "*1|*10|$12|memory|usage|:-3|*2|+readonly|+no_multi|:2|:2|:1|\
         *2|+@read|+@slow|*0|*1|*6|$5|flags|*1|+RO|$12|{found}*0|"
    );
    peer.check(&[
        ("COMMAND INFO get", get),
        ("COMMAND INFO nothing memory|nothing get|x memory|usage|x", "*4|$-1|$-1|$-1|$-1|"),
        ("COMMAND INFO Memory|Usage", &usage),
        ("COMMAND GETKEYS get a", "*1|$1|a|"),
        ("COMMAND GETKEYS nothing a", "-ERR Invalid command specified|"),
        ("COMMAND GETKEYS ping", "-ERR The command has no key arguments|"),
        ("COMMAND GETKEYS get a b", "-ERR Invalid number of arguments specified for command|"),
        ("COMMAND LIST FILTERBY PATTERN hel*", "*1|$5|hello|"),
        ("COMMAND LIST FILTERBY PATTERN memory|u*", "*1|$12|memory|usage|"),
        ("COMMAND LIST FILTERBY FOO bar", "-ERR syntax error|"),
        ("COMMAND LIST FILTERBY MODULE bar", "*0|"),
        ("COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.|"),
    ])
    .await;
    let docs = peer.say("COMMAND DOCS get client").await;
    assert!(docs.starts_with("*4|$3|get|*8|$7|summary|") && docs.contains("$11|client|list|"), "{docs}");
    let docs = peer.say("COMMAND DOCS memory|usage memory|nothing").await;
    assert!(docs.starts_with("*2|$12|memory|usage|*8|$7|summary|") && docs.contains("|$3|key|"), "{docs}");
    let count = peer.say("COMMAND COUNT").await;
    let all = peer.say("COMMAND").await;
    assert_eq!(all.split('|').next().unwrap()[1..], count[1..count.len() - 1]);
    for (command, action) in [
        ("CACHE QUARANTINE HELP", "+DROP ticket|ALL reason|"),
        ("CACHE DRAIN help", "+RESUME|"),
        ("CACHE TRACE HELP", "+STOP|"),
        ("DEBUG STORE HELP", "+FAIL seconds|"),
        ("TXN HELP", "+COMMIT|"),
    ] {
        let help = peer.say(command).await;
        assert!(help.starts_with('*') && help.contains(action) && help.contains("Actions are:"), "{command}: {help}");
    }
    for command in ["CACHE QUARANTINE DROP ALL", "CACHE QUARANTINE DROP 4", "CACHE QUARANTINE APPLY 4"] {
        assert!(peer.say(command).await.starts_with("-ERR a reason is needed: "), "{command}");
    }
    let help = peer.say("CLIENT HELP").await;
    assert!(help.contains("|+CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:|"), "{help}");
}

#[tokio::test]
async fn info_says_what_ready_checks_read() {
    let mut peer = Peer::new(&server(|_| {}));
    peer.say("SET k v").await;
    peer.say("GET k\nGET k").await;
    let info = peer.say("INFO").await;
    for line in [
        "redis_version:7.4.0",
        "forebay_version:",
        "loading:0",
        "arch_bits:64",
        "cluster_enabled:0",
        "role:master",
        "connected_clients:1",
        "keyspace_hits:2",
        "policy:s3-fifo",
        "store:memory",
        "mode:normal",
        "db0:keys=1,expires=0,avg_ttl=0",
    ] {
        assert!(info.contains(&format!("|{line}")), "{line} in {info}");
    }
    assert_eq!(peer.say("INFO nothing").await, "$0||");
    assert!(peer.say("INFO commandstats").await.contains("cmdstat_get:calls=2,"));
    assert_eq!(peer.say("CONFIG RESETSTAT").await, "+OK|");
    assert!(peer.say("INFO stats").await.contains("|keyspace_hits:0|"));
    assert!(peer.say("HELLO 3\nINFO server").await.contains("|=")); // RESP3 has a type for text
}

#[tokio::test]
async fn config_shows_much_and_changes_little() {
    let unknown = |name: &str| {
        format!(
            "-ERR Unknown option or number of arguments for CONFIG SET - '{name}'; forebay's settings are given at its \
             start, see forebay serve --help|"
        )
    };
    let mut peer = Peer::new(&server(|_| {}));
    peer.check(&[
        ("CONFIG GET nothing", "*0|"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command|"),
        ("CONFIG GET slowlog*", "*4|$23|slowlog-log-slower-than|$5|10000|$15|slowlog-max-len|$3|128|"),
        ("CONFIG SET foo bar", &unknown("foo")),
        ("CONFIG SET memory 1GiB", &unknown("memory")),
        ("CONFIG SET foo", "-ERR wrong number of arguments for 'config|set' command|"),
        (
            "CONFIG SET databases 3",
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config|",
        ),
        (
            "CONFIG SET slowlog-max-len x",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument couldn't be parsed \
             into an integer|",
        ),
        (
            "CONFIG SET slowlog-log-slower-than -2",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - argument must be \
             between -1 and 9223372036854775807 inclusive|",
        ),
        (
            "CONFIG SET slowlog-log-slower-than 5 slowlog-log-slower-than 7",
            "-ERR CONFIG SET failed (possibly related to argument 'slowlog-log-slower-than') - duplicate parameter|",
        ),
        // All or nothing.
        ("CONFIG SET slowlog-max-len 5 foo 1", &unknown("foo")),
        ("CONFIG GET slowlog-max-len", "*2|$15|slowlog-max-len|$3|128|"),
        ("CONFIG SET slowlog-max-len 5", "+OK|"),
        ("CONFIG GET SLOWLOG-MAX-LEN", "*2|$15|slowlog-max-len|$1|5|"),
    ])
    .await;
    assert!(peer.say("CONFIG REWRITE").await.starts_with("-ERR CONFIG REWRITE is not supported"));
}

#[tokio::test]
async fn scans_walk_the_whole_space_and_refuse_cursors_that_they_do_not_know() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("RANDOMKEY\nSCAN 0\nKEYS *\nDBSIZE").await, "$-1|*2|$1|0|*0|*0|:0|");
    for n in 0..25 {
        peer.say(&format!("SET user:{n} v")).await;
    }
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let reply = peer.say(&format!("SCAN {cursor} COUNT 7 MATCH user:*")).await;
        let parts: Vec<&str> = reply.split('|').collect();
        seen.extend(parts.iter().filter(|part| part.starts_with("user:")).map(|part| part.to_string()));
        // A step may be repeated.
        let again = peer.say(&format!("SCAN {cursor} COUNT 7 MATCH user:*")).await;
        assert_eq!(again.split('|').skip(3).collect::<Vec<_>>(), parts[3..]);
        cursor = parts[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 25);
    peer.check(&[
        ("SCAN x", "-ERR invalid cursor|"),
        ("SCAN 0 MATCH", "-ERR syntax error|"),
        ("SCAN 0 COUNT 0", "-ERR syntax error|"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range|"),
        ("SCAN 0 COUNT 100 TYPE hash", "*2|$1|0|*0|"),
        ("SCAN 0 COUNT 100 TYPE string MATCH user:7", "*2|$1|0|*1|$6|user:7|"),
        (
            "KEYS user:1?",
            "*10|$7|user:10|$7|user:11|$7|user:12|$7|user:13|$7|user:14|$7|user:15|$7|user:16|$7|user:17|\
          $7|user:18|$7|user:19|",
        ),
        ("DBSIZE", ":25|"),
    ])
    .await;
    let unknown = peer.say("SCAN 999999").await;
    assert!(unknown.starts_with("-ERR unknown cursor 999999") && unknown.contains(&CURSORS_MAX.to_string()));
    // A cursor is of one database.
    let reply = peer.say("SCAN 0 COUNT 1").await;
    let cursor = reply.split('|').nth(2).unwrap().to_owned();
    assert!(peer.say(&format!("SELECT 1\nSCAN {cursor}")).await.contains("-ERR unknown cursor"));
    peer.say("SELECT 0").await;
    let mut chosen = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        chosen.insert(peer.say("RANDOMKEY").await);
    }
    assert_eq!(chosen.len(), 25, "each key is chosen some time");
}

#[tokio::test]
async fn what_looks_at_a_space_sees_own_writes_and_is_refused_in_transactions() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("SET a 1\nDBSIZE\nKEYS *\nFLUSHDB\nDBSIZE").await, "+OK|:1|*1|$1|a|+OK|:0|");
    for command in ["SCAN 0", "KEYS *", "DBSIZE", "RANDOMKEY", "FLUSHDB", "FLUSHALL"] {
        let name = command.split(' ').next().unwrap();
        assert_eq!(peer.say("MULTI").await, "+OK|");
        assert_eq!(peer.say(command).await, format!("-ERR {name} inside MULTI is not allowed|"));
        assert!(peer.say("EXEC").await.starts_with("-EXECABORT"));
        assert_eq!(peer.say("TXN BEGIN").await, "+OK|");
        assert_eq!(peer.say(command).await, format!("-ERR {name} inside TXN is not allowed|"));
        assert_eq!(peer.say("TXN ABORT").await, "+OK|");
    }
    peer.say("SET a 1\nSELECT 1\nSET b 1").await;
    peer.check(&[
        ("FLUSHDB FOO", "-ERR syntax error|"),
        ("FLUSHDB ASYNC", "+OK|"),
        ("DBSIZE", ":0|"),
        ("SELECT 0", "+OK|"),
        ("GET a", "$1|1|"),
        ("FLUSHALL SYNC", "+OK|"),
        ("GET a", "$-1|"),
    ])
    .await;
    shared.engine.validate();
}

#[tokio::test]
async fn slow_commands_are_kept_without_secrets() {
    let mut peer = Peer::new(&server(|_| {}));
    peer.say("SET k v").await;
    peer.say("SLOWLOG RESET\nCONFIG SET slowlog-log-slower-than 0\nCLIENT SETNAME me").await;
    peer.say("SLOWLOG RESET").await;
    assert_eq!(peer.say("AUTH default hunter2\nGET k").await, "+OK|$1|v|");
    // Served from the cache at once, so not timed: only AUTH and the RESET before it.
    let entries = peer.say("SLOWLOG GET").await;
    assert!(
        entries.starts_with("*2|*6|") && entries.contains("*3|$4|AUTH|$10|(redacted)|$10|(redacted)|"),
        "{entries}"
    );
    assert!(entries.contains(&format!("{}|$2|me|", peer.session.client.address)) && !entries.contains("hunter2"));
    peer.check(&[
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1|"),
        ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1|"),
        ("CONFIG SET slowlog-log-slower-than -1", "+OK|"),
        ("SLOWLOG RESET", "+OK|"),
        ("SLOWLOG LEN", ":0|"),
        ("LATENCY LATEST", "*0|"),
        ("CONFIG SET latency-monitor-threshold 1", "+OK|"),
        ("DEBUG SLEEP 0.002", "+OK|"),
        ("LATENCY RESET", ":1|"),
        ("LATENCY HISTORY command", "*0|"),
        ("DEBUG SLEEP 61", "-LIMIT debug_sleep_seconds_max 60|"),
        ("DEBUG SLEEP nan", "-ERR value is not a valid float|"),
    ])
    .await;
}

#[tokio::test]
async fn a_monitor_is_shown_requests_but_no_secrets_and_is_dropped_when_it_does_not_read() {
    let shared = server(|_| {});
    let (mut monitor, mut peer) = (Peer::new(&shared), Peer::new(&shared));
    assert_eq!(monitor.say("MONITOR").await, "+OK|");
    assert_eq!(monitor.say("MONITOR").await, "+OK|", "again: each request is shown once");
    peer.say("SELECT 2\nSET k \u{7}\\\"x\nGET k\nAUTH default hunter2\nHELLO 2 AUTH default hunter2\nCONFIG GET save")
        .await;
    monitor.session.take_shown();
    let shown = String::from_utf8(monitor.session.replies.ready_mut().split().to_vec()).unwrap();
    let lines: Vec<&str> = shown.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    assert_eq!(
        lines,
        [
            r#""SELECT" "2""#,
            r#""SET" "k" "\a\\\"x""#,
            r#""GET" "k""#,
            r#""AUTH" "(redacted)" "(redacted)""#,
            r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)""#,
        ]
    );
    assert!(shown.contains(&format!("[2 {}]", peer.session.client.address)), "{shown}");
    let value = "x".repeat(1 << 20);
    for _ in 0..2000 {
        peer.say(&format!("SET k {value}")).await;
        if monitor.session.client.is_killed() {
            break;
        }
    }
    assert!(monitor.session.client.is_killed());
    assert_eq!((shared.monitors.len(), shared.attention.get()), (0, 0));
    let mut second = Peer::new(&shared);
    second.say("MONITOR").await;
    assert_eq!(shared.monitors.len(), 1);
    assert_eq!(second.say("RESET").await, "+RESET|");
    assert_eq!(shared.monitors.len(), 0);
}

#[tokio::test]
async fn small_commands_of_the_server() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.check(&[
        ("WAIT 0 0", ":0|"),
        ("WAIT x 0", "-ERR value is not an integer or out of range|"),
        ("WAIT 1 -1", "-ERR timeout is negative|"),
        ("WAIT 1 x", "-ERR timeout is not an integer or out of range|"),
        ("MEMORY USAGE k", "$-1|"),
        ("MEMORY USAGE k SAMPLES", "-ERR syntax error|"),
        ("ACL WHOAMI", "$7|default|"),
        ("ACL USERS", "*1|$7|default|"),
        ("ACL LIST", "*1|$34|user default on nopass ~* &* +@all|"),
        (
            "ACL GETUSER default",
            "*12|$5|flags|*2|$2|on|$6|nopass|$9|passwords|*0|$8|commands|$5|+@all|$4|keys|$2|~*|$8|channels|$2|&*|\
             $9|selectors|*0|",
        ),
        ("ACL GETUSER foo", "$-1|"),
        ("ACL CAT foo", "-ERR Unknown category 'foo'|"),
        ("ACL SETUSER foo", "+OK|"),
        ("FUNCTION FLUSH", "+OK|"),
        ("FUNCTION FLUSH FOO", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option|"),
        ("SCRIPT FLUSH ASYNC", "+OK|"),
        ("SCRIPT FLUSH FOO", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option|"),
        ("SUBSCRIBE a", "-ERR forebay has no channel but __redis__:invalidate|"),
        ("SELECT 99", "-ERR DB index is out of range|"),
        ("SELECT x", "-ERR value is not an integer or out of range|"),
        ("SHUTDOWN FOO", "-ERR syntax error|"),
    ])
    .await;
    assert!(!shared.stopping.is_set());
    assert_eq!(peer.say("SHUTDOWN NOSAVE").await, "+OK|");
    assert!(shared.stopping.is_set() && peer.session.closing);
    tokio::time::timeout(Duration::from_secs(10), shared.stopping.wait()).await.unwrap();
}

/// As redis-server 7.0.15 does.
#[tokio::test]
async fn reset_ends_what_client_reply_has_said() {
    let mut peer = Peer::new(&server(|_| {}));
    assert_eq!(peer.say("CLIENT REPLY SKIP\nRESET\nPING").await, "+PONG|");
    assert_eq!(peer.say("CLIENT REPLY OFF\nRESET\nPING").await, "+RESET|+PONG|");
}
