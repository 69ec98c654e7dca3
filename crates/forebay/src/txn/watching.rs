//! WATCH: what keys are now, so that EXEC finds whether they have changed.

use std::sync::Arc;

use super::caller::Caller;
use super::documents::Documents;
use super::mode::Mode;
use super::{Ahead, Committing, Engine, Executed, Plan, PlannedLock, TxnError, Watched};
use crate::cache::Context;
use crate::key::Key;
use crate::mutation::{self, Fault};

/// Bytes of documents above which keys are read in several parts. EXEC compares each key with what it was by itself, so
/// it does not matter that they were read at several moments.
const WATCHED_BYTES_MAX: usize = 4 << 20;

impl Engine {
    /// What WATCH remembers of `keys`, read under shared locks. A version may be that of a commit that is not
    /// published yet, and a cached read would still show the value before it: so WATCH is not answered before the
    /// [`Committing`] is settled. Else a client could decide on the older value, and its EXEC find the newer version
    /// unchanged. Where others write too, a fill that was ended may have read something newer than the one behind it,
    /// which is cached: that is dropped.
    pub async fn watch(
        &self,
        keys: &[Key],
        context: Context,
        caller: Option<Arc<Caller>>,
    ) -> Result<(Vec<Watched>, Committing), TxnError> {
        let mut ordered = keys.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let (mut watched, mut shown) = (Vec::with_capacity(ordered.len()), Committing::nothing());
        let mut parts = vec![ordered.as_slice()];
        while let Some(part) = parts.pop() {
            match self.watch_part(part, context, caller.clone()).await {
                Ok((some, committing)) => {
                    shown.wait().await?;
                    shown = committing;
                    watched.extend(some);
                }
                Err(TxnError::TooLarge(_)) if part.len() > 1 => {
                    let (front, back) = part.split_at(part.len() / 2);
                    parts.extend([back, front]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((watched, shown))
    }

    /// Some of them, read together.
    async fn watch_part(
        &self,
        keys: &[Key],
        context: Context,
        caller: Option<Arc<Caller>>,
    ) -> Result<(Vec<Watched>, Committing), TxnError> {
        let locks = keys.iter().map(|key| PlannedLock { key: key.clone(), mode: Mode::Shared, load: true });
        let bytes_max = Some(WATCHED_BYTES_MAX);
        let plan = Plan { locks: locks.collect(), name: "WATCH", caller, bytes_max, ..Plan::default() };
        let remember = |documents: &mut Documents| {
            let watched: Vec<Watched> = keys.iter().map(|key| Watched::of(key, documents)).collect();
            if !self.inner.store.caps().owned && !mutation::on(Fault::WatchedUnshown) {
                watched.iter().for_each(|watched| self.inner.cache.keep_only(&watched.key, watched.version));
            }
            Ok(watched)
        };
        match self.execute(&plan, context, &mut Ahead::default(), remember).await? {
            Executed::Done(watched, committing) => {
                let absent = |watched: Watched| Watched {
                    absence: (!watched.present).then(|| self.inner.absences.watch(&watched.key)),
                    ..watched
                };
                Ok((watched.into_iter().map(absent).collect(), committing))
            }
            Executed::WatchFailed | Executed::Stale(_) => Err(TxnError::Conflict("a watched key has changed".into())),
        }
    }
}
