//! The two parts of a policy: an order for each partition, and what they learn together.

use std::any::Any;
use std::sync::Arc;

use super::access::{Access, Hit, Slot, Why};
use super::bare;
use super::directory::Directory;
use crate::graph::Graph;
use crate::hint::{HintMeaning, HintSet};

/// The order of one partition's entries. Methods are O(1) where the policy's paper says so, O(log n) at worst.
///
/// The cache guarantees: `inserted` only for slots that are not in; all other calls only for slots that are in;
/// `victim` is called until the newcomer fits, *before* the newcomer's `inserted`; each victim is followed at once by
/// `removed(slot, Why::Evicted)`.
///
/// Each also has [`bare::Replay`], without writing it.
pub trait Order: Send + bare::Replay {
    /// A hit, in order, with its context. Not called for [`Hits::Marks`](super::Hits::Marks) policies.
    fn access(&mut self, slot: Slot, access: &Access) {
        let _ = (slot, access);
    }

    /// These hits are going to be told: asks for the memory that they need, and changes nothing.
    fn ahead(&self, hits: &[Hit]) {
        let _ = hits;
    }

    /// Whether a missed entry should be let in at all. Called once for every access that finds nothing cached, also
    /// for writes; where the entry then comes in, `victim` and `inserted` follow under the same lock.
    fn admit(&mut self, access: &Access) -> bool {
        let _ = access;
        true
    }

    /// An entry came in.
    fn inserted(&mut self, slot: Slot, access: &Access);

    /// An entry has another size now, in bytes.
    fn resized(&mut self, slot: Slot, size: u32);

    /// An entry left; `hash` is its key's.
    fn removed(&mut self, slot: Slot, hash: u64, why: Why);

    /// No slot from this one on is taken any more: tables by slot may become smaller.
    fn fits(&mut self, slots: usize) {
        let _ = slots;
    }

    /// The entry that should go next. `None`: there is none that may, or the newcomer is worth less than all of them
    /// and must stay out. `incoming` is what room is needed for; where that is no newcomer (a smaller budget, an entry
    /// that grew) its `slot` is `Some`, and the policy names a victim if it can.
    /// `marks` takes the touches of a slot since it came in or was last asked for, up to
    /// [`MARKS_MAX`](super::MARKS_MAX).
    fn victim(&mut self, incoming: &Access, marks: &mut dyn FnMut(Slot) -> u8) -> Option<Slot>;

    /// How many entries should go at once when room is needed: the cache, once it had to take one victim, takes up to
    /// so many, as far as `victim` names them (DeferredLRU purges in bulk, section 4.3.3).
    fn batch(&self) -> u32 {
        1
    }

    /// The entry is pinned: it must not be named as a victim until restored. Policies take it out of their order, so
    /// that no victim search walks over pinned entries.
    fn withdraw(&mut self, slot: Slot);

    /// The entry may be named again. It was in use until now: it goes to the newest end of where it belongs.
    fn restore(&mut self, slot: Slot);

    /// A transaction ended. `committed` is false for an abort. Called on every order that heard of its accesses.
    fn ended(&mut self, txn: u64, committed: bool) {
        let _ = (txn, committed);
    }

    /// The entries that may go, from the one that would go first on if nothing was asked for any more, in sections
    /// that [`Order::stand_first`] can put an entry into. `None`: there is no such order, or it is not kept.
    fn line(&self) -> Option<Vec<Vec<Slot>>> {
        None
    }

    /// Touches of an entry that it has asked for, and that still count.
    fn touches(&self, slot: Slot) -> u8 {
        let _ = slot;
        0
    }

    /// The entry goes to the oldest end of this section of the line, or of the one that it is in. So a line is made
    /// again from its end on, and what comes in meanwhile stands behind all of it. Nothing, where there is no line.
    fn stand_first(&mut self, slot: Slot, section: Option<usize>) {
        let _ = (slot, section);
    }

    /// What it remembers of keys that left, oldest first, as prints and weights; of no use to another policy.
    fn ghosts(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// Remembers these as well, as if they had left in this order.
    fn add_ghosts(&mut self, ghosts: &[(u32, u32)]) {
        let _ = ghosts;
    }

    /// The nominal share of the budget changed.
    fn set_capacity(&mut self, capacity: u64);

    /// What is left for entries of a capacity that counts entries, once the policy has paid for its own metadata out
    /// of it (CLIC, section 6.1). Where bytes are counted, metadata is charged as what it is.
    fn room(&self, capacity: u64) -> u64 {
        capacity
    }

    /// Bytes of metadata beyond `entry_bytes` per entry: ghosts, sketches.
    fn ghost_bytes(&self) -> usize {
        0
    }

    /// Where it keeps keys that are not cached, if a host may keep what is cached in the same index.
    fn directory(&self) -> Option<&Directory> {
        None
    }

    /// As [`Order::directory`], to be changed.
    fn directory_mut(&mut self) -> Option<&mut Directory> {
        None
    }

    /// One line on why `slot` stands where it stands, for `CACHE EXPLAIN`.
    fn explain(&self, slot: Slot) -> String;

    /// Likewise for a key that is not in, by its hash: what is remembered of it, and what would let it in. `None`:
    /// nothing is remembered.
    fn explain_absent(&self, hash: u64) -> Option<String> {
        let _ = hash;
        None
    }

    /// Panics if the structure contradicts itself; for tests and fuzzing.
    fn validate(&self);
}

/// What a policy learns over all partitions; shared, so it locks inside and is updated in batches.
///
/// An order gets its own type back through `Any`: `let any: Arc<dyn Any + Send + Sync> = learned; any.downcast()`.
pub trait Learned: Send + Sync + Any {
    /// Bytes that it occupies, charged to the budget; asked for often, so it must be cheap.
    fn bytes(&self) -> usize {
        0
    }

    /// What a transaction type looks like, for policies that score by it; types without a graph go by levels. Another
    /// graph for the same type replaces the one before, from the next transaction that ends.
    fn register_graph(&self, txn_type: u16, graph: &Arc<Graph>) {
        let _ = (txn_type, graph);
    }

    /// Says what a hint set stands for, before the first access that has it. A set never changes its meaning.
    fn define_hints(&self, set: HintSet, meaning: &HintMeaning) {
        let _ = (set, meaning);
    }

    /// Whether transactions matter to it: accesses then carry their transaction's number, and [`Order::ended`] is
    /// called. Else neither is done.
    fn follows_transactions(&self) -> bool {
        false
    }

    /// Hashes of the keys that an open transaction has asked for: the orders that hold them are told of its end.
    fn asked_by(&self, txn: u64, tell: &mut dyn FnMut(u64)) {
        let _ = (txn, tell);
    }

    /// Forgets all that accesses taught. What was declared, as the meaning of hint sets, stays.
    fn forget(&self) {}

    /// What it has learned, for `CACHE STATS`: names with their values, the most important first, at most `lines_max`.
    fn report(&self, lines_max: usize) -> Vec<(String, String)> {
        let _ = lines_max;
        Vec::new()
    }
}

/// For policies that learn nothing beyond their order.
pub struct NothingLearned;

impl Learned for NothingLearned {}
