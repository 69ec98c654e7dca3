//! While nothing is carried over, since an operator has to compare what is buffered with the store first. That ends for
//! all at once ([`Gate::resume`]), or transaction by transaction: each is applied ([`Gate::apply_alone`]) or given up
//! ([`Gate::give_up`]), and with the last it is over.
//!
//! What was ordered is not journaled: a start before it is carried over finds what it was, and waits for the operator
//! again. If it had reached the store by then, its id says so when it is sent again. So nothing is ordered before the
//! store was reached since the start: what is found then is to be decided about, and nothing that was said before.

use std::sync::Arc;

use thiserror::Error;

use super::{Asker, Gate, Inner};
use crate::key::Key;
use crate::outage::pending::Meets;
use crate::outage::record::Standing;
use crate::outage::state::State;
use crate::store::ReadError;
use crate::version::TxnId;

/// Why a transaction can't be carried over as it is.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// All that waits is carried over anyway.
    #[error("what waits is carried over by itself")]
    NotSuspended,
    /// With the first answer since the start an operator has to decide anew, since nothing could be compared before.
    #[error("the database was not reached since the start")]
    NotReached,
    /// It is not here, or does not wait for the store.
    #[error("it does not wait for the store")]
    NotWaiting,
    /// An earlier one has to do with its documents.
    #[error("ticket {0} is ahead of it")]
    Behind(u64),
}

impl Gate {
    /// Has buffered transactions carried over although the store was found in an earlier state, or others had it; false
    /// if nothing stood in the way.
    pub fn resume(&self) -> bool {
        let mut state = self.inner.state();
        let was = state.suspended.is_some();
        if was {
            self.inner.end_suspension(&mut state);
        }
        was
    }

    /// Has transaction `number`, which waits, carried over by itself, whatever others have done to what it had read.
    /// Nothing else is.
    pub fn apply_alone(&self, number: u64) -> Result<(), ApplyError> {
        let mut state = self.inner.state();
        if state.opens_late {
            return Err(ApplyError::NotReached);
        }
        if state.suspended.is_none() {
            return Err(ApplyError::NotSuspended);
        }
        if let Some(Standing::Behind(other)) = state.buffer.standing(number) {
            return Err(ApplyError::Behind(other));
        }
        if !state.buffer.is_waiting(number) {
            return Err(ApplyError::NotWaiting);
        }
        if let Some(ahead) = state.buffer.ahead_of(number).filter(|ahead| !state.ordered.contains(ahead)) {
            return Err(ApplyError::Behind(ahead));
        }
        if state.ordered.insert(number) {
            state.buffer.uncheck(number);
        }
        self.inner.settle(&mut state);
        Ok(())
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
        // None: it is gone meanwhile.
        let meets =
            asked.iter().zip(&reads).map(|((key, _), read)| state.buffer.meets(number, key, read, current(key)));
        Ok(meets.flatten().collect())
    }
}

impl Inner {
    /// What is buffered is carried over by itself again. The tier is told, or the next start would wait anew.
    fn end_suspension(self: &Arc<Inner>, state: &mut State) {
        state.suspended = None;
        state.ordered.clear();
        self.settle(state);
        if self.store.is_another() {
            self.describe(state);
        } else {
            let inner = self.clone();
            self.runtime.spawn(async move { inner.remember().await });
        }
    }

    /// The same where an operator has decided about all.
    pub(in crate::outage) fn end_suspension_if_empty(self: &Arc<Inner>, state: &mut State) {
        if state.suspended.is_some() && state.buffer.is_empty() {
            tracing::info!("nothing that was buffered waits any more: no longer suspended");
            self.end_suspension(state);
        }
    }
}
