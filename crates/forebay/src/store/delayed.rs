//! A store that is further away: every round trip takes a fixed time and some jitter more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Commit, CommitOutcome, Read, ReadError, ReadWithIds, Resolved, Store};
use crate::error::Unavailable;
use crate::key::Key;
use crate::runtime::Runtime;
use crate::version::{TxnId, Version};

/// How long a round trip takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// At least this.
    pub fixed: Duration,
    /// And up to this much more, evenly distributed.
    pub jitter: Duration,
}

/// A store behind a slow link: half of the delay passes before the store is asked, half before its answer arrives.
pub struct Delayed {
    runtime: Runtime,
    delay: Delay,
    inner: Arc<dyn Store>,
}

impl Delayed {
    /// Puts `inner` behind `delay`.
    pub fn new(runtime: Runtime, inner: Arc<dyn Store>, delay: Delay) -> Delayed {
        Delayed { runtime, delay, inner }
    }

    fn drawn(&self) -> Duration {
        let jitter = u64::try_from(self.delay.jitter.as_nanos()).unwrap_or(u64::MAX);
        let drawn = if jitter == 0 { 0 } else { self.runtime.random() % jitter };
        self.delay.fixed.saturating_add(Duration::from_nanos(drawn))
    }

    async fn behind<T>(&self, asked: impl Future<Output = T>) -> T {
        let half = self.drawn() / 2;
        self.pass(half).await;
        let answer = asked.await;
        self.pass(half).await;
        answer
    }

    async fn pass(&self, time: Duration) {
        if !time.is_zero() {
            self.runtime.sleep(time).await;
        }
    }
}

impl Store for Delayed {
    figures_of_inner!();

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(self.behind(async move { self.inner.get_within(keys, bytes_max).await }))
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        Box::pin(self.behind(async { self.inner.get_with_ids(asked).await }))
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(self.behind(async { self.inner.commit(group).await }))
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(self.behind(async move { self.inner.outcome(id).await }))
    }

    fn outcomes<'a>(&'a self, ids: &'a [TxnId]) -> BoxFuture<'a, Result<Vec<Resolved>, Unavailable>> {
        Box::pin(self.behind(async move { self.inner.outcomes(ids).await }))
    }

    fn check<'a>(&'a self, checks: &'a [(Key, Version)]) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(self.behind(async move { self.inner.check(checks).await }))
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(self.behind(async move { self.inner.scan(space, after, limit).await }))
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(self.behind(async move { self.inner.count(space).await }))
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(self.behind(async move { self.inner.clear(spaces, version).await }))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(self.behind(async move { self.inner.expired(now_ms, limit).await }))
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.behind(async { self.inner.flush().await }))
    }
}
