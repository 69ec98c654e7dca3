//! Multi-queue: an LRU queue for each power of two of the frequency. What is not asked for within a lifetime sinks by
//! one queue, and what leaves is remembered with its frequency. Made for a second tier, where what is hot comes back
//! late.

use std::sync::Arc;

use super::history::History;
use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, NothingLearned, Order, Parameter, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static MQ: Policy = Policy {
    name: "mq",
    summary: "queues by frequency with lifetimes; for a cache behind another cache",
    source: "Zhou, Philbin, Li: The multi-queue replacement algorithm for second level buffer caches, USENIX 2001",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES + size_of::<Entry>(),
    parameters: &[
        Parameter { name: "queues", summary: "number of queues", default: 8.0, range: (1.0, 16.0) },
        Parameter {
            name: "life",
            summary: "accesses after which an entry sinks, for each entry in the cache",
            default: 4.0,
            range: (0.01, 1000.0),
        },
        Parameter {
            name: "out",
            summary: "keys remembered after they left (Qout), as a share of the capacity",
            default: 1.0,
            range: (0.0, 8.0),
        },
    ],
    learned: |_| Arc::new(NothingLearned),
    order: |settings, _| Box::new(Mq::new(settings)),
};

#[derive(Clone, Copy)]
struct Entry {
    frequency: u32,
    /// Its queue, for when it is pinned.
    home: u32,
    /// The access after which it sinks.
    expires: u64,
}

struct Mq {
    unit: Unit,
    /// Number of queues; the list of that number is for what is pinned.
    queues: u32,
    life: f64,
    out_share: f64,
    capacity: u64,
    now: u64,
    lists: Lists,
    entries: Vec<Entry>,
    len: usize,
    /// Frequencies of keys that left.
    out: History<u32>,
    returning: Option<(u64, u32)>,
}

impl Mq {
    fn new(settings: &Settings) -> Mq {
        let value = |index: usize| settings.values.get(index).copied().unwrap_or(MQ.parameters[index].default);
        let queues = value(0) as u32;
        Mq {
            unit: settings.unit,
            queues,
            life: value(1),
            out_share: value(2),
            capacity: settings.capacity,
            now: 0,
            lists: Lists::new(queues as usize + 1),
            entries: Vec::new(),
            len: 0,
            out: History::new(),
            returning: None,
        }
    }

    fn out_max(&self) -> u64 {
        (self.capacity as f64 * self.out_share) as u64
    }

    fn lifetime(&self) -> u64 {
        (self.life * self.len as f64) as u64
    }

    fn queue_of(&self, frequency: u32) -> u32 {
        frequency.max(1).ilog2().min(self.queues - 1)
    }

    fn place(&mut self, slot: Slot, queue: u32) {
        let expires = self.now + self.lifetime();
        let entry = &mut self.entries[slot as usize];
        (entry.home, entry.expires) = (queue, expires);
        self.lists.move_to(queue, slot);
    }

    /// The oldest of each queue sinks when its time is up (Adjust of the paper).
    fn adjust(&mut self) {
        for queue in 1..self.queues {
            if let Some(slot) = self.lists.oldest(queue)
                && self.entries[slot as usize].expires < self.now
            {
                self.place(slot, queue - 1);
            }
        }
    }
}

impl Order for Mq {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        self.now += 1;
        if let Some(list) = self.lists.list_of(slot) {
            let frequency = self.entries[slot as usize].frequency.saturating_add(1);
            self.entries[slot as usize].frequency = frequency;
            if list < self.queues {
                self.place(slot, self.queue_of(frequency));
            }
        }
        self.adjust();
    }

    fn admit(&mut self, access: &Access) -> bool {
        self.now += 1;
        self.returning = self.out.take(access.hash).map(|frequency| (access.hash, frequency));
        self.adjust();
        true
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        self.len += 1;
        let returning = self.returning.take().filter(|&(hash, _)| hash == access.hash);
        let frequency = returning.map_or(0, |(_, frequency)| frequency).saturating_add(1);
        let home = self.queue_of(frequency);
        let entry = Entry { frequency, home, expires: self.now + self.lifetime() };
        super::reach(&mut self.entries, slot, entry);
        self.entries[slot as usize] = entry;
        self.lists.push(home, slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, hash: u64, why: Why) {
        self.len -= 1;
        let weight = self.lists.remove(slot);
        if why == Why::Evicted {
            self.out.push(hash, weight, self.entries[slot as usize].frequency);
            self.out.trim(self.out_max());
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
        super::fit(&mut self.entries, slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        (0..self.queues).find_map(|queue| self.lists.oldest(queue))
    }

    fn withdraw(&mut self, slot: Slot) {
        self.lists.move_to(self.queues, slot);
    }

    fn restore(&mut self, slot: Slot) {
        self.place(slot, self.entries[slot as usize].home);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.out.trim(self.out_max());
    }

    fn ghost_bytes(&self) -> usize {
        self.out.bytes()
    }

    fn explain(&self, slot: Slot) -> String {
        match self.lists.list_of(slot) {
            None => "not in".into(),
            Some(list) if list == self.queues => "pinned".into(),
            Some(list) => {
                let Entry { frequency, expires, .. } = self.entries[slot as usize];
                let left = expires.saturating_sub(self.now);
                format!("queue {list} of {}, asked for {frequency} times, sinks in {left} accesses", self.queues)
            }
        }
    }

    fn validate(&self) {
        self.lists.validate();
        self.out.validate();
        assert!(self.out.weight() <= self.out_max(), "ghosts beyond their bound");
        let linked: usize = (0..=self.queues).map(|list| self.lists.len(list)).sum();
        assert_eq!(linked, self.len, "every entry is in a queue");
        for queue in 0..self.queues {
            let at_home = self.lists.iter(queue).all(|slot| self.entries[slot as usize].home == queue);
            assert!(at_home, "queue {queue}: a slot from elsewhere");
        }
    }
}
