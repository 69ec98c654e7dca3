//! CLOCK: a queue by arrival; an entry that was touched since it was last looked at gets another round.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hits, MARKS_MAX, NothingLearned, Order, Parameter, Policy, Slot, Unit, Why};

/// See the module.
pub static CLOCK: Policy = Policy {
    name: "clock",
    summary: "first in, first out with a second chance; nearly LRU at the cost of a mark per hit",
    source: "Corbato: A paging experiment with the Multics system, 1968",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES + 1,
    parameters: &[Parameter {
        name: "chances",
        summary: "rounds that touches can earn, one each",
        default: 1.0,
        range: (1.0, MARKS_MAX as f64),
    }],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| {
        let chances = settings.values.first().copied().unwrap_or(1.0) as u8;
        Box::new(Clock { unit: settings.unit, chances, lists: Lists::new(2), rounds: Vec::new() })
    },
};

/// Entries that may go, in the order in which the hand meets them.
const QUEUE: u32 = 0;
/// Entries that are pinned.
const PINNED: u32 = 1;

struct Clock {
    unit: Unit,
    chances: u8,
    lists: Lists,
    /// Rounds that an entry has earned and not yet used, at most `chances`.
    rounds: Vec<u8>,
}

impl Order for Clock {
    fn inserted(&mut self, slot: Slot, access: &Access) {
        super::reach(&mut self.rounds, slot, 0);
        self.rounds[slot as usize] = 0;
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
        super::fit(&mut self.rounds, slots);
    }

    fn victim(&mut self, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        // After so many rounds all is used up; readers that go on marking must not keep the hand going for ever.
        let mut steps_left = (usize::from(self.chances) + 1) * self.lists.len(QUEUE);
        loop {
            let slot = self.lists.oldest(QUEUE)?;
            let rounds = &mut self.rounds[slot as usize];
            *rounds = (*rounds + marks(slot)).min(self.chances);
            steps_left = steps_left.saturating_sub(1);
            if *rounds == 0 || steps_left == 0 {
                return Some(slot);
            }
            *rounds -= 1;
            self.lists.move_to(QUEUE, slot);
        }
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

    fn touches(&self, slot: Slot) -> u8 {
        self.rounds[slot as usize]
    }

    fn stand_first(&mut self, slot: Slot, _: Option<usize>) {
        self.lists.move_to_oldest(QUEUE, slot);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            Some(QUEUE) if self.lists.oldest(QUEUE) == Some(slot) => "under the hand: goes next unless touched".into(),
            Some(QUEUE) => format!("one of {} that the hand will meet", self.lists.len(QUEUE)),
            Some(_) => "pinned".into(),
            None => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        assert!(self.rounds.iter().all(|&rounds| rounds <= self.chances), "no more rounds than there are chances");
    }
}
