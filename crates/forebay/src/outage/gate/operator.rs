//! What an operator decides about quarantined transactions. One decision at a time is taken about each, and none is
//! acted upon before the journal has it. Otherwise a restart could give up what was tried again, and has landed.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::{Gate, Inner};
use crate::error::Unavailable;
use crate::mutation::{self, Fault};
use crate::outage::journal::AppendError;
use crate::outage::record::{Buffered, Dropped, Record, Standing};
use crate::outage::state::State;
use crate::store::Resolved;
use crate::version::{TxnId, Version};

/// What became of a transaction that was to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It will never be applied.
    Dropped,
    /// It had reached the store after all, late, and is there under this version.
    Landed(Version),
    /// It is not quarantined.
    NotQuarantined,
    /// Something else is being decided about it.
    Deciding,
    /// It waits, and something of its documents is on its way to the store: again soon.
    Moving,
}

/// Why a transaction can't be given up.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropError {
    /// The store has to say something first; again when it is back.
    #[error(transparent)]
    Away(#[from] Unavailable),
    /// The journal can't keep the decision.
    #[error(transparent)]
    Journal(#[from] AppendError),
}

impl Gate {
    /// Lets the store count as away for `time`, for drills; no time ends that, and the store is asked again.
    pub fn fail_for(&self, time: Duration) {
        let mut state = self.inner.state();
        if time.is_zero() {
            state.failed_until = None;
            return self.inner.settle(&mut state);
        }
        let now = self.inner.runtime.elapsed();
        state.failed_until = Some(now + time);
        let why = "an operator ordered it (DEBUG STORE FAIL)";
        state.writes.trip(why);
        state.reads.trip(why);
        self.inner.settle(&mut state);
    }

    /// Has quarantined transactions tried again: this one, or all that nobody else decides about; while nothing is
    /// applied they wait like the others. Answers how many, when the journal has that.
    pub async fn retry(&self, number: Option<u64>) -> usize {
        let inner = self.inner.clone();
        self.inner.to_its_end(async move { inner.retry(number).await }).await.unwrap_or_default()
    }

    /// Gives a quarantined transaction up, or one that waits while nothing is applied, for `reason`. Whoever may
    /// change its documents meanwhile builds on what goes: their locks are to be held.
    pub async fn give_up(&self, number: u64, reason: &str) -> Result<GivenUp, DropError> {
        let (inner, reason) = (self.inner.clone(), reason.to_owned());
        let ended = || Err(AppendError::Unknown { why: "its runtime has ended".to_owned() }.into());
        // Whoever waits for it: what the journal has given up must not stay here.
        let done = self.inner.to_its_end(async move { inner.give_up(number, &reason).await });
        done.await.unwrap_or_else(|_| ended())
    }
}

impl Inner {
    async fn retry(self: Arc<Inner>, number: Option<u64>) -> usize {
        let noted: Vec<_> = {
            let mut state = self.state();
            let numbers: Vec<u64> = match number {
                Some(number) => vec![number],
                None => state.buffer.quarantine_list().into_iter().map(|(number, _)| number).collect(),
            };
            let State { buffer, decided, .. } = &mut *state;
            let mut free = |number: &u64| {
                let quarantined = matches!(buffer.standing(*number), Some(Standing::Quarantined(_)));
                quarantined && decided.insert(*number)
            };
            let free: Vec<u64> = numbers.into_iter().filter(|number| free(number)).collect();
            free.into_iter().map(|number| (number, self.note(&Record::Retried { number }))).collect()
        };
        let mut tried = 0;
        for (number, noted) in noted {
            let noted = match noted.await {
                Ok(()) => self.journal.flush().await,
                Err(error) => Err(error),
            };
            let mut state = self.state();
            state.decided.remove(&number);
            state.tickets.wake(number);
            match noted {
                Ok(()) => {
                    state.buffer.retry(number);
                    tried += 1;
                }
                Err(error) => tracing::error!(number, %error, "a buffered transaction can't be tried again"),
            }
            self.settle(&mut state);
        }
        tried
    }

    /// Takes a transaction that waits for an operator, or is suspended, into the hands of one who gives it up; an error
    /// says why it can't be.
    fn begin_to_give_up(&self, number: u64) -> Result<(Buffered, bool), GivenUp> {
        let mut state = self.state();
        // While nothing is applied, an operator decides about what waits as well.
        let waited = state.suspended.is_some() && state.buffer.standing(number) == Some(Standing::Waiting);
        if state.decided.contains(&number) {
            return Err(GivenUp::Deciding);
        }
        if waited {
            if !state.buffer.is_still(number) {
                return Err(GivenUp::Moving);
            }
            state.buffer.quarantine(number, "an operator is giving it up".to_owned());
        }
        let quarantined = matches!(state.buffer.standing(number), Some(Standing::Quarantined(_)));
        match state.buffer.buffered(number).cloned() {
            Some(buffered) if quarantined && state.decided.insert(number) => Ok((buffered, waited)),
            _ => Err(GivenUp::NotQuarantined),
        }
    }

    async fn give_up(self: Arc<Inner>, number: u64, reason: &str) -> Result<GivenUp, DropError> {
        let (buffered, waited) = match self.begin_to_give_up(number) {
            Ok(taken) => taken,
            Err(why) => return Ok(why),
        };
        let Buffered { id, version, sent, given, .. } = buffered;
        let landed = match sent && !mutation::on(Fault::DroppedWithoutTombstone) {
            true => self.has_landed(id).await,
            false => Ok(false),
        };
        let noted = match landed {
            Ok(landed) => {
                let record = match landed {
                    true => Record::Applied(vec![number]),
                    false => Record::Dropped(Dropped { number, reason: reason.to_owned(), given }),
                };
                self.note_safely(&record).await.map(|()| landed).map_err(DropError::from)
            }
            Err(ref away) => Err(away.clone().into()),
        };
        let mut state = self.state();
        state.decided.remove(&number);
        state.tickets.wake(number);
        let gone = match noted {
            Ok(true) => state.buffer.landed(number),
            Ok(false) => state.buffer.give_up(number),
            Err(error) => {
                // If the journal knows nothing of that, it waits as before.
                if waited && !matches!(error, DropError::Journal(AppendError::Unknown { .. })) {
                    state.buffer.retry(number);
                    self.settle(&mut state);
                }
                return Err(error);
            }
        };
        let Some(keys) = gone else { return Ok(GivenUp::NotQuarantined) };
        state.invalidate(keys);
        let ended = match landed {
            Ok(true) => {
                tracing::warn!(number, "a quarantined transaction was found to have landed in the store");
                state.tickets.applied(number, version);
                state.counts.applied += 1;
                GivenUp::Landed(version)
            }
            _ => {
                tracing::warn!(number, reason, "a buffered transaction was given up by an operator");
                state.tickets.dropped(number, reason);
                state.counts.dropped += 1;
                GivenUp::Dropped
            }
        };
        self.end_suspension_if_empty(&mut state);
        self.settle(&mut state);
        Ok(ended)
    }

    /// Has the journal keep `record` before anything is written in its place: a restart must not bring that back.
    async fn note_safely(&self, record: &Record) -> Result<(), AppendError> {
        self.note(record).await?;
        self.journal.flush().await
    }

    /// Whether the commit `id`, which the store may have seen, is in it; if not, it never will be: a late arrival finds
    /// its id taken.
    async fn has_landed(&self, id: TxnId) -> Result<bool, Unavailable> {
        self.check_up("it may have been sent, and only the store can say that it will never be applied")?;
        Ok(self.store.outcome(id).await? == Resolved::Applied)
    }
}
