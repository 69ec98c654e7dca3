//! What is told of all that clients ask of a cache, in the order in which its policy hears of it. It records traces
//! and counts transactional hits, and feeds shadows: caches without values, of other policies and sizes.

use std::sync::Arc;

use super::{AccessKind, Context};
use crate::hint::{HintMeaning, HintSet};
use crate::key::KeyRef;
use crate::policy::Graph;
use crate::value::Value;

/// One access, as it is told.
#[derive(Clone, Copy, Debug)]
pub struct Accessed<'a> {
    /// Which key.
    pub key: KeyRef<'a>,
    /// What was done; `None`: the key left the cache because it changed elsewhere, or because nobody knows to what.
    pub kind: Option<AccessKind>,
    /// A read was answered from the cache. A miss is told once the value is there.
    pub hit: bool,
    /// It was answered beside the cache, which heard of nothing: by another's fetch, or beside a commit on its way.
    pub beside: bool,
    /// Bytes of key and value; `None` for an absent document, and where a write leaves nothing that is known.
    pub size: Option<u32>,
    /// Bytes that the cache charges for the entry, whether it comes in or not, without the policy's part.
    pub charged: Option<u32>,
    /// What was read, or what was written as it is then; `None` where nothing is there, or nobody knows what.
    pub value: Option<&'a Value>,
    /// For which request.
    pub context: &'a Context,
}

/// A share of all keys, by their hashes: one in 2^n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample(u8);

impl Sample {
    /// All keys.
    pub const ALL: Sample = Sample(0);

    /// The largest sample of at most one key in `keys`.
    pub fn one_in(keys: u64) -> Sample {
        Sample(keys.max(1).next_power_of_two().trailing_zeros().min(u32::from(u8::MAX >> 2)) as u8)
    }

    /// One key in how many.
    pub fn keys(self) -> u64 {
        1 << self.0
    }

    /// Whether the key with this hash is in. What it goes by is neither what partitions go by nor their tables.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        // A shift by all bits is none.
        self.0 == 0 || hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - u32::from(self.0)) == 0
    }

    /// As a number that is not 0.
    pub(super) fn word(self) -> usize {
        usize::from(self.0) + 1
    }

    /// Of such a number.
    pub(super) fn of_word(word: usize) -> Option<Sample> {
        word.checked_sub(1).map(|bits| Sample(bits as u8))
    }
}

/// Is told of accesses under the lock of their key's partition: it must be quick, and never ask the cache.
pub trait Watcher: Send + Sync {
    /// Of which keys it wants to hear. Where all watchers want a sample, hits of other keys take no lock, and no
    /// transaction is followed for their sake: ends of transactions may be told or not.
    fn sample(&self) -> Sample {
        Sample::ALL
    }

    /// A key was asked for, written, or left.
    fn accessed(&self, accessed: &Accessed<'_>);

    /// A transaction that asked for something, or wrote, ended.
    fn ended(&self, context: &Context, committed: bool);

    /// The policy was told what a hint set stands for.
    fn hints_defined(&self, set: HintSet, meaning: &HintMeaning) {
        let _ = (set, meaning);
    }

    /// It was told what a transaction type looks like.
    fn graph_registered(&self, txn_type: u16, graph: &Arc<Graph>) {
        let _ = (txn_type, graph);
    }

    /// Keys have left that were not chosen one by one: of those that were cached each was told, of others they may be
    /// any. `begins_again`: all have left, and the policy has forgotten them.
    fn cleared(&self, begins_again: bool) {
        let _ = begins_again;
    }
}
