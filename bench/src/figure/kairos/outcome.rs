//! What a run has counted.

use super::machine::Nanos;

/// Counts of a run, after its warm-up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds that were counted.
    pub seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Those of them that sent no message at their end.
    pub local: u64,
    /// Those of them that sent none at all: copies served all that they read.
    pub silent: u64,
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
    /// Their bytes; see `sizes.rs`.
    pub bytes: u64,
    /// Work of the machines that keep documents, in microseconds of one core.
    pub server_us: f64,
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

    /// Of the committed transactions, the share that sent no message at all, in percent.
    pub fn silent(&self) -> f64 {
        percent(self.silent, self.committed)
    }

    /// Of the committed transactions, the share that sent no message at their end, in percent.
    pub fn without_message(&self) -> f64 {
        percent(self.local, self.committed)
    }

    /// Work of servers for a committed transaction, in microseconds of one core.
    pub fn server_us_each(&self) -> f64 {
        self.server_us / self.committed.max(1) as f64
    }

    /// Documents that were fetched for a committed transaction.
    pub fn fetched_each(&self) -> f64 {
        (self.reads - self.hits) as f64 / self.committed.max(1) as f64
    }

    /// Attempts that had read what was stale, for 100 committed transactions.
    pub fn stale_each(&self) -> f64 {
        percent(self.stale, self.committed)
    }

    /// Bytes of a committed transaction.
    pub fn bytes_each(&self) -> f64 {
        self.bytes as f64 / self.committed.max(1) as f64
    }

    /// That part of the committed transactions took no longer than so many ms.
    pub fn latency_ms(&self, part: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * part) as usize;
        sorted.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    }

    /// Packets of a committed transaction.
    pub fn packets_each(&self) -> f64 {
        self.packets as f64 / self.committed.max(1) as f64
    }
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}
