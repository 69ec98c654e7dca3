//! The tests that every policy must pass, run over the table, so that a new policy gets them by its one line.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::bare::{Bare, Served};
use super::models::{FRAMED, MODELS, model};
use super::{Access, Learned, MARKS_MAX, NothingLearned, Order, POLICIES, Policy, Settings, Slot, Unit, Why, choose};

/// What can happen to a cache.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request(u64, u32),
    Invalidate(u64),
    Resize(u64, u32),
    Pin(u64, bool),
    Capacity(u64),
}

const UNITS: [Unit; 2] = [Unit::Entries, Unit::Bytes];

fn events(length: usize) -> impl Strategy<Value = Vec<Event>> {
    let key = 0u64..24;
    let size = prop_oneof![Just(1u32), 1u32..6, 5u32..16, Just(40)];
    let event = prop_oneof![
        12 => (key.clone(), size.clone()).prop_map(|(key, size)| Event::Request(key, size)),
        1 => key.clone().prop_map(Event::Invalidate),
        1 => (key.clone(), size).prop_map(|(key, size)| Event::Resize(key, size)),
        2 => (key, any::<bool>()).prop_map(|(key, pinned)| Event::Pin(key, pinned)),
        1 => (0u64..30).prop_map(Event::Capacity),
    ];
    prop::collection::vec(event, 1..length)
}

fn settings(policy: &Policy, unit: Unit, capacity: u64) -> Settings {
    choose(policy.name).expect("its own name").settings(unit, capacity)
}

/// Applies an event; what a request became, and what was evicted.
fn apply(cache: &mut Bare, event: Event) -> (Option<Served>, Vec<u64>) {
    let served = match event {
        Event::Request(key, size) => Some(cache.request(key, size)),
        Event::Invalidate(key) => {
            cache.invalidate(key);
            return (None, Vec::new());
        }
        Event::Resize(key, size) => {
            if !cache.resize(key, size) {
                return (None, Vec::new());
            }
            None
        }
        Event::Pin(key, pinned) => {
            if !cache.pin(key, pinned) {
                return (None, Vec::new());
            }
            None
        }
        Event::Capacity(capacity) => {
            cache.set_capacity(capacity);
            None
        }
    };
    (served, cache.evicted().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any sequence: the structure stays sound, the capacity is kept, victims are live and not pinned (the harness
    /// panics otherwise), a pinned entry stays, and two orders that hear the same decide the same.
    #[test]
    fn any_sequence_of_events(events in events(160), capacity in 1u64..30) {
        for (policy, unit) in POLICIES.iter().flat_map(|policy| UNITS.map(|unit| (policy, unit))) {
            let settings = settings(policy, unit, capacity);
            let (mut cache, mut twin) = (Bare::new(policy, &settings), Bare::new(policy, &settings));
            let (mut pinned, mut capacity) = (HashSet::new(), capacity);
            for (step, &event) in events.iter().enumerate() {
                match event {
                    Event::Pin(key, true) if cache.contains(key) => {
                        pinned.insert(key);
                    }
                    Event::Pin(key, false) | Event::Invalidate(key) => {
                        pinned.remove(&key);
                    }
                    Event::Capacity(new) => capacity = new,
                    _ => {}
                }
                let result = apply(&mut cache, event);
                prop_assert_eq!(&result, &apply(&mut twin, event), "{} {:?}: step {}", policy.name, unit, step);
                cache.validate();
                let distinct: HashSet<_> = result.1.iter().collect();
                prop_assert_eq!(distinct.len(), result.1.len(), "{}: an entry is evicted once", policy.name);
                prop_assert!(result.1.iter().all(|&key| !cache.contains(key)));
                prop_assert!(pinned.iter().all(|&key| cache.contains(key)), "{}: pinned entries stay", policy.name);
                let fits = cache.used() <= capacity;
                prop_assert!(fits || !pinned.is_empty(), "{} {:?}: over capacity", policy.name, unit);
            }
            // Every entry can be evicted, and every pinned one once it is let go.
            cache.set_capacity(0);
            cache.validate();
            prop_assert_eq!(cache.len(), pinned.len(), "{} {:?}: all else goes", policy.name, unit);
            for &key in &pinned {
                cache.pin(key, false);
            }
            prop_assert!(cache.is_empty(), "{} {:?}: what was pinned goes too", policy.name, unit);
        }
    }

    /// Decision for decision as the naive model.
    #[test]
    fn equals_its_model(events in events(200), capacity in 1u64..30) {
        for (&(rule, name), unit) in MODELS.iter().flat_map(|model| UNITS.map(|unit| (model, unit))) {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(unit, capacity);
            let (mut cache, mut model) = (Bare::new(choice.policy, &settings), model(rule, &settings));
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event), apply(&mut model, event));
                prop_assert_eq!(ours, models, "{} {:?}: step {} ({:?})", name, unit, step, event);
            }
        }
    }

    /// Likewise for the models that share a frame.
    #[test]
    fn equals_its_framed_model(events in events(200), capacity in 1u64..30) {
        for (&(name, hits, order), unit) in FRAMED.iter().flat_map(|model| UNITS.map(|unit| (model, unit))) {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(unit, capacity);
            let mut cache = Bare::new(choice.policy, &settings);
            let mut model = Bare::with_order(hits, &settings, order(&settings));
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event), apply(&mut model, event));
                prop_assert_eq!(ours, models, "{} {:?}: step {} ({:?})", name, unit, step, event);
            }
        }
    }
}

/// Where all fits, all that was asked for stays.
#[test]
fn keeps_everything_that_fits() {
    for (policy, unit) in POLICIES.iter().flat_map(|policy| UNITS.map(|unit| (policy, unit))) {
        let mut cache = Bare::new(policy, &settings(policy, unit, 1000));
        (0..100).for_each(|key| assert_eq!(cache.request(key, 10), Served::Inserted, "{}", policy.name));
        (0..100).for_each(|key| assert_eq!(cache.request(key, 10), Served::Hit, "{}", policy.name));
    }
}

/// Metadata does not grow with the number of keys seen, and is of the order of what is cached.
#[test]
fn metadata_is_bounded() {
    for (policy, unit) in POLICIES.iter().flat_map(|policy| UNITS.map(|unit| (policy, unit))) {
        let (entries, size) = (200, 10);
        let capacity = if unit == Unit::Bytes { entries * size } else { entries };
        let mut cache = Bare::new(policy, &settings(policy, unit, capacity));
        let mut bytes_at = |keys: std::ops::Range<u64>| {
            for key in keys {
                cache.request(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), size as u32);
                cache.request(key % 50, size as u32);
            }
            cache.ghost_bytes()
        };
        let (early, late) = (bytes_at(0..4_000), bytes_at(4_000..40_000));
        assert!(late <= early * 3 / 2, "{} {unit:?}: {early} bytes grew to {late}", policy.name);
        // Of CLIC's kind remember five pages for each one in the cache.
        assert!(late <= 192 * entries as usize, "{} {unit:?}: {late} bytes for {entries} entries", policy.name);
    }
}

/// An order that stands as another did, made again from its end on, decides as that one does; and what came in while it
/// was made stands behind all of it.
#[test]
fn a_line_is_made_again() {
    let mut lined = 0;
    for policy in POLICIES {
        let (settings, mut random) = (settings(policy, Unit::Entries, 60), fastrand::Rng::with_seed(3));
        let new = || (policy.order)(&settings, (policy.learned)(&settings));
        let (mut one, mut other) = (new(), new());
        let Some(sections) = one.line() else { continue };
        lined += 1;
        let access = |slot: Slot| Access { slot: Some((slot, 0)), ..Access::read(u64::from(slot), 1) };
        let enter = |order: &mut Box<dyn Order>, slot: Slot| {
            let access = Access::read(u64::from(slot), 1);
            order.admit(&access);
            order.inserted(slot, &access);
        };
        (0..80).for_each(|slot| enter(&mut one, slot));
        for _ in 0..200 {
            let slot = random.u32(..80);
            one.access(slot, &access(slot));
        }
        let touched: HashSet<Slot> = (0..100).map(|_| random.u32(..80)).collect();
        let mut marks = touched.clone();
        for gone in 0..20u64 {
            let victim = one.victim(&Access::read(1000 + gone, 1), &mut |slot| u8::from(marks.remove(&slot)));
            let victim = victim.expect("there is one");
            one.removed(victim, u64::from(victim), Why::Evicted);
        }
        let line = one.line().expect("it has one");
        assert_eq!((line.len(), line.concat().len()), (sections.len(), 60), "{}", policy.name);
        let mut touches: Vec<(Slot, u8)> = Vec::new();
        for (section, slots) in line.iter().enumerate().rev() {
            for &slot in slots.iter().rev() {
                enter(&mut other, slot);
                other.stand_first(slot, Some(section));
                touches.push((slot, one.touches(slot) + u8::from(marks.contains(&slot))));
            }
        }
        other.validate();
        other.add_ghosts(&one.ghosts());
        assert_eq!((&other.line(), other.ghosts()), (&Some(line), one.ghosts()), "{}", policy.name);
        // Where the hand stands, and what is noted as recent, is no part of the line.
        if ["sieve", "deferred-lru"].contains(&policy.name) {
            continue;
        }
        let mut kept: HashMap<Slot, u8> = touches.into_iter().collect();
        for orders in 0..60u64 {
            let incoming = Access::read(2000 + orders, 1);
            let expected = one.victim(&incoming, &mut |slot| u8::from(marks.remove(&slot))).expect("a victim");
            let found = other.victim(&incoming, &mut |slot| kept.remove(&slot).unwrap_or(0));
            assert_eq!(found, Some(expected), "{}: victim {orders}", policy.name);
            [&mut one, &mut other].iter_mut().for_each(|order| {
                order.removed(expected, u64::from(expected), Why::Evicted);
                order.validate();
            });
        }
    }
    assert!(lined >= 7, "{lined} policies have a line");
}

/// Readers that never stop touching every entry do not keep a policy from naming a victim.
#[test]
fn endless_marks_do_not_starve_the_search() {
    for policy in POLICIES {
        let settings = settings(policy, Unit::Entries, 50);
        let mut order = (policy.order)(&settings, (policy.learned)(&settings));
        let mut live: HashSet<Slot> = (0..50).collect();
        for slot in 0..50 {
            let access = Access::read(u64::from(slot), 1);
            order.admit(&access);
            order.inserted(slot, &access);
        }
        let room = Access { slot: Some((0, 0)), ..Access::read(0, 0) };
        while !live.is_empty() {
            let mut asked = 0;
            let mut marks = |_: Slot| {
                asked += 1;
                MARKS_MAX
            };
            let slot = order.victim(&room, &mut marks).expect("a victim");
            assert!(asked <= 8 * 50, "{}: {asked} marks asked for", policy.name);
            assert!(live.remove(&slot), "{}: slot {slot} is not live", policy.name);
            order.removed(slot, u64::from(slot), Why::Evicted);
            order.validate();
        }
        assert_eq!(order.victim(&room, &mut |_| 0), None, "{}: nothing is left", policy.name);
    }
}

/// A slot that is given to another entry carries nothing over from the one before.
#[test]
fn a_reused_slot_starts_anew() {
    for policy in POLICIES {
        let fresh = |warm: bool| {
            let mut cache = Bare::new(policy, &settings(policy, Unit::Entries, 4));
            if warm {
                // These slots again, much used, then invalidated: no eviction, so no age and no ghosts.
                for key in 100..104 {
                    for _ in 0..3 {
                        cache.request(key, 1);
                    }
                    cache.pin(key, true);
                }
                for key in (100..104).rev() {
                    cache.invalidate(key);
                }
            }
            (0..400u64).map(|i| (cache.request(i * i % 7, 1), cache.evicted().to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(fresh(false), fresh(true), "{}", policy.name);
    }
}

/// Every entry is explained in words, whatever its state.
#[test]
fn explains_every_entry() {
    for policy in POLICIES {
        let mut cache = Bare::new(policy, &settings(policy, Unit::Entries, 10));
        for key in 0..30 {
            cache.request(key % 12, 1);
        }
        let key = (0..12).find(|&key| cache.contains(key)).expect("something is cached");
        let before = cache.explain(key).expect("cached");
        cache.pin(key, true);
        let pinned = cache.explain(key).expect("cached");
        assert!(before != pinned && pinned.contains("pinned"), "{}: '{before}' and '{pinned}'", policy.name);
    }
}

/// What a policy learns comes back as its own type.
#[test]
fn learned_is_found_again() {
    let learned: Arc<dyn Learned> = Arc::new(NothingLearned);
    let any: Arc<dyn std::any::Any + Send + Sync> = learned;
    assert!(any.downcast::<NothingLearned>().is_ok());
}
