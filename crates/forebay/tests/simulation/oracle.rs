//! What has to hold after every run, whatever the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use forebay::cache::{Begin, charge};
use forebay::mutation;
use forebay::read::Read;
use forebay::runtime::simulated::{Ended, Simulation};
use forebay::store::{Resolved, Store};
use forebay::txn::Engine;
use forebay::txn::history::{Record, check_serializable};
use forebay::{Key, TxnId, Version};

use crate::book::{Book, Told, broken, expect};
use crate::client::{CLEARED_SPACE, all_keys};
use crate::world::read;

/// What the store holds, and which commits it has applied.
pub struct Stock {
    applied: BTreeMap<TxnId, bool>,
    /// Each key that a run may touch, with what is there.
    pub reads: Vec<(Key, Read)>,
}

impl Stock {
    /// Whether the commit is applied.
    pub fn has(&self, id: TxnId) -> bool {
        self.applied.get(&id).copied().unwrap_or(false)
    }
}

/// Runs `look` to its end, without faults.
fn look(simulation: &Simulation, look: impl Future<Output = ()> + Send + 'static) {
    let _sound = mutation::put_back(None);
    if simulation.run(look) != Ended::Done {
        broken("progress", "the store does not answer although nobody works");
    }
}

/// Nobody works: the cache says what the store says, charges what it holds, and nothing is held or open.
pub fn quiet(simulation: &Simulation, engine: &Engine, store: &Arc<dyn Store>) {
    let (engine, store) = (engine.clone(), store.clone());
    look(simulation, async move {
        let keys = all_keys();
        for (key, stored) in keys.iter().zip(read(&store, &keys).await) {
            match engine.cache().begin_fill(key) {
                Begin::Lead(_) => {}
                // It has been put in.
                Begin::Follow(_) if engine.cache().peek(key.borrow()).is_some() => {}
                Begin::Follow(_) => broken("no lock left", format!("a fill of {key} is open although nobody works")),
                Begin::Held => broken("no lock left", format!("{key} is held although nobody works")),
            }
            let Some((cached, charged, _)) = engine.cache().explain(key.borrow()) else { continue };
            expect(cached.value == stored.value && cached.version <= stored.version, "cache equals store", || {
                format!("{key}: {cached:?} is cached, {stored:?} is stored")
            });
            let exact = charge(key, &cached, engine.cache().policy());
            expect(charged == exact, "bytes", || format!("{key} is charged {charged} bytes and has {exact}"));
        }
        // Waits for ever if someone has left the lock of the space behind.
        let _ = engine.clear(&[CLEARED_SPACE], "FLUSHDB", || true).await;
    });
}

/// Under which versions a record has committed; a clearing has no id that a store could know.
pub fn committed_under(record: &Record) -> Option<Version> {
    if record.name.starts_with("clear") { None } else { record.writes.first().map(|(_, version)| *version) }
}

/// What has become of all commits that anyone knows of.
pub fn stock(simulation: &Simulation, store: &Arc<dyn Store>, book: &Book) -> Stock {
    let ids: Vec<TxnId> = book.pages().commits.keys().copied().collect();
    let stock = Arc::new(Mutex::new(Stock { applied: BTreeMap::new(), reads: Vec::new() }));
    let (found, store) = (stock.clone(), store.clone());
    look(simulation, async move {
        let keys = all_keys();
        let reads = read(&store, &keys).await;
        let mut applied = BTreeMap::new();
        for id in ids {
            match store.outcome(id).await {
                Ok(resolved) => applied.insert(id, resolved == Resolved::Applied),
                Err(error) => broken("outcomes", format!("{id}: {error}")),
            };
        }
        if let Ok(mut stock) = found.lock() {
            *stock = Stock { applied, reads: keys.into_iter().zip(reads).collect() };
        }
    });
    let taken = stock.lock().map(|mut stock| Stock {
        applied: std::mem::take(&mut stock.applied),
        reads: std::mem::take(&mut stock.reads),
    });
    taken.unwrap_or_else(|_| broken("progress", "the store could not be looked at"))
}

/// Compares what clients were told with what was applied; the commits that are gone, acknowledged or not. A store that
/// is `lossy` may have lost the end of what it acknowledged under one incarnation, and nothing before that end.
pub fn told_the_truth(book: &Book, stock: &Stock) -> BTreeSet<Version> {
    let mut gone = BTreeSet::new();
    let mut lost = 0;
    let mut first_lost: BTreeMap<u64, TxnId> = BTreeMap::new();
    let mut pages = book.pages();
    let lossy = pages.lossy;
    for (id, entry) in &mut pages.commits {
        match (entry.told, stock.has(*id)) {
            (Told::Committed, true) => {
                let before = first_lost.get(&id.0.incarnation);
                expect(before.is_none(), "a prefix survives", || format!("{id} is there, {before:?} before it is not"));
            }
            (Told::Committed, false) => {
                expect(lossy, "nothing acknowledged lost", || format!("{id} was acknowledged and is not there"));
                first_lost.entry(id.0.incarnation).or_insert(*id);
                gone.insert(id.0);
                lost += 1;
            }
            (Told::Failed, there) => {
                expect(!there, "nothing unacknowledged there", || format!("{id} was reported as failed and is there"));
            }
            (Told::Nothing | Told::Unknown, true) => entry.told = Told::Committed,
            (Told::Nothing | Told::Unknown, false) => {
                gone.insert(id.0);
            }
        }
    }
    pages.marks.lost += lost;
    gone
}

/// The records that count: those of commits that are gone do not, nor reads of what was lost. What was committed all
/// the same must not have read what is gone.
pub fn survivors(records: Vec<Record>, stock: &Stock, gone: &BTreeSet<Version>) -> Vec<Record> {
    let mut survivors = Vec::with_capacity(records.len());
    for record in records {
        let committed = committed_under(&record);
        if committed.is_some_and(|version| !stock.has(TxnId(version))) {
            continue;
        }
        // The version of an absent document may be a floor, at the version of a commit that never touched it.
        let read_gone = record.reads.iter().find(|(_, version, present)| *present && gone.contains(version));
        match (read_gone, committed) {
            (None, _) => survivors.push(record),
            (Some((key, version, _)), Some(_)) => {
                broken("version fence", format!("{} has read {key} at {version}, which is gone", record.name));
            }
            (Some(_), None) => {}
        }
    }
    survivors
}

/// All that committed could have come about one after the other, in an order that real time does not contradict.
pub fn serializable(records: &[Record]) {
    if let Err(anomaly) = check_serializable(records, true, false) {
        broken("strict serializability", anomaly.to_string());
    }
}
