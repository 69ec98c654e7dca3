//! Where the values of columns come from, of which a statement says no more than the column.

use std::collections::{BTreeMap, BTreeSet};

/// The origin of the latest value of each column: the accesses that have told it, or none if it comes from outside.
#[derive(Default)]
pub(super) struct Columns(BTreeMap<String, BTreeSet<u16>>);

/// The names under which a column of a table is found in others: the `id` of `users` is their `user_id`.
fn names(table: &str, column: &str) -> Vec<String> {
    if column != "id" {
        return vec![column.to_owned()];
    }
    let table = table.to_lowercase();
    let one = table.strip_suffix('s').unwrap_or(&table);
    vec![format!("{table}.id"), format!("{one}_id"), format!("{table}_id")]
}

impl Columns {
    /// Where the value comes from that is compared with this column.
    pub(super) fn origin(&self, table: &str, column: &str) -> &BTreeSet<u16> {
        const OUTSIDE: &BTreeSet<u16> = &BTreeSet::new();
        names(table, column).iter().find_map(|name| self.0.get(name)).unwrap_or(OUTSIDE)
    }

    /// The column has a value from there now.
    pub(super) fn set(&mut self, table: &str, column: &str, origin: BTreeSet<u16>) {
        for name in names(table, column) {
            self.0.insert(name, origin.clone());
        }
    }
}
