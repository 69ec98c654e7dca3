//! How long outcomes are remembered, found out by the cache.
//!
//! A window is shorter than the cycles of some loads (from checkpoint to checkpoint): there a tree fitted to several
//! windows knows more. On others what was true a window ago misleads, as when one scan follows another. No share kept
//! is right for both, so two trees are fitted: one to all that is remembered, one to the last window alone. Each
//! window is a test that neither has seen. Whose leaves foretold better what became of its requests is used next.
//!
//! How well is the likelihood of what the priority (equation 2) is made of. That is that a page is read again at its
//! leaf's rate and, if so, after a time about its leaf's mean. Earlier windows count with [`FADE`]: one by chance
//! does not decide, and a load that changes is followed within two or three.
//!
//! Only where pages stand by priority. What pages are worth by age needs more outcomes than a window has, so that
//! `clic-g` always remembers.

use super::sample::{Weighed, by_cell};
use super::tree::{Counts, Features, Tree};

/// What a window's test counts, a window later.
const FADE: f64 = 0.3;

/// What a leaf is expected to do at the least, so that nothing is impossible: one page read again, and one not.
const AT_LEAST: Counts = Counts { requests: 2.0, reads: 1.0, distance: 1.0, distance_squared: 1.0 };

/// Cells with what became of their requests.
pub(super) type Cells = Vec<(u32, Counts)>;

/// A tree, and what became of the requests of each leaf.
#[derive(Clone)]
pub(super) struct Fit {
    /// The tree.
    pub tree: Tree,
    /// By leaf.
    pub leaves: Vec<Counts>,
}

impl Fit {
    /// Of up to `leaves_max` leaves.
    pub fn of(cells: &mut Cells, features: &dyn Features, leaves_max: usize) -> Fit {
        let tree = Tree::grow(cells, features, leaves_max);
        let leaves = by_leaf(&tree, cells, features);
        Fit { tree, leaves }
    }

    /// One leaf of which nothing is known.
    fn nothing() -> Fit {
        Fit { tree: Tree::single(), leaves: vec![Counts::default()] }
    }

    /// How well it foretold what became of these: the logarithm of their likelihood.
    fn foretold(&self, cells: &Cells, features: &dyn Features) -> f64 {
        let mut whole = AT_LEAST;
        self.leaves.iter().for_each(|leaf| whole.take(leaf));
        let outcomes = by_leaf(&self.tree, cells, features);
        self.leaves.iter().zip(&outcomes).map(|(leaf, outcomes)| outcomes.likelihood(leaf, &whole)).sum()
    }
}

fn by_leaf(tree: &Tree, cells: &Cells, features: &dyn Features) -> Vec<Counts> {
    let mut leaves = vec![Counts::default(); tree.leaves()];
    cells.iter().for_each(|(cell, counts)| leaves[tree.leaf(*cell, features) as usize].take(counts));
    leaves
}

/// One way to remember.
struct Rival {
    fit: Fit,
    score: f64,
}

/// See the module.
pub(super) struct Memory {
    long: Rival,
    short: Rival,
}

impl Memory {
    /// Nothing is known.
    pub fn new() -> Memory {
        let rival = || Rival { fit: Fit::nothing(), score: 0.0 };
        Memory { long: rival(), short: rival() }
    }

    /// A window ended that had the outcomes `window`; with those of earlier ones that are remembered there are `kept`.
    /// The better fit, and the cells that it is made of.
    pub fn learn(
        &mut self,
        window: &[Weighed],
        kept: &[Weighed],
        features: &dyn Features,
        leaves_max: usize,
    ) -> (Fit, Cells) {
        let (mut all, mut last) = (by_cell(kept), by_cell(window));
        for (rival, cells) in [(&mut self.long, &mut all), (&mut self.short, &mut last)] {
            rival.score = FADE * rival.score + rival.fit.foretold(&by_cell(window), features);
            rival.fit = Fit::of(cells, features, leaves_max);
        }
        if self.short.score > self.long.score { (self.short.fit.clone(), last) } else { (self.long.fit.clone(), all) }
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        let rival = |rival: &Rival| rival.fit.tree.bytes() + rival.fit.leaves.len() * size_of::<Counts>();
        rival(&self.long) + rival(&self.short)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve;
    use super::super::outcome::Outcome;
    use super::super::sample::Sample;
    use super::*;
    use crate::policy::random::Random;

    /// Each cell is a value of its own.
    struct Plain;

    impl Features for Plain {
        fn columns(&self) -> usize {
            1
        }

        fn value(&self, cell: u32, _: usize) -> u32 {
            cell
        }

        fn values_len(&self) -> usize {
            20
        }
    }

    /// Windows of 400 outcomes, in which the pages of a cell are read again at such a rate; how many outcomes the
    /// leaves are made of that are used after each.
    fn used(windows: usize, rate: impl Fn(usize, u32) -> f64) -> Vec<f64> {
        let (mut random, mut sample, mut memory) = (Random::new(5), Sample::new(400, 0.85), Memory::new());
        let window = |window: usize| {
            for at in 0..400 {
                let (cell, read) = (at % 20, random.share() < rate(window, at % 20));
                sample.offer(cell, || Outcome::new(100, read), &mut random);
            }
            let (window, kept) = sample.close();
            let (fit, cells) = memory.learn(&window, kept, &Plain, 100);
            let of_leaves: f64 = fit.leaves.iter().map(|leaf| leaf.requests).sum();
            assert!((of_leaves - cells.iter().map(|cell| cell.1.requests).sum::<f64>()).abs() < 1e-6);
            of_leaves
        };
        (0..windows).map(window).collect()
    }

    /// What is always the same is known the better, the more of it was seen.
    #[test]
    fn what_stays_is_remembered() {
        let used = used(30, |_, cell| f64::from(cell) / 20.0);
        assert!(used[5..].iter().all(|&outcomes| outcomes > 1000.0), "{used:?}");
    }

    /// The pages that were read again no longer are: old outcomes are of no use from the second window on.
    #[test]
    fn what_changed_is_forgotten_and_then_remembered_anew() {
        let used = used(60, |window, cell| if (cell < 10) == (window < 30) { 0.9 } else { 0.1 });
        assert!(used[20..30].iter().all(|&outcomes| outcomes > 1000.0), "{used:?}");
        assert!(used[32..36].iter().all(|&outcomes| outcomes == 400.0), "{used:?}");
        assert!(used[50..].iter().all(|&outcomes| outcomes > 1000.0), "{used:?}");
    }

    /// By the definition, outcome by outcome; and no leaf foretells better than one that has just these outcomes.
    #[test]
    fn the_likelihood_is_that_of_each_outcome() {
        let counts = |requests: u32, reads: u32, age: u32| {
            let mut counts = Counts::default();
            (0..requests).for_each(|at| counts.add(Outcome::new(age, at < reads), 1.0));
            counts
        };
        let whole = counts(4000, 1000, 300);
        let (seen, others) = (counts(1000, 300, 500), [(1000, 250, 500), (1000, 350, 500), (1000, 300, 250)]);
        let own = seen.likelihood(&seen, &whole);
        for (requests, reads, age) in others {
            assert!(own > seen.likelihood(&counts(requests, reads, age), &whole), "{reads} after {age}");
        }
        let (rate, after) = (301.0 / 1004.0, curve::middle(curve::bin(500)));
        let mean = (300.0 * after + curve::middle(curve::bin(300))) / 301.0;
        let each = |at: u32| if at < 300 { f64::ln(rate / mean) - after / mean } else { f64::ln(1.0 - rate) };
        assert!((own - (0..1000).map(each).sum::<f64>()).abs() < 1e-6);
    }

    #[test]
    fn what_never_happened_is_not_impossible() {
        let features = Plain;
        let mut never = vec![(0, Counts { requests: 500.0, ..Counts::default() })];
        let fit = Fit::of(&mut never, &features, 10);
        let one =
            |reads: f64| vec![(0, Counts { requests: 1.0, reads, distance: 9.0 * reads, distance_squared: 81.0 })];
        assert!(fit.foretold(&one(1.0), &features).is_finite() && fit.foretold(&one(0.0), &features).is_finite());
        let nothing = Fit::nothing();
        assert!(nothing.foretold(&one(1.0), &features).is_finite() && nothing.foretold(&Vec::new(), &features) == 0.0);
    }
}
