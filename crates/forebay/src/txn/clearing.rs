//! FLUSHDB and FLUSHALL: all documents of some key spaces are removed by one who is alone there.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::locks::Alone;
use super::{Engine, TxnError};
use crate::error::Unavailable;
use crate::key::{Key, SPACES};
use crate::mutation;
use crate::read::Read;
use crate::store::portion::read_each;
use crate::version::Version;

/// Watched keys that a clearing asks for together.
const WATCHED_READ_AT_ONCE: usize = 1000;

impl Engine {
    /// Removes all documents of `spaces` from store and cache, alone in these spaces. Goes on to its end even if the
    /// caller does not wait for it. `name`: the command, for interactive transactions in these spaces, which yield.
    /// `may`: whether it may still, asked when it is alone; false if not, and nothing was removed.
    pub async fn clear(
        &self,
        spaces: &[u8],
        name: &'static str,
        may: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, TxnError> {
        let mut ordered = spaces.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let (done, told) = futures_channel::oneshot::channel();
        let engine = self.clone();
        self.inner.runtime.spawn(async move {
            let _ = done.send(engine.clear_alone(&ordered, name, may).await);
        });
        told.await.unwrap_or_else(|_| Err(TxnError::StoreDown("the server is stopping".into())))
    }

    async fn clear_alone(
        &self,
        spaces: &[u8],
        name: &str,
        may: impl FnOnce() -> bool + Send,
    ) -> Result<bool, TxnError> {
        let began = self.inner.history.as_ref().map(|history| history.tick());
        let mut held = Vec::new();
        for space in spaces {
            debug_assert!(*space < SPACES);
            let mut alone = self.inner.locks.acquire_alone(*space);
            self.alone_in(&mut alone, name).await;
            held.push(alone);
        }
        // A commit that was handed over has given its locks up; what is on its way must land before the clearing.
        self.inner.committer.drained().await.map_err(TxnError::StoreDown)?;
        if !may() {
            return Ok(false);
        }
        let absent = self.watched_and_absent(spaces).await;
        let version = self.inner.committer.begin_clearing();
        let cleared = self.inner.store.clear(spaces, version).await;
        mutation::interleave();
        // Also after an error: it may have been cleared all the same.
        self.inner.cache.clear(|key| spaces.contains(&key.space));
        self.inner.committer.end_clearing(version);
        if cleared.is_ok() {
            self.note_absences(&absent, spaces, version).await;
        }
        if let (Some(history), Some(began)) = (&self.inner.history, began) {
            history.push_clear(began, cleared.is_ok(), spaces, version);
        }
        drop(held);
        cleared.map(|()| true).map_err(|Unavailable(why)| TxnError::StoreDown(why))
    }

    /// What was watched and `absent` before a clearing under `version` is so behind it, under this version; beside rows
    /// the store says under which.
    async fn note_absences(&self, absent: &[(Key, Version)], spaces: &[u8], version: Version) {
        let owned = self.inner.store.caps().owned;
        let behind = if owned || absent.is_empty() { Vec::new() } else { self.watched_and_absent(spaces).await };
        for (key, before) in absent {
            let told = behind.iter().find(|(other, _)| other == key).map(|(_, after)| *after);
            if let Some(after) = told.or_else(|| owned.then_some(version)) {
                self.inner.absences.cleared(key, *before, after);
            }
        }
    }

    /// The keys of these spaces that are watched and absent, with their versions; what can't be read is left out.
    async fn watched_and_absent(&self, spaces: &[u8]) -> Vec<(Key, Version)> {
        let mut absent = Vec::new();
        for keys in self.inner.absences.of(spaces).chunks(WATCHED_READ_AT_ONCE) {
            let note = |key: &Key, read: Read| {
                absent.extend(read.value.is_none().then(|| (key.clone(), read.version)));
            };
            let _ = read_each(&*self.inner.store, keys, note).await;
        }
        absent
    }

    /// Waits until a space is free of others. Interactive transactions in it yield; others have their own time-outs.
    async fn alone_in(&self, alone: &mut Alone<'_>, name: &str) {
        let runtime = &self.inner.runtime;
        let began = runtime.elapsed();
        let mut look_at = began + Duration::from_millis(self.inner.limits.txn_yield_ms);
        loop {
            let sleep = runtime.sleep(look_at.saturating_sub(runtime.elapsed()));
            if let Either::Left(_) = select(pin!(alone.granted()), sleep).await {
                return;
            }
            look_at = self.inner.wound_for_space(alone, name, began);
        }
    }
}
