//! What orders go by for the time of one window: the class of each cell, and what a class is worth.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use super::cells::Columns;
use super::curve::{self, BINS, Histogram};
use super::followed::Followed;
use super::memory::Fit;
use super::sample::Weighed;
use super::tree::{Counts, Tree};

/// No class was looked up yet.
const UNKNOWN: u32 = u32::MAX;

/// Cells beyond the table's end are looked up each time.
const CELLS_MAX: usize = 1 << 22;

/// Priorities for the time of one window.
pub(super) struct Table {
    /// Rises by one with each table.
    pub generation: u64,
    /// By class, ascending. Classes are leaves of the tree; without one equal priorities are one class, and class 0 has
    /// priority 0.
    pub priorities: Vec<f64>,
    /// Where pages go by their age: by class, the worth of a page by the bin of its age.
    pub curves: Vec<[f32; BINS]>,
    /// Requests that are followed while it is in force.
    pub followed: Followed,
    classes: Vec<AtomicU32>,
    tree: Option<Tree>,
    /// The class of each leaf.
    leaves: Vec<u32>,
}

impl Table {
    /// Before anything is known all is one class.
    pub fn first(generation: u64, followed: Followed) -> Table {
        Table {
            generation,
            priorities: vec![0.0],
            curves: vec![curve::unknown()],
            followed,
            classes: Vec::new(),
            tree: None,
            leaves: Vec::new(),
        }
    }

    /// With a class for each different priority.
    pub fn ranked(generation: u64, priorities: &BTreeMap<u32, f64>) -> Table {
        let mut distinct: Vec<f64> = priorities.values().copied().chain([0.0]).collect();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup();
        let cells = priorities.last_key_value().map_or(0, |(&cell, _)| cell as usize + 1);
        let classes: Vec<AtomicU32> = (0..cells.min(CELLS_MAX)).map(|_| AtomicU32::new(0)).collect();
        for (&cell, priority) in priorities {
            let class = distinct.partition_point(|other| other < priority);
            if let Some(known) = classes.get(cell as usize) {
                known.store(class as u32, Ordering::Relaxed);
            }
        }
        let (curves, leaves) = (Vec::new(), Vec::new());
        Table { generation, priorities: distinct, curves, followed: Followed::all(0), classes, tree: None, leaves }
    }

    /// With a class for each leaf of a tree, and room for so many cells. `aged` are the outcomes that tell what pages
    /// are worth at their age, where they go by that.
    pub fn of_leaves(
        generation: u64,
        fit: Fit,
        cells: &[(u32, Counts)],
        cells_len: usize,
        columns: &Columns<'_>,
        aged: Option<&[Weighed]>,
    ) -> Table {
        let Fit { tree, leaves: counts } = fit;
        let mut by_priority: Vec<usize> = (0..tree.leaves()).collect();
        by_priority.sort_by(|&a, &b| counts[a].priority().total_cmp(&counts[b].priority()).then(a.cmp(&b)));
        let mut leaves = vec![0; tree.leaves()];
        for (class, &leaf) in by_priority.iter().enumerate() {
            leaves[leaf] = class as u32;
        }
        let met_len = cells.iter().map(|(cell, _)| *cell as usize + 1).max().unwrap_or(0);
        let cells_len = met_len.max(cells_len).min(CELLS_MAX);
        let classes: Vec<AtomicU32> = (0..cells_len).map(|_| AtomicU32::new(UNKNOWN)).collect();
        for &(cell, _) in cells {
            if let Some(known) = classes.get(cell as usize) {
                known.store(leaves[tree.leaf(cell, columns) as usize], Ordering::Relaxed);
            }
        }
        let curves = aged.map_or_else(Vec::new, |outcomes| {
            let histograms = histograms(&tree, outcomes, columns);
            by_priority.iter().map(|&leaf| histograms[leaf].curve()).collect()
        });
        let priorities = by_priority.iter().map(|&leaf| counts[leaf].priority()).collect();
        Table { generation, priorities, curves, followed: Followed::all(0), classes, tree: Some(tree), leaves }
    }

    /// The class of a cell, if it is known.
    #[inline]
    pub fn class(&self, cell: u32) -> Option<u32> {
        let class = self.classes.get(cell as usize)?.load(Ordering::Relaxed);
        (class != UNKNOWN).then_some(class)
    }

    /// The class of a cell by the tree, which is known from then on. Class 0 where there is no tree.
    pub fn look_up(&self, cell: u32, columns: &Columns<'_>) -> u32 {
        let Some(tree) = &self.tree else { return 0 };
        let class = self.leaves.get(tree.leaf(cell, columns) as usize).copied().unwrap_or_default();
        if let Some(known) = self.classes.get(cell as usize) {
            known.store(class, Ordering::Relaxed);
        }
        class
    }

    /// Whether each cell has the class that it has in another table, and neither has a tree.
    pub fn has_classes_of(&self, other: &Table) -> bool {
        let cells = self.classes.len().max(other.classes.len()) as u32;
        let of = |table: &Table, cell| table.class(cell).unwrap_or_default();
        !self.has_tree() && !other.has_tree() && (0..cells).all(|cell| of(self, cell) == of(other, cell))
    }

    /// Whether classes are leaves of a tree.
    pub fn has_tree(&self) -> bool {
        self.tree.is_some()
    }

    /// The priority of a cell whose class is known, else 0.
    pub fn priority(&self, cell: u32) -> f64 {
        self.class(cell).and_then(|class| self.priorities.get(class as usize)).copied().unwrap_or_default()
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.classes.len() * size_of::<AtomicU32>()
            + self.priorities.len() * size_of::<f64>()
            + self.curves.len() * size_of::<[f32; BINS]>()
            + self.tree.as_ref().map_or(0, Tree::bytes)
    }
}

/// Of each leaf.
fn histograms(tree: &Tree, outcomes: &[Weighed], columns: &Columns<'_>) -> Vec<Histogram> {
    let mut histograms = vec![Histogram::EMPTY; tree.leaves()];
    for of_cell in outcomes.chunk_by(|a, b| a.cell == b.cell) {
        let histogram = &mut histograms[tree.leaf(of_cell[0].cell, columns) as usize];
        for one in of_cell {
            let bins = if one.outcome.read() { &mut histogram.hits } else { &mut histogram.ends };
            bins[one.outcome.bin()] += f64::from(one.weight);
        }
    }
    histograms
}
