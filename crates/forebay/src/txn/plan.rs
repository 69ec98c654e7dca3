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
    /// [`Mode::Shared`] or [`Mode::Exclusive`].
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

/// What WATCH remembers of a key.
#[derive(Clone)]
pub struct Watched {
    /// Which key.
    pub key: Key,
    /// Its version then.
    pub version: Version,
    /// Whether it was there (an expired document is not).
    pub present: bool,
    /// Where it was not: what clearings made of that since.
    pub(super) absence: Option<WatchedAbsence>,
}

impl Watched {
    /// As `documents` show `key`, which is loaded.
    pub(super) fn of(key: &Key, documents: &Documents) -> Watched {
        Watched {
            key: key.clone(),
            version: documents.version(key.borrow()).unwrap_or_default(),
            present: documents.value(key.borrow()).is_ok_and(|value| value.is_some()),
            absence: None,
        }
    }

    /// Whether nobody has written it, as far as can be told by what it is `now`.
    pub(super) fn unchanged(&self, now: &Watched) -> bool {
        let leads = |absence: &WatchedAbsence| !now.present && absence.leads(self.version, now.version);
        let same = self.version == now.version || self.absence.as_ref().is_some_and(leads);
        same && (self.present == now.present || mutation::on(Fault::WatchIgnoresExpiry))
    }
}
