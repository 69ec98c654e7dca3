//! What shadows know at one moment.

use std::time::Duration;

use forebay::cache::Sample;
use forebay::policy::Metered;

/// What a shadow, or the live cache, has saved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// As `--policy` takes it.
    pub policy: String,
    /// The `--memory` that it stands for, in bytes.
    pub memory: u64,
    /// What was counted of all that was heard.
    pub metered: Metered,
    /// The share that it saves of round trips, or of a sample the share that it hits of reads; none before there are
    /// any.
    pub saves: Option<f64>,
    /// Entries.
    pub entries: u64,
    /// Bytes that its entries take of its budget.
    pub used_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// It had to go.
    pub left_out: bool,
}

/// What is known at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The cache that clients have.
    pub live: Row,
    /// The shadows, first the one of the live cache.
    pub rows: Vec<Row>,
    /// Of which keys they have heard.
    pub sample: Sample,
    /// Accesses and ends of transactions that were told.
    pub heard: u64,
    /// Those that were left out.
    pub missed: u64,
    /// Times that all shadows were emptied since it was not known which keys had left.
    pub emptied: u64,
    /// How long a read of the store takes, in microseconds; none if there was none.
    pub fetch_us: Option<f64>,
    /// Since it is counted.
    pub elapsed: Duration,
    /// What all shadows take, and may take, in bytes.
    pub bytes: u64,
    /// The bound of that.
    pub bytes_max: u64,
}
