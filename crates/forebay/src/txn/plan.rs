//! What a command or script is going to need, known before it runs.

use std::sync::Arc;

use super::absences::WatchedAbsence;
use super::caller::Caller;
use super::documents::Documents;
#[cfg(doc)]
use super::error::TxnError;
use super::mode::Mode;
use crate::key::{Key, KeyRef};
use crate::mutation::{self, Fault};
use crate::store::GivenId;
use crate::version::Version;

/// What becomes of the cached copy of what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWrite {
    /// The new one takes its place.
    #[default]
    Update,
    /// It leaves the cache; who reads next asks the store.
    Invalidate,
}

/// What is to be locked and loaded for one run of a command or script.
#[derive(Clone, Default)]
pub struct Plan {
    /// Keys in ascending order, each once.
    pub locks: Vec<PlannedLock>,
    /// Versions that must still be current, from WATCH: the plan locks these keys too.
    pub watched: Vec<Watched>,
    /// The id under which the store remembers what it writes.
    pub given: Option<GivenId>,
    /// What it writes must be in the store, not kept for later, when it is answered.
    pub strict: bool,
    /// What can't be loaded because the store is away is changed unseen.
    pub blind: bool,
    /// The command, for the interactive transactions that yield to it; empty: none does.
    pub name: &'static str,
    /// It waits for no lock: where it would have to, that is a [`TxnError::Conflict`], and it is not run again.
    pub no_wait: bool,
    /// Who waits for the answer.
    pub caller: Option<Arc<Caller>>,
    /// Of a script: its commands. Each may look through all documents.
    pub bodies: usize,
    /// Bytes of documents behind which it loads no other; see [`TxnError::TooLarge`].
    pub bytes_max: Option<usize>,
    /// What has only read keeps its turn to hold much, and the caller takes it over at once (`Committing::take_turn`).
    pub keeps_turn: bool,
}

/// One key of a plan.
#[derive(Clone, Debug)]
pub struct PlannedLock {
    /// Which key.
    pub key: Key,
    /// [`Mode::Shared`] or [`Mode::Exclusive`]; for a script also [`Mode::Update`].
    pub mode: Mode,
    /// Whether its document is needed; a blind write does without.
    pub load: bool,
}

/// One key of what is to be done at once, without a lock.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Which key.
    pub key: KeyRef<'a>,
    /// Whether its document is needed; a blind write does without.
    pub load: bool,
}

impl PlannedLock {
    /// The same, where nobody is to be locked out.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { key: self.key.borrow(), load: self.load }
    }
}

/// What WATCH remembers of a key, or its client.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Which key.
    pub key: Key,
    /// Its version then.
    pub version: Version,
    /// Whether it was there (an expired document is not).
    pub present: bool,
    /// Where it was not: what clearings made of that since.
    pub(super) absence: Option<WatchedAbsence>,
    /// Its client named the version: where it is another now, that is told.
    pub checked: bool,
}

/// What has changed of what a plan watches.
pub(super) enum Overtaken {
    /// A key whose version WATCH remembers, among others.
    Watched,
    /// None of those, but some whose versions the client named: the first [`STALE_TOLD_MAX`] of them, as they are now.
    Stale(Vec<Watched>),
}

/// Stale keys that a client is told of.
pub const STALE_TOLD_MAX: usize = 16;

impl Watched {
    /// A key as its client says that it read it.
    pub fn named(key: Key, version: Version, present: bool) -> Watched {
        Watched { key, version, present, absence: None, checked: true }
    }

    /// As `documents` show `key`, which is loaded.
    pub(super) fn of(key: &Key, documents: &Documents) -> Watched {
        Watched {
            key: key.clone(),
            version: documents.version(key.borrow()).unwrap_or_default(),
            present: documents.value(key.borrow()).is_ok_and(|value| value.is_some()),
            absence: None,
            checked: false,
        }
    }

    /// Whether nobody has written it, as far as can be told by what it is `now`.
    pub(super) fn unchanged(&self, now: &Watched) -> bool {
        let leads = |absence: &WatchedAbsence| !now.present && absence.leads(self.version, now.version);
        let same = self.version == now.version || self.absence.as_ref().is_some_and(leads);
        same && (self.present == now.present || mutation::on(Fault::WatchIgnoresExpiry))
    }
}

impl Plan {
    /// What has changed of what it watches, as `documents` show it, which are loaded.
    pub(super) fn overtaken(&self, documents: &Documents) -> Option<Overtaken> {
        let mut stale = Vec::new();
        for watched in &self.watched {
            let now = Watched::of(&watched.key, documents);
            match watched.unchanged(&now) {
                true => {}
                false if !watched.checked => return Some(Overtaken::Watched),
                false if stale.len() < STALE_TOLD_MAX => stale.push(now),
                false => {}
            }
        }
        (!stale.is_empty()).then_some(Overtaken::Stale(stale))
    }
}
