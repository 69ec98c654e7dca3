//! LRU-K: the entry goes whose K-th last reference is the longest ago; one with fewer references goes before all that
//! have K. Keys that left are remembered, so that references are counted over more than one stay.

use std::sync::Arc;

use crate::ahead::prefetch;

use super::heap::Heap;
use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LRU_K: Policy = Policy {
    name: "lru-k",
    summary: "least recent K-th last reference; resists scans, O(log n)",
    source: "O'Neil, O'Neil, Weikum: The LRU-K page replacement algorithm for database disk buffering, SIGMOD 1993",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<References>() + Heap::<Rank>::BYTES,
    parameters: &[
        Parameter { name: "k", summary: "which reference counts", default: 2.0, range: (1.0, K_MAX as f64) },
        Parameter {
            name: "correlated",
            summary: "references within so many accesses of the last one count as one",
            default: 0.0,
            range: (0.0, 1.0e9),
        },
        Parameter {
            name: "history",
            summary: "keys remembered after they left, as a share of the capacity",
            default: 1.0,
            range: (0.0, 8.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(LruK::new(settings)),
};

const IN: u32 = 0;
const PINNED: u32 = 1;

/// The largest K.
const K_MAX: usize = 4;

/// Times of the K-th last and of the last reference; 0 for a reference that was not.
type Rank = (u64, u64);

/// References of a key.
#[derive(Clone, Copy)]
struct References {
    /// Times of references that count, the newest first, 0 for none (HIST of the paper).
    times: [u64; K_MAX],
    /// The last reference, whether it counted or not (LAST of the paper).
    last: u64,
}

struct LruK {
    unit: Unit,
    k: usize,
    correlated: u64,
    history_share: f64,
    capacity: u64,
    now: u64,
    lists: Lists,
    heap: Heap<Rank>,
    references: Vec<References>,
    gone: History<References>,
    returning: Option<(u64, References)>,
}

impl LruK {
    fn new(settings: &Settings) -> LruK {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(LRU_K.parameters[index].default);
        LruK {
            unit: settings.unit,
            k: value(0) as usize,
            correlated: value(1) as u64,
            history_share: value(2),
            capacity: settings.capacity,
            now: 0,
            lists: Lists::new(2),
            heap: Heap::new(),
            references: Vec::new(),
            gone: History::new(),
            returning: None,
        }
    }

    fn history_max(&self) -> u64 {
        (self.capacity as f64 * self.history_share) as u64
    }

    fn rank(&self, references: &References) -> Rank {
        (references.times[self.k - 1], references.last)
    }

    /// One more reference now. A burst of correlated ones has no length: those before it move up by how long it took.
    fn refer(&self, references: &mut References) {
        if self.now - references.last > self.correlated {
            let burst = references.last - references.times[0];
            for i in (1..self.k).rev() {
                let earlier = references.times[i - 1];
                references.times[i] = if earlier == 0 { 0 } else { earlier + burst };
            }
            references.times[0] = self.now;
        }
        references.last = self.now;
    }
}

impl Order for LruK {
    fn ahead(&self, hits: &[Hit]) {
        hits.iter().filter_map(|hit| self.references.get(hit.slot as usize)).for_each(prefetch);
        self.heap.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        self.now += 1;
        if self.lists.list_of(slot).is_none() {
            return;
        }
        let mut references = self.references[slot as usize];
        self.refer(&mut references);
        self.references[slot as usize] = references;
        if self.heap.key(slot).is_some() {
            self.heap.set(slot, self.rank(&references));
        }
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        self.returning = self.gone.take(access.hash).map(|references| (access.hash, references));
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let returning = self.returning.take().filter(|&(hash, _)| hash == access.hash);
        let mut references = References { times: [0; K_MAX], last: self.now };
        match returning {
            Some((_, earlier)) => {
                references = earlier;
                self.refer(&mut references);
            }
            None => references.times[0] = self.now,
        }
        super::reach(&mut self.references, slot, references);
        self.references[slot as usize] = references;
        self.lists.push(IN, slot, self.unit.weight(access.size));
        self.heap.set(slot, self.rank(&references));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        let weight = self.lists.remove(slot);
        self.heap.remove(slot);
        if why == Why::Evicted {
            self.gone.push(hash, weight, self.references[slot as usize]);
            self.gone.trim(self.history_max());
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        self.heap.fits(slots);
        super::fit(&mut self.references, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.heap.least().map(|(_, slot)| slot)
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(PINNED, slot);
        self.heap.remove(slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.lists.move_to(IN, slot);
        let rank = self.rank(&self.references[slot as usize]);
        self.heap.set(slot, rank);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.gone.trim(self.history_max());
    }

    fn ghost_bytes(&self) -> usize {
        self.gone.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        match (self.lists.list_of(slot), self.heap.key(slot)) {
            (Some(IN), Some((0, _))) => format!("asked for less than {} times that are known", self.k),
            (Some(IN), Some((time, _))) => {
                format!("asked for {} times in the last {} accesses", self.k, self.now - time)
            }
            (Some(_), _) => "pinned".into(),
            (None, _) => "not in".into(),
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.heap.validate();
        self.gone.validate();
        assert!(self.gone.weight() <= self.history_max(), "ghosts beyond their bound");
        assert_eq!(self.heap.len(), self.lists.len(IN), "all that is not pinned is ranked");
    }
}
