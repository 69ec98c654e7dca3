//! Numbers as the page shows them.

use crate::row::Row;
use crate::shown::{bytes, grouped};

/// A share in percent, with its unit.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// A size as it was given, and what that is.
pub(super) fn size(row: &Row) -> String {
    let units = if row.unit == "bytes" { bytes(row.size) } else { grouped(row.size) };
    if row.size_given == row.size.to_string() { units } else { format!("{} = {units}", row.size_given) }
}
