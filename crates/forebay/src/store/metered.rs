//! Counts what a store is asked and how long it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Commit, CommitOutcome, Read, ReadError, ReadWithIds, Resolved, Store};
use crate::error::Unavailable;
use crate::key::Key;
use crate::runtime::Runtime;
use crate::version::{TxnId, Version};

/// Buckets of a latency histogram: bucket `n` counts calls of at least `2^n` and less than `2^(n+1)` microseconds; the
/// first also those below, the last also those above (about 35 minutes).
pub const LATENCY_BUCKETS: usize = 32;

/// What was counted, as it stood at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Calls of any kind that went to the store.
    pub round_trips: u64,
    /// Calls that read documents.
    pub reads: u64,
    /// Keys that they asked for.
    pub keys_read: u64,
    /// Bytes of the documents that they got, as `Value::size` counts.
    pub bytes_read: u64,
    /// Calls of any kind that failed, commits of a group counting once each.
    pub failures: u64,
    /// Groups committed.
    pub groups: u64,
    /// Commits in them.
    pub commits: u64,
    /// Commits among them whose outcome was unknown.
    pub unknown: u64,
    /// Documents written by them.
    pub keys_written: u64,
    /// Bytes of those documents afterwards, as `Value::size` counts.
    pub bytes_written: u64,
    /// How long reads of documents took.
    pub read_latency: Latency,
    /// How long groups took.
    pub group_latency: Latency,
}

/// How long calls took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Number of calls.
    pub calls: u64,
    /// Microseconds of all of them together.
    pub total_us: u64,
    /// Microseconds of the longest.
    pub longest_us: u64,
    /// See [`LATENCY_BUCKETS`].
    pub buckets: [u64; LATENCY_BUCKETS],
}

#[derive(Default)]
struct Counters {
    round_trips: AtomicU64,
    reads: AtomicU64,
    keys_read: AtomicU64,
    bytes_read: AtomicU64,
    failures: AtomicU64,
    groups: AtomicU64,
    commits: AtomicU64,
    unknown: AtomicU64,
    keys_written: AtomicU64,
    bytes_written: AtomicU64,
    read_latency: Histogram,
    group_latency: Histogram,
}

#[derive(Default)]
struct Histogram {
    calls: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS],
}

impl Histogram {
    fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = (us.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self) -> Latency {
        Latency {
            calls: self.calls.load(Ordering::Relaxed),
            total_us: self.total_us.load(Ordering::Relaxed),
            longest_us: self.longest_us.load(Ordering::Relaxed),
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
        }
    }
}

/// A store whose calls are counted.
pub struct Metered {
    runtime: Runtime,
    inner: Arc<dyn Store>,
    counters: Counters,
}

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

impl Metered {
    /// Counts the calls to `inner`.
    pub fn new(runtime: Runtime, inner: Arc<dyn Store>) -> Metered {
        Metered { runtime, inner, counters: Counters::default() }
    }

    /// What was counted so far. Calls under way may be counted in part.
    pub fn snapshot(&self) -> Metrics {
        let counters = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            round_trips: load(&counters.round_trips),
            reads: load(&counters.reads),
            keys_read: load(&counters.keys_read),
            bytes_read: load(&counters.bytes_read),
            failures: load(&counters.failures),
            groups: load(&counters.groups),
            commits: load(&counters.commits),
            unknown: load(&counters.unknown),
            keys_written: load(&counters.keys_written),
            bytes_written: load(&counters.bytes_written),
            read_latency: counters.read_latency.snapshot(),
            group_latency: counters.group_latency.snapshot(),
        }
    }

    async fn counted<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        add(&self.counters.round_trips, 1);
        let result = call.await;
        add(&self.counters.failures, usize::from(result.is_err()));
        result
    }

    async fn counted_get(&self, keys: &[Key], bytes_max: usize) -> Result<Vec<Read>, ReadError> {
        let began = self.runtime.elapsed();
        add(&self.counters.reads, 1);
        let result = self.counted(self.inner.get_within(keys, bytes_max)).await;
        add(&self.counters.keys_read, result.as_ref().map_or(keys.len(), Vec::len));
        self.counters.read_latency.add(self.runtime.elapsed().saturating_sub(began));
        if let Ok(reads) = &result {
            let sizes = reads.iter().filter_map(|read| read.value.as_ref()).map(|value| value.size());
            add(&self.counters.bytes_read, sizes.sum());
        }
        result
    }

    async fn counted_commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        let began = self.runtime.elapsed();
        let writes = || group.iter().flat_map(|commit| &commit.writes);
        add(&self.counters.round_trips, 1);
        add(&self.counters.groups, 1);
        add(&self.counters.commits, group.len());
        add(&self.counters.keys_written, writes().count());
        let sizes = writes().filter_map(|write| write.after.as_ref()).map(|value| value.size());
        add(&self.counters.bytes_written, sizes.sum());
        let outcomes = self.inner.commit(group).await;
        self.counters.group_latency.add(self.runtime.elapsed().saturating_sub(began));
        let failed = outcomes.iter().filter(|outcome| !outcome.is_applied());
        add(&self.counters.failures, failed.count());
        let unknown = outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Unknown(_)));
        add(&self.counters.unknown, unknown.count());
        outcomes
    }
}

impl Store for Metered {
    figures_of_inner!();

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(self.counted_get(keys, bytes_max))
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        Box::pin(self.counted(self.inner.get_with_ids(asked)))
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(self.counted_commit(group))
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(self.counted(self.inner.outcome(id)))
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        Box::pin(self.counted(self.inner.outcomes(ids)))
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(self.counted(self.inner.check(checks)))
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(self.counted(self.inner.scan(space, after, limit)))
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(self.counted(self.inner.count(space)))
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(self.counted(self.inner.clear(spaces, version)))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(self.counted(self.inner.expired(now_ms, limit)))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.counted(self.inner.flush()))
    }
}
