//! What a hit leaves behind: a mark of its slot, which the order asks for when it needs a victim.
//!
//! A mark saturates, so that the hits of what is hit often store nothing. It is a whole byte, or has a word with what
//! does not change (`places.rs`). That is loaded and stored, not added to in one step: of two hits at once one may be
//! lost. A hit that is overtaken by the removal of its
//! entry marks the slot's next entry, once.

use crate::sync::{AtomicU8, Ordering};

/// Hits beyond this many say nothing new.
pub(super) const MARK_MAX: u8 = 3;

/// A hit.
#[inline(always)]
pub(super) fn touch(mark: &AtomicU8) {
    let hits = mark.load(Ordering::Relaxed);
    if hits < MARK_MAX {
        mark.store(hits + 1, Ordering::Relaxed);
    }
}

/// What an order may ask the table about the slots that it names. The shard's lock is held.
pub(super) trait Slots {
    /// The hits of the slot's entry since the mark was last set, at most `MARK_MAX`.
    fn mark(&self, slot: u32) -> u8;

    fn set_mark(&self, slot: u32, mark: u8);

    /// Whether the slot's entry was removed while the order still named it. If so, the slot is free from now on.
    fn bury(&self, slot: u32) -> bool;

    /// The slot is going to be asked about soon.
    fn ahead(&self, slot: u32);
}
