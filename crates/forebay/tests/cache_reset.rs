//! A cache that was reset decides as a new one: nothing that the policy learned before stays. And in which order those
//! hear of it who wait for a fill.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Wake, Waker};

use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context, Look};
use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::{POLICIES, Policy, choose};
use forebay::value::Value;
use forebay::version::Version;
use forebay::{Key, Read};

fn cache(policy: &'static Policy, partitions: usize) -> Cache {
    Cache::new(&CacheOptions { budget_bytes: 40_000, partitions, policy, policy_values: Vec::new() })
}

/// Reads random keys, the low ones far more often; for each read whether it was a hit.
fn work(cache: &Cache, state: u64, reads: usize) -> Vec<bool> {
    work_with(cache, state, reads, |_| Context::default())
}

/// The same, each with what `context` says of a low key and of another.
fn work_with(cache: &Cache, mut state: u64, reads: usize, context: impl Fn(bool) -> Context) -> Vec<bool> {
    let read_one = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (high, low) = (state >> 40, (state >> 20) & 0xfffff);
        let number = (high % 400).min(low % 400);
        let (key, context) = (Key::new(0, format!("key {number}").as_bytes()), context(number < 60));
        if cache.get(key.borrow(), &context).is_some() {
            return true;
        }
        let read = Read { value: Some(Value::bytes(vec![b'x'; (low % 300) as usize])), version: Version::ZERO };
        if let Begin::Lead(fill) = cache.begin_fill(&key) {
            fill.complete(&read, &context, AccessKind::Read);
        }
        false
    };
    (0..reads).map(read_one).collect()
}

#[test]
fn a_reset_cache_decides_as_a_new_one() {
    for policy in POLICIES {
        for partitions in [1, 4] {
            let (used, new) = (cache(policy, partitions), cache(policy, partitions));
            work(&used, 1, 3000);
            // Some policies rather refuse.
            let turned_away = used.stats().evictions + used.stats().rejections;
            assert!(turned_away > 100, "{}: {:?}", policy.name, used.stats());
            used.reset();
            used.validate();
            let stats = used.stats();
            // What a policy has from the start is charged, too.
            assert_eq!((stats.entries, stats.used_bytes), (0, new.stats().used_bytes), "{}", policy.name);
            assert_eq!(work(&used, 2, 3000), work(&new, 2, 3000), "{}, {partitions} partitions", policy.name);
            assert_eq!(used.stats().used_bytes, new.stats().used_bytes, "{}", policy.name);
            used.validate();
        }
    }
}

/// Sets of hints number sets as they are met, too, and what is kept of them is charged.
#[test]
fn a_reset_cache_learns_of_hints_as_a_new_one() {
    let kind = |value: &[u8]| HintMeaning { schema: 1, types: vec![b"kind"[..].into()], values: vec![value.into()] };
    let (hot, cold) = (kind(b"hot"), kind(b"cold"));
    for name in ["clic:window=500", "clic-top-k:window=500", "clic-tree:window=500", "clic-g:window=500"] {
        let choice = choose(name).expect("a policy");
        let options = CacheOptions {
            budget_bytes: 40_000,
            partitions: 1,
            policy: choice.policy,
            policy_values: choice.values.clone(),
        };
        for defined_before in [false, true] {
            let (used, new) = (Cache::new(&options), Cache::new(&options));
            let define = |cache: &Cache| {
                cache.define_hints(HintSet(1), &hot);
                cache.define_hints(HintSet(2), &cold);
            };
            let hinted = |low: bool| Context { hints: HintSet(if low { 1 } else { 2 }), ..Context::default() };
            if defined_before {
                work_with(&used, 1, 500, |_| Context::default());
                define(&used);
            }
            work_with(&used, 7, 4000, |low| if defined_before { hinted(low) } else { Context::default() });
            used.reset();
            [&used, &new].into_iter().for_each(define);
            assert_eq!(used.stats().used_bytes, new.stats().used_bytes, "{name}");
            let hits = |cache: &Cache| work_with(cache, 2, 4000, hinted);
            assert_eq!(hits(&used), hits(&new), "{name}, defined before: {defined_before}");
            assert_eq!(used.learned(10), new.learned(10), "{name}");
            assert_eq!(used.stats().used_bytes, new.stats().used_bytes, "{name}");
            used.validate();
        }
    }
}

#[test]
fn what_was_under_way_ends_with_a_reset() {
    let cache = cache(POLICIES[0], 1);
    work(&cache, 1, 100);
    let key = Key::new(0, b"key 0");
    let hash = key.borrow().hash64();
    let reading = cache.reading();
    let Look::Hit(read, word) = cache.look(hash, key.borrow(), &reading) else { panic!("the hottest key is cached") };
    let other = Key::new(0, b"other");
    let Begin::Lead(fill) = cache.begin_fill(&other) else { panic!("nobody fills it") };
    assert!(cache.pin(key.borrow()));
    cache.hold([&key]);
    cache.reset();
    assert!(!cache.unchanged(key.borrow(), word, &reading));
    assert!(!fill.complete(&read, &Context::default(), AccessKind::Read), "what it read may be older than the reset");
    // The commit on its way still keeps fills out, and comes in when it is published.
    assert!(matches!(cache.begin_fill(&key), Begin::Held));
    cache.publish(&[(key.clone(), Some(read))], std::slice::from_ref(&key));
    assert!(cache.peek(key.borrow()).is_some());
    cache.unpin(key.borrow());
    cache.validate();
}

/// Writes down whom it wakes.
struct Rings(u8, Arc<Mutex<Vec<u8>>>);

impl Wake for Rings {
    fn wake(self: Arc<Rings>) {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// Else a simulation's seed would not be one run.
#[test]
fn a_clearing_wakes_followers_in_the_order_of_their_keys() {
    let cache = cache(POLICIES[0], 1);
    let woken = Arc::new(Mutex::new(Vec::new()));
    let keys = (0..30).rev().map(|number| Key::new(0, &[number]));
    let (mut fills, mut waiting) = (Vec::new(), Vec::new());
    for key in keys {
        let Begin::Lead(fill) = cache.begin_fill(&key) else { panic!("nobody fetches {key}") };
        let Begin::Follow(follow) = cache.begin_fill(&key) else { panic!("somebody fetches {key}") };
        fills.push(fill);
        let mut reading = Box::pin(follow.read());
        let waker = Waker::from(Arc::new(Rings(key.name()[0], woken.clone())));
        assert!(reading.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        waiting.push(reading);
    }
    cache.clear(|_| true);
    assert_eq!(*woken.lock().unwrap_or_else(PoisonError::into_inner), (0..30).collect::<Vec<u8>>());
}
