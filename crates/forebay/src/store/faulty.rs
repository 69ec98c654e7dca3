//! A store that fails as stores do, at random but in one way for one seed. Reads fail, commits are surely not applied
//! or have an unknown outcome, and outages come by the clock or by a switch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Commit, CommitOutcome, Read, ReadError, ReadWithIds, Resolved, Store};
use crate::error::Unavailable;
use crate::key::Key;
use crate::runtime::Runtime;
use crate::version::{TxnId, Version};

/// How often what goes wrong, each in thousandths of the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads, scans and counts that fail.
    pub read_per_mille: u16,
    /// Reads of several documents that end early.
    pub portion_per_mille: u16,
    /// Groups, clears and flushes that fail before anything is applied.
    pub unavailable_per_mille: u16,
    /// Groups that are applied, but answer `Unknown`.
    pub unknown_applied_per_mille: u16,
    /// Groups of which a part from the front, perhaps nothing, is applied, and that answer `Unknown`.
    pub unknown_partial_per_mille: u16,
    /// Questions for an outcome that get no answer.
    pub outcome_per_mille: u16,
    /// When nothing works: from and to, as [`Runtime::elapsed`] counts.
    pub outages: Vec<(Duration, Duration)>,
}

/// A store that fails; see [`Faults`].
pub struct Faulty {
    runtime: Runtime,
    inner: Arc<dyn Store>,
    faults: Faults,
    /// The state of the generator (splitmix64).
    random: Mutex<u64>,
    down: AtomicBool,
}

impl Faulty {
    /// Lets `inner` fail as `faults` says; `seed` decides when.
    pub fn new(runtime: Runtime, inner: Arc<dyn Store>, faults: Faults, seed: u64) -> Faulty {
        Faulty { runtime, inner, faults, random: Mutex::new(seed), down: AtomicBool::new(false) }
    }

    /// Begins or ends an outage.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn drawn(&self) -> u64 {
        let mut state = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = *state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn check_up(&self) -> Result<(), Unavailable> {
        let now = self.runtime.elapsed();
        let scheduled = self.faults.outages.iter().any(|(from, to)| *from <= now && now < *to);
        match scheduled || self.down.load(Ordering::SeqCst) {
            true => Err(Unavailable("an outage was ordered".to_owned())),
            false => Ok(()),
        }
    }

    fn check(&self, per_mille: u16) -> Result<(), Unavailable> {
        self.check_up()?;
        match self.drawn() % 1000 < u64::from(per_mille) {
            true => Err(Unavailable("a fault was ordered".to_owned())),
            false => Ok(()),
        }
    }

    async fn fail_or_commit(&self, group: &[Commit]) -> Vec<CommitOutcome> {
        if let Err(Unavailable(why)) = self.check_up() {
            return vec![CommitOutcome::Unavailable(why); group.len()];
        }
        let unavailable = u64::from(self.faults.unavailable_per_mille);
        let applied = unavailable + u64::from(self.faults.unknown_applied_per_mille);
        let partial = applied + u64::from(self.faults.unknown_partial_per_mille);
        let drawn = self.drawn() % 1000;
        if drawn < unavailable {
            return vec![CommitOutcome::Unavailable("a fault was ordered".to_owned()); group.len()];
        }
        let reach = match drawn {
            drawn if drawn < applied => group.len(),
            drawn if drawn < partial => (self.drawn() % (group.len() as u64 + 1)) as usize,
            _ => return self.inner.commit(group).await,
        };
        self.inner.commit(&group[..reach]).await;
        vec![CommitOutcome::Unknown("a lost answer was ordered".to_owned()); group.len()]
    }
}

impl Store for Faulty {
    figures_of_inner!();

    fn get_within<'a>(&'a self, keys: &'a [Key], bytes_max: usize) -> BoxFuture<'a, Result<Vec<Read>, ReadError>> {
        Box::pin(async move {
            self.check(self.faults.read_per_mille)?;
            let portion = u64::from(self.faults.portion_per_mille);
            let early = portion > 0 && keys.len() > 1 && bytes_max < usize::MAX && self.drawn() % 1000 < portion;
            let bytes_max = if early { self.drawn() as usize % 64 } else { bytes_max };
            self.inner.get_within(keys, bytes_max).await
        })
    }

    fn get_with_ids<'a>(
        &'a self,
        asked: &'a [(Key, Vec<TxnId>)],
    ) -> BoxFuture<'a, Result<Option<Vec<ReadWithIds>>, ReadError>> {
        Box::pin(async move {
            self.check(self.faults.read_per_mille)?;
            self.inner.get_with_ids(asked).await
        })
    }

    fn commit<'a>(&'a self, group: &'a [Commit]) -> BoxFuture<'a, Vec<CommitOutcome>> {
        Box::pin(self.fail_or_commit(group))
    }

    fn outcome(&self, id: TxnId) -> BoxFuture<'_, Result<Resolved, Unavailable>> {
        Box::pin(async move {
            self.check(self.faults.outcome_per_mille)?;
            self.inner.outcome(id).await
        })
    }

    fn scan<'a>(
        &'a self,
        space: u8,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.check(self.faults.read_per_mille)?;
            self.inner.scan(space, after, limit).await
        })
    }

    fn count(&self, space: u8) -> BoxFuture<'_, Result<u64, ReadError>> {
        Box::pin(async move {
            self.check(self.faults.read_per_mille)?;
            self.inner.count(space).await
        })
    }

    fn clear<'a>(&'a self, spaces: &'a [u8], version: Version) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(async move {
            self.check(self.faults.unavailable_per_mille)?;
            self.inner.clear(spaces, version).await
        })
    }

    fn expired(&self, now_ms: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Key>, ReadError>> {
        Box::pin(async move {
            self.check(self.faults.read_per_mille)?;
            self.inner.expired(now_ms, limit).await
        })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(async move {
            self.check(self.faults.unavailable_per_mille)?;
            self.inner.flush().await
        })
    }
}
