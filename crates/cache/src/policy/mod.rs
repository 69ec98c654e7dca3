//! Replacement policies: which entry goes when the budget is used up, and which is let in.
//!
//! A policy knows accesses and nothing else: no values, no locks, no clock, no I/O. Equal accesses give equal
//! decisions, in the live cache, in the simulator and in a fuzzer. It has two parts. An [`Order`] belongs to a cache
//! partition and is called under that partition's lock. A [`Learned`] belongs to a cache and is shared by its orders,
//! so that what is learned is not split by partitions. A policy is one file here and one line in [`POLICIES`].

mod access;
mod arc;
pub mod bare;
mod by_slot;
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
mod order;
mod random;
mod record;
mod remembered;
mod s3_fifo;
mod sieve;
mod sketch;
mod slru;
mod tq;
mod two_q;
mod unit;
mod w_tinylfu;

pub use access::{Access, AccessKind, Hit, MARKS_MAX, Slot, Why};
use by_slot::{fit, grow, reach};
pub use choice::{Choice, choose, markdown_table};
pub use judge::{JUDGED_MAX, Judge, METERED_LEVELS_MAX, METERED_OPEN_MAX, Metered};
pub use meter::Meter;
pub use order::{Learned, NothingLearned, Order};
pub use record::{Hits, Parameter, Policy, PolicyError, Settings, Unit};

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
