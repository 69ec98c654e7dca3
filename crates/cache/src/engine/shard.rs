//! A shard: the lock that its writers take, and what that guards.

use crate::sync::{Mutex, MutexGuard};

use super::budget::Budget;
use super::hasher::Hasher;
use super::marks::touch;
use super::order::Order;
use super::slot::Plain;
use super::table::{Table, Writer};
use super::tags::SLOTS;

/// Alone on its lines of memory: what one shard's writers change is nothing that others read.
#[repr(align(128))]
pub(super) struct Shard(Mutex<Guarded>);

/// What the lock guards, beside the shard's groups of the table.
pub(super) struct Guarded {
    pub writer: Writer,
    pub order: Order,
    pub len: usize,
    /// Entries that the shard may have now.
    pub credit: usize,
    /// Entries that it may ever have: some of its slots stay free, or searches for one would be long.
    pub credit_max: usize,
    /// Prints that a group keeps of either queue, at most.
    prints: usize,
}

/// What is done with a key that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// The newcomer takes its place.
    Replaced,
    /// It stays, and counts as used.
    Kept,
}

/// Entries that a smaller capacity evicts under one hold of a shard's lock.
const SHRINK_STEP: usize = 64;

/// Prints that a group keeps of either queue, as far as it has the room: nine for ten entries.
fn prints(share: usize, slots: usize) -> usize {
    (share * 9 / 10).div_ceil(slots / SLOTS)
}

impl Shard {
    /// For a shard of so many slots with room for `share` entries.
    pub fn new(writer: Writer, slots: usize, share: usize, floor: usize) -> Shard {
        let order = Order::new(slots, share);
        let credit_max = slots - slots / 16;
        let credit = floor.min(credit_max);
        Shard(Mutex::new(Guarded { writer, order, len: 0, credit, credit_max, prints: prints(share, slots) }))
    }

    /// A panic under the lock can't come from a caller's code, of which none runs there.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The parts of a cache that a writer needs beside its shard.
#[derive(Clone, Copy)]
pub(super) struct Parts<'c, K: Plain, V: Plain> {
    pub table: &'c Table<K, V>,
    pub budget: &'c Budget,
    pub hasher: &'c Hasher,
}

/// All credit is that of other shards, and the shard has none: so it can be where there is less than one entry for
/// each.
pub(super) struct NoCredit;

impl Guarded {
    /// Inserts, or does with the key's entry what `present` says; answers the value that was there. Without credit and
    /// without an entry to evict there is no room.
    pub fn put<K: Plain, V: Plain>(
        &mut self,
        parts: Parts<'_, K, V>,
        hash: u64,
        (key, value): (K::Words, V),
        present: Present,
    ) -> Result<Option<V>, NoCredit> {
        if let Some(slot) = parts.table.find(hash, key, &self.writer) {
            let (_, old) = parts.table.entry(slot);
            if present == Present::Replaced {
                parts.table.set_value(slot, value, &mut self.writer);
            }
            touch(parts.table.mark_of(slot));
            return Ok(Some(old));
        }
        let ghost = parts.table.prints(hash).take(hash);
        let returns = ghost.is_some_and(|ghost| self.order.learn(ghost, hash));
        let fills = self.has_room(parts.budget);
        if !fills && !self.evict(parts) {
            return Err(NoCredit);
        }
        let mut slot = parts.table.place(hash, key, value, &mut self.writer);
        if slot.is_none() {
            // Only dead slots can be what is missing: there are more slots than credit.
            self.order.sweep(parts.table);
            slot = parts.table.place(hash, key, value, &mut self.writer);
        }
        debug_assert!(slot.is_some(), "a shard has more slots than credit");
        if let Some(slot) = slot {
            self.order.push(slot, returns, fills);
            self.len += 1;
        }
        debug_assert!(self.len <= self.credit, "the budget is exact");
        Ok(None)
    }

    /// Gives one entry's credit to the rest; whether there was any.
    pub fn yield_credit<K: Plain, V: Plain>(&mut self, parts: Parts<'_, K, V>) -> bool {
        if self.credit == 0 || (self.len == self.credit && !self.evict(parts)) {
            return false;
        }
        self.credit -= 1;
        parts.budget.give_back(1);
        true
    }

    /// Whether there is credit for another entry; takes some if there is any.
    #[inline]
    fn has_room(&mut self, budget: &Budget) -> bool {
        if self.len == self.credit {
            self.credit += budget.take(self.credit_max - self.credit);
        }
        self.len < self.credit
    }

    /// Whether there was anything to evict.
    fn evict<K: Plain, V: Plain>(&mut self, parts: Parts<'_, K, V>) -> bool {
        let Some(victim) = self.order.victim(parts.table) else { return false };
        let (key, _) = parts.table.entry(victim.slot);
        let hash = parts.hasher.hash::<K>(key);
        parts.table.remove(victim.slot, hash, false, &mut self.writer);
        self.len -= 1;
        parts.table.prints(hash).push(hash, victim.from, self.prints);
        true
    }

    /// Removes a key's entry; answers its value.
    pub fn remove<K: Plain, V: Plain>(&mut self, parts: Parts<'_, K, V>, hash: u64, key: K::Words) -> Option<V> {
        let slot = parts.table.find(hash, key, &self.writer)?;
        let (_, value) = parts.table.entry(slot);
        parts.table.remove(slot, hash, true, &mut self.writer);
        self.order.died();
        self.len -= 1;
        // Dead slots are none that a newcomer could take: a sixteenth of all is taken out at once, so that a removal
        // costs a sweep's steps for sixteen slots.
        if self.order.dead() > parts.table.slots_per_shard() / 16 {
            self.order.sweep(parts.table);
        }
        self.return_credit(parts.budget);
        Some(value)
    }

    /// Removes everything.
    pub fn clear<K: Plain, V: Plain>(&mut self, parts: Parts<'_, K, V>) {
        parts.table.clear(&mut self.writer);
        self.order.clear();
        self.len = 0;
        self.return_credit(parts.budget);
    }

    /// The shard's share of the capacity is another.
    pub fn set_share(&mut self, share: usize, slots: usize) {
        self.order.set_share(share);
        self.prints = prints(share, slots);
    }

    /// Gives credit up, down to `floor` and at most a step, and evicts what there is no credit for; answers how much
    /// that was.
    pub fn shrink<K: Plain, V: Plain>(&mut self, parts: Parts<'_, K, V>, floor: usize, most: usize) -> usize {
        let given = self.credit.saturating_sub(floor).min(most).min(SHRINK_STEP);
        while self.len > self.credit - given {
            let evicted = self.evict(parts);
            debug_assert!(evicted, "what is counted is named");
            if !evicted {
                return 0;
            }
        }
        self.credit -= given;
        parts.budget.shrink(given);
        given
    }

    fn return_credit(&mut self, budget: &Budget) {
        let kept = (self.len + budget.spare_max()).max(budget.floor());
        if self.credit > kept {
            // Half of the spare credit stays: the next newcomers need it.
            let target = (self.len + budget.spare_max() / 2).max(budget.floor());
            budget.give_back(self.credit - target);
            self.credit = target;
        }
    }
}
