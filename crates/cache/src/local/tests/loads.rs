//! One load for each key, on threads: panics, errors, circles, and loads that are old when they end.

use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use super::*;

/// Waits until as many threads wait for the flight of a key; tests have no other way to know.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn one_loads_and_all_are_answered() {
    let rounds = if cfg!(miri) { 2 } else { 200 };
    let cache: Cache<u64, u64> = Cache::new(1000);
    let (loads, barrier) = (AtomicUsize::new(0), Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..rounds {
                    barrier.wait();
                    let load = || {
                        std::thread::yield_now();
                        loads.fetch_add(1, Ordering::Relaxed) as u64
                    };
                    assert_eq!(cache.get_with(key, load), Ok(key));
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(loads.load(Ordering::Relaxed), rounds as usize);
}

/// A cache that stores nothing still loads once for all who wait.
#[test]
fn what_is_not_stored_is_handed_over() {
    let cache: Cache<u64, u64> = Cache::new(0);
    let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            cache.get_with(1, || {
                begun.wait();
                go_on.wait();
                7
            })
        });
        begun.wait();
        let waiter = scope.spawn(|| cache.get_with(1, || 8));
        until(|| cache.flights.waiting(cache.hash(&1)) > 0);
        go_on.wait();
        assert_eq!((leader.join().expect("no panic"), waiter.join().expect("no panic")), (Ok(7), Ok(7)));
    });
    assert_eq!(cache.get_with(1, || 9), Ok(9), "it was not stored");
}

#[test]
fn after_a_panic_the_next_loads() {
    let cache: Cache<u64, u64> = Cache::new(10);
    let tries = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    cache.get_with(1, || {
                        if tries.fetch_add(1, Ordering::Relaxed) < 3 {
                            std::thread::yield_now();
                            panic!("a loader that panics");
                        }
                        5
                    })
                })
            })
            .collect();
        let ends: Vec<_> = runs.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        assert_eq!(ends.iter().filter(|end| end.is_err()).count(), 3, "each panic is its own caller's");
        assert!(ends.into_iter().flatten().eq([Ok(5)]));
    });
    assert!(cache.flights.is_empty() && cache.get(&1) == Some(5));
}

/// Who waits is given the error; whose loader has another type of error loads for itself.
#[test]
fn errors_are_shared_and_not_stored() {
    let cache: Cache<u64, u64> = Cache::new(10);
    let (begun, go_on) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let failed = cache.try_get_with(1, || {
                begun.wait();
                go_on.wait();
                Err("the first")
            });
            assert!(matches!(failed, Err(LoadError::Failed(error)) if *error == "the first"));
        });
        begun.wait();
        let shared = scope.spawn(|| cache.try_get_with(1, || Err("the second")));
        until(|| cache.flights.waiting(cache.hash(&1)) == 1);
        let other = scope.spawn(|| cache.try_get_with(1, || Err::<u64, i32>(7)));
        until(|| cache.flights.waiting(cache.hash(&1)) == 2);
        go_on.wait();
        let shared = shared.join().expect("no panic");
        assert!(matches!(shared, Err(LoadError::Failed(error)) if *error == "the first"));
        assert!(matches!(other.join().expect("no panic"), Err(LoadError::Failed(error)) if *error == 7));
    });
    assert_eq!(cache.try_get_with(1, || Ok::<u64, i32>(3)).ok(), Some(3));
    assert_eq!(cache.optionally_get_with(1, || None), Ok(Some(3)));
}

#[test]
fn a_loader_that_asks_for_its_own_key() {
    let cache: Cache<u64, u64> = Cache::new(10);
    let answer = cache.get_with(1, || {
        assert_eq!(cache.get_with(1, || 0), Err(OwnKey));
        assert!(matches!(cache.try_get_with(1, || Ok::<u64, i32>(0)), Err(LoadError::OwnKey)));
        // By way of another key.
        let by_two = cache.get_with(2, || {
            assert_eq!(cache.optionally_get_with(1, || None), Err(OwnKey));
            2
        });
        by_two.map_or(0, |two| two + 1)
    });
    assert_eq!((answer, cache.get(&2)), (Ok(3), Some(2)));
}

/// Two threads and two caches whose loaders wait for each other: one is told, and none waits for ever.
#[test]
fn a_circle_through_threads_and_caches() {
    let caches: [Cache<u64, u64>; 2] = [Cache::new(10), Cache::new(10)];
    let barrier = Barrier::new(2);
    let told = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for at in 0..2 {
            let (caches, barrier, told) = (&caches, &barrier, &told);
            scope.spawn(move || {
                let answer = caches[at].get_with(1, || {
                    barrier.wait();
                    caches[1 - at].get_with(1, || 0).unwrap_or_else(|OwnKey| {
                        told.fetch_add(1, Ordering::Relaxed);
                        7
                    })
                });
                assert_eq!(answer, Ok(7));
            });
        }
    });
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

/// A load that began before a change is answered and not stored, whatever changed the key.
#[test]
fn what_is_old_is_not_stored() {
    type Change = fn(&Cache<u64, u64>);
    let changes: [(Change, Option<u64>); 7] = [
        (|cache| _ = cache.insert(1, 5), Some(5)),
        (|cache| _ = cache.remove(&1), None),
        (|cache| _ = cache.invalidate(&1), None),
        (|cache| cache.clear(), None),
        (|cache| _ = cache.invalidate_if(|_, _| true), None),
        (|cache| _ = cache.compute(1, |_| Op::Insert(6)), Some(6)),
        (|cache| _ = cache.get_or_insert_with(1, || 8), Some(8)),
    ];
    for (change, there) in changes {
        let cache: Cache<u64, u64> = Cache::new(10);
        let mut inner = None;
        let loaded = cache.get_with(1, || {
            change(&cache);
            // Who comes after the change does not wait for the load from before.
            inner = Some(cache.get_with(2, || cache.peek(&1).unwrap_or(0)));
            1
        });
        assert_eq!((loaded, cache.get(&1)), (Ok(1), there));
        assert_eq!(inner, Some(Ok(there.unwrap_or(0))));
        assert!(cache.flights.is_empty());
        // The next load is a new one.
        assert_eq!(cache.get_with(1, || 9), Ok(there.unwrap_or(9)));
    }
}

#[test]
fn loads_are_counted() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> = Cache::builder().capacity(10).statistics().clock(hand.clone()).build();
    let load = |key, loaded: Result<u64, i32>| {
        cache.try_get_with(key, || {
            hand.advance(100);
            loaded
        })
    };
    let loaded = [load(1, Ok(1)), load(1, Ok(2)), load(2, Err(3))].map(Result::ok);
    assert_eq!(loaded, [Some(1), Some(1), None]);
    cache.get(&1);
    let found = cache.statistics().expect("they were asked for");
    let expected = Statistics {
        hits: 2,
        misses: 2,
        loads: 2,
        load_failures: 1,
        load_time: Duration::from_nanos(200),
        entries: 1,
        weight: 1,
        ..Statistics::default()
    };
    assert_eq!((found, Cache::<u64, u64>::new(1).statistics()), (expected, None));
}

/// While one loads a value again, the others are given the one that is there and do not wait.
#[test]
fn the_old_is_given_while_it_is_loaded_again() {
    let hand = Hand::default();
    let minute = Duration::from_secs(60);
    let cache: Cache<u64, u64> = Cache::builder().capacity(10).refresh_after(minute).clock(hand.clone()).build();
    assert_eq!((cache.get_with(1, || 1), cache.get_with(1, || 2)), (Ok(1), Ok(1)));
    hand.advance(60_000_000_000);
    assert_eq!(cache.get(&1), Some(1), "who has no loader is given what is there");
    let loaded = cache.get_with(1, || {
        assert_eq!(cache.get_with(1, || 7), Ok(1), "so is the loader itself");
        let other = std::thread::scope(|scope| scope.spawn(|| cache.get_with(1, || 8)).join());
        assert_eq!(other.ok(), Some(Ok(1)));
        3
    });
    assert_eq!((loaded, cache.get_with(1, || 9)), (Ok(3), Ok(3)));
    // A load that fails leaves what is there, and is tried again a minute later.
    hand.advance(60_000_000_000);
    assert_eq!(cache.try_get_with(1, || Err("no network")).ok(), Some(3));
    assert_eq!(cache.get_with(1, || 10), Ok(3));
    hand.advance(60_000_000_000);
    assert!(panics(|| cache.get_with(1, || panic!("it was told to"))));
    assert_eq!((cache.get(&1), cache.flights.is_empty()), (Some(3), true));
    // What is removed meanwhile does not come back, and what has nothing to load goes.
    let removed = cache.get_with(1, || {
        cache.invalidate(&1);
        11
    });
    assert_eq!((removed, cache.get(&1)), (Ok(11), None));
    cache.insert(1, 12);
    hand.advance(60_000_000_000);
    assert_eq!((cache.optionally_get_with(1, || None), cache.get(&1)), (Ok(None), None));
}
