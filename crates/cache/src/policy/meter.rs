//! How many round trips of transactions the cache saves (DeToX, definitions 5 to 7), counted while they run.
//!
//! A *level* is what a transaction asks for at the same time. It costs a round trip unless all that it reads is cached;
//! one that writes costs one always. Where the graph of the transaction's type is known its critical length counts
//! instead. The simulator judges traces by the same rules (`forebay_sim::levels`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Access, AccessKind};
use crate::graph::{Graph, Thr, VERTICES_MAX, VertexSet};

/// Most transactions that are followed at the same time; of more, the one that began first is not counted.
pub const METERED_OPEN_MAX: usize = 16_384;

/// Most levels of one transaction that count; later ones count with the last.
pub const METERED_LEVELS_MAX: usize = 1_024;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Critical lengths and transactional hits of all that committed.
    pub thr: Thr,
    /// Transactions that committed, plain commands too.
    pub transactions: u64,
    /// Those of them that were counted by the graph of their type.
    pub by_graph: u64,
    /// Their levels.
    pub levels: u64,
    /// Levels of which all was cached.
    pub levels_hit: u64,
    /// Reads, of transactions that were aborted too.
    pub reads: u64,
    /// Reads that were answered from the cache.
    pub reads_hit: u64,
}

#[derive(Default)]
struct Open {
    txn_type: u16,
    /// Numbers of levels, and whether all of each was cached so far.
    levels: SmallVec<[(u16, bool); 4]>,
    /// Vertices that were asked for, and those of which something was missing.
    present: VertexSet,
    missed: VertexSet,
    /// Vertices under which something was written.
    written: VertexSet,
    /// Something was written under no vertex.
    wrote: bool,
    /// Some read names no vertex.
    outside: bool,
}

/// Counts what a cache tells it: what a policy may know of each access, whether it was a hit, and how transactions end.
#[derive(Default)]
pub struct Meter {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    metered: Metered,
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    graphs: HashMap<u16, Arc<Graph>, foldhash::fast::FixedState>,
}

impl Meter {
    /// What was counted so far.
    pub fn metered(&self) -> Metered {
        self.lock().metered
    }

    /// Counts from zero again; transactions that are open go on.
    pub fn reset(&self) {
        self.lock().metered = Metered::default();
    }

    /// Has transactions of this type counted by `graph` from their next end on.
    pub fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        self.lock().graphs.insert(txn_type, graph.clone());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    /// A key was asked for or written; `hit`: a read was answered from the cache.
    pub fn access(&self, access: &Access, hit: bool) {
        let (kind, context) = (access.kind, access);
        if !matches!(kind, AccessKind::Read | AccessKind::Write) {
            return;
        }
        let hit = hit && kind == AccessKind::Read;
        let mut state = self.lock();
        if kind == AccessKind::Read {
            state.metered.reads += 1;
            state.metered.reads_hit += u64::from(hit);
        }
        if context.txn != 0 {
            state.add(context, hit, kind == AccessKind::Read);
        }
    }

    /// A transaction ended.
    pub fn ended(&self, txn: u64, committed: bool) {
        let mut state = self.lock();
        if let Some(open) = state.open.remove(&txn)
            && committed
        {
            state.count(&open);
        }
        if state.began.len() > 2 * state.open.len() + METERED_OPEN_MAX {
            let State { began, open, .. } = &mut *state;
            began.retain(|txn| open.contains_key(txn));
        }
    }
}

impl State {
    fn add(&mut self, context: &Access, hit: bool, reads: bool) {
        if !self.open.contains_key(&context.txn) {
            while self.open.len() >= METERED_OPEN_MAX {
                let Some(first) = self.began.pop_front() else { break };
                self.open.remove(&first);
            }
            self.began.push_back(context.txn);
        }
        let open = self.open.entry(context.txn).or_default();
        open.txn_type = context.txn_type;
        let known = open.levels.iter().rposition(|(level, _)| *level == context.level);
        let full = open.levels.len() >= METERED_LEVELS_MAX;
        match known.or(full.then_some(METERED_LEVELS_MAX - 1)) {
            Some(at) => open.levels[at].1 &= hit,
            None => open.levels.push((context.level, hit)),
        }
        match usize::from(context.vertex).checked_sub(1).filter(|&v| v < VERTICES_MAX) {
            Some(v) if !reads => open.written.insert(v),
            None if !reads => open.wrote = true,
            Some(v) => {
                open.present.insert(v);
                if !hit {
                    open.missed.insert(v);
                }
            }
            None => open.outside = true,
        }
    }

    fn count(&mut self, open: &Open) {
        let metered = &mut self.metered;
        metered.transactions += 1;
        metered.levels += open.levels.len() as u64;
        let hit = open.levels.iter().filter(|(_, hit)| *hit).count();
        metered.levels_hit += hit as u64;
        let known = |graph: &&Arc<Graph>| !open.outside && open.present.iter().all(|v| v < graph.len());
        match self.graphs.get(&open.txn_type).filter(known) {
            Some(graph) => {
                metered.by_graph += 1;
                // A client that names the vertices of its reads only writes under the last of them, or none: that is a
                // round trip behind all others.
                let (readers, mut behind) = (graph.readers(), u32::from(open.wrote));
                let mut present = open.present;
                for v in open.written.iter() {
                    match v < graph.len() && !readers.contains(v) {
                        true => present.insert(v),
                        false => behind = 1,
                    }
                }
                // What was not asked for weighs as much as what is cached: nothing.
                let absent = (0..graph.len()).filter(|&v| !present.contains(v)).collect::<VertexSet>();
                let cached = absent.union(&open.present.without(&open.missed));
                let length = |cached: &VertexSet| graph.critical_length(cached) + behind;
                metered.thr.add(length(&absent), length(&cached));
            }
            None => metered.thr.add(open.levels.len() as u32, (open.levels.len() - hit) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(txn: u64, level: u16) -> Access {
        Access { txn, level, ..Access::read(1, 1) }
    }

    #[test]
    fn a_level_is_hit_when_all_of_it_is_and_aborted_transactions_do_not_count() {
        let meter = Meter::default();
        for (level, kind, hit) in [
            (0, AccessKind::Read, true),
            (0, AccessKind::Read, true),
            (1, AccessKind::Read, true),
            (1, AccessKind::Read, false),
            (2, AccessKind::Write, true),
        ] {
            meter.access(&Access { kind, ..at(7, level) }, hit);
        }
        meter.access(&at(8, 0), true);
        meter.ended(8, false);
        meter.ended(7, true);
        let metered = meter.metered();
        assert_eq!((metered.thr, metered.transactions), (Thr { length: 3, hits: 1 }, 1));
        assert_eq!((metered.levels, metered.levels_hit), (3, 1));
        assert_eq!((metered.reads, metered.reads_hit), (5, 4));
        meter.reset();
        assert_eq!(meter.metered(), Metered::default());
    }

    #[test]
    fn a_graph_knows_what_did_not_have_to_wait() {
        // Figure 6a: a -> b, a -> c -> d; levels {a} {b, c} {d}; only c is cached.
        let meter = Meter::default();
        meter.register_graph(3, &Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph")));
        for txn_type in [3, 4] {
            for (vertex, level) in [(1, 0), (2, 1), (3, 1), (4, 2)] {
                meter.access(&Access { txn_type, vertex, ..at(1, level) }, vertex == 3);
            }
            meter.ended(1, true);
        }
        let metered = meter.metered();
        assert_eq!((metered.thr, metered.by_graph), (Thr { length: 6, hits: 1 }, 1));
    }

    #[test]
    fn open_transactions_are_bounded() {
        let meter = Meter::default();
        for txn in 1..=METERED_OPEN_MAX as u64 + 5 {
            meter.access(&at(txn, 0), true);
        }
        assert_eq!(meter.lock().open.len(), METERED_OPEN_MAX);
        for level in 0..=METERED_LEVELS_MAX as u16 {
            meter.access(&at(9, level), true);
        }
        meter.ended(9, true);
        let levels = METERED_LEVELS_MAX as u64;
        assert_eq!((meter.metered().levels, meter.metered().levels_hit), (levels, levels));
        assert_eq!(meter.metered().thr, Thr { length: levels, hits: levels });
    }
}
