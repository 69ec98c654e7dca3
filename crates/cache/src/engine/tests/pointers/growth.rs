//! A table grows and shrinks in small steps, counted in words.

use super::super::super::segment::{SEGMENT, SPLITS_MAX};
use super::{Numbers, Put, validate};

/// Words that an operation copied, apart from the directory's names.
fn copied(cache: &Numbers) -> usize {
    validate::inside(&cache.cache).copied
}

#[test]
fn no_step_is_long() {
    let count: u64 = if cfg!(miri) { 700 } else { 100_000 };
    let cache = Numbers::new(2 * count as usize, 0);
    let (mut longest, mut before) = (0, 0);
    for key in 0..count {
        assert_eq!(cache.insert(key, key), Put::Inserted);
        let now = copied(&cache);
        (longest, before) = (longest.max(now - before), now);
    }
    let grown = validate::inside(&cache.cache).segments;
    // A step copies the words of the segments that it splits, and names: as many as the directory has at worst.
    let names = 4 * grown;
    assert!(longest <= SPLITS_MAX * SEGMENT + names, "{longest} words in one step, {grown} segments");
    assert!(copied(&cache) <= 6 * count as usize, "{} words for {count} entries", copied(&cache));
    assert!(grown * SEGMENT <= 3 * count as usize + SEGMENT, "{grown} segments are not too many");
    assert!((0..count).all(|key| cache.peek(key) == Some(key)));
    cache.entries();
    for key in 0..count {
        assert_eq!(cache.remove(key), Some(key));
        let now = copied(&cache);
        (longest, before) = (longest.max(now - before), now);
    }
    assert!(longest <= SPLITS_MAX * SEGMENT + names, "{longest} words in one step");
    assert_eq!((validate::inside(&cache.cache).segments, cache.cache.len()), (1, 0), "all memory is given back");
    cache.entries();
}

/// Readers find all that is in, while the table grows and shrinks around it.
#[test]
fn readers_go_on_while_it_grows() {
    let others: u64 = if cfg!(miri) { 400 } else { 20_000 };
    let cache = Numbers::new(1 << 20, 0);
    let there = 0..50u64;
    there.clone().for_each(|key| {
        cache.insert(key, key);
    });
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    there.clone().for_each(|key| assert_eq!(cache.get(key), Some(key), "it was there all the time"));
                }
            });
        }
        for round in 1..=if cfg!(miri) { 1 } else { 5 } {
            (0..others).for_each(|key| {
                cache.insert(round << 32 | key, key);
            });
            (0..others).for_each(|key| {
                cache.remove(round << 32 | key);
            });
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(cache.entries().len(), 50);
}
