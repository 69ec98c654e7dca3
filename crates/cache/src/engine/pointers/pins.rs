//! What holds an entry in the cache, and what takes entries out by a tag.
//!
//! A pinned entry stands in no order of eviction, so no search for a victim comes by it. Pins are counted. They are of
//! the entry, with all values that replace each other in it; a removal ends them.

use crate::mutation::{Fault, on};
use crate::sync::Ordering;

use super::super::boxed::Record;
use super::super::segment::Here;
use super::guarded::{DUE_STEP, Guarded, ranked};
use super::limbo::{Cause, Due};
use super::{Pointers, Under};

/// Pins of one entry, at most.
pub const PINS_MAX: u16 = u16::MAX;

/// Entries that go under one hold of a shard's lock.
const STEP: usize = 64;

impl<T> Guarded<T> {
    /// An entry that is not pinned is given so many pins.
    pub(super) fn hold(&mut self, slot: u32, record: &Record<T>, pins: u16) {
        if pins > 0 {
            record.pins.store(pins, Ordering::Relaxed);
            if !on(Fault::PinnedInOrder) {
                self.ranks.withdraw(slot, ranked(record));
            }
            self.pinned += record.weight;
        }
    }

    /// All pins of an entry end; answers how many they were.
    pub(super) fn let_go(&mut self, slot: u32, record: &Record<T>) -> u16 {
        let pins = record.pins.swap(0, Ordering::Relaxed);
        if pins > 0 {
            if !on(Fault::UnpinLost) {
                self.ranks.restore(slot, ranked(record));
            }
            self.pinned -= record.weight;
        }
        pins
    }
}

impl<T> Pointers<T> {
    /// Gives an entry that has not expired one pin more (`by` is 1) or less (-1); whether it could.
    pub(crate) fn set_pins<'c>(
        &'c self,
        under: Under<'_, '_>,
        (hash, by): (u64, i16),
        is: impl Fn(&T) -> bool,
        due: &mut Vec<Due<'c, T>>,
    ) -> bool {
        let root = &self.shard(hash).root.0;
        let mut guarded = self.lock(hash);
        guarded.turn(root, under.now, DUE_STEP);
        due.extend(guarded.limbo.due(self));
        let Some(Here { entry: record, .. }) = root.look_for(hash, under.guard, is) else { return false };
        let before = record.pins.load(Ordering::Relaxed);
        let Some(pins) = before.checked_add_signed(by).filter(|_| !guarded.has_expired(record)) else { return false };
        let slot = record.slot.load(Ordering::Relaxed);
        match (before, pins) {
            (0, _) => guarded.hold(slot, record, pins),
            (_, 0) => _ = guarded.let_go(slot, record),
            _ => record.pins.store(pins, Ordering::Relaxed),
        }
        true
    }

    /// The weight of what is pinned, summed up shard after shard.
    pub(crate) fn pinned(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().pinned).sum()
    }

    /// Removes the entries that have a tag, a few at a time; answers how many had not expired. What comes in
    /// between may stay.
    pub(crate) fn remove_tagged(&self, tag: u64, now: u64) -> usize {
        let mut removed = 0;
        for shard in &self.shards {
            let count = |guarded: &Guarded<T>| guarded.tagged.as_ref().map_or(0, |tagged| tagged.count(tag));
            let mut left = count(&shard.lock());
            while left > 0 {
                let mut guarded = shard.lock();
                guarded.turn(&shard.root.0, now, DUE_STEP);
                for _ in 0..left.min(STEP) {
                    left -= 1;
                    let Some(slot) = guarded.tagged.as_ref().and_then(|tagged| tagged.first(tag)) else { break };
                    removed +=
                        usize::from(guarded.records.get(slot).is_some_and(|record| !guarded.has_expired(record)));
                    guarded.take(&shard.root.0, slot, Cause::Removed);
                }
                guarded.return_credit(&self.budget);
                let due = guarded.limbo.due(self);
                drop(guarded);
                drop(due);
            }
        }
        removed
    }
}
