//! Instance scores of one transaction (section 4.2.2) without a list of groups.
//!
//! The best group is `max f * k / cost(f, k)` over frequencies f that occur and reductions k. There cost(f, k) is the
//! size of the smallest group of keys at least that frequent that takes k off the critical length. The next one costs
//! the same with the first for free, and so on: at most as many rounds as the critical length.

use std::sync::Arc;

use super::curve::{Cost, Curves};
use super::cut::NEVER;
use super::shape::Shape;
use super::{Graph, VERTICES_MAX, VertexSet};

/// Most arcs of cuts ([`Scorer::arcs_max`]) with which a transaction can be scored while others wait: about a
/// millisecond. Graphs that come apart in series and parallel have none, those with a prime of up to 12 units fewer.
pub const ARCS_MAX: u64 = 1 << 18;

/// What one transaction asked for at one vertex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Nothing: this transaction left it out.
    Absent,
    /// Something that is never cached: a write, or a key too large for the cache.
    Never,
    /// Keys, the rarest of which was asked for `frequency` times (above 0), and which weigh `size` together (1 to
    /// 2^48).
    Keys {
        /// Accesses of the rarest key, this one included.
        frequency: f64,
        /// Weight of all keys.
        size: u64,
    },
}

/// A group that was chosen, and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// All that is cached then, the groups chosen before included.
    pub vertices: VertexSet,
    /// What those get as their instance score that were not in a group before.
    pub score: f64,
}

/// Scores transactions of one type.
#[derive(Clone, Debug)]
pub struct Scorer {
    graph: Arc<Graph>,
    shape: Shape,
}

/// Memory of a scorer between transactions; one for each thread.
#[derive(Debug, Default)]
pub struct Scratch {
    curves: Curves,
    units: Vec<Load>,
    /// Vertices that were asked for.
    present: VertexSet,
    thresholds: Vec<f64>,
    /// By vertex: the instance score of the transaction that was scored last.
    scores: Vec<f64>,
    picks: Vec<Pick>,
}

impl Scratch {
    /// By vertex, what the last transaction's keys score; 0 where no group has them.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// The groups in the order in which they were chosen.
    pub fn picks(&self) -> &[Pick] {
        &self.picks
    }
}

/// What is chosen so far.
struct Chosen {
    vertices: VertexSet,
    size: u64,
    hits: usize,
    /// The least frequency in it.
    frequency: f64,
}

/// The best extension found so far.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    threshold: f64,
    /// Beyond the hits of what is chosen.
    reduction: usize,
}

impl Scorer {
    /// Compiles a transaction type: O(V^3 / 64) at worst.
    pub fn new(graph: Arc<Graph>) -> Scorer {
        let shape = Shape::of(&graph);
        Scorer { graph, shape }
    }

    /// A bound of the arcs of all cuts that one transaction's scores can take: as many rounds as the critical length,
    /// in each as many thresholds as there are units, for each of them the cuts of all primes. 0 without primes.
    pub fn arcs_max(&self) -> u64 {
        let rounds = u64::from(self.graph.critical_length(&VertexSet::EMPTY));
        rounds.saturating_mul(self.shape.units.len() as u64).saturating_mul(self.shape.arcs())
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Units that can stand for each other, as sets of vertices, class by class (section 5.1). A unit that writes is in
    /// no group, so it stands for none.
    pub fn classes(&self) -> Vec<Vec<VertexSet>> {
        let readers = self.graph.readers();
        let sets = |class: Vec<u16>| {
            let units = class.into_iter().map(|unit| self.shape.units[usize::from(unit)]);
            units.filter(|unit| unit.is_subset(&readers)).collect()
        };
        self.shape.classes().into_iter().map(sets).filter(|class: &Vec<VertexSet>| class.len() > 1).collect()
    }

    /// Computes instance scores for a transaction with these loads by vertex; a vertex beyond the slice is absent.
    pub fn score(&self, loads: &[Load], scratch: &mut Scratch) {
        self.load_units(loads, scratch);
        scratch.picks.clear();
        scratch.scores.clear();
        scratch.scores.resize(self.graph.len(), 0.0);
        let mut chosen = Chosen { vertices: VertexSet::EMPTY, size: 0, hits: 0, frequency: f64::INFINITY };
        while let Some(best) = self.best(&chosen, scratch) {
            self.take(&mut chosen, best, scratch);
        }
    }

    /// A unit's frequency is that of its rarest vertex, its size the sum.
    fn load_units(&self, loads: &[Load], scratch: &mut Scratch) {
        scratch.units.clear();
        scratch.units.resize(self.shape.units.len(), Load::Absent);
        scratch.present = VertexSet::EMPTY;
        for (v, &load) in loads.iter().enumerate().take(self.graph.len()) {
            let load = match self.graph.vertices()[v].writes && load != Load::Absent {
                true => Load::Never,
                false => load,
            };
            if load != Load::Absent {
                scratch.present.insert(v);
            }
            let unit = &mut scratch.units[usize::from(self.shape.unit_of[v])];
            *unit = match (*unit, load) {
                (Load::Absent, other) | (other, Load::Absent) => other,
                (Load::Never, _) | (_, Load::Never) => Load::Never,
                (Load::Keys { frequency, size }, Load::Keys { frequency: f, size: s }) => {
                    Load::Keys { frequency: frequency.min(f), size: size + s }
                }
            };
        }
    }

    /// Costs for one threshold, given what is chosen: units that are chosen have become [`Load::Absent`].
    fn cost(units: &[Load], threshold: f64) -> impl Fn(u16) -> Cost {
        move |unit| match units[usize::from(unit)] {
            Load::Absent => Cost::Free,
            Load::Keys { frequency, size } if frequency >= threshold => Cost::Open(size),
            Load::Keys { .. } | Load::Never => Cost::Never,
        }
    }

    /// The extension of `chosen` with the highest score; among equals the one that takes the least.
    fn best(&self, chosen: &Chosen, scratch: &mut Scratch) -> Option<Best> {
        let Scratch { curves, units, thresholds, .. } = scratch;
        thresholds.clear();
        thresholds.extend(units.iter().filter_map(|unit| match unit {
            Load::Keys { frequency, .. } => Some(frequency.min(chosen.frequency)),
            _ => None,
        }));
        thresholds.sort_unstable_by(|a, b| b.total_cmp(a));
        thresholds.dedup();
        if thresholds.is_empty() {
            return None;
        }
        // With all keys allowed: what no threshold can better.
        let mut bound = None;
        let mut best: Option<Best> = None;
        for (at, &threshold) in thresholds.iter().enumerate() {
            if let (Some(best), Some(bound)) = (best, bound)
                && threshold * bound <= best.score
            {
                break;
            }
            curves.compute(&self.shape, &Scorer::cost(units, threshold));
            if let Some((ratio, reduction)) = most(chosen, curves.whole()) {
                let score = threshold * ratio;
                if best.is_none_or(|best| score > best.score) {
                    best = Some(Best { score, threshold, reduction });
                }
                if bound.is_none() && at + 1 < thresholds.len() {
                    curves.compute(&self.shape, &Scorer::cost(units, 0.0));
                    bound = most(chosen, curves.whole()).map(|(ratio, _)| ratio);
                }
            }
        }
        best
    }

    /// Adds the units of an extension to what is chosen.
    fn take(&self, chosen: &mut Chosen, best: Best, scratch: &mut Scratch) {
        let Scratch { curves, units, present, scores, picks, .. } = scratch;
        let added = {
            let cost = Scorer::cost(units, best.threshold);
            curves.compute(&self.shape, &cost);
            curves.units(&self.shape, &cost, best.reduction)
        };
        let mut new = VertexSet::EMPTY;
        for unit in added.iter() {
            if let Load::Keys { frequency, size } = std::mem::replace(&mut units[unit], Load::Absent) {
                chosen.frequency = chosen.frequency.min(frequency);
                chosen.size += size;
                new = new.union(&self.shape.units[unit].intersection(present));
            }
        }
        chosen.hits += best.reduction;
        chosen.vertices = chosen.vertices.union(&new);
        // The group's own least frequency can be above the threshold that it was found with.
        let score = chosen.frequency * chosen.hits as f64 / chosen.size as f64;
        new.iter().filter(|&v| v < VERTICES_MAX).for_each(|v| scores[v] = score);
        picks.push(Pick { vertices: chosen.vertices, score });
    }

    /// For each reduction of the critical length the best group and its score, with nothing chosen before: the best of
    /// each compressed group (section 5.1).
    pub fn best_by_reduction(&self, loads: &[Load], scratch: &mut Scratch) -> Vec<Pick> {
        self.load_units(loads, scratch);
        let Scratch { curves, units, present, thresholds, .. } = scratch;
        let frequency = |unit: &Load| match unit {
            Load::Keys { frequency, .. } => Some(*frequency),
            _ => None,
        };
        thresholds.clear();
        thresholds.extend(units.iter().filter_map(frequency));
        thresholds.dedup();
        let mut best: Vec<Option<(f64, f64)>> = Vec::new();
        for &threshold in thresholds.iter() {
            curves.compute(&self.shape, &Scorer::cost(units, threshold));
            let mut total = 0;
            for (place, &marginal) in curves.whole().iter().enumerate().take_while(|(_, marginal)| **marginal < NEVER) {
                total += marginal;
                let score = threshold * (place + 1) as f64 / total as f64;
                best.resize(best.len().max(place + 1), None);
                if best[place].is_none_or(|(most, _)| score > most) {
                    best[place] = Some((score, threshold));
                }
            }
        }
        let pick = |(place, found): (usize, &Option<(f64, f64)>)| {
            let (score, threshold) = (*found)?;
            let cost = Scorer::cost(units, threshold);
            curves.compute(&self.shape, &cost);
            let units = curves.units(&self.shape, &cost, place + 1);
            let sets = units.iter().map(|unit| self.shape.units[unit].intersection(present));
            Some(Pick { vertices: sets.fold(VertexSet::EMPTY, |all, set| all.union(&set)), score })
        };
        best.iter().enumerate().filter_map(pick).collect()
    }

    /// By vertex whether it is there and not cached: what is left of the critical length.
    pub fn remaining_length(&self, present: &VertexSet, cached: &VertexSet) -> u32 {
        let all: VertexSet = (0..self.graph.len()).collect();
        self.graph.critical_length(&all.without(present).union(cached))
    }
}

/// The most hits per size that the chosen and an extension by this curve have together, and how far it goes beyond.
fn most(chosen: &Chosen, curve: &[u64]) -> Option<(f64, usize)> {
    let (mut best, mut size): (Option<(f64, usize)>, u64) = (None, chosen.size);
    for (place, &marginal) in curve.iter().enumerate() {
        if marginal >= NEVER {
            break;
        }
        size += marginal;
        let ratio = (chosen.hits + place + 1) as f64 / size as f64;
        if best.is_none_or(|(most, _)| ratio > most) {
            best = Some((ratio, place + 1));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::cut::STEPS;

    /// An arc is looked at more than once; on the other hand fewer rounds and thresholds are tried than there could be.
    const STEPS_PER_ARC_MAX: u64 = 4;

    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed * 2 + 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    /// Two chains, each vertex of one before the next of the other: a prime as long as one of so many units can be.
    fn ladder(units: u16) -> Graph {
        let half = units / 2;
        let edges = (1..half).flat_map(|at| [(at - 1, at), (half + at - 1, half + at), (at - 1, half + at)]);
        Graph::plain(usize::from(units), &edges.collect::<Vec<_>>()).expect("edges lead forwards")
    }

    /// A random order of so many vertices.
    fn tangle(vertices: u16, edges_percent: u64, next: &mut impl FnMut() -> u64) -> Graph {
        let pairs = (0..vertices).flat_map(|to| (0..to).map(move |from| (from, to)));
        let edges: Vec<(u16, u16)> = pairs.filter(|_| next() % 100 < edges_percent).collect();
        Graph::plain(usize::from(vertices), &edges).expect("edges lead forwards")
    }

    #[test]
    fn scoring_looks_at_few_more_arcs_than_is_told_beforehand() {
        let mut with_primes = 0;
        for seed in 1..=60 {
            let mut next = random(seed);
            let units = 4 + 2 * (next() % 5) as u16;
            let percent = 15 + next() % 50;
            let graph = if seed % 4 == 0 { ladder(units) } else { tangle(units, percent, &mut next) };
            let (scorer, mut scratch) = (Scorer::new(Arc::new(graph)), Scratch::default());
            with_primes += u32::from(scorer.arcs_max() > 0);
            for _ in 0..4 {
                let mut load = |_| Load::Keys { frequency: 1.0 + (next() % 1000) as f64, size: 1 + next() % 1000 };
                let loads: Vec<Load> = (0..units).map(&mut load).collect();
                STEPS.set(0);
                scorer.score(&loads, &mut scratch);
                let bound = STEPS_PER_ARC_MAX * scorer.arcs_max();
                assert!(STEPS.get() <= bound, "seed {seed}: {} steps, {bound} at most", STEPS.get());
            }
        }
        assert!(with_primes > 30, "{with_primes} graphs had a prime");
    }

    #[test]
    fn what_comes_apart_is_never_too_costly_and_a_large_prime_is() {
        let arcs = |graph: Graph| Scorer::new(Arc::new(graph)).arcs_max();
        assert_eq!(arcs(Graph::levels(&[1; VERTICES_MAX]).expect("a graph")), 0);
        // 60 accesses one after the other, but for a letter N among them.
        let (chain, n) = ((1..57).map(|at| (at - 1, at)), [(56, 58), (57, 58), (57, 59), (55, 56), (55, 57)]);
        let long = Graph::plain(60, &chain.filter(|edge| edge.1 < 56).chain(n).collect::<Vec<_>>()).expect("a graph");
        assert!((1..=ARCS_MAX).contains(&arcs(long)), "60 accesses with a small prime");
        assert!(arcs(ladder(12)) <= ARCS_MAX, "a prime of 12 units");
        assert!(arcs(ladder(40)) > ARCS_MAX, "a prime of 40 units");
        // All that a client may give: 256 vertices, 4,000 edges.
        assert!(arcs(tangle(VERTICES_MAX as u16, 12, &mut random(1))) > 1000 * ARCS_MAX);
    }
}
