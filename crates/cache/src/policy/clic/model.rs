//! `clic-tree` and `clic-g` as a whole by scans. Every outcome of a window is kept in a list, classes are looked up
//! in the tree each time, and pages stand in plain lists. How a tree grows, what a curve is made of and what hint
//! sets stand for is tested apart, so these are used here.

mod events;
mod taught;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::bare::Bare;
use super::super::random::Random;
use super::super::{Access, AccessKind, Hits, Order, Settings, Slot, Unit, Why, choose};
use super::cells::{Cells, Columns};
use super::curve;
use super::followed::Followed;
use super::meanings::Meanings;
use super::outcome::Outcome;
use super::outqueue::Request;
use crate::hint::{HintMeaning, HintSet};
use events::{apply, events};
use taught::Taught;

const SETS: u32 = 8;

/// Two clients with two hint types each.
fn meaning(set: u32) -> HintMeaning {
    let values = [set / 2 % 2, set / 4].map(|value| value.to_string().into_bytes().into()).to_vec();
    HintMeaning { schema: set % 2, types: vec![b"kind".as_slice().into(), b"table".as_slice().into()], values }
}

#[derive(Clone, Copy)]
struct Page {
    slot: Slot,
    weight: u32,
    at: u32,
    cell: u32,
}

struct Model {
    unit: Unit,
    capacity: u64,
    window: u64,
    out: f64,
    sample: usize,
    keep: f32,
    leaves: usize,
    cells: Cells,
    aged: bool,
    random: Random,
    followed: Followed,
    meanings: Meanings,
    now: u32,
    windows: u32,
    /// Requests and outcomes of this window, and what was drawn of those.
    requests: u64,
    outcomes: usize,
    drawn: Vec<(u32, Outcome)>,
    /// What earlier windows left.
    kept: BTreeMap<(u32, Outcome), f32>,
    taught: Taught,
    /// Of all that is kept and of the last window alone, with how well each foretold what came.
    rivals: [(Taught, f64); 2],
    pages: Vec<Page>,
    outqueue: Vec<(u64, u32, u32)>,
    missed: u32,
    /// Of `clic-g`: lists with their class, the age from which on pages go on to the next one, what the lower end was
    /// worth when it was last looked at, and the pages, oldest first.
    lists: Vec<(usize, u32, f32, Vec<Slot>)>,
    turn: usize,
}

impl Model {
    fn new(settings: &Settings, aged: bool) -> Model {
        // Window, out, charge, sample, keep, leaves and, where worth has an age, past.
        let value = |place: usize| settings.values[place];
        let mut meanings = Meanings::new();
        (0..SETS).for_each(|set| meanings.define(set, &meaning(set)));
        let mut model = Model {
            unit: settings.unit,
            capacity: settings.capacity,
            window: value(0) as u64,
            out: value(1),
            sample: value(3) as usize,
            keep: value(4) as f32,
            leaves: value(5) as usize,
            cells: Cells { with_past: aged && value(6) == 1.0 },
            aged,
            random: Random::new(value(if aged { 7 } else { 6 }) as u64),
            followed: Followed::all(value(if aged { 7 } else { 6 }) as u64),
            meanings,
            now: 0,
            windows: 0,
            requests: 0,
            outcomes: 0,
            drawn: Vec::new(),
            kept: BTreeMap::new(),
            taught: Taught::nothing(),
            rivals: [(Taught::nothing(), 0.0), (Taught::nothing(), 0.0)],
            pages: Vec::new(),
            outqueue: Vec::new(),
            missed: 0,
            lists: Vec::new(),
            turn: 0,
        };
        model.regroup();
        model
    }

    fn page(&self, slot: Slot) -> Page {
        *self.pages.iter().find(|page| page.slot == slot).expect("is in")
    }

    fn age(&self, at: u32) -> u32 {
        self.now - at
    }

    /// What became of a request: algorithm R.
    fn outcome(&mut self, cell: u32, at: u32, read: bool) {
        let outcome = (cell, Outcome::new(self.age(at), read));
        self.outcomes += 1;
        if self.drawn.len() < self.sample {
            return self.drawn.push(outcome);
        }
        let place = self.random.index(self.outcomes);
        if place < self.sample {
            self.drawn[place] = outcome;
        }
    }

    fn begin(&mut self) {
        let ends = self.requests >= self.window_len(self.windows);
        if ends {
            self.end_window();
        }
        self.requests += 1;
        self.now += 1;
        if ends {
            self.regroup();
        }
    }

    /// The first four windows are shorter.
    fn window_len(&self, windows: u32) -> u64 {
        (self.window >> 4u32.saturating_sub(windows)).max(1)
    }

    fn class(&self, cell: u32) -> usize {
        let columns = Columns { meanings: &self.meanings, cells: self.cells };
        let leaf = self.taught.tree.leaf(cell, &columns);
        self.taught.classes.iter().position(|class| class.0 == leaf).expect("each leaf is a class")
    }

    fn learn(&mut self, access: &Access, before: Option<(u32, u32)>) -> u32 {
        let before = before.map(|(at, cell)| Request { at, cell });
        if let Some(request) = before.filter(|request| self.followed.has(*request)) {
            self.outcome(request.cell, request.at, matches!(access.kind, AccessKind::Read | AccessKind::Prefetch));
        }
        self.cells.cell(access.hints, before, self.now)
    }

    fn remember(&mut self, hash: u64, at: u32, cell: u32) {
        self.outqueue.retain(|page| page.0 != hash);
        if self.followed.has(Request { at, cell }) {
            self.outqueue.push((hash, at, cell));
        }
    }

    fn trim(&mut self) {
        let pages = if self.unit == Unit::Entries { self.capacity } else { self.pages.len() as u64 };
        while self.outqueue.len() as u64 > self.followed.of((pages as f64 * self.out) as u64) {
            let (_, at, cell) = self.outqueue.remove(0);
            self.outcome(cell, at, false);
        }
    }
}

/// The lists of `clic-g`.
impl Model {
    /// As many sizes are told apart.
    fn sizes(&self) -> usize {
        if self.unit == Unit::Bytes { 16 } else { 1 }
    }

    fn regroup(&mut self) {
        let mut pages: Vec<Page> = self.pages.clone();
        pages.retain(|page| self.lists.iter().any(|list| list.3.contains(&page.slot)));
        pages.sort_by_key(|page| page.at);
        self.lists.clear();
        for (class, (_, _, curve)) in self.taught.classes.iter().enumerate() {
            let ages = if self.aged && self.windows > 0 { curve::dips(curve).to_vec() } else { Vec::new() };
            for to in ages.into_iter().filter(|age| *age != u32::MAX).chain([u32::MAX]) {
                (0..self.sizes()).for_each(|_| self.lists.push((class, to, f32::INFINITY, Vec::new())));
            }
        }
        for page in pages {
            let list = self.list(page.cell, self.age(page.at), page.weight);
            self.lists[list].3.push(page.slot);
        }
        (0..self.lists.len()).for_each(|list| self.look(list));
    }

    /// Of its class and size the first list that is for so young ones.
    fn list(&self, cell: u32, age: u32, weight: u32) -> usize {
        let class = self.class(cell);
        let size = match self.unit {
            Unit::Entries => 0,
            Unit::Bytes => (weight.max(1).ilog2() as usize).clamp(4, 19) - 4,
        };
        let fits = |&list: &usize| {
            let (of_class, to, ..) = self.lists[list];
            of_class == class && list % self.sizes() == size && (age < to || to == u32::MAX)
        };
        (0..self.lists.len()).find(fits).expect("the last part has no end")
    }

    fn worth(&self, class: usize, age: u32, weight: u32) -> f32 {
        self.taught.classes[class].2[curve::bin(age)] / weight.max(1) as f32
    }

    fn lower_end(&self, list: usize) -> Option<(f32, Slot)> {
        let (class, _, _, pages) = &self.lists[list];
        let worth = |slot: Slot| {
            let page = self.page(slot);
            (self.worth(*class, self.age(page.at), page.weight), slot)
        };
        let (old, new) = (worth(*pages.first()?), worth(*pages.last()?));
        Some(if new.0 < old.0 { new } else { old })
    }

    fn look(&mut self, list: usize) {
        let (to, next) = (self.lists[list].1, list + self.sizes());
        let late =
            |model: &Model| model.lists[list].3.first().is_some_and(|&slot| model.age(model.page(slot).at) >= to);
        let mut moved = 0;
        while to != u32::MAX && moved < 64 && late(self) {
            let slot = self.lists[list].3.remove(0);
            self.lists[next].3.push(slot);
            moved += 1;
        }
        if moved > 0 {
            self.look(next);
        }
        self.lists[list].2 = self.lower_end(list).map_or(f32::INFINITY, |end| end.0);
    }

    fn lowest(&self) -> usize {
        let least = self.lists.iter().map(|list| list.2).fold(f32::INFINITY, f32::min);
        self.lists.iter().position(|list| list.2 == least).expect("there are lists")
    }

    /// Two lists are looked at again with each victim, and the lowest until it is, eight times at most.
    fn least(&mut self) -> Option<(f32, Slot)> {
        for _ in 0..2 {
            self.turn = (self.turn + 1) % self.lists.len().max(self.turn + 1);
            self.look(self.turn);
        }
        let mut list = self.lowest();
        for _ in 0..8 {
            self.look(list);
            if self.lowest() == list {
                break;
            }
            list = self.lowest();
        }
        self.lower_end(list)
    }

    fn leave(&mut self, slot: Slot) {
        for (_, _, worth, pages) in self.lists.iter_mut().filter(|list| list.3.contains(&slot)) {
            pages.retain(|&other| other != slot);
            *worth = if pages.is_empty() { f32::INFINITY } else { *worth };
        }
    }

    fn enter(&mut self, page: Page) {
        self.leave(page.slot);
        let list = self.list(page.cell, 0, page.weight);
        self.lists[list].3.push(page.slot);
        if self.lists[list].3.len() == 1 {
            self.look(list);
        }
    }

    /// Whether it can go.
    fn is_listed(&self, slot: Slot) -> bool {
        self.lists.iter().any(|list| list.3.contains(&slot))
    }
}

impl Order for Model {
    fn access(&mut self, slot: Slot, access: &Access) {
        self.begin();
        let page = self.page(slot);
        let cell = self.learn(access, Some((page.at, page.cell)));
        let page = Page { at: self.now, cell, ..page };
        self.pages.retain(|other| other.slot != slot);
        self.pages.push(page);
        if self.is_listed(slot) {
            self.enter(page);
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.begin();
        let known = self.outqueue.iter().position(|page| page.0 == access.hash).map(|at| self.outqueue.remove(at));
        self.missed = self.learn(access, known.map(|(_, at, cell)| (at, cell)));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let page = Page { slot, weight: self.unit.weight(access.size), at: self.now, cell: self.missed };
        self.pages.push(page);
        self.enter(page);
        self.trim();
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        let weight = self.unit.weight(size);
        self.pages.iter_mut().filter(|page| page.slot == slot).for_each(|page| page.weight = weight);
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let page = self.page(slot);
        self.leave(slot);
        self.pages.retain(|page| page.slot != slot);
        if why == Why::Evicted {
            self.remember(hash, page.at, page.cell);
        }
        self.trim();
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let (found, wins) = if self.aged {
            let least = self.least();
            let own = self.worth(self.class(self.missed), 0, self.unit.weight(incoming.size));
            (least.map(|least| least.1), least.is_some_and(|least| own > least.0))
        } else {
            // Figure 4: of the lowest priority the one that was asked for least recently.
            let listed = self.pages.iter().filter(|page| self.is_listed(page.slot));
            let least = listed.min_by_key(|page| (self.class(page.cell), page.at));
            let priority = |cell: u32| self.taught.classes[self.class(cell)].1;
            // Set 0 is that of requests without hints, which go by recency among themselves.
            let no_hints = |least: &Page| self.missed == 0 && least.cell == 0;
            let wins = least.is_some_and(|least| priority(self.missed) > priority(least.cell) || no_hints(least));
            (least.map(|least| least.slot), wins)
        };
        if incoming.slot.is_none() && !wins {
            self.remember(incoming.hash, self.now, self.missed);
            self.trim();
            return None;
        }
        found
    }

    fn withdraw(&mut self, slot: Slot) {
        self.leave(slot);
    }

    fn restore(&mut self, slot: Slot) {
        // As if it had been asked for now.
        self.now += 1;
        let page = Page { at: self.now, ..self.page(slot) };
        self.pages.retain(|other| other.slot != slot);
        self.pages.push(page);
        self.enter(page);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.trim();
    }

    fn explain(&self, slot: Slot) -> String {
        format!("{} requests ago", self.age(self.page(slot).at))
    }

    fn validate(&self) {}
}

const FORMS: [(&str, bool); 6] = [
    ("clic-tree:window=160,out=10,charge=0", false),
    ("clic-tree:window=400,out=50,charge=0,keep=0.5,sample=150,leaves=3", false),
    ("clic-tree:window=30,sample=64,charge=0,keep=0", false),
    ("clic-g:window=160,out=40,charge=0", true),
    ("clic-g:window=600,out=60,charge=0,keep=0.7,sample=64,seed=3", true),
    ("clic-g:window=300,out=10,past=1,charge=0,sample=150,leaves=3", true),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_its_model(events in events(), capacity in 1u64..16, bytes in any::<bool>()) {
        let (unit, weight) = if bytes { (Unit::Bytes, 100) } else { (Unit::Entries, 1) };
        for (name, aged) in FORMS {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(unit, capacity * weight);
            let mut cache = Bare::new(choice.policy, &settings);
            (0..SETS).for_each(|set| cache.define_hints(HintSet(set), &meaning(set)));
            let model = Box::new(Model::new(&settings, aged));
            let mut model = Bare::with_order(Hits::Accesses, &settings, model);
            for (step, &event) in events.iter().enumerate() {
                let (ours, models) = (apply(&mut cache, event, weight), apply(&mut model, event, weight));
                prop_assert_eq!(ours, models, "{}: step {} ({:?})", name, step, event);
                // It costs more than all that came between.
                if step % 16 == 0 {
                    cache.validate();
                }
            }
        }
    }
}
