//! What clients and operators see of a store that is away, through sessions on the real gate with a real journal.

#[path = "outage/dropped.rs"]
mod dropped;
#[path = "outage/picky.rs"]
mod picky;
#[path = "outage/priority.rs"]
mod priority;
mod support;
#[path = "outage/unseen.rs"]
mod unseen;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::key::Key;
use forebay::outage::{
    BreakerSettings, Description, Gate, GateOptions, GateSettings, Journal, JournalOptions, Mode, RealFolder,
};
use forebay::runtime;
use forebay::store::Store;
use forebay::store::embedded::Durability;
use forebay::store::faulty::{Faults, Faulty};
use forebay::store::memory::Memory;
use forebay::version::Version;
use forebay_server::{Http, Reserved, Shared};
use picky::Picky;
use support::{Peer, server, server_over};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server behind a gate.
struct World {
    shared: Arc<Shared>,
    gate: Gate,
    store: Arc<Picky>,
    _folder: tempfile::TempDir,
}

fn world(faults: Faults, change: impl FnOnce(&mut GateSettings)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime::tokio::runtime(tokio::runtime::Handle::current());
    let inner = Faulty::new(runtime.clone(), Arc::new(Memory::new()), faults, 7);
    let store = Arc::new(Picky { inner, refuses: AtomicBool::new(false) });
    let options =
        JournalOptions { durability: Durability::Never, bytes_max: 64 << 20, description: Description::default() };
    let path = RealFolder::new(folder.path().join("journal")).unwrap();
    let (journal, found) = Journal::open(runtime.clone(), Arc::new(path), options).unwrap();
    let breaker = BreakerSettings { failures_to_open: 1, successes_to_close: 1, pause_ms: 1, pause_ms_max: 4 };
    let mut settings = GateSettings { breaker, ..GateSettings::default() };
    change(&mut settings);
    let options = GateOptions {
        runtime,
        store: store.clone(),
        journal,
        found,
        settings,
        mapping: String::new(),
        opens_late: false,
    };
    let gate = Gate::open(options).unwrap();
    let shared = server_over(Arc::new(gate.clone()), |options| options.gate = Some(gate.clone()));
    World { shared, gate, store, _folder: folder }
}

impl World {
    fn set_down(&self, down: bool) {
        self.store.inner.set_down(down);
    }

    /// Waits for a mode.
    async fn reaches(&self, mode: Mode) {
        let mut changes = self.gate.mode_changes();
        while self.gate.state().mode != mode {
            changes.next().await.unwrap();
        }
    }
}

/// The version in `+APPLIED 1-2|` or its kind.
fn version_of(reply: &str) -> Version {
    reply.trim_end_matches('|').rsplit(' ').next().unwrap().parse().unwrap()
}

const NO_GATE: &str = "-ERR nothing is buffered here: writes to this store are never kept for later|";

#[tokio::test]
async fn without_a_gate_nothing_is_buffered_and_all_commands_answer() {
    let shared = server(|_| {});
    let mut peer = Peer::new(&shared);
    peer.check(&[
        ("CACHE PENDING", "*0|"),
        ("CACHE PENDING k COUNT 5 AFTER 3", "*0|"),
        ("CACHE QUARANTINE LIST", "*0|"),
        ("CACHE QUARANTINE RETRY ALL", ":0|"),
        ("CACHE QUARANTINE RETRY 1", NO_GATE),
        ("CACHE QUARANTINE DROP 1 why", NO_GATE),
        ("CACHE DRAIN RESUME", NO_GATE),
        ("CACHE WAIT 1 0", NO_GATE),
        ("DEBUG STORE FAIL 1", NO_GATE),
        ("CACHE OUTCOME", "+NONE|"),
        ("GET k", "$-1|"),
        ("CACHE OUTCOME", "+NONE|"),
        ("CACHE STRICT ON", "+OK|"),
        ("SET k v", "+OK|"),
        ("CACHE STRICT OFF", "+OK|"),
        ("CACHE NOTIFY ON", "-ERR RESP2 has no messages that answer no request: say HELLO 3 first|"),
        ("CACHE NOTIFY OFF", "+OK|"),
    ])
    .await;
    let first = version_of(&peer.say("CACHE OUTCOME").await);
    // A write that changed nothing is none.
    assert_eq!(peer.say("SETNX k w").await, ":0|");
    assert_eq!(version_of(&peer.say("CACHE OUTCOME").await), first);
    // Of a pipelined write, too.
    assert!(version_of(peer.say("SET k w\nCACHE OUTCOME").await.trim_start_matches("+OK|")) > first);
    assert_eq!(
        peer.say("INCR k\nCACHE OUTCOME").await.split('|').next().unwrap(),
        "-ERR value is not an integer or out of range"
    );
    let state = peer.say("CACHE STATE").await;
    assert!(state.contains("$7|summary|$38|mode normal | nothing is buffered here|$4|mode|$6|normal|"), "{state}");
    assert!(state.contains("$7|pending|:0|") && state.contains("$9|suspended|$-1|"), "{state}");
    let hello = peer.say("HELLO 3\nCACHE NOTIFY ON").await;
    assert!(hello.ends_with("+OK|") && shared.modes.len() == 1, "{hello}");
    assert_eq!(peer.say("RESET\nCACHE OUTCOME").await, "+RESET|+NONE|");
    assert!(shared.modes.is_empty());
}

#[tokio::test]
async fn what_is_taken_unseen_answers_null() {
    let world = world(Faults::default(), |_| ());
    let mut peer = Peer::new(&world.shared);
    peer.check(&[("SET n 40", "+OK|"), ("HSET h a 1", ":1|")]).await;
    world.shared.engine.cache().clear(|_| true);
    world.set_down(true);
    assert!(peer.say("INCR n").await.starts_with("-STOREDOWN"));
    world.reaches(Mode::Failed).await;
    peer.check(&[("HMSET h b 2", "+OK|"), ("CACHE BLIND ON", "+OK|"), ("INCR n", "$-1|"), ("HGET h b", "$1|2|")]).await;
    assert_eq!(world.gate.state().counts.reads_merged, 1, "the field was read from what is buffered");
    peer.check(&[("CACHE STRICT ON", "+OK|")]).await;
    assert!(peer.say("INCR n").await.starts_with("-STOREDOWN"), "what is strict is never buffered");
    peer.check(&[("RESET", "+RESET|"), ("CACHE BLIND x", "-ERR syntax error|")]).await;
    assert!(peer.say("INCR n").await.starts_with("-STOREDOWN"));
    world.set_down(false);
    world.reaches(Mode::Normal).await;
    peer.check(&[("GET n", "$2|41|"), ("HMGET h a b", "*2|$1|1|$1|2|")]).await;
    world.gate.validate();
}

#[tokio::test]
async fn what_is_malformed_or_too_large_is_refused() {
    let mut peer = Peer::new(&server(|_| {}));
    let ticket = "-ERR a ticket is a whole number from 1 on|";
    let syntax = "-ERR syntax error|";
    let arguments = |of: &str| format!("-ERR wrong number of arguments for '{of}' command|");
    let long_reason = format!("CACHE QUARANTINE DROP 1 {}", "x".repeat(1025));
    let long_key = format!("CACHE PENDING {}", "k".repeat(65_537));
    peer.check(&[
        ("CACHE STATE x", &arguments("cache|state")),
        ("CACHE PENDING k COUNT", syntax),
        ("CACHE PENDING k FOO 1", syntax),
        ("CACHE PENDING COUNT x", "-ERR value is not an integer or out of range|"),
        ("CACHE PENDING COUNT 0", "-ERR value is out of range, must be positive|"),
        ("CACHE PENDING COUNT -1", "-ERR value is out of range, must be positive|"),
        ("CACHE PENDING k COUNT 1001", "-LIMIT shown_max 1000|"),
        ("CACHE PENDING AFTER 0", ticket),
        (&long_key, "-LIMIT key_bytes_max 65536|"),
        ("CACHE QUARANTINE", &arguments("cache|quarantine")),
        ("CACHE QUARANTINE FOO", "-ERR unknown subcommand 'FOO'. Try CACHE QUARANTINE HELP.|"),
        ("CACHE QUARANTINE LIST 5", syntax),
        ("CACHE QUARANTINE LIST COUNT 1001", "-LIMIT shown_max 1000|"),
        ("CACHE QUARANTINE RETRY", &arguments("cache|quarantine")),
        ("CACHE QUARANTINE RETRY some", ticket),
        ("CACHE QUARANTINE DROP 1", "-ERR a reason is needed: it is logged, and told to clients that ask for it|"),
        ("CACHE QUARANTINE DROP x why", ticket),
        (&long_reason, "-LIMIT reason_bytes_max 1024|"),
        ("CACHE DRAIN", &arguments("cache|drain")),
        ("CACHE DRAIN STOP", "-ERR unknown subcommand 'STOP'. Try CACHE DRAIN HELP.|"),
        ("CACHE WAIT 1", &arguments("cache|wait")),
        ("CACHE WAIT 0 0", ticket),
        ("CACHE WAIT 99999999999999999999 0", ticket),
        ("CACHE WAIT 1 x", "-ERR timeout is not an integer or out of range|"),
        ("CACHE WAIT 1 -1", "-ERR timeout is negative|"),
        ("CACHE WAIT 1 600001", "-LIMIT wait_ms_max 600000|"),
        ("CACHE OUTCOME x", &arguments("cache|outcome")),
        ("CACHE STRICT", &arguments("cache|strict")),
        ("CACHE STRICT maybe", syntax),
        ("CACHE NOTIFY", &arguments("cache|notify")),
        ("CACHE NOTIFY maybe", syntax),
        ("DEBUG STORE FAIL", &arguments("debug|store")),
        ("DEBUG STORE FOO 1", "-ERR unknown subcommand 'FOO'. Try DEBUG STORE HELP.|"),
        ("DEBUG STORE FAIL x", "-ERR value is not a valid float|"),
        ("DEBUG STORE FAIL nan", "-ERR value is not a valid float|"),
        ("DEBUG STORE FAIL -1", "-ERR value is not a valid float|"),
        ("DEBUG STORE FAIL 86401", "-LIMIT debug_fail_seconds_max 86400|"),
    ])
    .await;
    let blank = peer.raw(b"*5\r\n$5\r\nCACHE\r\n$10\r\nQUARANTINE\r\n$4\r\nDROP\r\n$1\r\n1\r\n$2\r\n \n\r\n").await;
    assert!(blank.starts_with("-ERR a reason is needed"), "{blank}");
}

#[tokio::test]
async fn writes_of_an_outage_are_buffered_shown_waited_for_and_applied() {
    let world = world(Faults::default(), |_| {});
    let mut peer = Peer::new(&world.shared);
    assert_eq!(peer.say("HSET h a b\nSET before v").await, ":1|+OK|");
    let before = version_of(&peer.say("CACHE OUTCOME").await);
    world.set_down(true);
    assert_eq!(peer.say("SET k value\nCACHE OUTCOME").await, "+OK|+BUFFERED 1|");
    assert_eq!(peer.say("TXN BEGIN\nHSET h f v\nSET k2 w\nTXN COMMIT").await, "+OK|:1|+OK|+BUFFERED 2|");
    assert_eq!(peer.say("GET k\nGET before").await, "$5|value|$1|v|");
    let refused = peer.say("GET nowhere").await;
    assert!(refused.starts_with("-STOREDOWN not cached, store unreachable for 0 s"), "{refused}");
    assert_eq!(peer.say("CACHE OUTCOME").await, "+BUFFERED 2|", "a read is no write");
    assert_eq!(peer.say("CACHE WAIT 1 0\nCACHE WAIT 2 1").await, "+PENDING|+PENDING|");
    assert_eq!(peer.say("CACHE WAIT 9 60000").await, "-ERR there is no ticket 9|");

    let state = peer.say("CACHE STATE").await;
    assert!(state.contains("mode failed since 00:00:00 | pending 2 writes ") && state.contains(" | room "), "{state}");
    assert!(state.contains("$4|mode|$6|failed|") && state.contains("$9|documents|:3|"), "{state}");
    assert!(state.contains("$3|why|$21|an outage was ordered|"), "{state}");
    let pending = peer.say("CACHE PENDING").await;
    assert!(pending.starts_with("*2|") && pending.contains("$6|ticket|:1|$5|state|$7|waiting|"), "{pending}");
    let shows = |key: &str, change: &str| format!("${}|{key}|*1|${}|{change}", key.len(), change.len());
    assert!(pending.contains("$1|k|*1|") && pending.contains("put string"), "{pending}");
    assert!(pending.contains(&shows("h", "set a field 1 B")), "{pending}");
    assert!(!pending.contains("value"), "what is written is not shown: {pending}");
    assert!(peer.say("CACHE PENDING COUNT 1").await.starts_with("*2|*12|$6|ticket|:1|"), "and how many more");
    assert!(peer.say("CACHE PENDING AFTER 1").await.starts_with("*1|*12|$6|ticket|:2|"));
    assert!(peer.say("CACHE PENDING k2").await.starts_with("*1|*12|$6|ticket|:2|"));
    assert_eq!(peer.say("CACHE PENDING before").await, "*0|");
    assert!(peer.say("SELECT 1\nCACHE PENDING k2\nSELECT 0").await.contains("+OK|*0|+OK|"));

    // One who waits holds nobody up.
    let mut other = Peer::new(&world.shared);
    let mut waits = Box::pin(other.say("CACHE WAIT 2 600000"));
    assert!(futures_util::FutureExt::now_or_never(&mut waits).is_none());
    world.set_down(false);
    let applied = waits.await;
    assert!(applied.starts_with("+APPLIED ") && version_of(&applied) > before, "{applied}");
    world.reaches(Mode::Normal).await;
    assert_eq!(peer.say("CACHE PENDING\nCACHE OUTCOME").await, "*0|+BUFFERED 2|");
    let state = peer.say("CACHE STATE").await;
    assert!(state.contains("$8|buffered|:2|") && state.contains("$7|applied|:2|"), "{state}");
    assert!(state.contains("$4|mode|$6|normal|") && state.contains("$9|oldest_ms|$-1|"), "{state}");
    let stored = world.store.get(&[Key::new(0, b"k"), Key::new(0, b"h")]).await.unwrap();
    assert!(stored.iter().all(|read| read.value.is_some()), "{stored:?}");
    assert!(peer.say("SET k direct\nCACHE OUTCOME").await.starts_with("+OK|+COMMITTED "));
    world.gate.validate();
}

#[tokio::test]
async fn a_strict_client_is_refused_what_others_have_buffered() {
    let world = world(Faults::default(), |_| {});
    let (mut strict, mut other) = (Peer::new(&world.shared), Peer::new(&world.shared));
    assert_eq!(strict.say("CACHE STRICT ON\nSET a v").await, "+OK|+OK|");
    assert!(strict.say("CACHE OUTCOME").await.starts_with("+COMMITTED "));
    world.set_down(true);
    // Asked and refused, then known to be away.
    for _ in 0..2 {
        let refused = strict.say("SET k v").await;
        assert!(refused.starts_with("-STOREDOWN ") && !refused.contains("BUFFERED"), "{refused}");
    }
    assert_eq!(world.gate.state().mode, Mode::Failed);
    assert_eq!(strict.say("CACHE OUTCOME").await, "+FAILED|");
    let refused = strict.say("MULTI\nSET k v\nSET l v\nEXEC").await;
    assert!(
        refused.starts_with("+OK|+QUEUED|+QUEUED|-STOREDOWN not buffered, as CACHE STRICT wants it, "),
        "{refused}"
    );
    let refused = strict.say("TXN BEGIN\nSET k v\nTXN COMMIT").await;
    assert!(refused.starts_with("+OK|+OK|-STOREDOWN "), "{refused}");
    assert_eq!(world.gate.state().amount.transactions, 0, "nothing is queued");
    assert_eq!(world.shared.engine.locked_keys(), 0);
    assert_eq!(other.say("SET k v\nCACHE OUTCOME").await, "+OK|+BUFFERED 1|");
    assert_eq!(strict.say("GET k").await, "$1|v|", "it reads what others have buffered");
    assert_eq!(strict.say("RESET\nSET l v\nCACHE OUTCOME").await, "+RESET|+OK|+BUFFERED 2|");
    assert_eq!(
        strict.say("CACHE STRICT ON\nCACHE STRICT OFF\nSET l v\nCACHE OUTCOME").await.rsplit_once("+OK|").unwrap().1,
        "+BUFFERED 3|"
    );
}

/// The store may have taken it: a strict client is told so, and it is not kept either. Nobody else has to wait for it.
#[tokio::test]
async fn a_strict_write_without_an_answer_is_unknown_and_in_nobody_elses_way() {
    let faults = Faults { unknown_applied_per_mille: 1000, outcome_per_mille: 1000, ..Faults::default() };
    let world = world(faults, |settings| settings.breaker.failures_to_open = u32::MAX);
    let (mut strict, mut other) = (Peer::new(&world.shared), Peer::new(&world.shared));
    let unknown = strict.say("CACHE STRICT ON\nSET k v").await;
    assert!(unknown.starts_with("+OK|-TXUNKNOWN "), "{unknown}");
    assert!(strict.say("CACHE OUTCOME").await.starts_with("+UNKNOWN "));
    assert_eq!(world.gate.state().amount.transactions, 0);
    assert_eq!(other.say("SET l v\nCACHE OUTCOME").await, "+OK|+BUFFERED 1|");
}

#[tokio::test]
async fn those_who_asked_are_told_of_another_mode() {
    let world = world(Faults::default(), |_| {});
    let (mut told, mut not_told) = (Peer::new(&world.shared), Peer::new(&world.shared));
    assert!(told.say("HELLO 3\nCACHE NOTIFY ON\nCACHE NOTIFY ON").await.ends_with("+OK|+OK|"));
    assert!(not_told.say("HELLO 3").await.starts_with("%7|"));
    assert_eq!(world.shared.modes.len(), 1);
    world.set_down(true);
    assert_eq!(not_told.say("SET k v").await, "+OK|");
    told.session.shown().await;
    assert_eq!(told.say("PING").await, "+PONG|>2|$10|store-mode|$6|failed|");
    assert_eq!(not_told.say("PING").await, "+PONG|");
    assert!(world.shared.modes.is_away());
    world.set_down(false);
    world.reaches(Mode::Normal).await;
    // Recovery may be over before anyone looks.
    let mut pushed = String::new();
    while !pushed.ends_with("$6|normal|") {
        told.session.shown().await;
        pushed = told.say("").await;
        assert!(pushed.starts_with(">2|$10|store-mode|"), "{pushed}");
    }
    assert!(told.say("HELLO 2").await.starts_with("*14|"));
    assert!(world.shared.modes.is_empty(), "RESP2 has no pushes");
    drop(not_told.say("CACHE NOTIFY ON").await);
    drop(not_told);
    assert!(world.shared.modes.is_empty());
}

#[tokio::test]
async fn what_the_store_refuses_waits_for_an_operator() {
    let world = world(Faults::default(), |_| {});
    let mut peer = Peer::new(&world.shared);
    world.set_down(true);
    assert_eq!(peer.say("SET poison v\nSET poison w\nSET fine v\nCACHE OUTCOME").await, "+OK|+OK|+OK|+BUFFERED 3|");
    let waits = "-ERR ticket 3 is not quarantined: it waits for the database|";
    assert_eq!(peer.say("CACHE QUARANTINE RETRY 3\nCACHE QUARANTINE DROP 3 why").await, waits.repeat(2));
    world.store.refuses.store(true, Ordering::SeqCst);
    world.set_down(false);
    assert!(peer.say("CACHE WAIT 3 600000").await.starts_with("+APPLIED "));
    // The second is merged into the first, or waits behind it.
    let told = peer.say("CACHE WAIT 1 600000").await;
    assert_eq!(told, "+QUARANTINED it is poison|");
    world.reaches(Mode::Normal).await;
    let list = peer.say("CACHE QUARANTINE LIST").await;
    assert!(
        list.starts_with("*1|*12|$6|ticket|:") && list.contains("$11|quarantined|$6|reason|$12|it is poison|"),
        "{list}"
    );
    let ticket: u64 = list.split("ticket|:").nth(1).unwrap().split('|').next().unwrap().parse().unwrap();
    assert_eq!(peer.say(&format!("CACHE QUARANTINE LIST AFTER {ticket}")).await, "*0|");
    let state = peer.say("CACHE STATE").await;
    assert!(
        state.contains("1 quarantined: see CACHE QUARANTINE LIST") && state.contains("|quarantined|:1|"),
        "{state}"
    );
    // Refused again, as it is still poison.
    assert_eq!(peer.say(&format!("CACHE QUARANTINE RETRY {ticket}")).await, ":1|");
    assert_eq!(peer.say(&format!("CACHE WAIT {ticket} 600000")).await, "+QUARANTINED it is poison|");
    world.store.refuses.store(false, Ordering::SeqCst);
    let dropped = peer.say(&format!("CACHE QUARANTINE DROP {ticket} wrong")).await;
    assert_eq!(dropped, "+OK|");
    assert_eq!(peer.say(&format!("CACHE WAIT {ticket} 0")).await, "+DROPPED wrong|");
    assert_eq!(peer.say("CACHE QUARANTINE RETRY ALL\nCACHE QUARANTINE LIST").await, ":0|*0|");
    world.gate.validate();
}

#[tokio::test]
async fn a_drill_begins_and_ends_when_it_is_told_to() {
    let world = world(Faults::default(), |_| {});
    let mut peer = Peer::new(&world.shared);
    assert_eq!(peer.say("DEBUG STORE FAIL 600").await, "+OK|");
    assert_eq!(world.gate.state().mode, Mode::Failed);
    assert_eq!(peer.say("SET k v\nCACHE OUTCOME").await, "+OK|+BUFFERED 1|");
    assert_eq!(peer.say("DEBUG STORE FAIL 0").await, "+OK|");
    assert!(peer.say("CACHE WAIT 1 600000").await.starts_with("+APPLIED "));
    world.reaches(Mode::Normal).await;
    assert_eq!(peer.say("CACHE DRAIN RESUME").await, "-ERR nothing stands in the way of what is buffered|");
    assert_eq!(
        peer.say("TXN BEGIN\nCACHE WAIT 1 1\nTXN ABORT").await,
        "+OK|-ERR CACHE WAIT inside TXN is not allowed|+OK|"
    );
}

#[tokio::test]
async fn a_full_buffer_says_so_and_keeps_nothing() {
    let world = world(Faults::default(), |settings| settings.bytes_max = 2000);
    let mut peer = Peer::new(&world.shared);
    world.set_down(true);
    assert_eq!(peer.say("SET k v").await, "+OK|");
    let full = peer.say(&format!("SET l {}", "x".repeat(2000))).await;
    assert!(full.starts_with("-BUFFERFULL "), "{full}");
    assert_eq!(peer.say("CACHE OUTCOME").await, "+FAILED|");
    assert_eq!(world.gate.state().amount.transactions, 1);
    assert!(peer.say("CACHE STATE").await.contains("$4|full|:1|"));
}

async fn http(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn readiness_info_and_metrics_tell_the_mode() {
    let world = world(Faults::default(), |_| {});
    let mut peer = Peer::new(&world.shared);
    let reserved = Reserved::http((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = Http::bind(reserved, &[], world.shared.clone()).unwrap();
    let (address, _) = (listener.address(), tokio::spawn(listener.run()));
    for path in ["/readyz", "/readyz?strict=1", "/readyz?x&strict"] {
        let ready = http(address, path).await;
        assert!(ready.starts_with("HTTP/1.1 200 ") && ready.contains("\r\n\r\nready, mode normal since "), "{ready}");
    }
    world.set_down(true);
    assert_eq!(peer.say("SET k v").await, "+OK|");
    while !world.shared.modes.is_away() {
        tokio::task::yield_now().await;
    }
    // The first is asked of the store, the second is not.
    for _ in 0..2 {
        assert!(peer.say("GET nowhere").await.starts_with("-STOREDOWN "));
    }
    assert_eq!(peer.say("GET k").await, "$1|v|");
    let ready = http(address, "/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 200 ") && ready.contains("ready, mode failed since "), "{ready}");
    let strict = http(address, "/readyz?strict=1").await;
    assert!(strict.starts_with("HTTP/1.1 503 ") && strict.contains("\r\n\r\nmode failed since "), "{strict}");
    let metrics = http(address, "/metrics").await;
    for line in [
        "forebay_store_mode{mode=\"normal\"} 0",
        "forebay_store_mode{mode=\"failed\"} 1",
        "forebay_store_outages_total 1",
        "forebay_requests_while_down_total 3",
        "forebay_errors_while_down_total 2",
        "forebay_reads_while_down_total 1",
        "forebay_outage_pending_transactions 1",
        "forebay_outage_pending_documents 1",
        "forebay_outage_buffered_total 1",
        "forebay_outage_applied_total 0",
        "forebay_outage_quarantined_transactions 0",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}\n{metrics}");
    }
    assert!(metrics.contains("\nforebay_outage_oldest_age_seconds "), "{metrics}");
    let info = peer.say("INFO forebay outage").await;
    assert!(info.contains("|mode:failed|") && info.contains("|# Outage|outage_summary:mode failed since "), "{info}");
    assert!(info.contains("|outage_pending:1|") && info.contains("|outage_buffered_total:1|"), "{info}");
    world.set_down(false);
    world.reaches(Mode::Normal).await;
    assert!(http(address, "/readyz?strict=1").await.starts_with("HTTP/1.1 200 "));
    world.shared.stopping.set();
}

#[tokio::test]
async fn an_id_tells_what_became_of_its_transaction() {
    const ID: &str = "01234567-89ab-cdef-0123-456789abcdef";
    let shared = server(|_| {});
    let (mut peer, mut again) = (Peer::new(&shared), Peer::new(&shared));
    let wrong = "-ERR a transaction's id is a UUID, or 32 hexadecimal digits|";
    peer.check(&[
        ("TXN BEGIN ID", "-ERR syntax error|"),
        ("TXN BEGIN ID 7", wrong),
        ("TXN BEGIN ID +1234567-89ab-cdef-0123-456789abcdef", wrong),
        ("TXN BEGIN ID 01234567-89ab-cdef-0123-456789abcdef0", wrong),
    ])
    .await;
    let begin = format!("TXN BEGIN ID {ID}");
    // Aborted, and of a client that went away: as if it had never been.
    assert_eq!(peer.say(&format!("{begin}\nSET k a\nTXN ABORT\n{begin}")).await, "+OK|+OK|+OK|+OK|");
    assert_eq!(again.say(&begin).await, "-TXCONFLICT the transaction with this id is not over, retry|");
    drop(peer);
    assert!(again.say(&format!("{begin}\nINCR n\nTXN COMMIT")).await.starts_with("+OK|:1|+OK 1-"));
    let version = version_of(&again.say("CACHE OUTCOME").await);

    // Who sends all of it again changes nothing, and is told the same at the end.
    let mut peer = Peer::new(&shared);
    let repeated = peer.say(&format!("{begin}\nINCR n\nTXN COMMIT\nGET n")).await;
    let over = format!("-TXABORTED this id has ended before: COMMITTED {version}|");
    assert_eq!(repeated, format!("+COMMITTED {version}|{over}+OK {version}|$1|1|"));
    assert_eq!(peer.say(&format!("{begin}\nTXN ABORT\nGET n")).await, format!("+COMMITTED {version}|+OK|$1|1|"));
    // It need not be ended before the next one.
    let next = "TXN BEGIN TYPE other ID 0123456789abcdef0123456789abcde0";
    assert_eq!(peer.say(&format!("{begin}\n{next}\nTXN COMMIT")).await, format!("+COMMITTED {version}|+OK|+OK|"));
}

#[tokio::test]
async fn an_id_follows_its_transaction_through_an_outage() {
    let world = world(Faults::default(), |_| {});
    let (mut peer, mut again) = (Peer::new(&world.shared), Peer::new(&world.shared));
    let begin = "TXN BEGIN ID ffffffffffffffffffffffffffffffff";
    world.set_down(true);
    assert_eq!(peer.say(&format!("{begin}\nSET k v\nTXN COMMIT")).await, "+OK|+OK|+BUFFERED 1|");
    assert_eq!(again.say(&format!("{begin}\nTXN COMMIT")).await, "+BUFFERED 1|+BUFFERED 1|");
    world.set_down(false);
    let version = version_of(&again.say("CACHE WAIT 1 600000").await);
    let over = format!("+COMMITTED {version}|+OK {version}|");
    assert_eq!(again.say(&format!("{begin}\nTXN COMMIT")).await, over);
}
