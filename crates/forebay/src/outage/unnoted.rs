//! What the store has and the journal can't say yet: there was no room on its disk, or it has failed.
//!
//! **Invariants.** A document is written directly again only when the journal says that what it waited for is
//! applied. Otherwise a start would bring that back and show it in place of the write. Of one document nothing is
//! noted before what came earlier is; so while something is here, later notes queue up. An id is kept by the store as
//! long as the journal may bring its transaction back. Nothing else waits: the drain goes on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashSet;

use super::gate::Inner;
use super::journal::{AppendError, NUMBERS_MAX};
use super::lanes::Lane;
use super::pending::Batch;
use super::record::Record;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::tier::Appending;
use crate::version::TxnId;

/// Pause between two attempts to note something.
const AGAIN_EVERY: Duration = Duration::from_millis(200);

type Set<T> = HashSet<T, foldhash::quality::RandomState>;

/// One batch that is applied: what the journal is to be told.
pub(super) struct Applied {
    /// Documents that those behind it are made to, or were shown; before the rest.
    known: Vec<Record>,
    numbers: Vec<u64>,
    ids: Vec<TxnId>,
    /// Documents that it wrote, and those that share their places.
    keys: Vec<Key>,
    /// Their lanes in which all is in order.
    lanes: Vec<Lane>,
}

/// All that the journal is still to be told, oldest first.
#[derive(Default)]
pub(super) struct Unnoted {
    batches: Vec<Applied>,
    keys: Set<Key>,
    lanes: Set<Lane>,
}

impl Unnoted {
    /// Transactions.
    pub(super) fn count(&self) -> usize {
        self.batches.iter().map(|batch| batch.numbers.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether a write of one of these documents must not go to the store directly.
    pub(super) fn holds<'a>(&self, lanes: &[Lane], mut keys: impl Iterator<Item = &'a Key>) -> bool {
        if self.is_empty() || mutation::on(Fault::UnnotedForgotten) {
            return false;
        }
        lanes.iter().any(|lane| self.lanes.contains(lane)) || keys.any(|key| self.keys.contains(key))
    }

    /// The smallest id of all.
    pub(super) fn oldest_id(&self) -> Option<TxnId> {
        self.batches.iter().flat_map(|batch| &batch.ids).min().copied()
    }

    fn push(&mut self, batch: Applied) {
        self.keys.extend(batch.keys.iter().cloned());
        self.lanes.extend(&batch.lanes);
        self.batches.push(batch);
    }

    /// The first so many are noted.
    fn noted(&mut self, count: usize) {
        self.batches.drain(..count);
        self.keys = self.batches.iter().flat_map(|batch| batch.keys.iter().cloned()).collect();
        self.lanes = self.batches.iter().flat_map(|batch| &batch.lanes).copied().collect();
    }

    /// What the journal is to be told of all, at once: first of documents, which have to be known before what they were
    /// known by is gone; but nothing of transactions that are applied themselves.
    fn records(&self) -> Vec<Record> {
        let mut numbers: Vec<u64> = self.batches.iter().flat_map(|batch| &batch.numbers).copied().collect();
        numbers.sort_unstable();
        let of_applied = |record: &Record| {
            let (Record::Known { number, .. } | Record::Settled { number, .. }) = record else { return false };
            numbers.binary_search(number).is_ok() && !mutation::on(Fault::AppliedLearned)
        };
        let known = self.batches.iter().flat_map(|batch| &batch.known).filter(|record| !of_applied(record));
        let applied = numbers.chunks(NUMBERS_MAX).map(|some| Record::Applied(some.to_vec()));
        known.cloned().chain(applied).collect()
    }
}

impl Inner {
    /// Has the journal say that the first of `batch` are in the store, as many as `changed` has lists; if it can't,
    /// that is remembered until it can. False if the batch has to stay as it is.
    pub(super) async fn note_applied(self: &Arc<Inner>, batch: &Batch, changed: &[Vec<(Key, Read)>]) -> bool {
        if mutation::on(Fault::AppliedNotNoted) {
            return true;
        }
        let (applied, noted) = {
            let mut state = self.state();
            let applied = self.applied_of(batch, state.buffer.heads(batch, changed), changed.len());
            if !state.unnoted.is_empty() {
                state.unnoted.push(applied);
                return true;
            }
            // Under the lock: nothing comes between.
            let noted = self.note_all(applied.known.iter().chain([&Record::Applied(applied.numbers.clone())]));
            (applied, noted)
        };
        let Err(error) = self.all_noted(noted).await else { return true };
        if mutation::on(Fault::UnnotedStopsDrain) {
            return false;
        }
        tracing::warn!(
            %error, count = applied.numbers.len(),
            "what was carried over can't be noted yet: its documents are not written directly before it is"
        );
        let mut state = self.state();
        if state.unnoted.is_empty() {
            self.runtime.spawn(note_again(Arc::downgrade(self)));
        }
        state.unnoted.push(applied);
        true
    }

    /// Has the journal say that the first of `batch` goes unchecked, if it does. False if it can't now.
    pub(super) async fn note_unchecked(self: &Arc<Inner>, batch: &Batch) -> bool {
        let (number, noted) = {
            let state = self.state();
            let Some(record) = state.buffer.unchecked(batch) else { return true };
            (batch.numbers.first().copied().unwrap_or_default(), self.note(&record))
        };
        if let Err(error) = self.all_noted(noted).await {
            if self.state().buffer.is_held_up(number) {
                let why = "a write to what others have changed waits until the journal can note that";
                tracing::warn!(number, %error, "{why}");
            }
            self.runtime.sleep(AGAIN_EVERY).await;
            return false;
        }
        self.state().buffer.is_unchecked(number);
        true
    }

    /// Of `batch` the first `count`; `known` is what the journal is told of documents first.
    fn applied_of(&self, batch: &Batch, known: Vec<Record>, count: usize) -> Applied {
        let commits = &batch.commits[..count];
        let written = || commits.iter().flat_map(|commit| commit.writes.iter().map(|write| &write.key));
        let mut keys: Vec<Key> = written().flat_map(|key| self.store.beside(key)).collect();
        keys.extend(written().cloned());
        let lanes = self.settings.lanes.lanes(&*self.store, written());
        // Of several lanes their numbers need not rise.
        let mut numbers = batch.numbers[..count].to_vec();
        numbers.sort_unstable();
        Applied {
            known,
            numbers,
            ids: commits.iter().map(|commit| commit.id).collect(),
            keys,
            lanes: lanes.into_iter().filter(|lane| matches!(lane, Lane::Together(_))).collect(),
        }
    }

    /// Waits until the journal has these, and they are safe.
    async fn all_noted(&self, notes: Appending) -> Result<(), AppendError> {
        let noted = match notes.await {
            Ok(()) => self.journal.flush().await,
            Err(error) => Err(error),
        };
        match noted {
            // No start will bring these transactions back, and what is in memory is all there is of the others.
            Err(AppendError::Removed { .. }) => Ok(()),
            noted => noted,
        }
    }

    /// Has the journal told of all that it does not know yet; whether nothing is left.
    pub(super) async fn note_rest(&self) -> bool {
        let (noted, count) = {
            let state = self.state();
            // Under the lock: nothing comes between.
            (self.note_all(&state.unnoted.records()), state.unnoted.batches.len())
        };
        let noted = self.all_noted(noted).await;
        let mut state = self.state();
        if noted.is_ok() {
            state.unnoted.noted(count);
            self.store.keep_ids_from(state.oldest_id());
            self.settle(&mut state);
        }
        state.unnoted.is_empty()
    }
}

/// Tells the journal until it knows all, or will never know anything more.
async fn note_again(weak: Weak<Inner>) {
    loop {
        let Some(runtime) = weak.upgrade().map(|inner| inner.runtime.clone()) else { return };
        runtime.sleep(AGAIN_EVERY).await;
        let Some(inner) = weak.upgrade() else { return };
        let closed = || inner.journal.closed().is_some_and(|why| !matches!(why, AppendError::Removed { .. }));
        if closed() || inner.note_rest().await {
            return;
        }
    }
}
