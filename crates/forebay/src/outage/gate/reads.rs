//! Reads at the gate: what is buffered comes first, and a store that is away is not asked.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::{BoxFuture, Either, select};

use super::{Gate, Inner};
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::mode::Mode;
use crate::outage::pending::{Merged, Story};
use crate::outage::state::State;
use crate::read::Read;
use crate::store::ReadError;
use crate::store::portion::Portion;
use crate::value::Blob;
use crate::version::{TxnId, Version};

/// Longest that a read waits for what is buffered to be applied by a store that is there.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// How often the store is asked for a document behind which changes move.
const LEARN_TRIES: usize = 3;

/// For whom documents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::outage) enum Asker {
    /// A call that waits for them.
    Client,
    /// The cache or the drain, which will ask again. That is not counted, and nothing is waited for.
    Ourselves,
}

/// What the buffer says of some documents.
struct Partly {
    reads: Vec<Option<Read>>,
    /// What it does not know, for the store.
    wanted: Vec<Key>,
    /// Where there are such: done when the store is found to be away.
    away: Option<oneshot::Receiver<()>>,
}

/// Some documents can't be read now.
struct Waits {
    why: Unavailable,
    /// Where the store may take soon what is in the way: done when something has changed.
    changed: Option<oneshot::Receiver<()>>,
}

/// Has what is buffered applied without regard to its age, as long as it lives.
struct Hurry<'a>(&'a Inner);

impl<'a> Hurry<'a> {
    fn new(inner: &'a Inner) -> Hurry<'a> {
        let mut state = inner.state();
        state.hurries += 1;
        inner.settle(&mut state);
        Hurry(inner)
    }
}

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.state().hurries -= 1;
    }
}

impl Gate {
    /// Whether changes to `key`, or to what shares its place in the store, wait for the store.
    pub fn keeps(&self, key: &Key) -> bool {
        let beside = self.inner.store.beside(key);
        let state = self.inner.state();
        std::iter::once(key).chain(&beside).any(|key| state.buffer.merged(key) != Merged::Nothing)
    }

    /// What is buffered of these fields of the hash of `key`, where that is known of all of them: such a hash may be
    /// unknown otherwise. It counts as a read that was answered from what is buffered.
    pub fn buffered_fields<'a>(&self, key: &Key, fields: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Option<Blob>>> {
        let mut state = self.inner.state();
        let found = fields.map(|field| state.buffer.field(key, field)).collect::<Option<Vec<_>>>()?;
        // What is not there may be in the row that another document of it makes again.
        let is_deletion = |other: &Key| state.buffer.is_deleted_along(key, other);
        if found.iter().any(Option::is_none) && self.inner.made_beside_but(&state, key, is_deletion) {
            return None;
        }
        state.counts.reads_merged += 1;
        Some(found)
    }
}

impl Inner {
    /// A store that is there is given some time to take what is buffered where that is in the way.
    pub(super) async fn get(&self, keys: &[Key], bytes_max: usize, asker: Asker) -> Result<Vec<Read>, ReadError> {
        if let Some(fenced) = self.found_fenced() {
            return Err(fenced.into());
        }
        let wait = if asker == Asker::Client { WAIT_MAX } else { Duration::ZERO };
        let until = self.runtime.elapsed() + wait;
        let mut hurry = None;
        let mut merged = loop {
            let moves = self.learn_unknown(keys.iter(), asker).await?;
            let (why, changed) = match self.merged(keys, asker, moves) {
                Ok(merged) => break merged,
                Err(Waits { why, changed }) => (why, changed),
            };
            let left = until.saturating_sub(self.runtime.elapsed());
            let Some(changed) = changed.filter(|_| !left.is_zero()) else { return Err(why.into()) };
            hurry.get_or_insert_with(|| Hurry::new(self));
            drop(select(self.runtime.sleep(left), changed).await);
        };
        drop(hurry);
        if let Some(away) = merged.away {
            let mut found = self.ask_to_get(&merged.wanted, bytes_max, away, asker).await?;
            if mutation::on(Fault::QueueMergedWhole) {
                let (state, wanted) = (self.state(), merged.wanted.iter());
                wanted
                    .zip(&mut found)
                    .for_each(|(key, read)| *read = state.buffer.on_top_of(key, read.clone(), &BTreeSet::new()));
            }
            let missing = merged.reads.iter_mut().filter(|read| read.is_none());
            missing.zip(found).for_each(|(read, found)| *read = Some(found));
        }
        // What is buffered is there already; the answer ends all the same where the store's did, or the bound is.
        Ok(Portion::new(bytes_max).front(merged.reads.into_iter().map_while(|read| read)))
    }

    /// What is buffered of `keys`. What others may have written is not shown while it `moves`, unless an operator has
    /// to decide first. Nor is what was doubted since the store was last asked for it.
    fn merged(&self, keys: &[Key], asker: Asker, moves: bool) -> Result<Partly, Waits> {
        let mut reads: Vec<Option<Read>> = vec![None; keys.len()];
        let mut wanted = Vec::new();
        let mut state = self.state();
        for (key, read) in keys.iter().zip(&mut reads) {
            let asks = mutation::on(Fault::QueueMergedWhole) && !state.reads.is_open();
            match state.buffer.merged(key) {
                // What is written later to another document of its row may make that row again.
                Merged::Known(Read { value: None, .. }) if self.made_beside(&state, key) => {
                    return Err(self.waits(&mut state, key, asker));
                }
                Merged::Known(_) if !self.may_be_old(&state, key) && self.is_outdated(&state, key, moves) => {
                    return Err(self.waits(&mut state, key, asker));
                }
                Merged::Known(known) if !mutation::on(Fault::ReadsUnmerged) && !asks => *read = Some(known),
                Merged::Unknown => return Err(self.waits(&mut state, key, asker)),
                _ => wanted.push(key.clone()),
            }
        }
        // What shares its place in the store with a document that waits is not what the store says.
        let waits = |key: &Key| state.buffer.merged(key) != Merged::Nothing;
        if let Some(key) = wanted.iter().find(|key| self.store.beside(key).iter().any(waits)) {
            return Err(self.waits(&mut state, key, asker));
        }
        if asker == Asker::Client {
            state.counts.reads_merged += (keys.len() - wanted.len()) as u64;
        }
        let away = if wanted.is_empty() {
            None
        } else if state.reads.is_open() || state.forced(self.runtime.elapsed()) {
            return Err(Waits { why: self.refused(&mut state, "not cached", asker), changed: None });
        } else {
            Some(state.next_outage())
        };
        Ok(Partly { reads, wanted, away })
    }

    /// Whether nothing that waits will move the place of `key` by way of another document. An operator may.
    fn is_alone(&self, state: &State, key: &Key) -> bool {
        !self.store.beside(key).iter().any(|other| state.buffer.is_moving(other))
    }

    /// Whether what is known of `key` is shown while it can't be learned afresh: an operator has to decide first.
    fn may_be_old(&self, state: &State, key: &Key) -> bool {
        state.buffer.is_stuck(key) && self.is_alone(state, key)
    }

    /// Whether what is known of `key` may not be shown. Others may have changed it, and the store could say so but for
    /// changes that move. Or it was doubted, and the store was not asked since.
    fn is_outdated(&self, state: &State, key: &Key, moves: bool) -> bool {
        let shown = mutation::on(Fault::DoubtedShownAway) || mutation::on(Fault::ShownWhileMoving);
        state.buffer.is_suspect(key) && (moves || (state.buffer.is_doubted(key) && !shown))
    }

    /// Whether another document of the place of `key` may have made that, where what waits for `key` leaves nothing.
    pub(super) fn made_beside(&self, state: &State, key: &Key) -> bool {
        self.made_beside_but(state, key, |_| false)
    }

    /// Likewise, `but_for` those of which the last that waits makes nothing.
    fn made_beside_but(&self, state: &State, key: &Key, but_for: impl Fn(&Key) -> bool) -> bool {
        let beside = self.store.beside(key);
        let unset = || state.buffer.only_unsets(key) && !mutation::on(Fault::UnsetTakenForGone);
        let later = || beside.iter().any(|other| state.buffer.is_written_after(other, key) && !but_for(other));
        !beside.is_empty() && !mutation::on(Fault::MadeBesideUnseen) && (unset() || later())
    }

    /// `key` can't be read before what is buffered is in the store.
    fn waits(&self, state: &mut State, key: &Key, asker: Asker) -> Waits {
        let stuck = |key: &Key| state.buffer.is_stuck(key);
        let (why, changed) = if state.failing(self.runtime.elapsed()) {
            (self.refused(state, &format!("{key} waits for the store"), asker), None)
        } else if state.suspended.is_some() || stuck(key) || self.store.beside(key).iter().any(stuck) {
            let operator = "which waits for an operator: see CACHE PENDING";
            (Unavailable(format!("{key} waits for what is buffered before it, {operator}")), None)
        } else {
            let why = format!("{key} waits for what is buffered before it to be carried over to the store; try again");
            (Unavailable(why), Some(state.next_change()))
        };
        Waits { why, changed }
    }

    /// What is said where the store is away.
    fn refused(&self, state: &mut State, what: &str, asker: Asker) -> Unavailable {
        state.counts.reads_refused += u64::from(asker == Asker::Client);
        self.away(state, what)
    }

    /// Learns from the store, where it answers, what documents hold of which only changes are known here, or which
    /// others may have changed. In the same moment it says which of those it has: some may have been sent, and not
    /// answered, or by a process before this. True if the store is there, and yet something is not known: changes to it
    /// move too fast, or others wait for its place.
    async fn learn_unknown(&self, keys: impl Iterator<Item = &Key> + Clone, asker: Asker) -> Result<bool, ReadError> {
        for _ in 0..LEARN_TRIES {
            let (unknown, away) = {
                let mut state = self.state();
                if state.buffer.is_empty() || state.reads.is_open() || state.forced(self.runtime.elapsed()) {
                    return Ok(false);
                }
                let alone = |key: &&Key| self.is_alone(&state, key);
                let known = |key: &Key| match state.buffer.merged(key) {
                    Merged::Nothing => true,
                    Merged::Unknown => asker == Asker::Ourselves || state.buffer.awaits_fill(key),
                    Merged::Known(_) => !state.buffer.is_suspect(key),
                };
                let all = || keys.clone().filter(|key| !known(key));
                let unknown: Vec<(Key, Story)> =
                    all().filter(alone).map(|key| (key.clone(), state.buffer.story_of(key))).collect();
                if unknown.is_empty() {
                    return Ok(all().next().is_some() && !mutation::on(Fault::ShownWhileMoving));
                }
                (unknown, state.next_outage())
            };
            let asked: Vec<(Key, Vec<TxnId>)> = unknown.iter().map(|(key, story)| (key.clone(), story.ids())).collect();
            let reads = match self.ask_to_read(self.store.get_with_ids(&asked), away, Asker::Ourselves).await {
                Ok(Some(reads)) => reads,
                // A store that can't tell the two together is read once they are applied.
                Ok(None) => return Ok(!mutation::on(Fault::ShownWhileMoving)),
                // What is known has to do.
                Err(ReadError::Unavailable(_) | ReadError::Locked(_)) => return Ok(false),
                Err(error) => return Err(error),
            };
            let mut state = self.state();
            for ((key, story), (read, applied)) in unknown.iter().zip(&reads) {
                state.buffer.learn_behind(key, read, story, applied);
            }
        }
        Ok(!mutation::on(Fault::ShownWhileMoving))
    }

    /// What the store says of `keys`, noted by the breaker. A store that takes no writes may well answer reads, so a
    /// read waits on while only these fail.
    pub(in crate::outage) async fn ask_to_get(
        &self,
        keys: &[Key],
        bytes_max: usize,
        away: oneshot::Receiver<()>,
        asker: Asker,
    ) -> Result<Vec<Read>, ReadError> {
        self.ask_to_read(self.store.get_within(keys, bytes_max), away, asker).await
    }

    /// Likewise of any `call` that reads.
    pub(in crate::outage) async fn ask_to_read<T>(
        &self,
        mut call: BoxFuture<'_, Result<T, ReadError>>,
        mut away: oneshot::Receiver<()>,
        asker: Asker,
    ) -> Result<T, ReadError> {
        let answer = loop {
            match select(call, away).await {
                Either::Left((answer, _)) => break answer,
                Either::Right((_, rest)) => {
                    let mut state = self.state();
                    if state.reads.is_open() || state.forced(self.runtime.elapsed()) {
                        return Err(self.refused(&mut state, "not cached", asker).into());
                    }
                    (call, away) = (rest, state.next_outage());
                }
            }
        };
        let mut state = self.state();
        match &answer {
            Err(ReadError::Unavailable(Unavailable(why))) => {
                let why = why.clone();
                if state.reads.failed(&why) {
                    // A call that can't even read from it will not write to it.
                    state.writes.trip(&why);
                    self.settle(&mut state);
                }
                if state.mode == Mode::Failed {
                    return Err(self.refused(&mut state, "not cached", asker).into());
                }
            }
            _ => {
                state.reads.answered();
            }
        }
        answer
    }

    /// Which of `checks` are out of date. A document for which something waits was shown under a version of our own:
    /// the store is asked whether it still comes to the same, and then for that and all others at one moment.
    pub(super) async fn check(&self, checks: &[(Key, Version)]) -> Result<Vec<Key>, ReadError> {
        self.learn_unknown(checks.iter().map(|(key, _)| key), Asker::Client).await?;
        let (mut overtaken, mut asked, mut merged) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut state = self.state();
            for (key, version) in checks {
                match state.buffer.merged(key) {
                    Merged::Known(read) if read.version != *version => overtaken.push(key.clone()),
                    // Found out as if others might have changed it: it keeps its version only if they have not.
                    Merged::Known(_) => {
                        state.buffer.suspect(std::iter::once(key));
                        merged.push((key.clone(), *version, state.buffer.story_of(key)));
                    }
                    Merged::Unknown => return Err(self.waits(&mut state, key, Asker::Ourselves).why.into()),
                    Merged::Nothing => match state.buffer.stored_version(key, *version) {
                        Some(stored) => asked.push((key.clone(), stored)),
                        None => overtaken.push(key.clone()),
                    },
                }
            }
        }
        // Where nobody else writes it is as it was shown.
        if !merged.is_empty() && !self.store.caps().owned && !mutation::on(Fault::PendingReadsUnchecked) {
            self.check_up("what was read can't be checked")?;
            self.check_merged(merged, &mut overtaken, &mut asked).await?;
        }
        if !asked.is_empty() {
            self.check_up("what was read can't be checked")?;
            let away = self.state().next_outage();
            overtaken.extend(self.ask_to_read(self.store.check(&asked), away, Asker::Ourselves).await?);
        }
        Ok(overtaken)
    }

    /// Of documents with what waits for each: those that are not what was shown are overtaken, and of the others the
    /// versions that the store has are to be asked for.
    async fn check_merged(
        &self,
        merged: Vec<(Key, Version, Story)>,
        overtaken: &mut Vec<Key>,
        asked: &mut Vec<(Key, Version)>,
    ) -> Result<(), ReadError> {
        let wanted: Vec<(Key, Vec<TxnId>)> = merged.iter().map(|(key, _, story)| (key.clone(), story.ids())).collect();
        let Some(reads) = self.store.get_with_ids(&wanted).await? else {
            let why = "the store can't say whether what was read is so while writes wait for it; try again";
            return Err(Unavailable(why.into()).into());
        };
        let mut state = self.state();
        for ((key, version, story), (read, applied)) in merged.into_iter().zip(reads) {
            match state.buffer.merged(&key) {
                // It has been applied by now.
                Merged::Nothing => match state.buffer.stored_version(&key, version) {
                    Some(stored) => asked.push((key, stored)),
                    None => overtaken.push(key),
                },
                _ => {
                    let learned = state.buffer.learn_behind(&key, &read, &story, &applied);
                    match state.buffer.merged(&key) {
                        Merged::Known(shown) if learned && shown.version == version => asked.push((key, read.version)),
                        _ => overtaken.push(key),
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses what only the store can answer while it is away.
    pub(super) fn check_up(&self, what: &str) -> Result<(), Unavailable> {
        if let Some(fenced) = self.found_fenced() {
            return Err(fenced);
        }
        let state = self.state();
        match state.reads.is_open() || state.forced(self.runtime.elapsed()) {
            true => Err(self.away(&state, what)),
            false => Ok(()),
        }
    }

    /// Why the store is not asked.
    pub(super) fn away(&self, state: &State, what: &str) -> Unavailable {
        let since = self.runtime.elapsed().saturating_sub(state.since).as_secs();
        let why = if state.reads.is_open() { state.reads.why() } else { state.writes.why() };
        Unavailable(format!("{what}, store unreachable for {since} s ({why})"))
    }
}
