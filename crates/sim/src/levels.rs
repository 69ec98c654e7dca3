//! Transactions as policies for them are judged: how many round trips caching saved (DeToX, definitions 5 to 7).
//!
//! A *level* is what a transaction asks for at the same time. It costs a round trip unless all that it reads is cached;
//! one that writes costs one always. Where the transaction's graph is known its critical length counts instead, which
//! is the same for a chain of levels, and less where one level need not have waited for all of the one before.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay::graph::{Graph, Thr, VertexSet};
use forebay::policy::AccessKind;
use hashbrown::HashMap;
use serde::Serialize;

use crate::catalog::Request;
use crate::latency::RoundTrips;

/// Most transactions open at the same time; the one that began first then counts as ended.
pub const OPEN_MAX: usize = 100_000;

/// Keys of a level that can be said to have helped.
pub const LEVEL_KEYS_MAX: usize = 10_000;

/// Levels that are counted apart; deeper ones count with the last of them.
pub const LEVELS_SHOWN_MAX: usize = 32;

/// Levels at one depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelTally {
    /// How many there were.
    pub levels: u64,
    /// How many cost no round trip.
    pub hits: u64,
}

#[derive(Default)]
struct Open {
    txn_type: u16,
    level: u16,
    /// All of the present level was cached so far.
    all_hit: bool,
    /// Keys of the present level.
    keys: Vec<u32>,
    /// The levels that are over: their number, and whether they were hit.
    levels: Vec<(u16, bool)>,
    /// Keys of levels that were hit.
    helped: Vec<u32>,
    /// Vertices that were asked for, and those of which something was missing.
    present: VertexSet,
    missed: VertexSet,
    /// Some access names no vertex.
    outside: bool,
}

impl Open {
    fn close_level(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        self.levels.push((self.level, self.all_hit));
        if self.all_hit {
            self.helped.append(&mut self.keys);
        }
        self.keys.clear();
    }
}

/// Follows transactions through a replay.
pub struct Levels {
    /// Levels and vertices that write do not count.
    reads_only: bool,
    graphs: HashMap<u16, Arc<Graph>, foldhash::fast::FixedState>,
    open: HashMap<u64, Open, foldhash::fast::FixedState>,
    /// Transactions in the order in which they began, some of them ended.
    began: VecDeque<u64>,
    thr: Thr,
    /// Transactions that `thr` sums up.
    transactions: u64,
    by_level: Vec<LevelTally>,
    /// By key: it was in a level that was hit since it came in.
    helped: Vec<u64>,
}

impl Levels {
    /// Nothing yet. `graphs` are by transaction type; vertex v of an access is v - 1 there.
    pub fn new(reads_only: bool, graphs: &[(u16, Arc<Graph>)]) -> Levels {
        Levels {
            reads_only,
            graphs: graphs.iter().cloned().collect(),
            open: HashMap::default(),
            began: VecDeque::new(),
            thr: Thr::default(),
            transactions: 0,
            by_level: Vec::new(),
            helped: Vec::new(),
        }
    }

    /// One access. A request outside of transactions is a transaction of its own.
    pub fn access(&mut self, request: &Request, hit: bool) {
        let access = &request.access;
        if access.kind == AccessKind::Prefetch {
            return;
        }
        let hit = hit && access.kind == AccessKind::Read;
        if !hit {
            self.set_helped(request.key, false);
        }
        if self.reads_only && access.kind != AccessKind::Read {
            return;
        }
        if access.txn == 0 {
            self.transactions += 1;
            self.thr.add(1, u32::from(!hit));
            self.count_level(0, hit);
            self.set_helped(request.key, hit);
            return;
        }
        if !self.open.contains_key(&access.txn) {
            self.began.push_back(access.txn);
            while self.open.len() >= OPEN_MAX {
                let Some(first) = self.began.pop_front() else { break };
                self.end(first, true);
            }
        }
        let open = self.open.entry(access.txn).or_default();
        open.txn_type = access.txn_type;
        if open.keys.is_empty() || open.level != access.level {
            open.close_level();
            (open.level, open.all_hit) = (access.level, true);
        }
        open.all_hit &= hit;
        if open.keys.len() < LEVEL_KEYS_MAX {
            open.keys.push(request.key);
        }
        match usize::from(access.vertex).checked_sub(1).filter(|&v| v < forebay::graph::VERTICES_MAX) {
            Some(v) => {
                open.present.insert(v);
                if !hit {
                    open.missed.insert(v);
                }
            }
            None => open.outside = true,
        }
    }

    /// A transaction ended. One that was aborted does not count: its rerun will.
    pub fn end(&mut self, txn: u64, committed: bool) {
        let Some(mut open) = self.open.remove(&txn) else { return };
        open.close_level();
        if committed {
            self.transactions += 1;
            open.levels.iter().for_each(|&(level, hit)| self.count_level(level, hit));
            let graph = self
                .graphs
                .get(&open.txn_type)
                .filter(|graph| !open.outside && open.present.iter().all(|v| v < graph.len()));
            match graph {
                Some(graph) => {
                    // What is not there weighs as much as what is cached: nothing.
                    let absent = (0..graph.len()).filter(|&v| !open.present.contains(v)).collect::<VertexSet>();
                    let cached = absent.union(&open.present.without(&open.missed));
                    self.thr.add(graph.critical_length(&absent), graph.critical_length(&cached));
                }
                None => {
                    let missed = open.levels.iter().filter(|(_, hit)| !hit).count();
                    self.thr.add(open.levels.len() as u32, missed as u32);
                }
            }
            open.helped.iter().for_each(|&key| self.set_helped(key, true));
        }
        // Numbers of ended transactions go once they are the most.
        if self.began.len() > 2 * self.open.len() + OPEN_MAX {
            self.began.retain(|txn| self.open.contains_key(txn));
        }
    }

    /// What is still open at the end of the trace counts as committed.
    pub fn finish(&mut self) {
        let mut open: Vec<u64> = self.open.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|txn| self.end(txn, true));
    }

    fn count_level(&mut self, level: u16, hit: bool) {
        let place = usize::from(level).min(LEVELS_SHOWN_MAX - 1);
        if place >= self.by_level.len() {
            self.by_level.resize(place + 1, LevelTally::default());
        }
        self.by_level[place].levels += 1;
        self.by_level[place].hits += u64::from(hit);
    }

    /// Transactional hits per critical length (definition 7); none without transactions.
    pub fn ratio(&self) -> Option<f64> {
        self.thr.rate()
    }

    /// Sum of critical lengths and transactional hits.
    pub fn thr(&self) -> Thr {
        self.thr
    }

    /// The same as round trips of so many transactions; none without transactions.
    pub fn round_trips(&self) -> Option<RoundTrips> {
        let Thr { length, hits } = self.thr;
        (length > 0).then_some(RoundTrips { transactions: Some(self.transactions), asked: length, saved: hits })
    }

    /// Levels by their depth.
    pub fn by_level(&self) -> &[LevelTally] {
        &self.by_level
    }

    /// Whether a key was in a level that was hit, since it came in.
    pub fn has_helped(&self, key: u32) -> bool {
        self.helped.get(key as usize / 64).is_some_and(|bits| bits >> (key % 64) & 1 == 1)
    }

    fn set_helped(&mut self, key: u32, helped: bool) {
        let word = key as usize / 64;
        if word >= self.helped.len() {
            self.helped.resize(word + 1, 0);
        }
        self.helped[word] = self.helped[word] & !(1 << (key % 64)) | u64::from(helped) << (key % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::NEVER;
    use forebay::policy::Access;

    fn request(txn: u64, level: u16, key: u32, kind: AccessKind) -> Request {
        let access = Access { txn, level, kind, ..Access::read(u64::from(key), 1) };
        Request { access, key, next: NEVER, next_reads: false, next_whole: NEVER }
    }

    #[test]
    fn a_level_is_hit_when_all_of_it_is() {
        let replay = |reads_only| {
            let mut levels = Levels::new(reads_only, &[]);
            for (level, key, kind, hit) in [
                (0, 1, AccessKind::Read, true),
                (0, 2, AccessKind::Read, true),
                (1, 3, AccessKind::Read, true),
                (1, 4, AccessKind::Read, false),
                (2, 1, AccessKind::Write, true),
            ] {
                levels.access(&request(7, level, key, kind), hit);
            }
            // Another one is aborted, a third never ends.
            levels.access(&request(8, 0, 5, AccessKind::Read), true);
            levels.end(8, false);
            levels.access(&request(9, 0, 6, AccessKind::Read), true);
            levels.end(7, true);
            levels.finish();
            levels
        };
        let levels = replay(false);
        assert_eq!(levels.ratio(), Some(2.0 / 4.0));
        // The one that was aborted does not count, the one that never ended does.
        assert_eq!(levels.round_trips(), Some(RoundTrips { transactions: Some(2), asked: 4, saved: 2 }));
        let tally = |levels, hits| LevelTally { levels, hits };
        assert_eq!(levels.by_level(), [tally(2, 2), tally(1, 0), tally(1, 0)]);
        // The key that was written since helped nobody since.
        let helped = [1, 2, 3, 4, 5, 6].map(|key| levels.has_helped(key));
        assert_eq!(helped, [true, true, false, false, false, true]);
        assert_eq!(replay(true).ratio(), Some(2.0 / 3.0));
    }

    #[test]
    fn a_graph_knows_what_did_not_have_to_wait() {
        // Figure 6a: a -> b, a -> c -> d; levels {a} {b, c} {d}.
        let graph = Arc::new(Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph"));
        let replay = |graphs: &[(u16, Arc<Graph>)], cached: [bool; 4]| {
            let mut levels = Levels::new(false, graphs);
            for (vertex, (level, hit)) in (1..).zip([0, 1, 1, 2].into_iter().zip(cached)) {
                let mut request = request(1, level, u32::from(vertex), AccessKind::Read);
                (request.access.txn_type, request.access.vertex) = (3, vertex);
                levels.access(&request, hit);
            }
            levels.end(1, true);
            levels.ratio()
        };
        let graphs = [(3, graph)];
        assert_eq!(replay(&graphs, [false, false, true, false]), Some(1.0 / 3.0));
        assert_eq!(replay(&[], [false, false, true, false]), Some(0.0));
        assert_eq!(replay(&graphs, [true, true, false, false]), Some(1.0 / 3.0));
    }

    #[test]
    fn plain_requests_are_transactions_of_one_level_and_open_ones_are_bounded() {
        let mut levels = Levels::new(false, &[]);
        levels.access(&request(0, 0, 1, AccessKind::Read), true);
        levels.access(&request(0, 0, 2, AccessKind::Read), false);
        assert_eq!(levels.ratio(), Some(0.5));
        for txn in 1..=OPEN_MAX as u64 + 5 {
            levels.access(&request(txn, 0, 3, AccessKind::Read), true);
        }
        assert!(levels.open.len() <= OPEN_MAX);
    }
}
