//! What each reduction of the critical length costs, piece by piece.
//!
//! A piece's *curve* lists marginal costs. The first is what it takes to bring its critical length down by one, the
//! next what one more takes. They never fall, since the trade-off is convex (a linear program with integral corners).
//! So series merge in order and parallel pieces add up. The shorter ones are padded in front, because they need not
//! get shorter before the longest has come down to them.

use super::VertexSet;
use super::cut::{self, NEVER};
use super::shape::{Piece, Prime, Shape};

/// What is known of a unit in one question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cost {
    /// It takes no time: cached by assumption, or not there.
    Free,
    /// Caching it costs so much.
    Open(u64),
    /// It can't be cached.
    Never,
}

/// Room for the curves of all pieces; kept, so that scoring allocates nothing after the first time.
#[derive(Debug, Default)]
pub(super) struct Curves {
    marginals: Vec<u64>,
    /// By piece, where its curve stands in `marginals`.
    ranges: Vec<(u32, u32)>,
    merged: Vec<u64>,
}

impl Curves {
    /// Computes the curves of all pieces; that of the whole is [`Curves::whole`].
    pub fn compute(&mut self, shape: &Shape, cost: &dyn Fn(u16) -> Cost) {
        self.marginals.clear();
        self.ranges.clear();
        for piece in &shape.pieces {
            self.merged.clear();
            match piece {
                Piece::Unit(unit) => match cost(*unit) {
                    Cost::Free => {}
                    Cost::Open(size) => self.merged.push(size),
                    Cost::Never => self.merged.push(NEVER),
                },
                Piece::Series(children) => {
                    for &child in children {
                        let (from, to) = self.ranges[usize::from(child)];
                        self.merged.extend_from_slice(&self.marginals[from as usize..to as usize]);
                    }
                    self.merged.sort_unstable();
                }
                Piece::Parallel(children) => self.add_up(children),
                Piece::Prime(prime) => self.cuts(prime, cost),
            }
            let from = self.marginals.len() as u32;
            self.marginals.extend_from_slice(&self.merged);
            self.ranges.push((from, self.marginals.len() as u32));
        }
    }

    fn add_up(&mut self, children: &[u16]) {
        let length = |curves: &Curves, child: u16| {
            let (from, to) = curves.ranges[usize::from(child)];
            (to - from) as usize
        };
        let longest = children.iter().map(|&child| length(self, child)).max().unwrap_or(0);
        self.merged.resize(longest, 0);
        for &child in children {
            let (from, to) = self.ranges[usize::from(child)];
            let padding = longest - length(self, child);
            for (sum, &marginal) in self.merged[padding..].iter_mut().zip(&self.marginals[from as usize..to as usize]) {
                *sum = (*sum + marginal).min(NEVER);
            }
        }
    }

    fn cuts(&mut self, prime: &Prime, cost: &dyn Fn(u16) -> Cost) {
        let longest = length(prime, cost);
        let mut before = 0;
        for target in (0..longest).rev() {
            match cut::cheapest(prime, target, &|unit| units_cost(cost(unit))) {
                Some((total, _)) => {
                    self.merged.push(total - before);
                    before = total;
                }
                None => break,
            }
        }
        self.merged.resize(longest, NEVER);
    }

    /// The curve of the whole graph.
    pub fn whole(&self) -> &[u64] {
        self.ranges.last().map_or(&[], |&(from, to)| &self.marginals[from as usize..to as usize])
    }

    /// The units of a cheapest way to bring the whole down by `reduction`, for the costs last computed with.
    pub fn units(&self, shape: &Shape, cost: &dyn Fn(u16) -> Cost, reduction: usize) -> VertexSet {
        let mut units = VertexSet::EMPTY;
        let mut open = vec![(shape.pieces.len() - 1, reduction)];
        while let Some((piece, reduction)) = open.pop() {
            if reduction == 0 {
                continue;
            }
            match &shape.pieces[piece] {
                Piece::Unit(unit) => units.insert(usize::from(*unit)),
                Piece::Series(children) => self.share(children, reduction, &mut open),
                Piece::Parallel(children) => {
                    let length = |piece: usize| (self.ranges[piece].1 - self.ranges[piece].0) as usize;
                    let slack = |child: usize| length(piece) - length(child);
                    open.extend(
                        children
                            .iter()
                            .map(|&child| usize::from(child))
                            .map(|child| (child, reduction.saturating_sub(slack(child)))),
                    );
                }
                Piece::Prime(prime) => {
                    let target = length(prime, cost) - reduction;
                    let cached = cut::cheapest(prime, target, &|unit| units_cost(cost(unit)));
                    let places = cached.map_or(VertexSet::EMPTY, |(_, places)| places);
                    places.iter().for_each(|place| units.insert(usize::from(prime.units[place])));
                }
            }
        }
        units
    }

    /// Divides a reduction among pieces in series: the cheapest marginals, the first piece's among equals.
    fn share(&self, children: &[u16], reduction: usize, open: &mut Vec<(usize, usize)>) {
        let marginals = |child: u16| {
            let (from, to) = self.ranges[usize::from(child)];
            &self.marginals[from as usize..to as usize]
        };
        let mut all: Vec<(u64, usize)> = Vec::new();
        for (place, &child) in children.iter().enumerate() {
            all.extend(marginals(child).iter().map(|&marginal| (marginal, place)));
        }
        all.sort_unstable();
        let mut taken = vec![0; children.len()];
        all.iter().take(reduction).for_each(|&(_, place)| taken[place] += 1);
        open.extend(children.iter().zip(taken).map(|(&child, taken)| (usize::from(child), taken)));
    }
}

fn units_cost(cost: Cost) -> u64 {
    match cost {
        Cost::Free => 0,
        Cost::Open(size) => size,
        Cost::Never => NEVER,
    }
}

/// Critical length of a prime. Its units stand in an order in which each comes after those before it.
fn length(prime: &Prime, cost: &dyn Fn(u16) -> Cost) -> usize {
    let weight = |place: usize| usize::from(cost(prime.units[place]) != Cost::Free);
    let mut until: Vec<usize> = (0..prime.units.len()).map(weight).collect();
    // Edges are sorted by where they begin, and lead forwards.
    for &(from, to) in &prime.edges {
        let (from, to) = (usize::from(from), usize::from(to));
        until[to] = until[to].max(until[from] + weight(to));
    }
    until.into_iter().max().unwrap_or(0)
}
