//! How the gate behaves.

use crate::outage::lanes::LaneRule;
use crate::outage::mode::BreakerSettings;
use crate::outage::pending::BATCH_COMMITS_MAX;

/// What becomes of a buffered transaction that read what others have changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It waits for an operator.
    Quarantine,
    /// It is applied all the same, and counted.
    Apply,
}

/// How the gate behaves.
#[derive(Clone, Copy, Debug)]
pub struct GateSettings {
    /// When the store counts as away.
    pub breaker: BreakerSettings,
    /// Room for what is buffered, bytes.
    pub bytes_max: usize,
    /// Which transactions must be carried over in order.
    pub lanes: LaneRule,
    /// Batches on their way to the store at a time.
    pub workers: usize,
    /// Transactions of one batch at most.
    pub batch_max: usize,
    /// Transactions that are carried over per second at most, so that the others get their share of the store; 0: no
    /// limit. There is none with write-back either: then the others wait for the drain.
    pub per_second_max: u64,
    /// Neighbours in one document's queue become one.
    pub merge: bool,
    /// What becomes of those that others have overtaken.
    pub on_conflict: OnConflict,
    /// How long what is cached is served while the store is away and others may write to it, ms.
    pub stale_ms_max: u64,
    /// Every write is buffered at first, and carried over before it is this old, ms, or when half the room is taken;
    /// writes are held up so that the drain keeps up with them.
    pub write_back_ms: Option<u64>,
}

impl Default for GateSettings {
    fn default() -> GateSettings {
        GateSettings {
            breaker: BreakerSettings::default(),
            bytes_max: 64 << 20,
            lanes: LaneRule { serial: false },
            workers: 4,
            batch_max: BATCH_COMMITS_MAX,
            per_second_max: 5_000,
            merge: true,
            on_conflict: OnConflict::Quarantine,
            stale_ms_max: 3_600_000,
            write_back_ms: None,
        }
    }
}
