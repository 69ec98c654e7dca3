//! What a store is given to commit.

use crate::change::{Change, Changes};
use crate::key::Key;
use crate::value::{Blob, Bytes, Data, Value};
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
    /// The last [`doubt`](super::Store::doubt) when its transaction began. What it read may have been cached before a
    /// later one.
    pub doubts: u64,
}

impl Commit {
    /// A commit of `writes` that checks nothing.
    pub fn new(id: TxnId, version: Version, writes: Vec<Write>) -> Commit {
        let (checks, given) = (Vec::new(), Vec::new());
        Commit { id, version, checks, writes, strict: false, priority: Priority::Normal, given, patience: 1, doubts: 0 }
    }

    /// A commit of `writes` that has no place among others yet, and so no version.
    pub(crate) fn unplaced(writes: Vec<Write>) -> Commit {
        Commit::new(TxnId(Version::ZERO), Version::ZERO, writes)
    }

    /// Gives it its version, which is its id too.
    pub(crate) fn place(&mut self, version: Version) {
        (self.id, self.version) = (TxnId(version), version);
    }
}

/// How much it matters that a commit is in the store at once (TARDIS, section 2.5); for the outage's gate alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// It is kept behind what is kept already, until the store has got over its absence.
    Low,
    /// It goes to the store where nothing stands in its way, and waits for what is soon applied.
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
    /// What the document held was told, or decided that it is written: by a read of the same transaction, WATCH, or a
    /// condition such as NX. So the changes can't be merged with what others have written since. For the outage's gate
    /// alone: a store goes by [`Commit::checks`].
    pub told: bool,
}

/// What commits take in memory while they are on their way.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    /// Documents that they write.
    pub(crate) writes: usize,
    /// Bytes that are their own. A collection that was changed shares nearly all of its memory with what it was before.
    pub(crate) own: usize,
    /// The long byte strings that they change, each key once, with the size afterwards. Two commits that are on their
    /// way and change one string share all of it but what is in `own`: the later was made to the result of the earlier.
    pub(crate) shared: Vec<(Key, usize)>,
}

impl Footprint {
    /// Adds the write of `key` by `changes`, which leave `after`.
    pub(crate) fn add(&mut self, key: &Key, changes: &[Change], after: Option<&Value>) {
        self.writes += 1;
        self.own += size_of::<Write>() + key.heap_bytes();
        self.own += changes.iter().map(Change::memory_bytes).sum::<usize>();
        match after.map(|value| (value, &value.data)) {
            Some((value, Data::Bytes(bytes))) if bytes.whole().is_none() && copies(changes) => {
                self.own += changes.iter().map(bytes_copied_by).sum::<usize>();
                self.shared.push((key.clone(), value.size()));
            }
            _ => self.own += copied_bytes(changes, changes.iter().any(remakes), after),
        }
    }
}

/// Whether the byte string that `changes` leave is not just what they hold.
fn copies(changes: &[Change]) -> bool {
    !matches!(changes, [] | [Change::Put(_)])
}

/// Bytes that a change of a long byte string copies.
fn bytes_copied_by(change: &Change) -> usize {
    match change {
        Change::Append(bytes) => Bytes::copied_by_append(bytes.len()),
        Change::WriteAt { offset, bytes } => Bytes::copied_by_write(*offset, bytes.len()),
        _ => 0,
    }
}

/// Whether a list is made again by `change`.
pub(crate) fn remakes(change: &Change) -> bool {
    matches!(change, Change::RemoveEqual { .. })
}

/// Bytes of the document that `changes` leave which neither they hold nor what was there before; of a long byte string
/// all, though it shares chunks with what was there: that may be gone. A list is `remade` if one of them [`remakes`]
/// it. Constant time.
pub(crate) fn copied_bytes(changes: &[Change], remade: bool, after: Option<&Value>) -> usize {
    match after.map(|value| (value, &value.data)) {
        Some((value, Data::Bytes(_))) if copies(changes) => value.size(),
        Some((value, Data::List(_))) if remade => value.size(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::change::apply;
    use crate::value::blob_bytes;

    /// The most that a size class adds to a chunk of 16 KiB.
    const LAST_MAX: usize = 4 << 10;

    /// The allocations that hold a document's bytes, and their sizes.
    fn held(value: Option<&Value>) -> BTreeMap<*const u8, usize> {
        let Some(Value { data: Data::Bytes(bytes), .. }) = value else { return BTreeMap::new() };
        bytes.parts(0..bytes.len()).map(|(shared, _)| (shared.as_ptr(), blob_bytes(shared.len()))).collect()
    }

    /// Of a kind, at an offset, with so many bytes; short, so that a failing case can be read.
    fn change((kind, offset, len): (u8, usize, usize)) -> Change {
        let bytes = Blob::from(vec![len as u8; len]);
        match kind {
            0..3 => Change::Append(bytes),
            3..6 => Change::WriteAt { offset, bytes },
            6 => Change::Put(Value::bytes(bytes)),
            7 => Change::Delete,
            8 => Change::Persist,
            _ => Change::AddInteger { field: None, delta: 1 },
        }
    }

    fn changes() -> impl Strategy<Value = Vec<(u8, usize, usize)>> {
        let len = prop_oneof![2 => 1..40usize, 1 => 1..90_000usize];
        prop::collection::vec((0..10u8, 0..200_000usize, len), 1..4)
    }

    proptest! {
        /// What a long string holds that what was before did not is told as its commit's own, or held by its changes.
        #[test]
        fn what_is_copied_is_a_commits_own(writes in prop::collection::vec(changes(), 1..6)) {
            let key = Key::new(0, b"k");
            let mut value = None;
            for changes in writes {
                let before = held(value.as_ref());
                let made: Vec<Change> =
                    changes.into_iter().map(change).filter(|change| apply(&mut value, change).is_ok()).collect();
                let mut footprint = Footprint::default();
                footprint.add(&key, &made, value.as_ref());
                let after = held(value.as_ref());
                let new: usize = after.iter().filter(|(at, _)| !before.contains_key(*at)).map(|(_, bytes)| bytes).sum();
                let own = footprint.own;
                // Pointers to chunks do not count, neither what the last chunk's size class adds.
                prop_assert!(new <= own + own / 64, "{new} of {own}: {:?}", footprint.shared);
                let whole: usize = after.values().sum();
                prop_assert!(footprint.shared.iter().all(|(_, bytes)| whole <= bytes + bytes / 64 + LAST_MAX));
            }
        }
    }
}
