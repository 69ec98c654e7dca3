//! What a cache is made with, and what it is told with each request.

use crate::hint::HintSet;
use crate::policy::Policy;

/// What a cache is made with.
#[derive(Clone)]
pub struct CacheOptions {
    /// Bytes for entries: keys, values, index, policy metadata.
    pub budget_bytes: usize,
    /// Number of partitions. One makes decisions that follow from the order of accesses alone.
    pub partitions: usize,
    /// What decides which entries stay.
    pub policy: &'static Policy,
    /// The policy's parameters; empty for its defaults.
    pub policy_values: Vec<f64>,
}

/// What the cache knows of the request for which it is asked; becomes part of the policy's
/// [`Access`](crate::policy::Access).
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Which client.
    pub client: u32,
    /// Hints that came with the request.
    pub hints: HintSet,
    /// Number of the transaction, 0 for none.
    pub txn: u64,
    /// Its registered type, 0 for none.
    pub txn_type: u16,
    /// Level within the transaction, from 0.
    pub level: u16,
    /// Vertex of the transaction graph, 0 for none.
    pub vertex: u16,
    /// What the fetch cost, in microseconds, once known.
    pub cost_us: u32,
}
