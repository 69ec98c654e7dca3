//! What a batch misses is fetched in one round trip of the store, whatever hints and steps stand between its reads.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::Read;
use forebay::key::Key;
use forebay::store::memory::Memory;
use forebay::store::{Caps, Commit, CommitOutcome, ReadError, Store};
use forebay_server::Shared;
use futures_util::future::BoxFuture;
use support::{Peer, server_over, server_with};

/// A store that counts how often it is read.
struct Counting {
    inner: Arc<Memory>,
    reads: AtomicU64,
}

impl Store for Counting {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.get_within(keys, bytes_max)
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        self.inner.commit(group)
    }

    forebay::rest_of_store!(inner);
}

/// A store that holds `k:0` to `k:9` as `v0` to `v9` and counts from here on, and a server that has cached nothing.
async fn filled(policy: &str) -> (Arc<Counting>, Arc<Shared>) {
    let memory = Arc::new(Memory::new());
    let before = server_over(memory.clone(), |_| {});
    let mut peer = Peer::new(&before);
    for number in 0..10 {
        peer.check(&[(&format!("SET k:{number} v{number}"), "+OK|")]).await;
    }
    let store = Arc::new(Counting { inner: memory, reads: AtomicU64::new(0) });
    (store.clone(), server_with(store, policy, 2, |_| {}))
}

/// What one LEASE GET misses is fetched in one round trip, and what is cached in none.
#[tokio::test]
async fn a_lease_get_reads_the_store_once() {
    let (store, shared) = filled("s3-fifo").await;
    let mut peer = Peer::new(&shared);
    let keys: Vec<String> = (0..10).map(|number| format!("k:{number}")).collect();
    let mut asked = 0;
    for (request, reads) in [
        ("LEASE GET 2 k:0 k:1".to_owned(), 1),
        // Some are cached, one is there twice, and one is absent.
        (format!("LEASE GET 12 {} k:3 none", keys.join(" ")), 1),
        (format!("LEASE GET 10 {}", keys.join(" ")), 0),
        (format!("LEASE GET 10 {} HAVE 1-1 1-2", keys.join(" ")), 0),
    ] {
        let said = peer.say(&request).await;
        assert!(said.contains("|v0|") || said.contains("+same"), "{said}");
        let now = store.reads.load(Ordering::SeqCst);
        assert_eq!(now - asked, reads, "{request}");
        asked = now;
    }
}

/// Ten misses in one batch: in front of the first stands `front`, and before each `before`, which answer `+OK`. How
/// often the store was read.
async fn reads_of(policy: &str, prepared: &str, front: &str, before: &str) -> u64 {
    let (store, shared) = filled(policy).await;
    let mut peer = Peer::new(&shared);
    peer.say(prepared).await;
    let start = store.reads.load(Ordering::SeqCst);
    let (mut lines, mut expected) = (String::new(), String::new());
    let mut ask = |line: &str, answer: &str| {
        if !line.is_empty() {
            lines += &format!("{line}\n");
            expected += answer;
        }
    };
    ask(front, "+OK|");
    for number in 0..10 {
        ask(before, "+OK|");
        ask(&format!("GET k:{number}"), &format!("$2|v{number}|"));
    }
    assert_eq!(peer.say(&lines).await, expected);
    store.reads.load(Ordering::SeqCst) - start
}

const HINTS: &str = "HINT SCHEMA app kind\nHINT SET h scan";

#[tokio::test]
async fn hints_and_steps_leave_the_look_ahead_alone() {
    let mut counted = Vec::new();
    for policy in ["s3-fifo", "clic", "detox"] {
        for (prepared, front, before) in [
            ("", "", ""),
            (HINTS, "", "HINT USE h"),
            (HINTS, "HINT DEFAULT h", ""),
            (HINTS, "HINT DEFAULT h", "HINT USE h"),
            (HINTS, "HINT SET i lookup", "HINT DEFAULT"),
            ("TXN BEGIN TYPE T", "", ""),
            ("TXN BEGIN TYPE T", "", "TXN STEP a"),
            ("TXN BEGIN TYPE T", "TXN STEP a", ""),
            ("", "TXN BEGIN TYPE T", "TXN STEP a"),
            (HINTS, "TXN BEGIN TYPE T", "HINT USE h"),
        ] {
            counted.push((policy, front, before, reads_of(policy, prepared, front, before).await));
        }
    }
    let more: Vec<_> = counted.iter().filter(|(.., reads)| *reads != 1).collect();
    assert!(more.is_empty(), "{more:#?}");
}

/// A hint that is refused, and one amid the reads, change nothing about it; what does is seen.
#[tokio::test]
async fn what_is_refused_stops_nothing_and_what_changes_reads_does() {
    let reads = async |lines: &str| {
        let (store, shared) = filled("s3-fifo").await;
        let mut peer = Peer::new(&shared);
        let answers = peer.say(lines).await;
        (answers, store.reads.load(Ordering::SeqCst))
    };
    let (answers, count) = reads("GET k:0\nHINT USE none\nGET k:1\nTXN STEP a\nGET k:2\nHINT\nGET k:3").await;
    assert_eq!(count, 1, "{answers}");
    let texts: Vec<&str> = answers.split('|').filter(|line| !line.starts_with('$')).collect();
    assert_eq!((texts[0], texts[2], texts[4], texts[6]), ("v0", "v1", "v2", "v3"), "{answers}");
    assert!(texts[1].starts_with("-ERR HINT USE needs a schema"), "{answers}");
    assert!(texts[3].starts_with("-ERR TXN STEP without TXN BEGIN"), "{answers}");
    assert!(texts[5].starts_with("-ERR wrong number of arguments"), "{answers}");
    // Of another database than those before.
    let (answers, _) = reads("GET k:0\nGET k:1\nHINT DEFAULT\nSELECT 1\nGET k:2\nGET k:3").await;
    assert_eq!(answers, "$2|v0|$2|v1|+OK|+OK|$-1|$-1|");
}

/// What may not be read is not fetched, whatever stands before it.
#[tokio::test]
async fn what_is_not_permitted_is_not_fetched() {
    let (store, shared) = filled("s3-fifo").await;
    let mut admin = Peer::new(&shared);
    admin.check(&[("ACL SETUSER app on nopass ~k:1 +@read +hint +auth", "+OK|")]).await;
    let mut peer = Peer::new(&shared);
    peer.check(&[("AUTH app x", "+OK|")]).await;
    let answers = peer.say("HINT DEFAULT\nGET k:0\nHINT DEFAULT\nGET k:2").await;
    assert!(answers.matches("-NOPERM").count() == 2 && store.reads.load(Ordering::SeqCst) == 0, "{answers}");
}

/// A batch of reads is one transaction of one level for policies that follow them, with hints as without.
#[tokio::test]
async fn hints_leave_levels_alone() {
    let (_, shared) = filled("detox").await;
    let mut peer = Peer::new(&shared);
    peer.say(HINTS).await;
    let metered = || shared.engine.cache().meter().expect("the policy follows transactions").metered();
    for (batch, transactions) in [
        ("GET k:0\nGET k:1", 1),
        ("HINT USE h\nGET k:2\nHINT USE h\nGET k:3", 1),
        ("HINT DEFAULT h\nGET k:4\nGET k:5", 1),
        ("HINT DEFAULT h\nGET k:6", 1),
        ("HINT DEFAULT h\nHINT DEFAULT", 0),
        ("HINT USE h\nGET k:7\nSET k:8 v", 2),
    ] {
        let before = metered();
        peer.say(batch).await;
        let now = metered();
        let counted = (now.transactions - before.transactions, now.levels - before.levels);
        assert_eq!(counted, (transactions, transactions), "{batch}");
    }
    shared.engine.validate();
}
