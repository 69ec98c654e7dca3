//! ARC: two LRU lists, of what was asked for once and more than once, and ghosts of both. A hit on a ghost says which
//! list was too short, and moves the target `p` between them.
//!
//! As figure 4 of the paper, with a real-valued `p`. Where entries weigh differently, weights stand for counts.

use std::sync::Arc;

use super::directory::Directory;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static ARC: Policy = Policy {
    name: "arc",
    summary: "recency and frequency, balanced by what it regrets; good on disks and databases",
    source: "Megiddo, Modha: ARC, a self-tuning, low overhead replacement cache, FAST 2003",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES,
    parameters: &[Parameter {
        name: "whole",
        summary: "1: the target between the lists moves by whole numbers, rounded down; 0: by fractions",
        default: 0.0,
        range: (0.0, 1.0),
    }],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(ArcOrder::new(settings)),
};

/// T1 of the paper: asked for once lately.
const ONCE: u32 = 0;
/// T2 of the paper: asked for at least twice lately.
const OFTEN: u32 = 1;
const PINNED: u32 = 2;

/// Ghosts of either list weigh at most so many capacities.
const GHOSTS_MAX: u64 = 4;

struct ArcOrder {
    unit: Unit,
    capacity: u64,
    /// Target for the weight of `ONCE`.
    p: f64,
    /// Whether `p` moves by whole numbers.
    whole: bool,
    /// With a note of the list that an entry belongs to, for when it is pinned.
    lists: Lists,
    /// B1 and B2 of the paper, with the numbers of `ONCE` and `OFTEN`.
    ghosts: Directory,
    /// The key that was just found among the ghosts of this list, from `admit` until it is inserted.
    returning: Option<(u64, u32)>,
    /// The victim just named goes without a ghost: `ONCE` fills all of its half of the directory.
    without_ghost: bool,
}

impl ArcOrder {
    fn new(settings: &Settings) -> ArcOrder {
        ArcOrder {
            unit: settings.unit,
            capacity: settings.capacity,
            p: 0.0,
            whole: settings.values.first().is_some_and(|&whole| whole >= 0.5),
            lists: Lists::new(3),
            ghosts: Directory::new(2),
            returning: None,
            without_ghost: false,
        }
    }

    fn home(&self, slot: Slot) -> u32 {
        u32::from(self.lists.note(slot))
    }

    fn directory(&self, list: u32) -> u64 {
        self.lists.weight(list) + self.ghosts.weight(list)
    }

    /// REPLACE of the paper.
    fn replace(&self, returns_to: Option<u32>) -> Option<Slot> {
        let once = self.lists.weight(ONCE) as f64;
        let from_once = once > self.p || (once == self.p && returns_to == Some(OFTEN));
        let (first, second) = if from_once { (ONCE, OFTEN) } else { (OFTEN, ONCE) };
        self.lists.oldest(first).or_else(|| self.lists.oldest(second))
    }

    /// Case IV keeps the directory within two capacities as long as all entries weigh the same and none is pinned or
    /// invalidated; this wider bound holds in any case.
    fn trim(&mut self, list: u32) {
        self.ghosts.trim(list, GHOSTS_MAX * self.capacity);
    }
}

impl Order for ArcOrder {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        match self.lists.list_of(slot) {
            Some(ONCE) => {
                self.lists.move_to(OFTEN, slot);
                self.lists.set_note(slot, OFTEN as u8);
            }
            Some(OFTEN) => self.lists.move_to(OFTEN, slot),
            _ => {}
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        let weights = [ONCE, OFTEN].map(|list| self.ghosts.weight(list));
        let ghost_of = self.ghosts.take(access.hash);
        if let Some(list) = ghost_of {
            let [once, often] = weights.map(|weight| weight as f64);
            let ratio = if list == ONCE { often / once } else { once / often };
            let step = if self.whole { ratio.floor() } else { ratio }.max(1.0);
            self.p = if list == ONCE { (self.p + step).min(self.capacity as f64) } else { (self.p - step).max(0.0) };
        }
        self.returning = ghost_of.map(|list| (access.hash, list));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let often = matches!(self.returning.take(), Some((hash, _)) if hash == access.hash);
        let list = if often { OFTEN } else { ONCE };
        self.lists.push(list, slot, self.unit.weight(access.size));
        self.lists.set_note(slot, list as u8);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let list = self.home(slot);
        let weight = self.lists.remove(slot);
        if why == Why::Evicted && !std::mem::take(&mut self.without_ghost) {
            // What is cached is no ghost: `admit` took it out.
            self.ghosts.push(list, slot, hash, weight);
            self.trim(list);
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
    }

    fn victim(&mut self, incoming: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.without_ghost = false;
        let returns_to = self.returning.filter(|&(hash, _)| hash == incoming.hash).map(|(_, list)| list);
        if incoming.slot.is_some() || returns_to.is_some() {
            return self.replace(returns_to);
        }
        // Case IV of the paper.
        if self.directory(ONCE) + u64::from(self.unit.weight(incoming.size)) > self.capacity {
            if !self.ghosts.pop_oldest(ONCE) {
                let oldest = self.lists.oldest(ONCE);
                self.without_ghost = oldest.is_some();
                return oldest.or_else(|| self.lists.oldest(OFTEN));
            }
        } else if self.directory(ONCE) + self.directory(OFTEN) >= 2 * self.capacity {
            self.ghosts.pop_oldest(OFTEN);
        }
        self.replace(None)
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
        self.trim(ONCE);
        self.trim(OFTEN);
    }

    fn ghost_bytes(&self) -> usize {
        self.ghosts.bytes()
    }

    fn directory(&self) -> Option<&Directory> {
        Some(&self.ghosts)
    }

    fn directory_mut(&mut self) -> Option<&mut Directory> {
        Some(&mut self.ghosts)
    }

    fn explain(&self, slot: Slot) -> String {
        let (times, list) = match self.lists.list_of(slot) {
            Some(ONCE) => ("once", ONCE),
            Some(OFTEN) => ("more than once", OFTEN),
            Some(_) => return "pinned".into(),
            None => return "not in".into(),
        };
        let weight = self.lists.weight(list);
        format!("asked for {times} lately ({weight} such); what was asked for once should be {:.0}", self.p)
    }

    fn validate(&self) {
        self.lists.validate();
        self.ghosts.validate();
        assert!((0.0..=self.capacity as f64).contains(&self.p), "the target is within the capacity");
        let [once, often] = [ONCE, OFTEN].map(|list| self.ghosts.weight(list));
        assert!(once.max(often) <= GHOSTS_MAX * self.capacity, "ghosts beyond their bound");
        for list in [ONCE, OFTEN] {
            assert!(self.lists.iter(list).all(|slot| self.home(slot) == list), "list {list}: a slot from elsewhere");
        }
    }
}
