//! Transactions as policies for them are judged: how many round trips caching saved (DeToX, definitions 5 to 7).
//!
//! A *level* is what a transaction asks for at the same time. It costs a round trip unless all that it reads is
//! cached; one that writes costs one always. Where the transaction's graph is known its critical length counts
//! instead. For a chain of levels that is equal. It is less where one level need not have waited for all of the one
//! before.

use std::collections::{BTreeMap, VecDeque};
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

/// What is summed up, for all clients or for one.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    thr: Thr,
    /// Transactions that `thr` sums up.
    transactions: u64,
    by_level: Vec<LevelTally>,
}

impl Sums {
    /// A transaction by its levels, with its critical length with nothing cached and with what was.
    fn add(&mut self, levels: &[(u16, bool)], (empty, cached): (u32, u32)) {
        self.transactions += 1;
        self.thr.add(empty, cached);
        for &(level, hit) in levels {
            let place = usize::from(level).min(LEVELS_SHOWN_MAX - 1);
            if place >= self.by_level.len() {
                self.by_level.resize(place + 1, LevelTally::default());
            }
            self.by_level[place].levels += 1;
            self.by_level[place].hits += u64::from(hit);
        }
    }

    /// Sum of critical lengths and transactional hits (definition 7).
    pub fn thr(&self) -> Thr {
        self.thr
    }

    /// Likewise as round trips of so many transactions; none without transactions.
    pub fn round_trips(&self) -> Option<RoundTrips> {
        let Thr { length, hits } = self.thr;
        (length > 0).then_some(RoundTrips { transactions: Some(self.transactions), asked: length, saved: hits })
    }

    /// Levels by their depth.
    pub fn by_level(&self) -> &[LevelTally] {
        &self.by_level
    }

    /// Levels hit per level; none without any.
    pub fn level_hit_ratio(&self) -> Option<f64> {
        let (levels, hits) = self.by_level.iter().fold((0, 0), |sum, one| (sum.0 + one.levels, sum.1 + one.hits));
        (levels > 0).then(|| hits as f64 / levels as f64)
    }
}

#[derive(Default)]
struct Open {
    txn_type: u16,
    /// Whose it is, if clients are counted apart.
    client: Option<u32>,
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
    all: Sums,
    clients: BTreeMap<u32, Sums>,
    /// By key: it was in a level that was hit since it came in.
    helped: Vec<u64>,
    /// By key: the client that asked for it last, if clients are counted apart.
    asked_by: Vec<Option<u32>>,
}

impl Levels {
    /// Nothing yet. `graphs` are by transaction type; vertex v of an access is v - 1 there.
    pub fn new(reads_only: bool, graphs: &[(u16, Arc<Graph>)]) -> Levels {
        Levels {
            reads_only,
            graphs: graphs.iter().cloned().collect(),
            open: HashMap::default(),
            began: VecDeque::new(),
            all: Sums::default(),
            clients: BTreeMap::new(),
            helped: Vec::new(),
            asked_by: Vec::new(),
        }
    }

    /// One access. A request outside of transactions is a transaction of its own. `client`: under which number it is
    /// counted apart; a transaction is that of the client that began it.
    pub fn access(&mut self, request: &Request, hit: bool, client: Option<u32>) {
        let access = &request.access;
        if access.kind == AccessKind::Prefetch {
            return;
        }
        // What is written stays cached, if it was: only what was missing comes in again, and has helped nobody yet.
        if !hit {
            self.set_helped(request.key, false);
        }
        let hit = hit && access.kind == AccessKind::Read;
        if self.reads_only && access.kind != AccessKind::Read {
            return;
        }
        if client.is_some() {
            self.set_asked_by(request.key, client);
        }
        if access.txn == 0 {
            self.add(client, &[(0, hit)], (1, u32::from(!hit)));
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
        let open = self.open.entry(access.txn).or_insert_with(|| Open { client, ..Open::default() });
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
            let graph = self
                .graphs
                .get(&open.txn_type)
                .filter(|graph| !open.outside && open.present.iter().all(|v| v < graph.len()));
            let lengths = match graph {
                Some(graph) => {
                    // What is not there weighs as much as what is cached: nothing.
                    let absent = (0..graph.len()).filter(|&v| !open.present.contains(v)).collect::<VertexSet>();
                    let cached = absent.union(&open.present.without(&open.missed));
                    (graph.critical_length(&absent), graph.critical_length(&cached))
                }
                None => {
                    let missed = open.levels.iter().filter(|(_, hit)| !hit).count();
                    (open.levels.len() as u32, missed as u32)
                }
            };
            self.add(open.client, &open.levels, lengths);
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

    fn add(&mut self, client: Option<u32>, levels: &[(u16, bool)], lengths: (u32, u32)) {
        self.all.add(levels, lengths);
        if let Some(client) = client {
            self.clients.entry(client).or_default().add(levels, lengths);
        }
    }

    /// Of all clients.
    pub fn all(&self) -> &Sums {
        &self.all
    }

    /// Of one client; none for whom no transaction counted.
    pub fn of_client(&self, client: u32) -> Option<&Sums> {
        self.clients.get(&client)
    }

    /// The client that asked for a key last, if clients are counted apart.
    pub fn asked_by(&self, key: u32) -> Option<u32> {
        self.asked_by.get(key as usize).copied().flatten()
    }

    /// Whether a key was in a level that was hit, since it came in.
    pub fn has_helped(&self, key: u32) -> bool {
        self.helped.get(key as usize / 64).is_some_and(|bits| bits >> (key % 64) & 1 == 1)
    }

    fn set_asked_by(&mut self, key: u32, client: Option<u32>) {
        let place = key as usize;
        if place >= self.asked_by.len() {
            self.asked_by.resize(place + 1, None);
        }
        self.asked_by[place] = client;
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
                levels.access(&request(7, level, key, kind), hit, None);
            }
            // Another one is aborted, a third never ends.
            levels.access(&request(8, 0, 5, AccessKind::Read), true, None);
            levels.end(8, false);
            levels.access(&request(9, 0, 6, AccessKind::Read), true, None);
            levels.end(7, true);
            levels.finish();
            levels
        };
        let levels = replay(false);
        assert_eq!(levels.all().thr().rate(), Some(2.0 / 4.0));
        // The one that was aborted does not count, the one that never ended does.
        assert_eq!(levels.all().round_trips(), Some(RoundTrips { transactions: Some(2), asked: 4, saved: 2 }));
        let tally = |levels, hits| LevelTally { levels, hits };
        assert_eq!(levels.all().by_level(), [tally(2, 2), tally(1, 0), tally(1, 0)]);
        let helped = [1, 2, 3, 4, 5, 6].map(|key| levels.has_helped(key));
        assert_eq!(helped, [true, true, false, false, false, true]);
        assert_eq!(replay(true).all().thr().rate(), Some(2.0 / 3.0));
    }

    #[test]
    fn what_has_helped_has_until_it_comes_in_anew() {
        let mut levels = Levels::new(false, &[]);
        let mut helped_after = |txn, kind, hit| {
            levels.access(&request(txn, 0, 1, kind), hit, None);
            levels.end(txn, true);
            levels.has_helped(1)
        };
        assert!(!helped_after(1, AccessKind::Read, false));
        assert!(helped_after(2, AccessKind::Read, true));
        assert!(helped_after(3, AccessKind::Write, true), "it is still the same entry");
        assert!(!helped_after(4, AccessKind::Write, false), "it had left");
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
                levels.access(&request, hit, None);
            }
            levels.end(1, true);
            levels.all().thr().rate()
        };
        let graphs = [(3, graph)];
        assert_eq!(replay(&graphs, [false, false, true, false]), Some(1.0 / 3.0));
        assert_eq!(replay(&[], [false, false, true, false]), Some(0.0));
        assert_eq!(replay(&graphs, [true, true, false, false]), Some(1.0 / 3.0));
    }

    #[test]
    fn a_transaction_is_one_clients() {
        let mut levels = Levels::new(false, &[]);
        // Client 1: a level that hits, one that does not; client 2: one that hits, and a request by itself that misses.
        for (txn, level, key, hit, client) in
            [(7, 0, 1, true, 1), (8, 0, 2, true, 2), (7, 1, 3, false, 1), (0, 0, 1, false, 2)]
        {
            levels.access(&request(txn, level, key, AccessKind::Read), hit, Some(client));
        }
        levels.finish();
        let trips = |transactions, asked, saved| RoundTrips { transactions: Some(transactions), asked, saved };
        let of = |client| levels.of_client(client).and_then(Sums::round_trips);
        assert_eq!((of(1), of(2), of(3)), (Some(trips(1, 2, 1)), Some(trips(2, 2, 1)), None));
        assert_eq!(levels.all().round_trips(), Some(trips(3, 4, 2)));
        assert_eq!(levels.of_client(1).and_then(Sums::level_hit_ratio), Some(0.5));
        // Key 1 was asked for by client 2 last.
        assert_eq!([1, 2, 3, 4].map(|key| levels.asked_by(key)), [Some(2), Some(2), Some(1), None]);
    }

    #[test]
    fn plain_requests_are_transactions_of_one_level_and_open_ones_are_bounded() {
        let mut levels = Levels::new(false, &[]);
        levels.access(&request(0, 0, 1, AccessKind::Read), true, None);
        levels.access(&request(0, 0, 2, AccessKind::Read), false, None);
        assert_eq!(levels.all().thr().rate(), Some(0.5));
        for txn in 1..=OPEN_MAX as u64 + 5 {
            levels.access(&request(txn, 0, 3, AccessKind::Read), true, None);
        }
        assert!(levels.open.len() <= OPEN_MAX);
    }
}
