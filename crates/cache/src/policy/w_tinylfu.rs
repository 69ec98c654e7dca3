//! W-TinyLFU: a small LRU window for newcomers, and a segmented LRU as the main part. What the window pushes out must
//! have been asked for more often lately than the entry that it would replace in the main part. Frequencies come from
//! an ageing sketch.
//!
//! The window has a fixed share; the paper's successor adapts it by hill climbing, which is not done here.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::sketch::Sketch;
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static W_TINYLFU: Policy = Policy {
    name: "w-tinylfu",
    summary: "lets in what was asked for more often lately than what it replaces; good on databases and search",
    source: "Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy, ACM ToS 2017",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<u64>(),
    parameters: &[
        Parameter { name: "window", summary: "share of the window", default: 0.01, range: (0.0, 0.9) },
        Parameter {
            name: "protected",
            summary: "share of the main part that is kept for entries used there",
            default: 0.8,
            range: (0.0, 1.0),
        },
        Parameter {
            name: "bursts",
            summary: "1: every access counts; 0: hits in the window do not, and a miss counts twice",
            default: 1.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(WTinyLfu::new(settings)),
};

const WINDOW: u32 = 0;
const PROBATION: u32 = 1;
const PROTECTED: u32 = 2;
const PINNED: u32 = 3;

/// A sketch is made at once for at most this many entries, and grows with what is really kept.
const SKETCH_ENTRIES_AT_START_MAX: u64 = 1 << 16;

struct WTinyLfu {
    unit: Unit,
    window_share: f64,
    protected_share: f64,
    /// Whether hits in the window count.
    bursts: bool,
    capacity: u64,
    /// What the window and the protected part may weigh.
    window_max: u64,
    protected_max: u64,
    /// With a note of the list that an entry belongs to, for when it is pinned.
    lists: Lists,
    /// By slot.
    hashes: Vec<u64>,
    len: usize,
    sketch: Sketch,
    /// A newcomer that is too heavy for the window and has won its place in the main part.
    winner: Option<u64>,
}

impl WTinyLfu {
    fn new(settings: &Settings) -> WTinyLfu {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(W_TINYLFU.parameters[index].default);
        let entries = match settings.unit {
            Unit::Entries => settings.capacity.min(SKETCH_ENTRIES_AT_START_MAX) as usize,
            Unit::Bytes => 0,
        };
        let mut order = WTinyLfu {
            unit: settings.unit,
            window_share: value(0),
            protected_share: value(1),
            bursts: value(2) >= 0.5,
            capacity: settings.capacity,
            window_max: 0,
            protected_max: 0,
            lists: Lists::new(4),
            hashes: Vec::new(),
            len: 0,
            sketch: Sketch::new(entries),
            winner: None,
        };
        order.share();
        order
    }

    /// Divides the capacity.
    fn share(&mut self) {
        self.window_max = ((self.capacity as f64 * self.window_share) as u64).max(1);
        let main = self.capacity.saturating_sub(self.window_max);
        self.protected_max = (main as f64 * self.protected_share) as u64;
    }

    /// What the main part gives up next.
    fn main_victim(&self) -> Option<Slot> {
        self.lists.oldest(PROBATION).or_else(|| self.lists.oldest(PROTECTED))
    }

    fn frequency(&self, slot: Slot) -> u64 {
        self.sketch.frequency(self.hashes[slot as usize])
    }

    fn move_to(&mut self, list: u32, slot: Slot) {
        self.lists.move_to(list, slot);
        self.lists.set_note(slot, list as u8);
    }

    /// Passes on what window and protected part have too much of.
    fn overflow(&mut self) {
        for (list, max) in [(WINDOW, self.window_max), (PROTECTED, self.protected_max)] {
            while self.lists.weight(list) > max {
                let Some(slot) = self.lists.oldest(list) else { break };
                self.move_to(PROBATION, slot);
            }
        }
    }
}

impl Order for WTinyLfu {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        if self.bursts || self.lists.list_of(slot) != Some(WINDOW) {
            self.sketch.add(access.hash);
        }
        match self.lists.list_of(slot) {
            Some(PROBATION) => {
                self.move_to(PROTECTED, slot);
                self.overflow();
            }
            Some(list @ (WINDOW | PROTECTED)) => self.lists.move_to(list, slot),
            _ => {}
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.sketch.add(access.hash);
        if !self.bursts {
            self.sketch.add(access.hash);
        }
        self.winner = None;
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let list = if u64::from(weight) <= self.window_max { WINDOW } else { PROBATION };
        super::reach(&mut self.hashes, slot, 0);
        self.hashes[slot as usize] = access.hash;
        self.lists.push(list, slot, weight);
        self.lists.set_note(slot, list as u8);
        self.len += 1;
        self.sketch.fit(self.len);
        self.overflow();
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
        self.overflow();
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.lists.remove(slot);
        self.len -= 1;
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.hashes, slots);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let (candidate, victim) = match (self.lists.oldest(WINDOW), self.main_victim()) {
            (Some(candidate), Some(victim)) => (candidate, victim),
            (only_one, other) => return only_one.or(other),
        };
        if incoming.slot.is_some() {
            return Some(victim);
        }
        let weight = u64::from(self.unit.weight(incoming.size));
        if weight <= self.window_max {
            // What the newcomer pushes out of the window contends for a place in the main part.
            let pushes_out = self.lists.weight(WINDOW) + weight > self.window_max;
            let loses = pushes_out && self.frequency(candidate) <= self.frequency(victim);
            return Some(if loses { candidate } else { victim });
        }
        // Too heavy for the window: the newcomer contends itself, once, however many must go for it.
        if self.winner != Some(incoming.hash) && self.sketch.frequency(incoming.hash) <= self.frequency(victim) {
            return None;
        }
        self.winner = Some(incoming.hash);
        Some(victim)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(u32::from(self.lists.note(slot)), slot);
        self.overflow();
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.share();
        self.overflow();
    }

    fn ghost_bytes(&self) -> usize {
        self.sketch.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        let place = match self.lists.list_of(slot) {
            Some(WINDOW) => "window",
            Some(PROBATION) => "probation",
            Some(PROTECTED) => "protected",
            Some(_) => "pinned",
            None => return "not in".into(),
        };
        let rival = self.main_victim().map_or(0, |victim| self.frequency(victim));
        format!("{place}, asked for about {} times lately; a newcomer must beat {rival}", self.frequency(slot))
    }

    fn validate(&self) {
        self.lists.validate();
        let linked: usize = (WINDOW..=PINNED).map(|list| self.lists.len(list)).sum();
        assert_eq!(linked, self.len, "every entry is in a list");
        for list in [WINDOW, PROBATION, PROTECTED] {
            let at_home = self.lists.iter(list).all(|slot| u32::from(self.lists.note(slot)) == list);
            assert!(at_home, "list {list}: a slot from elsewhere");
        }
        assert!(self.lists.weight(WINDOW) <= self.window_max, "the window overflows");
        assert!(self.lists.weight(PROTECTED) <= self.protected_max, "the protected part overflows");
    }
}
