//! Engines, clients and their figures.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use forebay::cache::{CacheOptions, Context};
use forebay::policy::POLICIES;
use forebay::runtime::{self, Runtime};
use forebay::store::Store;
use forebay::txn::{Ahead, Engine, EngineOptions, Executed, Mode, OnWrite, Plan, PlannedLock, TxnLimits};
use forebay::{Change, Key, Value};
use forebay_bench::program::process_cpu_seconds;
use forebay_bench::workload;

use crate::Options;

/// Documents that are loaded by one commit.
const LOAD_KEYS: usize = 1000;

/// Enough for all documents.
pub const ALL_CACHED_BYTES: usize = 512 << 20;

/// Any error of a client, whose task can't hand on a borrowed one.
pub type Failed = Box<dyn Error + Send + Sync>;

/// The present runtime.
pub fn runtime() -> Runtime {
    runtime::tokio::runtime(tokio::runtime::Handle::current())
}

/// An engine over `store` with the server's default policy, and so many bytes of cache.
pub fn engine(store: Arc<dyn Store>, budget_bytes: usize) -> Result<Engine, Failed> {
    let policy = POLICIES.iter().find(|policy| policy.name == "s3-fifo").ok_or("there is no policy s3-fifo")?;
    let cache = CacheOptions { budget_bytes, partitions: 1, policy, policy_values: Vec::new() };
    let limits = TxnLimits::default();
    Ok(Engine::new(EngineOptions {
        runtime: runtime(),
        store,
        cache,
        limits,
        on_write: OnWrite::default(),
        unwatched_after: None,
        history: None,
    }))
}

/// The key with this number.
pub fn key(number: usize) -> Key {
    Key::new(0, &workload::key(b"key:", number as u64))
}

/// Random bytes. Eight are drawn at a time: redb alone is given documents that are made before its clock runs.
pub fn value(random: &mut Rng, bytes: usize) -> Value {
    let mut filled = vec![0; bytes];
    random.fill(&mut filled);
    Value::bytes(filled)
}

/// A plan that locks `keys`, in order, each once.
pub fn plan(mut keys: Vec<Key>, mode: Mode, load: bool) -> Plan {
    keys.sort_unstable();
    keys.dedup();
    Plan { locks: keys.into_iter().map(|key| PlannedLock { key, mode, load }).collect(), ..Plan::default() }
}

/// Changes documents in one transaction and waits until it is published.
pub async fn change(engine: &Engine, changes: Vec<(Key, Change)>) -> Result<(), Failed> {
    let blind = changes.iter().all(|(_, change)| matches!(change, Change::Put(_)));
    let plan = plan(changes.iter().map(|(key, _)| key.clone()).collect(), Mode::Exclusive, !blind);
    let body = |documents: &mut forebay::txn::Documents| {
        let changed = changes.iter().try_for_each(|(key, change)| documents.change(key.borrow(), change.clone()));
        changed.map(|()| None).map_err(Some)
    };
    match engine.execute(&plan, Context::default(), &mut Ahead::default(), body).await? {
        Executed::Done(Some(error), _) => Err(error.into()),
        Executed::Done(None, committing) => committing.wait().await?.map(|_| ()).ok_or("nothing was changed".into()),
        Executed::WatchFailed | Executed::Stale(_) => Err("nothing was watched".into()),
    }
}

/// Loads all documents.
pub async fn load(engine: &Engine, keys: usize, value_bytes: usize) -> Result<(), Failed> {
    let mut random = Rng::with_seed(1);
    for from in (0..keys).step_by(LOAD_KEYS) {
        let until = keys.min(from + LOAD_KEYS);
        let puts = (from..until).map(|number| (key(number), Change::Put(value(&mut random, value_bytes))));
        change(engine, puts.collect()).await?;
    }
    Ok(())
}

/// What some clients did in a while.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Transactions that were acknowledged.
    pub transactions: u64,
    /// From the first to the last.
    pub seconds: f64,
    /// Of all threads of this process.
    pub cpu_seconds: f64,
    /// How long each took, ascending.
    pub latencies: Vec<Duration>,
}

impl Work {
    /// Transactions per second.
    pub fn throughput(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// Transactions per CPU second.
    pub fn per_cpu_second(&self) -> f64 {
        self.transactions as f64 / self.cpu_seconds
    }

    /// The latency in ms that `share` of the transactions did not exceed.
    pub fn ms(&self, share: f64) -> f64 {
        let rank = ((self.latencies.len() as f64 * share).ceil() as usize).max(1);
        self.latencies.get(rank - 1).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1000.0)
    }
}

/// Runs `clients` tasks, each of which does one transaction after the other for `time`. `transaction` is told the
/// client's number and given its own random numbers.
pub async fn clients<F>(
    clients: usize,
    time: Duration,
    seed: u64,
    transaction: impl Fn(usize, Rng) -> F + Clone + Send + 'static,
) -> Result<Work, Failed>
where
    F: Future<Output = Result<Rng, Failed>> + Send,
{
    let (began, cpu_before) = (Instant::now(), process_cpu_seconds()?);
    let client = |number: usize| {
        let transaction = transaction.clone();
        tokio::spawn(async move {
            let mut random = Rng::with_seed(seed * 1000 + number as u64);
            let mut latencies = Vec::new();
            while began.elapsed() < time {
                let before = Instant::now();
                random = transaction(number, random).await?;
                latencies.push(before.elapsed());
            }
            Ok::<_, Failed>(latencies)
        })
    };
    let tasks: Vec<_> = (0..clients).map(client).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), process_cpu_seconds()? - cpu_before);
    latencies.sort_unstable();
    Ok(Work { transactions: latencies.len() as u64, seconds, cpu_seconds, latencies })
}

/// Clients that set random documents, one transaction each.
pub async fn sets(engine: &Engine, options: &Options, count: usize, seed: u64) -> Result<Work, Failed> {
    let (shared, keys, bytes) = (engine.clone(), options.keys, options.value_bytes);
    let set = move |_, mut random: Rng| {
        let engine = shared.clone();
        async move {
            let put = (key(random.usize(0..keys)), Change::Put(value(&mut random, bytes)));
            change(&engine, vec![put]).await.map(|()| random)
        }
    };
    clients(count, options.time(), seed, set).await
}
