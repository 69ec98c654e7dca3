//! The part that all partitions share: what open transactions asked for, and the graphs of their types.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::shown::{company, shown, type_name};
use super::tuning::Grouping;
use crate::graph::{ARCS_MAX, Graph, GroupFrequency, Groups, Load, Scorer, Scratch, VertexSet};
use crate::policy::{Learned, Slot};

/// Most transactions that are followed at the same time; of more, the one that began first is forgotten.
const OPEN_MAX: usize = 16_384;

/// Most accesses of one transaction that are followed; later ones are not scored.
const TOUCHES_MAX: usize = 16_384;

/// Most accesses of all transactions together that are followed. At so many a new transaction takes the room of the one
/// that began first; further accesses of those that are open are not followed.
const TOUCHES_ALL_MAX: usize = 1 << 20;

/// Most types with a graph.
const TYPES_MAX: usize = 4_096;

/// Vertices up to which complete groups are listed, where their frequency is not the least of their keys'.
const LISTED_VERTICES_MAX: usize = 12;

/// What a vertex and an edge of a graph cost in a scorer, roughly: lists of neighbours, order, shape.
const VERTEX_BYTES: usize = 160;
const EDGE_BYTES: usize = 16;

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
    /// What is shown of it.
    shown: String,
}

/// See the module.
pub(super) struct Transactions {
    grouping: Grouping,
    rule: GroupFrequency,
    /// Bits of the greatest age of any order, an `f64` that only rises; shown, and nothing is decided by it.
    age_max: AtomicU64,
    orders: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    ended: HashMap<u64, Ended, foldhash::fast::FixedState>,
    /// Likewise for those that ended.
    ended_order: VecDeque<u64>,
    types: HashMap<u16, Type, foldhash::fast::FixedState>,
    scratch: Scratch,
    loads: Vec<Load>,
    frequencies: Vec<f64>,
    /// Touches of all transactions, open or ended.
    touches: usize,
    /// Lists of touches to be used again.
    spare: Vec<Vec<Touch>>,
    /// Bytes of the graphs.
    types_bytes: usize,
    counts: Counts,
}

/// What is shown of the transactions that committed.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Scored by the graph of their type.
    by_graph: u64,
    /// Scored by levels, or as a whole.
    by_level: u64,
    /// Those of them that have a type with a graph, but an access names no vertex of it.
    astray: u64,
    aborted: u64,
    /// Forgotten before they ended, for want of room.
    forgotten: u64,
    /// Graphs by which nothing is scored, since it would take too long ([`ARCS_MAX`]).
    too_costly: u64,
}

impl Learned for Transactions {
    fn bytes(&self) -> usize {
        let state = self.lock();
        let spare: usize = state.spare.iter().map(Vec::capacity).sum();
        let tables = state.open.capacity() * size_of::<(u64, Open)>() + state.began.capacity() * size_of::<u64>();
        (state.touches + spare) * size_of::<Touch>() + tables + state.types_bytes
    }

    fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        // All that takes long, before anybody has to wait.
        let scorer = Scorer::new(graph.clone());
        let is_quick = scorer.arcs_max() <= ARCS_MAX;
        let listed = (is_quick && self.rule != GroupFrequency::Min).then(|| Groups::of(graph, LISTED_VERTICES_MAX));
        let known = is_quick.then(|| Type { shown: shown(graph), scorer, groups: listed.flatten() });
        let mut state = self.lock();
        let before = state.types.remove(&txn_type);
        state.types_bytes -= before.map_or(0, |known| graph_bytes(known.scorer.graph()));
        match known {
            Some(known) if state.types.len() < TYPES_MAX => {
                state.types_bytes += graph_bytes(graph);
                state.types.insert(txn_type, known);
            }
            Some(_) => {}
            None => state.counts.too_costly += 1,
        }
    }

    fn follows_transactions(&self) -> bool {
        true
    }

    fn asked_by(&self, txn: u64, tell: &mut dyn FnMut(u64)) {
        let state = self.lock();
        let open = state.open.get(&txn).map(|open| &open.touches);
        let touches = open.or(state.ended.get(&txn).map(|ended| &ended.touches));
        touches.into_iter().flatten().for_each(|touch| tell(touch.hash));
    }

    fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        let state = self.lock();
        let Counts { by_graph, by_level, astray, aborted, forgotten, too_costly } = state.counts;
        if by_graph + by_level + aborted + too_costly == 0 && state.types.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![
            ("scored_by_graph".to_owned(), by_graph.to_string()),
            ("scored_by_level".to_owned(), by_level.to_string()),
            ("outside_their_graph".to_owned(), astray.to_string()),
            ("aborted".to_owned(), aborted.to_string()),
            ("forgotten".to_owned(), forgotten.to_string()),
            ("open".to_owned(), state.open.len().to_string()),
            ("age".to_owned(), format!("{:.3e}", self.age_max())),
            ("graphs".to_owned(), state.types.len().to_string()),
        ];
        if too_costly > 0 {
            lines.push(("graphs_too_costly".to_owned(), too_costly.to_string()));
        }
        let mut types: Vec<_> = state.types.iter().collect();
        types.sort_unstable_by_key(|(number, _)| **number);
        lines.extend(types.into_iter().map(|(number, known)| {
            (format!("type {}", type_name(*number, known.scorer.graph())), known.shown.clone())
        }));
        lines.truncate(lines_max);
        lines
    }

    fn forget(&self) {
        let mut state = self.lock();
        let (types, types_bytes) = (std::mem::take(&mut state.types), state.types_bytes);
        *state = State { types, types_bytes, ..State::default() };
        self.age_max.store(0f64.to_bits(), Ordering::Relaxed);
    }
}

impl Transactions {
    pub fn new(grouping: Grouping, rule: GroupFrequency) -> Transactions {
        Transactions {
            grouping,
            rule,
            age_max: AtomicU64::new(0f64.to_bits()),
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

    /// Whether the levels of such a transaction are scored by themselves and by their least frequency, so that a
    /// level's score can be told while it is asked for.
    pub fn goes_by_levels(&self, txn_type: u16, vertex: u16) -> bool {
        let by_graph = || vertex != 0 && self.lock().types.contains_key(&txn_type);
        self.rule == GroupFrequency::Min
            && match self.grouping {
                Grouping::Levels => true,
                Grouping::Groups => !by_graph(),
                Grouping::Transaction => false,
            }
    }

    /// The greatest age of any order.
    pub fn age_max(&self) -> f64 {
        f64::from_bits(self.age_max.load(Ordering::Relaxed))
    }

    /// An order has this age now.
    pub fn aged(&self, age: f64) {
        // Bits of positive floats are in the order of their values.
        self.age_max.fetch_max(age.to_bits(), Ordering::Relaxed);
    }

    /// A transaction asked for a key.
    pub fn touch(&self, txn: u64, txn_type: u16, touch: Touch) {
        let mut state = self.lock();
        let state = &mut *state;
        if !state.open.contains_key(&txn) {
            while state.open.len() >= OPEN_MAX || state.touches >= TOUCHES_ALL_MAX {
                let Some(first) = state.began.pop_front() else { break };
                if let Some(open) = state.open.remove(&first) {
                    state.counts.forgotten += 1;
                    state.recycle(open.touches);
                }
            }
            state.began.push_back(txn);
            let touches = state.spare.pop().unwrap_or_default();
            state.open.insert(txn, Open { txn_type, touches });
        }
        if let Some(open) = state.open.get_mut(&txn)
            && open.touches.len() < TOUCHES_MAX
            && state.touches < TOUCHES_ALL_MAX
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

    /// A transaction has ended, says `order`: what it asked for, scored by the first order that says so. None if
    /// nothing of it is known.
    pub fn ended(&self, order: u32, txn: u64, committed: bool, take: impl FnOnce(&[Touch])) {
        let mut state = self.lock();
        let state = &mut *state;
        if let Some(mut open) = state.open.remove(&txn) {
            match committed {
                true => self.score(state, &mut open),
                false => state.counts.aborted += 1,
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
        let State { types, scratch, loads, frequencies, counts, .. } = state;
        let by_graph = match types.get(&open.txn_type) {
            Some(known) if self.grouping == Grouping::Groups => {
                self.score_by_graph(known, &mut open.touches, scratch, loads)
            }
            _ => false,
        };
        if by_graph {
            counts.by_graph += 1;
            return;
        }
        counts.by_level += 1;
        counts.astray += u64::from(types.contains_key(&open.txn_type) && self.grouping == Grouping::Groups);
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
        // A client that names the vertices of its reads only has its writes under the last of them, or none.
        let writes = |touch: &Touch| {
            let vertex = usize::from(touch.vertex).checked_sub(1).and_then(|v| graph.vertices().get(v));
            vertex.is_some_and(|vertex| vertex.writes)
        };
        let unnamed = |touch: &Touch| !touch.reads && !writes(touch);
        let outside = |touch: &Touch| touch.vertex == 0 || usize::from(touch.vertex) > count;
        if touches.iter().any(|touch| outside(touch) && !unnamed(touch)) {
            return false;
        }
        loads.clear();
        loads.resize(count, Load::Absent);
        for touch in touches.iter().filter(|touch| !unnamed(touch)) {
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
        for touch in touches.iter_mut().filter(|touch| touch.reads) {
            touch.score = scores[usize::from(touch.vertex) - 1] as f32;
        }
        true
    }

    /// For people: what an access has to be cached together with to save a round trip.
    pub fn helps_with(&self, txn_type: u16, vertex: u16, level: u16, in_transaction: bool) -> String {
        if !in_transaction {
            return "helps by itself".to_owned();
        }
        let state = self.lock();
        let known = state.types.get(&txn_type).filter(|_| self.grouping == Grouping::Groups);
        let graph = known.map(|known| known.scorer.graph());
        match graph.filter(|graph| vertex > 0 && usize::from(vertex) <= graph.len()) {
            Some(graph) => company(graph, txn_type, usize::from(vertex) - 1),
            None if self.grouping == Grouping::Transaction => "helps with all of its transaction".to_owned(),
            None => format!("helps with all that its transaction asks for at the same time (level {level})"),
        }
    }

    pub fn validate(&self) {
        let state = self.lock();
        assert!(state.open.len() <= OPEN_MAX && state.ended.len() <= OPEN_MAX, "transactions beyond their bound");
        assert!(state.open.keys().all(|txn| state.began.contains(txn)), "each open transaction began");
        let touches = state.open.values().map(|open| open.touches.len());
        let ended = state.ended.values().map(|ended| ended.touches.len());
        assert_eq!(touches.chain(ended).sum::<usize>(), state.touches, "the number of touches");
        assert!(state.touches <= TOUCHES_ALL_MAX, "touches beyond their bound");
        assert!(self.age_max().is_finite() && self.age_max() >= 0.0, "the age is a number");
    }
}

/// Bytes of a graph and what is made of it, roughly.
fn graph_bytes(graph: &Graph) -> usize {
    let names: usize = graph.vertices().iter().map(|vertex| vertex.name.len()).sum();
    size_of::<(u16, Type)>() + names + graph.len() * VERTEX_BYTES + graph.edges().len() * EDGE_BYTES
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

#[cfg(test)]
mod tests;
