//! Least recently used: the newest end of one list is the entry touched last, the oldest end goes first.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, Learned, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LRU: Policy = Policy {
    name: "lru",
    summary: "least recently used; simple, loses its contents to one long scan",
    source: "Mattson et al., IBM Systems Journal 1970",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES,
    parameters: &[],
    learned: |_| Arc::new(NothingLearned),
    order,
};

/// Entries that may go, by last access.
const QUEUE: u32 = 0;
/// Entries that are pinned.
const PINNED: u32 = 1;

struct Lru {
    unit: Unit,
    lists: Lists,
}

fn order(settings: &Settings, _: Arc<dyn Learned>) -> Box<dyn Order> {
    Box::new(Lru { unit: settings.unit, lists: Lists::new(2) })
}

impl Order for Lru {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        if self.lists.list_of(slot) == Some(QUEUE) {
            self.lists.move_to(QUEUE, slot);
        }
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.lists.push(QUEUE, slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.lists.remove(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.lists.oldest(QUEUE)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(QUEUE, slot);
    }

    fn line(&self) -> Option<Vec<Vec<Slot>>> {
        Some(vec![self.lists.iter(QUEUE).collect()])
    }

    fn stand_first(&mut self, slot: Slot, _: Option<usize>) {
        self.lists.move_to_oldest(QUEUE, slot);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(QUEUE) if self.lists.oldest(QUEUE) == Some(slot) => "least recently used: goes next".into(),
            Some(QUEUE) => format!("one of {} by last use", self.lists.len(QUEUE)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
    }
}
