//! Readers beside two publishers, with all interleavings and stale loads. Only the words of two places are there,
//! since a table around them makes too many. The keys' locks and the parts' locks are those of the document cache.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::super::super::places::{Held, Item, Place};
use super::super::super::reclaim::{Collector, place};
use super::super::models::{check, finders};
use crate::mutation::{Fault, on};
use crate::sync::{Ordering, fence};

/// Two keys, each alone in its part.
struct Pair {
    places: [Place<u64>; 2],
    parts: [Mutex<()>; 2],
    /// Whoever publishes both keys has both locked.
    keys: Mutex<()>,
    collector: Collector<Held<u64>>,
}

impl Pair {
    fn new() -> Arc<Pair> {
        let pair = Pair {
            places: [0, 1].map(Place::empty),
            parts: [Mutex::new(()), Mutex::new(())],
            keys: Mutex::new(()),
            collector: Collector::new(),
        };
        [(0, 1), (1, 2)].into_iter().for_each(|(key, value)| pair.install(key, value, false));
        Arc::new(pair)
    }

    fn install(&self, key: usize, value: u64, marked: bool) {
        let _part = self.parts[key].lock().expect("no panic");
        let old = self.places[key].put(Held::Apart(Box::new(value)), marked);
        // It stays where it is, as under a guard that is never gone.
        std::mem::forget(old);
    }

    fn mark(&self, key: usize, marked: bool) {
        let _part = self.parts[key].lock().expect("no panic");
        self.places[key].set_marked(marked);
    }

    /// As the cache publishes: one key by itself, and several marked, installed and unmarked.
    fn publish(&self, group: &[(usize, u64)]) {
        if let [(key, value)] = group {
            return self.install(*key, *value, false);
        }
        let _keys = self.keys.lock().expect("no panic");
        let marks = |marked| group.iter().for_each(|&(key, _)| self.mark(key, marked));
        if !on(Fault::PublishedUnmarked) {
            marks(true);
        }
        if on(Fault::UnmarkedEarly) {
            marks(false);
        }
        let marked = !on(Fault::PublishedUnmarked) && !on(Fault::UnmarkedEarly);
        group.iter().for_each(|&(key, value)| self.install(key, value, marked));
        marks(false);
    }

    /// Both values of one moment; `None`: it has to look again.
    fn read(&self, order: [usize; 2]) -> Option<[u64; 2]> {
        let guard = self.collector.pin();
        let looks = order.map(|key| self.places[key].look(&guard));
        if looks.iter().any(|look| look.is_marked()) {
            return None;
        }
        let values = looks.map(|look| match look.item() {
            Some(Item::Apart(value)) => *value,
            _ => panic!("both are in all the time"),
        });
        if !on(Fault::LooksUnfenced) {
            fence(Ordering::SeqCst);
        }
        let same = order.iter().zip(looks).all(|(&key, look)| self.places[key].holds(look));
        same.then(|| if order[0] == 0 { values } else { [values[1], values[0]] })
    }
}

/// On a thread that has this seat.
fn beside<R: 'static>(seat: usize, pair: &Arc<Pair>, run: impl FnOnce(&Pair) -> R + 'static) -> thread::JoinHandle<R> {
    let pair = pair.clone();
    thread::spawn(move || {
        place::set(seat);
        run(&pair)
    })
}

/// Two groups of the same keys: a read is of one of them, or of before.
fn together() {
    let pair = Pair::new();
    let reader = beside(1, &pair, |pair| pair.read([0, 1]));
    let publisher = beside(2, &pair, |pair| pair.publish(&[(0, 11), (1, 12)]));
    pair.publish(&[(0, 21), (1, 22)]);
    publisher.join().expect("it does not panic");
    let read = reader.join().expect("it does not panic");
    assert!(matches!(read, None | Some([1, 2] | [11, 12] | [21, 22])), "{read:?}");
    assert!(matches!(pair.read([0, 1]), Some([11, 12] | [21, 22])));
}

/// Two publications that have nothing to do with each other: no reader finds the one alone while another finds the
/// other alone. Both reads have a place in one order.
fn apart() {
    let pair = Pair::new();
    let readers = [beside(1, &pair, |pair| pair.read([0, 1])), beside(2, &pair, |pair| pair.read([1, 0]))];
    let publisher = beside(3, &pair, |pair| pair.publish(&[(0, 11)]));
    pair.publish(&[(1, 12)]);
    publisher.join().expect("it does not panic");
    let reads = readers.map(|reader| reader.join().expect("it does not panic"));
    let alone = |read| reads.contains(&Some(read));
    assert!(!(alone([11, 2]) && alone([1, 12])), "{reads:?}");
    assert_eq!(pair.read([0, 1]), Some([11, 12]));
}

const MODELS: &[(&str, fn())] = &[("together", together), ("apart", apart)];

#[test]
fn two_readers_beside_two_publishers() {
    for (name, model) in MODELS {
        println!("{name}");
        check(*model);
    }
}

#[test]
fn gate() {
    for fault in [Fault::PublishedUnmarked, Fault::UnmarkedEarly, Fault::LooksUnfenced] {
        let finders = finders(MODELS, fault);
        println!("{fault:?}: {finders:?}");
        assert!(!finders.is_empty(), "{fault:?} is not found");
    }
}
