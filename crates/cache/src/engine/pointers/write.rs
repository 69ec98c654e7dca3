//! How an entry comes in and goes out: credit, several tries, and what is refused.

use super::super::boxed::{Own, Seen};
use super::super::reclaim::{Guard, NO_GUARD};
use super::guarded::{Newcomer, NotIn, Rule};
use super::held::HeldGuard;
use super::limbo::{Cause, Due};
use super::{Pointers, Put};
use crate::sync::{Ordering, yield_now};

/// Times that other threads are let run, so that their guards may end.
const YIELDS_MAX: usize = if cfg!(feature = "loom") { 1 } else { 100 };

/// Tries to put an entry in after credit was gathered for it, which others may have used up.
const TRIES_MAX: usize = 4;

/// Under which an operation happens.
#[derive(Clone, Copy)]
pub(crate) struct Under<'g, 'c> {
    pub guard: &'g Guard<'c>,
    /// In nanoseconds; 0 where nothing expires.
    pub now: u64,
    /// [`Pointers::may_defer`], asked before the guard was there.
    pub ready: bool,
}

impl<T> Pointers<T> {
    /// Puts an entry in under a guard, as [`Pointers::put`] does. What is due is dropped by the caller, without a lock
    /// and after the guard. If another entry is there than was seen, the newcomer is given back.
    pub(crate) fn put_under<'c: 'g, 'g>(
        &'c self,
        under: Under<'g, '_>,
        (hash, weight, item): (u64, usize, T),
        same: impl Fn(&T, &T) -> bool,
        (rule, marked): (Rule<'g, T>, bool),
        due: &mut Vec<Due<'c, T>>,
    ) -> Result<Put<&'g T>, T> {
        let weight = weight.max(1);
        let fits = weight <= self.budget.capacity() && under.ready;
        let (record, addressable) = Own::record(hash, weight, item);
        let mut newcomer = Newcomer { record, rule, marked, tries: 0 };
        let mut credit = 0;
        let tries = if fits && addressable { TRIES_MAX } else { 0 };
        for _ in 0..tries {
            let gathered = self.gather(credit, due);
            let mut guarded = self.lock(hash);
            guarded.credit += gathered;
            let put = guarded.put(self, (under.guard, under.now), &same, newcomer);
            match put {
                Err(NotIn::NoCredit(still, missing)) => {
                    (newcomer, credit) = (still, missing);
                    newcomer.tries += 1;
                }
                Err(NotIn::Unwanted(still)) => {
                    guarded.return_credit(&self.budget);
                    due.extend(guarded.limbo.due(self));
                    newcomer = still;
                    break;
                }
                Err(NotIn::Kept(newcomer, item)) => {
                    guarded.return_credit(&self.budget);
                    due.extend(guarded.limbo.due(self));
                    due.push(Due::never_in(newcomer.record, self));
                    return Ok(Put::Kept(item));
                }
                Err(NotIn::Changed(newcomer)) => {
                    due.extend(guarded.limbo.due(self));
                    drop(guarded);
                    return Err(newcomer.record.into_item());
                }
                Ok(put) => {
                    guarded.return_credit(&self.budget);
                    due.extend(guarded.limbo.due(self));
                    return Ok(put);
                }
            }
        }
        self.refuse(under, newcomer, same, due)
    }

    /// What a newcomer that can't come in was to replace is old: it goes.
    fn refuse<'c: 'g, 'g>(
        &'c self,
        under: Under<'g, '_>,
        newcomer: Newcomer<'g, T>,
        same: impl Fn(&T, &T) -> bool,
        due: &mut Vec<Due<'c, T>>,
    ) -> Result<Put<&'g T>, T> {
        let Newcomer { record, rule, .. } = newcomer;
        let is = |other: &T| same(record.item(), other);
        match rule {
            Rule::IfStill(None) => {
                if self.find(record.hash, under.guard, is).is_some() {
                    return Err(record.into_item());
                }
            }
            Rule::IfStill(Some(seen)) => {
                if !self.remove_under(under, (record.hash, Cause::Replaced), is, Some(seen), due).1 {
                    return Err(record.into_item());
                }
            }
            Rule::Always | Rule::IfAbsent => {
                self.remove_under(under, (record.hash, Cause::Replaced), is, None, due);
            }
        }
        due.push(Due::never_in(record, self));
        Ok(Put::Refused)
    }

    /// Removes an entry under a guard, if it is `still` what was seen; answers the item, if it had not expired, and
    /// whether it was there.
    pub(crate) fn remove_under<'c: 'g, 'g>(
        &'c self,
        under: Under<'g, '_>,
        (hash, cause): (u64, Cause),
        is: impl Fn(&T) -> bool,
        still: Option<Seen<'g, T>>,
        due: &mut Vec<Due<'c, T>>,
    ) -> (Option<&'g T>, bool) {
        let mut guarded = self.lock(hash);
        let before = guarded.records.len();
        let item = guarded.remove(self, (hash, cause), (under.guard, under.now), is, still);
        let removed = guarded.records.len() < before;
        guarded.return_credit(&self.budget);
        due.extend(guarded.limbo.due(self));
        (item, removed)
    }

    /// Whether newcomers may send others out of sight: guards do not keep too much. A guard that is only there because
    /// its thread does not run just now is waited for; one that was waited for in vain is told of, and is not waited
    /// for again.
    pub(crate) fn may_defer(&self) -> bool {
        let mut oldest = NO_GUARD;
        let mut yields = 0;
        while yields < YIELDS_MAX {
            if self.collector.deferred() <= self.deferred_max() {
                return true;
            }
            let step = self.collector.collect_some();
            oldest = step.oldest;
            if step.drops {
                continue;
            }
            if oldest != NO_GUARD && self.waits.was_in_vain(oldest) {
                break;
            }
            yield_now();
            yields += 1;
        }
        let held = HeldGuard { deferred: self.collector.deferred(), deferred_max: self.deferred_max() };
        let too_much = held.deferred > held.deferred_max;
        // Without a guard another thread is dropping it.
        if too_much && oldest != NO_GUARD {
            self.waits.in_vain(oldest, held);
        }
        !too_much
    }

    /// Takes credit out of what is left and from the shards in turn, by evicting where it must; all of `needed`, or as
    /// much as there is. The caller holds no lock, and drops what is due when it has put the credit down.
    fn gather<'c>(&'c self, needed: usize, due: &mut Vec<Due<'c, T>>) -> usize {
        if needed == 0 {
            return 0;
        }
        let _alone = self.gathering.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut hand = 0;
        // At first no shard gives what leaves it less than its floor.
        for keeps in [self.floor(), 0] {
            for _ in 0..self.shards.len() {
                hand += self.budget.take_all(needed - hand);
                if hand >= needed {
                    return hand;
                }
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len();
                let shard = &self.shards[turn];
                let mut guarded = shard.lock();
                hand += guarded.give(&shard.root.0, needed - hand, keeps, usize::MAX);
                due.extend(guarded.limbo.due(self));
            }
        }
        hand
    }
}
