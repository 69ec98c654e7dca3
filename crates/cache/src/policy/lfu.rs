//! Least frequently used, without ageing: the entry with the fewest accesses since it came in goes first, among equals
//! the one that has waited longest.
//!
//! O(1) by a chain of buckets, one per frequency that occurs (Shah, Mitra, Matani 2010): an access moves an entry to
//! the next bucket. Each bucket has two lists, of entries that may go and of pinned ones. So a pinned entry keeps its
//! frequency and its place in the chain.

use std::sync::Arc;

use super::list::{Lists, NODE_BYTES};
use super::{Access, Hit, Hits, Learned, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};

/// See the module.
pub static LFU: Policy = Policy {
    name: "lfu",
    summary: "least frequently used since it came in; keeps what was once popular for ever",
    source: "Shah, Mitra, Matani: An O(1) algorithm for implementing the LFU cache eviction scheme, 2010",
    hits: Hits::Sampled,
    entry_bytes: NODE_BYTES,
    parameters: &[],
    learned: |_| Arc::new(NothingLearned),
    order,
};

const NONE: u32 = u32::MAX;

/// All entries with one frequency. Bucket `b` owns the lists `2 b` (may go) and `2 b + 1` (pinned).
#[derive(Clone, Copy)]
struct Bucket {
    frequency: u32,
    lower: u32,
    higher: u32,
}

struct Lfu {
    unit: Unit,
    lists: Lists,
    buckets: Vec<Bucket>,
    /// Buckets out of use.
    free: Vec<u32>,
    lowest: u32,
}

fn order(settings: &Settings, _: Arc<dyn Learned>) -> Box<dyn Order> {
    Box::new(Lfu { unit: settings.unit, lists: Lists::new(0), buckets: Vec::new(), free: Vec::new(), lowest: NONE })
}

impl Lfu {
    /// A bucket for `frequency` between two neighbours in the chain.
    fn add_bucket(&mut self, frequency: u32, lower: u32, higher: u32) -> u32 {
        let bucket = Bucket { frequency, lower, higher };
        let index = match self.free.pop() {
            Some(index) => {
                self.buckets[index as usize] = bucket;
                index
            }
            None => {
                self.buckets.push(bucket);
                self.lists.add_list();
                self.lists.add_list() / 2
            }
        };
        match lower {
            NONE => self.lowest = index,
            lower => self.buckets[lower as usize].higher = index,
        }
        if higher != NONE {
            self.buckets[higher as usize].lower = index;
        }
        index
    }

    fn drop_bucket_if_empty(&mut self, index: u32) {
        if !self.lists.is_empty(2 * index) || !self.lists.is_empty(2 * index + 1) {
            return;
        }
        let Bucket { lower, higher, .. } = self.buckets[index as usize];
        match lower {
            NONE => self.lowest = higher,
            lower => self.buckets[lower as usize].higher = higher,
        }
        if higher != NONE {
            self.buckets[higher as usize].lower = lower;
        }
        self.free.push(index);
    }

    /// The buckets in use, from the lowest frequency to the highest.
    fn chain(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |index: u32| (index != NONE).then_some(index);
        std::iter::successors(some(self.lowest), move |&index| some(self.buckets[index as usize].higher))
    }
}

impl Order for Lfu {
    fn ahead(&self, hits: &[Hit]) {
        self.lists.ahead(hits.iter().map(|hit| hit.slot));
    }

    fn access(&mut self, slot: Slot, _: &Access) {
        let Some(list) = self.lists.list_of(slot) else { return };
        let index = list / 2;
        let Bucket { frequency, higher, .. } = self.buckets[index as usize];
        let frequency = frequency.saturating_add(1);
        let target = match self.buckets.get(higher as usize) {
            Some(bucket) if bucket.frequency == frequency => higher,
            _ if frequency == u32::MAX => index,
            _ => self.add_bucket(frequency, index, higher),
        };
        self.lists.move_to(2 * target + list % 2, slot);
        self.drop_bucket_if_empty(index);
    }

    fn inserted(&mut self, slot: Slot, access: &Access) {
        let target = match self.buckets.get(self.lowest as usize) {
            Some(bucket) if bucket.frequency == 1 => self.lowest,
            _ => self.add_bucket(1, NONE, self.lowest),
        };
        self.lists.push(2 * target, slot, self.unit.weight(access.size));
    }

    fn resized(&mut self, slot: Slot, size: u32) {
        self.lists.set_weight(slot, self.unit.weight(size));
    }

    fn removed(&mut self, slot: Slot, _: u64, _: Why) {
        if let Some(list) = self.lists.list_of(slot) {
            self.lists.remove(slot);
            self.drop_bucket_if_empty(list / 2);
        }
    }

    fn fits(&mut self, slots: usize) {
        self.lists.fits(slots);
    }

    fn victim(&mut self, _: &Access, _: &mut dyn FnMut(Slot) -> u8) -> Option<Slot> {
        self.chain().find_map(|index| self.lists.oldest(2 * index))
    }

    fn withdraw(&mut self, slot: Slot) {
        if let Some(list) = self.lists.list_of(slot) {
            self.lists.move_to(list | 1, slot);
        }
    }

    fn restore(&mut self, slot: Slot) {
        if let Some(list) = self.lists.list_of(slot) {
            self.lists.move_to(list & !1, slot);
        }
    }

    fn set_capacity(&mut self, _: u64) {}

    fn ghost_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    fn explain(&self, slot: Slot) -> String {
        let Some(list) = self.lists.list_of(slot) else { return "not in".into() };
        let frequency = self.buckets[list as usize / 2].frequency;
        let lowest = self.buckets[self.lowest as usize].frequency;
        let pinned = if list % 2 == 1 { ", pinned" } else { "" };
        format!("{frequency} accesses since it came in; the lowest is {lowest}{pinned}")
    }

    fn validate(&self) {
        self.lists.validate();
        let (mut lower, mut count) = (NONE, 0);
        for index in self.chain() {
            let bucket = &self.buckets[index as usize];
            assert_eq!(bucket.lower, lower, "bucket {index} does not name its lower neighbour");
            assert!(lower == NONE || self.buckets[lower as usize].frequency < bucket.frequency, "buckets in order");
            assert!(self.lists.len(2 * index) + self.lists.len(2 * index + 1) > 0, "bucket {index} is empty");
            lower = index;
            count += 1;
        }
        assert_eq!(count + self.free.len(), self.buckets.len(), "each bucket is in the chain or free");
    }
}
