//! How a transaction waits for locks, and what ends the wait.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::{Transaction, TxnError, TxnKind};
use crate::key::Key;
use crate::txn::caller::Caller;
use crate::txn::locks::{KeyWait, SpaceWait, Standing};

/// With what patience a transaction waits; goes on to the next run of the same request.
#[derive(Default)]
pub(in crate::txn) struct Patience {
    /// The command that waits: interactive transactions yield to it. Empty: they don't.
    pub(in crate::txn) name: &'static str,
    /// It does not wait.
    pub(in crate::txn) no_wait: bool,
    /// Who waits for the answer.
    pub(in crate::txn) caller: Option<Arc<Caller>>,
    /// Waits that may fail before the request does.
    pub(in crate::txn) left: u32,
    /// The key for which the last wait failed, and the place in its queue: the next run stands there again.
    pub(in crate::txn) place: Option<(Key, u64)>,
}

impl Patience {
    /// A patience for the locks that the commit of a run still needs. It has no place in a queue.
    pub(in crate::txn) fn of_commit(&self) -> Patience {
        Patience { caller: self.caller.clone(), place: None, ..*self }
    }
}

/// Why a wait ended.
enum Woken {
    Granted,
    /// The transaction was wounded, or nobody waits for its answer.
    Cut,
    TimeUp,
}

impl Transaction {
    /// Waits for `key`, which is asked for. A time in which nothing moves in the queue, random and so long at most,
    /// ends the wait; but a request that holds nothing else is in nobody's way and stays where it is for as many times
    /// as it might be run again.
    pub(super) async fn wait_for(&mut self, key: &Key, mut wait: KeyWait) -> Result<(), TxnError> {
        let runtime = self.inner.runtime.clone();
        let began = runtime.elapsed();
        let yields = matches!(self.kind, TxnKind::Plain | TxnKind::Script) && !self.patience.name.is_empty();
        let mut look_at =
            if yields { began + Duration::from_millis(self.inner.limits.txn_yield_ms) } else { Duration::MAX };
        let mut still_since = began;
        let mut fails_at = began + self.time_out();
        let (mut moves, mut failed) = (wait.standing(), 0);
        let stays = self.kind == TxnKind::Plain && self.held.keys.len() == 1;
        loop {
            let until = fails_at.min(look_at).saturating_sub(runtime.elapsed());
            match self.woken(wait.granted(), until).await {
                Woken::Granted => return Ok(()),
                Woken::Cut => return Err(self.cut(key)),
                Woken::TimeUp => {}
            }
            let now = runtime.elapsed();
            if now >= look_at {
                look_at = self.inner.wound_for(&wait, self.patience.name, began);
            }
            if now < fails_at {
                continue;
            }
            let standing = wait.standing();
            if standing == Standing::Granted {
                return Ok(());
            }
            if standing != moves {
                (moves, failed, still_since) = (standing, 0, now);
            } else if stays && failed < self.patience.left {
                failed += 1;
            } else {
                self.patience.place = Some((key.clone(), wait.number()));
                self.patience.left -= failed;
                let waited_ms = now.saturating_sub(still_since).as_millis();
                return Err(TxnError::Conflict(format!("waited {waited_ms} ms for the lock of {key}")));
            }
            fails_at = now + self.time_out();
        }
    }

    /// Waits for a key space that is being cleared, or about to be.
    pub(super) async fn wait_for_space(&self, mut wait: SpaceWait<'_>) -> Result<(), TxnError> {
        let limit = Duration::from_millis(self.inner.limits.lock_wait_ms_max);
        match self.woken(wait.granted(), limit).await {
            Woken::Granted => Ok(()),
            Woken::Cut => Err(self.cut("the key space")),
            Woken::TimeUp => Err(TxnError::Conflict("the key space is being cleared".into())),
        }
    }

    fn time_out(&self) -> Duration {
        let limits = &self.inner.limits;
        let spread = limits.lock_wait_ms_max.saturating_sub(limits.lock_wait_ms_min) + 1;
        Duration::from_millis(limits.lock_wait_ms_min + self.inner.runtime.random() % spread)
    }

    async fn woken(&self, granted: impl Future<Output = ()>, limit: Duration) -> Woken {
        let wounded = pin!(async {
            match &self.tenure {
                Some(tenure) => tenure.wounded().await,
                None => std::future::pending().await,
            }
        });
        let gone = pin!(async {
            match &self.patience.caller {
                Some(caller) => caller.gone().await,
                None => std::future::pending().await,
            }
        });
        let sleep = self.inner.runtime.sleep(limit);
        match select(pin!(granted), select(select(wounded, gone), sleep)).await {
            Either::Left(_) => Woken::Granted,
            Either::Right((Either::Left(_), _)) => Woken::Cut,
            Either::Right((Either::Right(_), _)) => Woken::TimeUp,
        }
    }

    /// Why a wait for `what` ended although its time was not up.
    fn cut(&self, what: impl std::fmt::Display) -> TxnError {
        match self.tenure.as_ref().and_then(|tenure| tenure.wound()) {
            Some(reason) => TxnError::Wounded(reason),
            None => TxnError::Gone(format!("its client has gone while it waited for {what}")),
        }
    }
}
