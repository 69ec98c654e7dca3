//! How the gate behaves, and what people are shown of it.

use std::time::Duration;

use crate::outage::lanes::LaneRule;
use crate::outage::mode::{BreakerSettings, Mode};
use crate::outage::pending::{Amount, BATCH_COMMITS_MAX};
use crate::outage::record::Loss;
use crate::outage::state::Counts;

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
    /// Which transactions must be applied in order.
    pub lanes: LaneRule,
    /// Batches on their way to the store at a time.
    pub workers: usize,
    /// Transactions of one batch at most.
    pub batch_max: usize,
    /// Transactions that are applied per second at most, so that the others get their share of the store; 0: no
    /// limit. There is none with write-back either: then the others wait for the drain.
    pub per_second_max: u64,
    /// Neighbours in one document's queue become one.
    pub merge: bool,
    /// What becomes of those that others have overtaken.
    pub on_conflict: OnConflict,
    /// How long what is cached is served while the store is away and others may write to it, ms.
    pub stale_ms_max: u64,
    /// Every write is buffered at first, and applied before it is this old, ms, or when half the room is taken;
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

/// What people are shown of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GateState {
    /// The mode.
    pub mode: Mode,
    /// Since when, ms since the Unix epoch; 0 if since the start.
    pub since_ms: u64,
    /// For how long.
    pub lasted: Duration,
    /// What is buffered.
    pub amount: Amount,
    /// Room that is left, bytes.
    pub room: usize,
    /// Time until it is full at the rate of this outage; none if nothing was buffered.
    pub room_time: Option<Duration>,
    /// When the oldest of it was buffered, ms since the Unix epoch.
    pub oldest_ms: Option<u64>,
    /// Why the store counts as away, or was last.
    pub why: String,
    /// Why nothing is applied.
    pub suspended: Option<String>,
    /// Which owner has taken the store over: it is not ours any more, and nothing of it is answered.
    pub fenced: Option<String>,
    /// Applied, and not noted in the journal yet for want of room.
    pub unnoted: usize,
    /// The disk under the journal has less room than the memory: it may be full first.
    pub short: bool,
    /// Why nothing more is buffered, whatever the room.
    pub closed: Option<String>,
    /// What was acknowledged and may be lost with a part of the journal, oldest first.
    pub losses: Vec<Loss>,
    /// What was counted since the start.
    pub counts: Counts,
    /// The same, since the present or last outage began.
    pub outage: Counts,
}
