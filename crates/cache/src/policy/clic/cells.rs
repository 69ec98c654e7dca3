//! A cell is what a request is learned by: its hint set and, where the policy derives hints by itself, the page's
//! past. The past is how often the page was asked for lately, and how long ago the last time was.

use super::curve;
use super::meanings::{Meanings, OWN_VALUES, SETS_MAX};
use super::outqueue::Request;
use super::tree::Features;
use crate::hint::HintSet;

/// Bits of the count of requests, and of the interval's bucket.
const COUNT_BITS: u32 = 2;
const INTERVAL_BITS: u32 = 3;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const INTERVAL_MAX: u32 = (1 << INTERVAL_BITS) - 1;

/// Bins of age that are one bucket of intervals, and those of the first one.
const INTERVAL_BINS: u32 = 4;
const INTERVAL_BINS_FIRST: u32 = 16;

/// How cells are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    /// Whether a page's past is part of them.
    pub with_past: bool,
}

impl Cells {
    fn bits(self) -> u32 {
        if self.with_past { COUNT_BITS + INTERVAL_BITS } else { 0 }
    }

    /// The cell of a request `now` whose page was last asked for by `before`.
    #[inline]
    pub fn cell(self, hints: HintSet, before: Option<Request>, now: u32) -> u32 {
        let set = if hints.0 < SETS_MAX { hints.0 } else { 0 };
        let past = match before {
            Some(before) if self.with_past => {
                let count = (self.count(before.cell) + 1).min(COUNT_MAX);
                let bin = curve::bin(now.wrapping_sub(before.at)) as u32;
                let interval = (bin.saturating_sub(INTERVAL_BINS_FIRST) / INTERVAL_BINS).min(INTERVAL_MAX);
                count | interval << COUNT_BITS
            }
            _ => 0,
        };
        set << self.bits() | past
    }

    /// The hint set of a cell.
    pub fn set(self, cell: u32) -> u32 {
        cell >> self.bits()
    }

    /// How many cells so many hint sets have.
    pub fn of_sets(self, sets: usize) -> usize {
        sets << self.bits()
    }

    fn count(self, cell: u32) -> u32 {
        cell & COUNT_MAX
    }

    fn interval(self, cell: u32) -> u32 {
        cell >> COUNT_BITS & INTERVAL_MAX
    }

    /// How a cell's past reads; empty where there is none.
    pub fn describe(self, cell: u32) -> String {
        match (self.with_past, self.count(cell)) {
            (false, _) => String::new(),
            (true, 0) => " (first request)".into(),
            (true, count) => {
                let more = if count == COUNT_MAX { " or more" } else { "" };
                let octave = (INTERVAL_BINS_FIRST + INTERVAL_BINS * self.interval(cell)) / 2;
                let least = 1u64 << octave;
                let interval = if self.interval(cell) == 0 { "less than".to_owned() } else { format!("{least} or") };
                let most = least << (INTERVAL_BINS / 2);
                match self.interval(cell) {
                    0 => format!(" (asked for {count}{more} times before, {interval} {most} requests ago)"),
                    _ => format!(" (asked for {count}{more} times before, {interval} more requests ago)"),
                }
            }
        }
    }
}

/// The values of cells, for the tree: the past's, then those of their hint sets.
pub(super) struct Columns<'a> {
    pub meanings: &'a Meanings,
    pub cells: Cells,
}

impl Features for Columns<'_> {
    fn columns(&self) -> usize {
        self.meanings.columns() + if self.cells.with_past { 2 } else { 0 }
    }

    fn value(&self, cell: u32, column: usize) -> u32 {
        match (self.cells.with_past, column) {
            (false, column) => self.meanings.column(self.cells.set(cell), column),
            // The past's columns are the first, since others may be added while a tree is in use. Its values are
            // numbers that no client's value has.
            (true, 0) => 1 + self.cells.count(cell),
            (true, 1) => 1 + COUNT_MAX + 1 + self.cells.interval(cell),
            (true, column) => self.meanings.column(self.cells.set(cell), column - 2),
        }
    }

    fn values_len(&self) -> usize {
        self.meanings.values_len()
    }
}

const _: () = assert!(1 + COUNT_MAX + 1 + INTERVAL_MAX < OWN_VALUES, "own values have numbers of their own");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_set_and_the_past() {
        let plain = Cells { with_past: false };
        let before = Some(Request { at: 100, cell: plain.cell(HintSet(9), None, 100) });
        assert_eq!((plain.cell(HintSet(7), before, 200), plain.describe(7)), (7, String::new()));
        let cells = Cells { with_past: true };
        let mut cell = cells.cell(HintSet(7), None, 5);
        assert_eq!((cells.set(cell), cells.count(cell)), (7, 0));
        for (count, now) in [(1, 1 << 9), (2, 1 << 10), (3, 1 << 11), (3, 1 << 12)] {
            cell = cells.cell(HintSet(count), Some(Request { at: now / 2, cell }), now);
            assert_eq!((cells.set(cell), cells.count(cell)), (count, count.min(3)));
        }
        assert_eq!(cells.set(cells.cell(HintSet(u32::MAX), None, 1)), 0);
        assert!(cells.cell(HintSet(SETS_MAX - 1), before, u32::MAX) < u32::MAX);
    }
}
