//! 2Q: newcomers pass through a FIFO. What is asked for again after it has left that queue, while it is still
//! remembered, comes into the main LRU. So correlated references count as one.

use std::sync::Arc;

use super::ghost::Ghosts;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static TWO_Q: Policy = Policy {
    name: "2q",
    summary: "a FIFO for newcomers, an LRU for what comes back; resists scans and bursts",
    source: "Johnson, Shasha: 2Q, a low overhead high performance buffer management replacement algorithm, VLDB 1994",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + 1,
    parameters: &[
        Parameter { name: "in", summary: "share of the newcomers' queue (Kin)", default: 0.25, range: (0.01, 0.99) },
        Parameter {
            name: "out",
            summary: "keys remembered after they left it (Kout), as a share of the capacity",
            default: 0.5,
            range: (0.0, 4.0),
        },
        Parameter {
            name: "bypass",
            summary: "1: do not let in an entry heavier than the newcomers' queue; 0: let it in",
            default: 0.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(TwoQ::new(settings)),
};

/// A1in of the paper.
const NEW: u32 = 0;
/// Am of the paper.
const MAIN: u32 = 1;
const PINNED: u32 = 2;

struct TwoQ {
    unit: Unit,
    new_share: f64,
    out_share: f64,
    bypass: bool,
    capacity: u64,
    lists: Lists,
    /// Whether an entry's place is the main queue, for when it is pinned.
    in_main: Vec<bool>,
    /// A1out of the paper.
    out: Ghosts,
    /// The key that was just found among the ghosts, from `admit` until it is inserted.
    returning: Option<u64>,
}

impl TwoQ {
    fn new(settings: &Settings) -> TwoQ {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(TWO_Q.parameters[index].default);
        TwoQ {
            unit: settings.unit,
            new_share: value(0),
            out_share: value(1),
            bypass: value(2) >= 0.5,
            capacity: settings.capacity,
            lists: Lists::new(3),
            in_main: Vec::new(),
            out: Ghosts::new((settings.capacity as f64 * value(1)) as u64),
            returning: None,
        }
    }

    fn new_max(&self) -> u64 {
        (self.capacity as f64 * self.new_share) as u64
    }

    fn home(&self, slot: Slot) -> u32 {
        if self.in_main[slot as usize] { MAIN } else { NEW }
    }
}

impl Order for TwoQ {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        if self.lists.list_of(slot) == Some(MAIN) {
            self.lists.move_to(MAIN, slot);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.returning = self.out.remove(access.hash).then_some(access.hash);
        !self.bypass || u64::from(self.unit.weight(access.size)) <= self.new_max()
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let in_main = self.returning.take() == Some(access.hash);
        super::reach(&mut self.in_main, slot, false);
        self.in_main[slot as usize] = in_main;
        self.lists.push(self.home(slot), slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        if why == Why::Evicted && !self.in_main[slot as usize] {
            self.out.insert(hash, weight);
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.in_main, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let (new, main) = (self.lists.oldest(NEW), self.lists.oldest(MAIN));
        if self.lists.weight(NEW) > self.new_max() { new.or(main) } else { main.or(new) }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(self.home(slot), slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.out.set_weight_max((capacity as f64 * self.out_share) as u64);
    }

    fn ghost_bytes(&self) -> usize {
        self.out.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(NEW) => format!("new: in a queue of {} of at most {}", self.lists.weight(NEW), self.new_max()),
            Some(MAIN) => format!("came back: one of {} by last use", self.lists.len(MAIN)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.out.validate();
        for list in [NEW, MAIN] {
            assert!(self.lists.iter(list).all(|slot| self.home(slot) == list), "queue {list}: a slot from elsewhere");
        }
    }
}
