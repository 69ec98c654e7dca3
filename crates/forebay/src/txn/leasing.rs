//! Reads for caches that stand outside, in the applications: what such a cache may keep, and as of when.
//!
//! A transaction that only reads may end without a message, if what it has read was there at one moment. Its client
//! can tell by versions alone. Each read comes with a version P, `as_of`, that the server takes *before* it looks. All
//! up to P is published then, and nothing will be published at or below P. So a transaction whose greatest version is
//! at most its least P has read what was there when that P was taken (`docs/guarantees.md`, K). No clock decides that.
//!
//! Where others write to the store, and where writes are kept for later, no such P is known.

use std::sync::Arc;

use super::caller::Caller;
use super::documents::Documents;
use super::mode::Mode;
use super::published::Reads;
use super::{Ahead, Committing, Engine, Executed, Plan, PlannedLock, TxnError};
use crate::cache::Context;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::version::Version;

/// Some documents for a cache outside.
#[derive(Debug)]
pub struct Leased {
    /// All up to this version was published before the first of them was read, and nothing will be at or below it. None
    /// where one of them is absent since it has expired: no version says from when on.
    pub as_of: Option<Version>,
    /// A place for each key that was asked for. What has expired is absent, under its version.
    pub reads: Reads,
    /// The moment of the read, ms since the Unix epoch: what is left of a document's life counts from it. It may be 0
    /// where no document expires.
    pub now_ms: u64,
}

impl Engine {
    /// A version up to which all that is committed is published; for a client that then has what it read compared
    /// ([`Watched::named`](super::Watched::named)): what is found current is so as of this version.
    pub fn as_of(&self) -> Option<Version> {
        self.inner.committer.as_of()
    }

    /// Whether what was published as of that version is there still: a store that was reopened may have lost some.
    pub fn stands(&self, as_of: Version) -> bool {
        self.inner.store.incarnation() == as_of.incarnation
    }

    /// The documents of `keys`, at most `bytes_max` of them together, and as of when. Nothing of it may be shown before
    /// the [`Committing`] is settled. With `locked` it takes locks in any case: so must a connection that has commits
    /// which are not published, to see them.
    pub async fn lease(
        &self,
        keys: &[Key],
        context: Context,
        caller: Option<Arc<Caller>>,
        bytes_max: usize,
        locked: bool,
    ) -> Result<(Leased, Committing), TxnError> {
        let borrowed: Vec<KeyRef<'_>> = keys.iter().map(Key::borrow).collect();
        let cached = (!locked).then(|| self.lease_cached(&borrowed, &context, bytes_max)).flatten();
        if let Some(leased) = cached {
            return Ok((leased, Committing::nothing()));
        }
        let early = self.early_as_of();
        let ((reads, any_expired, now_ms), committing) = self.lease_locked(keys, context, caller, bytes_max).await?;
        Ok((self.leased(early, reads, any_expired, now_ms), committing))
    }

    /// As [`Engine::lease`], without a wait and without a lock, if all is cached and none of it is being published. The
    /// caller's connection must have no commit that is not published.
    pub fn lease_cached(&self, keys: &[KeyRef<'_>], context: &Context, bytes_max: usize) -> Option<Leased> {
        let early = self.early_as_of();
        let published = self.published(keys, context)?;
        if published.bytes() > bytes_max {
            return None;
        }
        let now_ms = if published.any_expires() { published.now_ms() } else { 0 };
        let any_expired = published.any_expired();
        Some(self.leased(early, published.into_reads(), any_expired, now_ms))
    }

    /// P, before anything is read.
    fn early_as_of(&self) -> Option<Version> {
        if mutation::on(Fault::LeaseTakenLate) { None } else { self.as_of() }
    }

    fn leased(&self, early: Option<Version>, reads: Reads, any_expired: bool, now_ms: u64) -> Leased {
        mutation::interleave();
        let as_of = if mutation::on(Fault::LeaseTakenLate) { self.as_of() } else { early };
        let timeless = !any_expired || mutation::on(Fault::ExpiredAsOfVersion);
        Leased { as_of: as_of.filter(|as_of| timeless && self.stands(*as_of)), reads, now_ms }
    }

    async fn lease_locked(
        &self,
        keys: &[Key],
        context: Context,
        caller: Option<Arc<Caller>>,
        bytes_max: usize,
    ) -> Result<((Reads, bool, u64), Committing), TxnError> {
        let mut ordered = keys.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let locks = ordered.into_iter().map(|key| PlannedLock { key, mode: Mode::Shared, load: true });
        let bytes_max = Some(bytes_max);
        let plan = Plan { locks: locks.collect(), name: "lease", caller, bytes_max, ..Plan::default() };
        let look =
            |documents: &mut Documents| Ok((reads_of(keys, documents), documents.any_expired(), documents.now_ms()));
        match self.execute(&plan, context, &mut Ahead::default(), look).await? {
            Executed::Done(found, committing) => Ok((found, committing)),
            Executed::WatchFailed | Executed::Stale(_) => Err(TxnError::Conflict("nothing is watched".into())),
        }
    }
}

/// What `documents` show of each of `keys`, which are loaded.
fn reads_of(keys: &[Key], documents: &mut Documents) -> Reads {
    let read = |key: &Key| Read {
        value: documents.value(key.borrow()).ok().flatten().cloned(),
        version: documents.version(key.borrow()).unwrap_or_default(),
    };
    keys.iter().map(read).collect()
}
