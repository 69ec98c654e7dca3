//! A sample of what became of requests: which request it was, whether its page was read again, and at which age.
//!
//! Of each window a reservoir of outcomes is drawn; at its end they are counted, and what earlier windows left is kept
//! with less weight. Both the tree and the histograms of its leaves are made from these counts.

use super::super::random::Random;
use super::outcome::Outcome;
use super::tree::Counts;

/// Different outcomes that are kept from window to window; beyond it those of least weight go.
const KEPT_MAX: usize = 1 << 17;

/// What weighs less is forgotten.
const WEIGHT_MIN: f32 = 0.05;

/// How often an outcome was met, of how many windows ago.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weighed {
    /// The request.
    pub cell: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// How much it counts.
    pub weight: f32,
}

/// The sample.
pub(super) struct Sample {
    fresh: Vec<(u32, Outcome)>,
    fresh_max: usize,
    /// Outcomes of this window, in the reservoir or not.
    seen: u64,
    /// By cell and outcome.
    kept: Vec<Weighed>,
    /// The share of its weight that an outcome has a window later.
    keep: f32,
}

impl Sample {
    /// An empty one: `fresh_max` outcomes of each window, of which `keep` counts in the next.
    pub fn new(fresh_max: usize, keep: f64) -> Sample {
        Sample { fresh: Vec::new(), fresh_max: fresh_max.max(1), seen: 0, kept: Vec::new(), keep: keep as f32 }
    }

    /// An outcome (algorithm R: each of a window has the same chance to stay).
    #[inline]
    pub fn offer(&mut self, cell: u32, outcome: impl FnOnce() -> Outcome, random: &mut Random) {
        self.seen += 1;
        if self.fresh.len() < self.fresh_max {
            return self.fresh.push((cell, outcome()));
        }
        let place = random.index(self.seen as usize);
        if let Some(old) = self.fresh.get_mut(place) {
            *old = (cell, outcome());
        }
    }

    /// Outcomes of this window, drawn or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Ends a window: its outcomes, and all that count now, both by cell and outcome.
    pub fn close(&mut self) -> (Vec<Weighed>, &[Weighed]) {
        self.fresh.sort_unstable();
        let met = self.fresh.chunk_by(|a, b| a == b);
        let window: Vec<Weighed> =
            met.map(|same| Weighed { cell: same[0].0, outcome: same[0].1, weight: same.len() as f32 }).collect();
        let mut kept = merge(&window, &self.kept, self.keep);
        let mut least = WEIGHT_MIN;
        kept.retain(|one| one.weight >= least);
        while kept.len() > KEPT_MAX {
            least *= 1.5;
            kept.retain(|one| one.weight >= least);
        }
        kept.shrink_to_fit();
        self.kept = kept;
        self.fresh.clear();
        self.seen = 0;
        (window, &self.kept)
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.fresh.capacity() * size_of::<(u32, Outcome)>() + self.kept.capacity() * size_of::<Weighed>()
    }
}

/// What was met, and the share `keep` of what there was; all by cell and outcome.
fn merge(met: &[Weighed], old: &[Weighed], keep: f32) -> Vec<Weighed> {
    let mut merged: Vec<Weighed> = Vec::with_capacity(met.len() + old.len());
    let mut met = met.iter().peekable();
    for old in old {
        let place = (old.cell, old.outcome);
        merged.extend(std::iter::from_fn(|| met.next_if(|one| (one.cell, one.outcome) < place)));
        let again = met.next_if(|one| (one.cell, one.outcome) == place).map_or(0.0, |one| one.weight);
        merged.push(Weighed { weight: again + old.weight * keep, ..*old });
    }
    merged.extend(met);
    merged
}

/// Counts of each cell, from outcomes by cell.
pub(super) fn by_cell(outcomes: &[Weighed]) -> Vec<(u32, Counts)> {
    let mut cells: Vec<(u32, Counts)> = Vec::new();
    for one in outcomes {
        if cells.last().is_none_or(|last| last.0 != one.cell) {
            cells.push((one.cell, Counts::default()));
        }
        if let Some((_, counts)) = cells.last_mut() {
            counts.add(one.outcome, f64::from(one.weight));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::curve;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn outcomes_keep_what_they_are_made_of() {
        for age in [0, 1, 5, 1000, u32::MAX] {
            for read in [false, true] {
                let outcome = Outcome::new(age, read);
                assert_eq!((outcome.bin(), outcome.read()), (curve::bin(age), read));
            }
        }
    }

    proptest! {
        /// Counted in maps, window by window.
        #[test]
        fn equals_a_map(
            windows in prop::collection::vec(
                prop::collection::vec((0u32..5, 1u32..9, any::<bool>()), 0..40), 1..8,
            ),
        ) {
            let (mut sample, mut random) = (Sample::new(100, 0.5), Random::new(1));
            let mut model = BTreeMap::<(u32, Outcome), f32>::new();
            for window in windows {
                model.values_mut().for_each(|weight| *weight *= 0.5);
                for (cell, age, read) in window {
                    let outcome = Outcome::new(age, read);
                    sample.offer(cell, || outcome, &mut random);
                    *model.entry((cell, outcome)).or_default() += 1.0;
                }
                model.retain(|_, weight| *weight >= WEIGHT_MIN);
                let kept: BTreeMap<_, _> =
                    sample.close().1.iter().map(|one| ((one.cell, one.outcome), one.weight)).collect();
                prop_assert_eq!(kept, model.clone());
            }
        }
    }

    #[test]
    fn a_reservoir_is_fair_and_bounded() {
        let (mut sample, mut random) = (Sample::new(1000, 0.9), Random::new(7));
        for at in 0..20_000u32 {
            sample.offer(at / 2000, || Outcome::new(at, true), &mut random);
        }
        let total: f32 = sample.close().1.iter().map(|one| one.weight).sum();
        assert_eq!(total, 1000.0);
        for cell in 0..10 {
            let share: f32 = sample.kept.iter().filter(|one| one.cell == cell).map(|one| one.weight).sum();
            assert!((60.0..150.0).contains(&share), "{cell}: {share}");
        }
        for _ in 0..30 {
            let _ = sample.close();
        }
        assert!(sample.bytes() < 100_000, "{}", sample.bytes());
    }
}
