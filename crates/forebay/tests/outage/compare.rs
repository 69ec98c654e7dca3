//! What is cached in an outage, compared with the store after it.

use std::sync::Arc;
use std::time::Duration;

use forebay::cache::{Begin, CacheOptions};
use forebay::mutation::{self, Fault};
use forebay::outage::Gate;
use forebay::policy::choose;
use forebay::runtime::Runtime;
use forebay::store::{CommitOutcome, Outside, Store};
use forebay::txn::{Compared, Engine, EngineOptions};
use forebay::{Key, Read};

use crate::gate::{Database, commit, open, put, simulated};

const DOCUMENTS: u64 = 3000;

fn name(number: u64) -> String {
    format!("document {number}")
}

fn key(number: u64) -> Key {
    Key::new(0, name(number).as_bytes())
}

fn engine(runtime: &Runtime, gate: &Gate) -> Engine {
    let policy = choose("lru").expect("it is in the table").policy;
    let cache = CacheOptions { budget_bytes: 1 << 24, partitions: 4, policy, policy_values: Vec::new() };
    let engine = Engine::new(EngineOptions::new(runtime.clone(), Arc::new(gate.clone()), cache));
    engine.start_watching();
    engine
}

/// Has all documents cached of a database that is watched.
async fn warmed(runtime: &Runtime, database: &Database, gate: &Gate) -> Engine {
    for number in 0..DOCUMENTS {
        let put = put(number + 1, &name(number));
        assert_eq!(commit(gate, put).await, CommitOutcome::Committed(Vec::new()));
    }
    database.says(Outside::Everything);
    let engine = engine(runtime, gate);
    runtime.sleep(Duration::from_millis(100)).await;
    let keys: Vec<Key> = (0..DOCUMENTS).map(key).collect();
    let reads = gate.get(&keys).await.expect("it is there");
    let all: Vec<(Key, Option<Read>)> = keys.into_iter().zip(reads.into_iter().map(Some)).collect();
    engine.cache().publish(&all, &[]);
    engine
}

fn cached(engine: &Engine) -> Vec<u64> {
    (0..DOCUMENTS).filter(|number| engine.cache().peek(key(*number).borrow()).is_some()).collect()
}

/// Another program writes, which only the database knows.
async fn written_by_others(database: &Database, number: u64) {
    database.inner.set_down(false);
    let written = database.inner.commit(&[put(10_000 + number, &name(number))]).await;
    assert_eq!(written, [CommitOutcome::Committed(Vec::new())]);
    database.inner.set_down(true);
}

#[test]
fn only_what_differs_leaves_the_cache() {
    what_leaves_the_cache(&[0, 7, 1500, DOCUMENTS - 1]);
    let _on = mutation::put_back(Some(Fault::DoubtfulKept));
    what_leaves_the_cache(&[]);
}

fn what_leaves_the_cache(expected: &'static [u64]) {
    simulated(move |runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let engine = warmed(&runtime, &database, &gate).await;
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(9000, "x")).await, CommitOutcome::Buffered(_)));
        let Begin::Lead(fill) = engine.cache().begin_fill(&Key::new(0, b"read before")) else { panic!("nobody reads") };
        let others = [0, 7, 1500, DOCUMENTS - 1];
        for number in others {
            written_by_others(&database, number).await;
        }
        database.says(Outside::OutOfSight);
        database.says(Outside::Everything);
        assert_eq!(cached(&engine).len() as u64, DOCUMENTS);
        database.inner.set_down(false);
        runtime.sleep(Duration::from_secs(10)).await;
        assert!(!fill.open(), "what was read before may be out of date");
        let all = if expected.is_empty() { 0 } else { DOCUMENTS };
        assert_eq!(engine.compared().compared, all, "or nothing, where the rule is left out");
        let kept: Vec<u64> = (0..DOCUMENTS).filter(|number| !expected.contains(number)).collect();
        assert!(cached(&engine) == kept, "{} of {} documents are cached", cached(&engine).len(), kept.len());
    });
}

/// Outages that come before a comparison is over: each goes on where the one before was left, and while the gate
/// refuses to ask, by itself or on an operator's word, nothing leaves the cache that may be all there is.
#[test]
fn outages_in_a_row_neither_starve_it_nor_empty_the_cache() {
    simulated(|runtime| async move {
        let (database, gate) = open(&runtime, false, |_| {});
        let engine = warmed(&runtime, &database, &gate).await;
        database.inner.set_down(true);
        assert!(matches!(commit(&gate, put(9000, "x")).await, CommitOutcome::Buffered(_)));
        let others: Vec<u64> = (0..DOCUMENTS).step_by(100).collect();
        for number in &others {
            written_by_others(&database, *number).await;
        }
        let mut left = Vec::new();
        for round in 0..40 {
            database.says(Outside::Everything);
            database.inner.set_down(false);
            runtime.sleep(Duration::from_millis(30)).await;
            gate.fail_for(Duration::from_millis(3000));
            assert!(gate.ping().await.is_err(), "round {round}");
            runtime.sleep(Duration::from_millis(2500)).await;
            let Compared { compared, left: still } = engine.compared();
            assert!(compared + still <= DOCUMENTS, "{compared} {still}");
            left.push(still);
            gate.fail_for(Duration::ZERO);
        }
        assert!(left.iter().any(|left| *left > 0), "none was interrupted: {left:?}");
        runtime.sleep(Duration::from_secs(10)).await;
        assert_eq!(engine.compared().left, 0);
        let kept: Vec<u64> = (0..DOCUMENTS).filter(|number| !others.contains(number)).collect();
        assert!(cached(&engine) == kept, "{} of {} documents are cached", cached(&engine).len(), kept.len());
    });
}
