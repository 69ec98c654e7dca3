//! Many policies at many sizes in one pass over a trace, on all cores.
//!
//! A first pass meets the keys ([`Catalog`]). In the second one thread reads and the others replay, each these events
//! over its own share of the cells. So the result does not depend on how threads run. A trace of requests and nothing
//! else is kept in memory by the first pass, as numbers of keys, and not read again.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use forebay::graph::Graph;
use forebay::policy::Unit;
use forebay_trace::{TraceError, TraceOptions};

use crate::ahead::{self, Prefetch};
use crate::catalog::{Catalog, Event, PlainRequests, Sample};
use crate::cell::{Cell, Counting};
use crate::contender::Contender;
use crate::graphs;
use crate::hints::{HintSets, HintTypes};
pub use crate::lab_error::LabError;
use crate::latency::RoundTrips;
use crate::machine::{Division, Machine};
use crate::optimum;
use crate::results::{Goal, Least};
use crate::row::Row;
pub use crate::size::Size;

/// Events handed to a thread at once.
const BATCH_EVENTS: usize = 4096;
/// Requests that a cell gets at once where all are in memory.
const PLAIN_BATCH_REQUESTS: usize = 16_384;
/// Most bytes of tables by key number, of all cells together; with more, keys are searched for by their hashes.
const NUMBERED_BYTES_MAX: usize = 1 << 30;
/// Batches that wait for a thread.
const BATCHES_MAX: usize = 8;
/// Records between two calls of the progress.
const PROGRESS_RECORDS: u64 = 65_536;
/// Bisections of the search for the least memory.
const ROUNDS_MAX: usize = 24;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Policies, in the order of the result.
    pub contenders: Vec<Contender>,
    /// Sizes, in the order of the result.
    pub sizes: Vec<Size>,
    /// What sizes count.
    pub unit: Unit,
    /// Count only reads; writes still come in.
    pub reads_only: bool,
    /// The share of the requests at the start that only warms the caches.
    pub warmup: f64,
    /// Which keys take part.
    pub sample: Sample,
    /// Correct what a sample counts by how many requests it should have (SHARDS-adj). Clients are counted as they are.
    pub adjust: bool,
    /// Count clients apart.
    pub per_client: bool,
    /// A write of what is not cached lets it in; else it only updates what is.
    pub writes_allocate: bool,
    /// What is fetched ahead.
    pub prefetch: Prefetch,
    /// Graphs of transaction types, by the name that the trace knows them by, or else by number.
    pub graphs: Vec<(String, Graph)>,
    /// How clients share the memory.
    pub division: Division,
    /// Which hint types policies get to see.
    pub hint_types: HintTypes,
    /// How traces are read.
    pub trace: TraceOptions,
    /// Threads beside the one that reads.
    pub threads: NonZeroUsize,
}

/// How far a simulation is.
pub trait Progress: Sync {
    /// A pass begins, over so many records if that is known.
    fn begin(&self, pass: &str, records: Option<u64>);
    /// So many more records were read.
    fn advance(&self, records: u64);
    /// The pass is over.
    fn end(&self);
}

/// No progress.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}

/// A trace whose keys are known.
pub struct Lab<'a> {
    path: &'a Path,
    options: &'a LabOptions,
    progress: &'a dyn Progress,
    catalog: Catalog,
    records: u64,
    skipped: u64,
    first_skipped: Option<String>,
    warnings: Vec<String>,
    /// By transaction type, with vertices as the trace numbers them.
    graphs: Vec<(u16, Arc<Graph>)>,
}

impl<'a> Lab<'a> {
    /// Meets the trace's keys.
    pub fn open(path: &'a Path, options: &'a LabOptions, progress: &'a dyn Progress) -> Result<Lab<'a>, LabError> {
        let failed = |error| LabError::Trace { path: path.to_owned(), error };
        progress.begin(&format!("{}: its keys", trace_name(path)), None);
        let mut records = 0;
        let offline = options.contenders.iter().any(Contender::is_offline);
        let mut trace = forebay_trace::open_with(path, &options.trace).map_err(failed)?;
        let met = |count: usize| {
            records += count as u64;
            progress.advance(count as u64);
        };
        let catalog = Catalog::read(&mut *trace, options.sample, offline, met).map_err(failed)?;
        progress.end();
        if catalog.requests == 0 {
            return Err(LabError::empty(path, &*trace));
        }
        if let Some(name) = options.hint_types.missing(trace.dictionary()) {
            let known = HintTypes::of(trace.dictionary());
            return Err(LabError::HintType { path: path.to_owned(), name, known });
        }
        let unsized_keys = catalog.keys_without_size;
        if options.unit == Unit::Bytes && unsized_keys == catalog.len() as u64 {
            return Err(LabError::NoSizes(path.to_owned()));
        }
        let (graphs, missing) = graphs::numbered(path, &options.graphs, trace.dictionary(), &catalog.txn_types)?;
        let (skipped, mut warnings) = (trace.skipped(), trace.warnings());
        let first_skipped = trace.first_skipped().map(str::to_owned);
        warnings.extend(missing);
        if options.unit == Unit::Bytes && unsized_keys > 0 {
            let keys = catalog.len();
            warnings.push(format!("{unsized_keys} of {keys} keys come without a size and count as 1 byte each"));
        }
        Ok(Lab { path, options, progress, catalog, records, skipped, first_skipped, warnings, graphs })
    }

    /// All keys, or the bytes of all, as the whole trace would have them.
    fn whole(&self) -> u64 {
        let sampled = match self.options.unit {
            Unit::Entries => self.catalog.len() as u64,
            Unit::Bytes => self.catalog.footprint_bytes,
        };
        (sampled as f64 / self.options.sample.rate) as u64
    }

    /// Every policy at every size.
    pub fn curves(&self) -> Result<Vec<Row>, LabError> {
        let sizes = &self.options.sizes;
        let pairs =
            self.options.contenders.iter().flat_map(|contender| sizes.iter().map(move |size| (contender, size)));
        let runs: Vec<_> = pairs.map(|(contender, size)| (contender, size.units(self.whole()), &*size.given)).collect();
        self.run(&runs)
    }

    /// The most transactional hits that any policy could have at every size, by levels and in objects: all choices are
    /// tried, so only for small traces. Its object hits are the most that go with those.
    pub fn optimum(&self) -> Result<Vec<Row>, LabError> {
        let too_large = || LabError::TooLarge { path: self.path.to_owned(), keys: self.catalog.len() };
        if self.catalog.len() > optimum::KEYS_MAX {
            return Err(too_large());
        }
        let failed = |error| LabError::Trace { path: self.path.to_owned(), error };
        let from = (self.catalog.requests as f64 * self.options.warmup) as u64;
        let mut levels = optimum::Levels::new(self.options.reads_only, from);
        let mut place = 0;
        for record in forebay_trace::open_again(self.path, &self.options.trace).map_err(failed)? {
            let record = match record {
                Err(error) if error.is_truncated() => break,
                other => other.map_err(failed)?,
            };
            if let Some(event) = self.catalog.event(&record, &mut place) {
                levels.take(&event, |deleted| self.catalog.keys().find(|key| key.0 == deleted).map(|key| key.1));
            }
        }
        let counting = || levels.levels.iter().filter(|level| level.counts);
        let counted = counting().count();
        // What is outside of transactions is one by itself.
        let alone = counting().filter(|level| level.txn == 0).count();
        let together = counting().map(|level| level.txn).filter(|&txn| txn != 0).collect::<BTreeSet<u64>>().len();
        let objects = || levels.levels.iter().flat_map(|level| &level.objects);
        let (requests, bytes) = (objects().count(), objects().map(|(_, size)| u64::from(*size)).sum::<u64>());
        let sized = self.catalog.keys_without_size < self.catalog.len() as u64;
        let row = |size: &Size| {
            let units = size.units(self.whole());
            let best = optimum::best(&levels.levels, units as usize, self.options.writes_allocate)?;
            let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
            let transactional =
                RoundTrips { transactions: Some((alone + together) as u64), asked: counted as u64, saved: best.levels };
            let of_requests = RoundTrips::of_requests(requests as u64, best.objects);
            let transactions = self.catalog.has_transactions;
            Some(Row {
                trace: trace_name(self.path),
                policy: "optimum".into(),
                unit: "objects",
                size_given: size.given.clone(),
                size: units,
                requests: requests as u64,
                hits: best.objects,
                hit_ratio: share(best.objects, requests as u64),
                byte_hit_ratio: share(best.bytes, bytes),
                bytes_requested: sized.then_some(bytes),
                bytes_fetched: sized.then(|| bytes - best.bytes),
                thr: transactions.then(|| share(best.levels, counted as u64)),
                round_trips: Some(if transactions { transactional } else { of_requests }),
                ..Row::default()
            })
        };
        self.options.sizes.iter().map(|size| row(size).ok_or_else(too_large)).collect()
    }

    /// For every policy the least memory, to about 1 %, at which it reaches the goal.
    pub fn least_memory(&self, goal: Goal) -> Result<Least, LabError> {
        let contenders = &self.options.contenders;
        let whole = self.whole().max(1);
        let mut best: Vec<Option<Row>> =
            self.run_at(goal, contenders.iter().map(|contender| (contender, whole)).collect())?;
        let mut ranges = vec![(0, whole); contenders.len()];
        let mut never = Vec::new();
        for row in &mut best {
            if let Some(short) = row.take_if(|row| !goal.reached(row)) {
                never.push((short.policy.clone(), goal.reaches(&short)));
            }
        }
        for _ in 0..ROUNDS_MAX {
            let open: Vec<usize> = (0..contenders.len())
                .filter(|&at| best[at].is_some() && ranges[at].1 - ranges[at].0 > (ranges[at].1 / 100).max(1))
                .collect();
            if open.is_empty() {
                break;
            }
            let middle = |at: usize| ranges[at].0.midpoint(ranges[at].1);
            let rows = self.run_at(goal, open.iter().map(|&at| (&contenders[at], middle(at))).collect())?;
            for (at, row) in open.into_iter().zip(rows) {
                let reaches = row.as_ref().is_some_and(|row| goal.reached(row));
                let size = ranges[at].0.midpoint(ranges[at].1);
                if reaches {
                    ranges[at].1 = size;
                    best[at] = row;
                } else {
                    ranges[at].0 = size;
                }
            }
        }
        Ok(Least { goal, rows: best.into_iter().flatten().collect(), never })
    }

    /// One run of one size each; the rows that stand for all clients.
    fn run_at(&self, goal: Goal, runs: Vec<(&Contender, u64)>) -> Result<Vec<Option<Row>>, LabError> {
        let given = goal.given();
        let runs: Vec<_> = runs.into_iter().map(|(contender, size)| (contender, size, &*given)).collect();
        let rows = self.run(&runs)?;
        Ok(rows.into_iter().filter(|row| row.client.is_none()).map(Some).collect())
    }

    fn run(&self, runs: &[(&Contender, u64, &str)]) -> Result<Vec<Row>, LabError> {
        let options = self.options;
        let counting = Counting {
            reads_only: options.reads_only,
            from: (self.catalog.requests as f64 * options.warmup) as u64,
            per_client: options.per_client,
            writes_allocate: options.writes_allocate,
            prefetch: options.prefetch,
            // Of a sample, levels have lost keys and are easier to hit: that would be no estimate.
            transactions: self.catalog.has_transactions && options.sample.rate >= 1.0,
            sample_rate: options.sample.rate,
            adjustment: self.catalog.adjustment(options.reads_only).filter(|_| options.adjust),
        };
        // A sample of the keys needs the same sample of the memory.
        let capacity = |size: u64| ((size as f64 * options.sample.rate).round() as u64).max(1);
        // Tables by key number are worth their memory while there are few of them.
        let tables = self.catalog.len().saturating_mul(runs.len() * size_of::<u32>());
        let numbered = (self.plain().is_some() && tables <= NUMBERED_BYTES_MAX).then(|| self.catalog.len());
        let new = |&(contender, size, _): &(&Contender, u64, &str)| {
            let clients = self.catalog.clients.iter().copied();
            let memory = (options.unit, capacity(size));
            // What knows the future is told what comes, and fetches nothing ahead.
            let prefetch = if contender.is_offline() { Prefetch::None } else { options.prefetch };
            let room = ahead::left(prefetch, memory);
            let machine = Machine::divided(contender, room, &options.division, clients, numbered);
            Cell::new(contender, machine, memory, counting, &self.graphs)
        };
        let mut cells: Vec<Cell> = runs.iter().map(new).collect();
        self.progress.begin(&format!("{}: {} caches", self.name(), runs.len()), Some(self.records));
        self.replay(&mut cells).map_err(|error| LabError::Trace { path: self.path.to_owned(), error })?;
        self.progress.end();
        let name = self.name();
        let rows = runs.iter().zip(&mut cells).flat_map(|(&(contender, size, given), cell)| {
            Row::of(&name, contender, (options.unit, given, size), &self.catalog, cell)
        });
        Ok(rows.collect())
    }

    /// The requests, where they are in memory and nothing is done but to ask for them.
    fn plain(&self) -> Option<PlainRequests<'_>> {
        self.catalog.plain().filter(|_| self.options.prefetch == Prefetch::None)
    }

    /// Feeds all events to all cells.
    fn replay(&self, cells: &mut [Cell]) -> Result<(), TraceError> {
        let threads = self.options.threads.get().min(cells.len()).max(1);
        // Cells of one policy cost about the same, so each thread gets some of every policy.
        let mut shares: Vec<Vec<&mut Cell>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, cell) in cells.iter_mut().enumerate() {
            shares[at % threads].push(cell);
        }
        if let Some(plain) = self.plain() {
            self.replay_plain(plain, shares);
            return Ok(());
        }
        std::thread::scope(|scope| {
            let mut senders = Vec::new();
            for mut share in shares {
                let (sender, receiver) = sync_channel::<Arc<Vec<Event>>>(BATCHES_MAX);
                senders.push(sender);
                scope.spawn(move || {
                    for batch in receiver {
                        share.iter_mut().for_each(|cell| cell.replay(&batch));
                    }
                    share.iter_mut().for_each(|cell| cell.finish());
                });
            }
            self.feed(&senders)
        })
    }

    /// Each thread walks over all requests by itself.
    fn replay_plain(&self, plain: PlainRequests<'_>, shares: Vec<Vec<&mut Cell>>) {
        let walk = |mut share: Vec<&mut Cell>, shows: bool| {
            for begin in (0..plain.len()).step_by(PLAIN_BATCH_REQUESTS) {
                let end = plain.len().min(begin + PLAIN_BATCH_REQUESTS);
                share.iter_mut().for_each(|cell| cell.replay_plain(plain, begin..end));
                if shows {
                    self.progress.advance((end - begin) as u64);
                }
            }
            share.iter_mut().for_each(|cell| cell.finish());
        };
        let mut shares = shares.into_iter();
        let first = shares.next().unwrap_or_default();
        std::thread::scope(|scope| {
            for share in shares {
                scope.spawn(|| walk(share, false));
            }
            walk(first, true);
        });
    }

    fn feed(&self, senders: &[SyncSender<Arc<Vec<Event>>>]) -> Result<(), TraceError> {
        let (mut place, mut records) = (0, 0);
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        let send = |batch: &mut Vec<Event>| {
            let batch = Arc::new(std::mem::replace(batch, Vec::with_capacity(BATCH_EVENTS)));
            // A thread that is gone has panicked, which ends the scope with its panic.
            senders.iter().for_each(|sender| drop(sender.send(batch.clone())));
        };
        let mut trace = forebay_trace::open_again(self.path, &self.options.trace)?;
        let mut hints = HintSets::new(self.options.hint_types.clone());
        while let Some(record) = trace.next() {
            let record = match record {
                Err(error) if error.is_truncated() => break,
                other => other?,
            };
            if let Some(mut event) = self.catalog.event(&record, &mut place) {
                if let Event::Request(request) = &mut event {
                    let (set, new) = hints.meet(record.hints, trace.dictionary());
                    request.access.hints = set;
                    batch.extend(new.map(|(set, meaning)| Event::Hints(set, meaning)));
                }
                batch.push(event);
            }
            if batch.len() >= BATCH_EVENTS {
                send(&mut batch);
            }
            records += 1;
            if records % PROGRESS_RECORDS == 0 {
                self.progress.advance(PROGRESS_RECORDS);
            }
        }
        send(&mut batch);
        Ok(())
    }

    /// The trace's file name.
    pub fn name(&self) -> String {
        trace_name(self.path)
    }

    /// Malformed records that were passed over.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What was wrong with the first of those.
    pub fn first_skipped(&self) -> Option<&str> {
        self.first_skipped.as_deref()
    }

    /// What has to be known of how the trace was read, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Keys, requests and bytes of the trace, or of the sample.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}

pub(crate) fn trace_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
