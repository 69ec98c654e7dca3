//! Replacement policies: which entry goes when the budget is used up, and which is let in.
//!
//! A policy knows accesses and nothing else: no values, no locks, no clock, no I/O. Equal accesses give equal
//! decisions, in the live cache, in the simulator and in a fuzzer. It has two parts. An [`Order`] belongs to a cache
//! partition and is called under that partition's lock. A [`Learned`] belongs to a cache and is shared by its orders,
//! so that what is learned is not split by partitions. A policy is one file here and one line in [`POLICIES`].

mod arc;
pub mod bare;
mod cacheus;
mod camp;
mod car;
mod choice;
mod clic;
mod clock;
#[cfg(test)]
mod conformance;
mod deferred_lru;
mod detox;
mod directory;
mod drawn;
mod duel;
mod fifo;
mod gdsf;
mod ghost;
mod heap;
#[cfg(test)]
mod hinted;
mod history;
mod hyperbolic;
mod judge;
mod lecar;
mod lfu;
mod life;
mod lirs;
mod list;
mod lru;
mod lru_k;
mod meter;
#[cfg(test)]
mod models;
mod mq;
mod random;
mod remembered;
mod s3_fifo;
mod sieve;
mod sketch;
mod slru;
mod tq;
mod two_q;
mod w_tinylfu;

use std::any::Any;
use std::sync::Arc;

use thiserror::Error;

use crate::hint::{HintMeaning, HintSet};
use directory::Directory;

pub use choice::{Choice, choose, markdown_table};
pub use judge::{JUDGED_MAX, Judge, METERED_LEVELS_MAX, METERED_OPEN_MAX, Metered};
pub use meter::Meter;

// What a transaction type looks like, as a policy is told.
pub use crate::graph::Graph;

/// All policies, the table from which help texts, documents and checks of names are made.
pub const POLICIES: &[&Policy] = &[
    &lru::LRU,
    &deferred_lru::DEFERRED_LRU,
    &deferred_lru::DEFERRED_LRU_LAZY,
    &fifo::FIFO,
    &clock::CLOCK,
    &two_q::TWO_Q,
    &slru::SLRU,
    &lfu::LFU,
    &gdsf::GDSF,
    &arc::ARC,
    &car::CAR,
    &mq::MQ,
    &lirs::LIRS,
    &lru_k::LRU_K,
    &camp::CAMP,
    &life::LIFE,
    &life::LIFE_ARTIFACT,
    &hyperbolic::HYPERBOLIC,
    &lecar::LECAR,
    &cacheus::CACHEUS,
    &s3_fifo::S3_FIFO,
    &sieve::SIEVE,
    &w_tinylfu::W_TINYLFU,
    &detox::POLICIES[0],
    &detox::POLICIES[1],
    &detox::POLICIES[2],
    &detox::POLICIES[3],
    &detox::POLICIES[4],
    &tq::TQ,
    &clic::CLIC,
    &clic::CLIC_TOP_K,
    &clic::CLIC_TREE,
    &clic::CLIC_G,
];

/// One policy, declared once.
pub struct Policy {
    /// The name by which users choose it: `s3-fifo`.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Paper or origin.
    pub source: &'static str,
    /// How it wants to hear of hits.
    pub hits: Hits,
    /// Bytes of metadata that it keeps per entry, charged to the budget; ghosts are charged by [`Order::ghost_bytes`].
    pub entry_bytes: usize,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
    /// Makes the part that is shared by all partitions.
    pub learned: fn(&Settings) -> Arc<dyn Learned>,
    /// Makes the order of one partition.
    pub order: fn(&Settings, Arc<dyn Learned>) -> Box<dyn Order>,
}

/// A number that can be set: `s3-fifo:small=0.1`.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// One line for help texts, with unit.
    pub summary: &'static str,
    /// Its value if nobody sets it.
    pub default: f64,
    /// The smallest and the largest value allowed.
    pub range: (f64, f64),
}

/// How a policy hears of hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// It asks, when it looks for a victim, how often each slot was touched since it came in or was last asked for,
    /// saturating at [`MARKS_MAX`].
    Marks,
    /// It is told of hits, in order, through [`Order::access`]. Where many threads hit at once, some are left out.
    Sampled,
    /// It is told of each hit, in order, through [`Order::access`]: it learns from how many there are.
    Accesses,
}

/// Touches of a slot are counted up to here.
pub const MARKS_MAX: u8 = 3;

/// What the budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each entry weighs 1.
    Entries,
    /// Each entry weighs its bytes.
    Bytes,
}

impl Unit {
    /// What an entry of `size` bytes weighs; at least 1.
    pub fn weight(self, size: u32) -> u32 {
        match self {
            Unit::Entries => 1,
            Unit::Bytes => size.max(1),
        }
    }
}

/// What an order is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the budget counts.
    pub unit: Unit,
    /// This partition's nominal share of the budget, in `unit`.
    pub capacity: u64,
    /// Values for the policy's parameters, in the order of its `parameters`.
    pub values: Vec<f64>,
}

/// Where an entry is kept. Its number is given to another entry after [`Order::removed`].
pub type Slot = u32;

/// All that a policy may know of one access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Hash of the key.
    pub hash: u64,
    /// Where it is cached, if it is, and 0: what is told late is told of the entry that was hit, or not at all.
    pub slot: Option<(Slot, u32)>,
    /// What was done.
    pub kind: AccessKind,
    /// Bytes that the entry occupies or would occupy.
    pub size: u32,
    /// What fetching it costs, in microseconds; 0 where unknown.
    pub cost_us: u32,
    /// Which client.
    pub client: u32,
    /// Hints that came with it.
    pub hints: HintSet,
    /// Number of the transaction; a rerun keeps its number.
    pub txn: u64,
    /// Registered type of the transaction, 0 for none.
    pub txn_type: u16,
    /// Level within the transaction, from 0.
    pub level: u16,
    /// Vertex of the transaction graph, 0 for none.
    pub vertex: u16,
    /// Number of the access; rises by one each.
    pub tick: u64,
}

impl Access {
    /// A read of an entry of `size` bytes that is not cached, with nothing else known.
    pub fn read(hash: u64, size: u32) -> Access {
        Access {
            hash,
            slot: None,
            kind: AccessKind::Read,
            size,
            cost_us: 0,
            client: 0,
            hints: HintSet(0),
            txn: 0,
            txn_type: 0,
            level: 0,
            vertex: 0,
            tick: 0,
        }
    }
}

/// A hit that an order is going to hear of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hit {
    /// Where the entry is.
    pub slot: Slot,
    /// Bytes that it occupies.
    pub size: u32,
    /// Hash of its key.
    pub hash: u64,
}

/// What was done in an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A client read it.
    Read,
    /// A transaction wrote it.
    Write,
    /// It was fetched ahead of need.
    Prefetch,
    /// A tier in front gave it up and hands it down.
    Demote,
}

/// Why an entry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// [`Order::victim`] named it.
    Evicted,
    /// It expired.
    Expired,
    /// It was invalidated, deleted or cleared.
    Invalidated,
}

/// The order of one partition's entries. Methods are O(1) where the policy's paper says so, O(log n) at worst.
///
/// The cache guarantees: `inserted` only for slots that are not in; all other calls only for slots that are in;
/// `victim` is called until the newcomer fits, *before* the newcomer's `inserted`; each victim is followed at once by
/// `removed(slot, Why::Evicted)`.
///
/// Each also has [`bare::Replay`], without writing it.
pub trait Order: Send + bare::Replay {
    /// A hit, in order, with its context. Not called for [`Hits::Marks`] policies.
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
    /// `marks` takes the touches of a slot since it came in or was last asked for (0..=[`MARKS_MAX`]).
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

    /// The same.
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

/// Places of a table that are not worth counting.
const PLACES_MIN: usize = 64;

/// Gives `slot` a place in a table by slot; those before it that have none are `unused`.
#[inline]
fn reach<T: Clone>(table: &mut Vec<T>, slot: Slot, unused: T) {
    let places = slot as usize + 1;
    if places > table.len() {
        grow(table, places - table.len());
        table.resize(places, unused);
    }
}

/// Room for so many more. A table grows by an eighth, because all places come into use, and doubling would leave up to
/// half of them idle: they are not charged.
#[inline]
fn grow<T>(table: &mut Vec<T>, more: usize) {
    if table.len() + more > table.capacity() {
        table.reserve_exact(more + table.len() / 8 + PLACES_MIN);
    }
}

/// Shortens a table by slot; gives its memory back once an eighth of it is used.
fn fit<T>(table: &mut Vec<T>, slots: usize) {
    table.truncate(slots);
    if table.len() < table.capacity() / 8 {
        table.shrink_to(2 * table.len());
    }
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
    /// called. Else nobody pays for either.
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

/// A policy name or parameter that does not exist.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// No such policy.
    #[error("no policy '{name}'; choose one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No such parameter, or a value out of its range.
    #[error("policy {policy}: {why}")]
    Parameter {
        /// Which policy.
        policy: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
}
