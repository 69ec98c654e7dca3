//! All interleavings of a reader and a writer in one group, with the stale loads that the memory model allows.
//!
//! `cargo test -p forebay-cache --features loom`. `gate` proves that each rule of the table is needed here: with any of
//! them left out a model fails. Nothing rests on sequentially consistent loads and stores, which loom takes for weaker
//! than they are.

use loom::sync::Arc;
use loom::thread;

use super::super::marks::touch;
use super::super::table::{Look, Table, Writer};
use super::super::tags::SLOTS;
use super::super::{Hasher, Inline};
use crate::mutation::{Fault, put_back};
use crate::sync::Ordering;

type Pair = (u64, u64);
type Pairs = Table<u64, Pair>;

/// Hashes with home 0 of a table with up to two groups, each with another tag.
fn hash(key: u64) -> u64 {
    key
}

fn pairs(groups: usize) -> (Arc<Pairs>, Writer) {
    let table = Pairs::new(groups, 0).map_err(|_| "no memory").expect("there is memory for two groups");
    let writer = table.writers().next().expect("one shard");
    (Arc::new(table), writer)
}

/// A value of which both halves say `n`.
fn pair(n: u64) -> Pair {
    (n, n)
}

fn look(table: &Pairs, key: u64) -> Option<Pair> {
    loop {
        match table.look(hash(key), [key]) {
            Look::Hit(value, _) => return Some(value),
            Look::Absent => return None,
            Look::Disturbed => thread::yield_now(),
        }
    }
}

/// A value is replaced: a reader sees the one or the other, and no half of each.
fn replaced() {
    let (table, mut writer) = pairs(1);
    let slot = table.place(hash(1), [1], pair(1), &mut writer).expect("it is empty");
    let reader = {
        let table = table.clone();
        thread::spawn(move || look(&table, 1))
    };
    table.set_value(slot, pair(2), &mut writer);
    let found = reader.join().expect("it does not panic");
    assert!(found == Some(pair(1)) || found == Some(pair(2)), "{found:?}");
    assert_eq!(look(&table, 1), Some(pair(2)));
}

/// A slot goes from one key to another: a reader of either sees its value or nothing.
fn reused(key: u64) {
    let (table, mut writer) = pairs(1);
    let slot = table.place(hash(1), [1], pair(1), &mut writer).expect("it is empty");
    let reader = {
        let table = table.clone();
        thread::spawn(move || look(&table, key))
    };
    table.remove(slot, hash(1), false, &mut writer);
    assert_eq!(table.place(hash(2), [2], pair(2), &mut writer), Some(slot));
    let found = reader.join().expect("it does not panic");
    assert!(found.is_none() || found == Some(pair(key)), "{found:?}");
    assert_eq!((look(&table, 1), look(&table, 2)), (None, Some(pair(2))));
}

/// What is inserted is whole as soon as it is seen.
fn inserted() {
    let (table, mut writer) = pairs(1);
    let reader = {
        let table = table.clone();
        thread::spawn(move || look(&table, 1))
    };
    let _ = table.place(hash(1), [1], pair(1), &mut writer);
    let found = reader.join().expect("it does not panic");
    assert!(found.is_none() || found == Some(pair(1)), "{found:?}");
    assert_eq!(look(&table, 1), Some(pair(1)));
}

/// An entry beyond a full group stays in sight while others come and go on the way to it.
fn displaced() {
    let (table, mut writer) = pairs(2);
    let slots: Vec<u32> =
        (0..SLOTS as u64).filter_map(|key| table.place(hash(key), [key], pair(key), &mut writer)).collect();
    let far = [100, 101].map(|key| table.place(hash(key), [key], pair(key), &mut writer).expect("the next has room"));
    assert!(far.iter().all(|&slot| slot >= SLOTS as u32), "they are displaced");
    let reader = {
        let table = table.clone();
        thread::spawn(move || look(&table, 100))
    };
    table.remove(far[1], hash(101), false, &mut writer);
    table.remove(slots[1], hash(1), false, &mut writer);
    let near = table.place(hash(101), [101], pair(7), &mut writer);
    assert_eq!(near, Some(slots[1]), "it comes nearer");
    let found = reader.join().expect("it does not panic");
    assert_eq!(found, Some(pair(100)), "it was there all the time");
    assert_eq!(look(&table, 101), Some(pair(7)));
}

/// A hit that is overtaken marks the slot's next entry at most once.
fn marked_late() {
    let (table, mut writer) = pairs(1);
    let slot = table.place(hash(1), [1], pair(1), &mut writer).expect("it is empty");
    let reader = {
        let table = table.clone();
        thread::spawn(move || {
            if let Look::Hit(_, mark) = table.look(hash(1), [1]) {
                touch(mark);
            }
        })
    };
    table.remove(slot, hash(1), false, &mut writer);
    assert_eq!(table.place(hash(2), [2], pair(2), &mut writer), Some(slot));
    reader.join().expect("it does not panic");
    assert!(table.mark_of(slot).load(Ordering::Relaxed) <= 1);
}

/// The whole path: a reader that meets a writer waits for its lock, and both come to an end.
fn beside_a_writer() {
    let hasher = Hasher::seeded(7);
    let cache: Arc<Inline<u64, Pair>> = Arc::new(Inline::build(1, 0, hasher).expect("there is memory for one entry"));
    cache.insert(1, pair(1));
    let writer = {
        let cache = cache.clone();
        thread::spawn(move || cache.insert(2, pair(2)))
    };
    let found = cache.get(1);
    assert!(found.is_none() || found == Some(pair(1)), "{found:?}");
    writer.join().expect("it does not panic");
    assert_eq!((cache.get(1), cache.get(2), cache.len()), (None, Some(pair(2)), 1));
}

const MODELS: &[(&str, fn())] = &[
    ("replaced", replaced),
    ("reused, the old", || reused(1)),
    ("reused, the new", || reused(2)),
    ("inserted", inserted),
    ("displaced", displaced),
    ("marked late", marked_late),
    ("beside a writer", beside_a_writer),
];

pub(super) fn check(model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn all_hold() {
    for (name, model) in MODELS {
        println!("{name}");
        check(*model);
    }
}

/// The models that find a fault, each on another thread: loom does not outlive a failure.
pub(super) fn finders(models: &[(&'static str, fn())], fault: Fault) -> Vec<&'static str> {
    let finds = |model: fn()| {
        let run = move || {
            put_back(Some(fault));
            check(model);
        };
        std::thread::spawn(run).join().is_err()
    };
    models.iter().filter(|(_, model)| finds(*model)).map(|(name, _)| *name).collect()
}

#[test]
fn gate() {
    for fault in [
        Fault::SequenceStaysEven,
        Fault::WriterFenceMissing,
        Fault::ReaderFenceMissing,
        Fault::SecondLookDropped,
        Fault::OddTakenForQuiet,
        Fault::LeavesUnpublished,
        Fault::PassedNotCounted,
    ] {
        let finders = finders(MODELS, fault);
        println!("{fault:?}: {finders:?}");
        assert!(!finders.is_empty(), "{fault:?} is not found");
    }
}
