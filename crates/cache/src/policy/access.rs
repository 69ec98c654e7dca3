//! What a policy is told of, and how an entry is named to it.

use crate::hint::HintSet;

/// Touches of a slot are counted up to here.
pub const MARKS_MAX: u8 = 3;

/// Where an entry is kept. Its number is given to another entry after [`Order::removed`](super::Order::removed).
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
    /// [`Order::victim`](super::Order::victim) named it.
    Evicted,
    /// It expired.
    Expired,
    /// It was invalidated, deleted or cleared.
    Invalidated,
}
