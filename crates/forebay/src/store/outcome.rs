//! What becomes of commits.

use crate::key::Key;
use crate::read::Read;

/// How a commit ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitOutcome {
    /// Applied. Lists the documents that triggers, defaults or rounding left different from `after`.
    Committed(Vec<(Key, Read)>),
    /// Applied when it was sent before. Lists what the documents that it wrote are now, as far as the store can say. Of
    /// a store that forebay owns they are known: it says that none is different ([`CommitOutcome::Committed`]).
    Repeated(Vec<Since>),
    /// Not applied: these keys have another version than `checks` says. None: no version is other, and the store gave
    /// it up for another transaction.
    Conflict(Vec<Key>),
    /// Not applied, and never will be: the store refuses it for this reason.
    Refused(String),
    /// Not applied: the store is there, takes others, and fails at this one. Another try may succeed.
    Failed(String),
    /// Surely not applied.
    Unavailable(String),
    /// Perhaps applied; [`Store::outcome`] tells.
    Unknown(String),
    /// Not applied yet: it is kept safe, and will be, behind all that is kept already (from the outage's gate alone).
    Buffered(Buffering),
    /// Not applied, and there is no room to keep it (from the outage's gate alone).
    Full(String),
}

/// What a document is now that a commit wrote when it was sent before.
#[derive(Clone, Debug, PartialEq)]
pub struct Since {
    /// Which document.
    pub key: Key,
    /// What it is.
    pub read: Read,
    /// Nobody has written it since, as far as the store can tell: what it is came of that commit, or of one that was
    /// applied in the same transaction of the store. A store can't tell that of a row that is not there.
    pub untouched: bool,
}

impl CommitOutcome {
    /// Whether the store has it.
    pub fn is_applied(&self) -> bool {
        matches!(self, CommitOutcome::Committed(_) | CommitOutcome::Repeated(_))
    }
}

/// A commit that is kept while the store is away.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffering {
    /// By what its owner may ask for it.
    pub ticket: u64,
    /// The documents with it.
    pub reads: Vec<(Key, Read)>,
}

/// What became of a commit whose outcome was unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It was applied.
    Applied,
    /// It was not, and the store will never apply it.
    NotApplied,
}
