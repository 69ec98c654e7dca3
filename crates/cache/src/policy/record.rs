//! What a policy declares of itself, and what its order is made with.

use std::sync::Arc;

use thiserror::Error;

use super::order::{Learned, Order};
pub use super::unit::{Hits, Unit};

/// One policy, declared once.
pub struct Policy {
    /// The name by which users choose it: `s3-fifo`.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Paper or origin.
    pub source: &'static str,
    /// How it wants to hear of hits.
    pub hits: Hits,
    /// Bytes of metadata that it keeps per entry, charged to the budget; ghosts are charged by [`Order::ghost_bytes`].
    pub entry_bytes: usize,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
    /// Makes the part that is shared by all partitions.
    pub learned: fn(&Settings) -> Arc<dyn Learned>,
    /// Makes the order of one partition.
    pub order: fn(&Settings, Arc<dyn Learned>) -> Box<dyn Order>,
}

/// A number that can be set: `s3-fifo:small=0.1`.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// One line for help texts, with unit.
    pub summary: &'static str,
    /// Its value where none is set.
    pub default: f64,
    /// The smallest and the largest value allowed.
    pub range: (f64, f64),
}

/// What an order is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the budget counts.
    pub unit: Unit,
    /// This partition's nominal share of the budget, in `unit`.
    pub capacity: u64,
    /// Values for the policy's parameters, in the order of its `parameters`.
    pub values: Vec<f64>,
}

/// A policy name or parameter that does not exist.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// No such policy.
    #[error("no policy '{name}'; choose one of {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No such parameter, or a value out of its range.
    #[error("policy {policy}: {why}")]
    Parameter {
        /// Which policy.
        policy: &'static str,
        /// What is wrong, and what would be right.
        why: String,
    },
}
