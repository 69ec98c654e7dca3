//! What does not come in: it is told, it is dropped without a lock, and what it was to replace is judged as it is.

use super::*;

/// A value that looks at the cache's locks when it is dropped.
struct Watching(Arc<Seen>, usize);

#[derive(Default)]
struct Seen {
    cache: std::sync::OnceLock<Cache<u64, Watching>>,
    drops: AtomicU64,
    under_a_lock: AtomicU64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(cache) = self.0.cache.get() else { return };
        let is_locked = cache.flights.is_locked() || cache.entries.is_locked();
        self.0.under_a_lock.fetch_add(u64::from(is_locked), Ordering::Relaxed);
        self.0.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Clone for Watching {
    fn clone(&self) -> Self {
        Watching(self.0.clone(), self.1)
    }
}

/// Values are dropped without a lock, also those that do not come in.
#[test]
fn what_is_refused_is_dropped_without_a_lock() {
    let seen = Arc::new(Seen::default());
    let cache = seen.cache.get_or_init(|| {
        Cache::builder().capacity(10).weigher(|_, value: &Watching| value.1).refresh_after(Duration::ZERO).build()
    });
    let value = |weight| Watching(seen.clone(), weight);
    type Step<'c> = (&'static str, &'c dyn Fn());
    let steps: [Step; 8] = [
        ("a load that is too heavy", &|| assert!(cache.get_with(1, || value(11)).is_ok())),
        ("a load that is refused beside another value", &|| {
            let inside = || (cache.insert(2, value(1)), value(11)).1;
            assert!(cache.get_with(2, inside).is_ok());
        }),
        ("a load again that is too heavy", &|| assert!(cache.get_with(2, || value(12)).is_ok())),
        ("an insert", &|| assert!(!cache.insert(3, value(11)) && cache.insert(3, value(2)))),
        ("another value", &|| assert!(cache.insert(3, value(2)))),
        ("one that is there", &|| {
            // It comes in while the other one is made.
            let make = || (cache.insert(4, value(1)), value(1)).1;
            drop(cache.get_or_insert_with(4, make));
        }),
        ("a computation", &|| assert_eq!(cache.compute(4, |_| Op::Insert(value(11))), Computed::Refused)),
        ("evictions", &|| (10..30).for_each(|key| _ = cache.insert(key, value(3)))),
    ];
    for (name, step) in steps {
        let before = seen.drops.load(Ordering::Relaxed);
        step();
        cache.run_pending();
        assert!(seen.drops.load(Ordering::Relaxed) > before, "{name}: something was dropped");
        assert_eq!(seen.under_a_lock.load(Ordering::Relaxed), 0, "{name}");
        cache.entries.validate_all();
    }
    // The cache holds what holds it.
    cache.clear();
    cache.run_pending();
    assert_eq!(seen.under_a_lock.load(Ordering::Relaxed), 0);
}

/// What is replaced after its time was over has expired, also where nothing has taken it out yet.
#[test]
fn what_has_expired_is_not_told_as_replaced() {
    let (hand, log) = (Hand::default(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let told = log.clone();
    let cache: Cache<u64, u64> = Cache::builder()
        .capacity(10)
        .clock(hand.clone())
        .time_to_live(Duration::from_nanos(100))
        .listener(move |key: &u64, value: &u64, cause| told.lock().expect("whole").push((*key, *value, cause)))
        .statistics()
        .build();
    cache.insert(1, 1);
    assert!(cache.pin(&1));
    // Less than a tick of the wheel later: the entry is still in.
    hand.advance(100);
    assert_eq!((cache.len(), cache.get(&1)), (1, None));
    assert!(cache.insert(1, 2));
    assert_eq!(*log.lock().expect("whole"), [(1, 1, Cause::Expired)]);
    assert!(!cache.unpin(&1), "pins end with what has expired");
    cache.insert(1, 3);
    assert_eq!(log.lock().expect("whole")[1..], [(1, 2, Cause::Replaced)]);
    let found = cache.statistics().expect("they were asked for");
    assert_eq!((found.expired, found.replaced), (1, 1));
}

/// A computation whose value can't be stored takes out just what it saw: if there is another value, it looks again.
#[test]
fn a_refused_computation_beside_a_change() {
    for there_before in [true, false] {
        let cache: Cache<u64, usize> = Cache::builder().capacity(10).weigher(|_, weight| *weight).build();
        if there_before {
            cache.insert(1, 1);
        }
        let mut saw = Vec::new();
        let computed = cache.compute(1, |value| {
            saw.push(value.copied());
            if saw.len() == 1 {
                assert!(cache.insert(1, 2));
            }
            Op::Insert(11)
        });
        assert_eq!((computed, saw), (Computed::Refused, vec![there_before.then_some(1), Some(2)]));
        assert!(cache.is_empty(), "what was there is gone");
        // And removed while it looks: there is nothing to take out.
        cache.insert(1, 3);
        let mut runs = 0;
        let computed = cache.compute(1, |_| {
            runs += 1;
            cache.invalidate(&1);
            Op::Insert(11)
        });
        assert_eq!((computed, runs), (Computed::Refused, 2));
    }
}

/// A guard that is held keeps a bounded weight, and statistics tell of it.
#[test]
fn a_guard_that_is_held_for_long_is_seen() {
    let cache: Cache<u64, u64> = Cache::builder().capacity(800).statistics().build();
    (0..800).for_each(|key| _ = cache.insert(key, key));
    let before = cache.statistics().expect("they were asked for");
    let guarded = cache.guard();
    let stored = (1000..3000).filter(|&key| cache.insert(key, key)).count() as u64;
    let held = cache.statistics().expect("they were asked for");
    assert!(held.deferred > 100 && held.deferred <= 800 * 5 / 32, "{held:?}");
    assert_eq!(held.refused - before.refused, 2000 - stored);
    assert!(stored < 200, "{stored}");
    drop(guarded);
    assert!(cache.insert(1, 1));
    cache.run_pending();
    assert_eq!(cache.statistics().map(|now| now.deferred), Some(0));
}

/// Each guard that nothing is stored for is told once, whatever its listener does.
#[test]
fn a_guard_that_is_held_for_long_is_told_once() {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let whole: Arc<std::sync::OnceLock<Cache<u64, u64>>> = Arc::default();
    let (told, itself) = (log.clone(), Arc::downgrade(&whole));
    let listener = move |held: crate::HeldGuard| {
        let whole = itself.upgrade().expect("it is there");
        let cache = whole.get().expect("it is there");
        assert!(!cache.entries.is_locked(), "it is told without a lock");
        told.lock().expect("whole").push((held, cache.insert(1, 1)));
        panic!("this ends in the cache");
    };
    let built = Cache::builder().capacity(800).guard_listener(listener).statistics().build();
    let cache = whole.get_or_init(|| built);
    (0..800).for_each(|key| _ = cache.insert(key, key));
    for guards in 1..=3 {
        let guarded = cache.guard();
        let stored = (1000..3000).filter(|&key| cache.insert(key, key)).count();
        assert!((100..200).contains(&stored), "{stored}");
        let told = log.lock().expect("whole").clone();
        assert_eq!(told.len(), guards, "each guard is told once");
        let &(held, stored_meanwhile) = told.last().expect("it was told");
        assert_eq!((held.deferred_max, stored_meanwhile), (800 / crate::DEFERRED_SHARE, false));
        assert!(held.deferred > held.deferred_max && held.deferred <= held.deferred_max * 5 / 4, "{held:?}");
        assert_eq!(cache.statistics().map(|now| now.held_guards), Some(guards as u64));
        drop(guarded);
        cache.run_pending();
        assert!(cache.insert(1, 1) && cache.statistics().is_some_and(|now| now.deferred == 0));
    }
    // A guard that ends soon is not told.
    for key in 0..2000 {
        let guarded = cache.guard();
        cache.insert(key, key);
        drop(guarded);
    }
    assert_eq!(log.lock().expect("whole").len(), 3);
}

/// Thresholds of policies at their limits, and what is none.
#[test]
fn thresholds_at_the_limits() {
    for pull in ["0", "1", "0.5"] {
        for purge in ["0", "1"] {
            let cache: Cache<u64, u64> = Cache::builder()
                .capacity(50)
                .policy(&format!("deferred-lru:pull={pull},purge={purge}"))
                .expect("it is in range")
                .build();
            for key in 0..if cfg!(miri) { 200 } else { 2000 } {
                cache.get_or_insert_with(key * key % 137, || key);
                assert!(cache.len() <= 50);
            }
            cache.entries.validate_all();
        }
    }
    for wrong in ["pull=NaN", "purge=NaN", "pull=-1", "purge=1.5", "pull=", "adapt=2"] {
        let error = Cache::<u64, u64>::builder().policy(&format!("deferred-lru:{wrong}"));
        assert!(error.is_err_and(|error| error.to_string().contains("give a number from 0 to 1")), "{wrong}");
    }
}
