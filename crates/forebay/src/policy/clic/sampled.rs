//! Replacement by worth at age (`curve.rs`): of a sample of pages the one of least worth goes, and a newcomer comes in
//! if it is worth more. The next ones of the sample are looked at again the next time, beside fewer new ones, so that
//! few looks find a page of very little worth.

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

/// Pages that are looked at again the next time.
const POOL_MAX: usize = 8;

/// A page that might go: its worth, its age, its slot.
type Candidate = (f32, u32, Slot);

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
    /// The next ones of the last sample, or whoever has their slots now.
    pool: Vec<Slot>,
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
            pool: Vec::with_capacity(POOL_MAX + 1),
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

    fn candidate(&self, page: &Page) -> Candidate {
        let age = self.tracker.age(page.request);
        (self.worth(page.class, age, page.weight), age, page.slot)
    }

    /// The page of least worth of a sample; of equal ones the oldest.
    fn least(&mut self) -> Option<Candidate> {
        if self.pages.len() <= self.shape.samples + POOL_MAX {
            let all = self.pages.iter().map(|page| self.candidate(page));
            return all.reduce(|least, other| if before(&other, &least) { other } else { least });
        }
        let mut best = [(0.0, 0, 0); POOL_MAX + 1];
        let mut len = 0;
        for at in 0..self.pool.len() {
            let place = self.place(self.pool[at]) as usize;
            if let Some(page) = self.pages.get(place) {
                insert(&mut best, &mut len, self.candidate(page));
            }
        }
        for _ in 0..self.shape.samples {
            let page = self.pages[self.random.index(self.pages.len())];
            insert(&mut best, &mut len, self.candidate(&page));
        }
        self.pool.clear();
        self.pool.extend(best[..len].iter().skip(1).map(|candidate| candidate.2));
        // If it stays, because the newcomer is worth less, it is the first to be looked at again.
        self.pool.truncate(POOL_MAX - 1);
        self.pool.push(best[0].2);
        Some(best[0])
    }
}

/// Whether a page goes before another.
fn before(one: &Candidate, other: &Candidate) -> bool {
    one.0 < other.0 || (one.0 == other.0 && one.1 > other.1)
}

/// Puts a candidate into its place among the best, if it is one of them and not there yet.
fn insert(best: &mut [Candidate; POOL_MAX + 1], len: &mut usize, candidate: Candidate) {
    let mut at = *len;
    while at > 0 && before(&candidate, &best[at - 1]) {
        at -= 1;
    }
    if at > POOL_MAX || best[..*len].iter().any(|other| other.2 == candidate.2) {
        return;
    }
    *len = (*len + 1).min(POOL_MAX + 1);
    best.copy_within(at..*len - 1, at + 1);
    best[at] = candidate;
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
            if !least.is_some_and(|(least, ..)| worth > least) {
                self.tracker.refuse(incoming);
                return None;
            }
        }
        least.map(|(.., slot)| slot)
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

    fn explain_absent(&self, hash: u64) -> Option<String> {
        self.tracker.remembered(hash)
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
