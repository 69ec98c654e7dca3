//! What a shard's lock guards: its table, its owners, its order and its credit; and what becomes of what it gives up.

use crate::mutation::{Fault, on};
use crate::sync::Ordering;

use super::super::boxed::{Own, Record};
use super::super::budget::Budget;
use super::super::marks::touch;
use super::super::queues::{Entry, Queues};
use super::super::reclaim::{Collector, Guard};
use super::super::segment::{Index, NoPlace, Retired, Root};
use super::super::shard::Present;
use super::super::slab::Slab;
use super::{Pointers, Put};

/// Records that a shard keeps before they are retired together.
const LIMBO_MAX: usize = if cfg!(feature = "loom") { 3 } else { 64 };

/// What a shard's lock guards.
pub(super) struct Guarded<T> {
    pub index: Index<T>,
    pub records: Slab<Own<Record<T>>>,
    pub queues: Queues,
    /// The weight of all records.
    pub used: usize,
    /// The weight that the shard may have now.
    pub credit: usize,
    pub limbo: Limbo<T>,
}

/// What is out of sight and is retired soon.
pub(super) struct Limbo<T> {
    pub contents: Vec<Retired<T>>,
    pub weight: usize,
}

/// An entry that is to come in.
pub(super) struct Newcomer<T> {
    pub record: Own<Record<T>>,
    pub present: Present,
    pub marked: bool,
}

/// A newcomer for which credit is missing.
pub(super) struct Missing<T> {
    pub newcomer: Newcomer<T>,
    pub credit: usize,
}

impl<T> Guarded<T> {
    pub fn put<'g>(
        &mut self,
        cache: &'g Pointers<T>,
        guard: &'g Guard<'_>,
        same: impl Fn(&T, &T) -> bool,
        newcomer: Newcomer<T>,
    ) -> Result<Put<&'g T>, Missing<T>> {
        let hash = newcomer.record.hash;
        let root = &cache.shard(hash).root.0;
        let is = |other: &T| same(newcomer.record.item(), other);
        let found = root.look(hash, guard, is).map(|found| found.record);
        let slot = found.map(|record| record.slot.load(Ordering::Relaxed));
        if let Some(record) = found.filter(|_| newcomer.present == Present::Kept) {
            touch(&record.mark);
            return Ok(Put::Kept(record.item()));
        }
        let fills = match self.make_room(cache, root, newcomer.record.weight, slot) {
            Ok(fills) => fills,
            Err(credit) => return Err(Missing { newcomer, credit }),
        };
        let Newcomer { record, marked, .. } = newcomer;
        let weight = record.weight;
        // Room may have been made by the eviction of what was found.
        let own = slot.and_then(|slot| self.records.get(slot));
        let old = found.filter(|old| own.is_some_and(|own| std::ptr::eq(&**own, *old)));
        if let (Some(old), Some(slot)) = (old, slot) {
            record.slot.store(slot, Ordering::Relaxed);
            record.mark.store(old.mark.load(Ordering::Relaxed), Ordering::Relaxed);
            touch(&record.mark);
            if on(Fault::RetiredInSight) {
                self.limbo.put(self.records.replace(slot, record));
                drop(self.limbo.due(cache));
                if let Some(record) = self.records.get(slot) {
                    self.index.replace(old, record, marked);
                }
                return Ok(Put::Replaced(old.item()));
            }
            self.index.replace(old, &record, marked);
            self.queues.resized(slot, old.weight, weight);
            self.used = self.used - old.weight + weight;
            let before = self.records.replace(slot, record);
            self.limbo.put(before);
        } else {
            record.slot.store(self.records.next(), Ordering::Relaxed);
            if let Err(NoPlace) = self.index.insert(root, &record, marked, &mut self.limbo.contents) {
                self.limbo.put(Some(record));
                return Ok(Put::Refused);
            }
            let slot = self.records.insert(record);
            self.queues.inserted(slot, hash, weight, fills);
            self.used += weight;
        }
        debug_assert!(self.used <= self.credit, "the budget is exact");
        Ok(found.map_or(Put::Inserted, |old| Put::Replaced(old.item())))
    }

    /// Makes room for `weight` in place of the entry `of`; whether nothing was evicted, or the credit that others have
    /// to give.
    pub fn make_room(
        &mut self,
        cache: &Pointers<T>,
        root: &Root<T>,
        weight: usize,
        of: Option<u32>,
    ) -> Result<bool, usize> {
        let mut fills = true;
        loop {
            let before = of.and_then(|slot| self.records.get(slot)).map_or(0, |record| record.weight);
            let needed = self.used - before + weight;
            if needed > self.credit {
                self.credit += cache.budget.take_weight(needed - self.credit);
            }
            if needed <= self.credit {
                return Ok(fills);
            }
            // All that the shard has is not enough, or it has less than the others.
            if weight > self.credit || needed <= cache.floor {
                return Err(weight);
            }
            let Some(victim) = self.victim() else {
                debug_assert!(false, "what uses credit is in");
                return Err(weight);
            };
            self.take(root, victim, true);
            fills = false;
        }
    }

    pub fn victim(&mut self) -> Option<u32> {
        let records = &self.records;
        let entry = |slot| records.get(slot).map(|record| Entry { mark: &record.mark, weight: record.weight });
        self.queues.victim(entry)
    }

    /// Takes an entry out.
    pub fn take(&mut self, root: &Root<T>, slot: u32, evicted: bool) {
        let Some(record) = self.records.remove(slot) else {
            return debug_assert!(false, "an entry has an owner");
        };
        self.index.remove(root, &record, &mut self.limbo.contents);
        self.queues.removed(slot, record.hash, record.weight, evicted);
        self.queues.fits(self.records.bound());
        self.used -= record.weight;
        self.limbo.put(Some(record));
    }

    /// Gives credit away, at most `needed`: what is spare, then that of victims while more than `keeps` is used.
    pub fn give(&mut self, root: &Root<T>, needed: usize, keeps: usize) -> usize {
        while self.credit - self.used < needed && self.used > keeps {
            let Some(victim) = self.victim() else { break };
            self.take(root, victim, true);
        }
        let given = (self.credit - self.used).min(needed);
        self.credit -= given;
        given
    }

    pub fn return_credit(&mut self, budget: &Budget) {
        if self.credit - self.used > budget.spare_max() {
            // Half of the spare credit stays: the next newcomers need it.
            let target = self.used + budget.spare_max() / 2;
            budget.give_back(self.credit - target);
            self.credit = target;
        }
    }
}

/// What is retired when it is dropped, which must be without a lock: so it comes to the collector even if a caller's
/// code panics.
pub(super) struct Due<'c, T> {
    limbo: Limbo<T>,
    collector: &'c Collector<Retired<T>>,
}

impl<T> Drop for Due<'_, T> {
    fn drop(&mut self) {
        let Limbo { contents, weight } = std::mem::replace(&mut self.limbo, Limbo::NEW);
        self.collector.retire(contents, weight);
    }
}

impl<T> Limbo<T> {
    pub const NEW: Limbo<T> = Limbo { contents: Vec::new(), weight: 0 };

    pub fn put(&mut self, record: Option<Own<Record<T>>>) {
        debug_assert!(record.is_some(), "a record has an owner");
        self.weight += record.as_ref().map_or(0, |record| record.weight);
        self.contents.extend(record.map(Retired::Record));
    }

    /// What is to be retired, once it is so much.
    pub fn due<'c>(&mut self, cache: &'c Pointers<T>) -> Option<Due<'c, T>> {
        let weight_max = (cache.deferred_max / (4 * cache.shards.len())).max(1);
        let due = self.contents.len() >= LIMBO_MAX || self.weight >= weight_max;
        due.then(|| self.all(cache))
    }

    /// All there is.
    pub fn all<'c>(&mut self, cache: &'c Pointers<T>) -> Due<'c, T> {
        Due { limbo: std::mem::replace(self, Limbo::NEW), collector: &cache.collector }
    }
}
