//! What a snapshot asks of the entries and their order, and how it puts them back; and what a program asks of one.
//!
//! The order of a shard is copied under its lock, as numbers of slots. The entries are looked at a few at a time, and
//! each is seen as it is at that moment.

use crate::sync::Ordering;

use super::super::queues::Ghosts;
use super::super::reclaim::Guard;
use super::super::segment::Here;
use super::guarded::ranked;
use super::{Pointers, Under};

/// An entry, as a snapshot has it.
pub(crate) struct Standing<'g, T> {
    pub item: &'g T,
    pub weight: usize,
    /// Hits; see `marks.rs`.
    pub mark: u8,
}

impl<T> Pointers<T> {
    /// Shards, which have numbers from 0 on.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The slots of a shard by queues, in each those first that would go first, and what is pinned last; and whether
    /// its policy has such an order.
    pub(crate) fn line(&self, shard: usize) -> ([Vec<u32>; 2], bool) {
        let Some(shard) = self.shards.get(shard) else { return Default::default() };
        let guarded = shard.lock();
        let slots = |pinned: bool| {
            let found = guarded.records.iter().filter(move |(_, record)| !pinned || record.is_pinned());
            found.map(|(slot, _)| slot)
        };
        let Some(mut line) = guarded.ranks.line() else { return ([slots(false).collect(), Vec::new()], false) };
        if guarded.pinned > 0 {
            line[1].extend(slots(true));
        }
        (line, true)
    }

    /// The entries that stand in these slots now. The caller looks at few, since this has the shard's lock.
    pub(crate) fn standing<'g>(&'g self, shard: usize, slots: &[u32], guard: &'g Guard<'_>) -> Vec<Standing<'g, T>> {
        let Some(shard) = self.shards.get(shard) else { return Vec::new() };
        let guarded = shard.lock();
        let owners = slots.iter().filter_map(|&slot| guarded.records.get(slot));
        let here = owners.filter_map(|own| {
            let is_it = |item: &T| std::ptr::eq(item, own.item());
            let Here { entry: record, .. } = shard.root.0.look_for(own.hash, guard, is_it)?;
            Some(Standing { item: record.item(), weight: record.weight, mark: record.mark.load(Ordering::Relaxed) })
        });
        here.collect()
    }

    /// One line on why an entry that has not expired stands where it does in the order of eviction. Of a key that has
    /// none it is what is remembered of the key; `None`: nothing is.
    pub(crate) fn explain(&self, under: Under<'_, '_>, hash: u64, is: impl Fn(&T) -> bool) -> Option<String> {
        let root = &self.shard(hash).root.0;
        let mut guarded = self.lock(hash);
        let found = root.look_for(hash, under.guard, is).map(|here| here.entry);
        match found.filter(|record| (guarded.life.until)(record.item()) > under.now) {
            Some(record) => {
                let (slot, hits) = (record.slot.load(Ordering::Relaxed), record.mark.load(Ordering::Relaxed));
                Some(guarded.ranks.explain(slot, hits, record.is_pinned()))
            }
            None => guarded.ranks.explain_absent(hash),
        }
    }

    /// Makes an entry the newest of its shard's queue, with these hits.
    pub(crate) fn stand_last(&self, hash: u64, guard: &Guard<'_>, is: impl Fn(&T) -> bool, in_main: bool, mark: u8) {
        let mut guarded = self.lock(hash);
        let Some(Here { entry: record, .. }) = self.shard(hash).root.0.look_for(hash, guard, is) else { return };
        record.mark.store(mark.min(super::super::marks::MARK_MAX), Ordering::Relaxed);
        if !record.is_pinned() {
            guarded.ranks.stand_last(record.slot.load(Ordering::Relaxed), ranked(record), in_main);
        }
    }

    /// What a shard remembers of keys that left; `None`: its policy is not the engine's own.
    pub(crate) fn ghosts(&self, shard: usize) -> Option<Ghosts> {
        self.shards.get(shard)?.lock().ranks.ghosts()
    }

    /// Has a shard remember these; whether it does. It takes no more of them than it could have entries.
    pub(crate) fn set_ghosts(&self, shard: usize, ghosts: Ghosts) -> bool {
        let Some(shard) = self.shards.get(shard) else { return false };
        let mut guarded = shard.lock();
        let fits = ghosts.cells.len() <= (2 * self.capacity() / self.shards.len()).max(64).next_power_of_two();
        if fits && guarded.ranks.ghosts().is_some() {
            guarded.ranks.set_ghosts(ghosts);
            return true;
        }
        false
    }

    /// Has the shards give back all credit that they do not need, if less than `needed` is left of it.
    pub(crate) fn settle(&self, needed: usize) {
        if self.budget.left() < needed {
            for shard in &self.shards {
                let mut guarded = shard.lock();
                let spare = guarded.credit - guarded.used;
                guarded.credit -= spare;
                self.budget.give_back(spare);
            }
        }
    }
}
