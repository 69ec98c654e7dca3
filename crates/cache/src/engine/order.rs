//! The order of eviction of one shard: S3-FIFO's, over marks, with a small queue that finds its length.
//!
//! Newcomers pass through a small queue. At its end those that were hit twice go to the main queue, the others are
//! evicted. A newcomer that the small queue gave up not long ago (`prints.rs`) goes to the main queue at once. There
//! each hit is worth another round. As long as there is room, the main queue takes what the small one can't hold: so
//! the authors' program does.
//!
//! How long the small queue has to be differs by the workload. A hundredth of the entries is best where few keys are
//! asked for often for ever, or where scans come by. A tenth and more is best where keys are asked for a few times and
//! then never again. So it learns as ARC does, from ghosts that are no older than the small queue is long. One of the
//! small queue makes it longer by one entry, one of the main queue makes it shorter. With a fixed tenth hit ratios were
//! lower by .9 points in the mean (`docs/benchmarks-engine.md`).
//!
//! Both queues are rings of slot numbers with room for all that may come. A step writes one word and moves no
//! neighbour. A slot is named once, by one of them. One whose entry was removed stays named, as a dead one, until a
//! ring comes to it or [`Order::sweep`] takes all out.

use super::marks::Slots;
use super::prints::{Ghost, Queue};
use super::tags::SLOTS;

/// Hits in the small queue that lead to the main one.
const PROMOTE: u8 = 2;

/// Slots from the end of a ring whose memory is asked for.
const AHEAD: usize = 8;

/// A queue with fixed room.
pub(super) struct Ring {
    slots: Box<[u32]>,
    first: usize,
    len: usize,
}

impl Ring {
    fn new(room: usize) -> Ring {
        Ring { slots: vec![0; room].into_boxed_slice(), first: 0, len: 0 }
    }

    #[inline]
    fn at(&self, from_first: usize) -> usize {
        let at = self.first + from_first;
        if at >= self.slots.len() { at - self.slots.len() } else { at }
    }

    #[inline]
    fn push(&mut self, slot: u32) {
        debug_assert!(self.len < self.slots.len(), "the ring has room for all");
        let at = self.at(self.len);
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
            self.len += 1;
        }
    }

    fn pop(&mut self, slots: &impl Slots) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        if self.len > AHEAD {
            slots.ahead(self.slots[self.at(AHEAD)]);
        }
        let slot = self.slots[self.first];
        self.first = self.at(1);
        self.len -= 1;
        Some(slot)
    }

    /// Takes dead slots out.
    fn sweep(&mut self, slots: &impl Slots) {
        for _ in 0..self.len {
            if let Some(slot) = self.pop(slots)
                && !slots.bury(slot)
            {
                self.push(slot);
            }
        }
    }

    /// From the oldest on.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.len).map(|from_first| self.slots[self.at(from_first)])
    }
}

/// An entry that has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub slot: u32,
    pub from: Queue,
}

/// What the small queue may have of so many entries: from a hundredth to half of them.
fn small_range(entries: usize) -> std::ops::RangeInclusive<usize> {
    let least = (entries / 100).max(1);
    least..=(entries / 2).max(least)
}

/// See the module.
pub(super) struct Order {
    small: Ring,
    main: Ring,
    small_max: usize,
    small_range: std::ops::RangeInclusive<usize>,
    /// Groups of the shard.
    groups: usize,
    /// Slots that are named and have no entry.
    dead: usize,
}

impl Order {
    /// For a shard with `slots` slots, of which `entries` are its share.
    pub fn new(slots: usize, entries: usize) -> Order {
        let small_range = small_range(entries);
        Order {
            small: Ring::new(small_range.end() + 1),
            main: Ring::new(slots),
            small_max: (entries / 10).max(1),
            small_range,
            groups: slots / SLOTS,
            dead: 0,
        }
    }

    /// The shard's share is another now, and not larger than it was at the start. A small queue that is too long is
    /// what victims come from first.
    pub fn set_share(&mut self, entries: usize) {
        self.small_range = small_range(entries);
        self.small_max = self.small_max.clamp(*self.small_range.start(), *self.small_range.end());
        debug_assert!(*self.small_range.end() < self.small.slots.len(), "the ring has room for the largest share");
    }

    /// Learns from the ghost of a newcomer with this hash; whether it goes to the main queue.
    pub fn learn(&mut self, ghost: Ghost, hash: u64) -> bool {
        // Each group had a queue's eviction since, for each younger ghost and for a part of one, by chance.
        let part = hash as u16;
        let age = (((ghost.younger as u64) << 16 | u64::from(part)) * self.groups as u64) >> 16;
        let recent = age <= self.small_max as u64;
        match ghost.from {
            Queue::Small if recent && self.small_max < *self.small_range.end() => self.small_max += 1,
            Queue::Main if recent && self.small_max > *self.small_range.start() => self.small_max -= 1,
            _ => {}
        }
        ghost.from == Queue::Small
    }

    /// Names a newcomer's slot. `returns`: `learn` said that it goes to the main queue; `fills`: nothing was evicted
    /// for it.
    #[inline]
    pub fn push(&mut self, slot: u32, returns: bool, fills: bool) {
        let small_is_full = self.small.len > self.small_max || (fills && self.small.len == self.small_max);
        let ring = if returns || small_is_full { &mut self.main } else { &mut self.small };
        ring.push(slot);
    }

    /// The entry to evict, which is no longer named; `None`: there is no entry.
    pub fn victim(&mut self, slots: &impl Slots) -> Option<Victim> {
        // A mark is worth one round at most three times. Readers that go on marking must not keep it going for ever.
        let mut rounds_left = 4 * self.main.len;
        loop {
            let from_small = self.small.len > self.small_max || self.main.len == 0;
            let ring = if from_small { &mut self.small } else { &mut self.main };
            let slot = ring.pop(slots)?;
            if self.dead > 0 && slots.bury(slot) {
                self.dead -= 1;
                continue;
            }
            let mark = slots.mark(slot);
            if from_small && mark >= PROMOTE {
                slots.set_mark(slot, 0);
            } else if !from_small && mark > 0 && rounds_left > 0 {
                rounds_left -= 1;
                slots.set_mark(slot, mark - 1);
            } else {
                return Some(Victim { slot, from: if from_small { Queue::Small } else { Queue::Main } });
            }
            self.main.push(slot);
        }
    }

    /// A named slot has lost its entry.
    pub fn died(&mut self) {
        self.dead += 1;
    }

    pub fn dead(&self) -> usize {
        self.dead
    }

    /// Takes all dead slots out, in one go through the rings.
    pub fn sweep(&mut self, slots: &impl Slots) {
        self.small.sweep(slots);
        self.main.sweep(slots);
        self.dead = 0;
    }

    /// Names nothing any more.
    pub fn clear(&mut self) {
        (self.small.len, self.main.len, self.dead) = (0, 0, 0);
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.small.slots) + size_of_val(&*self.main.slots)
    }

    /// The small queue and the main one.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn rings(&self) -> [&Ring; 2] {
        [&self.small, &self.main]
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub fn length_is_in_range(&self) -> bool {
        self.small_range.contains(&self.small_max)
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub fn small_room(&self) -> usize {
        self.small.slots.len()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// 1,000 entries, a group for each ten.
    fn order() -> Order {
        Order::new(100 * SLOTS, 1000)
    }

    #[test]
    fn a_recent_ghost_of_either_queue_says_which_lacks_room() {
        let mut order = order();
        assert_eq!(order.small_max, 100);
        let ghost = |from| Ghost { from, younger: 0 };
        for _ in 0..2000 {
            assert!(order.learn(ghost(Queue::Small), 7), "it goes to the main queue");
        }
        assert_eq!(order.small_max, 500);
        for _ in 0..2000 {
            assert!(!order.learn(ghost(Queue::Main), 7), "it passes through the small queue again");
        }
        assert_eq!(order.small_max, 10);
        order.set_share(100);
        assert!(order.length_is_in_range());
    }

    /// One younger ghost of the group stands for 100 evictions, and up to 100 more.
    #[test]
    fn an_old_ghost_says_nothing() {
        for from in [Queue::Small, Queue::Main] {
            let mut order = order();
            order.learn(Ghost { from, younger: 1 }, 0xffff);
            order.learn(Ghost { from, younger: 2 }, 0);
            assert_eq!(order.small_max, 100);
            order.learn(Ghost { from, younger: 1 }, 0);
            assert_ne!(order.small_max, 100);
        }
    }
}
