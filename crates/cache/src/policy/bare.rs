//! A policy with nothing around it: slots, a capacity, and no values, locks or partitions.
//!
//! The simulator replays traces over it, and the conformance tests check policies with it. It panics when a policy
//! breaks the contract of [`Order`], because that is a defect of the policy and never of the input.

mod frame;
mod index;
mod parts;
mod replay;

use std::ops::Range;
use std::sync::Arc;

use super::access::{Access, Why};
use super::order::{Learned, NothingLearned, Order};
use super::record::{Policy, Settings};
use super::unit::Hits;
use crate::hint::{HintMeaning, HintSet};
pub use index::Index;
use parts::Frame;
pub use parts::{Hashed, Numbered, Served};
pub use replay::{NumberedRequests, Replay};

/// One policy over one partition.
pub struct Bare<I = Hashed> {
    learned: Arc<dyn Learned>,
    order: Box<dyn Order>,
    frame: Frame<I>,
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

    /// Reads of keys by hash, with sizes, as [`Bare::request`] serves each; appends what became of them.
    pub fn replay(&mut self, requests: &[(u64, u32)], served: &mut Vec<Served>) {
        self.order.replay(&mut self.frame, requests, served);
    }

    /// Invalidates `hash`; whether it was in.
    pub fn invalidate(&mut self, hash: u64) -> bool {
        let slot = self.frame.find(&*self.order, hash);
        slot.map(|slot| self.frame.leave(&mut *self.order, slot, Why::Invalidated)).is_some()
    }

    /// Gives `hash` another size, in bytes, and evicts what does not fit any more; whether it was in.
    pub fn resize(&mut self, hash: u64, size: u32) -> bool {
        let frame = &mut self.frame;
        let Some(slot) = frame.find(&*self.order, hash) else { return false };
        if let Some(entry) = &mut frame.entries[slot as usize] {
            frame.used = frame.used - u64::from(frame.unit.weight(entry.size)) + u64::from(frame.unit.weight(size));
            entry.size = size;
        }
        self.order.resized(slot, size);
        self.shrink();
        true
    }

    /// Pins `hash`, or lets it go again, and then evicts what only pins had kept; whether it was in and not so already.
    pub fn pin(&mut self, hash: u64, pinned: bool) -> bool {
        let Some(slot) = self.frame.find(&*self.order, hash) else { return false };
        let Some(entry) = &mut self.frame.entries[slot as usize] else { return false };
        if std::mem::replace(&mut entry.pinned, pinned) == pinned {
            return false;
        }
        self.frame.evicted.clear();
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
        self.frame.find(&*self.order, hash).is_some()
    }

    /// Why `hash` stands where it stands, if it is cached.
    pub fn explain(&self, hash: u64) -> Option<String> {
        self.frame.find(&*self.order, hash).map(|slot| self.order.explain(slot))
    }
}

impl Bare<Numbered> {
    /// An empty cache for keys with numbers below `keys`.
    pub fn numbered(policy: &'static Policy, settings: &Settings, keys: usize) -> Bare<Numbered> {
        let learned = (policy.learned)(settings);
        let order = (policy.order)(settings, learned.clone());
        Bare { learned, ..Bare::with(policy.hits, settings, order, Numbered::new(keys)) }
    }

    /// The requests at these places, as [`Bare::serve`] serves each; appends what became of them.
    pub fn replay(&mut self, requests: NumberedRequests<'_>, places: Range<usize>, served: &mut Vec<Served>) {
        self.order.replay_numbered(&mut self.frame, requests, places, served);
    }
}

impl<I: Index> Bare<I> {
    fn with(hits: Hits, settings: &Settings, mut order: Box<dyn Order>, slots: I) -> Bare<I> {
        let frame = Frame::new(hits, settings, &mut *order, slots);
        Bare { learned: Arc::new(NothingLearned), order, frame }
    }

    /// A request for `key`, whose hash stands in the access. That is asked for when a policy wants to see it; slot and
    /// tick are filled in here.
    #[inline]
    pub fn serve(&mut self, key: I::Key, access: impl FnOnce() -> Access) -> Served {
        self.frame.serve(&mut *self.order, key, access)
    }

    /// Whether the key is cached.
    pub fn holds(&self, key: I::Key) -> bool {
        self.frame.find(&*self.order, key).is_some()
    }

    /// What the policy learns over all partitions, of which there is one here.
    pub fn learned(&self) -> &Arc<dyn Learned> {
        &self.learned
    }

    /// Whether a write of what is not cached lets it in, as it does at first; else it only updates what is.
    pub fn set_writes_allocate(&mut self, writes_allocate: bool) {
        self.frame.writes_allocate = writes_allocate;
    }

    /// A transaction ended; `committed` is false for an abort.
    pub fn ended(&mut self, txn: u64, committed: bool) {
        self.order.ended(txn, committed);
    }

    /// Another capacity; what is too much goes, as far as it is not pinned.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.order.set_capacity(capacity);
        self.frame.capacity = self.order.room(capacity);
        self.shrink();
    }

    /// Evicts down to the capacity, for no newcomer.
    fn shrink(&mut self) {
        self.frame.evicted.clear();
        let nobody = Access { slot: Some((0, 0)), ..Access::read(0, 0) };
        self.frame.make_room(&mut *self.order, &nobody, 0);
    }

    /// Hashes that the last request, resize, unpinning or new capacity evicted, in order.
    pub fn evicted(&self) -> &[u64] {
        &self.frame.evicted
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.frame.len
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.frame.len == 0
    }

    /// Weight of all entries, in the unit of the settings.
    pub fn used(&self) -> u64 {
        self.frame.used
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
        self.frame.validate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{POLICIES, Unit, choose};

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
    /// In a row, by hash and by number, requests are served as they are one by one.
    #[test]
    fn rows_are_served_as_their_requests() {
        const KEYS: u64 = 97;
        let numbers: Vec<u32> = (0..10_000_u64).map(|at| (at * at / 7 % KEYS).min(at * 31 % KEYS) as u32).collect();
        let hashes: Vec<u64> = (1..=KEYS).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let sizes: Vec<u32> = (0..KEYS as u32).map(|key| 1 + key % 40).collect();
        let (writes, clients) = (vec![0; numbers.len() / 64 + 1], Vec::new());
        let rows =
            NumberedRequests { numbers: &numbers, writes: &writes, clients: &clients, hashes: &hashes, sizes: &sizes };
        let requests: Vec<(u64, u32)> =
            numbers.iter().map(|&key| (hashes[key as usize], sizes[key as usize])).collect();
        for policy in POLICIES {
            let settings = choose(policy.name).expect("in the table").settings(Unit::Bytes, 400);
            let mut cache = Bare::new(policy, &settings);
            let expected: Vec<Served> = requests.iter().map(|&(hash, size)| cache.request(hash, size)).collect();
            let (mut by_hash, mut by_number) = (Vec::new(), Vec::new());
            let mut hashed = Bare::new(policy, &settings);
            requests.chunks(300).for_each(|row| hashed.replay(row, &mut by_hash));
            let mut numbered = Bare::numbered(policy, &settings, KEYS as usize);
            (0..10).for_each(|row| numbered.replay(rows, row * 1000..(row + 1) * 1000, &mut by_number));
            assert!(by_hash == expected && by_number == expected, "{}", policy.name);
            assert_eq!((hashed.used(), numbered.used()), (cache.used(), cache.used()), "{}", policy.name);
            hashed.validate();
        }
    }
}
