//! Replacement by worth at age (`curve.rs`): of a sample of pages the one of least worth goes, and a newcomer comes in
//! if it is worth more.

use super::super::random::Random;
use super::super::{Access, Order, Settings, Slot, Unit, Why};
use super::curve;
use super::outqueue::Request;
use super::ranked::room;
use super::tracker::Tracker;

/// Bytes of metadata for each entry.
pub(super) const ENTRY_BYTES: usize = size_of::<Page>() + size_of::<Place>();

/// A page in the cache.
#[derive(Clone, Copy, Debug)]
struct Page {
    request: Request,
    class: u32,
    slot: Slot,
    weight: u32,
}

/// Where a slot's page is: its index among those that may go, or with the highest bit among those that are pinned.
type Place = u32;
const NOWHERE: Place = u32::MAX;
const PINNED: Place = 1 << 31;

/// What an order of this kind is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Share of the room that metadata is charged with, where entries are counted.
    pub charge: f64,
    /// Pages of the outqueue for each page in the cache.
    pub out: f64,
    /// Pages looked at for each victim.
    pub samples: usize,
    /// Seed of the samples.
    pub seed: u64,
}

/// See the module.
pub(super) struct Sampled {
    unit: Unit,
    capacity: u64,
    shape: Shape,
    tracker: Tracker,
    random: Random,
    /// Those that may go.
    pages: Vec<Page>,
    pinned: Vec<Page>,
    places: Vec<Place>,
}

impl Sampled {
    /// An empty order.
    pub fn new(settings: &Settings, shape: Shape, tracker: Tracker) -> Sampled {
        let mut order = Sampled {
            unit: settings.unit,
            capacity: settings.capacity,
            shape,
            tracker,
            random: Random::new(shape.seed),
            pages: Vec::new(),
            pinned: Vec::new(),
            places: Vec::new(),
        };
        order.bound_outqueue();
        order
    }

    fn bound_outqueue(&mut self) {
        let pages = match self.unit {
            Unit::Entries => self.room(self.capacity),
            Unit::Bytes => (self.pages.len() + self.pinned.len()) as u64,
        };
        self.tracker.set_outqueue_max((pages as f64 * self.shape.out) as u64);
    }

    fn begin(&mut self) {
        if self.tracker.begin() {
            let tracker = &self.tracker;
            for page in self.pages.iter_mut().chain(&mut self.pinned) {
                page.class = tracker.class(page.request.cell);
            }
        }
    }

    fn place(&self, slot: Slot) -> Place {
        self.places.get(slot as usize).copied().unwrap_or(NOWHERE)
    }

    fn page(&self, slot: Slot) -> Option<&Page> {
        match self.place(slot) {
            NOWHERE => None,
            place if place & PINNED != 0 => self.pinned.get((place & !PINNED) as usize),
            place => self.pages.get(place as usize),
        }
    }

    fn page_mut(&mut self, slot: Slot) -> Option<&mut Page> {
        match self.place(slot) {
            NOWHERE => None,
            place if place & PINNED != 0 => self.pinned.get_mut((place & !PINNED) as usize),
            place => self.pages.get_mut(place as usize),
        }
    }

    fn put(&mut self, page: Page, pinned: bool) {
        let slot = page.slot as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, NOWHERE);
        }
        let (pages, bit) = if pinned { (&mut self.pinned, PINNED) } else { (&mut self.pages, 0) };
        self.places[slot] = pages.len() as u32 | bit;
        pages.push(page);
    }

    fn take(&mut self, slot: Slot) -> Option<Page> {
        let place = std::mem::replace(self.places.get_mut(slot as usize)?, NOWHERE);
        if place == NOWHERE {
            return None;
        }
        let pages = if place & PINNED != 0 { &mut self.pinned } else { &mut self.pages };
        let page = pages.swap_remove((place & !PINNED) as usize);
        if let Some(moved) = pages.get((place & !PINNED) as usize) {
            self.places[moved.slot as usize] = place;
        }
        Some(page)
    }

    /// Hits per request and unit of weight that a page is worth.
    fn worth(&self, class: u32, age: u32, weight: u32) -> f32 {
        let curves = &self.tracker.table().curves;
        let curve = curves.get(class as usize).or(curves.first());
        curve.map_or(0.0, |curve| curve[curve::bin(age)]) / weight.max(1) as f32
    }

    /// The page of least worth of a sample; of equal ones the oldest.
    fn least(&mut self) -> Option<(f32, Slot)> {
        let all = self.pages.len() <= self.shape.samples;
        let count = self.pages.len().min(self.shape.samples);
        let mut least: Option<(f32, u32, Slot)> = None;
        for at in 0..count {
            let page = self.pages[if all { at } else { self.random.index(self.pages.len()) }];
            let age = self.tracker.age(page.request);
            let worth = self.worth(page.class, age, page.weight);
            let lower = |&(least, oldest, _): &(f32, u32, Slot)| worth < least || (worth == least && age > oldest);
            if least.as_ref().is_none_or(lower) {
                least = Some((worth, age, page.slot));
            }
        }
        least.map(|(worth, _, slot)| (worth, slot))
    }
}

impl Order for Sampled {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.begin();
        let Some(before) = self.page(slot).map(|page| page.request) else { return };
        let request = self.tracker.hit(access, before);
        let class = self.tracker.class(request.cell);
        if let Some(page) = self.page_mut(slot) {
            (page.request, page.class) = (request, class);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.begin();
        self.tracker.miss(access);
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let request = self.tracker.enter(access);
        let class = self.tracker.class(request.cell);
        self.put(Page { request, class, slot, weight: self.unit.weight(access.size) }, false);
        self.bound_outqueue();
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        let weight = self.unit.weight(size);
        if let Some(page) = self.page_mut(slot) {
            page.weight = weight;
        }
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        if let Some(page) = self.take(slot)
            && why == Why::Evicted
        {
            self.tracker.remember(hash, page.request);
        }
        self.bound_outqueue();
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
        if let Some(page) = self.take(slot) {
            self.put(page, true);
        }
    }

    fn restore(&mut self, slot: Slot) {
        if let Some(mut page) = self.take(slot) {
            self.tracker.refresh(&mut page.request);
            self.put(page, false);
        }
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
        self.tracker.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(page) = self.page(slot) else { return "not in".into() };
        let age = self.tracker.age(page.request);
        let hints = self.tracker.describe(page.request.cell);
        let priority = self.tracker.table().priorities.get(page.class as usize).copied().unwrap_or_default();
        let (fresh, now) = (self.worth(page.class, 0, page.weight), self.worth(page.class, age, page.weight));
        let pinned = if self.place(slot) & PINNED != 0 { "; pinned" } else { "" };
        format!(
            "last asked for {age} requests ago with {hints}: priority {priority:.3e}, worth {now:.3e} at this age, \
             {fresh:.3e} when fresh{pinned}"
        )
    }

    fn validate(&self) {
        self.tracker.validate();
        for (bit, pages) in [(0, &self.pages), (PINNED, &self.pinned)] {
            for (at, page) in pages.iter().enumerate() {
                assert_eq!(self.place(page.slot), at as u32 | bit, "slot {} is found where it is", page.slot);
                assert_eq!(page.class, self.tracker.class(page.request.cell), "a page is in its class");
            }
        }
        let places = self.places.iter().filter(|&&place| place != NOWHERE).count();
        assert_eq!(places, self.pages.len() + self.pinned.len(), "each place has a page");
    }
}
