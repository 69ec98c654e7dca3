//! The runs of one request as a transaction: again from nothing after a conflict, with the patience that is left.
//!
//! **Invariant.** Nothing of a run is left when the next one begins: its transaction was dropped with all that it had
//! locked, read and changed. Only its number, and its place in the queue of a key, go on.

use super::locking::Patience;
use super::plan::Overtaken;
use super::{Ahead, Committing, Engine, Executed, Mode, Ordering, Plan, Transaction, TxnError, TxnKind};
use crate::cache::Context;

/// The runs of one request. [`Engine::execute`] goes through them by itself; what waits in the middle of its run, as a
/// script does, goes through them step by step.
pub struct Runs {
    engine: Engine,
    /// What all runs are counted as.
    number: u64,
    context: Context,
    patience: Patience,
}

impl Runs {
    /// Those of a request that does what `plan` says.
    pub(super) fn new(engine: &Engine, plan: &Plan, context: Context) -> Runs {
        let number = engine.inner.next_owner.fetch_add(1, Ordering::Relaxed);
        let (name, no_wait, caller) = (plan.name, plan.no_wait, plan.caller.clone());
        let left = if no_wait { 0 } else { engine.inner.limits.retries_max };
        Runs {
            engine: engine.clone(),
            number,
            context,
            patience: Patience { name, no_wait, caller, left, place: None },
        }
    }

    /// The next run, with nothing locked yet.
    pub(super) async fn next(&mut self, plan: &Plan, kind: TxnKind) -> Transaction {
        let written = || plan.locks.iter().filter(|lock| lock.mode == Mode::Exclusive).count();
        if let (false, written @ 1..) = (self.engine.inner.at_once, written()) {
            self.engine.inner.committer.has_room(written).await;
        }
        let mut transaction = self.engine.begin_as(self.number, kind, self.context);
        transaction.patience = std::mem::take(&mut self.patience);
        transaction
    }

    /// A run is over but for its end: what is left of its patience is the next one's.
    pub(super) fn is_over(&mut self, transaction: &mut Transaction) {
        self.patience = std::mem::take(&mut transaction.patience);
    }

    /// Begins the run of a script: locks and loads what `plan` says. Or how it ended, if what that watches has changed.
    pub async fn begin<T>(
        &mut self,
        plan: &Plan,
        ahead: &mut Ahead,
    ) -> Result<Result<Transaction, Executed<T>>, TxnError> {
        let mut transaction = self.next(plan, TxnKind::Script).await;
        let prepared = transaction.prepare(plan, ahead).await;
        if !matches!(prepared, Ok(None)) {
            self.is_over(&mut transaction);
        }
        match prepared? {
            None => Ok(Ok(transaction)),
            Some(overtaken) => overtaken_by(transaction, overtaken).await.map(Err),
        }
    }

    /// Commits the run of a script, which may have to wait for locks still.
    pub async fn commit(&mut self, mut transaction: Transaction) -> Result<Committing, TxnError> {
        self.is_over(&mut transaction);
        transaction.patience = self.patience.of_commit();
        self.hand_over(transaction).await
    }

    /// Commits a run that is over.
    pub(super) async fn hand_over(&self, transaction: Transaction) -> Result<Committing, TxnError> {
        match transaction.commit().await {
            // Where others write too, it is the store that finds the conflict.
            Ok(committing) if !self.engine.inner.store.caps().owned => committing.settle().await,
            ended => ended,
        }
    }

    /// Gives up what the run of a script has changed. What it has read is to be shown only once it is published.
    pub fn roll_back(&mut self, mut transaction: Transaction) -> Committing {
        self.is_over(&mut transaction);
        transaction.roll_back()
    }

    /// Whether the request is to run again after this error; the run that had it is over.
    pub fn again(&mut self, error: &TxnError) -> bool {
        let again = matches!(error, TxnError::Conflict(_)) && self.patience.left > 0;
        self.patience.left -= u32::from(again);
        again
    }
}

/// How a run ended whose plan watches what has changed. That it has is shown like anything else: once it is published.
pub(super) async fn overtaken_by<T>(transaction: Transaction, overtaken: Overtaken) -> Result<Executed<T>, TxnError> {
    transaction.roll_back().wait().await.map(|_| match overtaken {
        Overtaken::Watched => Executed::WatchFailed,
        Overtaken::Stale(stale) => Executed::Stale(stale),
    })
}
