//! Hint sets in groups that behave alike: a binary tree over single hint values (the paper's section 6.3 leaves this
//! open). A useless hint type is never split on, so it dilutes nothing.
//!
//! Grown best first. A split sends some values of one hint type one way and the others the other way. Sorted by
//! priority, only as many cuts as there are values less one have to be tried. Its gain is the number of outcomes
//! times the squared difference of log priorities, less what pure noise would have gained. Noise gains the more, the
//! less even the cut is.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::curve;
use super::outcome::Outcome;

/// Outcomes that a leaf has at least.
const LEAF_OUTCOMES_MIN: f64 = 40.0;

/// What the best of all cuts through values sorted by chance gains at most for each value more, in noise of one cut:
/// all that the values differ.
const NOISE_PER_VALUE: f64 = 1.0;

/// What a single cut has to gain beyond its noise, in its noise: many are tried.
const NOISE_OF_CHOICE: f64 = 15.0;

/// What became of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Requests.
    pub requests: f64,
    /// Those whose page was read again.
    pub reads: f64,
    /// Sum of the distances to those reads.
    pub distance: f64,
    /// Sum of their squares.
    pub distance_squared: f64,
}

impl Counts {
    /// Counts an outcome.
    pub fn add(&mut self, outcome: Outcome, weight: f64) {
        self.requests += weight;
        if outcome.read() {
            let distance = curve::middle(outcome.bin());
            self.reads += weight;
            self.distance += weight * distance;
            self.distance_squared += weight * distance * distance;
        }
    }

    /// Adds those counts.
    pub fn take(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.distance += other.distance;
        self.distance_squared += other.distance_squared;
    }

    fn without(&self, other: &Counts) -> Counts {
        Counts {
            requests: self.requests - other.requests,
            reads: self.reads - other.reads,
            distance: self.distance - other.distance,
            distance_squared: self.distance_squared - other.distance_squared,
        }
    }

    /// CLIC's priority (equation 2): read hit rate by mean distance.
    pub fn priority(&self) -> f64 {
        if self.reads <= 0.0 || self.distance <= 0.0 {
            return 0.0;
        }
        (self.reads / self.requests) / (self.distance / self.reads)
    }

    /// The rate of reads and their mean distance, as if one read more had been met as in `whole`, which this is a part
    /// of.
    fn expected(&self, whole: &Counts) -> (f64, f64) {
        let (rate, mean) = (whole.reads / whole.requests, whole.distance / whole.reads);
        ((self.reads + 1.0) / (self.requests + 1.0 / rate), (self.distance + mean) / (self.reads + 1.0))
    }

    fn log_priority(&self, whole: &Counts) -> f64 {
        let (rate, mean) = self.expected(whole);
        rate.ln() - mean.ln()
    }

    /// The logarithm of how likely these outcomes are if `leaf`, a part of `whole`, tells how often pages are read
    /// again, and after which time on average.
    pub fn likelihood(&self, leaf: &Counts, whole: &Counts) -> f64 {
        let (rate, mean) = leaf.expected(whole);
        self.reads * (rate / mean).ln() - self.distance / mean + (self.requests - self.reads) * (1.0 - rate).ln()
    }

    /// Variance of the log priority of one outcome: that of the rate and that of the mean distance.
    fn noise(&self) -> f64 {
        let rate = self.reads / self.requests;
        let mean = self.distance / self.reads;
        let variation = (self.distance_squared / self.reads / (mean * mean) - 1.0).max(0.0);
        (1.0 - rate + variation) / rate
    }
}

/// Where hint sets have their values: columns of numbers.
pub(super) trait Features {
    /// Number of columns.
    fn columns(&self) -> usize;
    /// The value of a cell in a column.
    fn value(&self, cell: u32, column: usize) -> u32;
    /// All values are below this.
    fn values_len(&self) -> usize;
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(u32),
    Split {
        column: u32,
        /// Values that go to `there`, sorted; all others, also those never met, go to `else_there`.
        values: Box<[u32]>,
        there: u32,
        else_there: u32,
    },
}

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    leaves: u32,
}

/// A leaf that could be split.
struct Candidate {
    gain: f64,
    node: usize,
    /// Its cells, a range of the list that the growing tree sorts them into.
    cells: std::ops::Range<usize>,
    split: Split,
}

struct Split {
    column: usize,
    values: Box<[u32]>,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        // Of equal gains the older node goes first, so that the tree is the same in each run.
        self.gain.total_cmp(&other.gain).then(other.node.cmp(&self.node))
    }
}

impl Tree {
    /// One leaf for all.
    pub fn single() -> Tree {
        Tree { nodes: vec![Node::Leaf(0)], leaves: 1 }
    }

    /// Grows a tree of up to `leaves_max` leaves over cells with what became of them.
    pub fn grow(cells: &mut [(u32, Counts)], features: &dyn Features, leaves_max: usize) -> Tree {
        let mut tree = Tree::single();
        let mut scratch = Scratch { counts: vec![Counts::default(); features.values_len()], met: Vec::new() };
        let mut open = BinaryHeap::new();
        open.extend(scratch.best_split(0, 0..cells.len(), cells, features));
        while (tree.leaves as usize) < leaves_max {
            let Some(Candidate { node, cells: range, split, .. }) = open.pop() else { break };
            let goes_there = |cell: u32| split.values.binary_search(&features.value(cell, split.column)).is_ok();
            let middle = range.start + partition(&mut cells[range.clone()], |cell| goes_there(cell.0));
            let Node::Leaf(leaf) = tree.nodes[node] else { continue };
            let there = tree.nodes.len();
            tree.nodes.extend([Node::Leaf(leaf), Node::Leaf(tree.leaves)]);
            tree.leaves += 1;
            let Split { column, values } = split;
            tree.nodes[node] =
                Node::Split { column: column as u32, values, there: there as u32, else_there: there as u32 + 1 };
            for (node, range) in [(there, range.start..middle), (there + 1, middle..range.end)] {
                open.extend(scratch.best_split(node, range, cells, features));
            }
        }
        tree
    }

    /// The leaf of a cell.
    pub fn leaf(&self, cell: u32, features: &dyn Features) -> u32 {
        let mut node = 0;
        loop {
            match &self.nodes[node as usize] {
                Node::Leaf(leaf) => return *leaf,
                Node::Split { column, values, there, else_there } => {
                    let value = features.value(cell, *column as usize);
                    node = if values.binary_search(&value).is_ok() { *there } else { *else_there };
                }
            }
        }
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.leaves as usize
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        let values = |node: &Node| if let Node::Split { values, .. } = node { 4 * values.len() } else { 0 };
        self.nodes.iter().map(|node| size_of::<Node>() + values(node)).sum()
    }
}

/// Those for which `first` holds go to the front; how many. The order within both parts stays as it was.
fn partition<T: Copy>(items: &mut [T], first: impl Fn(&T) -> bool) -> usize {
    let later: Vec<T> = items.iter().filter(|item| !first(item)).copied().collect();
    let mut place = 0;
    for at in 0..items.len() {
        if first(&items[at]) {
            items[place] = items[at];
            place += 1;
        }
    }
    items[place..].copy_from_slice(&later);
    place
}

/// Counts by value, for one column at a time.
struct Scratch {
    counts: Vec<Counts>,
    met: Vec<u32>,
}

impl Scratch {
    fn best_split(
        &mut self,
        node: usize,
        range: std::ops::Range<usize>,
        cells: &[(u32, Counts)],
        features: &dyn Features,
    ) -> Option<Candidate> {
        let mut whole = Counts::default();
        cells[range.clone()].iter().for_each(|(_, counts)| whole.take(counts));
        if whole.requests < 2.0 * LEAF_OUTCOMES_MIN || whole.reads <= 0.0 {
            return None;
        }
        let mut best: Option<(f64, Split)> = None;
        for column in 0..features.columns() {
            for (cell, counts) in &cells[range.clone()] {
                let value = features.value(*cell, column);
                if self.counts[value as usize].requests == 0.0 {
                    self.met.push(value);
                }
                self.counts[value as usize].take(counts);
            }
            if let Some((gain, values)) = self.best_cut(&whole)
                && best.as_ref().is_none_or(|best| gain > best.0)
            {
                best = Some((gain, Split { column, values }));
            }
            self.met.drain(..).for_each(|value| self.counts[value as usize] = Counts::default());
        }
        best.map(|(gain, split)| Candidate { gain, node, cells: range, split })
    }

    /// The best cut through the values of a column, by its gain beyond noise, with the values that go one way.
    fn best_cut(&mut self, whole: &Counts) -> Option<(f64, Box<[u32]>)> {
        if self.met.len() < 2 {
            return None;
        }
        let counts = &self.counts;
        let mut sorted: Vec<(f64, u32)> =
            self.met.iter().map(|&value| (counts[value as usize].log_priority(whole), value)).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let noise = whole.noise() * (NOISE_OF_CHOICE + NOISE_PER_VALUE * (sorted.len() - 2) as f64);
        let mut low = Counts::default();
        let mut best: Option<(f64, usize, bool)> = None;
        for (at, (_, value)) in sorted[..sorted.len() - 1].iter().enumerate() {
            low.take(&counts[*value as usize]);
            let high = whole.without(&low);
            if low.requests < LEAF_OUTCOMES_MIN || high.requests < LEAF_OUTCOMES_MIN {
                continue;
            }
            let apart = high.log_priority(whole) - low.log_priority(whole);
            // The variance of a difference is that of one outcome by this.
            let outcomes = low.requests * high.requests / whole.requests;
            let gain = whole.requests * (apart * apart - noise / outcomes);
            if gain > best.map_or(0.0, |best| best.0) {
                best = Some((gain, at + 1, low.requests <= high.requests));
            }
        }
        // The lighter side is named, so that values never met go with the heavier one.
        let (gain, cut, low_is_lighter) = best?;
        let side = if low_is_lighter { &sorted[..cut] } else { &sorted[cut..] };
        let mut values: Box<[u32]> = side.iter().map(|(_, value)| *value).collect();
        values.sort_unstable();
        Some((gain, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::random::Random;
    use proptest::prelude::*;

    /// Cells whose values are their decimal digits, each column with values of its own.
    struct Digits;

    impl Features for Digits {
        fn columns(&self) -> usize {
            3
        }

        fn value(&self, cell: u32, column: usize) -> u32 {
            cell / 10u32.pow(column as u32) % 10 + 10 * column as u32
        }

        fn values_len(&self) -> usize {
            30
        }
    }

    fn counts(random: &mut Random, requests: usize, rate: f64, age: u32) -> Counts {
        let mut counts = Counts::default();
        for _ in 0..requests {
            let read = random.share() < rate;
            counts.add(Outcome::new(age / 2 + (random.share() * f64::from(age)) as u32, read), 1.0);
        }
        counts
    }

    /// Only the middle digit matters: the tree finds its two groups and nothing else.
    #[test]
    fn splits_on_what_matters_and_not_on_noise() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let of = |cell: u32| if cell / 10 % 10 < 4 { (0.8, 100) } else { (0.2, 3000) };
            let mut cells: Vec<(u32, Counts)> =
                (0..1000).map(|cell| (cell, counts(&mut random, 30, of(cell).0, of(cell).1))).collect();
            let tree = Tree::grow(&mut cells, &Digits, 64);
            assert_eq!(tree.leaves(), 2, "seed {seed}");
            let leaf = |cell| tree.leaf(cell, &Digits);
            assert!((0..1000).all(|cell| (leaf(cell) == leaf(0)) == (cell / 10 % 10 < 4)), "seed {seed}");
        }
    }

    /// Of two hints that matter the one goes first whose values are further apart, however few requests have them: here
    /// a tenth by 2.5 times, and the half by 1.8 times.
    #[test]
    fn the_larger_difference_is_cut_first() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let of =
                |cell: u32| 0.2 * if cell % 10 == 9 { 2.46 } else { 1.0 } * if cell / 10 % 10 < 5 { 1.82 } else { 1.0 };
            let mut cells: Vec<(u32, Counts)> =
                (0..1000).map(|cell| (cell, counts(&mut random, 60, of(cell), 500))).collect();
            let tree = Tree::grow(&mut cells, &Digits, 2);
            let leaf = |cell| tree.leaf(cell, &Digits);
            assert!((0..1000).all(|cell| (leaf(cell) == leaf(9)) == (cell % 10 == 9)), "seed {seed}");
        }
    }

    #[test]
    fn noise_alone_gives_one_leaf() {
        let mut split = 0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut cells: Vec<(u32, Counts)> =
                (0..1000).map(|cell| (cell, counts(&mut random, 16, 0.5, 500))).collect();
            split += usize::from(Tree::grow(&mut cells, &Digits, 64).leaves() > 1);
        }
        assert!(split <= 10, "{split} of 50 split");
    }

    proptest! {
        /// Within the limits, and every cell in a leaf that has enough outcomes.
        #[test]
        fn leaves_are_few_and_full(seed in 0u64..1000, cells in 1u32..200, leaves_max in 1usize..20) {
            let mut random = Random::new(seed);
            let mut cells: Vec<(u32, Counts)> = (0..cells)
                .map(|cell| {
                    let (rate, age) = (random.share(), 1 + random.index(5000) as u32);
                    (cell * 7 % 1000, counts(&mut random, 1 + cell as usize % 40, rate, age))
                })
                .collect();
            let tree = Tree::grow(&mut cells, &Digits, leaves_max);
            prop_assert!(tree.leaves() <= leaves_max);
            let mut leaves = vec![Counts::default(); tree.leaves()];
            cells.iter().for_each(|(cell, counts)| leaves[tree.leaf(*cell, &Digits) as usize].take(counts));
            let full = |counts: &Counts| counts.requests >= LEAF_OUTCOMES_MIN - 1e-9;
            prop_assert!(tree.leaves() == 1 || leaves.iter().all(full));
            prop_assert!((0..1000).all(|cell| (tree.leaf(cell, &Digits) as usize) < tree.leaves()));
        }
    }
}
