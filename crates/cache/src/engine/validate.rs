//! Whether all that must be true of a cache is true; for tests.

use std::collections::{HashMap, HashSet};

use super::Inline;
use super::slot::Plain;
use super::tags::SLOTS;
use super::tags::{DEAD, is_live, tag_of};

/// Panics if anything is not as the modules say. Takes all locks: nothing changes meanwhile.
pub(super) fn validate<K: Plain, V: Plain>(cache: &Inline<K, V>)
where
    K::Words: std::hash::Hash + std::fmt::Debug,
{
    let _resizing = cache.lock_capacity();
    let guards: Vec<_> = cache.shards.iter().map(|shard| shard.lock()).collect();
    let (table, budget) = (&cache.table, &cache.budget);
    let credit: usize = guards.iter().map(|shard| shard.credit).sum();
    assert_eq!(credit + budget.left(), budget.capacity(), "all credit is the capacity");
    let entries: usize = guards.iter().map(|shard| shard.len).sum();
    assert!(entries <= budget.capacity(), "the budget is exact");
    let mut passed = HashMap::new();
    let mut keys = HashSet::new();
    for (number, shard) in guards.iter().enumerate() {
        assert!(shard.len <= shard.credit && shard.credit <= shard.credit_max, "a shard keeps within its credit");
        let mut named = HashSet::new();
        let mut dead = 0;
        for slot in shard.order.rings().into_iter().flat_map(|ring| ring.iter()) {
            assert!(named.insert(slot), "slot {slot} is named once");
            let group = slot as usize / SLOTS;
            assert!(table.groups_of(&shard.writer).contains(&group), "slot {slot} is of shard {number}");
            if table.tag(slot) == DEAD {
                dead += 1;
                continue;
            }
            assert!(is_live(table.tag(slot)), "what is named has an entry or is dead");
            let (key, _) = table.entry(slot);
            let hash = cache.hasher.hash::<K>(key);
            assert!(keys.insert(key), "{key:?} is there once");
            assert_eq!(table.shard_of(hash), number, "an entry is in its shard");
            assert_eq!(table.tag(slot), tag_of(hash) as u8, "an entry has its tag");
            assert_eq!(table.find(hash, key, &shard.writer), Some(slot), "{key:?} is found");
            for full in table.walk(hash).take_while(|&full| full != group) {
                *passed.entry(full).or_insert(0) += 1;
            }
        }
        assert_eq!(dead, shard.order.dead(), "dead slots are counted");
        assert_eq!(named.len() - dead, shard.len, "entries are counted");
        let slots = table.groups_of(&shard.writer).flat_map(|at| at * SLOTS..(at + 1) * SLOTS);
        let taken = slots.filter(|&slot| is_live(table.tag(slot as u32)) || table.tag(slot as u32) == DEAD).count();
        assert_eq!(taken, named.len(), "what is not free is named");
        assert!(shard.order.rings()[0].iter().count() <= shard.order.small_room(), "the small queue is small");
        assert!(shard.order.length_is_in_range(), "the small queue keeps within its range");
        for at in table.groups_of(&shard.writer) {
            assert_eq!(table.sequence(at) & 1, 0, "no writer is inside");
            let expected = passed.get(&at).copied().unwrap_or(0);
            assert_eq!(table.passed(at), expected, "group {at} counts what was placed beyond it");
        }
    }
}

/// All keys and values, shard after shard.
pub(super) fn entries<K: Plain, V: Plain>(cache: &Inline<K, V>) -> Vec<(K, V)> {
    let mut found = Vec::new();
    for shard in &cache.shards {
        let shard = shard.lock();
        let slots = shard.order.rings().into_iter().flat_map(|ring| ring.iter());
        let live = slots.filter(|&slot| cache.table.tag(slot) != DEAD);
        found.extend(live.map(|slot| cache.table.entry(slot)).map(|(key, value)| (K::from_words(key), value)));
    }
    found
}
