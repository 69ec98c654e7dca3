//! A recorded trace through the server's own cache: its partitions, seeds, charges, fills and publications.
//!
//! A trace that `CACHE TRACE` has recorded holds what the server's policy heard, in order, and what the cache charged
//! for each entry. Replayed here with that policy, budget and partitions, the cache decides what it decided then. If
//! it was recorded from one client after a start or a `CACHE RESET`, the hits are the server's, one by one. With
//! several clients they are nearly so. What two threads did at one moment has an order in the trace that it did not
//! have. With another policy or size the trace tells what the server would have had.
//!
//! Other traces can be replayed, too: an object then has its size as a byte string.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::Read;
use forebay::cache::{AccessKind, Begin, Cache, CacheOptions, Context, document_charged};
use forebay::graph::{Graph, Thr};
use forebay::hint::{HintMeaning, HintSet};
use forebay::key::{KEY_BYTES_MAX, Key, SPACES};
use forebay::policy::{Choice, Unit};
use forebay::value::Value;
use forebay::version::Version;
use forebay_trace::dictionary::Dictionary;
use forebay_trace::replay::{VALUE_BYTES_DEFAULT, value};
use forebay_trace::{Kind, Record, Records, TraceError, TraceOptions};

use crate::cell::Tally;
use crate::graphs;
use crate::lab::{LabError, Progress, Size, trace_name};
use crate::latency::RoundTrips;
use crate::row::Row;

/// Documents of a charge that are kept to be used again.
const LIKENESSES_MAX: usize = 4096;

/// Records between two calls of the progress.
const PROGRESS_RECORDS: u64 = 65_536;

/// What to replay.
#[derive(Clone, Debug)]
pub struct LikeServerOptions {
    /// Policies, in the order of the result.
    pub policies: Vec<Choice>,
    /// Budgets in bytes: what the server's `CACHE STATS` shows. A share is of what all keys of the trace are charged.
    pub sizes: Vec<Size>,
    /// Partitions of the cache, as `--partitions` has them.
    pub partitions: usize,
    /// Graphs of transaction types by name, as the server had them.
    pub graphs: Vec<(String, Graph)>,
    /// How the trace is read.
    pub trace: TraceOptions,
    /// Threads that replay.
    pub threads: NonZeroUsize,
}

/// What a first pass has met.
struct Met {
    records: u64,
    charged_bytes: u64,
    graphs: Vec<(u16, Arc<Graph>)>,
    /// Of how the trace was read.
    warnings: Vec<String>,
}

/// Replays a trace: a row for each policy at each size. `warn` hears what has to be known of how it was read.
pub fn run(
    path: &Path,
    options: &LikeServerOptions,
    progress: &dyn Progress,
    mut warn: impl FnMut(&str),
) -> Result<Vec<Row>, LabError> {
    let failed = |error| LabError::Trace { path: path.to_owned(), error };
    progress.begin("reading keys", None);
    let met = meet(path, options, progress)?;
    progress.end();
    met.warnings.iter().for_each(|warning| warn(warning));
    let pairs = options.policies.iter().flat_map(|policy| options.sizes.iter().map(move |size| (policy, size)));
    let mut runs: Vec<Run> = pairs.map(|(policy, size)| Run::new(policy, size, options, &met)).collect();
    let threads = options.threads.get().min(runs.len()).max(1);
    let mut shares: Vec<Vec<&mut Run>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, run) in runs.iter_mut().enumerate() {
        shares[at % threads].push(run);
    }
    progress.begin("replaying", Some(met.records * threads as u64));
    let replayed = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|mut share| scope.spawn(move || replay(path, options, progress, &mut share)))
            .collect();
        // A thread that is gone has panicked, which ends the scope with its panic.
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    });
    replayed.map_err(failed)?;
    progress.end();
    let name = trace_name(path);
    Ok(runs.iter().map(|run| run.row(&name)).collect())
}

/// Each record of a trace in turn; a trace that is cut short ends where it was cut.
fn each(
    mut trace: Records,
    progress: &dyn Progress,
    mut act: impl FnMut(&Record, Option<&Dictionary>),
) -> Result<Records, TraceError> {
    let mut records = 0u64;
    while let Some(record) = trace.next() {
        let record = match record {
            Err(error) if error.is_truncated() => break,
            other => other?,
        };
        act(&record, trace.dictionary());
        records += 1;
        if records.is_multiple_of(PROGRESS_RECORDS) {
            progress.advance(PROGRESS_RECORDS);
        }
    }
    Ok(trace)
}

fn meet(path: &Path, options: &LikeServerOptions, progress: &dyn Progress) -> Result<Met, LabError> {
    let mut keys: HashMap<u64, u32, foldhash::fast::FixedState> = HashMap::default();
    let (mut records, mut sized) = (0, false);
    let mut types = BTreeSet::new();
    let failed = |error| LabError::Trace { path: path.to_owned(), error };
    let opened = forebay_trace::open_with(path, &options.trace).map_err(failed)?;
    let trace = each(opened, progress, |record, _| {
        records += 1;
        types.extend((record.txn_type != 0).then_some(record.txn_type));
        if record.kind.is_access() {
            sized |= record.charged.or(record.size).is_some();
            keys.insert(key(record).borrow().hash64(), record.charged.or(record.size).unwrap_or(VALUE_BYTES_DEFAULT));
        }
    });
    let trace = trace.map_err(failed)?;
    if records == 0 {
        return Err(LabError::empty(path, &*trace));
    }
    let (graphs, missing) = graphs::numbered(path, &options.graphs, trace.dictionary(), &types)?;
    let mut warnings = trace.warnings();
    warnings.extend(missing);
    warnings.extend(
        trace
            .first_skipped()
            .map(|first| format!("malformed records passed over: {}, the first: {first}", trace.skipped())),
    );
    if !sized {
        warnings.push(format!("no record has a size or a charge: each value has {VALUE_BYTES_DEFAULT} bytes"));
    }
    let charged_bytes = keys.values().map(|&charged| u64::from(charged)).sum();
    Ok(Met { records, charged_bytes, graphs, warnings })
}

fn replay(
    path: &Path,
    options: &LikeServerOptions,
    progress: &dyn Progress,
    runs: &mut [&mut Run],
) -> Result<(), TraceError> {
    let mut hints = 1;
    each(forebay_trace::open_again(path, &options.trace)?, progress, |record, dictionary| {
        for (set, meaning) in dictionary.map_or(Vec::new(), |known| meanings(known, hints)) {
            hints = set.0 + 1;
            runs.iter().for_each(|run| run.cache.define_hints(set, &meaning));
        }
        runs.iter_mut().for_each(|run| run.replay(record));
    })?;
    Ok(())
}

/// What hint sets stand for, from number `from` on: the server has told its policy when they were defined.
fn meanings(known: &Dictionary, from: u32) -> Vec<(HintSet, HintMeaning)> {
    let texts = |texts: &[bytes::Bytes]| texts.iter().map(|text| Box::from(&text[..])).collect();
    let meaning = |(number, set): (u32, &forebay_trace::dictionary::HintSetDefinition)| {
        let types = known.hint_schema(set.schema).map_or(Vec::new(), |schema| texts(&schema.types));
        (HintSet(number), HintMeaning { schema: set.schema, types, values: texts(&set.values) })
    };
    known.hint_sets_from(from).map(meaning).collect()
}

fn key(record: &Record) -> Key {
    let name = record.key.to_bytes();
    Key::new(record.space % SPACES, &name[..name.len().min(KEY_BYTES_MAX)])
}

/// One policy at one size.
struct Run {
    policy: String,
    given: String,
    budget_bytes: u64,
    cache: Cache,
    /// By length of the name and charge.
    likenesses: HashMap<(usize, u32), Option<Value>, foldhash::fast::FixedState>,
    sequence: u64,
    bytes: u64,
    bytes_hit: u64,
    took: Duration,
}

impl Run {
    fn new(policy: &Choice, size: &Size, options: &LikeServerOptions, met: &Met) -> Run {
        let budget_bytes = size.units(met.charged_bytes);
        let cache = Cache::new(&CacheOptions {
            budget_bytes: usize::try_from(budget_bytes).unwrap_or(usize::MAX),
            partitions: options.partitions,
            policy: policy.policy,
            policy_values: policy.values.clone(),
        });
        cache.measure_transactions();
        met.graphs.iter().for_each(|(of_type, graph)| cache.register_graph(*of_type, graph));
        Run {
            policy: policy.to_string(),
            given: size.given.clone(),
            budget_bytes,
            cache,
            likenesses: HashMap::default(),
            sequence: 0,
            bytes: 0,
            bytes_hit: 0,
            took: Duration::ZERO,
        }
    }

    fn replay(&mut self, record: &Record) {
        let context = Context {
            client: record.client,
            hints: HintSet(record.hints),
            txn: record.txn,
            txn_type: record.txn_type,
            level: record.level,
            vertex: record.vertex,
            cost_us: 0,
        };
        if !record.kind.is_access() {
            return self.cache.ended(&context, record.kind == Kind::Committed);
        }
        let key = key(record);
        let leaves = record.charged.is_none()
            && match record.kind {
                // As a server's cache tells of what changed elsewhere, and of what nobody knows the result of.
                Kind::Delete => true,
                Kind::Write => record.size.is_none(),
                _ => false,
            };
        if leaves {
            return self.cache.remove(&key);
        }
        let read = self.document(record, &key);
        let began = Instant::now();
        match record.kind {
            Kind::Write | Kind::Delete => self.cache.publish_locked(&[(key, Some(read))], &context),
            kind => {
                let hit = self.cache.get(key.borrow(), &context).is_some();
                if !hit {
                    let kind = if kind == Kind::Prefetch { AccessKind::Prefetch } else { AccessKind::Read };
                    let context = Context { cost_us: record.cost_us.unwrap_or(0), ..context };
                    if let Begin::Lead(fill) = self.cache.begin_fill(&key) {
                        fill.complete(&read, &context, kind);
                    }
                }
                let bytes = u64::from(record.charged.or(record.size).unwrap_or(VALUE_BYTES_DEFAULT));
                self.bytes += bytes;
                self.bytes_hit += if hit { bytes } else { 0 };
            }
        }
        self.took += began.elapsed();
    }

    /// What the store answers, or the transaction wrote: of it only the charge matters.
    fn document(&mut self, record: &Record, key: &Key) -> Read {
        self.sequence += 1;
        let version = Version { incarnation: 1, sequence: self.sequence };
        let Some(charged) = record.charged else {
            let size = record.size.unwrap_or(VALUE_BYTES_DEFAULT) as usize;
            let value = value(size.saturating_sub(key.name().len()).min(u32::MAX as usize) as u32);
            return Read { value: Some(Value::bytes(value)), version };
        };
        if self.likenesses.len() >= LIKENESSES_MAX {
            self.likenesses.clear();
        }
        let likeness = self.likenesses.entry((key.name().len(), charged));
        let value = likeness.or_insert_with(|| document_charged(key.name().len(), charged as usize)).clone();
        Read { value, version }
    }

    fn row(&self, trace: &str) -> Row {
        let stats = self.cache.stats();
        let tally = Tally {
            requests: stats.hits + stats.misses,
            hits: stats.hits,
            bytes: self.bytes,
            bytes_hit: self.bytes_hit,
            bytes_ahead: 0,
        };
        let metered = self.cache.meter().map(|meter| meter.metered()).unwrap_or_default();
        let levels = (metered.levels > 0).then(|| metered.levels_hit as f64 / metered.levels as f64);
        let Thr { length: asked, hits: saved } = metered.thr;
        let trips = RoundTrips { transactions: Some(metered.transactions), asked, saved };
        let mut row = Row {
            thr: metered.thr.rate(),
            level_hit_ratio: levels,
            round_trips: Some(trips),
            metadata_bytes: self.cache.metadata_bytes() as u64,
            cpu_ns_per_request: self.took.as_nanos() as f64 / tally.requests.max(1) as f64,
            ..Row::like_server(trace, self.policy.clone(), &self.given, self.budget_bytes, tally)
        };
        if asked == 0 {
            row.counts_requests();
        }
        row
    }
}

/// Sizes of a replay like the server's: shares or bytes.
pub fn sizes(text: &str) -> Result<Vec<Size>, LabError> {
    text.split(',').map(|text| Size::parse(text, Unit::Bytes)).collect()
}
