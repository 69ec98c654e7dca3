//! What a trace has, one after the other.

use std::sync::Arc;

use forebay::hint::{HintMeaning, HintSet};
use forebay::policy::Access;

/// No further request.
pub const NEVER: u32 = u32::MAX;

/// One request, as policies and counters see it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// All that a policy may know; its size is that of the key's first request that tells one, at
    /// least 1.
    pub access: Access,
    /// The key's number in the catalog.
    pub key: u32,
    /// The request of the same key that comes next, by its number, [`NEVER`] for none, or without a future.
    pub next: u32,
    /// Whether that one is a read.
    pub next_reads: bool,
    /// The key's next request in a level that can be a hit as a whole: one that only reads, and only what was asked for
    /// before. [`NEVER`] for none, or without a future.
    pub next_whole: u32,
}

/// What happens in a trace.
#[derive(Clone, Debug)]
pub enum Event {
    /// What a hint set stands for, before the first request that has it.
    Hints(HintSet, Arc<HintMeaning>),
    /// A key is asked for or written.
    Request(Request),
    /// A key is deleted.
    Delete {
        /// Its hash.
        hash: u64,
    },
    /// A transaction ended.
    End {
        /// Its number.
        txn: u64,
        /// Whether it took effect.
        committed: bool,
    },
}
