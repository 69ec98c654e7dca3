//! Tables that have a place for each slot.

use super::access::Slot;

/// Places of a table that are not worth counting.
const PLACES_MIN: usize = 64;

/// Gives `slot` a place in a table by slot; those before it that have none are `unused`.
#[inline]
pub(super) fn reach<T: Clone>(table: &mut Vec<T>, slot: Slot, unused: T) {
    let places = slot as usize + 1;
    if places > table.len() {
        grow(table, places - table.len());
        table.resize(places, unused);
    }
}

/// Room for so many more. A table grows by an eighth, because all places come into use, and doubling would leave up to
/// half of them idle: they are not charged.
#[inline]
pub(super) fn grow<T>(table: &mut Vec<T>, more: usize) {
    if table.len() + more > table.capacity() {
        table.reserve_exact(more + table.len() / 8 + PLACES_MIN);
    }
}

/// Shortens a table by slot; gives its memory back once an eighth of it is used.
pub(super) fn fit<T>(table: &mut Vec<T>, slots: usize) {
    table.truncate(slots);
    if table.len() < table.capacity() / 8 {
        table.shrink_to(2 * table.len());
    }
}
