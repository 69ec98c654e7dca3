//! What the parameters of DeToX mean.

use crate::graph::GroupFrequency;

/// What is scored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// Complete groups of the type's graph, or levels where there is none.
    Groups,
    /// What was asked for at the same time (section 5.2).
    Levels,
    /// All keys of the transaction: the paper's T-DeToX.
    Transaction,
}

/// How instance scores become one (section 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    /// Their mean.
    Average,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// The one in the middle.
    Median,
}

/// The values of the parameters, which all forms share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// How much of the age counts.
    pub(super) factor: f64,
    /// Candidates kept between evictions.
    pub(super) pool: usize,
    /// Entries looked at for each victim.
    pub(super) sample: usize,
    /// Keys remembered after they left, as a share of the entries.
    pub(super) ghosts: f64,
    /// Of which of a group's keys the frequency counts.
    pub(super) frequency: GroupFrequency,
    /// How instance scores become one.
    pub(super) aggregate: Aggregate,
    /// Count in steps that get rarer, as Redis does.
    pub(super) logarithmic: bool,
    /// Accesses per entry in which what is known of a key loses half its weight; 0: never.
    pub(super) half_life: f64,
    /// Times its mean distance between accesses after which a key is taken for gone; 0: never.
    pub(super) patience: f64,
    /// What draws the samples.
    pub(super) seed: u64,
    /// The most that remembered keys may take, as a share of what the entries weigh.
    pub(super) share: f64,
}
