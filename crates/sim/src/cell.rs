//! One policy at one size: the cache, and what is counted over a replay.

mod tally;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use forebay::graph::{Graph, Thr};
use forebay::policy::bare::{NumberedRequests, Served};
use forebay::policy::{Access, AccessKind};

use crate::ahead::{Ahead, Prefetch, PrefetchTally, Prefetcher, Room};
use crate::catalog::{Adjustment, CLIENTS_MAX, Catalog, Event, OTHER_CLIENTS, PlainRequests, Request};
use crate::contender::Contender;
use crate::levels::{Levels, Sums};
use crate::machine::Machine;
pub use tally::{Kept, Tally};

/// Groups of keys over which the error of a sample is estimated.
const CLUSTERS: usize = 256;

/// Fewest keys of a sample whose error can be estimated: one for each group.
pub const SAMPLE_KEYS_MIN: usize = CLUSTERS;

/// Fewest keys in a sample's cache with which the error of an adjusted hit ratio is shown. How many of the keys that
/// the whole cache would keep are in the sample varies by the root of their number, and nothing adjusts for that: with
/// 35 keys it is as if the cache were a sixth larger or smaller than it is. The error of the misses does not know that.
pub const SAMPLE_CACHE_KEYS_MIN: usize = 256;

/// What to count.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Only reads; of transactions, too, only levels that read.
    pub reads_only: bool,
    /// A write of what is not cached lets it in; else it only updates what is.
    pub writes_allocate: bool,
    /// What is fetched ahead, in policies that do not know the future.
    pub prefetch: Prefetch,
    /// Requests before this one only warm the cache.
    pub from: u64,
    /// Count clients apart.
    pub per_client: bool,
    /// Follow transactions.
    pub transactions: bool,
    /// The share of the keys that takes part, for the error of a sample.
    pub sample_rate: f64,
    /// What the sample stands for, if its counts are to be corrected by that.
    pub adjustment: Option<Adjustment>,
}

/// One policy at one size.
pub struct Cell {
    machine: Machine,
    counting: Counting,
    /// Requests so far.
    seen: u64,
    tally: Tally,
    clients: BTreeMap<u32, Tally>,
    levels: Option<Levels>,
    prefetcher: Option<Prefetcher>,
    /// Requests of one transaction and level so far: they are asked for at the same time.
    pending: Vec<Request>,
    pending_hits: Vec<bool>,
    served: Vec<Served>,
    /// Requests and hits by group of keys, if there is an error to estimate.
    clusters: Vec<(u64, u64)>,
    cpu: Duration,
}

impl Cell {
    /// Over the empty cache of `contender`, which has what [`crate::ahead::left`] leaves of the memory. `graphs` are by
    /// transaction type.
    pub fn new(
        contender: &Contender,
        mut machine: Machine,
        memory: Room,
        counting: Counting,
        graphs: &[(u16, Arc<Graph>)],
    ) -> Cell {
        machine.prepare(counting.writes_allocate, graphs);
        let prefetcher = match contender {
            Contender::Online(_) => Prefetcher::new(counting.prefetch, memory, graphs),
            Contender::Offline(..) => None,
        };
        Cell {
            machine,
            counting,
            seen: 0,
            tally: Tally::default(),
            clients: BTreeMap::new(),
            levels: counting.transactions.then(|| Levels::new(counting.reads_only, graphs)),
            prefetcher,
            pending: Vec::new(),
            pending_hits: Vec::new(),
            served: Vec::new(),
            clusters: if counting.sample_rate < 1.0 { vec![(0, 0); CLUSTERS] } else { Vec::new() },
            cpu: Duration::ZERO,
        }
    }

    /// Replays a batch.
    pub fn replay(&mut self, batch: &[Event]) {
        let begun = std::time::Instant::now();
        for event in batch {
            match event {
                Event::Request(request) => {
                    let together = |first: &Request| {
                        let (first, access) = (&first.access, &request.access);
                        access.txn != 0 && (access.txn, access.level) == (first.txn, first.level)
                    };
                    if !self.pending.first().is_some_and(together) {
                        self.close_level();
                    }
                    self.pending.push(*request);
                }
                Event::Delete { hash } => {
                    self.close_level();
                    self.machine.delete(*hash);
                }
                Event::End { txn, committed } => {
                    self.close_level();
                    self.end(*txn, *committed);
                }
                Event::Hints(set, meaning) => {
                    self.close_level();
                    self.machine.define_hints(*set, meaning);
                }
            }
        }
        self.cpu += begun.elapsed();
    }

    /// Replays requests of a trace that is in memory.
    pub fn replay_plain(&mut self, plain: PlainRequests<'_>, range: Range<usize>) {
        let begun = std::time::Instant::now();
        let mut hits = std::mem::take(&mut self.pending_hits);
        hits.clear();
        match &mut self.machine {
            Machine::Numbered(cache, _) => {
                let mut served = std::mem::take(&mut self.served);
                cache.replay(plain.numbered(), range.clone(), &mut served);
                hits.extend(served.drain(..).map(|served| served == Served::Hit));
                self.served = served;
            }
            machine => {
                let allocate = self.counting.writes_allocate;
                hits.extend(plain.range(range.clone()).map(|request| machine.access(&request, allocate)));
            }
        }
        if self.levels.is_none() && self.clusters.is_empty() && !self.counting.per_client {
            self.count_plain(plain.numbered(), range, &hits);
        } else {
            plain.range(range).zip(&hits).for_each(|(request, &hit)| self.count(&request, hit));
        }
        self.pending_hits = hits;
        self.cpu += begun.elapsed();
    }

    /// As [`Cell::count`] counts each, where there is nothing but the sum of all to be counted.
    fn count_plain(&mut self, requests: NumberedRequests<'_>, range: Range<usize>, hits: &[bool]) {
        let warm = self.counting.from.saturating_sub(self.seen).min(hits.len() as u64) as usize;
        let (mut tally, reads_only) = (self.tally, self.counting.reads_only);
        for (place, &hit) in range.zip(hits).skip(warm) {
            if !(reads_only && requests.writes(place)) {
                tally.add(requests.size(place), hit);
            }
        }
        self.tally = tally;
        self.seen += hits.len() as u64;
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        self.close_level();
        if let Some(levels) = &mut self.levels {
            levels.finish();
        }
    }

    fn end(&mut self, txn: u64, committed: bool) {
        if let Some(levels) = &mut self.levels {
            levels.end(txn, committed);
        }
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.ended(txn, committed);
        }
        self.machine.ended(txn, committed);
    }

    /// All that is asked for at the same time is looked up, and then comes in, before anything is evicted for it as far
    /// as the policy tells levels apart.
    fn close_level(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if let ([request], None) = (&pending[..], &self.prefetcher) {
            let hit = self.access(request);
            self.count(request, hit);
        } else if !pending.is_empty() {
            self.access_level(&pending);
        }
        self.pending = pending;
        self.pending.clear();
    }

    fn access_level(&mut self, level: &[Request]) {
        let mut hits = std::mem::take(&mut self.pending_hits);
        hits.clear();
        for request in level {
            let (txn, hash) = (request.access.txn, request.access.hash);
            let late = self.prefetcher.as_ref().is_some_and(|prefetcher| prefetcher.is_late(txn, hash));
            let cached = self.machine.contains(hash, request.key);
            if cached && late {
                self.count_ahead(&request.access, -i64::from(request.access.size));
            }
            if let Some(prefetcher) = self.prefetcher.as_mut().filter(|_| cached) {
                prefetcher.hit(txn, hash);
            }
            hits.push(cached && !late);
        }
        if let Machine::Offline(cache) = &mut self.machine {
            let allocate = self.counting.writes_allocate;
            let comes = |request: &&Request| allocate || request.access.kind != AccessKind::Write;
            let level: Vec<Request> = level.iter().filter(comes).copied().collect();
            cache.access_level(&level);
        } else {
            // What is there first: it is then known to be in use when others need room.
            let (there, missing): (Vec<_>, Vec<_>) = level.iter().zip(&hits).partition(|(_, hit)| **hit);
            for (request, _) in there.into_iter().chain(missing) {
                self.access(request);
            }
            self.fetch_ahead(level, hits.contains(&false));
        }
        level.iter().zip(&hits).for_each(|(request, &hit)| self.count(request, hit));
        self.pending_hits = hits;
    }

    fn fetch_ahead(&mut self, level: &[Request], waits: bool) {
        let (Some(prefetcher), Machine::Online(cache, _)) = (&mut self.prefetcher, &mut self.machine) else { return };
        let ahead = prefetcher.asked(level, waits, |hash| cache.contains(hash));
        let Some(first) = level.first() else { return };
        let bytes = ahead.iter().map(|ahead| i64::from(ahead.size)).sum();
        for Ahead { hash, size } in ahead {
            cache.access(Access { hash, size, slot: None, kind: AccessKind::Prefetch, ..first.access });
            cache.evicted().iter().for_each(|&hash| prefetcher.evicted(hash));
        }
        self.count_ahead(&first.access, bytes);
    }

    /// So many bytes are fetched ahead along with an access, or were counted twice.
    fn count_ahead(&mut self, access: &Access, bytes: i64) {
        if bytes == 0 || self.seen < self.counting.from {
            return;
        }
        self.tally.add_ahead(bytes);
        if self.counting.per_client {
            let client = self.client_of(access.client);
            self.clients.entry(client).or_default().add_ahead(bytes);
        }
    }

    /// Under which number a client is counted.
    fn client_of(&self, client: u32) -> u32 {
        let known = self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&client);
        if known { client } else { OTHER_CLIENTS }
    }

    /// One request; whether it was cached.
    fn access(&mut self, request: &Request) -> bool {
        let hit = self.machine.access(request, self.counting.writes_allocate);
        if let (false, Some(prefetcher), Machine::Online(cache, _)) = (hit, &mut self.prefetcher, &self.machine) {
            cache.evicted().iter().for_each(|&hash| prefetcher.evicted(hash));
        }
        hit
    }

    #[inline]
    fn count(&mut self, request: &Request, hit: bool) {
        let access = &request.access;
        self.seen += 1;
        let counts = match access.kind {
            AccessKind::Read => true,
            AccessKind::Write | AccessKind::Demote => !self.counting.reads_only,
            AccessKind::Prefetch => false,
        };
        if self.seen <= self.counting.from {
            return;
        }
        let client = (self.counting.per_client && counts).then(|| self.client_of(access.client));
        if let Some(levels) = &mut self.levels {
            levels.access(request, hit, client);
        }
        if !counts {
            return;
        }
        self.tally.add(access.size, hit);
        if let Some(cluster) = self.clusters.get_mut((access.hash >> 8) as usize % CLUSTERS) {
            *cluster = (cluster.0 + 1, cluster.1 + u64::from(hit));
        }
        if let Some(client) = client {
            self.clients.entry(client).or_default().add(access.size, hit);
        }
    }

    /// All that counts. With an adjustment as many requests as the sample should have: what it has too few or too many
    /// are taken for hits, because they are those of the most popular keys (SHARDS-adj: Waldspurger et al., FAST 2015).
    pub fn tally(&self) -> Tally {
        let (tally, Some(adjustment)) = (self.tally, self.counting.adjustment) else { return self.tally };
        let stands_for = |count: u64, factor: f64| (count as f64 * factor).round() as u64;
        let (requests, bytes) =
            (stands_for(tally.requests, adjustment.requests), stands_for(tally.bytes, adjustment.bytes));
        Tally {
            requests,
            hits: requests.saturating_sub(tally.requests - tally.hits),
            bytes,
            bytes_hit: bytes.saturating_sub(tally.bytes - tally.bytes_hit),
            bytes_ahead: tally.bytes_ahead,
        }
    }

    /// Client by client.
    pub fn clients(&self) -> &BTreeMap<u32, Tally> {
        &self.clients
    }

    /// Transactions of all clients; none where the trace has none, or where not all keys take part.
    pub fn transactions(&self) -> Option<&Sums> {
        self.levels.as_ref().map(Levels::all).filter(|sums| sums.thr().length > 0)
    }

    /// Critical lengths and transactional hits (DeToX, definition 7); none where the trace has no transactions.
    pub fn transactional_hits(&self) -> Option<Thr> {
        self.transactions().map(Sums::thr)
    }

    /// Those of one client.
    pub fn transactions_of(&self, client: u32) -> Option<&Sums> {
        self.levels.as_ref()?.of_client(client).filter(|sums| sums.thr().length > 0)
    }

    /// What became of what was fetched ahead, if anything was to be.
    pub fn prefetched(&self) -> Option<PrefetchTally> {
        self.prefetcher.as_ref().map(Prefetcher::tally)
    }

    /// Cached keys that have helped no transaction since they came in.
    pub fn unhelpful_keys(&self, catalog: &Catalog) -> Option<u64> {
        self.unhelpful_keys_of(catalog).map(|(all, _)| all)
    }

    /// Those of all, and by the client that asked for them last if clients are counted apart.
    pub(crate) fn unhelpful_keys_of(&self, catalog: &Catalog) -> Option<(u64, BTreeMap<u32, u64>)> {
        let levels = self.levels.as_ref()?;
        let cached = catalog.keys().filter(|&(hash, key)| self.machine.contains(hash, key));
        let (mut all, mut by_client) = (0, BTreeMap::new());
        for (_, key) in cached.filter(|&(_, key)| !levels.has_helped(key)) {
            all += 1;
            if let Some(client) = levels.asked_by(key) {
                *by_client.entry(client).or_insert(0) += 1;
            }
        }
        Some((all, by_client))
    }

    /// What is cached at the end.
    pub(crate) fn kept(&self) -> Kept {
        let (cells, used) = self.machine.held();
        let whole = |part: u64| (part as f64 / self.counting.sample_rate) as u64;
        Kept { entries: whole(cells), used: whole(used), cells }
    }

    /// Bytes of the policy's metadata at the end; 0 for those that know the future, which nobody could build.
    pub fn metadata_bytes(&self) -> u64 {
        self.machine.metadata_bytes() + self.prefetcher.as_ref().map_or(0, Prefetcher::bytes) as u64
    }

    /// What the policy has learned at the end.
    pub fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        self.machine.report(lines_max)
    }

    /// Nanoseconds of one thread for each request.
    pub fn cpu_ns_per_request(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.seen.max(1) as f64
    }

    /// Standard error of the hit ratio by sampling. With an adjustment it is that of the number of misses, a sum over
    /// groups of keys. Else from what the ratio would be without each of the groups (a jackknife): a group that has
    /// much of the requests, as that of a very popular key has, counts for more than its distance from a ratio that it
    /// has drawn to itself. `cached` keys are those that the sample's cache holds ([`SAMPLE_CACHE_KEYS_MIN`]).
    pub fn hit_ratio_error(&self, cached: f64) -> Option<f64> {
        if self.clusters.is_empty() || self.tally.requests == 0 {
            return None;
        }
        if let Some(Adjustment { requests, .. }) = self.counting.adjustment {
            let error = self.misses_error() / (self.tally.requests as f64 * requests);
            return (cached >= SAMPLE_CACHE_KEYS_MIN as f64).then_some(error);
        }
        let (ratio, all) = (self.tally.hit_ratio(), self.tally.requests as f64);
        let drawn = |&(requests, hits): &(u64, u64)| {
            let (requests, hits) = (requests as f64, hits as f64);
            ((hits - ratio * requests) / (all - requests).max(1.0)).powi(2)
        };
        let squares: f64 = self.clusters.iter().map(drawn).sum();
        Some(self.error_of(squares))
    }

    /// Standard error of the number of misses.
    fn misses_error(&self) -> f64 {
        let misses = |&(requests, hits): &(u64, u64)| (requests - hits) as f64;
        let mean = self.clusters.iter().map(misses).sum::<f64>() / CLUSTERS as f64;
        self.error_of(self.clusters.iter().map(|cluster| (misses(cluster) - mean).powi(2)).sum())
    }

    /// Of the sum of the groups' squares, with as many keys drawn as the sample has.
    fn error_of(&self, squares: f64) -> f64 {
        let of_clusters = CLUSTERS as f64 / (CLUSTERS as f64 - 1.0);
        (squares * of_clusters * (1.0 - self.counting.sample_rate)).sqrt()
    }
}
