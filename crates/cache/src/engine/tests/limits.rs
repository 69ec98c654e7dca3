//! Input that no program means to give, and a capacity that changes.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::marks::{MARK_MAX, Slots as _};
use super::super::validate::validate;
use super::super::{Inline, NoRoom, Plain};
use super::model::seeded;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// A key that is another one each time it is asked what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fickle(u64);

impl Plain for Fickle {
    type Words = [u64; 1];

    fn into_words(self) -> [u64; 1] {
        let calls = CALLS.get();
        CALLS.set(calls + 1);
        [self.0 ^ (calls % 3)]
    }

    fn from_words(words: [u64; 1]) -> Fickle {
        Fickle(words[0])
    }
}

/// A key hashes and compares by its words alone, so the two can't contradict; but the words may.
#[test]
fn a_key_that_contradicts_itself_breaks_nothing() {
    let cache = seeded::<Fickle, u64>(50, 1);
    let mut random = fastrand::Rng::with_seed(4);
    for step in 0..if cfg!(miri) { 200 } else { 5000 } {
        let key = Fickle(random.u64(..100));
        match random.u8(..4) {
            0 => drop(cache.get(key)),
            1 => drop(cache.get_or_insert_with(key, || step)),
            2 => drop(cache.insert(key, step)),
            _ => drop(cache.remove(key)),
        }
        assert!(cache.len() <= 50);
        if step % 50 == 0 {
            validate(&cache);
        }
    }
    validate(&cache);
}

/// What is made for a missing key may fail: nothing was locked, nothing came in.
#[test]
fn a_panic_while_a_value_is_made_leaves_the_cache_whole() {
    let cache = seeded::<u64, u64>(10, 0);
    cache.insert(1, 1);
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.get_or_insert_with(2, || std::panic::resume_unwind(Box::new(())))
    }));
    assert!(made.is_err());
    assert_eq!((cache.get(1), cache.get(2), cache.len()), (Some(1), None, 1));
    assert_eq!(cache.get_or_insert_with(2, || cache.get_or_insert_with(2, || 7) + 1), 7, "the first to insert wins");
    validate(&cache);
}

#[test]
fn a_capacity_above_the_room_is_refused() {
    let cache: Inline<u64, u64> = Inline::with_room(10, 100).expect("there is memory for 100");
    assert_eq!(cache.set_capacity(101), Err(NoRoom { capacity: 101, room: 100 }));
    let error = cache.set_capacity(usize::MAX).expect_err("it is above the room");
    assert!(error.to_string().contains("above the cache's room for 100"), "{error}");
    assert_eq!(cache.capacity(), 10);
    assert_eq!(Inline::<u64, u64>::with_room(20, 5).expect("the room is no less").capacity(), 20);
}

/// A smaller capacity holds when the call returns; a larger one is all of use.
#[test]
fn a_capacity_changes_while_it_is_full() {
    let (room, shards_log2) = if cfg!(miri) { (30, 1) } else { (20_000, 3) };
    let cache = seeded::<u64, u64>(room, shards_log2);
    let fill = || (0..2 * room as u64).for_each(|key| _ = cache.insert(key, key));
    for capacity in [room, room / 2, 1, 0, room / 3, room / 3 + 1, room] {
        assert_eq!(cache.set_capacity(capacity), Ok(()));
        assert!(cache.len() <= capacity);
        validate(&cache);
        fill();
        validate(&cache);
        let few = 2 * cache.shards.len() * cache.budget.spare_max();
        assert!(cache.len() <= capacity && cache.len() + few >= capacity, "{} of {capacity}", cache.len());
    }
}

/// The budget and all else is exact at any moment, also while the capacity goes up and down.
#[test]
fn a_capacity_changes_while_threads_are_at_work() {
    let room = if cfg!(miri) { 60 } else { 3000 };
    let cache = seeded::<u64, u64>(room, 2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (cache, over) = (&cache, &over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !over.load(Ordering::Relaxed) {
                    let key = random.u64(..5000);
                    match random.u8(..4) {
                        0 => assert!(cache.get(key).is_none_or(|value| value == key)),
                        1 => drop(cache.remove(key)),
                        _ => drop(cache.insert(key, key)),
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..if cfg!(miri) { 3 } else { 60 } {
            let capacity = random.usize(..=room);
            assert_eq!(cache.set_capacity(capacity), Ok(()));
            assert!(cache.len() <= capacity);
            validate(&cache);
        }
        over.store(true, Ordering::Relaxed);
    });
    validate(&cache);
}

/// A hit of what is hit often writes nothing: no line of memory goes from one processor to another for it.
#[test]
fn a_hit_of_what_is_hit_often_writes_nothing() {
    let cache = seeded::<u64, u64>(100, 0);
    (0..100).for_each(|key| _ = cache.insert(key, key));
    let hit_all = || (0..100).for_each(|key| assert_eq!(cache.get(key), Some(key)));
    let written = || {
        let slots = 0..cache.table.slots_per_shard() as u32;
        let marks: Vec<u8> = slots.map(|slot| cache.table.mark(slot)).collect();
        let groups = cache.table.groups_of(&cache.shards[0].lock().writer);
        (marks, groups.map(|at| cache.table.sequence(at)).collect::<Vec<_>>())
    };
    for _ in 0..MARK_MAX {
        let before = written();
        hit_all();
        assert!(before != written(), "a mark was left");
    }
    let before = written();
    hit_all();
    assert!(before == written());
}
