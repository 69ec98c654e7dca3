//! What a window teaches.

use std::collections::BTreeMap;

use super::super::cells::Columns;
use super::super::curve::{self, BINS, Histogram};
use super::super::outcome::Outcome;
use super::super::outqueue::Request;
use super::super::tree::{Counts, Tree};
use super::Model;

/// Outcomes with how much they count.
type Outcomes = BTreeMap<(u32, Outcome), f32>;

#[derive(Clone)]
pub(super) struct Taught {
    pub tree: Tree,
    /// Leaves by their priority, the lowest first, with it and with what a page is worth by the bin of its age.
    pub classes: Vec<(u32, f64, [f32; BINS])>,
    /// By leaf.
    counts: Vec<Counts>,
}

impl Taught {
    pub fn nothing() -> Taught {
        Taught { tree: Tree::single(), classes: vec![(0, 0.0, curve::unknown())], counts: vec![Counts::default()] }
    }
}

impl Model {
    pub(super) fn end_window(&mut self) {
        let expected =
            self.outcomes as f64 * self.window_len(self.windows + 1) as f64 / self.window_len(self.windows) as f64;
        (self.requests, self.outcomes, self.windows) = (0, 0, self.windows + 1);
        self.kept.values_mut().for_each(|weight| *weight *= self.keep);
        let mut met = Outcomes::new();
        self.drawn.drain(..).for_each(|outcome| *met.entry(outcome).or_default() += 1.0);
        for (outcome, weight) in &met {
            let left = self.kept.get(outcome).copied().unwrap_or_default();
            self.kept.insert(*outcome, weight + left);
        }
        self.kept.retain(|_, weight| *weight >= 0.05);
        self.taught = self.teach(&self.kept);
        self.follow(expected);
        if self.aged || self.keep == 0.0 {
            return;
        }
        // What foretold this window better is used in the next one; the tests of earlier windows count less and less.
        let tests = self.rivals.each_ref().map(|(taught, score)| 0.3 * score + self.foretold(taught, &met));
        let taught = [self.taught.clone(), self.teach(&met)];
        if tests[1] > tests[0] {
            self.taught = taught[1].clone();
        }
        let [all, last] = taught;
        self.rivals = [(all, tests[0]), (last, tests[1])];
    }

    /// Of so many outcomes that are to be expected, follows as many as the sample takes.
    fn follow(&mut self, expected: f64) {
        if self.aged && !self.cells.with_past {
            let followed = self.followed.fewer(expected, self.sample);
            self.outqueue.retain(|&(_, at, cell)| followed.has(Request { at, cell }));
            self.followed = followed;
            self.trim();
        }
    }

    fn teach(&self, outcomes: &Outcomes) -> Taught {
        let mut cells: BTreeMap<u32, Counts> = BTreeMap::new();
        for (&(cell, outcome), &weight) in outcomes {
            cells.entry(cell).or_default().add(outcome, f64::from(weight));
        }
        let columns = Columns { meanings: &self.meanings, cells: self.cells };
        let tree = Tree::grow(&mut cells.into_iter().collect::<Vec<_>>(), &columns, self.leaves);
        let leaf = |leaf: u32| {
            let (mut counts, mut histogram) = (Counts::default(), Histogram::EMPTY);
            for (&(_, outcome), &weight) in outcomes.iter().filter(|one| tree.leaf(one.0.0, &columns) == leaf) {
                counts.add(outcome, f64::from(weight));
                let bins = if outcome.read() { &mut histogram.hits } else { &mut histogram.ends };
                bins[outcome.bin()] += f64::from(weight);
            }
            (counts, (leaf, counts.priority(), histogram.curve()))
        };
        let (counts, mut classes): (Vec<_>, Vec<_>) = (0..tree.leaves() as u32).map(leaf).unzip();
        classes.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        Taught { tree, classes, counts }
    }

    /// The logarithm of the chance that all outcomes are as they are.
    fn foretold(&self, taught: &Taught, outcomes: &Outcomes) -> f64 {
        let columns = Columns { meanings: &self.meanings, cells: self.cells };
        let sum = |of: fn(&Counts) -> f64| taught.counts.iter().map(of).sum::<f64>();
        // One page more is read again, after 1, and one is not.
        let (requests, reads) = (sum(|leaf| leaf.requests) + 2.0, sum(|leaf| leaf.reads) + 1.0);
        let distance = sum(|leaf| leaf.distance) + 1.0;
        let one = |(&(cell, outcome), &weight): (&(u32, Outcome), &f32)| {
            let leaf = &taught.counts[taught.tree.leaf(cell, &columns) as usize];
            let rate = (leaf.reads + 1.0) / (leaf.requests + requests / reads);
            let mean = (leaf.distance + distance / reads) / (leaf.reads + 1.0);
            let after = curve::middle(outcome.bin());
            let chance = if outcome.read() { rate.ln() - mean.ln() - after / mean } else { (1.0 - rate).ln() };
            f64::from(weight) * chance
        };
        outcomes.iter().map(one).sum()
    }
}
