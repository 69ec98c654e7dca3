//! What programs do wrong: each has a clear end, and the cache goes on.

use std::hash::Hasher;

use super::*;

#[test]
fn capacities_at_the_limits() {
    for capacity in [0, 1, usize::MAX] {
        let cache: Cache<u64, u64> = Cache::new(capacity);
        assert_eq!(cache.insert(1, 1), capacity > 0);
        assert_eq!((cache.get(&1).is_some(), cache.len()), (capacity > 0, capacity.min(1)));
        assert_eq!(cache.get_with(2, || 2), Ok(2));
        assert_eq!(cache.compute(3, |_| Op::Insert(3)) == Computed::Refused, capacity == 0);
        for other in [usize::MAX, 1, 0] {
            assert_eq!(cache.set_capacity(other), Ok(()));
            assert!(cache.len() <= other);
        }
        assert!(cache.is_empty() && !cache.insert(1, 1));
        cache.entries.validate_all();
    }
    assert!(!Cache::<u64, u64>::builder().build().insert(1, 1), "a capacity that was not said is 0");
}

#[test]
fn weights_at_the_limits() {
    let cache: Cache<u64, usize> = Cache::builder().capacity(10).weigher(|_, weight| *weight).build();
    assert!(cache.insert(1, 0) && cache.weight() == 1, "a weight of 0 counts as 1");
    assert!(!cache.insert(1, 11) && !cache.contains(&1), "what does not fit takes the old with it");
    assert!(!cache.insert(2, usize::MAX) && cache.insert(3, 10) && cache.weight() == 10);
    // A weigher that answers something else each time is asked once for each entry.
    let turn = AtomicU64::new(0);
    let fickle = move |_: &u64, _: &u64| turn.fetch_add(1, Ordering::Relaxed) as usize % 5;
    let cache: Cache<u64, u64> = Cache::builder().capacity(20).weigher(fickle).build();
    for step in 0..1000 {
        cache.insert(step % 30, step);
        assert!(cache.weight() <= 20);
    }
    cache.clear();
    assert_eq!(cache.weight(), 0);
}

#[test]
fn lifetimes_at_the_limits() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> = Cache::builder().capacity(10).clock(hand.clone()).build();
    let living = |since_write| Lifetime { since_write: Some(since_write), ..Lifetime::ENDLESS };
    cache.insert(1, 1);
    assert!(!cache.insert_with(1, 2, living(Duration::ZERO)) && cache.get(&1).is_none(), "it is over at once");
    assert!(cache.insert_with(1, 3, living(Duration::MAX)), "it never ends");
    assert!(cache.insert_with(2, 4, living(Duration::from_nanos(1))));
    hand.set(u64::MAX);
    cache.run_pending();
    assert_eq!((cache.get(&1), cache.get(&2), cache.len()), (Some(3), None, 1));
    // A clock that goes back revives nothing.
    assert!(!cache.insert_with(4, 4, living(Duration::ZERO)));
    hand.set(0);
    assert!(cache.get(&2).is_none());
    let zero: Cache<u64, u64> = Cache::builder().capacity(10).time_to_idle(Duration::ZERO).build();
    assert_eq!((zero.get_with(1, || 5), zero.len()), (Ok(5), 0));
}

#[test]
fn a_clock_that_goes_back_revives_nothing() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> =
        Cache::builder().capacity(10).clock(hand.clone()).time_to_live(Duration::from_secs(1)).build();
    cache.insert(1, 1);
    hand.set(1_000_000_000);
    assert_eq!(cache.get(&1), None);
    hand.set(5);
    assert_eq!((cache.get(&1), cache.peek(&1), cache.iter().count()), (None, None, 0));
    assert_eq!(cache.get_or_insert_with(1, || 2), 2, "what has expired is replaced");
    assert!(cache.insert(1, 3) && cache.get(&1) == Some(3));
}

/// Code of a program that panics when it is told to.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicBool>);

impl Switch {
    fn check(&self) {
        assert!(!self.0.load(Ordering::Relaxed), "it was told to panic");
    }

    fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

/// A key and a value whose every part may panic.
struct Touchy {
    number: u64,
    hash: Switch,
    eq: Switch,
    clone: Switch,
}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.check();
        state.write_u64(self.number);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        self.eq.check();
        self.number == other.number
    }
}

impl Eq for Touchy {}

impl Clone for Touchy {
    fn clone(&self) -> Self {
        self.clone.check();
        let Touchy { number, hash, eq, clone } = self;
        Touchy { number: *number, hash: hash.clone(), eq: eq.clone(), clone: clone.clone() }
    }
}

type Run = fn(&Cache<Touchy, Touchy>, &dyn Fn(u64) -> Touchy);

#[test]
fn code_that_panics() {
    let [hash, eq, clone, weigher, clock, listener, lifetimes, tagger] = std::array::from_fn(|_| Switch::default());
    let make = |number| Touchy { number, hash: hash.clone(), eq: eq.clone(), clone: clone.clone() };
    let (weighs, lives, told) = (weigher.clone(), lifetimes.clone(), listener.clone());
    let (time, tagged) = (clock.clone(), tagger.clone());
    let lifetime = Lifetime { since_write: Some(Duration::from_secs(1)), ..Lifetime::ENDLESS };
    let cache: Cache<Touchy, Touchy> = Cache::builder()
        .capacity(20 * (1 + TAG_WEIGHT))
        .weigher(move |_: &Touchy, _| (weighs.check(), 1).1)
        .lifetimes(move |_, _| (lives.check(), lifetime).1)
        .listener(move |_, _, _| told.check())
        .tags(move |key: &Touchy, _, tags| (tagged.check(), tags.add(&(key.number % 2))).1)
        .clock(move || (time.check(), Duration::from_secs(1)).1)
        .build();
    let runs: [(&str, Run); 13] = [
        ("pin", |cache, make| _ = cache.pin(&make(1))),
        ("unpin", |cache, make| _ = cache.unpin(&make(1))),
        ("explain", |cache, make| _ = cache.explain(&make(1))),
        ("invalidate_tag", |cache, _| _ = cache.invalidate_tag(&1u64)),
        ("insert", |cache, make| _ = cache.insert(make(1), make(2))),
        ("insert another", |cache, make| _ = cache.insert(make(99), make(2))),
        ("get", |cache, make| _ = cache.get(&make(1))),
        ("remove", |cache, make| _ = cache.remove(&make(1))),
        ("compute", |cache, make| _ = cache.compute(make(1), |_| Op::Insert(make(3)))),
        ("get_with", |cache, make| _ = cache.get_with(make(50), || make(3)).is_ok()),
        ("get_or_insert_with", |cache, make| _ = cache.get_or_insert_with(make(51), || make(3))),
        ("invalidate_if", |cache, _| _ = cache.invalidate_if(|key, _| key.number % 3 == 0)),
        ("iter", |cache, _| _ = cache.iter().count()),
    ];
    let mut panicked = 0;
    for switch in [&hash, &eq, &clone, &weigher, &clock, &lifetimes, &tagger, &listener] {
        for (name, run) in runs {
            (0..20).for_each(|number| _ = cache.insert(make(number), make(number)));
            switch.set(true);
            let caught = panics(|| run(&cache, &make));
            switch.set(false);
            panicked += usize::from(caught);
            assert!(!caught || !std::ptr::eq(switch, &listener), "{name}: a listener's panic ends in the cache");
            // All is sound, and whoever comes next is served.
            cache.entries.validate_all();
            assert!(cache.flights.is_empty(), "{name}: no flight is left");
            cache.for_each(|key, value| assert!(value.number == key.number || (2..4).contains(&value.number)));
            assert!(cache.insert(make(1), make(1)) && cache.get(&make(1)).is_some(), "{name}");
        }
    }
    assert!(panicked > 25, "{panicked} runs panicked");
}

/// A closure that panics leaves the entry as it was.
#[test]
fn a_computation_that_panics() {
    let cache: Cache<u64, String> = Cache::new(10);
    cache.insert(1, "one".to_string());
    assert!(panics(|| cache.compute(1, |_| panic!("it was told to"))));
    assert!(panics(|| cache.compute(2, |_| panic!("it was told to"))));
    assert!(panics(|| cache.invalidate_if(|_, _| panic!("it was told to"))));
    assert!(panics(|| cache.for_each(|_, _| panic!("it was told to"))));
    assert!(panics(|| cache.with(&1, |_| panic!("it was told to"))));
    assert_eq!((cache.get(&1).as_deref(), cache.get(&2), cache.len()), (Some("one"), None, 1));
    cache.entries.validate_all();
}

/// A closure that changes its own key each time is told so in the end.
#[test]
fn a_computation_that_disturbs_itself() {
    let cache: Cache<u64, u64> = Cache::new(100);
    let mut runs = 0;
    let computed = cache.compute(1, |value| {
        runs += 1;
        cache.insert(1, value.map_or(0, |value| value + 1));
        Op::Insert(0)
    });
    assert_eq!((computed, runs), (Computed::Disturbed, COMPUTE_TRIES_MAX));
    // Other keys are no trouble.
    let computed = cache.compute(1, |_| Op::Insert(u64::from(cache.insert(2, 2))));
    assert_eq!((computed, cache.get(&1)), (Computed::Replaced, Some(1)));
}

/// What is removed is just what the closure saw, and not what came in its place.
#[test]
fn a_removal_of_what_has_changed() {
    let cache: Cache<u64, u64> = Cache::new(100);
    cache.insert(1, 1);
    let computed = cache.compute(1, |value| {
        cache.insert(1, 2);
        if value == Some(&1) { Op::Remove } else { Op::Keep }
    });
    assert_eq!((computed, cache.get(&1)), (Computed::Kept, Some(2)));
    let removed = cache.invalidate_if(|key, value| *value == 2 && cache.insert(*key, 3));
    assert_eq!((removed, cache.get(&1)), (0, Some(3)));
}

/// Keys whose hashes and comparisons contradict each other.
#[test]
fn keys_that_contradict() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    struct Fickle(u64);
    impl Hash for Fickle {
        fn hash<H: Hasher>(&self, state: &mut H) {
            state.write_u64(self.0 + TURN.fetch_add(1, Ordering::Relaxed) % 3);
        }
    }
    impl PartialEq for Fickle {
        fn eq(&self, other: &Self) -> bool {
            (self.0 + other.0 + TURN.fetch_add(1, Ordering::Relaxed)).is_multiple_of(2)
        }
    }
    impl Eq for Fickle {}
    impl Clone for Fickle {
        fn clone(&self) -> Self {
            Fickle(self.0 + 1)
        }
    }
    let cache: Cache<Fickle, u64> = Cache::new(50);
    for step in 0..if cfg!(miri) { 100 } else { 5000 } {
        let key = Fickle(step % 40);
        match step % 6 {
            0 => drop(cache.remove(&key)),
            1 => drop(cache.compute(key, |value| value.map_or(Op::Insert(step), |_| Op::Remove))),
            2 => drop(cache.get_with(key, || step)),
            3 if step % 100 == 3 => drop(cache.invalidate_if(|_, value| value % 2 == 0)),
            _ => drop(cache.insert(key, step)),
        }
        assert!(cache.len() <= 50);
    }
    cache.entries.validate_all();
}

/// A hasher that answers one number for all keys: a segment's words are all that there are, and loads are still
/// told apart.
#[test]
fn one_hash_for_all() {
    #[derive(Clone)]
    struct Constant;
    impl BuildHasher for Constant {
        type Hasher = Constant;
        fn build_hasher(&self) -> Constant {
            Constant
        }
    }
    impl Hasher for Constant {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }
    let cache = Cache::builder().capacity(10_000).hasher(Constant).build();
    let stored = (0..1000u64).filter(|&key| cache.insert(key, key)).count();
    assert!((200..1000).contains(&stored), "{stored}");
    assert_eq!(cache.iter().count(), stored);
    cache.clear();
    assert_eq!(cache.get_with(5000, || cache.get_with(5001, || 1).map_or(0, |one| one + 1)), Ok(2));
}

/// A listener that uses the cache, and one that never comes to an end of it.
#[test]
fn a_listener_that_calls_the_cache() {
    let cell: Arc<std::sync::OnceLock<Cache<u64, u64>>> = Arc::default();
    let (inner, calls) = (cell.clone(), Arc::new(AtomicU64::new(0)));
    let count = calls.clone();
    let listener = move |key: &u64, value: &u64, cause: Cause| {
        let Some(cache) = inner.get() else { return };
        if count.fetch_add(1, Ordering::Relaxed) < if cfg!(miri) { 10 } else { 500 } {
            cache.insert(key + 1000, *value);
            cache.get(key);
            cache.run_pending();
            _ = cache.get_with(key + 5000, || 1);
            _ = cache.compute(key + 1, |_| if cause == Cause::Evicted { Op::Keep } else { Op::Remove });
        }
    };
    let cache = cell.get_or_init(|| Cache::builder().capacity(5).listener(listener).build());
    let keys = if cfg!(miri) { 10 } else { 50 };
    for key in 0..keys {
        cache.insert(key, key);
        assert!(cache.len() <= 5);
    }
    cache.clear();
    assert!(calls.load(Ordering::Relaxed) >= keys);
    cache.entries.validate_all();
}

/// A guard is held while the cache shrinks and is cleared: what it found stays, and what is newly stored is bounded.
#[test]
fn a_guard_beside_all_that_shrinks() {
    let count = if cfg!(miri) { 100 } else { 1000 };
    let cache: Cache<u64, Box<u64>> = Cache::new(count as usize);
    (0..count).for_each(|key| _ = cache.insert(key, Box::new(key)));
    let guarded = cache.guard();
    let found: Vec<&Box<u64>> = (0..count).filter_map(|key| guarded.get(&key)).collect();
    assert!(found.len() as u64 > count * 9 / 10);
    assert_eq!(cache.set_capacity(3), Ok(()));
    cache.clear();
    cache.run_pending();
    assert!(found.iter().all(|value| ***value < 1000) && cache.is_empty());
    assert!(!cache.insert(1, Box::new(1)), "while a guard keeps too much, nothing is stored");
    drop(guarded);
    assert!(cache.insert(1, Box::new(1)));
}

/// Memory comes back by writes alone, without a question for what has expired.
#[test]
fn writes_take_out_what_has_expired() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> =
        Cache::builder().capacity(100_000).clock(hand.clone()).time_to_live(Duration::from_secs(1)).build();
    (0..1000).for_each(|key| _ = cache.insert(key, key));
    hand.set(3_000_000_000);
    assert_eq!(cache.len(), 1000);
    (1000..2000).for_each(|key| _ = cache.insert(key, key));
    assert!(cache.len() <= 1016, "{} are left", cache.len());
    cache.run_pending();
    assert_eq!(cache.len(), 1000);
}

/// A use that comes more often than the grain of the idle time keeps an entry for as long as it goes on.
#[test]
fn what_is_used_does_not_expire() {
    let hand = Hand::default();
    let cache: Cache<u64, u64> =
        Cache::builder().capacity(10).clock(hand.clone()).time_to_idle(Duration::from_secs(10)).build();
    assert!(cache.insert(1, 1) && cache.insert(2, 2));
    for _ in 0..1000 {
        hand.advance(1_000_000);
        assert_eq!(cache.get(&1), Some(1));
    }
    hand.advance(9_500_000_000);
    cache.run_pending();
    assert_eq!((cache.peek(&1), cache.peek(&2), cache.len()), (Some(1), None, 1));
    hand.advance(600_000_000);
    cache.run_pending();
    assert_eq!(cache.len(), 0);
}
