//! How many round trips of transactions a cache saves (DeToX, definitions 5 to 7). Several caches that are asked for
//! the same keys are judged together.
//!
//! A *level* is what a transaction asks for at the same time. It costs a round trip unless all that it reads is cached;
//! one that writes costs one always. Where the graph of the transaction's type is known its critical length counts
//! instead. The simulator judges traces by the same rules (`forebay_sim::levels`).

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Access, AccessKind};
use crate::graph::{Graph, Thr, VERTICES_MAX, VertexSet};

/// Most transactions that are followed at the same time; of more, the one that began first is not counted.
pub const METERED_OPEN_MAX: usize = 16_384;

/// Most levels of one transaction that count; later ones count with the last.
pub const METERED_LEVELS_MAX: usize = 1_024;

/// Most caches that are judged together.
pub const JUDGED_MAX: usize = 64;

/// What was counted of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Critical lengths and transactional hits of all that committed.
    pub thr: Thr,
    /// Transactions that committed, plain commands too.
    pub transactions: u64,
    /// Those of them that were counted by the graph of their type.
    pub by_graph: u64,
    /// Those of them that wrote: each has a round trip that no cache saves.
    pub writers: u64,
    /// Their levels.
    pub levels: u64,
    /// Levels of which all was cached.
    pub levels_hit: u64,
    /// Reads, of transactions that were aborted too.
    pub reads: u64,
    /// Reads that were answered from the cache.
    pub reads_hit: u64,
}

/// A transaction under way. Of the caches that are judged a bit each says whether all was there.
#[derive(Default)]
struct Open {
    txn_type: u16,
    /// Numbers of levels, and in which caches all of each was so far.
    levels: SmallVec<[(u16, u64); 4]>,
    /// Vertices that were asked for.
    present: VertexSet,
    /// By cache: those of which something was missing; empty as long as no vertex was named.
    missed: SmallVec<[VertexSet; 1]>,
    /// Vertices under which something was written.
    written: VertexSet,
    /// Something was written, and under no vertex.
    writes: bool,
    wrote: bool,
    /// Some read names no vertex.
    outside: bool,
}

/// Counts for several caches what it is told: what a policy may know of each access, in which caches it was a hit, and
/// how transactions end.
pub struct Judge {
    counted: Vec<Metered>,
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    graphs: HashMap<u16, Arc<Graph>, foldhash::fast::FixedState>,
}

impl Judge {
    /// Of so many caches, at most [`JUDGED_MAX`].
    pub fn new(caches: usize) -> Judge {
        let counted = vec![Metered::default(); caches.min(JUDGED_MAX)];
        Judge { counted, open: HashMap::default(), began: VecDeque::new(), graphs: HashMap::default() }
    }

    /// What was counted so far of one cache.
    pub fn metered(&self, cache: usize) -> Metered {
        self.counted.get(cache).copied().unwrap_or_default()
    }

    /// Counts from zero again; transactions that are open go on.
    pub fn reset(&mut self) {
        self.counted.fill(Metered::default());
    }

    /// Forgets the transactions that are open: something of them was not told.
    pub fn forget_open(&mut self) {
        self.open.clear();
        self.began.clear();
    }

    /// Has transactions of this type counted by `graph` from their next end on.
    pub fn register_graph(&mut self, txn_type: u16, graph: &Arc<Graph>) {
        self.graphs.insert(txn_type, graph.clone());
    }

    /// A key was asked for or written; bit n of `hits`: a read was answered from cache n.
    pub fn access(&mut self, access: &Access, hits: u64) {
        let reads = match access.kind {
            AccessKind::Read => true,
            AccessKind::Write => false,
            AccessKind::Prefetch | AccessKind::Demote => return,
        };
        if reads {
            for (cache, metered) in self.counted.iter_mut().enumerate() {
                metered.reads += 1;
                metered.reads_hit += hits >> cache & 1;
            }
        }
        if access.txn != 0 {
            self.add(access, if reads { hits } else { 0 }, reads);
        }
    }

    /// A transaction ended.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        if let Some(open) = self.open.remove(&txn)
            && committed
        {
            self.count(&open);
        }
        if self.began.len() > 2 * self.open.len() + METERED_OPEN_MAX {
            let Judge { began, open, .. } = self;
            began.retain(|txn| open.contains_key(txn));
        }
    }

    /// Transactions that are followed now.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    fn add(&mut self, context: &Access, hits: u64, reads: bool) {
        if !self.open.contains_key(&context.txn) {
            while self.open.len() >= METERED_OPEN_MAX {
                let Some(first) = self.began.pop_front() else { break };
                self.open.remove(&first);
            }
            self.began.push_back(context.txn);
        }
        let caches = self.counted.len();
        let open = self.open.entry(context.txn).or_default();
        open.txn_type = context.txn_type;
        let known = open.levels.iter().rposition(|(level, _)| *level == context.level);
        let full = open.levels.len() >= METERED_LEVELS_MAX;
        match known.or(full.then_some(METERED_LEVELS_MAX - 1)) {
            Some(at) => open.levels[at].1 &= hits,
            None => open.levels.push((context.level, hits)),
        }
        open.writes |= !reads;
        match usize::from(context.vertex).checked_sub(1).filter(|&v| v < VERTICES_MAX) {
            Some(v) if !reads => open.written.insert(v),
            None if !reads => open.wrote = true,
            Some(v) => {
                open.present.insert(v);
                open.missed.resize(caches, VertexSet::EMPTY);
                let missing = (0..caches).filter(|cache| hits >> cache & 1 == 0);
                missing.for_each(|cache| open.missed[cache].insert(v));
            }
            None => open.outside = true,
        }
    }

    fn count(&mut self, open: &Open) {
        let known = |graph: &&Arc<Graph>| !open.outside && open.present.iter().all(|v| v < graph.len());
        let graph = self.graphs.get(&open.txn_type).filter(known);
        for (cache, metered) in self.counted.iter_mut().enumerate() {
            metered.transactions += 1;
            metered.writers += u64::from(open.writes);
            metered.levels += open.levels.len() as u64;
            let hit = open.levels.iter().filter(|(_, hits)| hits >> cache & 1 == 1).count();
            metered.levels_hit += hit as u64;
            match graph {
                Some(graph) => {
                    metered.by_graph += 1;
                    let missed = open.missed.get(cache).unwrap_or(&VertexSet::EMPTY);
                    let (empty, cached) = lengths(graph, open, missed);
                    metered.thr.add(empty, cached);
                }
                None => metered.thr.add(open.levels.len() as u32, (open.levels.len() - hit) as u32),
            }
        }
    }
}

/// The critical length of a transaction with nothing cached, and with all but `missed`.
fn lengths(graph: &Graph, open: &Open, missed: &VertexSet) -> (u32, u32) {
    // A client that names the vertices of its reads only writes under the last of them, or none: that is a round trip
    // behind all others.
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
    let cached = absent.union(&open.present.without(missed));
    let length = |cached: &VertexSet| graph.critical_length(cached) + behind;
    (length(&absent), length(&cached))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(txn: u64, level: u16) -> Access {
        Access { txn, level, ..Access::read(1, 1) }
    }

    /// Each cache counts as if it were judged alone.
    #[test]
    fn several_caches_are_judged_as_each_alone() {
        let graph = Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph"));
        let mut together = Judge::new(3);
        let mut alone: Vec<Judge> = (0..3).map(|_| Judge::new(1)).collect();
        together.register_graph(3, &graph);
        alone.iter_mut().for_each(|judge| judge.register_graph(3, &graph));
        let mut chance = 1u64;
        for txn in 1..500 {
            for vertex in 1..5 {
                chance = chance.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(12345);
                let (hits, writes) = (chance >> 40 & 7, chance >> 50 & 7 == 0);
                let kind = if writes { AccessKind::Write } else { AccessKind::Read };
                let txn_type = if txn % 3 == 0 { 3 } else { 4 };
                let access = Access { kind, txn_type, vertex, ..at(txn, vertex / 2) };
                together.access(&access, hits);
                alone.iter_mut().enumerate().for_each(|(cache, judge)| judge.access(&access, hits >> cache & 1));
            }
            let committed = chance >> 60 != 0;
            together.ended(txn, committed);
            alone.iter_mut().for_each(|judge| judge.ended(txn, committed));
        }
        for (cache, judge) in alone.iter().enumerate() {
            assert_eq!(together.metered(cache), judge.metered(0));
        }
        assert!(together.metered(0).by_graph > 100 && together.metered(0).writers > 100);
    }

    #[test]
    fn open_transactions_are_bounded_and_forgotten() {
        let mut judge = Judge::new(1);
        for txn in 1..=METERED_OPEN_MAX as u64 + 5 {
            judge.access(&at(txn, 0), 1);
        }
        assert_eq!(judge.open(), METERED_OPEN_MAX);
        judge.forget_open();
        judge.ended(METERED_OPEN_MAX as u64, true);
        assert_eq!((judge.open(), judge.metered(0).transactions), (0, 0));
    }
}
