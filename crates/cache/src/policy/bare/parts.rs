//! What a bare cache consists of, beside its order.

use hashbrown::HashTable;

use crate::policy::access::Slot;
use crate::policy::unit::{Hits, Unit};

/// All of a bare cache but its order, which each method is given.
pub struct Frame<I> {
    pub(super) hits: Hits,
    pub(super) unit: Unit,
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) writes_allocate: bool,
    pub(super) entries: Vec<Option<Entry>>,
    pub(super) free: Vec<Slot>,
    pub(super) slots: I,
    /// Number of entries.
    pub(super) len: usize,
    pub(super) tick: u64,
    pub(super) evicted: Vec<u64>,
}

/// What is in a slot.
#[derive(Clone, Copy)]
pub struct Entry {
    pub(super) hash: u64,
    pub(super) size: u32,
    pub(super) marks: u8,
    pub(super) pinned: bool,
}

/// Keys are known by their hashes, which are well mixed; only slots are kept of them, so that the table is small. It is
/// the order's table where that has one.
#[derive(Default)]
pub struct Hashed(pub(super) HashTable<Slot>);

/// Keys are known by numbers below a bound that is known beforehand, so that nothing has to be searched for.
pub struct Numbered {
    /// By number, [`NOWHERE`] for those that are not cached.
    pub(super) slots: Vec<Slot>,
    /// By slot.
    pub(super) numbers: Vec<u32>,
}

/// No slot.
pub(super) const NOWHERE: Slot = Slot::MAX;

impl Numbered {
    /// For numbers below `keys`.
    pub(super) fn new(keys: usize) -> Numbered {
        Numbered { slots: vec![NOWHERE; keys], numbers: Vec::new() }
    }
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
