//! What a store is given to commit.

use crate::change::{Change, Changes};
use crate::key::Key;
use crate::value::{Blob, Data, Value};
use crate::version::{TxnId, Version};

/// One transaction's writes, all or nothing, idempotent in `id`.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Tells a repeated commit from a new one.
    pub id: TxnId,
    /// The version that every changed document gets.
    pub version: Version,
    /// Versions that must still be current, for stores that others write to. Empty on one node over an owned store.
    pub checks: Vec<(Key, Version)>,
    /// What changes, each key once.
    pub writes: Vec<Write>,
    /// Its client wants it in the store now or not at all: what can't be reached must not keep it for later.
    pub strict: bool,
    /// Whether it may be kept for later while the store has much to do.
    pub priority: Priority,
    /// Ids that clients gave it; kept with it, to be asked for ([`Store::given`](super::Store::given)). Nearly always
    /// none; several where kept transactions were merged.
    pub given: Vec<GivenId>,
    /// It may take as many times as long as a store with a time limit of its own gives to a commit; 1 or more. Nearly
    /// always 1: it is the outage's drain that has patience, with one that was not answered.
    pub patience: u32,
}

impl Commit {
    /// A commit of `writes` that checks nothing.
    pub fn new(id: TxnId, version: Version, writes: Vec<Write>) -> Commit {
        let (checks, given) = (Vec::new(), Vec::new());
        Commit { id, version, checks, writes, strict: false, priority: Priority::Normal, given, patience: 1 }
    }
}

/// How much it matters that a commit is in the store at once (TARDIS, section 2.5); for the outage's gate alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// It is kept behind what is kept already, until the store has got over its absence.
    Low,
    /// It goes to the store where nothing stands in its way, and waits for what is soon carried over.
    #[default]
    Normal,
    /// It waits for what stands in its way, however much that is, before it is kept.
    High,
}

/// An id that a client gave its transaction; unique per user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GivenId {
    /// Name of the user.
    pub user: Blob,
    /// What the client chose.
    pub id: u128,
}

/// Ids from clients that a store remembers at least, the newest.
pub const GIVEN_IDS_KEPT: usize = 65_536;

/// The changes to one document.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which document.
    pub key: Key,
    /// What happens to it, in order. Never empty.
    pub changes: Changes,
    /// The document afterwards, computed under the lock by applying `changes`; a store may take it instead of applying
    /// them again. It is exact for stores that forebay owns.
    pub after: Option<Value>,
    /// Nobody knew the document when it was changed: `after` is what the changes make of none, and says nothing. Only
    /// for stores that apply changes ([`Caps::applies`](super::Caps::applies)), and for the outage's gate.
    pub unseen: bool,
}

impl Write {
    /// Bytes that it occupies in memory while its commit is on its way. A collection afterwards shares nearly all of
    /// its memory with what it was before; a byte string that was changed in place of being put is a copy.
    pub fn memory_bytes(&self) -> usize {
        memory_bytes_of(&self.key, &self.changes, self.after.as_ref())
    }
}

/// What [`Write::memory_bytes`] is for the write of `key` by `changes`, which leave `after`.
pub(crate) fn memory_bytes_of(key: &Key, changes: &[Change], after: Option<&Value>) -> usize {
    let changed: usize = changes.iter().map(Change::memory_bytes).sum();
    size_of::<Write>() + key.heap_bytes() + changed + copied_bytes(changes, after)
}

/// Bytes of the document that `changes` leave which neither they hold nor what was there before.
pub(crate) fn copied_bytes(changes: &[Change], after: Option<&Value>) -> usize {
    match after {
        Some(value) if matches!(value.data, Data::Bytes(_)) && !matches!(changes, [] | [Change::Put(_)]) => {
            value.size()
        }
        _ => 0,
    }
}
