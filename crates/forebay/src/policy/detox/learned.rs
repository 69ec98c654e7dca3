//! The part that all partitions share: what open transactions asked for, the graphs of their types, and the age.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::Grouping;
use crate::graph::{Graph, GroupFrequency, Groups, Load, Scorer, Scratch, VertexSet};
use crate::policy::{Learned, Slot};

/// Most transactions that are followed at the same time; of more, the one that began first is forgotten.
const OPEN_MAX: usize = 16_384;

/// Most accesses of one transaction that are followed; later ones are not scored.
const TOUCHES_MAX: usize = 16_384;

/// Most types with a graph.
const TYPES_MAX: usize = 4_096;

/// Vertices up to which complete groups are listed, where their frequency is not the least of their keys'.
const LISTED_VERTICES_MAX: usize = 12;

/// No slot.
pub(super) const NONE: Slot = u32::MAX;

/// One access of an open transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touch {
    pub hash: u64,
    /// Which order has it, and where, if it is cached.
    pub order: u32,
    pub slot: Slot,
    pub weight: u32,
    /// How often the key was asked for, this time included.
    pub frequency: f32,
    pub level: u16,
    pub vertex: u16,
    /// Reads save round trips, writes do not.
    pub reads: bool,
    /// Whether this access was counted in the key's frequency: only a transaction's first.
    pub counted: bool,
    /// The instance score, once the transaction has ended.
    pub score: f32,
}

#[derive(Default)]
struct Open {
    txn_type: u16,
    touches: Vec<Touch>,
}

/// A transaction that has ended, and the orders that have not yet taken their scores.
struct Ended {
    touches: Vec<Touch>,
    waiting: Vec<u32>,
}

struct Type {
    scorer: Scorer,
    /// All complete groups, if the graph is small.
    groups: Option<Groups>,
}

/// See the module.
pub(super) struct Transactions {
    grouping: Grouping,
    rule: GroupFrequency,
    /// Bits of the age, an `f64` that only rises.
    age: AtomicU64,
    orders: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    ended: HashMap<u64, Ended, foldhash::fast::FixedState>,
    /// The same for those that ended.
    ended_order: VecDeque<u64>,
    types: HashMap<u16, Type, foldhash::fast::FixedState>,
    scratch: Scratch,
    loads: Vec<Load>,
    frequencies: Vec<f64>,
    /// Touches of all transactions, open or ended.
    touches: usize,
    /// Lists of touches to be used again.
    spare: Vec<Vec<Touch>>,
}

impl Learned for Transactions {
    fn bytes(&self) -> usize {
        let state = self.lock();
        let spare: usize = state.spare.iter().map(Vec::capacity).sum();
        let tables = state.open.capacity() * size_of::<(u64, Open)>() + state.began.capacity() * size_of::<u64>();
        (state.touches + spare) * size_of::<Touch>() + tables
    }

    fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        let mut state = self.lock();
        if state.types.len() < TYPES_MAX || state.types.contains_key(&txn_type) {
            let listed = (self.rule != GroupFrequency::Min).then(|| Groups::of(graph, LISTED_VERTICES_MAX));
            let known = Type { scorer: Scorer::new(graph.clone()), groups: listed.flatten() };
            state.types.insert(txn_type, known);
        }
    }

    fn forget(&self) {
        let mut state = self.lock();
        let types = std::mem::take(&mut state.types);
        *state = State { types, ..State::default() };
        self.age.store(0f64.to_bits(), Ordering::Relaxed);
    }
}

impl Transactions {
    pub fn new(grouping: Grouping, rule: GroupFrequency) -> Transactions {
        Transactions {
            grouping,
            rule,
            age: AtomicU64::new(0f64.to_bits()),
            orders: AtomicU32::new(0),
            state: Mutex::new(State::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new order.
    pub fn new_order(&self) -> u32 {
        self.orders.fetch_add(1, Ordering::Relaxed)
    }

    /// The greatest score that any victim had.
    pub fn age(&self) -> f64 {
        f64::from_bits(self.age.load(Ordering::Relaxed))
    }

    /// A victim had this score.
    pub fn raise_age(&self, score: f64) {
        // Bits of positive floats are in the order of their values.
        self.age.fetch_max(score.max(0.0).to_bits(), Ordering::Relaxed);
    }

    /// A transaction asked for a key.
    pub fn touch(&self, txn: u64, txn_type: u16, touch: Touch) {
        let mut state = self.lock();
        let state = &mut *state;
        if !state.open.contains_key(&txn) {
            while state.open.len() >= OPEN_MAX {
                let Some(first) = state.began.pop_front() else { break };
                if let Some(open) = state.open.remove(&first) {
                    state.recycle(open.touches);
                }
            }
            state.began.push_back(txn);
            let touches = state.spare.pop().unwrap_or_default();
            state.open.insert(txn, Open { txn_type, touches });
        }
        if let Some(open) = state.open.get_mut(&txn)
            && open.touches.len() < TOUCHES_MAX
        {
            open.touches.push(touch);
            state.touches += 1;
        }
    }

    /// What a transaction asked for is cached now.
    pub fn placed(&self, txn: u64, hash: u64, order: u32, slot: Slot) {
        if let Some(open) = self.lock().open.get_mut(&txn)
            && let Some(touch) = open.touches.iter_mut().rev().find(|touch| touch.hash == hash && touch.order == order)
        {
            touch.slot = slot;
        }
    }

    /// A transaction has ended, says `order`: what it asked for, scored by the first who says so. None if nothing of it
    /// is known.
    pub fn ended(&self, order: u32, txn: u64, committed: bool, take: impl FnOnce(&[Touch])) {
        let mut state = self.lock();
        let state = &mut *state;
        if let Some(mut open) = state.open.remove(&txn) {
            if committed {
                self.score(state, &mut open);
            }
            let mut waiting: Vec<u32> = Vec::new();
            for touch in &open.touches {
                if touch.order != order && !waiting.contains(&touch.order) {
                    waiting.push(touch.order);
                }
            }
            take(&open.touches);
            if waiting.is_empty() {
                state.recycle(open.touches);
            } else {
                state.ended.insert(txn, Ended { touches: open.touches, waiting });
                state.ended_order.push_back(txn);
            }
        } else if let Some(ended) = state.ended.get_mut(&txn) {
            ended.waiting.retain(|&waiting| waiting != order);
            take(&ended.touches);
            if ended.waiting.is_empty()
                && let Some(ended) = state.ended.remove(&txn)
            {
                state.recycle(ended.touches);
            }
        }
        state.trim();
    }

    /// Instance scores of a transaction's reads.
    fn score(&self, state: &mut State, open: &mut Open) {
        let State { types, scratch, loads, frequencies, .. } = state;
        let by_graph = match types.get(&open.txn_type) {
            Some(known) if self.grouping == Grouping::Groups => {
                self.score_by_graph(known, &mut open.touches, scratch, loads)
            }
            _ => false,
        };
        if by_graph {
            return;
        }
        if self.grouping == Grouping::LastLevel {
            let last = open.touches.iter().filter(|touch| touch.reads).map(|touch| touch.level).max();
            let of_last = |touch: &&Touch| touch.counted && Some(touch.level) == last && touch.slot != NONE;
            let score = 1.0 / (open.touches.iter().filter(of_last).count() as f32 + 1.0);
            return open.touches.iter_mut().for_each(|touch| touch.score = score);
        }
        let whole = self.grouping == Grouping::Transaction;
        // A stable sort by level: accesses of a level stay in their order.
        open.touches.sort_by_key(|touch| touch.level);
        let levels = open.touches.chunk_by(|a, b| a.level == b.level);
        let hits = if whole { levels.filter(|level| level.iter().all(|touch| touch.reads)).count() } else { 1 };
        for group in open.touches.chunk_by_mut(|a, b| whole || a.level == b.level) {
            // A level that writes costs a round trip whatever is cached.
            let writes = group.iter().any(|touch| !touch.reads);
            let counted = || group.iter().filter(|touch| touch.reads && touch.counted);
            frequencies.clear();
            frequencies.extend(counted().map(|touch| f64::from(touch.frequency)));
            let size: u64 = counted().map(|touch| u64::from(touch.weight)).sum();
            let score = match size {
                0 => 0.0,
                _ if writes && !whole => 0.0,
                size => self.rule.of(frequencies) * hits as f64 / size as f64,
            };
            group.iter_mut().for_each(|touch| touch.score = score as f32);
        }
    }

    /// Scores by the type's graph; false where an access names no vertex of it.
    fn score_by_graph(
        &self,
        known: &Type,
        touches: &mut [Touch],
        scratch: &mut Scratch,
        loads: &mut Vec<Load>,
    ) -> bool {
        let graph = known.scorer.graph();
        let count = graph.len();
        if touches.iter().any(|touch| touch.vertex == 0 || usize::from(touch.vertex) > count) {
            return false;
        }
        loads.clear();
        loads.resize(count, Load::Absent);
        for touch in touches.iter() {
            let load = &mut loads[usize::from(touch.vertex) - 1];
            let (touched, weight) = (f64::from(touch.frequency), u64::from(touch.weight));
            *load = match *load {
                _ if !touch.reads => Load::Never,
                Load::Never => Load::Never,
                Load::Absent => Load::Keys { frequency: touched, size: weight },
                // Asked for again: no further memory.
                Load::Keys { frequency, size } if !touch.counted => {
                    Load::Keys { frequency: frequency.min(touched), size }
                }
                Load::Keys { frequency, size } => Load::Keys { frequency: frequency.min(touched), size: size + weight },
            };
        }
        let by_list;
        let scores = match &known.groups {
            None if self.rule != GroupFrequency::Min => return false,
            None => {
                known.scorer.score(loads, scratch);
                scratch.scores()
            }
            Some(groups) => {
                let absent: VertexSet = (0..count).filter(|&v| !matches!(loads[v], Load::Keys { .. })).collect();
                if !absent.is_empty() {
                    return false;
                }
                let of = |load: &Load| match *load {
                    Load::Keys { frequency, size } => (frequency, size),
                    _ => (0.0, 1),
                };
                let (frequency, size): (Vec<f64>, Vec<u64>) = loads.iter().map(of).unzip();
                by_list = groups.instance_scores(self.rule, &frequency, &size);
                &by_list
            }
        };
        for touch in touches.iter_mut() {
            touch.score = scores[usize::from(touch.vertex) - 1] as f32;
        }
        true
    }

    pub fn validate(&self) {
        let state = self.lock();
        assert!(state.open.len() <= OPEN_MAX && state.ended.len() <= OPEN_MAX, "transactions beyond their bound");
        assert!(state.open.keys().all(|txn| state.began.contains(txn)), "each open transaction began");
        let touches = state.open.values().map(|open| open.touches.len());
        let ended = state.ended.values().map(|ended| ended.touches.len());
        assert_eq!(touches.chain(ended).sum::<usize>(), state.touches, "the number of touches");
        assert!(self.age().is_finite() && self.age() >= 0.0, "the age is a number");
    }
}

impl State {
    fn recycle(&mut self, mut touches: Vec<Touch>) {
        self.touches -= touches.len();
        touches.clear();
        if self.spare.len() < 16 && touches.capacity() <= 256 {
            self.spare.push(touches);
        }
    }

    /// Numbers of transactions that are gone go once they are the most; so do those whose orders never ask.
    fn trim(&mut self) {
        if self.began.len() > 2 * self.open.len() + 64 {
            self.began.retain(|txn| self.open.contains_key(txn));
        }
        while self.ended_order.len() > OPEN_MAX {
            let first = self.ended_order.pop_front();
            if let Some(ended) = first.and_then(|first| self.ended.remove(&first)) {
                self.recycle(ended.touches);
            }
        }
        if self.ended_order.len() > 2 * self.ended.len() + 64 {
            self.ended_order.retain(|txn| self.ended.contains_key(txn));
        }
    }
}
