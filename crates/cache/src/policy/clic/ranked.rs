//! The replacement of figure 4. Of the pages of lowest priority the least recently requested one goes. A newcomer
//! comes in if its priority is higher.
//!
//! Requests without hints tell nothing of their pages, so the paper's rule would keep the pages that came first for
//! ever. Such pages are ordered by recency among themselves: a newcomer without hints displaces a page without hints
//! that would go next. With hints the rule is the paper's.
//!
//! All of this takes constant time. Hint sets of one priority are a class. Each class has a list of its pages by last
//! request. A bitmap knows the lowest class that has any. When priorities change, at the end of a window, the pages
//! are sorted into new lists.

use std::ops::Range;

use super::super::list::{Lists, NODE_BYTES};
use super::super::{Access, Hit, Order, Settings, Slot, Unit, Why};
use super::outqueue::Request;
use super::tracker::Tracker;

/// Pinned pages are in the first list, those of class n in list n + 1.
const PINNED: u32 = 0;

/// The cell of requests without hints, where nothing is derived of a page's past.
const NO_HINTS: u32 = 0;

/// Bytes of metadata for each entry.
pub(super) const ENTRY_BYTES: usize = NODE_BYTES + size_of::<Request>();

/// The room that a page's entry and its share of the outqueue are charged with, where entries are counted.
pub(super) fn room(capacity: u64, charge: f64) -> u64 {
    let left = (capacity as f64 * (1.0 - charge) + 1e-9) as u64;
    left.max(capacity.min(1))
}

/// How many pages the outqueue remembers: `out` for each that there is room for, or where bytes are counted for each of
/// the `len` that are cached.
pub(super) fn outqueue_max(unit: Unit, room: u64, len: usize, out: f64) -> u64 {
    let pages = if unit == Unit::Entries { room } else { len as u64 };
    (pages as f64 * out) as u64
}

/// The pages of these lists with their ages, the oldest first; no two have the same age.
pub(super) fn by_age<const F: bool>(
    lists: &Lists,
    of: Range<u32>,
    pages: &[Request],
    tracker: &Tracker<F>,
) -> Vec<(u32, Slot)> {
    let slots = of.flat_map(|list| lists.iter(list));
    let mut aged: Vec<(u32, Slot)> = slots.map(|slot| (tracker.age(pages[slot as usize]), slot)).collect();
    aged.sort_unstable_by_key(|page| std::cmp::Reverse(page.0));
    aged
}

/// See the module.
pub(super) struct Ranked {
    unit: Unit,
    capacity: u64,
    charge: f64,
    /// Pages of the outqueue for each page in the cache.
    out: f64,
    tracker: Tracker<false>,
    /// Last requests by slot.
    pages: Vec<Request>,
    lists: Lists,
    lists_len: u32,
    filled: Bitmap,
    len: usize,
}

impl Ranked {
    /// An empty order.
    pub fn new(settings: &Settings, charge: f64, out: f64, tracker: Tracker<false>) -> Ranked {
        let mut order = Ranked {
            unit: settings.unit,
            capacity: settings.capacity,
            charge,
            out,
            tracker,
            pages: Vec::new(),
            lists: Lists::new(1),
            lists_len: 1,
            filled: Bitmap::default(),
            len: 0,
        };
        order.bound_outqueue();
        order.reach_classes();
        order
    }

    /// There are so many entries now.
    fn counted(&mut self, len: usize) {
        self.len = len;
        if self.unit == Unit::Bytes {
            self.bound_outqueue();
        }
    }

    fn bound_outqueue(&mut self) {
        let room = self.room(self.capacity);
        self.tracker.set_outqueue_max(outqueue_max(self.unit, room, self.len, self.out));
    }

    /// A list for each class.
    fn reach_classes(&mut self) {
        let classes = self.tracker.table().priorities.len() as u32;
        while self.lists_len <= classes {
            self.lists_len = self.lists.add_list() + 1;
        }
    }

    /// Sorts all pages into the lists of another table, each by last request.
    fn regroup(&mut self) {
        self.reach_classes();
        self.filled = Bitmap::default();
        for (_, slot) in by_age(&self.lists, 1..self.lists_len, &self.pages, &self.tracker) {
            let class = self.tracker.class(self.pages[slot as usize].cell);
            self.lists.move_to(class + 1, slot);
            self.filled.set(class, true);
        }
    }

    fn begin(&mut self) {
        if let Some(before) = self.tracker.begin() {
            if before.has_classes_of(self.tracker.table()) {
                self.reach_classes();
            } else {
                self.regroup();
            }
        }
    }

    /// The class of a slot that is in and not pinned.
    fn class_of(&self, slot: Slot) -> Option<u32> {
        self.lists.list_of(slot)?.checked_sub(1)
    }

    /// Puts a slot at the newest end of a list; the class that it leaves may be empty then.
    fn move_to(&mut self, list: u32, slot: Slot) {
        let old = self.class_of(slot);
        self.lists.move_to(list, slot);
        if old == list.checked_sub(1) {
            return;
        }
        self.note_filled(old);
        self.note_filled(list.checked_sub(1));
    }

    /// Whether the page that would go of this class was last asked for without hints.
    fn oldest_has_no_hints(&self, class: u32) -> bool {
        let oldest = self.lists.oldest(class + 1);
        oldest.is_some_and(|slot| self.pages[slot as usize].cell == NO_HINTS)
    }

    fn note_filled(&mut self, class: Option<u32>) {
        if let Some(class) = class {
            self.filled.set(class, !self.lists.is_empty(class + 1));
        }
    }
}

impl Order for Ranked {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        self.begin();
        let request = self.tracker.hit(access, self.pages[slot as usize]);
        self.pages[slot as usize] = request;
        if self.class_of(slot).is_some() {
            self.move_to(self.tracker.class(request.cell) + 1, slot);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.begin();
        self.tracker.miss(access);
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let request = self.tracker.enter(access);
        super::super::reach(&mut self.pages, slot, request);
        self.pages[slot as usize] = request;
        let class = self.tracker.class(request.cell);
        self.lists.push(class + 1, slot, self.unit.weight(access.size));
        self.filled.set(class, true);
        self.counted(self.len + 1);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let class = self.class_of(slot);
        self.lists.remove(slot);
        self.note_filled(class);
        if why == Why::Evicted {
            self.tracker.remember(hash, self.pages[slot as usize]);
        }
        self.counted(self.len - 1);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let lowest = self.filled.first();
        if incoming.slot.is_none() {
            let table = self.tracker.table();
            let newcomer = self.tracker.newcomer(incoming).cell;
            let class = self.tracker.class(newcomer);
            let beats = |lowest: u32| {
                table.priorities[class as usize] > table.priorities[lowest as usize]
                    || newcomer == NO_HINTS && self.oldest_has_no_hints(lowest)
            };
            if !lowest.is_some_and(beats) {
                self.tracker.refuse(incoming);
                return None;
            }
        }
        self.lists.oldest(lowest? + 1)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.tracker.refresh(&mut self.pages[slot as usize]);
        self.move_to(self.tracker.class(self.pages[slot as usize].cell) + 1, slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.bound_outqueue();
    }

    fn room(&self, capacity: u64) -> u64 {
        match self.unit {
            Unit::Entries => room(capacity, self.charge),
            Unit::Bytes => capacity,
        }
    }

    fn ghost_bytes(&self) -> usize {
        self.tracker.bytes() + self.lists_len as usize * super::super::list::LIST_BYTES + self.filled.bytes()
    }

    fn explain_absent(&self, hash: u64) -> Option<String> {
        self.tracker.remembered(hash)
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(list) = self.lists.list_of(slot) else { return "not in".into() };
        let page = self.pages[slot as usize];
        let hints = self.tracker.describe(page.cell);
        let class = self.tracker.class(page.cell);
        let priorities = &self.tracker.table().priorities;
        let priority = priorities.get(class as usize).copied().unwrap_or_default();
        let age = self.tracker.age(page);
        let pinned = if list == PINNED { "; pinned" } else { "" };
        format!(
            "last asked for {age} requests ago with {hints}: priority {priority:.3e}, class {class} of {}{pinned}",
            priorities.len(),
        )
    }

    fn validate(&self) {
        self.lists.validate();
        self.tracker.validate();
        let mut len = self.lists.len(PINNED);
        for class in 0..self.lists_len - 1 {
            assert_eq!(self.filled.get(class), !self.lists.is_empty(class + 1), "the bitmap knows class {class}");
            for slot in self.lists.iter(class + 1) {
                assert_eq!(self.tracker.class(self.pages[slot as usize].cell), class, "a page is in its class");
            }
            len += self.lists.len(class + 1);
        }
        assert_eq!(len, self.len, "entries");
    }
}

/// Which numbers are in a set, the lowest in a few steps: bits over bits.
#[derive(Default)]
struct Bitmap {
    /// The lowest level has a bit for each number, each other one for each word of the level below.
    levels: [Vec<u64>; 4],
}

impl Bitmap {
    fn set(&mut self, number: u32, filled: bool) {
        let mut at = number as usize;
        let mut filled = filled;
        for level in &mut self.levels {
            if at / 64 >= level.len() {
                level.resize(at / 64 + 1, 0);
            }
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word = *word & !(1 << (at % 64)) | u64::from(filled) << (at % 64);
            (at, filled) = (at / 64, *word != 0);
            if filled != was_empty {
                // Nothing changes above.
                return;
            }
        }
    }

    fn get(&self, number: u32) -> bool {
        let word = self.levels[0].get(number as usize / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    fn first(&self) -> Option<u32> {
        let mut at = 0usize;
        for level in self.levels.iter().rev() {
            let word = level.get(at).copied().unwrap_or(0);
            if word == 0 {
                return None;
            }
            at = 64 * at + word.trailing_zeros() as usize;
        }
        Some(at as u32)
    }

    fn bytes(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_bitmap_equals_a_set(steps in prop::collection::vec((0u32..300_000, any::<bool>()), 0..200)) {
            let (mut bitmap, mut model) = (Bitmap::default(), BTreeSet::new());
            for (number, filled) in steps {
                // Few numbers, so that they come again.
                let number = number / 30_000 * 30_000 + number % 3;
                bitmap.set(number, filled);
                if filled { model.insert(number) } else { model.remove(&number) };
                prop_assert_eq!(bitmap.first(), model.first().copied());
                prop_assert_eq!(bitmap.get(number), filled);
            }
        }
    }

    #[test]
    fn one_percent_is_charged() {
        let rooms: Vec<u64> = [0, 1, 10, 100, 15_197, 75_987].map(|capacity| room(capacity, 0.01)).to_vec();
        assert_eq!(rooms, [0, 1, 9, 99, 15_045, 75_227]);
    }
}
