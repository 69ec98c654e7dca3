//! CAMP: greedy dual size with the ratio of cost to weight rounded to a few bits. Entries of about one ratio share an
//! LRU queue, so only the heads of queues need to be ordered.

use std::sync::Arc;

use hashbrown::HashMap;

use super::heap::Heap;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static CAMP: Policy = Policy {
    name: "camp",
    summary: "recency weighed by cost and size, in a few LRU queues; where costs of fetching differ",
    source: "Ghandeharizadeh, Irani, Lam, Yap: CAMP, a cost adaptive multi-queue eviction policy, Middleware 2014",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<Entry>() + size_of::<u64>(),
    parameters: &[
        Parameter {
            name: "precision",
            summary: "leading bits of the ratio that count",
            default: 5.0,
            range: (1.0, 10.0),
        },
        Parameter {
            name: "cost",
            summary: "1: the measured cost of fetching, in microseconds; 0: every fetch costs the same",
            default: 1.0,
            range: (0.0, 1.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Camp::new(settings)),
};

/// The list of what is pinned; others are queues.
const PINNED: u32 = 0;

/// What a fetch costs when nobody measured it, in microseconds.
const COST_DEFAULT: u64 = 1000;

#[derive(Clone, Copy)]
struct Entry {
    priority: u64,
    cost: u64,
    weight: u32,
}

struct Camp {
    unit: Unit,
    precision: u32,
    by_cost: bool,
    /// L of the paper: the lowest priority, as it was last seen.
    age: u64,
    /// The heaviest entry so far: ratios are multiplied by its weight, to be whole numbers.
    weight_max: u64,
    /// Counts what sets priorities.
    now: u64,
    lists: Lists,
    entries: Vec<Entry>,
    /// Queues by rounded ratio. Their number is bounded by the precision and the range of the ratios.
    queues: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// Queues that have entries, by the priority of their oldest and when it was set.
    heads: Heap<(u64, u64)>,
    /// When an entry's priority was set: among equals the older goes.
    set_at: Vec<u64>,
}

impl Camp {
    fn new(settings: &Settings) -> Camp {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(CAMP.parameters[index].default);
        Camp {
            unit: settings.unit,
            precision: value(0) as u32,
            by_cost: value(1) >= 0.5,
            age: 0,
            weight_max: 1,
            now: 0,
            lists: Lists::new(1),
            entries: Vec::new(),
            queues: HashMap::default(),
            heads: Heap::new(),
            set_at: Vec::new(),
        }
    }

    /// Cost for each unit of weight, as a whole number, of which only the leading bits count.
    fn ratio(&self, cost: u64, weight: u32) -> u64 {
        let ratio = u128::from(cost) * u128::from(self.weight_max) / u128::from(weight.max(1));
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX >> 1).clamp(1, u64::MAX >> 1);
        let dropped = (u64::BITS - ratio.leading_zeros()).saturating_sub(self.precision);
        (ratio >> dropped) << dropped
    }

    /// Orders a queue among the others by its oldest entry.
    fn note_head(&mut self, queue: u32) {
        match self.lists.oldest(queue) {
            Some(slot) => {
                self.heads.set(queue, (self.entries[slot as usize].priority, self.set_at[slot as usize]));
            }
            None => {
                self.heads.remove(queue);
            }
        }
    }

    /// The entry is in no queue: gives it a priority, and puts it where that belongs.
    fn enter(&mut self, slot: Slot) {
        if let Some(((lowest, _), _)) = self.heads.least() {
            self.age = self.age.max(lowest);
        }
        let Entry { cost, weight, .. } = self.entries[slot as usize];
        self.weight_max = self.weight_max.max(u64::from(weight));
        let ratio = self.ratio(cost, weight);
        let lists = &mut self.lists;
        let queue = *self.queues.entry(ratio).or_insert_with(|| lists.add_list());
        self.now += 1;
        self.entries[slot as usize].priority = self.age.saturating_add(ratio);
        self.set_at[slot as usize] = self.now;
        self.lists.push(queue, slot, weight);
        self.note_head(queue);
    }

    /// Takes an entry out of its queue; whether it was in one and not pinned.
    fn leave(&mut self, slot: Slot) -> bool {
        let Some(list) = self.lists.list_of(slot) else { return false };
        self.lists.remove(slot);
        if list != PINNED {
            self.note_head(list);
        }
        list != PINNED
    }
}

impl Order for Camp {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        if self.lists.list_of(slot).is_some_and(|list| list != PINNED) {
            self.leave(slot);
            self.enter(slot);
        }
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let cost = if self.by_cost && access.cost_us > 0 { u64::from(access.cost_us) } else { COST_DEFAULT };
        let entry = Entry { priority: 0, cost, weight: self.unit.weight(access.size) };
        super::reach(&mut self.entries, slot, entry);
        super::reach(&mut self.set_at, slot, 0);
        self.entries[slot as usize] = entry;
        self.enter(slot);
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.entries[slot as usize].weight = self.unit.weight(size);
        if self.leave(slot) {
            self.enter(slot);
        } else {
            self.lists.push(PINNED, slot, self.entries[slot as usize].weight);
        }
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        self.leave(slot);
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.entries, slots);
        super::fit(&mut self.set_at, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        let ((priority, _), queue) = self.heads.least()?;
        self.age = self.age.max(priority);
        self.lists.oldest(queue)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.leave(slot);
        self.lists.push(PINNED, slot, self.entries[slot as usize].weight);
    }

    fn restore(&mut self, slot: Slot) {
        self.leave(slot);
        self.enter(slot);
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        self.queues.len() * (size_of::<(u64, u32)>() + Heap::<(u64, u64)>::BYTES)
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            None => "not in".into(),
            Some(PINNED) => "pinned".into(),
            Some(queue) => {
                let above = self.entries[slot as usize].priority.saturating_sub(self.age);
                format!("priority {above} above the lowest, in a queue of {}", self.lists.len(queue))
            }
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.heads.validate();
        for &queue in self.queues.values() {
            let head = self.lists.oldest(queue);
            let noted = head.map(|slot| (self.entries[slot as usize].priority, self.set_at[slot as usize]));
            assert_eq!(self.heads.key(queue), noted, "queue {queue} is ordered by its oldest entry");
            let priorities = self.lists.iter(queue).map(|slot| self.entries[slot as usize].priority);
            assert!(priorities.is_sorted(), "queue {queue}: the oldest has the lowest priority");
        }
    }
}
