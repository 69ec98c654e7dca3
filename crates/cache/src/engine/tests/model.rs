//! The engine on one thread: against a map, and at the limits of its capacity.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::validate::{entries, validate};
use super::super::{Hasher, Inline, NoRoom, Plain, TooLarge};

/// Hashes are those of any other run.
pub(super) fn seeded<K: Plain, V: Plain>(capacity: usize, shards_log2: u32) -> Inline<K, V> {
    let hasher = Hasher::seeded(7);
    Inline::build(capacity, shards_log2, hasher).expect("there is memory for a small cache")
}

#[derive(Clone, Debug)]
enum Step {
    Get(u16),
    Peek(u16),
    Insert(u16, u64),
    Fill(u16, u64),
    Remove(u16),
    Clear,
    Resize(usize),
}

fn step(keys: u16) -> impl Strategy<Value = Step> {
    let key = 0..keys;
    prop_oneof![
        6 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::Peek),
        6 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        6 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Fill(key, value)),
        4 => key.prop_map(Step::Remove),
        1 => (0..200usize).prop_map(Step::Resize),
        1 => (0..20u8).prop_map(|chance| if chance == 0 { Step::Clear } else { Step::Get(0) }),
    ]
}

/// Does steps with a cache and with a map that forgets nothing: what the cache has is what the map has, and what was
/// just inserted is there. Keys and values are `wide` or narrow, by the closures.
fn run<K: Plain + PartialEq, V: Plain + PartialEq + std::fmt::Debug>(
    cache: &Inline<K, V>,
    steps: &[Step],
    key_of: impl Fn(u16) -> K,
    value_of: impl Fn(u64) -> V,
) where
    K::Words: std::hash::Hash + std::fmt::Debug,
{
    let mut map: HashMap<u16, u64> = HashMap::new();
    let room = cache.capacity();
    for step in steps {
        let stores = cache.capacity() > 0;
        match *step {
            Step::Get(key) | Step::Peek(key) => {
                let expected = map.get(&key).map(|&value| value_of(value));
                let found = if matches!(step, Step::Get(_)) { cache.get(key_of(key)) } else { cache.peek(key_of(key)) };
                assert!(found.is_none() || found == expected, "{found:?}, not {expected:?}");
            }
            Step::Insert(key, value) => {
                let there = cache.peek(key_of(key));
                assert_eq!(cache.insert(key_of(key), value_of(value)), there);
                map.insert(key, value);
                assert_eq!(cache.peek(key_of(key)), stores.then(|| value_of(value)));
            }
            Step::Fill(key, value) => {
                let there = cache.peek(key_of(key));
                let answer = cache.get_or_insert_with(key_of(key), || value_of(value));
                assert_eq!(answer, there.unwrap_or(value_of(value)));
                if there.is_none() {
                    map.insert(key, value);
                }
                assert_eq!(cache.contains(key_of(key)), stores);
            }
            Step::Remove(key) => {
                let there = cache.peek(key_of(key));
                assert_eq!(cache.remove(key_of(key)), there);
                map.remove(&key);
                assert!(!cache.contains(key_of(key)));
            }
            Step::Resize(capacity) if capacity > room => {
                assert_eq!(cache.set_capacity(capacity), Err(NoRoom { capacity, room }));
            }
            Step::Resize(capacity) => {
                assert_eq!(cache.set_capacity(capacity), Ok(()));
                assert_eq!(cache.capacity(), capacity);
            }
            Step::Clear => {
                cache.clear();
                map.clear();
                assert!(cache.is_empty());
            }
        }
        validate(cache);
        assert!(cache.len() <= cache.capacity());
    }
    assert_eq!(entries(cache).len(), cache.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn is_a_map_that_forgets(
        capacity in prop_oneof![Just(0), Just(1), 2..100usize],
        shards_log2 in 0..3u32,
        steps in vec(step(150), 1..if cfg!(miri) { 60 } else { 400 }),
    ) {
        run(&seeded::<u64, u64>(capacity, shards_log2.min((capacity / 8).max(1).ilog2())), &steps, u64::from, |v| v);
    }

    #[test]
    fn wide_ones_too(capacity in 1..40usize, steps in vec(step(80), 1..if cfg!(miri) { 40 } else { 200 })) {
        let key = |key: u16| (u64::from(key), u64::from(key % 3));
        run(&seeded::<(u64, u64), u128>(capacity, 0), &steps, key, |value| u128::from(value) << 50 | 1);
    }
}

#[test]
fn nothing_is_stored_without_capacity() {
    let cache: Inline<u64, u64> = Inline::new(0).expect("0 is a capacity");
    assert_eq!(cache.insert(1, 1), None);
    assert_eq!(cache.get(1), None);
    assert_eq!(cache.get_or_insert_with(1, || 5), 5);
    assert_eq!(cache.remove(1), None);
    cache.clear();
    assert!(cache.is_empty());
    validate(&cache);
}

#[test]
fn a_capacity_of_one_holds_one() {
    let cache: Inline<u64, u64> = Inline::new(1).expect("1 is a capacity");
    for key in 0..100 {
        cache.insert(key, key);
        assert_eq!((cache.get(key), cache.len()), (Some(key), 1));
        validate(&cache);
    }
}

#[test]
fn a_capacity_beyond_memory_is_refused() {
    let error = Inline::<u64, u64>::new(usize::MAX).expect_err("there is no such memory");
    assert_eq!(error, TooLarge { capacity: usize::MAX });
    assert!(error.to_string().contains("above the limit of 2147483648"), "{error}");
    assert!(TooLarge { capacity: 5 }.to_string().contains("ask for less"));
}

/// A working set of exactly the capacity stays: no shard keeps credit that another one needs.
#[test]
fn what_just_fits_stays() {
    let (capacity, shards_log2) = if cfg!(miri) { (30, 1) } else { (20_000, 3) };
    let cache = seeded::<u64, u64>(capacity, shards_log2);
    for key in 0..capacity as u64 {
        cache.insert(key, key);
    }
    validate(&cache);
    let there = (0..capacity as u64).filter(|&key| cache.get(key) == Some(key)).count();
    assert_eq!((there, cache.len()), (capacity, capacity));
    // And what was removed by some shards is room for the others.
    for key in 0..capacity as u64 / 2 {
        cache.remove(key);
    }
    for key in 0..capacity as u64 {
        cache.insert(1 << 40 | key, key);
    }
    validate(&cache);
    assert!(cache.len() >= capacity - 8 * cache.budget.spare_max(), "{}", cache.len());
}

/// Removals leave dead slots, which newcomers may need all at once.
#[test]
fn dead_slots_are_taken_back() {
    let cache = seeded::<u64, u64>(500, 0);
    for round in 0..if cfg!(miri) { 2 } else { 40 } {
        for key in 0..500u64 {
            cache.insert(round << 32 | key, key);
        }
        for key in (0..500u64).filter(|key| key % 7 != round % 7) {
            cache.remove(round << 32 | key);
        }
        validate(&cache);
    }
}
