//! One policy at one size: the cache, and what is counted over a replay.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay::policy::{AccessKind, Choice, PolicyError, choose};

use crate::catalog::{Catalog, Event, Request};
use crate::levels::Levels;
use crate::machine::Machine;
use crate::offline::Rule;

/// Names of the policies that know the future.
pub const OFFLINE: &[(&str, Rule)] = &[("belady", Rule::Belady), ("opt", Rule::Opt)];

/// Most clients that are counted apart; those that come later are counted together under [`OTHER_CLIENTS`].
pub const CLIENTS_MAX: usize = 10_000;

/// The number under which clients beyond [`CLIENTS_MAX`] are counted.
pub const OTHER_CLIENTS: u32 = u32::MAX;

/// Groups of keys over which the error of a sample is estimated.
const CLUSTERS: usize = 256;

/// A policy as the simulator knows it.
#[derive(Clone, Debug)]
pub enum Contender {
    /// The server has it too.
    Online(Choice),
    /// It knows the future.
    Offline(&'static str, Rule),
}

impl Contender {
    /// Reads `name` or `name:parameter=value,..`.
    pub fn parse(text: &str) -> Result<Contender, PolicyError> {
        match OFFLINE.iter().find(|(name, _)| *name == text.trim()) {
            Some(&(name, rule)) => Ok(Contender::Offline(name, rule)),
            None => choose(text).map(Contender::Online),
        }
    }

    /// Whether it has to be told what comes next.
    pub fn is_offline(&self) -> bool {
        matches!(self, Contender::Offline(..))
    }
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Contender::Online(choice) => choice.fmt(f),
            Contender::Offline(name, _) => f.write_str(name),
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that count.
    pub requests: u64,
    /// Those that were cached.
    pub hits: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Bytes asked for that were cached.
    pub bytes_hit: u64,
}

impl Tally {
    /// Hits per request, 0 without requests.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Bytes hit per byte asked for, 0 without any.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.bytes_hit as f64 / self.bytes.max(1) as f64
    }

    fn add(&mut self, size: u32, hit: bool) {
        self.requests += 1;
        self.bytes += u64::from(size);
        if hit {
            self.hits += 1;
            self.bytes_hit += u64::from(size);
        }
    }
}

/// What to count.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Only reads.
    pub reads_only: bool,
    /// Requests before this one only warm the cache.
    pub from: u64,
    /// Count clients apart.
    pub per_client: bool,
    /// Follow transactions.
    pub transactions: bool,
    /// The share of the keys that takes part, for the error of a sample.
    pub sample_rate: f64,
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
    /// Requests and hits by group of keys, if there is an error to estimate.
    clusters: Vec<(u64, u64)>,
    cpu: Duration,
}

impl Cell {
    /// Over an empty cache.
    pub fn new(machine: Machine, counting: Counting) -> Cell {
        Cell {
            machine,
            counting,
            seen: 0,
            tally: Tally::default(),
            clients: BTreeMap::new(),
            levels: counting.transactions.then(Levels::new),
            clusters: if counting.sample_rate < 1.0 { vec![(0, 0); CLUSTERS] } else { Vec::new() },
            cpu: Duration::ZERO,
        }
    }

    /// Replays a batch.
    pub fn replay(&mut self, batch: &[Event]) {
        let begun = std::time::Instant::now();
        for event in batch {
            match event {
                Event::Request(request) => self.request(request),
                Event::Hints(set, meaning) => self.machine.define_hints(*set, meaning),
                Event::Delete { hash } => self.machine.delete(*hash),
                Event::End { txn, committed } => {
                    if let Some(levels) = &mut self.levels {
                        levels.end(*txn, *committed);
                    }
                    self.machine.ended(*txn, *committed);
                }
            }
        }
        self.cpu += begun.elapsed();
    }

    fn request(&mut self, request: &Request) {
        let access = &request.access;
        let hit = self.machine.access(request);
        self.seen += 1;
        let counts = match access.kind {
            AccessKind::Read => true,
            AccessKind::Write | AccessKind::Demote => !self.counting.reads_only,
            AccessKind::Prefetch => false,
        };
        if self.seen <= self.counting.from {
            return;
        }
        if let Some(levels) = &mut self.levels {
            levels.access(request, hit);
        }
        if !counts {
            return;
        }
        self.tally.add(access.size, hit);
        if let Some(cluster) = self.clusters.get_mut((access.hash >> 8) as usize % CLUSTERS) {
            *cluster = (cluster.0 + 1, cluster.1 + u64::from(hit));
        }
        if self.counting.per_client {
            let known = self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&access.client);
            let client = if known { access.client } else { OTHER_CLIENTS };
            self.clients.entry(client).or_default().add(access.size, hit);
        }
    }

    /// All that counts.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Client by client.
    pub fn clients(&self) -> &BTreeMap<u32, Tally> {
        &self.clients
    }

    /// Share of the transactions' levels that cost no round trip (DeToX, definition 7 by levels); none where the trace
    /// has no transactions.
    pub fn transactional_hit_ratio(&mut self) -> Option<f64> {
        let levels = self.levels.as_mut()?;
        levels.finish();
        levels.ratio()
    }

    /// Cached keys that have helped no transaction since they came in.
    pub fn unhelpful_keys(&self, catalog: &Catalog) -> Option<u64> {
        let levels = self.levels.as_ref()?;
        let cached = catalog.keys().filter(|&(hash, key)| self.machine.contains(hash, key));
        Some(cached.filter(|&(_, key)| !levels.has_helped(key)).count() as u64)
    }

    /// Bytes of the policy's metadata at the end; 0 for those that know the future, which nobody could build.
    pub fn metadata_bytes(&self) -> u64 {
        self.machine.metadata_bytes()
    }

    /// What the policy has learned at the end.
    pub fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        self.machine.report(lines_max)
    }

    /// Nanoseconds of one thread for each request.
    pub fn cpu_ns_per_request(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.seen.max(1) as f64
    }

    /// Standard error of the hit ratio by sampling, from how it differs between groups of keys.
    pub fn hit_ratio_error(&self) -> Option<f64> {
        if self.clusters.is_empty() || self.tally.requests == 0 {
            return None;
        }
        let (ratio, requests) = (self.tally.hit_ratio(), self.tally.requests as f64);
        let squares = self.clusters.iter().map(|&(requests, hits)| (hits as f64 - ratio * requests as f64).powi(2));
        let of_clusters = CLUSTERS as f64 / (CLUSTERS as f64 - 1.0);
        Some((squares.sum::<f64>() * of_clusters * (1.0 - self.counting.sample_rate)).sqrt() / requests)
    }
}
