//! Graphs taken apart. Critical lengths depend on the order of vertices alone (which comes before which), so a graph
//! is looked at with all implied edges. Vertices with the same others before and after them are one *unit*: caching
//! some of them without the rest gains nothing. Units are put together in series and in parallel, as far as that
//! goes; what is neither is a prime.

use super::{Graph, VertexSet};

/// A graph's units and how they are put together.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Vertices of each unit.
    pub units: Vec<VertexSet>,
    /// The unit of each vertex.
    pub unit_of: Vec<u16>,
    /// Pieces, each after those that it is made of; the last is the whole.
    pub pieces: Vec<Piece>,
}

/// Part of a graph.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// One unit.
    Unit(u16),
    /// Pieces one after the other.
    Series(Vec<u16>),
    /// Pieces beside each other.
    Parallel(Vec<u16>),
    /// Units that are neither.
    Prime(Prime),
}

/// Units that can't be taken apart, as a graph of their own.
#[derive(Clone, Debug)]
pub(super) struct Prime {
    /// The units, each after those before it.
    pub units: Vec<u16>,
    /// Edges between places in `units`, without implied ones.
    pub edges: Vec<(u16, u16)>,
}

impl Prime {
    /// Critical length with nothing cached.
    fn length(&self) -> u64 {
        let mut until = vec![1; self.units.len()];
        // Edges are sorted by where they begin, and lead forwards.
        for &(from, to) in &self.edges {
            let (from, to) = (usize::from(from), usize::from(to));
            until[to] = until[to].max(until[from] + 1);
        }
        until.into_iter().max().unwrap_or(0)
    }
}

struct Builder {
    /// By unit, all units after it and before it.
    after: Vec<VertexSet>,
    before: Vec<VertexSet>,
    /// By unit, its place in an order in which each comes after those before it.
    place: Vec<usize>,
    pieces: Vec<Piece>,
}

impl Shape {
    pub fn of(graph: &Graph) -> Shape {
        let (after, before) = graph.closure();
        let mut units: Vec<VertexSet> = Vec::new();
        let mut unit_of = vec![0; graph.len()];
        for v in graph.order().iter().map(|&v| usize::from(v)) {
            let same = |unit: &VertexSet| unit.first().is_some_and(|u| after[u] == after[v] && before[u] == before[v]);
            let unit = units.iter().position(same).unwrap_or_else(|| {
                units.push(VertexSet::EMPTY);
                units.len() - 1
            });
            units[unit].insert(v);
            unit_of[v] = unit as u16;
        }
        // A vertex stands for its unit. Units were met in the order of the graph.
        let of_units = |vertices: &VertexSet| vertices.iter().map(|v| usize::from(unit_of[v])).collect::<VertexSet>();
        let firsts = || units.iter().filter_map(VertexSet::first);
        let mut builder = Builder {
            after: firsts().map(|v| of_units(&after[v])).collect(),
            before: firsts().map(|v| of_units(&before[v])).collect(),
            place: (0..units.len()).collect(),
            pieces: Vec::new(),
        };
        if !units.is_empty() {
            builder.build((0..units.len()).collect());
        }
        Shape { units, unit_of, pieces: builder.pieces }
    }

    /// Arcs of all cuts that the curves of all pieces take once, with nothing for free: one for each length that a
    /// prime can be brought down to.
    pub fn arcs(&self) -> u64 {
        let of_prime = |prime: &Prime| {
            let (units, edges, length) = (prime.units.len() as u64, prime.edges.len() as u64, prime.length());
            (0..length).map(|target| units * (4 * target + 1) + edges * target).sum::<u64>()
        };
        self.primes().map(of_prime).sum()
    }

    /// Its primes.
    pub fn primes(&self) -> impl Iterator<Item = &Prime> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Prime(prime) => Some(prime),
            _ => None,
        })
    }

    /// Units that are children of the same series: any can stand for any other (definition 9).
    pub fn classes(&self) -> Vec<Vec<u16>> {
        let unit = |piece: &u16| match self.pieces[usize::from(*piece)] {
            Piece::Unit(unit) => Some(unit),
            _ => None,
        };
        let of_series = |piece: &Piece| match piece {
            Piece::Series(children) => children.iter().filter_map(unit).collect(),
            _ => Vec::new(),
        };
        self.pieces.iter().map(of_series).filter(|class: &Vec<u16>| class.len() > 1).collect()
    }
}

impl Builder {
    /// Appends the piece that `units` are; its number.
    fn build(&mut self, units: VertexSet) -> u16 {
        let near = |builder: &Builder, unit: usize| builder.after[unit].union(&builder.before[unit]);
        let piece = if units.len() == 1 {
            Piece::Unit(units.first().unwrap_or_default() as u16)
        } else if let Some(parts) = self.parts(units, near) {
            Piece::Parallel(parts.into_iter().map(|part| self.build(part)).collect())
        } else if let Some(mut parts) = self.parts(units, |builder, unit| {
            let others = near(builder, unit);
            units.without(&others)
        }) {
            // Between two parts all of one comes before all of the other.
            parts.sort_by_key(|part| part.first().map(|unit| self.place[unit]));
            Piece::Series(parts.into_iter().map(|part| self.build(part)).collect())
        } else {
            Piece::Prime(self.prime(units))
        };
        self.pieces.push(piece);
        (self.pieces.len() - 1) as u16
    }

    /// The parts of `units` that are connected by `near`, if there are several.
    fn parts(&self, units: VertexSet, near: impl Fn(&Builder, usize) -> VertexSet) -> Option<Vec<VertexSet>> {
        let (mut rest, mut parts) = (units, Vec::new());
        while let Some(first) = rest.first() {
            let (mut part, mut open) = (VertexSet::EMPTY.with(first), VertexSet::EMPTY.with(first));
            while let Some(unit) = open.first() {
                open.remove(unit);
                let new = near(self, unit).intersection(&units).without(&part);
                part = part.union(&new);
                open = open.union(&new);
            }
            rest = rest.without(&part);
            parts.push(part);
        }
        (parts.len() > 1).then_some(parts)
    }

    fn prime(&self, units: VertexSet) -> Prime {
        let units: Vec<usize> = units.iter().collect();
        let mut edges = Vec::new();
        for (from, &a) in units.iter().enumerate() {
            for (to, &b) in units.iter().enumerate() {
                // Implied where a third one stands between them.
                let between = self.after[a].intersection(&self.before[b]);
                if self.after[a].contains(b) && !units.iter().any(|&c| between.contains(c)) {
                    edges.push((from as u16, to as u16));
                }
            }
        }
        Prime { units: units.into_iter().map(|unit| unit as u16).collect(), edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(shape: &Shape, piece: usize) -> String {
        let parts = |children: &[u16]| {
            children.iter().map(|&child| written(shape, usize::from(child))).collect::<Vec<_>>().join(" ")
        };
        match &shape.pieces[piece] {
            Piece::Unit(unit) => {
                shape.units[usize::from(*unit)].iter().map(|v| v.to_string()).collect::<Vec<_>>().join("+")
            }
            Piece::Series(children) => format!("({})", parts(children)),
            Piece::Parallel(children) => format!("[{}]", parts(children)),
            Piece::Prime(prime) => format!("<{} {}>", prime.units.len(), prime.edges.len()),
        }
    }

    fn shape(count: usize, edges: &[(u16, u16)]) -> String {
        let shape = Shape::of(&Graph::plain(count, edges).expect("a graph"));
        written(&shape, shape.pieces.len() - 1)
    }

    #[test]
    fn shapes_of_the_papers_figures() {
        assert_eq!(shape(3, &[(0, 1), (0, 2)]), "(0 1+2)");
        // Figure 6a, with and without an implied edge.
        assert_eq!(shape(4, &[(0, 1), (0, 2), (2, 3)]), "(0 [1 (2 3)])");
        assert_eq!(shape(4, &[(0, 1), (0, 2), (2, 3), (0, 3)]), "(0 [1 (2 3)])");
        let levels = Graph::levels(&[2, 2, 2, 2]).expect("a graph");
        assert_eq!(shape(8, levels.edges()), "(0+1 2+3 4+5 6+7)");
        assert_eq!(shape(5, &[]), "0+1+2+3+4");
        // The letter N is the smallest prime.
        assert_eq!(shape(4, &[(0, 2), (1, 2), (1, 3)]), "<4 3>");
        assert_eq!(shape(6, &[(4, 0), (4, 1), (0, 2), (1, 2), (1, 3), (2, 5), (3, 5)]), "(4 <4 3> 5)");
    }

    #[test]
    fn units_of_one_series_are_a_class() {
        let shape = Shape::of(&Graph::plain(4, &[(0, 1), (0, 2), (2, 3)]).expect("a graph"));
        let class: Vec<Vec<usize>> =
            shape.classes()[0].iter().map(|&u| shape.units[usize::from(u)].iter().collect()).collect();
        assert_eq!((shape.classes().len(), class), (1, vec![vec![2], vec![3]]));
    }
}
