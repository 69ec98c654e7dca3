//! Entries that are pinned, with threads and with all policies. What one thread does is in `model.rs`.

use super::*;

/// By every policy of the table: what is pinned stays, what is unpinned goes in the end, and nothing is lost count of.
#[test]
fn pinned_by_each_policy() {
    let mut policies: Vec<&str> = crate::policy::POLICIES.iter().map(|policy| policy.name).collect();
    policies.push("");
    for policy in policies {
        let builder = Cache::<u64, u64>::builder().capacity(40);
        let builder = if policy.is_empty() { builder } else { builder.policy(policy).expect("it is in the table") };
        let cache = builder.build();
        (0..20).for_each(|key| _ = cache.insert(key, key));
        let pinned: Vec<u64> = (0..20).filter(|key| key % 2 == 0 && cache.pin(key)).collect();
        assert!(pinned.len() >= 5, "{policy}: {pinned:?}");
        for key in 0..if cfg!(miri) { 60 } else { 2000 } {
            cache.get(&(key % 50));
            cache.get_or_insert_with(1000 + key % 300, || key);
            if key % 7 == 0 {
                cache.insert(pinned[key as usize % pinned.len()], key);
            }
        }
        assert!(pinned.iter().all(|key| cache.contains(key)), "{policy}");
        cache.entries.validate_all();
        assert_eq!(cache.entries.pinned(), pinned.len());
        let resized = cache.set_capacity(3);
        assert_eq!(resized, Err(StillPinned { wanted: 3, capacity: pinned.len() }), "{policy}");
        assert_eq!((cache.len(), cache.capacity()), (pinned.len(), pinned.len()));
        assert!(!cache.insert(77, 7) && cache.insert(pinned[0], 7), "{policy}: a pinned one may have another value");
        assert!(pinned.iter().all(|key| cache.unpin(key) && !cache.unpin(key)));
        assert_eq!((cache.set_capacity(3), cache.entries.pinned()), (Ok(()), 0));
        assert!(cache.len() <= 3);
        assert!(cache.set_capacity(40).is_ok());
        (0..500).for_each(|key| _ = cache.get_or_insert_with(key % 90, || key));
        cache.entries.validate_all();
    }
}

#[test]
pub(super) fn pins_are_counted_up_to_a_limit() {
    let cache: Cache<u64, u64> = Cache::new(1);
    cache.insert(1, 1);
    let most = if cfg!(miri) { 100 } else { PINS_MAX };
    assert!((0..most).all(|_| cache.pin(&1)) && (most < PINS_MAX || !cache.pin(&1)));
    assert!(!cache.insert(2, 2) && cache.contains(&1), "all is pinned");
    assert!((1..most).all(|_| cache.unpin(&1)) && !cache.insert(2, 2));
    assert!(cache.unpin(&1) && cache.insert(2, 2) && !cache.contains(&1));
    // A removal ends all pins.
    assert!(cache.pin(&2) && cache.invalidate(&2) && !cache.unpin(&2) && cache.insert(2, 3) && !cache.unpin(&2));
    let error = StillPinned { wanted: 3, capacity: 9 }.to_string();
    assert_eq!(error, "entries that are pinned weigh more than 3; the capacity is 9 now. Unpin some and set it again");
}

/// Threads pin, unpin, tag and remove beside those that write and one that changes the capacity.
#[test]
fn pins_and_tags_beside_writers() {
    let steps = if cfg!(miri) { 60 } else { 8000 };
    let cache: Cache<u64, u64> = Cache::builder().capacity(5000).weigher(|key, _| 1 + *key as usize % 3).build();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mut pinned = Vec::new();
                for step in 0..steps {
                    let key = random.u64(..400);
                    match random.u8(..16) {
                        0 if cache.pin(&key) => pinned.push(key),
                        1 => drop(pinned.pop().map(|key| cache.unpin(&key))),
                        2 => drop(cache.remove(&key)),
                        3 if step % 64 == 3 => drop(cache.invalidate_tag(&(key % 8))),
                        4 if step % 256 == 4 => drop(cache.set_capacity(random.usize(50..6000))),
                        5 => cache.run_pending(),
                        6..10 => drop(cache.insert_tagged(key, step, &[key % 8, 8 + key % 4])),
                        _ => drop(cache.get_or_insert_with(key, || step)),
                    }
                    assert!(pinned.len() < 2000);
                }
                pinned.into_iter().for_each(|key| _ = cache.unpin(&key));
            });
        }
    });
    cache.entries.validate_all();
    (0..12u64).for_each(|tag| _ = cache.invalidate_tag(&tag));
    cache.entries.validate_all();
    assert_eq!((0..12u64).map(|tag| cache.invalidate_tag(&tag)).sum::<usize>(), 0);
    cache.clear();
    assert_eq!((cache.entries.pinned(), cache.weight()), (0, 0));
    assert!(cache.set_capacity(10).is_ok());
}

/// Beyond so many tags an entry is refused, since one that is left out would be missed.
#[test]
fn too_many_tags() {
    let cache: Cache<u64, u64> = Cache::new(usize::MAX);
    let tags: Vec<usize> = (0..=TAGS_MAX).collect();
    assert!(cache.insert_tagged(1, 1, &tags[1..]) && !cache.insert_tagged(1, 2, &tags) && !cache.contains(&1));
    let twice: Vec<usize> = tags[1..].iter().chain(&tags[1..]).copied().collect();
    assert!(cache.insert_tagged(1, 3, &twice), "one that is said twice is one");
    assert_eq!((cache.invalidate_tag(&0usize), cache.invalidate_tag(&1usize)), (0, 1));
}

/// A load that was under way when a tag was invalidated is not stored: it may be from before.
#[test]
pub(super) fn a_load_beside_an_invalidation() {
    let cache: Cache<u64, u64> = Cache::builder().capacity(10).tags(|_, _, tags| tags.add("all")).build();
    assert_eq!(cache.get_with(1, || (cache.invalidate_tag("all"), 5).1 as u64), Ok(5));
    assert!(!cache.contains(&1));
    assert_eq!((cache.get_with(1, || 6), cache.invalidate_tag("all"), cache.len()), (Ok(6), 1, 0));
}
