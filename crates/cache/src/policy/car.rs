//! CAR: ARC with two clocks in place of its two LRU lists, so that a hit costs no more than a mark.

use std::sync::Arc;

use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hits, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static CAR: Policy = Policy {
    name: "car",
    summary: "ARC on clocks: recency and frequency, balanced by what it regrets, at the cost of a mark per hit",
    source: "Bansal, Modha: CAR, clock with adaptive replacement, FAST 2004",
    hits: Hits::Marks,
    entry_bytes: NODE_BYTES + 1,
    parameters: &[],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Car::new(settings)),
};

/// T1 of the paper.
const ONCE: u32 = 0;
/// T2 of the paper.
const OFTEN: u32 = 1;
const PINNED: u32 = 2;

/// Ghosts of either clock weigh at most so many capacities, see ARC.
const GHOSTS_MAX: u64 = 4;

struct Car {
    unit: Unit,
    capacity: u64,
    /// Target for the weight of `ONCE`.
    p: f64,
    lists: Lists,
    /// Whether an entry belongs to `OFTEN`, for when it is pinned.
    often: Vec<bool>,
    /// B1 and B2 of the paper.
    ghosts: [History<u32>; 2],
    /// The key that was just found among these ghosts, and what it weighed, from `admit` until it is inserted.
    returning: Option<(u64, u32, u32)>,
}

impl Car {
    fn new(settings: &Settings) -> Car {
        Car {
            unit: settings.unit,
            capacity: settings.capacity,
            p: 0.0,
            lists: Lists::new(3),
            often: Vec::new(),
            ghosts: [History::new(), History::new()],
            returning: None,
        }
    }

    fn home(&self, slot: Slot) -> u32 {
        if self.often[slot as usize] { OFTEN } else { ONCE }
    }

    fn directory(&self, list: u32) -> u64 {
        self.lists.weight(list) + self.ghosts[list as usize].weight()
    }

    /// A ghost was asked for: the paper moves the target after it has made room, and counts the ghost itself.
    fn adapt(&mut self, list: u32, weight: u32) {
        let [mut once, mut often] = [0, 1].map(|list| self.ghosts[list].weight() as f64);
        match list {
            ONCE => {
                once += f64::from(weight);
                self.p = (self.p + (often / once).max(1.0)).min(self.capacity as f64);
            }
            _ => {
                often += f64::from(weight);
                self.p = (self.p - (once / often).max(1.0)).max(0.0);
            }
        }
    }

    /// Keeps the directory within the paper's bounds before `weight` more comes in.
    fn forget(&mut self, weight: u64) {
        while self.directory(ONCE) + weight > self.capacity && self.ghosts[0].pop_oldest().is_some() {}
        let directory_max = 2 * self.capacity;
        while self.directory(ONCE) + self.directory(OFTEN) + weight > directory_max
            && self.ghosts[1].pop_oldest().is_some()
        {}
    }

    fn trim(&mut self) {
        self.ghosts.iter_mut().for_each(|ghosts| ghosts.trim(GHOSTS_MAX * self.capacity));
    }
}

impl Order for Car {
    fn admit(&mut self, access: &Access) -> bool {
        self.returning = [ONCE, OFTEN]
            .into_iter()
            .find_map(|list| self.ghosts[list as usize].take(access.hash).map(|weight| (access.hash, list, weight)));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let weight = self.unit.weight(access.size);
        let returns = self.returning.take().filter(|&(hash, ..)| hash == access.hash);
        match returns {
            Some((_, list, weight)) => self.adapt(list, weight),
            None => self.forget(u64::from(weight)),
        }
        super::reach(&mut self.often, slot, false);
        self.often[slot as usize] = returns.is_some();
        self.lists.push(self.home(slot), slot, weight);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        if why == Why::Evicted {
            self.ghosts[self.home(slot) as usize].push(hash, weight, weight);
            self.trim();
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.often, slots);
    }

    fn victim(&mut self, _: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        // Every entry is met twice at most before one without a mark is; readers that go on marking must not keep the
        // hands going for ever.
        let mut steps_left = 2 * (self.lists.len(ONCE) + self.lists.len(OFTEN));
        loop {
            let once_first = self.lists.weight(ONCE) as f64 >= self.p.max(1.0);
            let (first, second) = if once_first { (ONCE, OFTEN) } else { (OFTEN, ONCE) };
            let slot = self.lists.oldest(first).or_else(|| self.lists.oldest(second))?;
            steps_left = steps_left.saturating_sub(1);
            if marks(slot) == 0 || steps_left == 0 {
                return Some(slot);
            }
            self.often[slot as usize] = true;
            self.lists.move_to(OFTEN, slot);
        }
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(self.home(slot), slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.p = self.p.min(capacity as f64);
        self.trim();
    }

    fn ghost_bytes(&self) -> usize {
        self.ghosts.iter().map(History::bytes).sum()
    }

    fn explain(&self, slot: Slot) -> String {
        let (times, list) = match self.lists.list_of(slot) {
            Some(ONCE) => ("once", ONCE),
            Some(OFTEN) => ("more than once", OFTEN),
            Some(_) => return "pinned".into(),
            None => return "not in".into(),
        };
        let weight = self.lists.weight(list);
        format!("on the clock of what was asked for {times} ({weight} such); that of once should have {:.0}", self.p)
    }

    fn validate(&self) {
        self.lists.validate();
        self.ghosts.iter().for_each(History::validate);
        assert!((0.0..=self.capacity as f64).contains(&self.p), "the target is within the capacity");
        for list in [ONCE, OFTEN] {
            assert!(self.lists.iter(list).all(|slot| self.home(slot) == list), "clock {list}: a slot from elsewhere");
            assert!(self.ghosts[list as usize].weight() <= GHOSTS_MAX * self.capacity, "ghosts beyond their bound");
        }
    }
}
