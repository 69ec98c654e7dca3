//! What was found: of a trace every row, and the least memory that reaches a goal.

use crate::catalog::Catalog;
use crate::row::Row;

/// One trace, and what was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfTrace {
    /// The trace's file name.
    pub name: String,
    /// Requests, in the sample or not.
    pub requests: u64,
    /// Requests that were simulated.
    pub requests_simulated: u64,
    /// Different keys that were met.
    pub keys: u64,
    /// Bytes of those keys.
    pub footprint_bytes: u64,
    /// Sum of the lengths of their names.
    pub key_bytes: u64,
    /// Keys that come without a size, and count as 1 byte each.
    pub keys_without_size: u64,
    /// Clients.
    pub clients: u64,
    /// Malformed records that were passed over.
    pub skipped: u64,
    /// Every policy at every size.
    pub rows: Vec<Row>,
    /// The least memory of each policy, if a goal was given.
    pub least: Option<Least>,
}

/// The least memory for a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Least {
    /// The goal.
    pub goal: Goal,
    /// Policies that reach it, each at its least memory.
    pub rows: Vec<Row>,
    /// Those that do not reach it, not even with all keys cached, and what they have then.
    pub never: Vec<(String, f64)>,
}

impl OfTrace {
    /// Gives it another name, for where several traces have one.
    pub fn rename(&mut self, name: &str) {
        let least = self.least.iter_mut().flat_map(|least| &mut least.rows);
        self.rows.iter_mut().chain(least).for_each(|row| row.trace = name.to_owned());
        self.name = name.to_owned();
    }

    /// A trace of this name, with what its catalog counted.
    pub fn new(name: String, catalog: &Catalog, skipped: u64, rows: Vec<Row>, least: Option<Least>) -> OfTrace {
        OfTrace {
            name,
            requests: catalog.requests_of_trace,
            requests_simulated: catalog.requests,
            keys: catalog.len() as u64,
            footprint_bytes: catalog.footprint_bytes,
            key_bytes: catalog.key_bytes,
            keys_without_size: catalog.keys_without_size,
            clients: catalog.clients.len() as u64,
            skipped,
            rows,
            least,
        }
    }

    /// Sizes, as given, at which a sample's hit ratios have no error, because its cache holds too few keys.
    pub fn without_error(&self) -> Vec<&str> {
        let sampled = self.requests_simulated < self.requests;
        let rows = self.least.iter().flat_map(|least| &least.rows).chain(&self.rows);
        let mut sizes: Vec<&str> = rows
            .filter(|row| sampled && row.client.is_none() && row.requests > 0 && row.hit_ratio_error.is_none())
            .map(|row| row.size_given.as_str())
            .collect();
        let mut once = std::collections::BTreeSet::new();
        sizes.retain(|size| once.insert(*size));
        sizes
    }

    /// Rows for all clients together.
    pub(crate) fn whole(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.client.is_none()).collect()
    }
}

/// A size that was searched for to about 1 %, rounded up to three digits for people.
pub fn to_three_digits(size: u64) -> u64 {
    let step = 10_u64.pow(size.checked_ilog10().unwrap_or(0).saturating_sub(2));
    size.div_ceil(step).saturating_mul(step)
}

/// What the least memory is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This share of the requests hits.
    HitRatio(f64),
    /// This share of the transactions' critical lengths is saved.
    TransactionalHitRate(f64),
}

impl Goal {
    /// What it is, and how much of it.
    pub fn named(self) -> (&'static str, f64) {
        match self {
            Goal::HitRatio(least) => ("hit ratio", least),
            Goal::TransactionalHitRate(least) => ("transactional hit ratio", least),
        }
    }

    /// How much of it a row has; below zero where it can't have any.
    pub fn reaches(self, row: &Row) -> f64 {
        match self {
            Goal::HitRatio(_) => row.hit_ratio,
            Goal::TransactionalHitRate(_) => row.thr.unwrap_or(-1.0),
        }
    }

    pub(crate) fn reached(self, row: &Row) -> bool {
        self.reaches(row) >= self.named().1
    }

    /// As the column of given sizes has it: no size was given, but what it has to reach.
    pub(crate) fn given(self) -> String {
        let (what, least) = self.named();
        format!("{what} {least}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_three_digits() {
        for (size, shown) in [(0, 0), (7, 7), (999, 999), (1_000, 1_000), (1_001, 1_010), (41_172_331, 41_200_000)] {
            assert_eq!(to_three_digits(size), shown);
        }
        assert_eq!(to_three_digits(u64::MAX), u64::MAX);
    }
}
