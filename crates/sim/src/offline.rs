//! Policies that know the future, for bounds.
//!
//! - `belady`: MIN (Belady 1966): what is asked for again last goes; a newcomer always comes in. With sizes it is no
//!   optimum, but the usual yardstick.
//! - `opt`: CLIC's OPT (section 6.1, and better): most *read* hits. A newcomer may stay out, and what is written before
//!   it is read again is worth nothing. Optimal where all entries weigh the same: it is MIN with bypass over the
//!   intervals that end in a read.
//! - `transactional-belady` (DeToX, appendix A.1): keys whose next level that can be hit as a whole is furthest go
//!   first,
//!   those without any before all. A newcomer may stay out. No optimum either (figure 17): [`crate::optimum`] is.
//!
//! What a transaction asks for at the same time comes in together, and then what is too much goes.

use std::collections::BTreeSet;

use forebay::policy::{AccessKind, Unit};
use hashbrown::HashMap;

use crate::catalog::{NEVER, Request};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// MIN without bypass.
    Belady,
    /// Most read hits.
    Opt,
    /// Levels that are hit as a whole soonest.
    Transactional,
}

/// A cache that decides by what comes next.
pub struct Offline {
    rule: Rule,
    unit: Unit,
    capacity: u64,
    used: u64,
    /// By key number: the next request that counts, and the weight.
    entries: HashMap<u32, (u32, u32), foldhash::fast::FixedState>,
    /// By next request; the last goes first.
    order: BTreeSet<(u32, u32)>,
}

impl Offline {
    /// An empty cache.
    pub fn new(rule: Rule, unit: Unit, capacity: u64) -> Offline {
        Offline { rule, unit, capacity, used: 0, entries: HashMap::default(), order: BTreeSet::new() }
    }

    /// Asks for a key; whether it was cached.
    pub fn access(&mut self, request: &Request) -> bool {
        self.ask(request, true)
    }

    /// Asks for all keys of a level, which come in together.
    pub fn access_level(&mut self, requests: &[Request]) {
        requests.iter().for_each(|request| {
            self.ask(request, false);
        });
        self.make_room(self.capacity);
    }

    fn ask(&mut self, request: &Request, alone: bool) -> bool {
        let known = self.leave(request.key);
        let next = match self.rule {
            Rule::Opt if !request.next_reads => NEVER,
            Rule::Transactional => request.next_whole,
            _ => request.next,
        };
        let weight = known.unwrap_or_else(|| self.unit.weight(request.access.size));
        let bypasses = self.rule == Rule::Opt && next == NEVER;
        if u64::from(weight) <= self.capacity && !bypasses {
            self.enter(request.key, next, weight, alone);
        }
        match self.rule {
            Rule::Belady | Rule::Transactional => known.is_some(),
            // A page that is only written is as good as not there; being there is no hit of a write either.
            Rule::Opt => known.is_some() && request.access.kind == AccessKind::Read,
        }
    }

    fn enter(&mut self, key: u32, next: u32, weight: u32, alone: bool) {
        if self.rule == Rule::Belady && alone {
            self.make_room(self.capacity - u64::from(weight));
        }
        self.entries.insert(key, (next, weight));
        self.order.insert((next, key));
        self.used += u64::from(weight);
        // With bypass the newcomer competes as if it were in.
        if alone {
            self.make_room(self.capacity);
        }
    }

    fn make_room(&mut self, used_max: u64) {
        while self.used > used_max {
            let Some((_, key)) = self.order.last().copied() else { break };
            self.leave(key);
        }
    }

    /// Takes a key out; its weight, if it was in.
    pub fn leave(&mut self, key: u32) -> Option<u32> {
        let (next, weight) = self.entries.remove(&key)?;
        self.order.remove(&(next, key));
        self.used -= u64::from(weight);
        Some(weight)
    }

    /// Whether a key is cached.
    pub fn contains(&self, key: u32) -> bool {
        self.entries.contains_key(&key)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::policy::Access;
    use proptest::prelude::*;

    fn requests(trace: &[(u32, bool)]) -> Vec<Request> {
        let request = |(at, &(key, read)): (usize, &(u32, bool))| {
            let next = (at + 1..trace.len()).find(|&later| trace[later].0 == key);
            let kind = if read { AccessKind::Read } else { AccessKind::Write };
            let access = Access { kind, ..Access::read(u64::from(key), 1) };
            let next_reads = next.is_some_and(|next| trace[next].1);
            Request { access, key, next: next.map_or(NEVER, |next| next as u32), next_reads, next_whole: NEVER }
        };
        trace.iter().enumerate().map(request).collect()
    }

    /// The most hits that any choice of what to keep gives, by trying all.
    fn best(trace: &[(u32, bool)], capacity: usize, cached: u32, bypass: bool) -> u64 {
        let Some((&(key, read), rest)) = trace.split_first() else { return 0 };
        let hit = u64::from(cached >> key & 1 == 1 && (read || !bypass));
        let with = cached | 1 << key;
        let mut most = 0;
        for kept in 0..=with {
            let fits = kept & !with == 0 && kept.count_ones() as usize <= capacity;
            if fits && (bypass || kept >> key & 1 == 1) {
                most = most.max(best(rest, capacity, kept, bypass));
            }
        }
        hit + most
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_choice_does_better(
            trace in prop::collection::vec((0u32..4, any::<bool>()), 1..9), capacity in 1usize..4,
        ) {
            for rule in [Rule::Belady, Rule::Opt] {
                let mut cache = Offline::new(rule, Unit::Entries, capacity as u64);
                let hits = requests(&trace).iter().filter(|request| cache.access(request)).count() as u64;
                prop_assert!(cache.len() <= capacity);
                prop_assert_eq!(hits, best(&trace, capacity, 0, rule == Rule::Opt), "{:?}", rule);
            }
        }
    }

    /// Units of keys that are asked for together, through the catalog.
    fn hits(rule: Rule, units: &[Vec<u64>], capacity: u64) -> (Vec<usize>, u64) {
        use crate::catalog::{Catalog, Event, Sample};
        use forebay_trace::{Record, TraceKey};
        let record = |txn: u64, &key: &u64| Record { key: TraceKey::Number(key), txn, ..Record::default() };
        let records: Vec<Record> =
            (1..).zip(units).flat_map(|(txn, keys)| keys.iter().map(move |key| record(txn, key))).collect();
        let sample = Sample { rate: 1.0, seed: 0 };
        let catalog = Catalog::of(records.iter().cloned().map(Ok), sample, true, || ()).expect("no errors in it");
        let (mut cache, mut place) = (Offline::new(rule, Unit::Entries, capacity), 0);
        let (mut whole, mut objects) = (Vec::new(), 0);
        for (txn, of_txn) in (1..).zip(records.chunk_by(|a, b| a.txn == b.txn)) {
            let requests: Vec<Request> = of_txn
                .iter()
                .filter_map(|record| match catalog.event(record, &mut place) {
                    Some(Event::Request(request)) => Some(request),
                    _ => None,
                })
                .collect();
            let cached = requests.iter().filter(|request| cache.contains(request.key)).count();
            objects += cached as u64;
            if cached == requests.len() {
                whole.push(txn);
            }
            cache.access_level(&requests);
            assert!(cache.len() as u64 <= capacity);
        }
        (whole, objects)
    }

    /// Figures 3 and 17 of the DeToX paper, and what is best there.
    #[test]
    fn figures_3_and_17() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors/detox.json");
        let text = std::fs::read_to_string(path).expect("the vectors are readable");
        let vectors: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        for figure in ["fig3", "fig17"] {
            let case = &vectors[figure];
            let mut names: Vec<&str> = Vec::new();
            let mut units: Vec<Vec<u64>> = Vec::new();
            for unit in case["transactions"].as_array().expect("transactions") {
                let mut keys = Vec::new();
                for name in unit.as_array().expect("keys").iter().filter_map(|key| key.as_str()) {
                    let known = names.iter().position(|known| *known == name);
                    keys.push(known.unwrap_or(names.len()) as u64);
                    if known.is_none() {
                        names.push(name);
                    }
                }
                units.push(keys);
            }
            let capacity = case["capacity"].as_u64().expect("a number");
            let number = |name: &str| case[name].as_u64().expect("a number");
            let (whole, _) = hits(Rule::Transactional, &units, capacity);
            assert_eq!(whole.len() as u64, number("transactional_belady_hits"), "{figure}");
            if let Some(at) = case["transactional_belady_hit_at"].as_array() {
                assert_eq!(whole, at.iter().filter_map(|at| at.as_u64()).map(|at| at as usize).collect::<Vec<_>>());
            }
            let (whole, objects) = hits(Rule::Belady, &units, capacity);
            assert_eq!(whole.len() as u64, number("belady_transactional_hits"), "{figure}");
            if let Some(expected) = case["belady_object_hits"].as_u64() {
                assert_eq!(objects, expected, "{figure}");
            }
            let bits: Vec<u64> = units.iter().map(|keys| keys.iter().fold(0, |all, key| all | 1 << key)).collect();
            let most = crate::optimum::most_hits(&bits, capacity as usize);
            assert_eq!(most, Some(number("optimal_transactional_hits")), "{figure}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Nothing beats trying everything.
        #[test]
        fn the_optimum_is_not_beaten(
            units in prop::collection::vec(prop::collection::btree_set(0u64..6, 1..4), 1..9), capacity in 1u64..5,
        ) {
            let lists: Vec<Vec<u64>> = units.iter().map(|keys| keys.iter().copied().collect()).collect();
            let bits: Vec<u64> = lists.iter().map(|keys| keys.iter().fold(0, |all, key| all | 1 << key)).collect();
            let most = crate::optimum::most_hits(&bits, capacity as usize).expect("small");
            for rule in [Rule::Transactional, Rule::Belady] {
                prop_assert!(hits(rule, &lists, capacity).0.len() as u64 <= most, "{:?}", rule);
            }
        }
    }
}
