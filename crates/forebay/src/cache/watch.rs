//! What is told of all that clients ask of a cache, in the order in which its policy hears of it. It records traces
//! and counts transactional hits.

use super::{AccessKind, Context};
use crate::hint::HintSet;
use crate::key::KeyRef;
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
    /// Bytes of key and value; `None` for an absent document, and where a write leaves nothing that is known.
    pub size: Option<u32>,
    /// Bytes that the cache charges for the entry, whether it comes in or not, without the policy's part.
    pub charged: Option<u32>,
    /// What was read, or what was written as it is then; `None` where nothing is there, or nobody knows what.
    pub value: Option<&'a Value>,
    /// For which request.
    pub context: &'a Context,
}

/// Is told of accesses under the lock of their key's partition: it must be quick, and never ask the cache.
pub trait Watcher: Send + Sync {
    /// A key was asked for, written, or left.
    fn accessed(&self, accessed: &Accessed<'_>);

    /// A transaction that asked for something, or wrote, ended.
    fn ended(&self, context: &Context, committed: bool);

    /// The policy was told what a hint set stands for.
    fn hints_defined(&self, set: HintSet) {
        let _ = set;
    }
}
