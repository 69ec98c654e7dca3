//! SIEVE: a queue by arrival and a hand that walks it from old to new. An entry that was touched stays where it is and
//! loses its mark; the first one without goes.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hits, Learned, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static SIEVE: Policy = Policy {
    name: "sieve",
    summary: "lazy promotion, quick demotion by a moving hand; good for the web, weak against scans",
    source: "Zhang et al.: SIEVE is simpler than LRU, NSDI 2024",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES,
    parameters: &[],
    learned: |_| Arc::new(NothingLearned),
    order,
};

const QUEUE: u32 = 0;
const PINNED: u32 = 1;

struct Sieve {
    unit: Unit,
    lists: Lists,
    /// Where the hand goes on; `None` is the oldest entry.
    hand: Option<Slot>,
}

fn order(settings: &Settings, _: Arc<dyn Learned>) -> Box<dyn Order> {
    Box::new(Sieve { unit: settings.unit, lists: Lists::new(2), hand: None })
}

impl Sieve {
    /// The hand never points at an entry that is about to leave the queue.
    fn pass_by(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.lists.newer(slot);
        }
    }
}

impl Order for Sieve {
    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.lists.push(QUEUE, slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.pass_by(slot);
        self.lists.remove(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
    }

    fn victim(&mut self, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        // Two rounds see every mark cleared; readers that go on marking must not keep the hand walking for ever.
        let mut steps_left = 2 * self.lists.len(QUEUE);
        loop {
            let slot = self.hand.or_else(|| self.lists.oldest(QUEUE))?;
            steps_left = steps_left.saturating_sub(1);
            if marks(slot) == 0 || steps_left == 0 {
                self.hand = Some(slot);
                return Some(slot);
            }
            self.hand = self.lists.newer(slot);
        }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.pass_by(slot);
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
            Some(QUEUE) if self.hand == Some(slot) => "under the hand: goes next unless touched".into(),
            Some(QUEUE) => format!("one of {} that the hand walks over, oldest first", self.lists.len(QUEUE)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        if let Some(slot) = self.hand {
            assert_eq!(self.lists.list_of(slot), Some(QUEUE), "the hand is on slot {slot}, which is not in the queue");
        }
    }
}
