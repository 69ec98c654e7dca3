//! Replay of a trace through a server: each access becomes a command, in the trace's order with one client.
//!
//! There are three passes, so that there is always a known end to count towards. One over the trace alone counts
//! requests and collects the keys to preload. Then come the preload, if asked for, and the measured run. The trace is
//! read on a separate thread and handed over in batches. Each client takes the next batch when it is done with its
//! last.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_protocol::Reply;
use forebay_trace::replay::{Action, Request, value};
use forebay_trace::{Record, TraceError};
use hdrhistogram::Histogram;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::client::{Client, ClientError, Says};
pub use crate::latency::Latency;
use crate::latency::{latencies, note};

/// Keys that a preload holds in memory; a trace with more is refused.
pub const PRELOAD_KEYS_MAX: usize = 100_000_000;

/// Clients of one replay.
pub const CLIENTS_MAX: usize = 10_000;

/// Commands that one client sends before it waits.
pub const PIPELINE_MAX: usize = 100_000;

/// Keys, and bytes of values, of one MSET of the preload.
const LOAD_KEYS_MAX: usize = 256;
const LOAD_BYTES_MAX: usize = 256 * 1024;

/// MSETs that the preload has under way on each connection.
const LOAD_PIPELINE: usize = 4;

/// What to replay, to whom, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The trace's file.
    pub trace: PathBuf,
    /// Its format, or `None` to tell it from name and content.
    pub format: Option<String>,
    /// The server: `127.0.0.1:6379`.
    pub address: String,
    /// Connections. With one, requests arrive in the trace's order.
    pub clients: usize,
    /// Commands that a connection sends before it waits for replies.
    pub pipeline: usize,
    /// Requests to replay at most.
    pub limit: Option<u64>,
    /// Writes all keys of the trace first, then empties the cache.
    pub preload: bool,
    /// Writes and deletes read instead; see [`Request::of`].
    pub writes_as_reads: bool,
}

/// The parts of a replay, as progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads the trace alone; its end is not known.
    Scan,
    /// Writes the keys.
    Preload,
    /// The measured run.
    Run,
}

/// What is told how far a replay has come. Called from several threads.
pub trait Progress: Send + Sync {
    /// A phase begins; `total` requests or keys are ahead, if that is known.
    fn begin(&self, phase: Phase, total: Option<u64>);
    /// So many more are done.
    fn advance(&self, done: u64);
    /// The phase is over.
    fn end(&self);
}

/// For callers that want no progress shown.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Phase, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}

/// Why a replay did not come to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace can't be read.
    #[error("{trace}: {1}", trace = .0.display())]
    Trace(PathBuf, TraceError),
    /// The server can't be reached, or is gone.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The trace has no requests.
    #[error("{0} holds no requests; is it the right file, and was its format told right?")]
    Empty(PathBuf),
    /// Too many keys to preload.
    #[error("the trace has more than {PRELOAD_KEYS_MAX} keys to preload; use --limit to replay a part of it")]
    TooManyKeys,
    /// The thread that reads the trace died.
    #[error("reading the trace failed: {0}")]
    Reader(String),
}

type Replayed<T> = Result<T, ReplayError>;

/// What a replay measured.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Report {
    /// The trace's file.
    pub trace: String,
    /// The server.
    pub server: String,
    /// Connections.
    pub clients: usize,
    /// Commands sent before waiting.
    pub pipeline: usize,
    /// Whether writes were sent as reads.
    pub writes_as_reads: bool,
    /// Commands sent in the measured run.
    pub requests: u64,
    /// Of these, GETs.
    pub gets: u64,
    /// Of these, SETs.
    pub sets: u64,
    /// Of these, DELs.
    pub deletes: u64,
    /// GETs that were answered with a value, from cache or store.
    pub found: u64,
    /// Records of the trace that are no client's request.
    pub skipped: u64,
    /// Keys written before the run.
    pub preloaded_keys: u64,
    /// Whether the server emptied its cache before the run (`CACHE RESET`).
    pub cache_reset: bool,
    /// Reads that the server answered from its cache, by its own count (`keyspace_hits`).
    pub hits: Option<u64>,
    /// Reads that it asked its store for (`keyspace_misses`).
    pub misses: Option<u64>,
    /// `hits / (hits + misses)`.
    pub hit_ratio: Option<f64>,
    /// Commands answered by an error.
    pub errors: u64,
    /// The first of these errors.
    pub first_error: Option<String>,
    /// Duration of the measured run.
    pub seconds: f64,
    /// Commands per second.
    pub requests_per_second: f64,
    /// Latencies.
    pub latency: Latency,
}

/// What a client has to send in one go.
enum Batch {
    Requests(Vec<Request>),
    Load(Vec<Vec<(Box<[u8]>, u32)>>),
}

type Batches = Arc<tokio::sync::Mutex<mpsc::Receiver<Batch>>>;

/// What the pass over the trace alone found.
#[derive(Default)]
struct Scan {
    requests: u64,
    skipped: u64,
    /// Keys with the size that each was first seen with.
    keys: HashMap<Box<[u8]>, u32, foldhash::fast::FixedState>,
}

/// What one client counted.
struct Tally {
    found: u64,
    gets: u64,
    sets: u64,
    deletes: u64,
    errors: u64,
    first_error: Option<String>,
    latency: Histogram<u64>,
}

/// Replays a trace. Fails when the trace can't be read to its end or a connection breaks; error replies are counted.
pub async fn replay(options: &ReplayOptions, progress: Arc<dyn Progress>) -> Result<Report, ReplayError> {
    drop(requests(options)?); // A mistyped file is told first.
    let mut control = Client::connect(&options.address).await?;
    let scan = scan_trace(options, &progress).await?;
    let mut report = Report {
        trace: options.trace.display().to_string(),
        server: options.address.clone(),
        clients: options.clients.clamp(1, CLIENTS_MAX),
        pipeline: options.pipeline.clamp(1, PIPELINE_MAX),
        writes_as_reads: options.writes_as_reads,
        skipped: scan.skipped,
        ..Report::default()
    };
    let requests = scan.requests;
    if options.preload {
        report.preloaded_keys = scan.keys.len() as u64;
        preload(&report, scan, &progress).await?;
        // A server that is no forebay has no such command, and says so; its figures are still worth having.
        report.cache_reset = !control.call(&["CACHE", "RESET"]).await?.is_error();
    }
    let before = keyspace(&mut control).await?;
    progress.begin(Phase::Run, Some(requests));
    let began = Instant::now();
    let tally = {
        let (sender, receiver) = mpsc::channel(2 * report.clients);
        let (source, pipeline) = (options.clone(), report.pipeline);
        let reader = tokio::task::spawn_blocking(move || read_batches(&source, pipeline, &sender));
        let tally = run_clients(&report.server, report.clients, receiver, &progress).await?;
        reader.await.map_err(|error| ReplayError::Reader(error.to_string()))??;
        tally
    };
    report.seconds = began.elapsed().as_secs_f64();
    progress.end();
    report.count(tally);
    report.compare(before, keyspace(&mut control).await?);
    Ok(report)
}

/// The names of the trace formats that can be replayed.
pub fn format_names() -> Vec<&'static str> {
    forebay_trace::FORMATS.iter().map(|format| format.name).collect()
}

/// All requests of a trace, up to the limit, and the number of records passed over.
fn requests(options: &ReplayOptions) -> Replayed<impl Iterator<Item = Replayed<Option<Request>>>> {
    let (trace, writes_as_reads) = (options.trace.clone(), options.writes_as_reads);
    let failed = move |error| ReplayError::Trace(trace.clone(), error);
    let records = forebay_trace::open(&options.trace, options.format.as_deref()).map_err(&failed)?;
    let mut left = options.limit.unwrap_or(u64::MAX);
    let request = move |record: Record| Request::of(&record, writes_as_reads);
    let requests = records.map(move |record| record.map(&request).map_err(&failed));
    Ok(requests.take_while(move |request| {
        let more = left > 0;
        left -= u64::from(more && matches!(request, Ok(Some(_))));
        more
    }))
}

async fn scan_trace(options: &ReplayOptions, progress: &Arc<dyn Progress>) -> Result<Scan, ReplayError> {
    let (options, progress) = (options.clone(), progress.clone());
    let scan = tokio::task::spawn_blocking(move || -> Result<Scan, ReplayError> {
        progress.begin(Phase::Scan, None);
        let mut scan = Scan::default();
        for request in requests(&options)? {
            let Some(request) = request? else {
                scan.skipped += 1;
                continue;
            };
            scan.requests += 1;
            if scan.requests.is_multiple_of(1 << 16) {
                progress.advance(1 << 16);
            }
            if options.preload && !scan.keys.contains_key(request.key.as_slice()) {
                if scan.keys.len() >= PRELOAD_KEYS_MAX {
                    return Err(ReplayError::TooManyKeys);
                }
                scan.keys.insert(request.key.into_boxed_slice(), request.value_bytes);
            }
        }
        progress.end();
        match scan.requests {
            0 => Err(ReplayError::Empty(options.trace)),
            _ => Ok(scan),
        }
    });
    scan.await.map_err(|error| ReplayError::Reader(error.to_string()))?
}

async fn preload(report: &Report, scan: Scan, progress: &Arc<dyn Progress>) -> Result<(), ReplayError> {
    progress.begin(Phase::Preload, Some(scan.keys.len() as u64));
    let (sender, receiver) = mpsc::channel(2 * report.clients);
    let writer = tokio::task::spawn_blocking(move || {
        let mut keys = scan.keys.into_iter().peekable();
        while keys.peek().is_some() {
            let load = (0..LOAD_PIPELINE).map(|_| next_load(&mut keys)).filter(|load| !load.is_empty()).collect();
            // Nobody takes it any more: a client failed, and says why.
            if sender.blocking_send(Batch::Load(load)).is_err() {
                break;
            }
        }
    });
    let tally = run_clients(&report.server, report.clients, receiver, progress).await?;
    writer.await.map_err(|error| ReplayError::Reader(error.to_string()))?;
    progress.end();
    match tally.first_error {
        None => Ok(()),
        Some(reply) => Err(ClientError::Refused { command: "MSET".to_owned(), reply }.into()),
    }
}

fn next_load(keys: &mut impl Iterator<Item = (Box<[u8]>, u32)>) -> Vec<(Box<[u8]>, u32)> {
    let (mut load, mut bytes) = (Vec::new(), 0);
    while load.len() < LOAD_KEYS_MAX && bytes < LOAD_BYTES_MAX {
        let Some((key, value_bytes)) = keys.next() else { break };
        bytes += key.len() + value_bytes as usize;
        load.push((key, value_bytes));
    }
    load
}

fn read_batches(options: &ReplayOptions, pipeline: usize, sender: &mpsc::Sender<Batch>) -> Result<(), ReplayError> {
    let mut batch = Vec::with_capacity(pipeline);
    for request in requests(options)? {
        let Some(request) = request? else { continue };
        batch.push(request);
        if batch.len() == pipeline {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(pipeline));
            if sender.blocking_send(Batch::Requests(full)).is_err() {
                return Ok(());
            }
        }
    }
    if !batch.is_empty() {
        // Refused only when a client failed, and it says why.
        let _ = sender.blocking_send(Batch::Requests(batch));
    }
    Ok(())
}

/// Has `clients` connections work until there are no more batches; the first that fails ends all.
async fn run_clients(
    address: &str,
    clients: usize,
    batches: mpsc::Receiver<Batch>,
    progress: &Arc<dyn Progress>,
) -> Result<Tally, ReplayError> {
    let batches: Batches = Arc::new(tokio::sync::Mutex::new(batches));
    let mut connections = Vec::with_capacity(clients);
    for _ in 0..clients {
        connections.push(Client::connect(address).await?);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for client in connections {
        tasks.spawn(run_client(client, batches.clone(), progress.clone()));
    }
    let mut total = Tally::new();
    while let Some(tally) = tasks.join_next().await {
        total.add(tally.map_err(|error| ReplayError::Reader(error.to_string()))??);
    }
    Ok(total)
}

async fn run_client(mut client: Client, batches: Batches, progress: Arc<dyn Progress>) -> Result<Tally, ClientError> {
    let mut tally = Tally::new();
    loop {
        let batch = { batches.lock().await.recv().await };
        match batch {
            None => return Ok(tally),
            Some(Batch::Requests(requests)) => {
                for request in &requests {
                    match request.action {
                        Action::Get => client.queue(&[&b"GET"[..], &request.key]),
                        Action::Set => client.queue(&[&b"SET"[..], &request.key, request.value()]),
                        Action::Delete => client.queue(&[&b"DEL"[..], &request.key]),
                    }
                }
                let (sent, mut at) = (Instant::now(), 0);
                let received = client.exchange(|reply| {
                    tally.reply(requests[at].action, &reply, sent.elapsed());
                    at += 1;
                });
                received.await?;
                progress.advance(requests.len() as u64);
            }
            Some(Batch::Load(loads)) => {
                let keys = loads.iter().map(|load| load.len() as u64).sum();
                for load in &loads {
                    let pairs = load.iter().flat_map(|(key, bytes)| [&**key, value(*bytes)]);
                    client.queue(&std::iter::once(&b"MSET"[..]).chain(pairs).collect::<Vec<_>>());
                }
                client.exchange(|reply| tally.error(&reply)).await?;
                progress.advance(keys);
            }
        }
    }
}

/// `keyspace_hits` and `keyspace_misses` of INFO; `None` from a server that has no such figures.
async fn keyspace(client: &mut Client) -> Result<Option<(u64, u64)>, ClientError> {
    let reply = client.call(&["INFO", "stats"]).await?;
    let text = String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned();
    let figure = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    };
    Ok(figure("keyspace_hits").zip(figure("keyspace_misses")))
}

impl Tally {
    fn new() -> Tally {
        Tally { found: 0, gets: 0, sets: 0, deletes: 0, errors: 0, first_error: None, latency: latencies() }
    }

    fn error(&mut self, reply: &Reply) {
        if let Some(text) = reply.error_text() {
            self.errors += 1;
            self.first_error.get_or_insert(text);
        }
    }

    fn reply(&mut self, action: Action, reply: &Reply, latency: Duration) {
        self.error(reply);
        match action {
            Action::Get => {
                self.gets += 1;
                self.found += u64::from(reply.bytes().is_some());
            }
            Action::Set => self.sets += 1,
            Action::Delete => self.deletes += 1,
        }
        note(&mut self.latency, latency);
    }

    fn add(&mut self, other: Tally) {
        self.found += other.found;
        self.gets += other.gets;
        self.sets += other.sets;
        self.deletes += other.deletes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        // Both have the same bounds, so nothing can be out of range.
        let _ = self.latency.add(&other.latency);
    }
}

impl Report {
    fn count(&mut self, tally: Tally) {
        self.requests = tally.gets + tally.sets + tally.deletes;
        (self.gets, self.sets, self.deletes) = (tally.gets, tally.sets, tally.deletes);
        (self.found, self.errors, self.first_error) = (tally.found, tally.errors, tally.first_error);
        self.requests_per_second = self.requests as f64 / self.seconds.max(1e-9);
        self.latency = Latency::of(&tally.latency);
    }

    fn compare(&mut self, before: Option<(u64, u64)>, after: Option<(u64, u64)>) {
        let Some((before, after)) = before.zip(after) else { return };
        // A server that was restarted since counts from zero.
        let (hits, misses) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        (self.hits, self.misses) = (Some(hits), Some(misses));
        self.hit_ratio = (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64);
    }

    /// The report as one JSON object; names and units are those of the fields.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings, and floats that are no numbers, could fail; there are none.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The report as lines of name and value for people.
    pub fn to_table(&self) -> String {
        let number = |figure: Option<u64>| figure.map_or("not known".to_owned(), |figure| figure.to_string());
        let ratio = self.hit_ratio.map_or("not known".to_owned(), |ratio| format!("{ratio:.6}"));
        let mut lines = vec![
            ("trace", self.trace.clone()),
            ("server", format!("{}, {} clients, pipeline {}", self.server, self.clients, self.pipeline)),
            ("requests", format!("{} ({} GET, {} SET, {} DEL)", self.requests, self.gets, self.sets, self.deletes)),
            ("found", format!("{} of {} GET", self.found, self.gets)),
            ("hit ratio", format!("{ratio} ({} hits, {} misses)", number(self.hits), number(self.misses))),
            ("throughput", format!("{:.0} requests/s over {:.2} s", self.requests_per_second, self.seconds)),
            (
                "latency us",
                format!(
                    "p50 {:.0}  p90 {:.0}  p99 {:.0}  p99.9 {:.0}  max {:.0}  mean {:.0}",
                    self.latency.p50_us,
                    self.latency.p90_us,
                    self.latency.p99_us,
                    self.latency.p999_us,
                    self.latency.max_us,
                    self.latency.mean_us
                ),
            ),
            (
                "errors",
                format!(
                    "{}{}",
                    self.errors,
                    self.first_error.as_ref().map_or(String::new(), |e| format!(", first: {e}"))
                ),
            ),
        ];
        if self.preloaded_keys > 0 {
            let reset = if self.cache_reset { "cache emptied before the run" } else { "CACHE RESET not known there" };
            lines.push(("preloaded", format!("{} keys, {reset}", self.preloaded_keys)));
        }
        if self.skipped > 0 {
            lines.push(("passed over", format!("{} records that are no client's requests", self.skipped)));
        }
        lines.iter().map(|(name, text)| format!("{name:<12} {text}\n")).collect()
    }
}
