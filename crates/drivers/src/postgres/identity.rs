//! Which database this is and who we are to it: the incarnation under which it was opened, and the newest commits that
//! were acknowledged. By these every new connection knows whether it reached the same database in the same state: after
//! a failover or a restored backup it may be an earlier one, and another forebay may have taken it over.
//!
//! One commit is not enough. What a restored database has is all up to some place in its log, and the answer to what
//! stands there last may not be the last answer that came: others, of commits before it, were on their way at the time,
//! one for each connection that writes. So one id is kept of each of as many transactions as there are such
//! connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::store::tombstones::Tombstones;
use forebay::tier::REMEMBERED_IDS_MAX;
use forebay::{Key, TxnId, Version};
use tokio::sync::Mutex as AsyncMutex;
use tokio_postgres::Client;

use super::Known;
use super::classify::told;

/// Begins a new incarnation of a database that has lost acknowledged commits. `$1` is ours.
pub(super) const RAISE: &str =
    "UPDATE forebay.meta SET incarnation = greatest(incarnation, $1::bigint) + 1 RETURNING incarnation";

/// What the driver remembers of the database that it opened.
pub(super) struct Identity {
    incarnation: AtomicU64,
    /// What the names of our connections begin with.
    prefix: String,
    /// Oldest first.
    acknowledged: Mutex<VecDeque<TxnId>>,
    acknowledged_max: usize,
    /// It was opened in an earlier state than was known.
    went_back: bool,
    absent: Mutex<Tombstones>,
    /// One connection at a time finds out that the database is another one.
    raising: AsyncMutex<()>,
}

impl Identity {
    /// Opened under `incarnation`, as it was `known` to be or as it was before that, for so many who write at a time.
    pub(super) fn new(incarnation: u64, known: &Known, went_back: bool, writers: usize) -> Identity {
        let acknowledged_max = writers.clamp(1, REMEMBERED_IDS_MAX);
        let known = if went_back { &[][..] } else { &known.acknowledged };
        let known = &known[known.len().saturating_sub(acknowledged_max)..];
        Identity {
            incarnation: AtomicU64::new(incarnation),
            prefix: format!("forebay {incarnation}."),
            acknowledged: Mutex::new(known.iter().copied().collect()),
            acknowledged_max,
            went_back,
            absent: Mutex::new(Tombstones::new(incarnation)),
            raising: AsyncMutex::new(()),
        }
    }

    /// Under which commits are minted now.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether it was opened in an earlier state than was known.
    pub(super) fn went_back(&self) -> bool {
        self.went_back
    }

    /// The newest commits that were acknowledged, oldest first; all of them are there as long as it is the same state.
    pub(super) fn acknowledged(&self) -> Vec<TxnId> {
        self.newest().iter().copied().collect()
    }

    fn newest(&self) -> MutexGuard<'_, VecDeque<TxnId>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction of the database that entered `id` is about to be acknowledged, before its connection is used
    /// again.
    pub(super) fn acknowledge(&self, id: TxnId) {
        let mut newest = self.newest();
        if newest.len() == self.acknowledged_max {
            newest.pop_front();
        }
        newest.push_back(id);
    }

    fn absent(&self) -> MutexGuard<'_, Tombstones> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the absence of `key`.
    pub(super) fn absence(&self, key: &Key) -> Version {
        self.absent().absence(key).version
    }

    /// `key` is about to be deleted at `version`. Said before the delete is sent, since its answer may be lost; the
    /// version counts only once the key is absent.
    pub(super) fn deleting(&self, key: &Key, version: Version) {
        let mut absent = self.absent();
        // A commit that is sent again says an older one.
        if absent.absence(key).version < version {
            absent.insert(key.clone(), version, 0);
        }
    }

    /// All of `space` is about to be deleted at `version`.
    pub(super) fn clearing(&self, space: u8, version: Version) {
        self.absent().raise_floor(space, version, 0);
    }

    /// Whether a connection that found the database at `incarnation`, with our newest commits `there` or not, may be
    /// used.
    pub(super) async fn recognise(&self, client: &Client, incarnation: i64, there: bool) -> Result<(), String> {
        let ours = self.incarnation();
        let incarnation = incarnation as u64;
        if incarnation > ours {
            let why = "another forebay has taken this database over; stop one of the two and start this one again";
            return Err(why.into());
        }
        if incarnation == ours && there {
            return Ok(());
        }
        let _alone = self.raising.lock().await;
        if self.incarnation() != ours {
            return Err("the database was found in an earlier state just now; ask again".into());
        }
        let row = client.query_one(RAISE, &[&(ours as i64)]).await.map_err(|error| told(&error))?;
        let raised = row.try_get::<_, i64>(0).map_err(|error| told(&error))? as u64;
        tracing::error!(
            incarnation = raised,
            newest = self.newest().iter().max().map(|id| id.to_string()),
            "the database has lost acknowledged commits: it was restored, or a standby that lagged took over; going on \
             from what it holds, and all that is cached is dropped"
        );
        *self.absent() = Tombstones::new(raised);
        self.newest().clear();
        self.incarnation.store(raised, Ordering::SeqCst);
        Ok(())
    }
}
