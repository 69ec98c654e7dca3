//! Serializable through the real binary: many clients over sockets, the recorded history judged.
//!
//! List-append, bank transfers with auditors, and write skew run at the same time, 16 clients each, on one server per
//! store. Large documents pass through the small cache beside that. So the keys of the workloads are evicted and read
//! again from the store all the time. `FOREBAY_NIGHTLY=1` runs for ten minutes; `FOREBAY_SEED` repeats a run's
//! choices.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::process::Forebay;
use forebay_workload::Client;
use forebay_workload::checkers::bank::Bank;
use forebay_workload::checkers::list_append::{self, ListAppend};
use forebay_workload::checkers::write_skew::WriteSkew;
use forebay_workload::checkers::{Event, Op, RunOptions, Style, Summary, Workload, run};
use forebay_workload::client::Says;

/// Clients of each workload.
const CLIENTS: u32 = 16;

/// How long one history is.
const SLICE: Duration = Duration::from_secs(7);

/// How long the nightly run goes on with new histories.
const NIGHTLY: Duration = Duration::from_secs(600);

/// Transactions of one history at most: a larger one takes long to judge.
const EVENTS_MAX: usize = 40_000;

/// Documents that pass through the cache, and their size: of the cache's 2 MiB one of them leaves little, and the
/// partition that it enters is emptied for it.
const FLOOD_KEYS: u64 = 8;
const FLOOD_BYTES: usize = 1_300_000;

/// Accounts of the bank.
const ACCOUNTS: u64 = 12;

fn seed() -> u64 {
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64 % 1_000_000)
    });
    eprintln!("FOREBAY_SEED={seed} repeats the clients' choices");
    seed
}

fn nightly() -> bool {
    std::env::var_os("FOREBAY_NIGHTLY").is_some()
}

/// Reads and writes large documents until it is stopped, which evicts everything else time and again; counts how often
/// an account of the bank was found evicted.
async fn flood(address: String, seed: u64, evicted: Arc<AtomicU64>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut client = Client::connect(&address).await.expect("it listens");
    let document = vec![b'x'; FLOOD_BYTES];
    loop {
        let key = format!("flood:{}", random.u64(..FLOOD_KEYS));
        let reply = match random.u8(..8) {
            0 => client.demand(&[&b"SET"[..], key.as_bytes(), &document]).await,
            _ => client.demand(&["GET", &key]).await,
        };
        reply.expect("it is answered");
        let account = format!("bank:{seed}:{}", random.u64(..ACCOUNTS));
        let explained = client.demand(&["CACHE", "EXPLAIN", &account]).await.expect("it is answered");
        let absent = explained.bytes().is_some_and(|text| text.starts_with(b"not cached"));
        evicted.fetch_add(absent.into(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs a workload and judges what its clients saw.
async fn judged(workload: Arc<dyn Workload>, address: String, seed: u64) -> (Arc<dyn Workload>, Vec<Event>, Summary) {
    let duration = SLICE;
    let options = RunOptions { clients: CLIENTS, duration, events_max: EVENTS_MAX, seed, ..RunOptions::new(&address) };
    let history = run(workload.clone(), &options).await.unwrap_or_else(|error| panic!("{error}"));
    let judge = workload.clone();
    let judged = tokio::task::spawn_blocking(move || {
        let summary = judge.check(&history);
        (history, summary)
    });
    let (history, summary) = judged.await.expect("the judge does not panic");
    let summary = summary.unwrap_or_else(|violation| panic!("{}, seed {seed}: {violation}", workload.name()));
    eprintln!("{}: {summary:?}", workload.name());
    (workload, history, summary)
}

fn busy(name: &str, summary: &Summary, kinds: &[&str]) {
    assert!(summary.committed > 200, "{name} hardly ran: {summary:?}");
    assert_eq!(summary.unknown, 0, "{name}: the server never went away: {summary:?}");
    for kind in kinds {
        assert!(summary.by_name.contains_key(kind), "{name} never committed '{kind}': {summary:?}");
    }
}

/// All workloads at once, each with a history of its own.
async fn slice(address: &str, seed: u64, evicted: &Arc<AtomicU64>) -> Vec<Event> {
    let flood = tokio::spawn(flood(address.to_owned(), seed, evicted.clone()));
    let (address, both) = (address.to_owned(), [Style::Txn, Style::Multi]);
    let lists: Arc<dyn Workload> = Arc::new(ListAppend::new(&format!("list:{seed}"), 12));
    let bank: Arc<dyn Workload> = Arc::new(Bank::new(&format!("bank:{seed}"), ACCOUNTS, &both));
    let skew: Arc<dyn Workload> = Arc::new(WriteSkew::new(&format!("skew:{seed}"), 6, &both));
    let runs = [lists, bank, skew].map(|workload| tokio::spawn(judged(workload, address.clone(), seed)));
    let mut history = Vec::new();
    for run in runs {
        let (workload, events, summary) = run.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        match workload.name() {
            "bank" => {
                let transfers = ["transfer by TXN", "transfer by WATCH"];
                let audits = ["audit by TXN READONLY", "audit by MULTI", "audit by MGET"];
                busy("bank", &summary, &[&transfers[..], &audits].concat());
            }
            "write skew" => busy("write skew", &summary, &["take by TXN", "take by WATCH", "look by MGET"]),
            name => {
                busy(name, &summary, &["plain", "multi", "txn", "txn readonly"]);
                history = events;
            }
        }
    }
    assert!(!flood.is_finished(), "the flood broke off");
    flood.abort();
    history
}

/// Runs against a server with this store; the last list-append history.
fn serializable_on(store: &str) -> Vec<Event> {
    let seed = seed();
    let arguments = ["--memory", "2MiB", "--partitions", "4", "--policy", "lru", "--durability", "interval"];
    let forebay = Forebay::start(store, &arguments);
    let address = forebay.address.to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a tokio runtime");
    let evicted = Arc::new(AtomicU64::new(0));
    let (began, mut number, mut history) = (Instant::now(), 0, Vec::new());
    while number == 0 || (nightly() && began.elapsed() < NIGHTLY) {
        history = runtime.block_on(slice(&address, seed.wrapping_add(number), &evicted));
        number += 1;
    }
    let (evictions, evicted) = (forebay.cache_figure("evictions"), evicted.load(Ordering::Relaxed));
    eprintln!("{store}: {number} slices, {evictions} evictions, an account found evicted {evicted} times");
    assert!(evictions > 200 && evicted > 10, "the cache is under pressure: {evictions} evictions, {evicted} seen");
    runtime.shutdown_timeout(Duration::from_secs(5));
    history
}

#[test]
fn clients_of_a_memory_store() {
    serializable_on("memory");
}

#[test]
fn clients_of_an_embedded_store() {
    let history = serializable_on("embedded");
    planted_bugs_are_found(&history);
}

/// A checker that passes everything shows nothing: in the very history that passed, one read is given what another
/// read of the same list saw, and one committed append is taken out.
fn planted_bugs_are_found(history: &[Event]) {
    let reads = |event: &Event| -> Vec<(u64, Vec<u64>)> {
        let list = |op: &Op| match op {
            Op::List { key, elements } => Some((*key, elements.clone())),
            _ => None,
        };
        event.ops.iter().filter_map(list).collect()
    };
    let single = |event: &&Event| event.committed() && event.ops.len() == 1 && reads(event).len() == 1;
    let singles: Vec<&Event> = history.iter().filter(single).collect();
    let pair = singles.iter().enumerate().find_map(|(at, early)| {
        let (key, elements) = reads(early).remove(0);
        let later = singles[at..].iter().find(|late| {
            let (other, seen) = reads(late).remove(0);
            early.completed < late.invoked && other == key && seen != elements
        });
        later.map(|late| (early.invoked, late.invoked))
    });
    let (early, late) = pair.expect("two reads of one list, one after the other, that saw different elements");
    let at = |invoked: u64| history.iter().position(|event| event.invoked == invoked).expect("it is there");
    let (early, late) = (at(early), at(late));
    let mut swapped = history.to_vec();
    let ops = (swapped[early].ops.clone(), swapped[late].ops.clone());
    (swapped[early].ops, swapped[late].ops) = (ops.1, ops.0);
    let violation = list_append::check(&swapped).expect_err("reads in the wrong order are found");
    eprintln!("planted: {violation}");
    let wrote = |event: &Event| event.committed() && event.ops.iter().any(|op| matches!(op, Op::Append { .. }));
    let mut missing = history.to_vec();
    missing.remove(missing.iter().position(wrote).expect("an append that committed"));
    list_append::check(&missing).expect_err("elements that nobody appended are found");
}
