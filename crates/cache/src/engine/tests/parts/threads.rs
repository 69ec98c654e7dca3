//! Many threads: readers without locks beside writers that replace, remove, grow, shrink and publish.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::super::parts::{Readers, Writer};
use super::model::{Counted, hash, held, pair, retire};

const KEYS: u64 = 300;

struct Table {
    readers: Readers<Counted>,
    writers: Vec<Mutex<Writer<Counted>>>,
    there: Arc<()>,
}

/// One of a pair is in each part.
fn part(key: u64) -> usize {
    (key % 2) as usize
}

impl Table {
    fn new() -> Table {
        let (readers, writers) = Readers::new(2);
        Table { readers, writers: writers.into_iter().map(Mutex::new).collect(), there: Arc::new(()) }
    }

    /// Puts a value in, or takes the key out.
    fn write(&self, key: u64, value: Option<u64>, marked: bool, len: usize) {
        let mut writer = self.writers[part(key)].lock().expect("no panic");
        let slot = writer.find(hash(key), |item| pair(item).0 == key);
        let held = |value| held(key, value, len, &self.there);
        match (slot, value) {
            (Some(slot), Some(value)) => assert!(writer.replace(slot, held(value), marked, 1).is_ok()),
            (Some(slot), None) => assert!(writer.remove(slot, hash(key), 1)),
            (None, Some(value)) => assert!(writer.insert(hash(key), held(value), marked).is_ok()),
            (None, None) => {}
        }
        retire(&self.readers, &mut writer);
    }

    fn mark(&self, key: u64, marked: bool) {
        let mut writer = self.writers[part(key)].lock().expect("no panic");
        if let Some(slot) = writer.find(hash(key), |item| pair(item).0 == key) {
            writer.set_marked(slot, marked);
        }
    }
}

/// What a reader finds is of its key and whole; pairs that are published together are seen together.
#[test]
fn readers_see_whole_items_and_whole_publications() {
    let table = Table::new();
    let Table { readers, writers, .. } = &table;
    let (over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let rounds = if cfg!(miri) { 100 } else { 20_000 };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (over, seen) = (&over, &seen);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while !over.load(Ordering::Relaxed) {
                    let first = 2 * random.u64(0..KEYS / 2);
                    let guard = readers.pin();
                    let look = |key| readers.look((part(key), hash(key)), &guard, |item| pair(item).0 == key);
                    let (Some(one), Some(two)) = (look(first), look(first + 1)) else { continue };
                    assert_eq!((pair(one.item).0, pair(two.item).0), (first, first + 1));
                    if one.sight.holds() && two.sight.holds() {
                        assert_eq!(pair(one.item).1, pair(two.item).1, "a publication is seen as a whole");
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                    one.sight.touch();
                    // Whatever became of it, it is there as long as the guard.
                    assert_eq!(pair(one.item).0, first);
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(9);
        let mut round = 0;
        while round < rounds || seen.load(Ordering::Relaxed) == 0 {
            round += 1;
            let (first, len) = (2 * random.u64(0..KEYS / 2), [0, 16, 100][random.usize(0..3)]);
            let pair = [first, first + 1];
            pair.iter().for_each(|&key| table.mark(key, true));
            let value = random.u8(0..4).checked_sub(1).map(|_| round);
            pair.iter().for_each(|&key| table.write(key, value, true, len));
            pair.iter().for_each(|&key| table.mark(key, false));
            // Parts grow and shrink.
            if round % 64 == 0 {
                let many = (1..40).map(|number| 1000 + (number + round) * 2 % 200);
                many.for_each(|key| table.write(key, (round / 64 % 2 == 0).then_some(1), false, 16));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    writers.iter().for_each(|writer| writer.lock().expect("no panic").validate());
    let there = table.there.clone();
    drop(table);
    assert_eq!(Arc::strong_count(&there), 1, "all is dropped");
}
