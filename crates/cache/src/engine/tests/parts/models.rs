//! All interleavings of readers and of writers under their locks, with the stale loads that the memory model allows.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::super::super::buffers::Buffers;
use super::super::super::parts::{Readers, Sighted, Writer};
use super::super::super::places::{Held, Item, Keyed};
use super::super::super::reclaim::{Guard, place};
use super::super::models::{check, finders};
use crate::mutation::{Fault, on};

/// An item that tells a look at what was dropped.
struct Probe {
    key: u64,
    value: u64,
    alive: AtomicBool,
}

impl Probe {
    fn pair(&self) -> (u64, u64) {
        // Of a drop that nothing orders behind this look the checker lets it see both what was before and after.
        assert!(self.alive.load(Ordering::Relaxed), "nothing is read after it was dropped");
        (self.key, self.value)
    }
}

fn pair(item: Item<'_, Probe>) -> (u64, u64) {
    match item {
        Item::Apart(probe) => probe.pair(),
        Item::Packed(_) => panic!("nothing is packed here"),
    }
}

/// Keys below 10 have home 0; 1 and 3 are on one side of a split, 2 and 4 on the other.
fn hash(key: u64) -> u64 {
    (key & 1) << 63 | key
}

impl Keyed for Probe {
    fn hash(item: Item<'_, Self>) -> u64 {
        hash(pair(item).0)
    }
}

fn held(key: u64, value: u64) -> Held<Probe> {
    Held::Apart(Box::new(Probe { key, value, alive: AtomicBool::new(true) }))
}

/// What is dropped stays where it is, so that a model that leaves a rule out can look at it.
fn drops(held: Held<Probe>) {
    if let Held::Apart(probe) = held {
        probe.alive.store(false, Ordering::Relaxed);
        std::mem::forget(probe);
    }
}

/// A cache of so many parts; a key's is what is left of it.
struct Cache {
    readers: Readers<Probe>,
    writers: Vec<Mutex<Writer<Probe>>>,
    retires: bool,
}

impl Cache {
    fn with(parts: usize, keys: &[u64]) -> Arc<Cache> {
        let (readers, writers) = Readers::new(parts);
        let mut cache = Cache { readers, writers: writers.into_iter().map(Mutex::new).collect(), retires: true };
        cache.retires = parts == 1;
        keys.iter().for_each(|&key| cache.put(key, key, false));
        Arc::new(cache)
    }

    fn part(&self, key: u64) -> usize {
        key as usize % self.writers.len()
    }

    fn look<'g>(&'g self, key: u64, guard: &'g Guard<'_>) -> Option<Sighted<'g, Probe>> {
        self.readers.look((self.part(key), hash(key)), guard, |item| pair(item).0 == key)
    }

    fn get(&self, key: u64) -> Option<u64> {
        let guard = self.readers.pin();
        self.look(key, &guard).map(|found| pair(found.item).1)
    }

    fn write(&self, key: u64, write: impl FnOnce(&mut Writer<Probe>)) {
        let mut writer = self.writers[self.part(key)].lock().expect("no panic");
        write(&mut writer);
        let due = if self.retires { writer.due() } else { None };
        drop(writer);
        if let Some(due) = due {
            self.readers.retire(due, drops);
        }
    }

    fn put(&self, key: u64, value: u64, marked: bool) {
        self.write(key, |writer| {
            let put = match writer.find(hash(key), |item| pair(item).0 == key) {
                Some(slot) => writer.replace(slot, held(key, value), marked, 1),
                None => writer.insert(hash(key), held(key, value), marked).map(drop),
            };
            assert!(put.is_ok(), "there is a place");
        });
    }

    fn remove(&self, key: u64) {
        self.write(key, |writer| {
            let slot = writer.find(hash(key), |item| pair(item).0 == key);
            assert!(slot.is_some_and(|slot| writer.remove(slot, hash(key), 1)));
        });
    }

    fn mark(&self, key: u64, marked: bool) {
        self.write(key, |writer| {
            if let Some(slot) = writer.find(hash(key), |item| pair(item).0 == key) {
                writer.set_marked(slot, marked);
            }
        });
    }

    /// As a cache publishes a group.
    fn publish(&self, group: &[(u64, u64)]) {
        if !on(Fault::PublishedUnmarked) {
            group.iter().for_each(|&(key, _)| self.mark(key, true));
        }
        let marked = !on(Fault::PublishedUnmarked) && !on(Fault::UnmarkedEarly);
        if on(Fault::UnmarkedEarly) {
            group.iter().for_each(|&(key, _)| self.mark(key, false));
        }
        group.iter().for_each(|&(key, value)| self.put(key, value, marked));
        group.iter().for_each(|&(key, _)| self.mark(key, false));
    }
}

/// Another thread, which has a seat to itself.
fn beside<R: 'static>(run: impl FnOnce() -> R + 'static) -> thread::JoinHandle<R> {
    thread::spawn(move || {
        place::set(1);
        run()
    })
}

fn reader<R: 'static>(cache: &Arc<Cache>, read: impl FnOnce(&Cache) -> R + 'static) -> thread::JoinHandle<R> {
    let cache = cache.clone();
    beside(move || read(&cache))
}

/// A value is replaced, and replaced again, beside a reader.
fn replaced() {
    let cache = Cache::with(1, &[1]);
    let reader = reader(&cache, |cache| cache.get(1));
    cache.put(1, 2, false);
    cache.put(1, 3, false);
    let found = reader.join().expect("it does not panic");
    assert!(matches!(found, Some(1..=3)), "{found:?}");
    assert_eq!(cache.get(1), Some(3));
}

/// A place goes from one key to another.
fn reused(key: u64) {
    let cache = Cache::with(1, &[1]);
    let reader = reader(&cache, move |cache| cache.get(key));
    cache.remove(1);
    cache.put(3, 3, false);
    let found = reader.join().expect("it does not panic");
    assert!(found.is_none() || found == Some(key), "{found:?}");
    assert_eq!((cache.get(1), cache.get(3)), (None, Some(3)));
}

/// A reader finds its key while the table grows around it, and chunks of places with it.
fn grown() {
    let cache = Cache::with(1, &[1, 2]);
    let reader = reader(&cache, |cache| cache.get(1));
    cache.put(3, 3, false);
    assert_eq!(reader.join().expect("it does not panic"), Some(1), "it was there all the time");
    assert_eq!((cache.get(1), cache.get(2), cache.get(3)), (Some(1), Some(2), Some(3)));
}

/// A chunk of places goes while a reader stands in it.
fn given_back() {
    let cache = Cache::with(1, &[1, 2, 3]);
    let reader = reader(&cache, |cache| cache.get(3));
    cache.remove(3);
    cache.remove(2);
    cache.remove(1);
    let found = reader.join().expect("it does not panic");
    assert!(matches!(found, None | Some(3)), "{found:?}");
}

/// What was found before and after another look is what that look found.
fn looked_at_twice() {
    let cache = Cache::with(1, &[1]);
    let reader = reader(&cache, |cache| {
        let guard = cache.readers.pin();
        let Some(found) = cache.look(1, &guard) else { return };
        let between = cache.look(1, &guard).map(|between| pair(between.item).1);
        if found.sight.holds() {
            assert!(
                between.is_none_or(|value| value == pair(found.item).1),
                "{between:?} between two looks that agree"
            );
        }
    });
    cache.put(1, 2, false);
    cache.remove(1);
    reader.join().expect("it does not panic");
}

/// Entries of two parts are published together beside a reader that looks twice; `there`: those that are in.
fn published(there: &[u64], evicted: bool) {
    // Nothing is retired meanwhile: the collector's fence would stand for the marks' order.
    let cache = Cache::with(2, there);
    let reader = reader(&cache, |cache| {
        let guard = cache.readers.pin();
        let looks = [1, 2].map(|key| cache.look(key, &guard));
        let [Some(one), Some(two)] = looks else { return };
        if one.sight.holds() && two.sight.holds() {
            let news = [one, two].map(|found| pair(found.item).1 > 10);
            assert!(news[0] == news[1], "one is new and the other is old");
        }
    });
    if evicted {
        cache.remove(1);
    }
    cache.publish(&[(1, 11), (2, 12)]);
    reader.join().expect("it does not panic");
    assert_eq!((cache.get(1), cache.get(2)), (Some(11), Some(12)));
}

/// A reader says later which entry it has hit. What it says is told of that entry, or of none.
fn told_later() {
    // The model retires nothing: a fence of the collector would order the generation by itself.
    let (cache, buffers) = (Cache::with(2, &[1]), Arc::new(Buffers::<2>::new(1, 2)));
    let leaves = buffers.clone();
    let reader = reader(&cache, move |cache| {
        let guard = cache.readers.pin();
        let entry = cache.look(1, &guard).and_then(|found| found.sight.entry());
        if let Some((slot, generation)) = entry {
            let left = leaves.push(guard.place(), [u64::from(slot) + 1, u64::from(generation)]);
            assert!(left.is_ok(), "it is the first");
        }
    });
    let tell = || {
        cache.write(1, |writer| {
            buffers.drain(|batch| {
                for &[slot, generation] in batch {
                    let slot = slot as u32 - 1;
                    if writer.has(slot, generation as u32) {
                        assert_eq!(writer.get(slot).map(|item| pair(item).0), Some(1), "the entry that was hit");
                    }
                }
            });
        });
    };
    cache.remove(1);
    cache.put(3, 3, false);
    tell();
    reader.join().expect("it does not panic");
    tell();
}

const MODELS: &[(&str, fn())] = &[
    ("replaced", replaced),
    ("reused, the old", || reused(1)),
    ("reused, the new", || reused(3)),
    ("grown", grown),
    ("given back", given_back),
    ("looked at twice", looked_at_twice),
    ("told later", told_later),
    ("published", || published(&[1, 2], false)),
    ("published, one is not in", || published(&[2], false)),
    ("published, one is evicted before", || published(&[1, 2], true)),
];

#[test]
fn all_hold() {
    for (name, model) in MODELS {
        let from = std::time::Instant::now();
        check(*model);
        println!("{name}: {:?}", from.elapsed());
    }
}

#[test]
fn gate() {
    for fault in [
        Fault::DroppedUnderGuard,
        Fault::NamedUnpublished,
        Fault::HalvesNamedEmpty,
        Fault::PublishedUnmarked,
        Fault::UnmarkedEarly,
        Fault::GenerationUnordered,
        Fault::GenerationIgnored,
    ] {
        let finders = finders(MODELS, fault);
        println!("{fault:?}: {finders:?}");
        assert!(!finders.is_empty(), "{fault:?} is not found");
    }
}
