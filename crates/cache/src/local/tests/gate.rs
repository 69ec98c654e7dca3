//! Each rule of pins, tags and snapshots is left out once: a test is worth its time only while it finds that.

use super::*;
use crate::mutation::{Fault, put_back};

/// A rule that is left out, and a test of one thread that breaks then.
const GATE: &[(Fault, fn())] = &[
    (Fault::PinnedInOrder, pins::pins_are_counted_up_to_a_limit),
    (Fault::UnpinLost, pins::pins_are_counted_up_to_a_limit),
    (Fault::TaggedBeforeUntagged, tags_of_a_value_that_replaces_another),
    (Fault::InsertedUntagged, an_insert_beside_an_invalidation),
    (Fault::LoadOutlivesTag, pins::a_load_beside_an_invalidation),
    (Fault::ValueUnderAnother, snapshots::a_policy_that_differs_or_has_no_order),
    (Fault::ChecksumIgnored, snapshots::a_block_of_another_file),
];

/// A value has its own tags, and those that it has in common with the one before stay.
#[test]
fn tags_of_a_value_that_replaces_another() {
    let cache: Cache<u64, u64> = Cache::new(100);
    (0..20).for_each(|key| _ = cache.insert_tagged(key, 0, &["kept", "old"]));
    (0..20).for_each(|key| _ = cache.insert_tagged(key, 1, &["kept", "new"]));
    assert_eq!((cache.invalidate_tag("old"), cache.len()), (0, 20));
    assert_eq!((cache.invalidate_tag("kept"), cache.invalidate_tag("new"), cache.len()), (20, 0, 0));
    cache.entries.validate_all();
}

/// Entries come in from within the invalidation of their tag, by the listener of what it removes: they may stay, and
/// then the next invalidation finds them. Each that had come in before goes.
#[test]
fn an_insert_beside_an_invalidation() {
    let (cache, inserted) = (Arc::new(std::sync::OnceLock::<Cache<u64, u64>>::new()), AtomicU64::new(0));
    let inner = cache.clone();
    let listener = move |key: &u64, _: &u64, cause| {
        if cause == Cause::Removed && *key < 100 {
            let cache = inner.get().expect("it is built");
            cache.insert_tagged(100 + inserted.fetch_add(1, Ordering::Relaxed), 1, &["tag"]);
        }
    };
    let built = Cache::builder().capacity(1000).listener(listener).build();
    let cache = cache.get_or_init(|| built);
    (0..100).for_each(|key| _ = cache.insert_tagged(key, 0, &["tag"]));
    let removed = cache.invalidate_tag("tag");
    assert!((0..100).all(|key| !cache.contains(&key)), "what had come in before goes");
    assert_eq!(removed + cache.len(), 200, "what came in during the invalidation goes or stays");
    cache.entries.validate_all();
    assert_eq!((cache.invalidate_tag("tag"), cache.len()), (200 - removed, 0), "and is found by the next");
}

#[test]
fn each_rule_is_needed() {
    for (fault, test) in GATE {
        let run = move || {
            put_back(Some(*fault));
            test();
        };
        let found = std::thread::Builder::new().name(format!("{fault:?}")).spawn(run).map(|thread| thread.join());
        assert!(found.expect("a thread").is_err(), "{fault:?} is not found");
    }
}
