//! What a shard's lock guards: its table, its owners, its order and its credit; and what becomes of what it gives up.

use crate::mutation::{Fault, on};
use crate::policy::{Hit, Why};
use crate::sync::Ordering;

use super::super::boxed::{Own, Record, Seen};
use super::super::budget::Budget;
use super::super::buffers::BATCH;
use super::super::queues::Entry;
use super::super::ranks::{Incoming, Ranked, Ranks, size};
use super::super::reclaim::Guard;
use super::super::segment::{Index, NoPlace, Root};
use super::super::slab::Slab;
use super::super::tagged::Tagged;
use super::super::wheel::{NEVER, Wheel};
use super::limbo::{Cause, Limbo};
use super::{Pointers, Put};

/// What is due and is looked at for each entry that is put in or removed.
pub(super) const DUE_STEP: usize = 16;

/// What a shard's lock guards.
pub(super) struct Guarded<T> {
    pub index: Index<Record<T>>,
    pub records: Slab<Own<Record<T>>>,
    pub ranks: Ranks,
    /// The weight of all records.
    pub used: usize,
    /// The weight of those that are pinned.
    pub pinned: usize,
    /// The weight that the shard may have now.
    pub credit: usize,
    pub limbo: Limbo<T>,
    /// There, once an entry expires.
    pub wheel: Option<Box<Wheel>>,
    /// There, once an entry has tags.
    pub tagged: Option<Box<Tagged>>,
    pub life: Life<T>,
    /// Entries that left, ever, by cause.
    pub left: [u64; Cause::ALL.len()],
}

/// What a shard asks about the life of items. It asks under its lock.
pub(crate) struct Life<T> {
    /// When an item expires.
    pub until: fn(&T) -> u64,
    /// The first is replaced by the second, which is not in sight yet.
    pub replaces: fn(&T, &T),
    /// The tags of an item, each once.
    pub tags: fn(&T) -> &[u64],
}

impl<T> Life<T> {
    /// Nothing expires.
    pub const ENDLESS: Life<T> = Life { until: |_| NEVER, replaces: |_, _| (), tags: |_| &[] };
}

impl<T> Clone for Life<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Life<T> {}

/// Which entry of its key a newcomer is to replace.
pub(crate) enum Rule<'g, T> {
    /// Any.
    Always,
    /// None but one that has expired.
    IfAbsent,
    /// Just what was seen under the guard.
    IfStill(Option<Seen<'g, T>>),
}

/// An entry that is to come in.
pub(super) struct Newcomer<'g, T> {
    pub record: Own<Record<T>>,
    pub rule: Rule<'g, T>,
    pub marked: bool,
    /// Times that there was no credit for it.
    pub tries: usize,
}

/// Why a newcomer is not in.
pub(super) enum NotIn<'g, T> {
    /// So much credit is missing.
    NoCredit(Newcomer<'g, T>, usize),
    /// The policy does not let it in.
    Unwanted(Newcomer<'g, T>),
    /// There is another entry than was seen.
    Changed(Newcomer<'g, T>),
    /// There is this one of its key, which stays.
    Kept(Newcomer<'g, T>, &'g T),
}

/// What there is no room for.
enum Missing {
    /// So much credit is missing.
    Credit(usize),
    /// The policy keeps all that is in.
    Victim,
}

/// A record, as orders know it.
pub(super) fn ranked<T>(record: &Record<T>) -> Ranked {
    Ranked { hash: record.hash, weight: record.weight }
}

/// A hit under the lock; an order hears nothing of what is pinned.
fn hit<T>(ranks: &mut Ranks, slot: u32, record: &Record<T>) {
    if !record.is_pinned() {
        ranks.hit(slot, ranked(record), &record.mark);
    }
}

impl<T> Guarded<T> {
    /// Hits, of which readers left these notes: the slot and the lower half of the hash. A slot may be another's now.
    pub fn hear(&mut self, notes: &[[u64; 1]]) {
        let (mut hits, mut count) = ([Hit::default(); BATCH], 0);
        for &[note] in notes {
            let slot = (note >> 32) as u32 - 1;
            // An order hears nothing of what is pinned.
            if let Some(record) = self.records.get(slot)
                && record.hash as u32 == note as u32
                && !record.is_pinned()
                && let Some(hit) = hits.get_mut(count)
            {
                *hit = Hit { slot, size: size(record.weight), hash: record.hash };
                count += 1;
            }
        }
        self.ranks.hear(&hits[..count]);
    }

    pub fn put<'g>(
        &mut self,
        cache: &'g Pointers<T>,
        (guard, now): (&'g Guard<'_>, u64),
        same: impl Fn(&T, &T) -> bool,
        newcomer: Newcomer<'g, T>,
    ) -> Result<Put<&'g T>, NotIn<'g, T>> {
        let hash = newcomer.record.hash;
        let root = &cache.shard(hash).root.0;
        self.turn(root, now, DUE_STEP);
        let here = root.look_for(hash, guard, |other| same(newcomer.record.item(), other));
        let seen = here.as_ref().map(|here| Seen(here.seen));
        let found = here.map(|here| here.entry);
        let lives = found.filter(|record| !self.has_expired(record));
        match (&newcomer.rule, lives) {
            (Rule::IfAbsent, Some(record)) => {
                hit(&mut self.ranks, record.slot.load(Ordering::Relaxed), record);
                return Err(NotIn::Kept(newcomer, record.item()));
            }
            (Rule::IfStill(before), _) if *before != seen => return Err(NotIn::Changed(newcomer)),
            _ => {}
        }
        let slot = found.map(|record| record.slot.load(Ordering::Relaxed));
        // Asked once: a newcomer that comes again has credit that was gathered for it.
        if slot.is_none() && newcomer.tries == 0 && !self.ranks.admits(ranked(&newcomer.record)) {
            return Err(NotIn::Unwanted(newcomer));
        }
        let fills = match self.make_room(cache, root, ranked(&newcomer.record), slot) {
            Ok(fills) => fills,
            Err(Missing::Credit(credit)) => return Err(NotIn::NoCredit(newcomer, credit)),
            Err(Missing::Victim) => return Err(NotIn::Unwanted(newcomer)),
        };
        let Newcomer { record, marked, .. } = newcomer;
        if let Some(old) = lives {
            (self.life.replaces)(old.item(), record.item());
        }
        let answer = lives.map_or(Put::Inserted, |old| Put::Replaced(old.item()));
        // Room may have been made by the eviction of what was found.
        let own = slot.and_then(|slot| self.records.get(slot));
        match found.filter(|old| own.is_some_and(|own| std::ptr::eq(&**own, *old))) {
            Some(old) => self.put_in_place(cache, old, record, marked),
            None => {
                if let Err(NoPlace) = self.put_beside(root, record, marked, fills) {
                    return Ok(Put::Refused);
                }
            }
        }
        debug_assert!(self.used <= self.credit, "the budget is exact");
        Ok(answer)
    }

    fn put_in_place(&mut self, cache: &Pointers<T>, old: &Record<T>, record: Own<Record<T>>, marked: bool) {
        let (weight, slot) = (record.weight, old.slot.load(Ordering::Relaxed));
        let cause = self.cause(old, Cause::Replaced);
        self.left[cause as usize] += 1;
        record.slot.store(slot, Ordering::Relaxed);
        record.mark.store(old.mark.load(Ordering::Relaxed), Ordering::Relaxed);
        self.set_wheel(slot, &record);
        if on(Fault::TaggedBeforeUntagged) {
            self.tag(slot, &record);
        }
        self.untag(slot, old);
        if !on(Fault::TaggedBeforeUntagged) {
            self.tag(slot, &record);
        }
        if on(Fault::RetiredInSight) {
            self.limbo.put(self.records.replace(slot, record), Some(cause));
            drop(self.limbo.due(cache));
            if let Some(record) = self.records.get(slot) {
                self.index.replace(old, record, marked);
            }
            return;
        }
        self.index.replace(old, &record, marked);
        let pins = self.let_go(slot, old);
        self.ranks.replaced(slot, old.weight, ranked(&record), &record.mark);
        self.hold(slot, &record, if cause == Cause::Expired { 0 } else { pins });
        self.used = self.used - old.weight + weight;
        let before = self.records.replace(slot, record);
        self.limbo.put(before, Some(cause));
    }

    fn put_beside(
        &mut self,
        root: &Root<Record<T>>,
        record: Own<Record<T>>,
        marked: bool,
        fills: bool,
    ) -> Result<(), NoPlace> {
        let (hash, weight, slot) = (record.hash, record.weight, self.records.next());
        record.slot.store(slot, Ordering::Relaxed);
        if let Err(NoPlace) = self.index.insert(root, (&*record, hash), marked, &mut self.limbo.contents) {
            self.limbo.put(Some(record), None);
            return Err(NoPlace);
        }
        self.set_wheel(slot, &record);
        if self.tagged.is_none() || !on(Fault::InsertedUntagged) {
            self.tag(slot, &record);
        }
        self.records.insert(record);
        self.ranks.inserted(slot, Ranked { hash, weight }, fills);
        self.used += weight;
        Ok(())
    }

    fn set_wheel(&mut self, slot: u32, record: &Record<T>) {
        let until = (self.life.until)(record.item());
        if until != NEVER {
            self.wheel.get_or_insert_with(|| Box::new(Wheel::new(0))).set(slot, until);
        } else if let Some(wheel) = &mut self.wheel {
            wheel.unset(slot);
        }
    }

    fn tag(&mut self, slot: u32, record: &Record<T>) {
        let tags = (self.life.tags)(record.item());
        if !tags.is_empty() {
            let tagged = self.tagged.get_or_insert_default();
            tags.iter().for_each(|&tag| tagged.add(tag, slot));
        }
    }

    fn untag(&mut self, slot: u32, record: &Record<T>) {
        let Some(tagged) = &mut self.tagged else { return };
        (self.life.tags)(record.item()).iter().for_each(|&tag| tagged.remove(tag, slot));
        if tagged.is_empty() {
            self.tagged = None;
        }
    }

    /// Removes what `is` says so of, if it is still what was seen; whether it was there and had not expired.
    pub fn remove<'g>(
        &mut self,
        cache: &'g Pointers<T>,
        (hash, cause): (u64, Cause),
        (guard, now): (&'g Guard<'_>, u64),
        is: impl Fn(&T) -> bool,
        still: Option<Seen<'g, T>>,
    ) -> Option<&'g T> {
        let root = &cache.shard(hash).root.0;
        self.turn(root, now, DUE_STEP);
        let found = root.look_for(hash, guard, is).filter(|here| still.is_none_or(|still| still == Seen(here.seen)));
        let record = found?.entry;
        let lives = !self.has_expired(record);
        self.take(root, record.slot.load(Ordering::Relaxed), cause);
        lives.then(|| record.item())
    }

    /// Takes out what has expired, and looks at so many entries at most; whether that was all.
    pub fn turn(&mut self, root: &Root<Record<T>>, now: u64, most: usize) -> bool {
        if let Some(wheel) = &mut self.wheel {
            wheel.advance(now);
        }
        for _ in 0..most {
            let Some(wheel) = &mut self.wheel else { return true };
            let Some(slot) = wheel.due() else { return true };
            let until = self.records.get(slot).map_or(NEVER, |record| (self.life.until)(record.item()));
            if until <= wheel.now() {
                self.take(root, slot, Cause::Expired);
            } else {
                wheel.set(slot, until);
            }
        }
        false
    }

    pub(super) fn has_expired(&self, record: &Record<T>) -> bool {
        self.wheel.as_ref().is_some_and(|wheel| (self.life.until)(record.item()) <= wheel.now())
    }

    fn cause(&self, record: &Record<T>, cause: Cause) -> Cause {
        if self.has_expired(record) { Cause::Expired } else { cause }
    }

    /// Makes room for `weight` in place of the entry `of`; whether nothing was evicted, or the credit that others have
    /// to give.
    fn make_room(
        &mut self,
        cache: &Pointers<T>,
        root: &Root<Record<T>>,
        newcomer: Ranked,
        of: Option<u32>,
    ) -> Result<bool, Missing> {
        let weight = newcomer.weight;
        let mut evicted = 0;
        loop {
            let before = of.and_then(|slot| self.records.get(slot)).map_or(0, |record| record.weight);
            let needed = self.used - before + weight;
            if needed > self.credit {
                self.credit += cache.budget.take_weight(needed - self.credit);
            }
            if needed <= self.credit && (evicted == 0 || evicted >= self.ranks.batch()) {
                return Ok(evicted == 0);
            }
            // All that the shard has is not enough, or it has less than the others.
            if needed > self.credit && (weight > self.credit || needed <= cache.floor()) {
                return Err(Missing::Credit(weight));
            }
            let incoming = of.map_or(Incoming::Newcomer(newcomer), |slot| Incoming::Grown(slot, newcomer));
            let Some(victim) = self.victim(incoming) else {
                return if needed <= self.credit { Ok(false) } else { Err(Missing::Victim) };
            };
            self.take(root, victim, Cause::Evicted);
            evicted += 1;
        }
    }

    fn victim(&mut self, incoming: Incoming) -> Option<u32> {
        let records = &self.records;
        let entry = |slot| records.get(slot).map(|record| Entry { mark: &record.mark, weight: record.weight });
        self.ranks.victim(incoming, entry)
    }

    /// Takes an entry out.
    pub fn take(&mut self, root: &Root<Record<T>>, slot: u32, cause: Cause) {
        let Some(record) = self.records.remove(slot) else {
            return debug_assert!(false, "an entry has an owner");
        };
        // A victim that has expired was named all the same.
        let is_victim = cause == Cause::Evicted;
        let cause = self.cause(&record, cause);
        let why = match cause {
            _ if is_victim => Why::Evicted,
            Cause::Expired => Why::Expired,
            _ => Why::Invalidated,
        };
        self.left[cause as usize] += 1;
        let named = self.index.remove(root, (&*record, record.hash), &mut self.limbo.contents);
        debug_assert!(named, "a record that has an owner has a word");
        self.untag(slot, &record);
        self.let_go(slot, &record);
        self.ranks.removed(slot, ranked(&record), why);
        self.ranks.fits(self.records.bound());
        if let Some(wheel) = &mut self.wheel {
            wheel.unset(slot);
            wheel.fits(self.records.bound());
        }
        self.used -= record.weight;
        self.limbo.put(Some(record), Some(cause));
    }

    /// Gives credit away, at most `needed`: what is spare, then that of so many victims at most while more than
    /// `keeps` is used.
    pub fn give(&mut self, root: &Root<Record<T>>, needed: usize, keeps: usize, victims: usize) -> usize {
        for _ in 0..victims {
            if self.credit - self.used >= needed || self.used <= keeps {
                break;
            }
            let Some(victim) = self.victim(Incoming::Elsewhere) else { break };
            self.take(root, victim, Cause::Evicted);
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
