//! While nothing is applied, since an operator has to compare what is buffered with the store first. That ends for
//! all at once ([`Gate::resume`]), or transaction by transaction. Each is applied ([`Gate::apply`]) or given up
//! ([`Gate::give_up`]), and with the last it is over.
//!
//! **Invariants.** What an operator was answered stands in the tier: a start after that goes on with it. The one
//! exception is a store which the tier does not know yet. What is decided about that one must not be done to the
//! first, should that come back. Nothing is decided before the store was reached since the start, for what is found
//! then may be another thing than what was compared. When the store is found in an earlier state, or others had it,
//! what was decided before is forgotten. The tier forgets that before it remembers the store.

use std::sync::Arc;

use futures_channel::oneshot;
use thiserror::Error;

use super::{Asker, Gate, Inner};
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::journal::AppendError;
use crate::outage::pending::Meets;
use crate::outage::record::{Record, Standing};
use crate::outage::state::State;
use crate::outage::tickets;
use crate::store::ReadError;
use crate::store::portion::read_each;
use crate::version::TxnId;

/// Documents of earlier transactions that the store is asked for when a row is to be deleted alone: what they name.
const NAMING_MAX: usize = 4096;

/// Why a transaction can't be applied as it is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// It is not here, or all that waits is applied anyway.
    #[error("it does not wait for an operator")]
    NotWaiting,
    /// With the first answer since the start an operator has to decide again, since nothing could be compared before.
    #[error("the database was not reached since the start")]
    NotReached,
    /// The store refuses it.
    #[error("the store refuses it, whatever it had read")]
    Refused,
    /// An earlier one has to do with its documents.
    #[error("ticket {0} is ahead of it")]
    Behind(u64),
    /// Something else is being decided about it, or it is on its way to the journal.
    #[error("something else is being decided about it")]
    Deciding,
    /// The store was found in an earlier state by then.
    #[error("the store was found in an earlier state meanwhile")]
    Again,
    /// The store has to say first what its rows name.
    #[error(transparent)]
    Away(#[from] Unavailable),
    /// The journal can't keep the decision.
    #[error(transparent)]
    Journal(#[from] AppendError),
}

/// Why what waits is not applied by an operator's word.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// Nothing stands in its way.
    #[error("nothing stands in the way of what is buffered")]
    NotSuspended,
    /// With the first answer since the start an operator has to decide again.
    #[error("the database was not reached since the start")]
    NotReached,
    /// That is being noted already.
    #[error("another operator has just said so")]
    Deciding,
    /// The store was found in an earlier state by then.
    #[error("the store was found in an earlier state meanwhile")]
    Again,
    /// The journal can't keep the decision.
    #[error(transparent)]
    Journal(#[from] AppendError),
}

impl Gate {
    /// Has buffered transactions applied although the store was found in an earlier state, or others had it. Done
    /// when the tier knows that.
    pub async fn resume(&self) -> Result<(), ResumeError> {
        let inner = self.inner.clone();
        let ended = || Err(AppendError::Unknown { why: "its runtime has ended".to_owned() }.into());
        self.inner.to_its_end(async move { inner.resume().await }).await.unwrap_or_else(|_| ended())
    }

    /// Has transaction `number` applied, whatever others have done to what it had read: one that is quarantined
    /// for that, or one that waits while nothing else is applied. Done when the journal knows that.
    pub async fn apply(&self, number: u64) -> Result<(), ApplyError> {
        let inner = self.inner.clone();
        let ended = || Err(AppendError::Unknown { why: "its runtime has ended".to_owned() }.into());
        self.inner.to_its_end(async move { inner.apply(number).await }).await.unwrap_or_else(|_| ended())
    }

    /// What transaction `number` meets in the store: of its documents the first, at most so many. Nothing if it is not
    /// here.
    pub async fn meets(&self, number: u64, documents_max: usize) -> Result<Vec<Meets>, ReadError> {
        let inner = &self.inner;
        inner.check_up("what the store holds can't be compared")?;
        let (asked, away) = {
            let mut state = inner.state();
            let writes = state.buffer.buffered(number).map(|buffered| &buffered.writes);
            let keys = writes.into_iter().flatten().take(documents_max).map(|write| write.key.clone());
            let asked = keys.map(|key| (key.clone(), state.buffer.story_of(&key).ids()));
            (asked.collect::<Vec<(Key, Vec<TxnId>)>>(), state.next_outage())
        };
        let reads = match inner.ask_to_read(inner.store.get_with_ids(&asked), away, Asker::Ourselves).await? {
            Some(reads) => reads,
            None => {
                let keys: Vec<Key> = asked.iter().map(|(key, _)| key.clone()).collect();
                let away = inner.state().next_outage();
                let reads = inner.ask_to_get(&keys, usize::MAX, away, Asker::Ourselves).await?;
                reads.into_iter().map(|read| (read, Vec::new())).collect()
            }
        };
        let (known, away) = {
            let mut state = inner.state();
            let keys = asked.iter().map(|(key, _)| key);
            let known = keys.filter_map(|key| state.buffer.made_to(key).map(|version| (key.clone(), version)));
            (known.collect::<Vec<_>>(), state.next_outage())
        };
        // After the read: what changes between the two is told as changed.
        let stale = match known.is_empty() {
            true => Vec::new(),
            false => inner.ask_to_read(inner.store.check(&known), away, Asker::Ourselves).await?,
        };
        let current = |key: &Key| {
            let version = known.iter().find(|(known, _)| known == key).map(|(_, version)| *version);
            version.map(|version| (version, !stale.contains(key)))
        };
        let state = inner.state();
        // None: it is gone by now.
        let meets =
            asked.iter().zip(&reads).map(|((key, _), read)| state.buffer.meets(number, key, read, current(key)));
        Ok(meets.flatten().collect())
    }
}

impl Inner {
    /// Does `work` to its end, whoever waits for it.
    pub(super) fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, done) = oneshot::channel();
        self.runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        done
    }

    async fn resume(self: &Arc<Inner>) -> Result<(), ResumeError> {
        let told = {
            let mut state = self.state();
            match (&state.suspended, state.opens_late) {
                // Whether others had it is not known yet.
                (_, true) => return Err(ResumeError::NotReached),
                (None, _) => return Err(ResumeError::NotSuspended),
                _ if state.resuming => return Err(ResumeError::Deciding),
                _ => state.resuming = true,
            }
            match mutation::on(Fault::ResumeForgotten) {
                true => None,
                false => Some(self.tell(&mut state)),
            }
        };
        let told = match told {
            Some(told) => told.await,
            None => Ok(()),
        };
        let mut state = self.state();
        let still = std::mem::take(&mut state.resuming);
        match told {
            Err(error) => Err(error.into()),
            Ok(()) if !still || state.suspended.is_none() => Err(ResumeError::Again),
            Ok(()) => {
                self.end_suspension(&mut state);
                Ok(())
            }
        }
    }

    async fn apply(self: &Arc<Inner>, number: u64) -> Result<(), ApplyError> {
        if let Some(ahead) = self.names_what_goes(number).await? {
            return Err(ApplyError::Behind(ahead));
        }
        let (noted, suspensions) = {
            let mut state = self.state();
            if !self.may_apply(&state, number)? {
                return Ok(());
            }
            // What is decided about another store than the tier knows is not decided about the one that it knows.
            let kept = !self.keeps_first(&state) && !mutation::on(Fault::OrderForgotten);
            let noted = kept.then(|| self.note(&Record::Ordered { number }));
            state.decided.insert(number);
            (noted, state.suspensions)
        };
        let noted = match noted {
            Some(noted) => match noted.await {
                Ok(()) => self.journal.flush().await,
                Err(error) => Err(error),
            },
            None => Ok(()),
        };
        let mut state = self.state();
        state.decided.remove(&number);
        state.tickets.wake(number);
        noted?;
        if state.suspensions != suspensions {
            drop(self.note(&Record::Retried { number }));
            return Err(ApplyError::Again);
        }
        state.buffer.retry(number);
        if state.buffer.standing(number).is_some() {
            state.buffer.order(number);
        }
        if state.suspended.is_none() {
            state.buffer.uncheck(number);
        }
        self.settle(&mut state);
        Ok(())
    }

    /// Whether transaction `number` can be applied by an operator's word, and is not yet.
    fn may_apply(&self, state: &State, number: u64) -> Result<bool, ApplyError> {
        if state.opens_late {
            return Err(ApplyError::NotReached);
        }
        if state.decided.contains(&number) || state.verdicts.contains(&number) {
            return Err(ApplyError::Deciding);
        }
        let suspended = state.suspended.is_some();
        match state.buffer.standing(number) {
            Some(Standing::Ordered) => return Ok(false),
            Some(Standing::Quarantined(why)) if !tickets::is_conflict(&why) => return Err(ApplyError::Refused),
            Some(Standing::Quarantined(_)) => {}
            Some(Standing::Behind(other)) => return Err(ApplyError::Behind(other)),
            Some(Standing::Waiting) if suspended && state.buffer.is_waiting(number) => {}
            Some(Standing::Waiting) if suspended => return Err(ApplyError::Deciding),
            Some(Standing::Waiting) | None => return Err(ApplyError::NotWaiting),
        }
        let ahead = state.buffer.ahead_of(number).filter(|ahead| suspended && !state.buffer.is_ordered(*ahead));
        ahead.map_or(Ok(true), |ahead| Err(ApplyError::Behind(ahead)))
    }

    /// The first before transaction `number` whose row names in the store what this one deletes, while nothing is
    /// applied: the store would refuse it for that.
    async fn names_what_goes(&self, number: u64) -> Result<Option<u64>, ApplyError> {
        let (deleted, written) = {
            let state = self.state();
            if state.suspended.is_none() || !self.may_apply(&state, number)? {
                return Ok(None);
            }
            state.buffer.may_be_named(number, NAMING_MAX)
        };
        if written.is_empty() {
            return Ok(None);
        }
        self.check_up("what rows name can't be compared")?;
        let keys: Vec<Key> = written.iter().map(|(_, key)| key.clone()).collect();
        let mut naming = Vec::with_capacity(keys.len());
        let read = read_each(&*self.store, &keys, |key, read| {
            naming.push(self.named_by(key, read).iter().any(|named| deleted.contains(named)));
        });
        match read.await {
            Ok(()) => {}
            Err(ReadError::Unavailable(away)) => return Err(away.into()),
            // What can't be read says nothing: the store may yet refuse it.
            Err(_) => return Ok(None),
        }
        Ok(written.iter().zip(naming).find(|(_, naming)| *naming).map(|((other, _), _)| *other))
    }

    /// What is buffered is applied by itself again.
    fn end_suspension(self: &Arc<Inner>, state: &mut State) {
        state.suspended = None;
        state.buffer.uncheck_ordered();
        self.settle(state);
        if mutation::on(Fault::ResumeForgotten) {
            self.describe(state);
        }
    }

    /// Likewise where an operator has decided about all: of nothing nothing has to be known.
    pub(in crate::outage) fn end_suspension_if_empty(self: &Arc<Inner>, state: &mut State) {
        if state.suspended.is_some() && state.buffer.is_empty() {
            tracing::info!("nothing that was buffered waits any more: no longer suspended");
            self.end_suspension(state);
            let told = self.tell(state);
            self.runtime.spawn(async move {
                let _ = told.await;
            });
        }
    }
}
