//! What clients ask of the cache in front of a store that others write to: that it has all of that, or that it forgets.
//!
//! **Invariant.** When [`Engine::sync`] answers well, nothing is cached that is older than what the store held when it
//! was called. What the store tells goes one way, to one task, in order: so behind [`Outside::Synced`] nothing of
//! before is on its way any more, but for the commits of ours that were unsettled when it was told, which are waited
//! for. What nothing watches is dropped, and once more behind the commits that were on their way then.
//!
//! [`Outside::Synced`]: crate::store::Outside::Synced

use std::sync::PoisonError;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::{Engine, Inner, TxnError};
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::store::Doubt;
use crate::sync::Mutex;

/// Pause between two looks whether the store has gone away meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who waits for what others have written.
#[derive(Default)]
pub(super) struct Syncs(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// The greatest number that has reached the cache.
    reached: u64,
    /// Each for its number; dropped untold where nobody will say that it has come.
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

impl Syncs {
    fn with<T>(&self, work: impl FnOnce(&mut Waiting) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait_for(&self, number: u64) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.with(|inside| match inside.reached >= number {
            true => {
                let _ = sender.send(());
            }
            false => inside.waiting.push((number, sender)),
        });
        receiver
    }

    /// All that was committed before this number was given has reached the cache.
    pub(super) fn reached(&self, number: u64) {
        let done: Vec<_> = self.with(|inside| {
            inside.reached = inside.reached.max(number);
            let (done, left) = std::mem::take(&mut inside.waiting).into_iter().partition(|(of, _)| *of <= number);
            inside.waiting = left;
            done
        });
        for (_, sender) in done {
            let _ = sender.send(());
        }
    }

    /// The store can't be watched any more.
    pub(super) fn fail(&self) {
        drop(self.with(|inside| std::mem::take(&mut inside.waiting)));
    }
}

impl Engine {
    /// Waits until all that was committed in the store before this call has reached the cache, at most so long.
    pub async fn sync(&self, at_most: Duration) -> Result<(), TxnError> {
        let inner = &self.inner;
        if inner.store.caps().owned {
            return Ok(());
        }
        inner.there("the cache can't be brought up to date")?;
        match inner.store.sync() {
            Some(number) => inner.wait_for_sync(number, at_most).await?,
            // There is nothing to wait for; but that it is away is to be said.
            None => inner.store.ping().await.map_err(|Unavailable(why)| TxnError::StoreDown(why))?,
        }
        inner.drop_unwatched().await;
        Ok(())
    }

    /// Forgets what is cached of `keys`, so that who reads them next asks the store; the number of copies that were
    /// dropped. What a commit on its way holds stays until that is published. Nothing where nobody else writes.
    pub async fn invalidate(&self, keys: &[Key]) -> usize {
        let (cache, mut dropped, mut held) = (&self.inner.cache, 0, Vec::new());
        if self.inner.store.caps().owned {
            return dropped;
        }
        let unsettled = self.inner.forget(Some(Doubt::Keys(keys)), || {
            held.clear();
            for key in keys {
                match cache.forget(key) {
                    Some(was_cached) => dropped += usize::from(was_cached),
                    None => held.push(key),
                }
            }
        });
        if !held.is_empty() {
            // What they publish may be older than what others wrote behind them.
            for settled in unsettled {
                settled.wait().await;
            }
        }
        for key in held {
            let was_cached = cache.peek(key.borrow()).is_some();
            cache.remove(key);
            dropped += usize::from(was_cached);
        }
        dropped
    }
}

impl Inner {
    fn there(&self, what: &str) -> Result<(), TxnError> {
        match self.store.is_away() {
            true => Err(TxnError::StoreDown(format!("{what}: the store can't be reached"))),
            false => Ok(()),
        }
    }

    pub(super) async fn wait_for_sync(&self, number: u64, at_most: Duration) -> Result<(), TxnError> {
        let mut told = self.syncs.wait_for(number);
        let until = self.runtime.elapsed() + at_most;
        loop {
            match select(told, self.runtime.sleep(LOOK_EVERY)).await {
                Either::Left((Ok(()), _)) => return Ok(()),
                Either::Left(_) => {
                    let why = "what others write to the store can't be seen now; see the log";
                    return Err(TxnError::StoreDown(why.into()));
                }
                Either::Right((_, rest)) => told = rest,
            }
            self.there("the cache can't be brought up to date")?;
            if self.runtime.elapsed() >= until {
                let (what, ms) = match self.comparison.goes_on() {
                    true => ("what is cached is still being compared after an outage", at_most.as_millis()),
                    false => ("what others wrote was not told", at_most.as_millis()),
                };
                return Err(TxnError::StoreDown(format!("{what} in {ms} ms; try again")));
            }
        }
    }

    /// Drops what is cached of tables that nothing watches.
    async fn drop_unwatched(&self) {
        let tables = self.store.unwatched().len();
        if tables == 0 || mutation::on(Fault::UnwatchedKept) {
            return;
        }
        let drop_now = || self.cache.clear(|key| self.store.unwatched_place(key).is_some());
        let unsettled = self.forget(Some(Doubt::Unwatched), drop_now);
        if unsettled.is_empty() {
            return;
        }
        for settled in unsettled {
            settled.wait().await;
        }
        drop_now();
    }
}
