//! First in, first out: what came in first goes first, however often it is asked for.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hits, Learned, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static FIFO: Policy = Policy {
    name: "fifo",
    summary: "first in, first out; the cheapest, and what others are measured against",
    source: "folklore",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES,
    parameters: &[],
    learned: |_| Arc::new(NothingLearned),
    order,
};

/// Entries that may go, by arrival.
const QUEUE: u32 = 0;
/// Entries that are pinned.
const PINNED: u32 = 1;

struct Fifo {
    unit: Unit,
    lists: Lists,
}

fn order(settings: &Settings, _: Arc<dyn Learned>) -> Box<dyn Order> {
    Box::new(Fifo { unit: settings.unit, lists: Lists::new(2) })
}

impl Order for Fifo {
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
            Some(QUEUE) if self.lists.oldest(QUEUE) == Some(slot) => "came in first: goes next".into(),
            Some(QUEUE) => format!("one of {} by arrival", self.lists.len(QUEUE)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
    }
}
