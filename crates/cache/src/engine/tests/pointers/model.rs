//! On one thread: against a map that forgets nothing, with weights, and at the limits.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Numbers, Present, Put, spread, validate};
use crate::mutation::{Fault, put_back};

#[derive(Clone, Debug)]
enum Step {
    Get(u16),
    Put(u16, u64, usize),
    Fill(u16, u64, usize),
    Remove(u16),
    Clear,
}

fn step(keys: u16, weight_max: usize) -> impl Strategy<Value = Step> {
    let key = 0..keys;
    let weight = prop_oneof![4 => 0..4usize, 1 => 0..weight_max];
    prop_oneof![
        6 => key.clone().prop_map(Step::Get),
        8 => (key.clone(), any::<u64>(), weight.clone()).prop_map(|(key, value, weight)| Step::Put(key, value, weight)),
        4 => (key.clone(), any::<u64>(), weight).prop_map(|(key, value, weight)| Step::Fill(key, value, weight)),
        4 => key.prop_map(Step::Remove),
        1 => (0..30u8).prop_map(|chance| if chance == 0 { Step::Clear } else { Step::Get(0) }),
    ]
}

/// What the cache has is what the map has, and what was just put in is there if it may be.
fn run(cache: &Numbers, steps: &[Step]) {
    let mut map: HashMap<u64, (u64, usize)> = HashMap::new();
    let capacity = cache.cache.capacity();
    for step in steps {
        match *step {
            Step::Get(key) => {
                let found = cache.get(key.into());
                assert!(found.is_none() || found == map.get(&key.into()).map(|entry| entry.0));
            }
            Step::Put(key, value, weight) | Step::Fill(key, value, weight) => {
                let key = u64::from(key);
                let fills = matches!(step, Step::Fill(..));
                let there = cache.peek(key);
                let put = cache.put(key, value, weight, if fills { Present::Kept } else { Present::Replaced });
                let fits = weight.max(1) <= capacity;
                let expected = match there {
                    _ if !fits => Put::Refused,
                    None => Put::Inserted,
                    Some(old) if fills => Put::Kept(old),
                    Some(old) => Put::Replaced(old),
                };
                // What was there may have made room for it.
                assert!(put == expected || (put == Put::Inserted && matches!(expected, Put::Replaced(_))), "{put:?}");
                if !matches!(put, Put::Kept(_)) {
                    map.insert(key, (value, weight.max(1)));
                }
                let after = if let Put::Kept(old) = put { Some(old) } else { fits.then_some(value) };
                assert_eq!(cache.peek(key), after);
            }
            Step::Remove(key) => {
                let there = cache.peek(key.into());
                assert_eq!(cache.remove(key.into()), there);
                map.remove(&key.into());
            }
            Step::Clear => {
                cache.cache.clear();
                map.clear();
                assert_eq!((cache.cache.len(), cache.cache.weight()), (0, 0));
            }
        }
        let entries = cache.entries();
        assert!(entries.iter().all(|(key, value)| map.get(key).is_some_and(|entry| entry.0 == *value)));
        let weight: usize = entries.iter().map(|(key, _)| map[key].1).sum();
        assert_eq!((entries.len(), weight), (cache.cache.len(), cache.cache.weight()));
        assert!(weight <= capacity, "the budget is exact");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 150 }, ..ProptestConfig::default() })]

    #[test]
    fn is_a_map_that_forgets(
        capacity in prop_oneof![Just(0), Just(1), 2..60usize, 60..600usize],
        shards_log2 in 0..3u32,
        steps in vec(step(300, 700), 1..if cfg!(miri) { 60 } else { 500 }),
    ) {
        run(&Numbers::new(capacity, shards_log2), &steps);
    }

    /// Few bits of the hash tell keys apart: segments are full before the directory may grow.
    #[test]
    fn hashes_that_contend(steps in vec(step(600, 3), 1..if cfg!(miri) { 60 } else { 900 }), shift in 40..64u32) {
        let mut cache = Numbers::new(500, 0);
        cache.hash = [|key| key << 62, |key| (key % 7) << 17, |key| key << 40 ^ key << 10][shift as usize % 3];
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Fill(..))).collect();
        let mut map = HashMap::new();
        for step in steps {
            match step {
                Step::Put(key, value, weight) => {
                    let put = cache.put(key.into(), value, weight, Present::Replaced);
                    map.insert(u64::from(key), value);
                    assert_eq!(cache.peek(key.into()), (put != Put::Refused).then_some(value));
                }
                Step::Remove(key) => drop(cache.remove(key.into())),
                Step::Get(key) => drop(cache.get(key.into())),
                _ => cache.cache.clear(),
            }
            assert!(cache.entries().iter().all(|(key, value)| map[key] == *value));
        }
    }
}

/// Keys of one hash: a segment's words are all that there are, and nobody is kept from the rest.
#[test]
fn one_hash_for_all() {
    let mut cache = Numbers::new(1000, 0);
    cache.hash = |key| if key < 900 { 5 } else { spread(key) };
    let put = (0..if cfg!(miri) { 530 } else { 900 }).filter(|&key| cache.insert(key, key) == Put::Inserted).count();
    assert_eq!(put, super::super::super::segment::SEGMENT);
    assert_eq!(cache.insert(1, 7), Put::Replaced(1));
    assert_eq!(cache.insert(5000, 7), Put::Inserted);
    assert_eq!((cache.peek(1), cache.peek(5000), cache.peek(899)), (Some(7), Some(7), None));
    cache.entries();
}

#[test]
fn a_value_may_weigh_the_whole_budget() {
    let cache = Numbers::new(10_000, 3);
    // The keys fill the budget.
    let (rounds, keys, weight) = if cfg!(miri) { (1, 400, 30) } else { (3, 5000, 3) };
    for round in 0..rounds {
        for key in 0..keys {
            cache.put(key, key, weight, Present::Replaced);
        }
        assert!(cache.cache.weight() > 9_000, "{}", cache.cache.weight());
        assert_ne!(cache.put(7000 + round, 1, 10_000, Present::Replaced), Put::Refused);
        assert_eq!((cache.entries(), cache.cache.weight()), (vec![(7000 + round, 1)], 10_000));
        assert_eq!(cache.put(9000, 1, 10_001, Present::Replaced), Put::Refused);
        assert_eq!(cache.put(7000 + round, 1, 10_001, Present::Replaced), Put::Refused);
        assert_eq!(cache.peek(7000 + round), None, "what it stood for is gone");
    }
}

/// A working set of exactly the budget stays, but for what lies idle in shards.
#[test]
fn what_just_fits_stays() {
    let count = if cfg!(miri) { 300 } else { 20_000 };
    let cache = Numbers::new(count, 3);
    (0..count as u64).for_each(|key| {
        cache.insert(key, key);
    });
    let there = (0..count as u64).filter(|&key| cache.get(key) == Some(key)).count();
    assert!(there * 100 >= count * 97, "{there} of {count}");
    cache.entries();
}

/// Hits keep what is hit, through a scan of what is not.
#[test]
fn a_scan_passes_by() {
    let often = if cfg!(miri) { 50 } else { 500 };
    let cache = Numbers::new(2 * often as usize, 0);
    for _ in 0..4 {
        for key in 0..often {
            if cache.get(key).is_none() {
                cache.insert(key, key);
            }
        }
    }
    (1000..1000 + 16 * often).for_each(|key| {
        cache.insert(key, key);
    });
    let kept = (0..often).filter(|&key| cache.peek(key).is_some()).count();
    assert!(kept * 10 > often as usize * 9, "{kept} of {often}");
}

#[test]
fn an_address_that_does_not_fit_is_refused() {
    let cache = Numbers::new(100, 0);
    assert_eq!(cache.insert(1, 1), Put::Inserted);
    put_back(Some(Fault::AddressTooWide));
    assert_eq!((cache.insert(1, 2), cache.insert(2, 2)), (Put::Refused, Put::Refused));
    put_back(None);
    assert_eq!((cache.peek(1), cache.peek(2)), (None, None), "nothing old stays");
    assert_eq!(cache.insert(2, 3), Put::Inserted);
    cache.entries();
}

/// A key's comparison may panic, and the value's drop too.
#[test]
fn a_panic_leaves_all_sound() {
    struct Bad(u64, bool);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(!self.1 || std::thread::panicking(), "a drop that panics");
        }
    }
    let cache: super::Pointers<Bad> = super::Pointers::build(10, 0);
    let put = |key, bad, is: &dyn Fn(&Bad) -> bool| {
        cache.put(
            (spread(key), 1, Bad(key, bad)),
            |_, other| is(other),
            (Present::Replaced, false),
            |put| matches!(put, Put::Inserted),
        )
    };
    assert!(put(1, true, &|_| false));
    let caught = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    assert!(caught(&|| assert!(put(1, false, &|_| panic!("a comparison that panics")))));
    validate::validate(&cache, |bad| bad.0);
    assert!(caught(&|| {
        cache.remove(spread(1), |bad| bad.0 == 1, |bad| assert!(bad.is_some()));
        validate::flush(&cache);
    }));
    assert_eq!(cache.deferred(), 0, "what panicked is counted as dropped");
    assert!(put(2, false, &|_| false));
    assert_eq!(validate::validate(&cache, |bad| bad.0), [2]);
}

/// A comparison that takes all for one key does so among those of one hash only.
#[test]
fn a_comparison_that_lies() {
    let cache: super::Pointers<u64> = super::Pointers::build(1000, 0);
    for key in 0..if cfg!(miri) { 200 } else { 2000u64 } {
        // All have one print, and stand in few groups.
        let hash = spread(key) & !0x1f_ffff;
        cache.put((hash, 1, key), |_, _| true, (Present::Replaced, false), |_| ());
        if key % 3 == 0 {
            cache.remove(spread(key / 2) & !0x1f_ffff, |_| true, |_| ());
        }
    }
    validate::validate(&cache, |_| ());
}
