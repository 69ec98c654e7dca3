//! What a run has counted.

use super::machine::Nanos;

/// Counts of a run, after its warm-up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds that were counted.
    pub seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Those of them that sent no message.
    pub local: u64,
    /// Transactions that did not commit, since they had read what was stale.
    pub stale: u64,
    /// Those that did not for another reason.
    pub aborted: u64,
    /// Reads that a copy served.
    pub hits: u64,
    /// All reads.
    pub reads: u64,
    /// Packets between machines.
    pub packets: u64,
    /// Copies that servers or validators called stale.
    pub invalidated: u64,
    /// How long committed transactions took.
    pub latencies: Vec<Nanos>,
}

impl Outcome {
    /// Committed transactions in a second.
    pub fn throughput(&self) -> f64 {
        self.committed as f64 / self.seconds
    }

    /// Of the transactions that ended, the share that committed, in percent.
    pub fn commit_rate(&self) -> f64 {
        percent(self.committed, self.committed + self.stale + self.aborted)
    }

    /// Of the reads, the share that copies served, in percent.
    pub fn hit_rate(&self) -> f64 {
        percent(self.hits, self.reads)
    }

    /// Packets of a committed transaction.
    pub fn packets_each(&self) -> f64 {
        self.packets as f64 / self.committed.max(1) as f64
    }
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}
