//! S3-FIFO: a small queue through which newcomers pass, a main queue for those that were touched again, and ghosts of
//! those that were not. A ghost that is asked for again goes to the main queue at once.

use std::sync::Arc;

use super::ghost::Ghosts;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hits, MARKS_MAX, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static S3_FIFO: Policy = Policy {
    name: "s3-fifo",
    summary: "three queues; resists scans, cheap hits; the default",
    source: "Yang et al.: FIFO queues are all you need for cache eviction, SOSP 2023",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES,
    parameters: &[
        Parameter { name: "small", summary: "share of the small queue", default: 0.1, range: (0.001, 0.9) },
        Parameter { name: "ghost", summary: "ghosts, as a share of the capacity", default: 0.9, range: (0.0, 4.0) },
        Parameter {
            name: "promote",
            summary: "touches in the small queue that lead to the main one",
            default: 2.0,
            range: (1.0, 3.0),
        },
        Parameter {
            name: "bypass",
            summary: "1: do not let in an entry as heavy as the whole small queue; 0: let it in",
            default: 0.0,
            range: (0.0, 1.0),
        },
        Parameter {
            name: "fill",
            summary: "1: until room is first needed, what overflows the small queue goes to the main one; 0: it \
                      stays",
            default: 1.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(S3Fifo::new(settings)),
};

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const PINNED: u32 = 2;

/// In a slot's note: that it is in the main queue or, while it is pinned, belongs there. Below it its touches that
/// count, 0..=3.
const IN_MAIN: u8 = 1 << 7;

struct S3Fifo {
    unit: Unit,
    shares: Shares,
    capacity: u64,
    /// What the small queue may weigh.
    small_max: u64,
    lists: Lists,
    ghosts: Ghosts,
    /// The key that was just found among the ghosts, from `admit` until it is inserted.
    returning: Option<u64>,
    /// Until room was needed for the first time, what overflows the small queue fills the main one: so the authors'
    /// program does, and not their paper's algorithm 1.
    was_full: bool,
}

struct Shares {
    small: f64,
    ghost: f64,
    promote: u8,
    bypass: bool,
    fill: bool,
}

impl Shares {
    fn small_max(&self, capacity: u64) -> u64 {
        ((capacity as f64 * self.small) as u64).max(1)
    }
}

impl S3Fifo {
    fn new(settings: &Settings) -> S3Fifo {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(S3_FIFO.parameters[index].default);
        let shares = Shares {
            small: value(0),
            ghost: value(1),
            promote: value(2) as u8,
            bypass: value(3) >= 0.5,
            fill: value(4) >= 0.5,
        };
        S3Fifo {
            unit: settings.unit,
            ghosts: Ghosts::new((settings.capacity as f64 * shares.ghost) as u64),
            small_max: shares.small_max(settings.capacity),
            shares,
            capacity: settings.capacity,
            lists: Lists::new(3),
            returning: None,
            was_full: false,
        }
    }

    fn main_max(&self) -> u64 {
        self.capacity.saturating_sub(self.small_max)
    }

    /// Moves what was touched enough from small to main, up to the first entry that was not.
    fn scan_small(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        while let Some(slot) = self.lists.oldest(SMALL) {
            if (self.touches(slot) + marks(slot)).min(MARKS_MAX) < self.shares.promote {
                return Some(slot);
            }
            self.lists.set_note(slot, IN_MAIN);
            self.lists.move_to(MAIN, slot);
        }
        None
    }

    /// Gives touched entries another round, each round for one touch, up to the first entry without.
    fn scan_main(&mut self, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        // With at most three touches each, the fourth round finds one; readers that go on marking must not keep it
        // going for ever.
        let mut steps_left = (usize::from(MARKS_MAX) + 1) * self.lists.len(MAIN);
        loop {
            let slot = self.lists.oldest(MAIN)?;
            let touches = (self.touches(slot) + marks(slot)).min(MARKS_MAX);
            steps_left = steps_left.saturating_sub(1);
            if touches == 0 || steps_left == 0 {
                return Some(slot);
            }
            self.lists.set_note(slot, IN_MAIN | (touches - 1));
            self.lists.move_to(MAIN, slot);
        }
    }

    fn home(&self, slot: Slot) -> u32 {
        if self.lists.note(slot) & IN_MAIN != 0 { MAIN } else { SMALL }
    }

    fn touches(&self, slot: Slot) -> u8 {
        self.lists.note(slot) & !IN_MAIN
    }
}

impl Order for S3Fifo {
    fn admit(&mut self, access: &Access) -> bool {
        self.returning = self.ghosts.remove(access.hash).then_some(access.hash);
        self.returning.is_some() || !self.shares.bypass || u64::from(self.unit.weight(access.size)) < self.small_max
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let returns = self.returning.take() == Some(access.hash) || self.ghosts.remove(access.hash);
        let fills = self.shares.fill && !self.was_full && self.lists.weight(SMALL) >= self.small_max;
        let (queue, note) = if returns || fills { (MAIN, IN_MAIN) } else { (SMALL, 0) };
        self.lists.push(queue, slot, self.unit.weight(access.size));
        self.lists.set_note(slot, note);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let queue = self.home(slot);
        let weight = self.lists.remove(slot);
        if why == Why::Evicted && queue == SMALL {
            self.ghosts.insert(hash, weight);
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
    }

    fn victim(&mut self, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.was_full = true;
        loop {
            if self.lists.weight(MAIN) > self.main_max() || self.lists.is_empty(SMALL) {
                return self.scan_main(marks);
            }
            if let Some(slot) = self.scan_small(marks) {
                return Some(slot);
            }
        }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(self.home(slot), slot);
    }

    fn line(&self) -> Option<Vec<Vec<Slot>>> {
        Some([SMALL, MAIN].map(|queue| self.lists.iter(queue).collect()).into())
    }

    fn touches(&self, slot: Slot) -> u8 {
        S3Fifo::touches(self, slot)
    }

    fn stand_first(&mut self, slot: Slot, section: Option<usize>) {
        let queue = section.map_or_else(|| self.home(slot), |section| if section == 0 { SMALL } else { MAIN });
        self.lists.set_note(slot, if queue == MAIN { IN_MAIN } else { 0 });
        self.lists.move_to_oldest(queue, slot);
    }

    fn ghosts(&self) -> Vec<(u32, u32)> {
        self.ghosts.iter().collect()
    }

    fn add_ghosts(&mut self, ghosts: &[(u32, u32)]) {
        ghosts.iter().for_each(|&(print, weight)| self.ghosts.insert_print(print, weight));
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.small_max = self.shares.small_max(capacity);
        self.ghosts.set_weight_max((capacity as f64 * self.shares.ghost) as u64);
    }

    fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(list) = self.lists.list_of(slot) else { return "not in".into() };
        let (queue, max) = match self.home(slot) {
            MAIN => ("main", self.main_max()),
            _ => ("small", self.small_max),
        };
        let weight = self.lists.weight(self.home(slot));
        let pinned = if list == PINNED { ", pinned" } else { "" };
        format!("{queue} queue ({weight} of {max}), {} touches kept{pinned}", self.touches(slot))
    }

    fn validate(&self) {
        self.lists.validate();
        self.ghosts.validate();
        for list in [SMALL, MAIN] {
            assert!(self.lists.iter(list).all(|slot| self.home(slot) == list), "queue {list}: a slot from elsewhere");
            assert!(self.lists.iter(list).all(|slot| self.touches(slot) <= MARKS_MAX), "touches saturate");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::bare::Bare;
    use crate::policy::{Unit, choose};

    /// An entry that was touched twice in the small queue outlives a scan; one that comes back from the ghosts goes to
    /// main at once.
    #[test]
    fn resists_a_scan() {
        let choice = choose("s3-fifo").expect("known");
        let mut bare = Bare::new(choice.policy, &choice.settings(Unit::Entries, 20));
        for key in [1, 1, 1].into_iter().chain(100..140) {
            bare.request(key, 1);
        }
        assert!(bare.contains(1), "touched twice");
        let gone = (100..140).rev().find(|&key| !bare.contains(key)).expect("most of the scan is gone");
        bare.request(gone, 1);
        assert!(bare.explain(gone).expect("let in").starts_with("main"), "{:?}", bare.explain(gone));
    }
}
