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

/// Is told of accesses under the lock of their key's partition: it must be quick, and never ask the cache.
pub trait Watcher: Send + Sync {
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
