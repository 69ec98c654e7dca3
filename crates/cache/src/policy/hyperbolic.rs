//! Hyperbolic caching: an entry is worth its accesses per access that went by since it came in; of a sample, the one
//! worth least goes. So no entry is judged by a past longer or shorter than its own.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::random::Random;
use super::{Access, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static HYPERBOLIC: Policy = Policy {
    name: "hyperbolic",
    summary: "accesses per time since it came in, by sampling; good where popularity is steady",
    source: "Blankstein, Sen, Freedman: Hyperbolic caching, flexible caching for web applications, USENIX ATC 2017",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<Entry>() + size_of::<Slot>(),
    parameters: &[
        Parameter { name: "sample", summary: "entries looked at for each victim", default: 64.0, range: (1.0, 1024.0) },
        Parameter {
            name: "size",
            summary: "1: worth is divided by the weight; 0: weights do not matter",
            default: 0.0,
            range: (0.0, 1.0),
        },
        Parameter { name: "seed", summary: "seed of the samples", default: 0.0, range: (0.0, 1.0e9) },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Hyperbolic::new(settings)),
};

const IN: u32 = 0;
const PINNED: u32 = 1;

/// No place in the sample.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    since: u64,
    accesses: u32,
    weight: u32,
    /// Place among those that are sampled, `NONE` when pinned or not in.
    place: u32,
}

struct Hyperbolic {
    unit: Unit,
    sample: usize,
    by_size: bool,
    random: Random,
    /// Accesses heard of.
    now: u64,
    /// Weights, and which are pinned.
    lists: Lists,
    entries: Vec<Entry>,
    /// All that may go, in no order.
    candidates: Vec<Slot>,
}

impl Hyperbolic {
    fn new(settings: &Settings) -> Hyperbolic {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(HYPERBOLIC.parameters[index].default);
        Hyperbolic {
            unit: settings.unit,
            sample: value(0) as usize,
            by_size: value(1) >= 0.5,
            random: Random::new(value(2) as u64),
            now: 0,
            lists: Lists::new(2),
            entries: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// What an entry is worth: hits to expect for each access to come.
    fn worth(&self, slot: Slot) -> f64 {
        let Entry { since, accesses, weight, .. } = self.entries[slot as usize];
        let rate = f64::from(accesses) / (self.now - since).max(1) as f64;
        if self.by_size { rate / f64::from(weight) } else { rate }
    }

    fn enter(&mut self, slot: Slot) {
        self.entries[slot as usize].place = self.candidates.len() as u32;
        super::grow(&mut self.candidates, 1);
        self.candidates.push(slot);
    }

    fn leave(&mut self, slot: Slot) {
        let place = std::mem::replace(&mut self.entries[slot as usize].place, NONE);
        if place != NONE {
            self.candidates.swap_remove(place as usize);
            if let Some(&moved) = self.candidates.get(place as usize) {
                self.entries[moved as usize].place = place;
            }
        }
    }
}

impl Order for Hyperbolic {
    fn access(&mut self, slot: Slot, _: &Access) {
        self.now += 1;
        if let (Some(_), Some(entry)) = (self.lists.list_of(slot), self.entries.get_mut(slot as usize)) {
            entry.accesses = entry.accesses.saturating_add(1);
        }
    }

    fn admit(&mut self, _: &Access) -> bool {
        self.now += 1;
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let entry = Entry { since: self.now, accesses: 1, weight, place: NONE };
        super::reach(&mut self.entries, slot, entry);
        self.entries[slot as usize] = entry;
        self.lists.push(IN, slot, weight);
        self.enter(slot);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        let weight = self.unit.weight(size);
        self.entries[slot as usize].weight = weight;
        self.lists.set_weight(slot, weight);
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.lists.remove(slot);
        self.leave(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let mut least: Option<(f64, Slot)> = None;
        for _ in 0..self.sample.min(self.candidates.len()) {
            let index = self.random.index(self.candidates.len());
            let slot = self.candidates[index];
            let worth = self.worth(slot);
            if least.is_none_or(|(lowest, _)| worth < lowest) {
                least = Some((worth, slot));
            }
        }
        least.map(|(_, slot)| slot)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.leave(slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(IN, slot);
        self.enter(slot);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(IN) => {
                let Entry { since, accesses, .. } = self.entries[slot as usize];
                format!("asked for {accesses} times in {} accesses", self.now - since)
            }
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        assert_eq!(self.candidates.len(), self.lists.len(IN), "all that is not pinned can be sampled");
        for (place, &slot) in self.candidates.iter().enumerate() {
            assert_eq!(self.entries[slot as usize].place as usize, place, "slot {slot} is not where it says");
            assert_eq!(self.lists.list_of(slot), Some(IN), "slot {slot} can be sampled");
        }
    }
}
