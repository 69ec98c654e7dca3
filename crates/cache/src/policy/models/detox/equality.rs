//! All forms of DeToX against their model. Random transactions overlap, abort, come back under their number, or never
//! end, with pins, invalidations, sizes and other capacities.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Grouping, Model};
use crate::graph::Graph;
use crate::policy::bare::{Bare, Served};
use crate::policy::{Access, AccessKind, Hits, Unit, choose};

/// Of transaction type 1.
pub fn graph() -> Arc<Graph> {
    Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph"))
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ask { txn: u64, level: u16, vertex: u16, key: u64, size: u32, kind: AccessKind },
    End(u64, bool),
    Invalidate(u64),
    Resize(u64, u32),
    Pin(u64, bool),
    Capacity(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let kind = prop_oneof![
        12 => Just(AccessKind::Read),
        2 => Just(AccessKind::Write),
        1 => Just(AccessKind::Prefetch),
        1 => Just(AccessKind::Demote),
    ];
    let vertex = prop_oneof![6 => 1u16..5, 1 => 0u16..6];
    let ask = (0u64..5, 0u16..3, vertex, 0u64..16, 1u32..5, kind)
        .prop_map(|(txn, level, vertex, key, size, kind)| Event::Ask { txn, level, vertex, key, size, kind });
    let event = prop_oneof![
        24 => ask,
        6 => (1u64..5, prop::bool::weighted(0.8)).prop_map(|(txn, committed)| Event::End(txn, committed)),
        1 => (0u64..16).prop_map(Event::Invalidate),
        1 => (0u64..16, 1u32..5).prop_map(|(key, size)| Event::Resize(key, size)),
        2 => (0u64..16, any::<bool>()).prop_map(|(key, pinned)| Event::Pin(key, pinned)),
        1 => (1u64..16).prop_map(Event::Capacity),
    ];
    prop::collection::vec(event, 1..300)
}

fn apply(cache: &mut Bare, event: Event) -> (Option<Served>, Vec<u64>) {
    match event {
        Event::Ask { txn, level, vertex, key, size, kind } => {
            // Odd ones are of the type that has a graph.
            let txn_type = (2 - txn % 2) as u16;
            let served = cache.access(Access { txn, txn_type, level, vertex, kind, ..Access::read(key, size) });
            return (Some(served), cache.evicted().to_vec());
        }
        Event::End(txn, committed) => cache.ended(txn, committed),
        Event::Invalidate(key) => drop(cache.invalidate(key)),
        Event::Resize(key, size) => drop(cache.resize(key, size)),
        Event::Pin(key, pinned) => drop(cache.pin(key, pinned)),
        Event::Capacity(capacity) => cache.set_capacity(capacity),
    }
    (None, Vec::new())
}

/// Forms as users choose them, with what they group, and whether they may refuse a newcomer.
const FORMS: [(&str, Grouping, bool); 9] = [
    ("detox", Grouping::Groups, false),
    ("detox:pool=2,sample=2,ghosts=1,seed=7,metadata-share=1", Grouping::Groups, false),
    ("detox-levels", Grouping::Levels, false),
    ("detox-levels:aggregate=1,instance=2,sample=3", Grouping::Levels, false),
    ("t-detox:aggregate=2,instance=1", Grouping::Transaction, false),
    ("detox+admit", Grouping::Groups, true),
    ("detox+admit:ghosts=0,aggregate=3,log=1", Grouping::Groups, true),
    ("detox-paper-literal", Grouping::Groups, false),
    ("detox-levels:half-life=2,patience=3,log=1", Grouping::Levels, false),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Step by step: what is cached, what is evicted, and what everything is worth.
    #[test]
    fn equals_its_model(events in events(), capacity in 1u64..16, bytes in any::<bool>()) {
        for (name, grouping, admits) in FORMS {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(if bytes { Unit::Bytes } else { Unit::Entries }, capacity);
            let mut cache = Bare::new(choice.policy, &settings);
            cache.learned().register_graph(1, &graph());
            let model = Box::new(Model::new(&settings, grouping, admits));
            let mut model = Bare::with_order(Hits::Accesses, &settings, model);
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event), apply(&mut model, event));
                prop_assert_eq!(ours, models, "{}: step {} ({:?})", name, step, event);
                for key in 0..16 {
                    let score = |cache: &Bare| {
                        let text = cache.explain(key)?;
                        text.split(':').next().map(str::to_owned)
                    };
                    prop_assert_eq!(score(&cache), score(&model), "{}: step {} ({:?}), {}", name, step, event, key);
                }
                cache.validate();
            }
        }
    }
}
