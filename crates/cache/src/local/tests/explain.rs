//! What is said of an entry, by every policy.

use std::hash::{BuildHasherDefault, DefaultHasher};

use super::*;

/// All policies of the table, and the built-in one. All caches hash alike.
fn each(mut of: impl FnMut(&str, Cache<u64, u64, BuildHasherDefault<DefaultHasher>>)) {
    let table = crate::policy::POLICIES.iter().map(|policy| policy.name);
    for policy in table.chain([""]) {
        let builder = Cache::builder().capacity(40).hasher(BuildHasherDefault::default());
        let builder = if policy.is_empty() { builder } else { builder.policy(policy).expect("it is in the table") };
        of(policy, builder.build());
    }
}

#[test]
fn every_entry_is_explained() {
    each(|policy, cache| {
        (0..60).for_each(|key| _ = cache.insert(key, key));
        let key = cache.iter().map(|(key, _)| key).next().expect("something is in");
        let before = cache.explain(&key).expect("it is in");
        assert!(cache.pin(&key));
        let pinned = cache.explain(&key).expect("it is in");
        assert!(before != pinned && pinned.contains("pinned"), "{policy}: '{before}' and '{pinned}'");
        assert!(cache.iter().all(|(key, _)| cache.explain(&key).is_some_and(|line| line != "not in")), "{policy}");
        assert!(cache.invalidate(&key));
        let gone = cache.explain(&key);
        assert!(gone.as_ref() != Some(&pinned) && gone != Some("not in".into()), "{policy}: {gone:?}");
    });
}

/// Who asks why changes nothing.
#[test]
fn explaining_is_no_use() {
    let evicted = |asks: bool| {
        let mut all = Vec::new();
        each(|_, cache| {
            for step in 0..if cfg!(miri) { 100 } else { 2000u64 } {
                let key = step * step % 97;
                cache.get_or_insert_with(key, || step);
                if asks {
                    cache.explain(&(step % 97));
                    cache.explain(&key);
                }
            }
            let mut keys: Vec<u64> = cache.iter().map(|(key, _)| key).collect();
            keys.sort_unstable();
            all.push(keys);
        });
        all
    };
    assert_eq!(evicted(false), evicted(true));
}

#[test]
fn what_has_expired_is_not_explained() {
    let hand = Hand::default();
    let builder = Cache::builder().capacity(10).clock(hand.clone()).time_to_live(Duration::from_secs(1));
    let cache: Cache<u64, u64> = builder.build();
    cache.insert(1, 1);
    let line = cache.explain(&1).expect("it is in");
    assert!(line.starts_with("small queue (1 of ") && line.contains(", 0 hits;"), "{line}");
    assert_eq!((cache.get(&1), cache.get(&1)), (Some(1), Some(1)));
    let line = cache.explain(&1).expect("it is in");
    assert!(line.contains(", 2 hits;"), "{line}");
    hand.advance(2_000_000_000);
    assert_eq!((cache.len(), cache.explain(&1)), (1, None));
}
