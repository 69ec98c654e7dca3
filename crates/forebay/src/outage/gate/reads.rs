//! Reads at the gate: what is buffered comes first, and a store that is away is not asked.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::Inner;
use crate::error::Unavailable;
use crate::key::Key;
use crate::mutation::{self, Fault};
use crate::outage::mode::Mode;
use crate::outage::pending::Merged;
use crate::outage::state::State;
use crate::read::Read;
use crate::store::ReadError;
use crate::version::Version;

/// How often the store is asked for a document behind which changes move.
const LEARN_TRIES: usize = 3;

impl Inner {
    pub(super) async fn get(&self, keys: &[Key]) -> Result<Vec<Read>, ReadError> {
        self.learn_unknown(keys.iter()).await?;
        let mut reads: Vec<Option<Read>> = vec![None; keys.len()];
        let mut wanted = Vec::new();
        let away = {
            let mut state = self.state();
            for (key, read) in keys.iter().zip(&mut reads) {
                let asks = mutation::on(Fault::QueueMergedWhole) && !state.reads.is_open();
                match state.buffer.merged(key) {
                    Merged::Known(known) if !mutation::on(Fault::ReadsUnmerged) && !asks => *read = Some(known),
                    Merged::Unknown => return Err(self.not_known(&state, key).into()),
                    _ => wanted.push(key.clone()),
                }
            }
            // What shares its place in the store with a document that waits is not what the store says.
            let waits = |key: &Key| state.buffer.merged(key) != Merged::Nothing;
            if let Some(key) = wanted.iter().find(|key| self.store.beside(key).iter().any(waits)) {
                return Err(self.not_known(&state, key).into());
            }
            state.counts.reads_merged += (keys.len() - wanted.len()) as u64;
            if wanted.is_empty() {
                None
            } else if state.reads.is_open() || state.forced(self.runtime.elapsed()) {
                state.counts.reads_refused += 1;
                return Err(self.away(&state, "not cached").into());
            } else {
                Some(state.next_outage())
            }
        };
        if let Some(away) = away {
            let mut found = self.ask_to_get(&wanted, away).await?;
            if mutation::on(Fault::QueueMergedWhole) {
                let state = self.state();
                wanted.iter().zip(&mut found).for_each(|(key, read)| *read = state.buffer.on_top_of(key, read.clone()));
            }
            let missing = reads.iter_mut().filter(|read| read.is_none());
            missing.zip(found).for_each(|(read, found)| *read = Some(found));
        }
        Ok(reads.into_iter().flatten().collect())
    }

    /// Learns from the store, where it answers, what documents hold of which only changes are known here: as nothing
    /// that waits for one of them was ever handed to it, what it says is the document without all of that. Where
    /// something was, the document stays unknown.
    async fn learn_unknown(&self, keys: impl Iterator<Item = &Key> + Clone) -> Result<(), ReadError> {
        for _ in 0..LEARN_TRIES {
            let (unknown, away) = {
                let mut state = self.state();
                if state.buffer.is_empty() || state.reads.is_open() || state.forced(self.runtime.elapsed()) {
                    return Ok(());
                }
                let waits = |key: &Key| state.buffer.merged(key) != Merged::Nothing;
                let alone = |key: &&Key| !self.store.beside(key).iter().any(waits);
                let unknown = keys.clone().filter(|key| state.buffer.merged(key) == Merged::Unknown).filter(alone);
                let unknown: Vec<(Key, Vec<u64>)> =
                    unknown.filter_map(|key| Some((key.clone(), state.buffer.unsent(key)?))).collect();
                if unknown.is_empty() {
                    return Ok(());
                }
                (unknown, state.next_outage())
            };
            let asked: Vec<Key> = unknown.iter().map(|(key, _)| key.clone()).collect();
            let reads = self.ask_to_get(&asked, away).await?;
            let mut state = self.state();
            for ((key, before), read) in unknown.iter().zip(&reads) {
                // What has gone meanwhile may be in what was read.
                let now = state.buffer.unsent(key);
                if now.is_some_and(|now| before.iter().all(|number| now.contains(number))) {
                    state.buffer.learn(key, read);
                }
            }
        }
        Ok(())
    }

    /// What the store says of `keys`, noted by the breaker. A store that takes no writes may well answer reads, so a
    /// read waits on while only these fail.
    pub(in crate::outage) async fn ask_to_get(
        &self,
        keys: &[Key],
        mut away: oneshot::Receiver<()>,
    ) -> Result<Vec<Read>, ReadError> {
        let mut call = self.store.get(keys);
        let answer = loop {
            match select(call, away).await {
                Either::Left((answer, _)) => break answer,
                Either::Right((_, rest)) => {
                    let mut state = self.state();
                    if state.reads.is_open() || state.forced(self.runtime.elapsed()) {
                        state.counts.reads_refused += 1;
                        return Err(self.away(&state, "not cached").into());
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
                    // Who can't even read from it will not write to it.
                    state.writes.trip(&why);
                    self.settle(&mut state);
                }
                if state.mode == Mode::Failed {
                    state.counts.reads_refused += 1;
                    return Err(self.away(&state, "not cached").into());
                }
            }
            _ => {
                state.reads.answered();
            }
        }
        answer
    }

    /// Which of `checks` are out of date: what is buffered has the version that it will have.
    pub(super) async fn check(&self, checks: &[(Key, Version)]) -> Result<Vec<Key>, ReadError> {
        self.learn_unknown(checks.iter().map(|(key, _)| key)).await?;
        let (mut overtaken, mut asked) = (Vec::new(), Vec::new());
        {
            let state = self.state();
            for (key, version) in checks {
                match state.buffer.merged(key) {
                    Merged::Known(read) if read.version == *version => {}
                    Merged::Known(_) => overtaken.push(key.clone()),
                    Merged::Unknown => return Err(self.not_known(&state, key).into()),
                    Merged::Nothing => asked.push((key.clone(), state.buffer.stored_version(key, *version))),
                }
            }
        }
        if !asked.is_empty() {
            self.check_up("what was read can't be checked")?;
            overtaken.extend(self.store.check(&asked).await?);
        }
        Ok(overtaken)
    }

    /// Why nobody can say what `key` holds.
    fn not_known(&self, state: &State, key: &Key) -> Unavailable {
        let what = format!("{key} waits for the store");
        match state.reads.is_open() || state.failing(self.runtime.elapsed()) {
            true => self.away(state, &what),
            false => Unavailable(format!("{what}, which may have a part of it already; see CACHE PENDING")),
        }
    }

    /// Refuses what only the store can answer while it is away.
    pub(super) fn check_up(&self, what: &str) -> Result<(), Unavailable> {
        let state = self.state();
        match state.reads.is_open() || state.forced(self.runtime.elapsed()) {
            true => Err(self.away(&state, what)),
            false => Ok(()),
        }
    }
}
