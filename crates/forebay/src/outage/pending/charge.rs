//! What a transaction and a document that it waits for are charged, in bytes.

use super::seen::Seen;
use super::{Entry, Row};
use crate::change::Change;
use crate::key::Key;
use crate::outage::fingerprint::Fingerprint;
use crate::outage::lanes::{Fill, Ties};
use crate::outage::record::Buffered;
use crate::store::forms::Fills;
use crate::value::{Blob, Value};

/// Charged per transaction beside what it holds: its entry, in nodes of a tree of which two thirds are filled.
const ENTRY_BYTES: usize = size_of::<(u64, Entry)>() * 3 / 2;

/// Charged per row beside what it holds: its allocation, its place in a table that is half empty on average, and its
/// queue.
const ROW_BYTES: usize = size_of::<Row>() + size_of::<Row>() / 8 + 2 * size_of::<(Key, usize)>() + 32;

/// Charged per document that a transaction names, for finding it by that: a key, and a set with one number.
const TIED_BYTES: usize = 128;

pub(super) fn row_bytes(key: &Key, latest: Option<&Value>) -> usize {
    ROW_BYTES + key.heap_bytes() + latest.map_or(0, Value::size)
}

pub(super) fn entry_bytes(buffered: &Buffered, ties: &Ties) -> usize {
    let writes = buffered.writes.iter();
    let written =
        writes.map(|write| write.key.heap_bytes() + write.changes.iter().map(Change::memory_bytes).sum::<usize>() + 64);
    let checks: usize = buffered.checks.iter().map(|(key, _)| key.heap_bytes() + 48).sum();
    let known: usize = buffered.known.iter().map(|(_, read)| read.value.as_ref().map_or(0, Value::size) + 96).sum();
    let shown = shown_bytes(&buffered.shown);
    ENTRY_BYTES + written.sum::<usize>() + checks + shown + known + buffered.given.len() * 48 + follows_bytes(ties)
}

/// The part of it that hangs on what is known of the store's tables.
pub(super) fn follows_bytes(ties: &Ties) -> usize {
    let beside: usize = ties.beside.iter().map(|(_, key)| key.heap_bytes() + size_of::<(usize, Key)>()).sum();
    let fills: usize = ties.fills.iter().map(fill_bytes).sum();
    keys_bytes(&ties.follows) + keys_bytes(&ties.takes_along) + beside + fills
}

/// Names of columns are shared with the table's.
fn fill_bytes(fill: &Fill) -> usize {
    let of = |fills: &Fills| if let Fills::Columns(columns) = fills { columns.len() } else { 0 };
    let columns = of(&fill.left) + of(&fill.recomputed);
    fill.key.heap_bytes() + size_of::<Fill>() + columns * size_of::<Blob>() + 16
}

/// What a transaction was shown: in its list, and where it is found by that.
pub(super) fn shown_bytes(shown: &[(Key, Fingerprint)]) -> usize {
    shown.iter().map(|(key, _)| key.heap_bytes() + size_of::<(Key, Fingerprint, Seen)>() + TIED_BYTES).sum()
}

/// Documents that a transaction has to do with: in its list, and where it is found by them.
pub(super) fn keys_bytes(keys: &[Key]) -> usize {
    keys.iter().map(|key| key.heap_bytes() + size_of::<Key>() + TIED_BYTES).sum()
}
