//! A policy with nothing around it: slots, a capacity, and no values, locks or partitions.
//!
//! The simulator replays traces over it, and the conformance tests check policies with it: it panics when a policy
//! breaks the contract of [`Order`], because that is a defect of the policy and never of the input.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Access, AccessKind, Hits, Learned, MARKS_MAX, NothingLearned, Order, Policy, Settings, Slot, Unit, Why};
use crate::hint::{HintMeaning, HintSet};

/// How a request's key leads to its slot.
pub trait Index {
    /// By which a request names its key.
    type Key: Copy;

    /// Where the key is cached.
    fn find(&self, key: Self::Key) -> Option<Slot>;

    /// The key, of this hash, is cached there from now on.
    fn insert(&mut self, key: Self::Key, hash: u64, slot: Slot);

    /// What was cached there, under a key of this hash, is not any more.
    fn remove(&mut self, hash: u64, slot: Slot);
}

/// Keys are known by their hashes.
#[derive(Default)]
pub struct Hashed(HashMap<u64, Slot, foldhash::fast::FixedState>);

impl Index for Hashed {
    type Key = u64;

    fn find(&self, key: u64) -> Option<Slot> {
        self.0.get(&key).copied()
    }

    fn insert(&mut self, key: u64, _: u64, slot: Slot) {
        self.0.insert(key, slot);
    }

    fn remove(&mut self, hash: u64, _: Slot) {
        self.0.remove(&hash);
    }
}

/// Keys are known by numbers below a bound that is known beforehand, so that nothing has to be searched for.
pub struct Numbered {
    /// By number, [`NOWHERE`] for those that are not cached.
    slots: Vec<Slot>,
    /// By slot.
    numbers: Vec<u32>,
}

/// No slot.
const NOWHERE: Slot = Slot::MAX;

impl Index for Numbered {
    type Key = u32;

    fn find(&self, number: u32) -> Option<Slot> {
        self.slots.get(number as usize).copied().filter(|&slot| slot != NOWHERE)
    }

    fn insert(&mut self, number: u32, _: u64, slot: Slot) {
        self.slots[number as usize] = slot;
        match self.numbers.get_mut(slot as usize) {
            Some(place) => *place = number,
            None => self.numbers.push(number),
        }
    }

    fn remove(&mut self, _: u64, slot: Slot) {
        self.slots[self.numbers[slot as usize] as usize] = NOWHERE;
    }
}

/// One policy over one partition.
pub struct Bare<I = Hashed> {
    hits: Hits,
    unit: Unit,
    capacity: u64,
    used: u64,
    learned: Arc<dyn Learned>,
    order: Box<dyn Order>,
    writes_allocate: bool,
    entries: Vec<Option<Entry>>,
    free: Vec<Slot>,
    slots: I,
    /// Number of entries.
    len: usize,
    tick: u64,
    evicted: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    size: u32,
    marks: u8,
    pinned: bool,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was cached.
    Hit,
    /// It was not, and is now.
    Inserted,
    /// It was not, and is not: the policy did not let it in, it is larger than the capacity, or all else is pinned.
    Refused,
}

impl Bare {
    /// An empty cache.
    pub fn new(policy: &'static Policy, settings: &Settings) -> Bare {
        let learned = (policy.learned)(settings);
        let order = (policy.order)(settings, learned.clone());
        Bare { learned, ..Bare::with_order(policy.hits, settings, order) }
    }

    /// An empty cache over an order that is in no table, as a test's model is.
    pub fn with_order(hits: Hits, settings: &Settings, order: Box<dyn Order>) -> Bare {
        Bare::with(hits, settings, order, Hashed::default())
    }

    /// A read of `hash`, which is inserted with `size` bytes on a miss; a hit leaves its size as it is.
    pub fn request(&mut self, hash: u64, size: u32) -> Served {
        self.serve(hash, || Access::read(hash, size))
    }

    /// As [`Bare::request`], with the whole context. Slot and tick are filled in here.
    pub fn access(&mut self, access: Access) -> Served {
        self.serve(access.hash, || access)
    }

    /// Invalidates `hash`; whether it was in.
    pub fn invalidate(&mut self, hash: u64) -> bool {
        let slot = self.slots.find(hash);
        slot.map(|slot| self.leave(slot, Why::Invalidated)).is_some()
    }

    /// Gives `hash` another size, in bytes, and evicts what does not fit any more; whether it was in.
    pub fn resize(&mut self, hash: u64, size: u32) -> bool {
        let Some(slot) = self.slots.find(hash) else { return false };
        if let Some(entry) = &mut self.entries[slot as usize] {
            self.used = self.used - u64::from(self.unit.weight(entry.size)) + u64::from(self.unit.weight(size));
            entry.size = size;
        }
        self.order.resized(slot, size);
        self.shrink();
        true
    }

    /// Pins `hash`, or lets it go again, and then evicts what only pins had kept; whether it was in and not so already.
    pub fn pin(&mut self, hash: u64, pinned: bool) -> bool {
        let Some(slot) = self.slots.find(hash) else { return false };
        let Some(entry) = &mut self.entries[slot as usize] else { return false };
        if std::mem::replace(&mut entry.pinned, pinned) == pinned {
            return false;
        }
        self.evicted.clear();
        if pinned {
            self.order.withdraw(slot);
        } else {
            self.order.restore(slot);
            self.shrink();
        }
        true
    }

    /// Whether `hash` is cached.
    pub fn contains(&self, hash: u64) -> bool {
        self.slots.find(hash).is_some()
    }

    /// Why `hash` stands where it stands, if it is cached.
    pub fn explain(&self, hash: u64) -> Option<String> {
        self.slots.find(hash).map(|slot| self.order.explain(slot))
    }
}

impl Bare<Numbered> {
    /// An empty cache for keys with numbers below `keys`.
    pub fn numbered(policy: &'static Policy, settings: &Settings, keys: usize) -> Bare<Numbered> {
        let learned = (policy.learned)(settings);
        let order = (policy.order)(settings, learned.clone());
        let index = Numbered { slots: vec![NOWHERE; keys], numbers: Vec::new() };
        Bare { learned, ..Bare::with(policy.hits, settings, order, index) }
    }
}

impl<I: Index> Bare<I> {
    fn with(hits: Hits, settings: &Settings, order: Box<dyn Order>, slots: I) -> Bare<I> {
        Bare {
            hits,
            unit: settings.unit,
            capacity: order.room(settings.capacity),
            used: 0,
            learned: Arc::new(NothingLearned),
            order,
            writes_allocate: true,
            entries: Vec::new(),
            free: Vec::new(),
            slots,
            len: 0,
            tick: 0,
            evicted: Vec::new(),
        }
    }

    /// A request for `key`, whose hash stands in the access. That is asked for when a policy wants to see it; slot and
    /// tick are filled in here.
    #[inline]
    pub fn serve(&mut self, key: I::Key, access: impl FnOnce() -> Access) -> Served {
        self.tick += 1;
        self.evicted.clear();
        let Some(slot) = self.slots.find(key) else {
            return self.miss(key, &Access { tick: self.tick, ..access() });
        };
        match (self.hits, &mut self.entries[slot as usize]) {
            (Hits::Marks, Some(entry)) => entry.marks = (entry.marks + 1).min(MARKS_MAX),
            _ => self.order.access(slot, &Access { tick: self.tick, slot: Some((slot, 0)), ..access() }),
        }
        Served::Hit
    }

    fn miss(&mut self, key: I::Key, access: &Access) -> Served {
        let weight = u64::from(self.unit.weight(access.size));
        let allocates = self.writes_allocate || access.kind != AccessKind::Write;
        if weight > self.capacity || !self.order.admit(access) || !allocates || !self.make_room(access, weight) {
            return Served::Refused;
        }
        let entry = Entry { hash: access.hash, size: access.size, marks: 0, pinned: false };
        let slot = self.free.pop().unwrap_or(self.entries.len() as Slot);
        match self.entries.get_mut(slot as usize) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.slots.insert(key, access.hash, slot);
        self.len += 1;
        self.used += weight;
        self.order.inserted(slot, access);
        Served::Inserted
    }

    /// Evicts until `weight` fits, in batches of the policy's choice; whether it fits.
    fn make_room(&mut self, incoming: &Access, weight: u64) -> bool {
        let mut taken = 0;
        while self.used + weight > self.capacity || (0 < taken && taken < self.order.batch()) {
            let entries = &mut self.entries;
            let mut marks = |slot: Slot| {
                let entry = entries.get_mut(slot as usize).and_then(Option::as_mut);
                std::mem::take(&mut entry.expect("a policy asks for marks of live slots only").marks)
            };
            let Some(slot) = self.order.victim(incoming, &mut marks) else { break };
            let entry = self.entry(slot).expect("a victim is live");
            assert!(!entry.pinned, "a victim is not pinned");
            self.evicted.push(entry.hash);
            self.leave(slot, Why::Evicted);
            taken += 1;
        }
        self.used + weight <= self.capacity
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    fn leave(&mut self, slot: Slot, why: Why) {
        if let Some(entry) = self.entries[slot as usize].take() {
            self.slots.remove(entry.hash, slot);
            self.len -= 1;
            self.used -= u64::from(self.unit.weight(entry.size));
            self.free.push(slot);
            self.order.removed(slot, entry.hash, why);
        }
    }

    /// Whether the key is cached.
    pub fn holds(&self, key: I::Key) -> bool {
        self.slots.find(key).is_some()
    }

    /// What the policy learns over all partitions, of which there is one here.
    pub fn learned(&self) -> &Arc<dyn Learned> {
        &self.learned
    }

    /// Whether a write of what is not cached lets it in, as it does at first; else it only updates what is.
    pub fn set_writes_allocate(&mut self, writes_allocate: bool) {
        self.writes_allocate = writes_allocate;
    }

    /// A transaction ended; `committed` is false for an abort.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        self.order.ended(txn, committed);
    }

    /// Another capacity; what is too much goes, as far as it is not pinned.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.order.set_capacity(capacity);
        self.capacity = self.order.room(capacity);
        self.shrink();
    }

    /// Evicts down to the capacity, for no newcomer.
    fn shrink(&mut self) {
        self.evicted.clear();
        self.make_room(&Access { slot: Some((0, 0)), ..Access::read(0, 0) }, 0);
    }

    /// Hashes that the last request, resize, unpinning or new capacity evicted, in order.
    pub fn evicted(&self) -> &[u64] {
        &self.evicted
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Weight of all entries, in the unit of the settings.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of the policy's metadata beyond those per entry.
    pub fn ghost_bytes(&self) -> usize {
        self.order.ghost_bytes()
    }

    /// Bytes of what the policy learns beyond its order.
    pub fn learned_bytes(&self) -> usize {
        self.learned.bytes()
    }

    /// Says what a hint set stands for.
    pub fn define_hints(&self, set: HintSet, meaning: &HintMeaning) {
        self.learned.define_hints(set, meaning);
    }

    /// What the policy has learned, as names with values.
    pub fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        self.learned.report(lines_max)
    }

    /// Panics if the order or the accounts contradict themselves.
    pub fn validate(&self) {
        self.order.validate();
        let weights = self.entries.iter().flatten().map(|entry| u64::from(self.unit.weight(entry.size)));
        assert_eq!(weights.sum::<u64>(), self.used, "used is the sum of the weights");
        assert_eq!(self.len + self.free.len(), self.entries.len(), "each slot is live or free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::choose;

    /// Whether keys are searched for or numbered changes no decision.
    #[test]
    fn numbers_and_hashes_are_served_alike() {
        for name in ["lru", "s3-fifo", "arc", "w-tinylfu", "gdsf", "clic"] {
            let choice = choose(name).expect("in the table");
            let settings = choice.settings(Unit::Bytes, 400);
            let mut hashed = Bare::new(choice.policy, &settings);
            let mut numbered = Bare::numbered(choice.policy, &settings, 97);
            for at in 0..20_000_u64 {
                let number = (at * at / 7 % 97).min(at * 31 % 97) as u32;
                let access = Access::read(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15), 1 + number % 40);
                assert_eq!(hashed.access(access), numbered.serve(number, || access), "{name}: request {at}");
                assert_eq!(hashed.evicted(), numbered.evicted(), "{name}: request {at}");
            }
            numbered.validate();
            assert!((0..97).all(|number| {
                hashed.contains(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)) == numbered.holds(number)
            }));
        }
    }
}
