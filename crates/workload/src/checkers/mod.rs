//! Workloads that show whether transactions are serializable, over real sockets, and the checkers of what they saw.
//!
//! [`runner`] drives many clients of one [`Workload`] and merges what each saw into one history ([`Event`]s), on one
//! clock. A connection that breaks leaves its transaction with an unknown outcome and the client connects again. So a
//! history may span crashes of the server. The workload then judges the history.
//!
//! * [`appends`]: what is lost, repeated or out of order in lists that writers append to, over outages of a store;
//! * [`list_append`]: the strongest: the order of all writes to a key can be read from the key itself;
//! * [`bank`]: transfers and auditors: a sum that must hold in every observation;
//! * [`write_skew`]: a constraint over two keys, which snapshots would break.

pub mod appends;
pub mod bank;
#[cfg(feature = "cross-check")]
pub mod cross_check;
pub mod history;
pub mod list_append;
pub mod runner;
pub mod transact;
pub mod write_skew;

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use thiserror::Error;

pub use history::{Event, Op, Outcome};
pub use runner::{RunError, RunOptions, run};
pub use transact::{Attempt, Stopped, Style};

use crate::client::{Client, ClientError};

/// What clients do and what must hold of what they saw.
pub trait Workload: Send + Sync + 'static {
    /// Its name: `bank`.
    fn name(&self) -> &'static str;

    /// Brings the keys into their first state. Called once, before any client starts.
    fn setup<'a>(&'a self, client: &'a mut Client) -> BoxFuture<'a, Result<(), ClientError>>;

    /// One transaction. What it does is noted in `attempt` as it goes, writes before they are sent.
    fn step<'a>(
        &'a self,
        client: &'a mut Client,
        random: &'a mut fastrand::Rng,
        attempt: &'a mut Attempt,
    ) -> BoxFuture<'a, Result<(), Stopped>>;

    /// A last look at all keys, after all clients are done; part of the history, as its last event.
    fn finish<'a>(&'a self, client: &'a mut Client, attempt: &'a mut Attempt) -> BoxFuture<'a, Result<(), Stopped>>;

    /// Judges a history.
    fn check(&self, history: &[Event]) -> Result<Summary, Violation>;
}

/// What a history holds that passed its check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions that were acknowledged.
    pub committed: usize,
    /// Transactions that surely had no effect.
    pub failed: usize,
    /// Transactions of unknown outcome.
    pub unknown: usize,
    /// Committed transactions by name.
    pub by_name: BTreeMap<&'static str, usize>,
    /// The first words of why transactions failed.
    pub failures: BTreeMap<String, usize>,
}

/// Why a history is not what it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{what}")]
pub struct Violation {
    /// What was seen that can't be, with the transactions involved.
    pub what: String,
}

impl Violation {
    /// A violation from its description.
    pub fn new(what: impl Into<String>) -> Violation {
        Violation { what: what.into() }
    }
}

impl Summary {
    /// Counts a history.
    pub fn of(history: &[Event]) -> Summary {
        let mut summary = Summary::default();
        for event in history {
            match &event.outcome {
                Outcome::Committed => {
                    summary.committed += 1;
                    *summary.by_name.entry(event.name).or_default() += 1;
                }
                Outcome::Failed(why) => {
                    summary.failed += 1;
                    let word = why.split_whitespace().next().unwrap_or("unknown").to_owned();
                    *summary.failures.entry(word).or_default() += 1;
                }
                Outcome::Unknown(_) => summary.unknown += 1,
            }
        }
        summary
    }
}
