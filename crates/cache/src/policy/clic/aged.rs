//! Replacement by worth at age (`curve.rs`): the page of least worth goes, and a newcomer comes in if it is worth more.
//!
//! Pages of one class and size stand in lists by last request, so by age. A class' worth over age may first rise and
//! then fall, as that of pages that come back after a loop does. Then the page of least worth stands at one of the
//! two ends. Other curves are cut at their dips (`curve::dips`), with a list for each part, into which pages go on as
//! they grow older. So a tree of minima over the ends of all lists knows the least.
//!
//! Ends change their worth without being touched, as time goes by. With each victim a few lists are looked at again,
//! by turns, and the lowest always is. No page but those at ends is ever looked at. What the last look at a list
//! showed holds while it has the ends that it had, and neither grows into another bin of ages.

use super::super::list::{LIST_BYTES, Lists, NODE_BYTES};
use super::super::{Access, Hit, Order, Settings, Slot, Unit, Why};
use super::curve::{self, PARTS_MAX};
use super::minima::Minima;
use super::outqueue::Request;
use super::ranked::{by_age, outqueue_max, room};
use super::tracker::Tracker;

/// Bytes of metadata for each entry.
pub(super) const ENTRY_BYTES: usize = NODE_BYTES + size_of::<Request>();

/// Pinned pages are in the first list, the others in those after it, by class and size.
const PINNED: u32 = 0;

/// Sizes that are told apart where bytes are counted, by powers of two: all below 32 B are one, all from 512 KiB on.
const SIZES: u32 = 16;
const SIZE_LOG_MIN: u32 = 4;

/// Lists that are looked at again with each victim.
const LOOKS: u32 = 2;

/// Pages at most that go on to the next part at a time; the others do at the next look.
const LATE_MAX: u32 = 64;

/// Lists at most that turn out not to be the lowest before one is taken nevertheless.
const TRIES_MAX: u32 = 8;

/// What a look at a list has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// The ends that it had, as [`Lists::ends`] has them.
    ends: (Slot, Slot),
    /// When that was.
    at: u32,
    /// For how many requests from then on all stays so, if the ends are the same and no page has come in.
    stays: u32,
    /// The end that is worth less, of equal ones the oldest, with its worth: that of an empty list is infinite.
    lower: (f32, Slot),
}

const UNSEEN: Seen = Seen { ends: (0, 0), at: 0, stays: 0, lower: (f32::INFINITY, 0) };

/// What an order of this kind is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Share of the room that metadata is charged with, where entries are counted.
    pub charge: f64,
    /// Pages of the outqueue for each page in the cache.
    pub out: f64,
}

/// See the module.
pub(super) struct Aged {
    unit: Unit,
    capacity: u64,
    shape: Shape,
    tracker: Tracker<true>,
    /// Last requests by slot.
    pages: Vec<Request>,
    lists: Lists,
    /// Lists that there are, and those in use.
    lists_made: u32,
    lists_len: u32,
    /// By list, less one: the worth of the lower end when it was last looked at.
    lowest: Minima,
    /// By class: its first list, and the ages at which the parts after the first begin.
    parts: Vec<(u32, [u32; PARTS_MAX - 1])>,
    /// By list: its class, and the age from which on its pages belong into the next part.
    places: Vec<(u32, u32)>,
    /// By list.
    seen: Vec<Seen>,
    /// The list that is looked at next.
    turn: u32,
    len: usize,
}

impl Aged {
    /// An empty order.
    pub fn new(settings: &Settings, shape: Shape, tracker: Tracker<true>) -> Aged {
        let mut order = Aged {
            unit: settings.unit,
            capacity: settings.capacity,
            shape,
            tracker,
            pages: Vec::new(),
            lists: Lists::new(1),
            lists_made: 1,
            lists_len: 1,
            lowest: Minima::new(0),
            parts: Vec::new(),
            places: Vec::new(),
            seen: Vec::new(),
            turn: 1,
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
        self.tracker.set_outqueue_max(outqueue_max(self.unit, room, self.len, self.shape.out));
    }

    /// Lists of a class.
    fn sizes(&self) -> u32 {
        match self.unit {
            Unit::Entries => 1,
            Unit::Bytes => SIZES,
        }
    }

    /// The list of pages of a class, age and weight.
    fn list(&self, class: u32, age: u32, weight: u32) -> u32 {
        let size = match self.unit {
            Unit::Entries => 0,
            Unit::Bytes => weight.max(1).ilog2().saturating_sub(SIZE_LOG_MIN).min(SIZES - 1),
        };
        let Some((first, ages)) = self.parts.get(class as usize) else { return 1 + size };
        let part = ages.iter().take_while(|&&from| age >= from).count() as u32;
        first + part * self.sizes() + size
    }

    /// Lists for each class.
    fn reach_classes(&mut self) {
        let sizes = self.sizes();
        self.parts.clear();
        self.places.clear();
        self.places.push((0, u32::MAX));
        let table = self.tracker.table();
        for class in 0..table.priorities.len() {
            let ages = table.curves.get(class).map_or([u32::MAX; PARTS_MAX - 1], curve::dips);
            self.parts.push((self.places.len() as u32, ages));
            for to in ages.iter().filter(|age| **age != u32::MAX).chain([&u32::MAX]) {
                self.places.extend((0..sizes).map(|_| (class as u32, *to)));
            }
        }
        while (self.lists_made as usize) < self.places.len() {
            self.lists_made = self.lists.add_list() + 1;
        }
        self.lists_len = self.places.len() as u32;
        self.lowest = Minima::new(self.lists_len as usize - 1);
        self.seen.clear();
        // Lists of the table before may have pages still.
        self.seen.resize(self.lists_made as usize, UNSEEN);
    }

    /// Sorts all pages into the lists of another table, each by last request.
    fn regroup(&mut self) {
        let pages = by_age(&self.lists, 1..self.lists_made, &self.pages, &self.tracker);
        self.reach_classes();
        for (age, slot) in pages {
            let class = self.tracker.class(self.pages[slot as usize].cell);
            let list = self.list(class, age, self.lists.weight_of(slot));
            self.lists.move_to(list, slot);
        }
        for list in 1..self.lists_len {
            self.look(list);
        }
    }

    fn begin(&mut self) {
        if self.tracker.begin().is_some() {
            self.regroup();
        }
    }

    /// Hits per request and unit of weight that a page is worth.
    fn worth(&self, class: u32, age: u32, weight: u32) -> f32 {
        let curves = &self.tracker.table().curves;
        let curve = curves.get(class as usize).or(curves.first());
        let worth = curve.map_or(0.0, |curve| curve[curve::bin(age)]);
        by_weight(worth, weight)
    }

    /// What a look at a list shows now.
    fn seen(&self, list: u32) -> Seen {
        let (at, ends) = (self.tracker.now(), self.lists.ends(list));
        if self.lists.is_empty(list) {
            return Seen { ends, at, stays: u32::MAX, ..UNSEEN };
        }
        let (old, new) = ends;
        let (class, to) = self.places[list as usize];
        let old_age = self.tracker.age(self.pages[old as usize]);
        let (old_bin, old_stays) = curve::bin_and_stay(old_age);
        let (new_bin, new_stays) = curve::bin_and_stay(self.tracker.age(self.pages[new as usize]));
        let curves = &self.tracker.table().curves;
        let (mut old_worth, mut new_worth) = match curves.get(class as usize).or(curves.first()) {
            Some(curve) => (curve[old_bin], curve[new_bin]),
            None => (0.0, 0.0),
        };
        if self.unit == Unit::Bytes {
            old_worth = by_weight(old_worth, self.lists.weight_of(old));
            new_worth = by_weight(new_worth, self.lists.weight_of(new));
        }
        let late = if to == u32::MAX { u32::MAX } else { to.saturating_sub(old_age) };
        let stays = late.min(old_stays).min(new_stays);
        Seen { ends, at, stays, lower: if new_worth < old_worth { (new_worth, new) } else { (old_worth, old) } }
    }

    #[inline]
    fn is_as_seen(&self, list: u32) -> bool {
        let seen = &self.seen[list as usize];
        self.tracker.now().wrapping_sub(seen.at) < seen.stays && self.lists.ends(list) == seen.ends
    }

    /// Moves pages that have become too old for a list into that of the next part, as far as the limit; notes what the
    /// lower end is worth now.
    #[inline]
    fn look(&mut self, list: u32) {
        if !self.is_as_seen(list) {
            self.look_anew(list);
        }
    }

    fn look_anew(&mut self, list: u32) {
        let (to, next) = (self.places[list as usize].1, list + self.sizes());
        let mut late = 0;
        while to != u32::MAX
            && late < LATE_MAX
            && let Some(oldest) = self.lists.oldest(list)
            && self.tracker.age(self.pages[oldest as usize]) >= to
        {
            self.lists.move_to(next, oldest);
            late += 1;
        }
        if late > 0 {
            self.look_anew(next);
        }
        let seen = self.seen(list);
        self.seen[list as usize] = seen;
        self.lowest.set(list as usize - 1, seen.lower.0);
    }

    /// The page of least worth, and what it is worth.
    fn least(&mut self) -> Option<(f32, Slot)> {
        for _ in 0..LOOKS {
            self.turn = if self.turn + 1 >= self.lists_len { 1 } else { self.turn + 1 };
            self.look(self.turn);
        }
        let mut list = self.lowest.first() as u32 + 1;
        for _ in 0..TRIES_MAX {
            self.look(list);
            let lowest = self.lowest.first() as u32 + 1;
            if lowest == list {
                return lower_end(&self.seen[list as usize]);
            }
            list = lowest;
        }
        lower_end(&self.seen(list))
    }

    /// The list of a slot that is in and not pinned.
    fn list_of(&self, slot: Slot) -> Option<u32> {
        self.lists.list_of(slot).filter(|&list| list != PINNED)
    }

    /// Puts a page at the newest end of a list; the one that it leaves may be empty then.
    fn move_to(&mut self, list: u32, slot: Slot) {
        let old = self.list_of(slot);
        self.lists.move_to(list, slot);
        self.left(old);
        self.entered(list);
    }

    fn left(&mut self, list: Option<u32>) {
        if let Some(list) = list
            && self.lists.is_empty(list)
        {
            self.lowest.set(list as usize - 1, f32::INFINITY);
        }
    }

    fn entered(&mut self, list: u32) {
        self.seen[list as usize].stays = 0;
        if list != PINNED && self.lists.len(list) == 1 {
            self.look(list);
        }
    }
}

fn by_weight(worth: f32, weight: u32) -> f32 {
    if weight > 1 { worth / weight as f32 } else { worth }
}

/// What a look showed to be the lower end, if the list was not empty.
fn lower_end(seen: &Seen) -> Option<(f32, Slot)> {
    seen.lower.0.is_finite().then_some(seen.lower)
}

impl Order for Aged {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, access: &Access) {
        self.begin();
        let request = self.tracker.hit(access, self.pages[slot as usize]);
        self.pages[slot as usize] = request;
        if self.list_of(slot).is_some() {
            let list = self.list(self.tracker.class(request.cell), 0, self.lists.weight_of(slot));
            self.move_to(list, slot);
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
        let weight = self.unit.weight(access.size);
        let list = self.list(self.tracker.class(request.cell), 0, weight);
        self.lists.push(list, slot, weight);
        self.entered(list);
        self.counted(self.len + 1);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        // It stays in its list, where it stands by age, until it is asked for again.
        self.lists.set_weight(slot, self.unit.weight(size));
        if let Some(list) = self.list_of(slot) {
            self.seen[list as usize].stays = 0;
        }
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let list = self.list_of(slot);
        self.lists.remove(slot);
        self.left(list);
        if why == Why::Evicted {
            self.tracker.remember(hash, self.pages[slot as usize]);
        }
        self.counted(self.len - 1);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let least = self.least();
        if incoming.slot.is_none() {
            let class = self.tracker.class(self.tracker.newcomer(incoming).cell);
            let worth = self.worth(class, 0, self.unit.weight(incoming.size));
            if !least.is_some_and(|(least, _)| worth > least) {
                self.tracker.refuse(incoming);
                return None;
            }
        }
        least.map(|(_, slot)| slot)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.tracker.refresh(&mut self.pages[slot as usize]);
        let class = self.tracker.class(self.pages[slot as usize].cell);
        self.move_to(self.list(class, 0, self.lists.weight_of(slot)), slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.bound_outqueue();
    }

    fn room(&self, capacity: u64) -> u64 {
        match self.unit {
            Unit::Entries => room(capacity, self.shape.charge),
            Unit::Bytes => capacity,
        }
    }

    fn ghost_bytes(&self) -> usize {
        self.tracker.bytes() + self.lists_len as usize * (LIST_BYTES + size_of::<Seen>()) + self.lowest.bytes()
    }

    fn explain_absent(&self, hash: u64) -> Option<String> {
        self.tracker.remembered(hash)
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(list) = self.lists.list_of(slot) else { return "not in".into() };
        let page = self.pages[slot as usize];
        let (age, class) = (self.tracker.age(page), self.tracker.class(page.cell));
        let hints = self.tracker.describe(page.cell);
        let priority = self.tracker.table().priorities.get(class as usize).copied().unwrap_or_default();
        let weight = self.lists.weight_of(slot);
        let (fresh, now) = (self.worth(class, 0, weight), self.worth(class, age, weight));
        let pinned = if list == PINNED { "; pinned" } else { "" };
        format!(
            "last asked for {age} requests ago with {hints}: priority {priority:.3e}, worth {now:.3e} at this age, \
             {fresh:.3e} when fresh{pinned}"
        )
    }

    fn validate(&self) {
        self.lists.validate();
        self.tracker.validate();
        let mut len = self.lists.len(PINNED);
        for list in 1..self.lists_len {
            let pages: Vec<Request> = self.lists.iter(list).map(|slot| self.pages[slot as usize]).collect();
            let class = self.places[list as usize].0;
            assert!(pages.iter().all(|page| self.tracker.class(page.cell) == class), "a page is in its class");
            let ages: Vec<u32> = pages.iter().map(|&page| self.tracker.age(page)).collect();
            assert!(ages.windows(2).all(|pair| pair[0] > pair[1]), "a list is by age: {ages:?}");
            assert_eq!(self.lowest.get(list as usize - 1).is_finite(), !pages.is_empty(), "list {list} counts, or not");
            if self.is_as_seen(list) {
                let (noted, now) = (self.seen[list as usize].lower, self.seen(list).lower);
                assert_eq!((self.lowest.get(list as usize - 1), noted), (now.0, now), "list {list} is as it was seen");
            }
            len += pages.len();
        }
        assert_eq!(len, self.len, "entries");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::HintSet;
    use crate::policy::AccessKind;
    use crate::policy::choose;
    use proptest::prelude::*;

    fn order(text: &str, unit: Unit, capacity: u64) -> Aged {
        let choice = choose(text).expect("in the table");
        let settings = choice.settings(unit, capacity);
        let config = super::super::config(&settings, choice.policy.parameters, super::super::Method::Aged);
        let tracker = Tracker::new((choice.policy.learned)(&settings), config);
        Aged::new(&settings, Shape { charge: 0.0, out: 2.0 }, tracker)
    }

    proptest! {
        /// Once all lists were looked at, no end is worth less than the least; and it is a page of a list's end.
        #[test]
        fn the_least_is_the_least_of_all_ends(
            requests in prop::collection::vec((0u64..200, 0u32..6, 1u32..3000, any::<bool>()), 50..600),
            bytes in any::<bool>(),
        ) {
            let unit = if bytes { Unit::Bytes } else { Unit::Entries };
            let mut order = order("clic-g:window=40,sample=64", unit, 1000);
            let mut slots = std::collections::HashMap::<u64, Slot>::new();
            for (key, hints, size, writes) in requests {
                let kind = if writes { AccessKind::Write } else { AccessKind::Read };
                let access = Access { kind, hints: HintSet(hints), ..Access::read(key, size) };
                match slots.get(&key) {
                    Some(&slot) => order.access(slot, &Access { slot: Some((slot, 0)), ..access }),
                    None => {
                        order.admit(&access);
                        let slot = slots.len() as Slot;
                        slots.insert(key, slot);
                        order.inserted(slot, &access);
                    }
                }
                order.validate();
            }
            // A few times, since not all that is late goes on at once.
            for _ in 0..4 {
                for list in 1..order.lists_len {
                    order.look(list);
                }
            }
            let ends: Vec<(f32, Slot)> = (1..order.lists_len).map(|list| order.seen(list).lower).collect();
            let least = ends.iter().map(|end| end.0).fold(f32::INFINITY, f32::min);
            let found = order.least().expect("not empty");
            prop_assert_eq!(found.0, least);
            prop_assert!(ends.contains(&found));
        }
    }
}
