//! Prefetch in a replay (DeToX, section 6): what a transaction will ask for next is fetched along with what it asks
//! for now. A prefetch is in time if the level that it goes along with costs a round trip. Where that was all cached,
//! the next level comes before the prefetch is done. It finds the prefetch *late*, which saves nothing.

use std::sync::Arc;

use forebay::graph::Graph;
use forebay::policy::{AccessKind, Unit};
use forebay::txn::prefetch::Predictor;
use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use crate::catalog::Request;

/// Keys that are followed, for each entry of the cache.
const FOLLOWED_PER_ENTRY: u64 = 4;

/// Most keys that are followed.
const FOLLOWED_MAX: u64 = 4_000_000;

/// The part of a memory in bytes that is for keys that are followed; the cache has the rest.
const FOLLOWED_PART: u64 = 16;

/// Which prefetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// Nothing is fetched ahead.
    #[default]
    None,
    /// By the transactions' graphs, where they are known.
    Detox,
    /// By what was asked for next, as ChronoCache and the DeToX artifact do.
    Chrono,
}

/// What became of prefetched keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefetchTally {
    /// Keys that were fetched ahead.
    pub issued: u64,
    /// Asked for while still cached.
    pub used: u64,
    /// Asked for before the fetch was done.
    pub late: u64,
    /// Evicted before anyone asked, or never asked for.
    pub unused: u64,
    /// Bytes of what was learned at the end, a part of the metadata.
    pub bytes: u64,
}

/// How large a memory is, and in what.
pub type Room = (Unit, u64);

/// What is left of a memory for the cache, beside a prefetcher of its own: in bytes it is charged, as the store's
/// objects are; where objects are counted nothing of metadata is.
pub fn left(prefetch: Prefetch, (unit, capacity): Room) -> Room {
    let charged = if prefetch == Prefetch::None || unit == Unit::Entries { 0 } else { capacity / FOLLOWED_PART };
    (unit, capacity - charged)
}

/// A key as it has to be put into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ahead {
    /// Hash of the key.
    pub hash: u64,
    /// Its size.
    pub size: u32,
}

/// Predicts, and follows what becomes of predictions.
pub struct Prefetcher {
    predictor: Predictor<Ahead>,
    /// Fetched ahead, and not asked for since.
    waiting: HashSet<u64, foldhash::fast::FixedState>,
    /// By transaction: fetched ahead along with a level that was all cached.
    late: HashMap<u64, Vec<u64>, foldhash::fast::FixedState>,
    tally: PrefetchTally,
}

impl Prefetcher {
    /// For a memory of this size, of which [`left`] is the cache's.
    pub fn new(prefetch: Prefetch, (unit, capacity): Room, graphs: &[(u16, Arc<Graph>)]) -> Option<Prefetcher> {
        let mut predictor = match unit {
            Unit::Entries => {
                Predictor::new(capacity.saturating_mul(FOLLOWED_PER_ENTRY).clamp(1000, FOLLOWED_MAX) as usize)
            }
            Unit::Bytes => Predictor::in_bytes((capacity / FOLLOWED_PART) as usize),
        };
        match prefetch {
            Prefetch::None => return None,
            Prefetch::Detox => graphs.iter().for_each(|(of_type, graph)| predictor.register_graph(*of_type, graph)),
            Prefetch::Chrono => {}
        }
        let (waiting, late) = (HashSet::default(), HashMap::default());
        Some(Prefetcher { predictor, waiting, late, tally: PrefetchTally::default() })
    }

    /// Whether a cached key is only on its way to this transaction.
    pub fn is_late(&self, txn: u64, hash: u64) -> bool {
        self.late.get(&txn).is_some_and(|late| late.contains(&hash))
    }

    /// A key was asked for that was cached.
    pub fn hit(&mut self, txn: u64, hash: u64) {
        if self.waiting.remove(&hash) {
            match self.is_late(txn, hash) {
                true => self.tally.late += 1,
                false => self.tally.used += 1,
            }
        }
    }

    /// A key was evicted.
    pub fn evicted(&mut self, hash: u64) {
        self.tally.unused += u64::from(self.waiting.remove(&hash));
    }

    /// A level was asked for; what to fetch along with it. `waits`: it costs a round trip.
    pub fn asked(&mut self, level: &[Request], waits: bool, cached: impl Fn(u64) -> bool) -> Vec<Ahead> {
        let Some(first) = level.first().map(|request| request.access).filter(|access| access.txn != 0) else {
            return Vec::new();
        };
        self.late.remove(&first.txn);
        let mut ahead = Vec::new();
        for access in level.iter().map(|request| request.access).filter(|access| access.kind == AccessKind::Read) {
            let key = Ahead { hash: access.hash, size: access.size };
            self.predictor.asked(access.txn, access.txn_type, access.level, access.vertex, &key);
            for next in self.predictor.follow(access.txn_type, access.vertex, &key) {
                if !cached(next.hash) && !ahead.contains(next) {
                    ahead.push(*next);
                }
            }
        }
        self.tally.issued += ahead.len() as u64;
        for next in &ahead {
            self.waiting.insert(next.hash);
        }
        if !waits && !ahead.is_empty() {
            self.late.insert(first.txn, ahead.iter().map(|next| next.hash).collect());
        }
        ahead
    }

    /// A transaction ended.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        self.late.remove(&txn);
        self.predictor.ended(txn, committed);
    }

    /// What became of all; what is still waiting was of no use.
    pub fn tally(&self) -> PrefetchTally {
        let unused = self.tally.unused + self.waiting.len() as u64;
        PrefetchTally { unused, bytes: self.predictor.bytes() as u64, ..self.tally }
    }

    /// Bytes of what was learned.
    pub fn bytes(&self) -> usize {
        self.predictor.bytes()
    }
}
