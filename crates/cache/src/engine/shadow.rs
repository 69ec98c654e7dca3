//! What a server's cache of documents would keep, without the documents: hashes, sizes and a policy.
//!
//! **Invariant.** Let a shadow have a cache's policy, budget and partitions, and hear its accesses in their order.
//! Then it holds the cache's keys after each of them, and has charged as many bytes. So its hits are the cache's. With
//! another policy or budget they are those that the cache would have. `crates/forebay/tests/shadow.rs` compares them.
//!
//! The rules are those of `crates/forebay/src/cache`. Partitions share one budget. A newcomer takes the place of
//! entries of its partition, and of others only if that is not enough. What a policy remembers or learns is charged.
//!
//! A key is known by its hash alone. Two keys of one hash of 64 bits would count as one.

use std::sync::Arc;

use hashbrown::HashTable;

use super::numbers::Numbers;
use crate::hint::{HintMeaning, HintSet};
use crate::policy::{
    Access, AccessKind, Choice, Graph, Hits, Learned, MARKS_MAX, Order, Policy, Settings, Slot, Unit, Why,
};

/// The table of entries grows by one so-manyth.
const GROWTH: usize = 8;

/// Partitions whose bits stand in one word; of more, all are told of an end.
const PARTITIONS_TOLD_MAX: usize = 64;

/// 2^64 over the golden ratio: spreads numbers over partitions.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cache without values. See the module.
pub struct Shadow {
    policy: &'static Policy,
    settings: Settings,
    learned: Arc<dyn Learned>,
    learned_bytes: usize,
    parts: Vec<Part>,
    budget: Budget,
}

/// What one budget has and what was charged to it, in bytes.
struct Budget {
    room: usize,
    used: usize,
}

impl Budget {
    fn fits(&self, bytes: usize) -> bool {
        self.used + bytes <= self.room
    }

    /// What was charged changes.
    fn change(&mut self, from: usize, to: usize) {
        self.used = self.used - from + to;
    }
}

/// What is known of an entry.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    charged: u32,
    marks: u8,
    there: bool,
    /// The cache fetched it last when the shadow did not have it either.
    fetched: bool,
}

/// One partition.
struct Part {
    order: Box<dyn Order>,
    index: HashTable<Slot>,
    /// By slot.
    entries: Vec<Entry>,
    numbers: Numbers,
    len: usize,
    /// The order's tables are for so many slots.
    slots: usize,
    /// An entry that is to be replaced, and may not go meanwhile.
    pinned: Option<Slot>,
    tick: u64,
    policy_bytes: usize,
}

impl Shadow {
    /// An empty one of a cache with so many bytes for entries, in so many partitions.
    pub fn new(choice: &Choice, budget_bytes: usize, partitions: usize) -> Shadow {
        let partitions = partitions.max(1);
        let settings = choice.settings(Unit::Bytes, (budget_bytes / partitions) as u64);
        let learned = (choice.policy.learned)(&settings);
        let part = |_| Part::new((choice.policy.order)(&settings, learned.clone()));
        let mut shadow = Shadow {
            policy: choice.policy,
            parts: (0..partitions).map(part).collect(),
            settings,
            learned,
            learned_bytes: 0,
            budget: Budget { room: budget_bytes, used: 0 },
        };
        shadow.charge_learned();
        shadow
    }

    /// Entries have so many bytes from now on: less than the budget while a cache lends some of it.
    pub fn set_room(&mut self, bytes: usize) {
        self.budget.room = bytes;
        if !self.budget.fits(0) {
            self.make_room(0, &forced(&Access::read(0, 0)), 0);
        }
    }

    /// A key is read, and the cache had it or has `fetched` it. `access.size` is what the cache charges for its entry,
    /// without the policy's part. Whether it is a hit; on a miss the key comes in if the policy lets it.
    pub fn read(&mut self, access: &Access, fetched: bool) -> bool {
        let at = self.index(access.hash);
        let part = &mut self.parts[at];
        let Some(slot) = part.find(access.hash) else {
            self.install(at, access);
            let part = &mut self.parts[at];
            if let Some(slot) = part.find(access.hash).filter(|_| fetched) {
                part.entries[slot as usize].fetched = true;
            }
            return false;
        };
        part.touch(self.policy, slot, access);
        part.entries[slot as usize].fetched &= !fetched;
        true
    }

    /// A key is read beside the cache: by a reader that waited for another's fetch. Whether it is a hit: it is, if
    /// that other had one. The policy hears of nothing else.
    pub fn read_beside(&mut self, access: &Access) -> bool {
        let at = self.index(access.hash);
        let part = &mut self.parts[at];
        let Some(slot) = part.find(access.hash).filter(|slot| !part.entries[*slot as usize].fetched) else {
            return false;
        };
        part.touch(self.policy, slot, access);
        true
    }

    /// A key is written, or fetched ahead of need if `access.kind` says so; `access.size` as in [`Shadow::read`].
    pub fn put(&mut self, access: &Access) {
        let at = self.index(access.hash);
        if access.kind == AccessKind::Prefetch && self.parts[at].find(access.hash).is_some() {
            return;
        }
        self.install(at, access);
    }

    /// A key leaves: it was changed elsewhere, or what to is not known.
    pub fn remove(&mut self, hash: u64) {
        let at = self.index(hash);
        let part = &mut self.parts[at];
        if let Some(slot) = part.find(hash) {
            self.budget.used -= part.take(slot, Why::Invalidated);
        }
    }

    /// All keys leave.
    pub fn clear(&mut self) {
        for part in &mut self.parts {
            for slot in (0..part.entries.len()).rev() {
                // The table becomes shorter on the way.
                if part.entries.get(slot).is_some_and(|entry| entry.there) {
                    self.budget.used -= part.take(slot as Slot, Why::Invalidated);
                }
            }
        }
    }

    /// All keys leave, and the policy begins again.
    pub fn reset(&mut self) {
        self.clear();
        self.learned.forget();
        for part in &mut self.parts {
            let order = (self.policy.order)(&self.settings, self.learned.clone());
            self.budget.used -= std::mem::replace(part, Part::new(order)).policy_bytes;
        }
        self.charge_learned();
    }

    /// Whether transactions matter to the policy.
    pub fn follows_transactions(&self) -> bool {
        self.learned.follows_transactions()
    }

    /// A transaction ended; `committed` is false for an abort.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        if !self.learned.follows_transactions() {
            return;
        }
        let (mut told, partitions) = (0u64, self.parts.len());
        let mut tell = |hash| told |= 1 << (index(hash, partitions) % PARTITIONS_TOLD_MAX);
        self.learned.asked_by(txn, &mut tell);
        let wide = partitions > PARTITIONS_TOLD_MAX;
        for (at, part) in self.parts.iter_mut().enumerate() {
            if told >> (at % PARTITIONS_TOLD_MAX) & 1 == 1 || wide && told != 0 {
                part.order.ended(txn, committed);
            }
        }
        self.make_room_for_learned(txn);
    }

    /// Says what a hint set stands for.
    pub fn define_hints(&mut self, set: HintSet, meaning: &HintMeaning) {
        self.learned.define_hints(set, meaning);
        self.charge_learned();
    }

    /// Says what a transaction type looks like.
    pub fn register_graph(&mut self, txn_type: u16, graph: &Arc<Graph>) {
        self.learned.register_graph(txn_type, graph);
        self.make_room_for_learned(u64::from(txn_type));
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this key, by its hash, is cached.
    pub fn holds(&self, hash: u64) -> bool {
        self.parts[self.index(hash)].find(hash).is_some()
    }

    /// Bytes that the cache would have charged to its budget.
    pub fn used_bytes(&self) -> usize {
        self.budget.used
    }

    /// Bytes that the shadow itself takes.
    pub fn bytes(&self) -> usize {
        let of_parts = self.parts.iter().map(|part| part.bytes(self.policy)).sum::<usize>();
        size_of::<Shadow>() + of_parts + self.learned.bytes()
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        let of_parts: usize = self.parts.iter().map(Part::validate).sum();
        assert_eq!(of_parts + self.learned_bytes, self.budget.used, "bytes charged");
        assert!(self.budget.fits(0) || self.is_empty(), "the budget is kept");
    }

    fn index(&self, hash: u64) -> usize {
        index(hash, self.parts.len())
    }

    /// As the cache puts a value in: what has no room, or may not come in, is left out, and what was there of it goes.
    fn install(&mut self, at: usize, access: &Access) {
        let part = &mut self.parts[at];
        let slot = part.find(access.hash);
        let old = slot.map_or(0, |slot| part.entries[slot as usize].charged as usize);
        let charged = access.size as usize + self.policy.entry_bytes;
        part.tick += 1;
        let access = Access { slot: slot.map(|slot| (slot, 0)), size: charged as u32, tick: part.tick, ..*access };
        let admitted = slot.is_some() || part.order.admit(&access);
        if admitted && self.make_room_for(at, &access, charged.saturating_sub(old)) {
            self.parts[at].put(self.policy, &access);
            self.budget.change(old, charged);
        } else if let Some(slot) = slot {
            self.budget.used -= self.parts[at].take(slot, Why::Invalidated);
        }
        self.charge_policy(at, &access);
    }

    fn make_room_for(&mut self, at: usize, access: &Access, bytes: usize) -> bool {
        if self.budget.fits(bytes) {
            return true;
        }
        if let Some((slot, _)) = access.slot {
            self.parts[at].pinned = Some(slot);
            self.parts[at].order.withdraw(slot);
        }
        let room = self.make_room(at, access, bytes);
        if let Some(slot) = self.parts[at].pinned.take() {
            self.parts[at].order.restore(slot);
        }
        room
    }

    /// Evicts until `bytes` more fit: from the own partition first, in batches of the policy's choice, then from
    /// others.
    fn make_room(&mut self, at: usize, access: &Access, bytes: usize) -> bool {
        let (parts, budget) = (&mut self.parts, &mut self.budget);
        if bytes > budget.room {
            return false;
        }
        let own = &mut parts[at];
        let mut evicted = 0;
        while !budget.fits(bytes) || (0 < evicted && evicted < own.order.batch()) {
            let Some(freed) = own.evict(access) else { break };
            budget.used -= freed;
            evicted += 1;
        }
        if !budget.fits(bytes) && access.slot.is_none() && own.len > usize::from(own.pinned.is_some()) {
            // The policy would rather keep all that it has.
            return false;
        }
        let (forced, start, count) = (forced(access), index(access.hash, parts.len()), parts.len());
        for step in 1..count {
            let other = &mut parts[(start + step) % count];
            while !budget.fits(bytes) {
                let Some(freed) = other.evict(&forced) else { break };
                budget.used -= freed;
            }
        }
        budget.fits(bytes)
    }

    /// Charges what the policy keeps beyond its entries, and makes room for its growth.
    fn charge_policy(&mut self, at: usize, access: &Access) {
        let part = &mut self.parts[at];
        let now = part.order.ghost_bytes();
        let before = std::mem::replace(&mut part.policy_bytes, now);
        self.budget.change(before, now);
        if self.charge_learned() || before != now {
            self.make_room(at, &forced(access), 0);
        }
    }

    /// Charges what is learned; whether that has changed.
    fn charge_learned(&mut self) -> bool {
        let now = self.learned.bytes();
        let before = std::mem::replace(&mut self.learned_bytes, now);
        self.budget.change(before, now);
        before != now
    }

    fn make_room_for_learned(&mut self, chance: u64) {
        if self.charge_learned() && !self.budget.fits(0) {
            let hash = chance.wrapping_mul(SPREAD);
            self.make_room(self.index(hash), &forced(&Access::read(hash, 0)), 0);
        }
    }
}

impl Part {
    fn new(order: Box<dyn Order>) -> Part {
        Part {
            order,
            index: HashTable::new(),
            entries: Vec::new(),
            numbers: Numbers::new(),
            len: 0,
            slots: 0,
            pinned: None,
            tick: 0,
            policy_bytes: 0,
        }
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<Slot> {
        self.index.find(hash, |&slot| self.entries[slot as usize].hash == hash).copied()
    }

    fn touch(&mut self, policy: &Policy, slot: Slot, access: &Access) {
        let entry = &mut self.entries[slot as usize];
        match policy.hits {
            Hits::Marks => entry.marks = (entry.marks + 1).min(MARKS_MAX),
            Hits::Sampled | Hits::Accesses => {
                self.tick += 1;
                // A hit costs no fetch.
                let (size, tick, cost_us) = (entry.charged, self.tick, 0);
                self.order.access(slot, &Access { slot: Some((slot, 0)), size, tick, cost_us, ..*access });
            }
        }
    }

    /// Room has been made.
    fn put(&mut self, policy: &Policy, access: &Access) {
        let Some((slot, _)) = access.slot else { return self.insert(access) };
        let entry = &mut self.entries[slot as usize];
        if policy.hits == Hits::Marks {
            entry.marks = (entry.marks + 1).min(MARKS_MAX);
        }
        if std::mem::replace(&mut entry.charged, access.size) != access.size {
            self.order.resized(slot, access.size);
        }
        if policy.hits != Hits::Marks {
            self.order.access(slot, access);
        }
    }

    fn insert(&mut self, access: &Access) {
        let slot = self.numbers.take();
        let bound = slot as usize + 1;
        if bound > self.entries.len() {
            if bound > self.entries.capacity() {
                self.entries.reserve_exact(bound - self.entries.len() + self.entries.len() / GROWTH + GROWTH);
            }
            self.entries.resize(bound, Entry::default());
        }
        self.entries[slot as usize] =
            Entry { hash: access.hash, charged: access.size, there: true, ..Entry::default() };
        let entries = &self.entries;
        self.index.insert_unique(access.hash, slot, |&slot| entries[slot as usize].hash);
        self.len += 1;
        self.slots = self.slots.max(self.numbers.bound());
        self.order.inserted(slot, access);
    }

    /// The bytes that one victim frees; `None` if nothing may go.
    fn evict(&mut self, incoming: &Access) -> Option<usize> {
        let entries = &mut self.entries;
        let mut marks = |slot: Slot| entries.get_mut(slot as usize).map_or(0, |entry| std::mem::take(&mut entry.marks));
        let slot = self.order.victim(incoming, &mut marks)?;
        Some(self.take(slot, Why::Evicted))
    }

    /// Removes an entry; the bytes freed.
    fn take(&mut self, slot: Slot, why: Why) -> usize {
        let Entry { hash, charged, there, .. } = std::mem::take(&mut self.entries[slot as usize]);
        debug_assert!(there, "only what is there leaves");
        if let Ok(found) = self.index.find_entry(hash, |&at| at == slot) {
            found.remove();
        }
        self.numbers.give_back(slot);
        self.len -= 1;
        if self.pinned.take_if(|pinned| *pinned == slot).is_some() {
            self.order.restore(slot);
        }
        self.order.removed(slot, hash, why);
        let bound = self.numbers.bound();
        if bound < self.slots {
            self.slots = bound;
            self.order.fits(bound);
            self.entries.truncate(bound);
            if bound < self.entries.capacity() / GROWTH {
                self.entries.shrink_to(2 * bound);
                let entries = &self.entries;
                self.index.shrink_to(2 * self.len, |&slot| entries[slot as usize].hash);
            }
        }
        charged as usize
    }

    fn bytes(&self, policy: &Policy) -> usize {
        let index = self.index.capacity() * (size_of::<Slot>() + 1) * 8 / 7;
        let entries = self.entries.capacity() * size_of::<Entry>() + self.len * policy.entry_bytes;
        size_of::<Part>() + index + entries + self.order.ghost_bytes()
    }

    fn validate(&self) -> usize {
        self.order.validate();
        self.numbers.validate();
        let there = || self.entries.iter().filter(|entry| entry.there);
        assert_eq!((there().count(), self.index.len()), (self.len, self.len), "entries are counted and found");
        there().for_each(|entry| assert!(self.find(entry.hash).is_some(), "an entry is found"));
        assert!(self.pinned.is_none() && self.slots == self.numbers.bound());
        there().map(|entry| entry.charged as usize).sum::<usize>() + self.policy_bytes
    }
}

/// The partition of a key: as the cache of documents spreads them.
#[inline]
fn index(hash: u64, partitions: usize) -> usize {
    ((((hash >> 16) & 0xffff_ffff) * partitions as u64) >> 32) as usize
}

/// As a need of room that no newcomer has: a policy must name a victim if it can.
fn forced(access: &Access) -> Access {
    Access { slot: access.slot.or(Some((Slot::MAX, 0))), ..*access }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{POLICIES, choose};

    /// Its tables become shorter while the keys leave.
    #[test]
    fn a_full_shadow_is_cleared() {
        for policy in POLICIES {
            let mut shadow = Shadow::new(&choose(policy.name).expect("it is in the table"), 1 << 20, 2);
            for number in 0..20_000_u64 {
                shadow.read(&Access::read(number.wrapping_mul(SPREAD), 100), true);
            }
            shadow.validate();
            assert!(shadow.len() > 1_000, "{}: {}", policy.name, shadow.len());
            shadow.clear();
            shadow.validate();
            assert!(shadow.is_empty(), "{}", policy.name);
        }
    }
}
