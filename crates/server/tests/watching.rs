//! Forebay's own commands: HINT and CACHE; and what is measured.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use forebay::key::KeyRef;
use forebay::store::memory::Memory;
use forebay_server::metrics;
use forebay_trace::fbt::Reader;
use forebay_trace::{Kind, Record, TraceKey};
use support::{Peer, server, server_with};

#[tokio::test]
async fn explain_tells_what_is_cached_and_reset_leaves_the_store_alone() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("CACHE EXPLAIN k").await, "$27|not cached | policy s3-fifo|");
    peer.say("SET k v\nGET none").await;
    let line = peer.say("CACHE EXPLAIN k").await;
    let (_, charged, _) = shared.engine.cache().explain(KeyRef { space: 0, name: b"k" }).unwrap();
    assert!(
        line.contains(&format!("|hit | version 1-1 | size {charged} B | type string | policy s3-fifo: ")),
        "{line}"
    );
    assert!(peer.say("CACHE EXPLAIN none").await.contains("|absent | version "));
    assert!(peer.say("CACHE STATS").await.contains("$7|entries|:2|"));
    assert_eq!(peer.say("CACHE RESET").await, "+OK|");
    assert!(peer.say("CACHE STATS").await.contains("$7|entries|:0|"));
    assert_eq!(peer.say("GET k").await, "$1|v|");
    shared.engine.validate();
}

#[tokio::test]
async fn hints_have_clear_errors() {
    let mut peer = Peer::new(&server(|_| {}));
    peer.check(&[
        ("HINT SET 1 orders", "-ERR HINT SET needs a schema; name the hint types with HINT SCHEMA first|"),
        ("HINT USE 1", "-ERR HINT USE needs a schema; name the hint types with HINT SCHEMA first|"),
        ("HINT SCHEMA shop", "-ERR wrong number of arguments for 'hint|schema' command|"),
        ("HINT SCHEMA shop table op", "+OK|"),
        ("HINT SET 1 orders", "-ERR the hint schema has 2 types, but 1 values are given|"),
        ("HINT SET 1 orders read", "+OK|"),
        ("HINT USE 2", "-ERR no hint set '2' in this schema; define it with HINT SET|"),
        ("HINT DEFAULT 2", "-ERR no hint set '2' in this schema; define it with HINT SET|"),
        ("HINT SCHEMA shop table", "-ERR hint schema 'shop' has types table op; choose another name|"),
        ("HINT FOO", "-ERR unknown subcommand 'FOO'. Try HINT HELP.|"),
    ])
    .await;
    assert_eq!(peer.say("HINT USE 1").await, "+OK|");
    assert_eq!(peer.session.context().hints.0, 1);
    peer.say("GET k").await;
    assert_eq!(peer.session.context().hints.0, 0, "for one command only");
    // On the cached path too.
    peer.say("HINT USE 1\nGET k").await;
    assert_eq!(peer.session.context().hints.0, 0);
    peer.say("HINT DEFAULT 1\nGET k").await;
    assert_eq!(peer.session.context().hints.0, 1);
    peer.say("HINT DEFAULT").await;
    assert_eq!(peer.session.context().hints.0, 0);
    // The script has the hints that are said before its EXEC.
    assert_eq!(peer.say("MULTI\nGET k\nHINT USE 1").await, "+OK|+QUEUED|+OK|");
    assert_eq!(peer.session.context().hints.0, 1);
    assert_eq!(peer.say("EXEC").await, "*1|$-1|");
    peer.say("RESET").await;
    assert!(peer.say("HINT USE 1").await.starts_with("-ERR HINT USE needs a schema"));
}

/// One connection defines the ids, and others of its user use them. Those of another schema are others, and a
/// connection keeps none: a crowd of them takes no more than one.
#[tokio::test]
async fn hint_ids_are_those_of_a_user_and_a_schema() {
    let shared = server(|_| {});
    let (mut one, mut other) = (Peer::new(&shared), Peer::new(&shared));
    assert_eq!(one.say("HINT SCHEMA shop table\nHINT SET 1 orders").await, "+OK|+OK|");
    assert_eq!(other.say("HINT SCHEMA shop table\nHINT USE 1").await, "+OK|+OK|");
    assert_eq!(other.session.context().hints.0, 1);
    assert!(other.say("HINT SCHEMA else table\nHINT USE 1").await.starts_with("+OK|-ERR no hint set '1'"));
    assert_eq!(other.say("HINT SET 1 orders\nHINT USE 1").await, "+OK|+OK|");
    assert_eq!((other.session.context().hints.0, one.say("HINT USE 1").await.as_str()), (2, "+OK|"));
    assert_eq!(one.session.context().hints.0, 1);
    // What they take is bounded for each user and schema, whatever the number of connections.
    let mut refused = 0;
    for connection in 0..5 {
        let mut peer = Peer::new(&shared);
        peer.say("HINT SCHEMA shop table").await;
        for number in 0..1_000 {
            let answer = peer.say(&format!("HINT SET {connection}:{number} orders")).await;
            assert!(answer == "+OK|" || answer == "-LIMIT hint_ids_max 4096|", "{answer}");
            refused += u64::from(answer != "+OK|");
        }
    }
    assert_eq!((refused, shared.labels.hints_refused()), (5_001 - 4_096, 5_001 - 4_096));
    // A new user of these ids is not an old one.
    assert_eq!(one.say("ACL SETUSER another on nopass +@all ~*\nAUTH another x").await, "+OK|+OK|");
    one.say("HINT SCHEMA shop table").await;
    assert!(one.say("HINT USE 1").await.starts_with("-ERR no hint set '1'"));
}

/// What a client has said of its hints goes when it is another user, and a user's ids go with it.
#[tokio::test]
async fn hints_do_not_outlive_their_user() {
    let shared = server(|_| {});
    let (mut admin, mut peer) = (Peer::new(&shared), Peer::new(&shared));
    admin.say("ACL SETUSER bob on nopass +@all ~*\nACL SETUSER eve on nopass +@all ~*").await;
    let defined = "HINT SCHEMA shop table\nHINT SET 1 orders\nHINT DEFAULT 1";
    assert_eq!(peer.say("AUTH bob any").await, "+OK|");
    assert_eq!(peer.say(defined).await, "+OK|+OK|+OK|");
    peer.say("AUTH bob any\nGET k").await;
    assert_eq!(peer.session.context().hints.0, 1, "it is bob still");
    assert_eq!(peer.say("AUTH eve any\nGET k").await, "+OK|$-1|");
    assert_eq!(peer.session.context().hints.0, 0);
    assert!(peer.say("HINT USE 1").await.starts_with("-ERR HINT USE needs a schema"));
    // Bob goes, and comes back: it is another one, over the wire and where the file is read again.
    assert_eq!(admin.say("ACL DELUSER bob\nACL SETUSER bob on nopass +@all ~*").await, ":1|+OK|");
    assert_eq!(peer.say("AUTH bob any\nHINT SCHEMA shop table").await, "+OK|+OK|");
    assert!(peer.say("HINT USE 1").await.starts_with("-ERR no hint set '1'"));
    assert_eq!(peer.say(defined).await, "+OK|+OK|+OK|");
    assert_eq!((peer.session.context().hints.0, shared.labels.hints_len()), (1, (1, 1)), "the set is what it was");
}

/// The policy learns from hints on the wire, of reads and of writes, and says what; EXPLAIN names hint set and
/// priority.
#[tokio::test]
async fn a_policy_learns_from_hints_on_the_wire() {
    for name in ["clic", "clic-top-k", "clic-tree", "clic-g"] {
        let shared = server_with(Arc::new(Memory::new()), &format!("{name}:window=100"), 1, |_| {});
        let mut peer = Peer::new(&shared);
        assert!(!peer.say("CACHE STATS").await.contains("|learned|"), "{name}: nothing yet");
        peer.say("HINT SCHEMA shop table op\nHINT SET w orders write\nHINT SET r orders read\nHINT SET l log write")
            .await;
        for round in 0..80 {
            let (order, line) = (round % 10, 1000 + round);
            peer.say(&format!("HINT USE w\nSET order:{order} v\nHINT USE r\nGET order:{order}")).await;
            peer.say(&format!("HINT USE l\nSET log:{line} v")).await;
        }
        let stats = peer.say("CACHE STATS").await;
        let place = |text: &str| stats.find(text).unwrap_or_else(|| panic!("{name}: no {text} in {stats}"));
        assert!(place("|learned|") < place("table=orders op=write"), "{name}");
        // An order that was written is read at once; a line of the log never is, which those that group hint sets know
        // only once it is forgotten.
        let groups = matches!(name, "clic-tree" | "clic-g");
        assert!(groups || place("table=orders op=write|") < place("table=log op=write|"), "{name}: by priority");
        let explained = peer.say("CACHE EXPLAIN order:3").await;
        let reason = format!("| policy {name}: last asked for ");
        assert!(
            explained.contains(&reason) && explained.contains("with table=orders op=read: priority "),
            "{explained}"
        );
        let priority = if groups { "" } else { "0.000e0" };
        let reason = format!("table=log op=write: priority {priority}");
        assert!(peer.say("CACHE EXPLAIN log:1079").await.contains(&reason), "{name}");
        // A reset forgets what was learned, not what hints mean.
        assert_eq!(peer.say("CACHE RESET").await, "+OK|");
        assert!(!peer.say("CACHE STATS").await.contains("|learned|"), "{name}");
        peer.say("HINT USE r\nGET order:3").await;
        assert!(peer.say("CACHE EXPLAIN order:3").await.contains("table=orders op=read"), "{name}");
        shared.engine.validate();
    }
}

/// Kind, key and the fields that matter here.
fn essence(record: &Record) -> (Kind, String, u16, u16, u32) {
    let key = match &record.key {
        TraceKey::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    (record.kind, key, record.level, record.vertex, record.hints)
}

#[tokio::test]
async fn a_trace_holds_what_clients_accessed() {
    let folder = tempfile::tempdir().unwrap();
    let shared = server(|options| options.trace_dir = Some(folder.path().to_owned()));
    let mut peer = Peer::new(&shared);
    peer.check(&[
        ("CACHE TRACE START ../x", "-ERR a trace's name is letters, digits, '.', '_' and '-', not beginning with '.'|"),
        ("CACHE TRACE START x 5", "-ERR a duration is a whole number and ms, s, m or h, up to 168h|"),
        ("CACHE TRACE STOP", "-ERR no trace is being recorded|"),
        ("GET unrecorded", "$-1|"),
        ("CACHE TRACE START shop.fbt 1h", "+OK|"),
        ("CACHE TRACE START other.fbt", "-ERR a trace is being recorded; end it with CACHE TRACE STOP first|"),
        ("SET a 12345", "+OK|"),
        ("HINT SCHEMA shop table", "+OK|"),
        ("HINT SET 1 orders", "+OK|"),
        ("HINT USE 1", "+OK|"),
        ("GET a", "$5|12345|"),
        ("GET none", "$-1|"),
        ("TXN BEGIN TYPE checkout", "+OK|"),
        ("TXN STEP cart", "+OK|"),
        ("GET a", "$5|12345|"),
    ])
    .await;
    let mode = std::fs::metadata(folder.path().join("shop.fbt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may not read it");
    peer.session.open.replies_written();
    peer.say("GET b\nSET c 1").await;
    assert!(peer.say("TXN COMMIT").await.starts_with("+OK "));
    peer.say("TXN BEGIN\nGET a\nTXN ABORT\nMULTI\nSET d 1\nGET a\nEXEC").await;
    let stopped = peer.say("CACHE TRACE STOP").await;
    assert!(stopped.contains("$8|shop.fbt|$7|records|:15|$7|dropped|:0|"), "{stopped}");
    assert_eq!(shared.attention.get(), 0);
    peer.say("GET a").await;

    let mut reader = Reader::new(std::fs::File::open(folder.path().join("shop.fbt")).unwrap()).unwrap();
    let records: Vec<Record> = reader.by_ref().collect::<Result<_, _>>().unwrap();
    use Kind::{Aborted, Committed, Read, Write};
    let expected = [
        (Write, "a", 0, 0, 0),
        (Committed, "", 0, 0, 0),
        (Read, "a", 0, 0, 1),
        (Committed, "", 0, 0, 1),
        (Read, "none", 0, 0, 0),
        (Committed, "", 0, 0, 0),
        (Read, "a", 0, 1, 0),
        (Read, "b", 1, 1, 0),
        (Write, "c", 2, 1, 0),
        (Committed, "", 1, 1, 0),
        (Read, "a", 0, 0, 0),
        (Aborted, "", 0, 0, 0),
        (Read, "a", 0, 0, 0),
        (Write, "d", 1, 0, 0),
        (Committed, "", 0, 0, 0),
    ];
    let found: Vec<_> = records.iter().map(essence).collect();
    let expected: Vec<_> =
        expected.map(|(kind, key, level, vertex, hints)| (kind, key.to_owned(), level, vertex, hints)).into();
    assert_eq!(found, expected);
    assert_eq!(records[0].size, records[2].size);
    assert_eq!(records[4].size, None, "what is not there has no size");
    let numbers: Vec<u64> = records.iter().map(|record| record.txn).collect();
    assert!(numbers[6..10].iter().all(|number| *number == numbers[6]) && numbers[5] != numbers[6]);
    assert!(records.windows(2).all(|pair| pair[0].time_us <= pair[1].time_us));
    let dictionary = reader.dictionary();
    assert_eq!(dictionary.hint_schema(1).unwrap().types, ["table"]);
    assert_eq!(dictionary.hint_set(1).unwrap().values, ["orders"]);
    assert_eq!(dictionary.txn_type(records[6].txn_type).unwrap(), "checkout");
    assert_eq!(dictionary.vertex(records[6].txn_type, 1).unwrap(), "cart");
    assert!(peer.say("CACHE TRACE START shop.fbt").await.starts_with("-ERR there is a trace of this name"));
}

#[tokio::test]
async fn a_trace_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let shared = server(|options| options.trace_dir = Some(folder.path().to_owned()));
    let mut peer = Peer::new(&shared);
    assert_eq!(peer.say("CACHE TRACE START short.fbt 1ms").await, "+OK|");
    while peer.say("CACHE TRACE STATUS").await.contains("running|:1|") {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let records: Result<Vec<Record>, _> =
        Reader::new(std::fs::File::open(folder.path().join("short.fbt")).unwrap()).unwrap().collect();
    assert!(records.is_ok(), "the file is whole");
}

#[tokio::test]
async fn without_a_directory_traces_are_refused() {
    let mut peer = Peer::new(&server(|_| {}));
    let refused = "-ERR no directory for traces; start the server with --trace-dir|";
    assert_eq!(peer.say("CACHE TRACE START x").await, refused);
    assert!(peer.say("CACHE TRACE STATUS").await.contains("running|:0|"));
}

#[tokio::test]
async fn metrics_follow_the_text_format() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.say("SET k v").await;
    peer.say("GET k\nGET k\nNOTHING").await;
    let text = metrics::prometheus(&shared);
    for line in [
        "forebay_cache_hits_total 2",
        "forebay_command_calls_total{command=\"get\"} 2",
        "forebay_command_calls_total{command=\"unknown\"} 1",
        "forebay_command_errors_total{command=\"unknown\"} 1",
        "forebay_command_waited_total{command=\"set\"} 1",
        "forebay_command_wait_seconds_bucket{le=\"+Inf\"} 1",
        "forebay_command_wait_seconds_count 1",
        "forebay_info{policy=\"s3-fifo\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    for metric in metrics::all() {
        assert!(text.contains(&format!("# TYPE {} ", metric.name)));
        let counts = metric.kind == metrics::Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), counts, "{}", metric.name);
    }
}

#[test]
fn the_document_lists_the_metrics_that_there_are() {
    const BEGIN: &str = "<!-- metrics: made from METRICS of forebay-server; FOREBAY_UPDATE_DOCS=1 cargo test -p \
        forebay-server -->\n";
    const END: &str = "<!-- metrics end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the marker before the table");
    let (_, after) = rest.split_once(END).expect("the marker after the table");
    let fresh = format!("{before}{BEGIN}{}{END}{after}", metrics::markdown_table());
    if std::env::var_os("FOREBAY_UPDATE_DOCS").is_some() {
        std::fs::write(path, fresh).unwrap();
    } else {
        assert_eq!(text, fresh, "docs/metrics.md is stale; run with FOREBAY_UPDATE_DOCS=1");
    }
}
