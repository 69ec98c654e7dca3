//! What the store has and the journal can't say yet: there was no room on its disk, or it has failed.
//!
//! **Invariants.** A document is written directly again only when the journal says that what it waited for is
//! applied. Otherwise a start would bring that back and show it in place of the write. Of one document nothing is
//! noted before what came earlier is; so while something is here, later notes queue up. An id is kept by the store as
//! long as the journal may bring its transaction back. Nothing else waits: the drain goes on.
//!
//! What has to be said first of those that still wait is as long as their documents. Where that finds no room, it holds
//! up only what has documents in common with it. The rest is short, and finds the room that is kept for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use super::gate::Inner;
use super::journal::{AppendError, NUMBERS_MAX};
use super::lanes::Lane;
use super::pending::Batch;
use super::record::Record;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::read::Read;
use crate::store::Commit;
use crate::tier::Appending;
use crate::version::TxnId;

/// Pause between two attempts to note something.
const AGAIN_EVERY: Duration = Duration::from_millis(200);

type Set<T> = HashSet<T, foldhash::quality::RandomState>;
type Index<T> = HashMap<T, Vec<usize>, foldhash::quality::RandomState>;

/// What the journal is to be told of transactions that are applied: all of it or nothing.
#[derive(Default)]
pub(super) struct Applied {
    /// Documents that those after them are made to, or were shown; before the rest.
    known: Vec<Record>,
    numbers: Vec<u64>,
    ids: Vec<TxnId>,
    /// Documents that they wrote, and those that share their places.
    keys: Vec<Key>,
    /// Their lanes in which all is in order.
    lanes: Vec<Lane>,
}

impl Applied {
    fn join(&mut self, other: Applied) {
        self.known.extend(other.known);
        self.numbers.extend(other.numbers);
        self.ids.extend(other.ids);
        self.keys.extend(other.keys);
        self.lanes.extend(other.lanes);
    }

    /// By which they are told apart.
    fn name(&self) -> Option<u64> {
        self.numbers.first().copied()
    }
}

/// What `records` say is known goes to one of `applied`, one for each transaction, that wrote the document. Where none
/// did, they stay together.
fn apart(mut applied: Vec<Applied>, records: Vec<Record>) -> Vec<Applied> {
    let mut others = Vec::new();
    for record in records {
        let (Record::Known { key, .. } | Record::Settled { key, .. }) = &record else {
            others.push(record);
            continue;
        };
        match applied.iter_mut().rfind(|one| one.keys.contains(key)) {
            Some(one) => one.known.push(record),
            None => others.push(record),
        }
    }
    if others.is_empty() {
        return applied;
    }
    let mut all = Applied { known: others, ..Applied::default() };
    applied.into_iter().for_each(|one| all.join(one));
    vec![all]
}

/// What is told at a time, and of which.
struct Telling {
    records: Vec<Record>,
    of: Set<u64>,
}

/// All that the journal is still to be told, oldest first.
#[derive(Default)]
pub(super) struct Unnoted {
    applied: Vec<Applied>,
    keys: Set<Key>,
    lanes: Set<Lane>,
}

impl Unnoted {
    /// Transactions.
    pub(super) fn count(&self) -> usize {
        self.applied.iter().map(|some| some.numbers.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.applied.is_empty()
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
        self.applied.iter().flat_map(|some| &some.ids).min().copied()
    }

    fn push(&mut self, applied: Vec<Applied>) {
        for some in applied {
            self.keys.extend(some.keys.iter().cloned());
            self.lanes.extend(&some.lanes);
            self.applied.push(some);
        }
    }

    /// The journal was told of these.
    fn noted(&mut self, of: &Set<u64>) {
        self.applied.retain(|some| some.name().is_some_and(|name| !of.contains(&name)));
        self.keys = self.applied.iter().flat_map(|some| some.keys.iter().cloned()).collect();
        self.lanes = self.applied.iter().flat_map(|some| &some.lanes).copied().collect();
    }

    /// What the journal is to be told, at once: first of documents, which have to be known before what they were known
    /// by is gone; but nothing of transactions that are not `pending`. If it may be `short` only, of those of which
    /// nothing long has to be said first, nor of what comes before or after them.
    fn telling(&self, short: bool, pending: impl Fn(u64) -> bool) -> Telling {
        let is_needed = |record: &&Record| {
            let (Record::Known { number, .. } | Record::Settled { number, .. }) = record else { return true };
            pending(*number) || mutation::on(Fault::AppliedLearned)
        };
        let known: Vec<Vec<&Record>> =
            self.applied.iter().map(|some| some.known.iter().filter(is_needed).collect()).collect();
        let waits = if short { self.tied_to(|at| !known[at].is_empty()) } else { vec![false; known.len()] };
        let told = || (0..known.len()).filter(|at| !waits[*at]);
        let mut numbers: Vec<u64> = told().flat_map(|at| &self.applied[at].numbers).copied().collect();
        numbers.sort_unstable();
        let applied = numbers.chunks(NUMBERS_MAX).map(|some| Record::Applied(some.to_vec()));
        let records = told().flat_map(|at| known[at].iter().copied().cloned()).chain(applied).collect();
        Telling { records, of: told().filter_map(|at| self.applied[at].name()).collect() }
    }

    /// Those that `begin`, and all that have documents or lanes in common with them, or with such.
    fn tied_to(&self, begin: impl Fn(usize) -> bool) -> Vec<bool> {
        let (mut by_key, mut by_lane): (Index<&Key>, Index<Lane>) = Default::default();
        for (at, some) in self.applied.iter().enumerate() {
            some.keys.iter().for_each(|key| by_key.entry(key).or_default().push(at));
            some.lanes.iter().for_each(|lane| by_lane.entry(*lane).or_default().push(at));
        }
        let mut tied: Vec<bool> = (0..self.applied.len()).map(begin).collect();
        let mut open: Vec<usize> = (0..tied.len()).filter(|at| tied[*at]).collect();
        while let Some(at) = open.pop() {
            let keys = self.applied[at].keys.iter().filter_map(|key| by_key.remove(key));
            let lanes = self.applied[at].lanes.iter().filter_map(|lane| by_lane.remove(lane));
            for other in keys.chain(lanes).flatten() {
                if !std::mem::replace(&mut tied[other], true) {
                    open.push(other);
                }
            }
        }
        tied
    }
}

impl Inner {
    /// Has the journal say that the first of `batch` are in the store, as many as `changed` has lists; if it can't,
    /// that is remembered until it can. False if the batch has to stay as it is.
    pub(super) async fn note_applied(self: &Arc<Inner>, batch: &Batch, changed: &[Vec<(Key, Read)>]) -> bool {
        if mutation::on(Fault::AppliedNotNoted) {
            return true;
        }
        let (known, noted) = {
            let mut state = self.state();
            let known = state.buffer.heads(batch, changed);
            if !state.unnoted.is_empty() {
                let applied = self.applied_of(batch, changed.len());
                state.unnoted.push(apart(applied, known));
                return true;
            }
            // Of several lanes their numbers need not rise.
            let mut numbers = batch.numbers[..changed.len()].to_vec();
            numbers.sort_unstable();
            // Under the lock: nothing comes between.
            let noted = self.note_all(known.iter().chain([&Record::Applied(numbers)]));
            (known, noted)
        };
        let Err(error) = self.all_noted(noted).await else { return true };
        if mutation::on(Fault::UnnotedStopsDrain) {
            return false;
        }
        tracing::warn!(
            %error, count = changed.len(),
            "what was carried over can't be noted yet: its documents are not written directly before it is"
        );
        let mut state = self.state();
        if state.unnoted.is_empty() {
            self.runtime.spawn(note_again(Arc::downgrade(self)));
        }
        state.unnoted.push(apart(self.applied_of(batch, changed.len()), known));
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

    /// Of `batch` the first `count`, one for each.
    fn applied_of(&self, batch: &Batch, count: usize) -> Vec<Applied> {
        let one = |(number, commit): (&u64, &Commit)| {
            let written = || commit.writes.iter().map(|write| &write.key);
            let mut keys: Vec<Key> = written().flat_map(|key| self.store.beside(key)).collect();
            keys.extend(written().cloned());
            let lanes = self.settings.lanes.lanes(&*self.store, written());
            let lanes = lanes.into_iter().filter(|lane| matches!(lane, Lane::Together(_))).collect();
            Applied { known: Vec::new(), numbers: vec![*number], ids: vec![commit.id], keys, lanes }
        };
        batch.numbers.iter().zip(&batch.commits).take(count).map(one).collect()
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

    /// Has the journal told of all that it does not know yet, or where there is no room for that, of what is short;
    /// whether nothing is left.
    pub(super) async fn note_rest(&self) -> bool {
        for short in [false, true] {
            let (noted, of) = {
                let state = self.state();
                let told = state.unnoted.telling(short, |number| state.buffer.is_pending(number));
                if told.records.is_empty() || (short && mutation::on(Fault::UnnotedTogether)) {
                    break;
                }
                // Under the lock: nothing comes between.
                (self.note_all(&told.records), told.of)
            };
            let noted = self.all_noted(noted).await;
            let mut state = self.state();
            if noted.is_ok() {
                state.unnoted.noted(&of);
                self.store.keep_ids_from(state.oldest_id());
                self.settle(&mut state);
                break;
            }
        }
        self.state().unnoted.is_empty()
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
