//! What a transaction will ask for next (DeToX, section 6).
//!
//! For each key that was asked for, the sets of keys that its transactions asked for because of it, with their counts.
//! With a graph those are the keys of the vertex's direct successors; without one, the keys of the next level, which is
//! the rule of the paper's artifact and can learn nothing where a level depends on several keys (two accounts of a
//! bank). The most frequent set is worth fetching ahead if it came often enough. A key whose sets are always others is
//! not followed any further. All is bounded; keys that were not asked for in the longest time are forgotten.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::there;
use crate::graph::Graph;

/// Most different sets that are counted for one key; a key with more is not followed any further.
pub const SETS_MAX: usize = 5;

/// Most keys in a set that is fetched ahead.
pub const SET_KEYS_MAX: usize = 64;

/// Most transactions that are followed at the same time.
pub const OPEN_MAX: usize = 16_384;

/// Share of a key's transactions that must have asked for a set for it to be fetched ahead.
pub const SHARE_MIN: f64 = 0.2;

type Set<K> = SmallVec<[K; 2]>;

/// Sets, and how often each followed.
type Counts<K> = SmallVec<[(Set<K>, u32); 1]>;

/// A transaction's way to a key: its type, its vertex if there is a graph, and the key.
type Origin<K> = (u16, u16, K);

struct Sets<K> {
    /// Sets and how often each followed; none if there were too many.
    counts: Option<Counts<K>>,
    total: u32,
    /// When it was last asked for.
    seen: u64,
}

impl<K> Sets<K> {
    /// Bytes beside the entry itself: of more than one set, and of sets of more than two keys.
    fn heap_bytes(&self) -> usize {
        let Some(counts) = &self.counts else { return 0 };
        let sets = if counts.spilled() { counts.capacity() * size_of::<(Set<K>, u32)>() } else { 0 };
        let keys = counts.iter().filter(|(set, _)| set.spilled()).map(|(set, _)| set.capacity() * size_of::<K>());
        sets + keys.sum::<usize>()
    }
}

#[derive(Clone)]
struct Asked<K> {
    level: u16,
    vertex: u16,
    key: K,
}

struct Open<K> {
    txn_type: u16,
    asked: Vec<Asked<K>>,
}

/// See the module. `K` is how keys are known; it should be cheap to clone.
pub struct Predictor<K> {
    keys_max: usize,
    bytes_max: usize,
    /// Bytes of sets that have no room in their entries.
    heap_bytes: usize,
    graphs: HashMap<u16, Arc<Graph>>,
    sets: HashMap<Origin<K>, Sets<K>>,
    /// Origins by when they were last asked for.
    by_age: BTreeMap<u64, Origin<K>>,
    open: BTreeMap<u64, Open<K>>,
    now: u64,
}

impl<K: Clone + Eq + Hash + Ord> Predictor<K> {
    /// Follows up to `keys_max` keys.
    pub fn new(keys_max: usize) -> Predictor<K> {
        Predictor {
            keys_max: keys_max.max(1),
            bytes_max: usize::MAX,
            heap_bytes: 0,
            graphs: HashMap::new(),
            sets: HashMap::new(),
            by_age: BTreeMap::new(),
            open: BTreeMap::new(),
            now: 0,
        }
    }

    /// Follows as many keys as take at most so many bytes.
    pub fn in_bytes(bytes_max: usize) -> Predictor<K> {
        Predictor { bytes_max, ..Predictor::new(usize::MAX) }
    }

    /// From now on transactions of this type go by their graph, where each access names its vertex.
    pub fn register_graph(&mut self, txn_type: u16, graph: &Arc<Graph>) {
        self.graphs.insert(txn_type, graph.clone());
    }

    fn origin(&self, txn_type: u16, vertex: u16, key: &K) -> Origin<K> {
        match self.graphs.contains_key(&txn_type) && vertex != 0 {
            true => (txn_type, vertex, key.clone()),
            false => (txn_type, 0, key.clone()),
        }
    }

    /// A transaction asks for a key. `vertex` counts from 1; 0 is none.
    pub fn asked(&mut self, txn: u64, txn_type: u16, level: u16, vertex: u16, key: &K) {
        if !self.open.contains_key(&txn) && self.open.len() >= OPEN_MAX {
            // The one with the lowest number began first, or is a rerun of one that did.
            self.open.pop_first();
        }
        let open = self.open.entry(txn).or_insert_with(|| Open { txn_type, asked: Vec::new() });
        open.asked.push(Asked { level, vertex, key: key.clone() });
    }

    /// The keys worth fetching while `key` is fetched; empty for none.
    pub fn follow(&self, txn_type: u16, vertex: u16, key: &K) -> &[K] {
        let Some(sets) = self.sets.get(&self.origin(txn_type, vertex, key)) else { return &[] };
        let best = sets.counts.iter().flatten().max_by_key(|(_, count)| *count);
        match best {
            Some((set, count)) if f64::from(*count) > SHARE_MIN * f64::from(sets.total) && sets.total > 0 => set,
            _ => &[],
        }
    }

    /// A transaction has ended: what it asked for is learned if it was committed.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        let Some(open) = self.open.remove(&txn).filter(|_| committed) else { return };
        let graph = self.graphs.get(&open.txn_type).cloned();
        for (at, asked) in open.asked.iter().enumerate() {
            let vertex = usize::from(asked.vertex);
            let graph = graph.as_ref().filter(|graph| vertex > 0 && vertex <= graph.len());
            let mut set: Set<K> = match graph {
                Some(graph) => {
                    let successors = graph.successors(vertex - 1);
                    let follows = |other: &&Asked<K>| other.vertex > 0 && successors.contains(&(other.vertex - 1));
                    open.asked.iter().filter(follows).map(|other| other.key.clone()).collect()
                }
                None => {
                    let next = open.asked[at..].iter().map(|other| other.level).find(|&level| level > asked.level);
                    let of_next = open.asked.iter().filter(|other| Some(other.level) == next);
                    of_next.map(|other| other.key.clone()).collect()
                }
            };
            set.sort_unstable();
            set.dedup();
            if !set.is_empty() && set.len() <= SET_KEYS_MAX {
                let origin = self.origin(open.txn_type, asked.vertex, &asked.key);
                self.learn(origin, set);
            }
        }
    }

    fn learn(&mut self, origin: Origin<K>, set: Set<K>) {
        self.now += 1;
        let fresh = || Sets { counts: Some(SmallVec::new()), total: 0, seen: 0 };
        let sets = self.sets.entry(origin.clone()).or_insert_with(fresh);
        self.by_age.remove(&std::mem::replace(&mut sets.seen, self.now));
        self.by_age.insert(self.now, origin);
        sets.total = sets.total.saturating_add(1);
        let heap_bytes = sets.heap_bytes();
        if let Some(counts) = &mut sets.counts {
            match counts.iter().position(|(known, _)| *known == set) {
                Some(at) => counts[at].1 = counts[at].1.saturating_add(1),
                None if counts.len() < SETS_MAX => counts.push((set, 1)),
                None => sets.counts = None,
            }
        }
        self.heap_bytes = self.heap_bytes - heap_bytes + sets.heap_bytes();
        while self.sets.len() > self.keys_max || self.bytes() > self.bytes_max {
            let Some((_, oldest)) = there(self.by_age.pop_first()) else { break };
            self.heap_bytes -= self.sets.remove(&oldest).map_or(0, |sets| sets.heap_bytes());
        }
    }

    /// Keys that are followed.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Bytes that it takes, about: what is followed, and the sets.
    pub fn bytes(&self) -> usize {
        let each = 2 * size_of::<Origin<K>>() + size_of::<Sets<K>>() + 2 * size_of::<u64>();
        self.sets.len() * each + self.heap_bytes
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        assert!(self.sets.len() <= self.keys_max && self.open.len() <= OPEN_MAX, "beyond its bounds");
        assert!(self.bytes() <= self.bytes_max, "more bytes than it may have");
        assert_eq!(self.heap_bytes, self.sets.values().map(Sets::heap_bytes).sum::<usize>(), "bytes are counted");
        assert_eq!(self.sets.len(), self.by_age.len(), "each key has its age");
        for (seen, origin) in &self.by_age {
            assert!(self.sets.get(origin).is_some_and(|sets| sets.seen == *seen), "ages lead to their keys");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SendPayment: {A1, A2} -> {C1, C2}; vertices 1 to 4.
    fn payment(predictor: &mut Predictor<u32>, txn: u64, one: u32, other: u32) {
        for (level, vertex, key) in [(0, 1, one), (0, 2, other), (1, 3, one + 100), (1, 4, other + 100)] {
            predictor.asked(txn, 7, level, vertex, &key);
        }
        predictor.ended(txn, true);
    }

    #[test]
    fn a_graph_tells_which_account_brings_which_balance() {
        let graph = Arc::new(Graph::plain(4, &[(0, 2), (1, 3)]).expect("a graph"));
        let (mut with, mut without) = (Predictor::new(100), Predictor::new(100));
        with.register_graph(7, &graph);
        for (txn, other) in (1..).zip(2..9) {
            payment(&mut with, txn, 1, other);
            payment(&mut without, txn, 1, other);
        }
        assert_eq!(with.follow(7, 1, &1), [101]);
        assert_eq!(with.follow(7, 2, &5), [105]);
        // The next level is another one each time: not followed any more.
        assert!(without.follow(7, 1, &1).is_empty());
        assert_eq!(without.follow(7, 2, &5), [101, 105]);
        with.validate();
    }

    #[test]
    fn an_abort_teaches_nothing_and_rare_sets_are_not_fetched() {
        let mut predictor = Predictor::new(10);
        predictor.asked(1, 0, 0, 0, &1);
        predictor.asked(1, 0, 1, 0, &2);
        predictor.ended(1, false);
        assert!(predictor.is_empty() && predictor.follow(0, 0, &1).is_empty());
        for (txn, next) in (2..).zip([2, 3, 4, 5, 6]) {
            predictor.asked(txn, 0, 0, 0, &1);
            predictor.asked(txn, 0, 1, 0, &next);
            predictor.ended(txn, true);
        }
        // One of five is no more than a share of 0.2.
        assert!(predictor.follow(0, 0, &1).is_empty());
    }

    proptest! {
        /// Against a list of all that ever followed, without bounds.
        #[test]
        fn equals_a_list(transactions in prop::collection::vec((0u32..4, 0u32..3), 0..80)) {
            let (mut predictor, mut list) = (Predictor::new(100), Vec::new());
            for (txn, (key, next)) in (1..).zip(transactions) {
                predictor.asked(txn, 0, 0, 0, &key);
                predictor.asked(txn, 0, 3, 0, &(100 + next));
                predictor.ended(txn, true);
                list.push((key, 100 + next));
                for key in 0..4 {
                    let all = list.iter().filter(|pair| pair.0 == key).count();
                    let count = |next: u32| list.iter().filter(|pair| **pair == (key, next)).count();
                    let followed = predictor.follow(0, 0, &key);
                    let most = (100..103).map(count).max().unwrap_or(0);
                    prop_assert_eq!(!followed.is_empty(), most as f64 > SHARE_MIN * all as f64);
                    prop_assert!(followed.iter().all(|&next| count(next) == most));
                }
            }
        }

        #[test]
        fn stays_within_its_bounds(transactions in prop::collection::vec((0u32..50, 0u32..50, any::<bool>()), 0..200)) {
            let mut predictor = Predictor::new(8);
            for (txn, (key, next, committed)) in (1..).zip(transactions) {
                predictor.asked(txn, 0, 0, 0, &key);
                predictor.asked(txn, 0, 1, 0, &next);
                predictor.ended(txn, committed);
                predictor.validate();
                prop_assert!(!committed || predictor.follow(0, 0, &key).len() <= 1);
            }
        }

        /// Sets of up to five keys, several for each key, in memory for a few of them.
        #[test]
        fn stays_within_its_bytes(
            transactions in prop::collection::vec((0u32..20, prop::collection::vec(0u32..9, 1..6)), 0..200),
            bytes_max in 0usize..3000,
        ) {
            let mut predictor = Predictor::in_bytes(bytes_max);
            for (txn, (key, next)) in (1..).zip(transactions) {
                predictor.asked(txn, 0, 0, 0, &key);
                next.iter().for_each(|next| predictor.asked(txn, 0, 1, 0, &(100 + next)));
                predictor.ended(txn, true);
                predictor.validate();
            }
        }
    }
}
