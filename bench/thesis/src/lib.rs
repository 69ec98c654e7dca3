//! The caches that the thesis on DeferredLRU compares, as it describes them, for keys and values of 64 bits.
//!
//! | here | thesis |
//! |---|---|
//! | [`DeferredLru`] | chapter 4, algorithms 6 and 9 to 14 |
//! | [`LruMutex`] | section 3.1 |
//! | [`FineLru`] | section 3.2, ConcurrentLRU |
//! | [`Hhvm`] | section 3.4, algorithms 7 and 8 |
//! | [`Binned`] | section 2.2.6: parts by hash, thresholds of a part are those of the whole |
//! | [`Lru`], [`SequentialDeferredLru`] | for one thread, section 6.1 |
//!
//! They are here to be measured (`bench/engine`), and no program should use them: `docs/papers/deferred_lru.md` says
//! what was found. Nodes are named by number and their fields are atomic, so no memory is read after it is freed.
//! What a node's number stands for may change under a reader, which each file says how it bears.

mod binned;
mod deferred;
mod fine;
mod hhvm;
mod lru;
mod plain;
mod sequential;
mod sync;
mod table;

pub use binned::Binned;
pub use deferred::{DeferredLru, Thresholds};
pub use fine::FineLru;
pub use hhvm::Hhvm;
pub use lru::{Lru, LruMutex};
pub use sequential::{Counts, SequentialDeferredLru};

/// A bounded cache for many threads.
pub trait Cache: Sync {
    /// The value of `key`, if it is there; the look-up counts as an access.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores a pair, and evicts if there is no room. False: the key is there already, or there was no room and
    /// nothing could go.
    fn insert(&self, key: u64, value: u64) -> bool;

    /// Pairs that are stored, and what is broken, while no other thread uses the cache.
    fn check(&self) -> Result<Vec<(u64, u64)>, String>;
}

/// The number of a node. The first two stand for no pair.
type Number = u32;

/// No node, and where there is a list its head.
const NONE: Number = 0;

/// The end of a list.
const TAIL: Number = 1;

/// The first node that may hold a pair.
const FIRST: Number = 2;

/// All bits of the hash depend on all bits of the key.
#[inline]
fn hash(key: u64) -> u64 {
    let product = u128::from(key ^ 0x243F_6A88_85A3_08D3) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}

/// Chains for so many nodes: one each, and a power of two.
fn chains(nodes: usize) -> usize {
    nodes.max(1).next_power_of_two()
}

/// On lines of memory that hold nothing else.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);
