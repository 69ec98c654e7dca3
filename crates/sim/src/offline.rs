//! Policies that know the future, for bounds.
//!
//! - `belady`: MIN (Belady 1966): what is asked for again last goes; a newcomer always comes in. With sizes it is no
//!   optimum, but the usual yardstick.
//! - `opt`: CLIC's OPT (section 6.1, and better): most *read* hits. A newcomer may stay out, and what is written before
//!   it is read again is worth nothing. Optimal where all entries weigh the same: it is MIN with bypass over the
//!   intervals that end in a read.
//! - `transactional-belady` (DeToX, appendix A.1): keys whose next level that can be hit as a whole is furthest go first,
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
}
