//! LIRS: entries are ranked by the distance between their last two references. Those with short ones (LIR) fill
//! nearly all of the cache. The others (HIR) pass through a short queue. They become LIR when they are asked for
//! again while they are still in the stack of recent references, cached or not.
//!
//! A repetition of the very last reference counts as one, as in the authors' program. Their stack is unbounded; ours
//! forgets the HIR entries that were evicted first (`history`).

use std::sync::Arc;

use crate::ahead::prefetch;

use super::history::{History, KEYS_MAX};
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LIRS: Policy = Policy {
    name: "lirs",
    summary: "ranks by the distance between references, not by the last one; strong on loops and databases",
    source: "Jiang, Zhang: LIRS, an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<Entry>() + size_of::<Place>(),
    parameters: &[
        Parameter { name: "hir", summary: "share of the queue of HIR entries", default: 0.01, range: (0.0, 0.9) },
        Parameter {
            name: "history",
            summary: "evicted entries kept in the stack, as a share of the capacity",
            default: 1.0,
            range: (0.0, 1000.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Lirs::new(settings)),
};

/// HIR entries, by last reference (Q of the paper).
const QUEUE: u32 = 0;
/// LIR entries; their order is the stack's.
const LIR: u32 = 1;
const PINNED: u32 = 2;

/// The queue of HIR entries has room for at least so many.
const HIR_MIN: u64 = 2;

const NONE: u32 = u32::MAX;

/// A place in the stack.
#[derive(Clone, Copy)]
struct Place {
    older: u32,
    newer: u32,
    /// The entry, `NONE` for one that was evicted.
    slot: Slot,
    hash: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    /// Its place in the stack, `NONE` where it is not in.
    place: u32,
    /// Whether it is LIR, also while it is pinned.
    lir: bool,
}

/// The stack of recent references (S of the paper), oldest at the bottom.
struct Stack {
    places: Vec<Place>,
    free: Vec<u32>,
    bottom: u32,
    top: u32,
}

impl Stack {
    fn push(&mut self, slot: Slot, hash: u64) -> u32 {
        let place = Place { older: self.top, newer: NONE, slot, hash };
        let at = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(at as usize) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        match self.top {
            NONE => self.bottom = at,
            top => self.places[top as usize].newer = at,
        }
        self.top = at;
        at
    }

    fn remove(&mut self, at: u32) {
        let Place { older, newer, .. } = self.places[at as usize];
        match older {
            NONE => self.bottom = newer,
            older => self.places[older as usize].newer = newer,
        }
        match newer {
            NONE => self.top = older,
            newer => self.places[newer as usize].older = older,
        }
        self.free.push(at);
    }

    /// Places from the bottom.
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(some(self.bottom), move |&at| some(self.places[at as usize].newer))
    }
}

struct Lirs {
    unit: Unit,
    hir_share: f64,
    history_share: f64,
    capacity: u64,
    lists: Lists,
    entries: Vec<Entry>,
    stack: Stack,
    /// Evicted entries that are still in the stack, with their places there.
    gone: History<u32>,
    /// The key that was just found among them, from `admit` until it is inserted.
    returning: Option<u64>,
    /// The last reference.
    last: Option<u64>,
}

impl Lirs {
    fn new(settings: &Settings) -> Lirs {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(LIRS.parameters[index].default);
        Lirs {
            unit: settings.unit,
            hir_share: value(0),
            history_share: value(1),
            capacity: settings.capacity,
            lists: Lists::new(3),
            entries: Vec::new(),
            stack: Stack { places: Vec::new(), free: Vec::new(), bottom: NONE, top: NONE },
            gone: History::new(),
            returning: None,
            last: None,
        }
    }

    fn lir_max(&self) -> u64 {
        let hir = ((self.capacity as f64 * self.hir_share) as u64).max(HIR_MIN);
        self.capacity.saturating_sub(hir)
    }

    fn gone_max(&self) -> u64 {
        (self.capacity as f64 * self.history_share) as u64
    }

    fn leave_stack(&mut self, slot: Slot) {
        let place = std::mem::replace(&mut self.entries[slot as usize].place, NONE);
        if place != NONE {
            self.stack.remove(place);
        }
    }

    fn enter_stack(&mut self, slot: Slot) {
        self.leave_stack(slot);
        let hash = self.entries[slot as usize].hash;
        self.entries[slot as usize].place = self.stack.push(slot, hash);
    }

    /// The entry is LIR from now on, and the newest.
    fn become_lir(&mut self, slot: Slot) {
        self.entries[slot as usize].lir = true;
        self.lists.move_to(LIR, slot);
        self.enter_stack(slot);
        self.settle();
    }

    /// The LIR entry at the bottom becomes HIR; whether there was one. The bottom must be pruned.
    fn demote(&mut self) -> bool {
        let Some(place) = self.stack.places.get(self.stack.bottom as usize) else { return false };
        let slot = place.slot;
        self.leave_stack(slot);
        self.entries[slot as usize].lir = false;
        self.lists.move_to(QUEUE, slot);
        self.prune();
        true
    }

    /// What is below the lowest LIR entry has no business in the stack.
    fn prune(&mut self) {
        while self.stack.bottom != NONE {
            let Place { slot, hash, .. } = self.stack.places[self.stack.bottom as usize];
            match slot {
                NONE => {
                    self.gone.take(hash);
                    self.stack.remove(self.stack.bottom);
                }
                slot if self.entries[slot as usize].lir => break,
                slot => self.leave_stack(slot),
            }
        }
    }

    /// An evicted entry that stays in the stack.
    fn remember(&mut self, hash: u64, weight: u32, place: u32) {
        if let Some(earlier) = self.gone.take(hash) {
            self.stack.remove(earlier);
        }
        if self.gone.len() >= KEYS_MAX {
            self.forget_oldest();
        }
        self.gone.push(hash, weight, place);
    }

    /// Keeps the LIR entries within their share, the bottom LIR, and the evicted within their bound.
    fn settle(&mut self) {
        self.prune();
        while self.lists.weight(LIR) > self.lir_max() && self.demote() {}
        while self.gone.weight() > self.gone_max() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, place)) = self.gone.pop_oldest() {
            self.stack.remove(place);
        }
    }
}

impl Order for Lirs {
    fn ahead(&self, hits: &[Hit]) {
        let entries = hits.iter().filter_map(|hit| self.entries.get(hit.slot as usize));
        entries.clone().for_each(prefetch);
        let places = entries.filter_map(|entry| self.stack.places.get(entry.place as usize));
        places.clone().for_each(prefetch);
        for place in places.flat_map(|place| [place.older, place.newer]) {
            self.stack.places.get(place as usize).into_iter().for_each(prefetch);
        }
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        if self.last.replace(access.hash) == Some(access.hash) {
            return;
        }
        match self.lists.list_of(slot) {
            Some(LIR) => {
                self.enter_stack(slot);
                self.prune();
            }
            Some(QUEUE) if self.entries[slot as usize].place != NONE => self.become_lir(slot),
            Some(QUEUE) => {
                self.enter_stack(slot);
                self.lists.move_to(QUEUE, slot);
                self.prune();
            }
            _ => {}
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.last = Some(access.hash);
        self.returning = None;
        if let Some(place) = self.gone.take(access.hash) {
            self.stack.remove(place);
            self.returning = Some(access.hash);
        }
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let entry = Entry { hash: access.hash, place: NONE, lir: false };
        super::reach(&mut self.entries, slot, entry);
        self.entries[slot as usize] = entry;
        // As long as LIR entries alone would fit, everything is LIR.
        let fills = self.lists.weight(LIR) + self.lists.weight(QUEUE) + u64::from(weight) <= self.lir_max();
        self.lists.push(QUEUE, slot, weight);
        if self.returning.take() == Some(access.hash) || fills {
            self.become_lir(slot);
        } else {
            self.enter_stack(slot);
            self.settle();
        }
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
        self.settle();
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        let place = std::mem::replace(&mut self.entries[slot as usize].place, NONE);
        if place != NONE {
            match why {
                Why::Evicted => {
                    self.stack.places[place as usize].slot = NONE;
                    self.remember(hash, weight, place);
                }
                Why::Expired | Why::Invalidated => self.stack.remove(place),
            }
        }
        self.settle();
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        if self.lists.is_empty(QUEUE) {
            self.demote();
        }
        self.lists.oldest(QUEUE)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.leave_stack(slot);
        self.settle();
    }

    fn restore(&mut self, slot: Slot) {
        if self.entries[slot as usize].lir {
            self.become_lir(slot);
        } else {
            self.lists.move_to(QUEUE, slot);
            self.enter_stack(slot);
            self.settle();
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.settle();
    }

    fn ghost_bytes(&self) -> usize {
        let of_entries = self.entries.len() * size_of::<Place>();
        let stack = self.stack.places.capacity() * size_of::<Place>() + self.stack.free.capacity() * size_of::<u32>();
        self.gone.bytes() + stack.saturating_sub(of_entries)
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(LIR) => format!("LIR, references close together: one of {}", self.lists.len(LIR)),
            Some(QUEUE) if self.entries[slot as usize].place != NONE => {
                format!("HIR, becomes LIR when asked for again: one of {}", self.lists.len(QUEUE))
            }
            Some(QUEUE) => format!("HIR, references far apart: one of {}", self.lists.len(QUEUE)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.gone.validate();
        assert!(self.gone.weight() <= self.gone_max(), "evicted entries beyond their bound");
        assert!(self.lists.weight(LIR) <= self.lir_max(), "LIR entries beyond their share");
        let (mut of_lir, mut of_gone) = (0, 0);
        for at in self.stack.iter() {
            match self.stack.places[at as usize].slot {
                NONE => of_gone += 1,
                slot => {
                    let Entry { place, lir, .. } = self.entries[slot as usize];
                    assert_eq!(place, at, "slot {slot} is not where it says");
                    let list = if lir { LIR } else { QUEUE };
                    assert_eq!(self.lists.list_of(slot), Some(list), "slot {slot} is in another list");
                    of_lir += usize::from(lir);
                }
            }
        }
        assert_eq!((of_lir, of_gone), (self.lists.len(LIR), self.gone.len()), "all LIR and all remembered are in S");
        let bottom = self.stack.iter().next().map(|at| self.stack.places[at as usize].slot);
        assert!(bottom.is_none_or(|slot| slot != NONE && self.entries[slot as usize].lir), "the bottom is LIR");
    }
}
