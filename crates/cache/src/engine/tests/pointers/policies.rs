//! Every policy of the table decides in the engine as in a bare cache, although it hears of hits later; and with many
//! threads it hears of all, or of what the contract says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::super::buffers::NOTES_MIN;
use super::super::super::pointers::validate::validate;
use super::super::super::pointers::{Pointers, Put};
use super::super::super::shard::Present;
use crate::mutation::{Fault, put_back};
use crate::policy::bare::{Bare, Served};
use crate::policy::{
    Access, Choice, Hits, Learned, NothingLearned, Order, POLICIES, Policy, Settings, Slot, Unit, Why,
};

fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A request for a key, which comes in if it is not there.
fn request(cache: &Pointers<u64>, key: u64, weight: usize) -> Served {
    let guard = cache.pin();
    if cache.get(hash(key), &guard, |other| *other == key).is_some() {
        return Served::Hit;
    }
    drop(guard);
    let same = |one: &u64, other: &u64| one == other;
    cache.put((hash(key), weight, key), same, (Present::Kept, false), |put| match put {
        Put::Inserted => Served::Inserted,
        Put::Refused => Served::Refused,
        other => panic!("{other:?}"),
    })
}

/// What is left of the capacity is the same in both caches.
fn choice(policy: &'static Policy) -> Choice {
    let value = |parameter: &crate::policy::Parameter| if parameter.name == "charge" { 0.0 } else { parameter.default };
    Choice { policy, values: policy.parameters.iter().map(value).collect() }
}

#[test]
fn every_policy_decides_as_a_bare_cache() {
    let (steps, capacity) = if cfg!(miri) { (100, 20) } else { (6000, 60) };
    // Policies have no `unsafe`: for the interpreter one of each way to hear of hits is enough.
    let tried = POLICIES.iter().filter(|policy| !cfg!(miri) || ["lru", "fifo", "clic"].contains(&policy.name));
    for (policy, unit) in tried.flat_map(|policy| [Unit::Entries, Unit::Bytes].map(|unit| (policy, unit))) {
        let choice = choice(policy);
        let cache = Pointers::build(capacity, 0).with_policy(&choice, unit);
        let mut bare = Bare::new(policy, &choice.settings(unit, capacity as u64));
        let mut random = fastrand::Rng::with_seed(7);
        for step in 0..steps {
            let name = policy.name;
            let key = if random.bool() { random.u64(0..20) } else { random.u64(0..400) };
            let size = if unit == Unit::Bytes { 1 + key as u32 % 7 } else { 1 };
            if random.u8(0..40) == 0 {
                let there = cache.remove(hash(key), |other| *other == key, |item| item.is_some());
                assert_eq!(there, bare.contains(hash(key)), "{name} {unit:?}: step {step}");
                bare.invalidate(hash(key));
                continue;
            }
            let expected = bare.request(hash(key), size);
            assert_eq!(request(&cache, key, size as usize), expected, "{name} {unit:?}: step {step}");
            if step % 50 == 0 {
                let there: BTreeSet<u64> = validate(&cache, |key| *key).into_iter().collect();
                let expected: BTreeSet<u64> = (0..400).filter(|&key| bare.contains(hash(key))).collect();
                assert_eq!(there, expected, "{name} {unit:?}: step {step}");
            }
        }
    }
}

/// Counts what it hears of, and evicts anything.
struct Counting {
    live: BTreeSet<Slot>,
    heard: Arc<AtomicU64>,
}

impl Order for Counting {
    fn access(&mut self, slot: Slot, access: &Access) {
        assert!(self.live.contains(&slot) && access.slot == Some((slot, 0)), "an access is of what is in");
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    fn inserted(&mut self, slot: Slot, _: &Access) {
        assert!(self.live.insert(slot));
    }

    fn resized(&mut self, _: Slot, _: u32) {}

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        assert!(self.live.remove(&slot));
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.live.first().copied()
    }

    fn withdraw(&mut self, _: Slot) {}

    fn restore(&mut self, _: Slot) {}

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, _: Slot) -> String {
        String::new()
    }

    fn validate(&self) {}
}

struct Heard(Arc<AtomicU64>);

impl Learned for Heard {}

/// A policy whose order counts into what the learned part holds.
fn counting(hits: Hits) -> Policy {
    Policy {
        name: "counting",
        summary: "",
        source: "",
        hits,
        entry_bytes: 0,
        parameters: &[],
        learned: |_| Arc::new(NothingLearned),
        order: |_: &Settings, learned: Arc<dyn Learned>| {
            let any: Arc<dyn std::any::Any + Send + Sync> = learned;
            let heard = any.downcast::<Heard>().expect("its own").0.clone();
            Box::new(Counting { live: BTreeSet::new(), heard })
        },
    }
}

/// A cache of a policy that counts what it hears of, and how much that is.
fn counted(hits: Hits, shards_log2: u32) -> (Pointers<u64>, Arc<AtomicU64>) {
    let heard = Arc::new(AtomicU64::new(0));
    let learned: Arc<dyn Learned> = Arc::new(Heard(heard.clone()));
    let settings = Settings { unit: Unit::Entries, capacity: 50, values: Vec::new() };
    (Pointers::build(100, shards_log2).by(&counting(hits), &settings, &learned), heard)
}

/// Four threads hit a few keys; two more put others in and take them out.
fn heard_of_all(hits: Hits) -> (u64, u64) {
    let each = if cfg!(miri) { 100 } else { 30_000 };
    let (cache, heard) = counted(hits, 1);
    (0..10).for_each(|key| assert_eq!(request(&cache, key, 1), Served::Inserted));
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, found) = (&cache, &found);
            scope.spawn(move || {
                for step in 0..each {
                    let (key, guard) = ((step + thread) % 10, cache.pin());
                    let hit = cache.get(hash(key), &guard, |other| *other == key).is_some();
                    found.fetch_add(u64::from(hit), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            for step in 0..each / 10 {
                let key = 1000 + step % 50;
                if cache.remove(hash(key), |other| *other == key, |item| item.is_none()) {
                    cache.put((hash(key), 1, key), |one, other| one == other, (Present::Kept, false), |_| ());
                }
            }
        });
    });
    validate(&cache, |key| *key);
    (found.into_inner(), heard.load(Ordering::Relaxed))
}

#[test]
fn a_policy_that_learns_hears_of_every_hit() {
    let (found, heard) = heard_of_all(Hits::Accesses);
    assert_eq!(found, heard);
}

#[test]
fn a_policy_that_samples_hears_of_no_hit_twice() {
    let (found, heard) = heard_of_all(Hits::Sampled);
    assert!(heard <= found && heard > 0, "{heard} of {found}");
}

/// Hits of keys from 0 on.
fn hit(cache: &Pointers<u64>, keys: u64, times: usize) {
    for key in (0..keys).cycle().take(times) {
        assert!(cache.get(hash(key), &cache.pin(), |other| *other == key).is_some());
    }
}

/// By one thread each hit is told. Once notes of several threads wait, a note stands for those like it, until the notes
/// that wait are one thread's.
#[test]
fn several_threads_have_fewer_hits_told() {
    let (cache, heard) = counted(Hits::Sampled, 0);
    (0..100).for_each(|key| assert_eq!(request(&cache, key, 1), Served::Inserted));
    // All that is done under the lock has the notes told.
    let told = |times: u64| {
        cache.len();
        assert_eq!(heard.swap(0, Ordering::Relaxed), times);
    };
    hit(&cache, 1, 1000);
    told(1000);
    // Sixteen threads at once do not all have one buffer.
    let together = std::sync::Barrier::new(16);
    let leave = || {
        together.wait();
        hit(&cache, 1, 1);
        together.wait();
    };
    std::thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(leave))));
    hit(&cache, 100, NOTES_MIN + 1);
    told(16 + NOTES_MIN as u64 + 1);
    hit(&cache, 1, 1000);
    told(1);
    hit(&cache, 100, NOTES_MIN + 1);
    told(NOTES_MIN as u64 + 1);
    hit(&cache, 1, 1000);
    told(1000);
}

#[test]
fn a_hit_of_one_thread_that_is_not_told_is_found() {
    put_back(Some(Fault::SampledOfOneThread));
    let found = std::panic::catch_unwind(every_policy_decides_as_a_bare_cache);
    put_back(None);
    assert!(found.is_err(), "the policies decide otherwise");
}
