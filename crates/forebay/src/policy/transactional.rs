//! Policies that know transactions, against naive models of themselves: decision for decision, over random requests of
//! several open transactions, reads and writes, commits and aborts, pins, invalidations and other capacities.

use proptest::prelude::*;

use super::bare::{Bare, Served};
use super::models::frame;
use super::models::levels::{Detox, Life, Scoring};
use super::{Access, AccessKind, Hits, Order, Settings, Unit, choose};

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request { key: u64, txn: u64, level: u16, kind: AccessKind },
    End(u64, bool),
    Invalidate(u64),
    Pin(u64, bool),
    Capacity(u64),
}

fn events(length: usize) -> impl Strategy<Value = Vec<Event>> {
    let key = 0u64..24;
    let kind = prop_oneof![
        12 => Just(AccessKind::Read),
        2 => Just(AccessKind::Write),
        1 => Just(AccessKind::Demote),
        1 => Just(AccessKind::Prefetch),
    ];
    // Transaction 0 is none.
    let request = (key.clone(), 0u64..4, 0u16..3, kind).prop_map(|(key, txn, level, kind)| Event::Request {
        key,
        txn,
        level,
        kind,
    });
    let event = prop_oneof![
        30 => request,
        6 => (1u64..4, prop::bool::weighted(0.8)).prop_map(|(txn, committed)| Event::End(txn, committed)),
        1 => key.clone().prop_map(Event::Invalidate),
        2 => (key, any::<bool>()).prop_map(|(key, pinned)| Event::Pin(key, pinned)),
        1 => (1u64..16).prop_map(Event::Capacity),
    ];
    prop::collection::vec(event, 1..length)
}

fn apply(cache: &mut Bare, event: Event) -> (Option<Served>, Vec<u64>) {
    let served = match event {
        Event::Request { key, txn, level, kind } => {
            Some(cache.access(Access { txn, level, kind, ..Access::read(key, 1) }))
        }
        Event::End(txn, committed) => {
            cache.ended(txn, committed);
            return (None, Vec::new());
        }
        Event::Invalidate(key) => {
            cache.invalidate(key);
            return (None, Vec::new());
        }
        Event::Pin(key, pinned) if !cache.pin(key, pinned) => return (None, Vec::new()),
        Event::Pin(..) => None,
        Event::Capacity(capacity) => {
            cache.set_capacity(capacity);
            None
        }
    };
    (served, cache.evicted().to_vec())
}

type MakeOrder = fn(&Settings) -> Box<dyn Order>;

/// Policies as users choose them, with their models. Without graphs `detox` goes by levels; what graphs say is compared
/// with brute force in `tests/graph.rs`.
const MODELS: &[(&str, MakeOrder)] = &[
    ("life", |settings| frame::order(settings, Life::new(10.0))),
    ("life:window=1", |settings| frame::order(settings, Life::new(1.0))),
    ("life-artifact", |settings| frame::order(settings, Detox::new(Scoring::Artifact))),
    ("detox", |settings| frame::order(settings, Detox::new(Scoring::Levels))),
    ("detox-levels", |settings| frame::order(settings, Detox::new(Scoring::Levels))),
    ("t-detox", |settings| frame::order(settings, Detox::new(Scoring::Transaction))),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn equals_its_model(events in events(400), capacity in 1u64..16) {
        for &(name, order) in MODELS {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(Unit::Entries, capacity);
            let mut cache = Bare::new(choice.policy, &settings);
            let mut model = Bare::with_order(Hits::Accesses, &settings, order(&settings));
            let (mut capacity, mut pins) = (capacity, false);
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event), apply(&mut model, event));
                prop_assert_eq!(ours, models, "{}: step {} ({:?})", name, step, event);
                cache.validate();
                if let Event::Capacity(new) = event {
                    capacity = new;
                }
                pins |= matches!(event, Event::Pin(_, true));
                prop_assert!(pins || cache.used() <= capacity, "{}: over capacity", name);
            }
        }
    }
}
