//! How a workload is run.

use std::time::Duration;

use super::Target;

/// Throughput over time is counted in steps of this length.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// How a workload is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Its name, for the report.
    pub workload: String,
    /// Where.
    pub target: Target,
    /// Clients at the same time, each with a connection of its own.
    pub connections: u32,
    /// How long actions begin.
    pub duration: Duration,
    /// Actions per second, all clients together; `None`: each acts again as soon as it has its reply.
    pub rate: Option<f64>,
    /// What the choices are drawn from.
    pub seed: u64,
    /// Longest time that an action may take.
    pub reply_time_max: Duration,
    /// Longest wait after the run for what is buffered.
    pub drain_time_max: Duration,
}
