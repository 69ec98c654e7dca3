//! Transaction graphs: which keys of a transaction have to be cached together so that it gets faster (DeToX, OSDI'23).
//!
//! A [`Graph`] has a vertex for each access of a transaction type and an edge where one access determines another
//! (definitions 1 to 3). A vertex weighs 1 where its keys are fetched and 0 where they are cached. The heaviest path
//! is the *critical length* (definition 5), and what caching takes off it are transactional hits (definitions 6 and
//! 7, [`Thr`]). A *complete group* is a set of vertices none of which can be left out without losing a hit
//! (definition 8).
//!
//! There can be exponentially many complete groups, so nothing here that runs for each transaction lists them:
//!
//! * [`Graph::is_complete`] tests one in O(V+E): every member lies on a heaviest path.
//! * `shape.rs` takes a graph apart into series and parallel pieces, and into primes that are neither.
//! * `curve.rs` has for each piece what each reduction of its critical length costs. That cost is convex. So pieces
//!   in series merge their marginal costs in order (what section 5.1 calls choosing among interchangeable groups),
//!   and parallel ones add them up.
//! * `cut.rs` does the same for primes: the discrete time/cost trade-off with durations 0 and 1, one minimum cut each.
//! * [`Scorer`] (`score.rs`) is section 4.2.2 over these costs instead of over a list.
//! * `groups.rs` does list groups, for small graphs: to be shown, and as the naive model of all of the above.
//!
//! We depart from the words of the paper in two rules. A group that extends another has to reduce the critical length
//! further, instead of being complete; but for rare ties both mean one thing. Groups do not count as interchangeable
//! for want of any group to try. (Definition 9 holds of `{b}` and `{c,d}` in figure 6a, where no complete group has
//! `b` without `c`.) Vertices that write cost a level and are never cached. A vertex that is asked for several keys
//! needs them all; one that is left out costs nothing.

mod curve;
mod cut;
mod groups;
mod score;
mod set;
mod shape;

pub use groups::{Group, GroupFrequency, Groups, POWERSET_VERTICES_MAX, TRIES_MAX};
pub use score::{ARCS_MAX, Load, Pick, Scorer, Scratch};
pub use set::{VERTICES_MAX, VertexSet};

use thiserror::Error;

/// One access of a transaction type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// Its name, for people.
    pub name: String,
    /// Whether it writes: it then costs a level and is never cached.
    pub writes: bool,
}

/// A transaction type: a directed graph without cycles. Vertices are numbered from 0 here; in an access, where 0 means
/// none, vertex `v` is `v + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The type's name, for people; empty where nobody gave one.
    name: String,
    vertices: Vec<Vertex>,
    edges: Vec<(u16, u16)>,
    successors: Vec<Vec<u16>>,
    predecessors: Vec<Vec<u16>>,
    /// Each vertex after its predecessors.
    order: Vec<u16>,
}

/// Why something is no transaction graph.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// More than [`VERTICES_MAX`].
    #[error("{0} vertices are more than vertices_max {VERTICES_MAX}; give accesses that always go together one vertex")]
    Vertices(usize),
    /// An edge of or to a vertex that is not there.
    #[error("edge {from} -> {to}: there are only {vertices} vertices")]
    Edge {
        /// Where the edge begins.
        from: u16,
        /// Where it ends.
        to: u16,
        /// How many vertices there are.
        vertices: usize,
    },
    /// Accesses that wait for each other.
    #[error("'{0}' depends on itself; a transaction's accesses can't wait for each other in a circle")]
    Cycle(String),
}

impl Graph {
    /// This graph under the name of its type.
    pub fn named(self, name: &str) -> Graph {
        Graph { name: name.to_owned(), ..self }
    }

    /// The type's name, empty where nobody gave one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This graph with vertex v under the number `numbers[v]`, which no two have; numbers between that no vertex
    /// has are vertices without a name that nothing asks for.
    pub fn renumbered(&self, numbers: &[u16]) -> Result<Graph, GraphError> {
        let count = numbers.iter().map(|&number| usize::from(number) + 1).max().unwrap_or(0);
        if count > VERTICES_MAX {
            return Err(GraphError::Vertices(count));
        }
        let mut vertices = vec![Vertex { name: String::new(), writes: false }; count];
        for (vertex, &number) in self.vertices.iter().zip(numbers) {
            vertices[usize::from(number)] = vertex.clone();
        }
        let number = |v: u16| numbers.get(usize::from(v)).copied().unwrap_or(u16::MAX);
        let edges: Vec<(u16, u16)> = self.edges.iter().map(|&(from, to)| (number(from), number(to))).collect();
        Ok(Graph::new(vertices, &edges)?.named(&self.name))
    }

    /// A graph of these vertices. An edge (p, t) says that access p determines access t.
    pub fn new(vertices: Vec<Vertex>, edges: &[(u16, u16)]) -> Result<Graph, GraphError> {
        let count = vertices.len();
        if count > VERTICES_MAX {
            return Err(GraphError::Vertices(count));
        }
        let (mut successors, mut predecessors) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        edges.dedup();
        for &(from, to) in &edges {
            if usize::from(from.max(to)) >= count {
                return Err(GraphError::Edge { from, to, vertices: count });
            }
            successors[usize::from(from)].push(to);
            predecessors[usize::from(to)].push(from);
        }
        let mut waits: Vec<usize> = predecessors.iter().map(Vec::len).collect();
        let mut order: Vec<u16> = (0..count as u16).filter(|&v| waits[usize::from(v)] == 0).collect();
        let mut next = 0;
        while let Some(&v) = order.get(next) {
            next += 1;
            for &to in &successors[usize::from(v)] {
                waits[usize::from(to)] -= 1;
                if waits[usize::from(to)] == 0 {
                    order.push(to);
                }
            }
        }
        if let Some(stuck) = waits.iter().position(|&waits| waits > 0) {
            return Err(GraphError::Cycle(vertices[stuck].name.clone()));
        }
        Ok(Graph { name: String::new(), vertices, edges, successors, predecessors, order })
    }

    /// A graph of `count` vertices that read, named by their numbers.
    pub fn plain(count: usize, edges: &[(u16, u16)]) -> Result<Graph, GraphError> {
        let vertex = |v: usize| Vertex { name: v.to_string(), writes: false };
        Graph::new((0..count).map(vertex).collect(), edges)
    }

    /// Levels one after the other, each of so many vertices that read.
    pub fn levels(widths: &[usize]) -> Result<Graph, GraphError> {
        let mut edges = Vec::new();
        let mut before: std::ops::Range<u16> = 0..0;
        for &width in widths {
            let level = before.end..before.end.saturating_add(u16::try_from(width).unwrap_or(u16::MAX));
            edges.extend(before.flat_map(|from| level.clone().map(move |to| (from, to))));
            before = level;
        }
        Graph::plain(usize::from(before.end), &edges)
    }

    /// All vertices.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.vertices.is_empty()
    }

    /// All edges, in order.
    pub fn edges(&self) -> &[(u16, u16)] {
        &self.edges
    }

    /// The vertices that `v` determines.
    pub fn successors(&self, v: usize) -> &[u16] {
        &self.successors[v]
    }

    /// The vertices that determine `v`.
    pub fn predecessors(&self, v: usize) -> &[u16] {
        &self.predecessors[v]
    }

    /// The vertices, each after its predecessors.
    pub fn order(&self) -> &[u16] {
        &self.order
    }

    /// All vertices that read.
    pub fn readers(&self) -> VertexSet {
        (0..self.len()).filter(|&v| !self.vertices[v].writes).collect()
    }

    /// Definition 5: vertices on the longest path, those in `cached` not counted.
    pub fn critical_length(&self, cached: &VertexSet) -> u32 {
        self.path_weights(cached).1
    }

    /// By vertex the weight of the heaviest path that ends there, and the weight of the heaviest of all.
    fn path_weights(&self, cached: &VertexSet) -> ([u32; VERTICES_MAX], u32) {
        let (mut until, mut longest) = ([0; VERTICES_MAX], 0);
        for &v in &self.order {
            let v = usize::from(v);
            let before = self.predecessors[v].iter().map(|&p| until[usize::from(p)]).max().unwrap_or(0);
            until[v] = before + u32::from(!cached.contains(v));
            longest = longest.max(until[v]);
        }
        (until, longest)
    }

    /// Definition 8, in O(V+E): every member lies on a heaviest path.
    pub fn is_complete(&self, group: &VertexSet) -> bool {
        let (until, longest) = self.path_weights(group);
        let mut after = [0; VERTICES_MAX];
        for &v in self.order.iter().rev() {
            let v = usize::from(v);
            let beyond = self.successors[v].iter().map(|&s| after[usize::from(s)]).max().unwrap_or(0);
            after[v] = beyond + u32::from(!group.contains(v));
        }
        // A member weighs nothing, so the sum counts nothing twice.
        group.iter().all(|v| until[v] + after[v] == longest)
    }

    /// By vertex its level: the number of accesses that must come before it.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.len()];
        for &v in &self.order {
            let v = usize::from(v);
            depths[v] = self.predecessors[v].iter().map(|&p| depths[usize::from(p)] + 1).max().unwrap_or(0);
        }
        depths
    }

    /// By vertex all that come after it, and all that come before it.
    fn closure(&self) -> (Vec<VertexSet>, Vec<VertexSet>) {
        let (mut after, mut before) = (vec![VertexSet::EMPTY; self.len()], vec![VertexSet::EMPTY; self.len()]);
        for &v in &self.order {
            let v = usize::from(v);
            for p in self.predecessors[v].iter().map(|&p| usize::from(p)) {
                before[v] = before[v].union(&before[p]).with(p);
            }
        }
        for &v in self.order.iter().rev() {
            let v = usize::from(v);
            for s in self.successors[v].iter().map(|&s| usize::from(s)) {
                after[v] = after[v].union(&after[s]).with(s);
            }
        }
        (after, before)
    }
}

/// Transactional hit rate over transactions (definition 7): a ratio of sums, not a mean of ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thr {
    /// Sum of critical lengths with nothing cached.
    pub length: u64,
    /// Sum of what caching took off them: transactional hits.
    pub hits: u64,
}

impl Thr {
    /// Counts one transaction: its critical length with nothing cached, and with what was.
    pub fn add(&mut self, empty: u32, cached: u32) {
        self.length += u64::from(empty);
        self.hits += u64::from(empty.saturating_sub(cached));
    }

    /// The rate; none without transactions.
    pub fn rate(&self) -> Option<f64> {
        (self.length > 0).then(|| self.hits as f64 / self.length as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_no_graph() {
        let error = |count, edges: &[(u16, u16)]| Graph::plain(count, edges).expect_err("no graph").to_string();
        assert_eq!(error(2, &[(0, 2)]), "edge 0 -> 2: there are only 2 vertices");
        assert!(error(3, &[(0, 1), (1, 2), (2, 1)]).starts_with("'1' depends on itself"));
        assert!(error(257, &[]).contains("vertices_max 256"));
    }

    #[test]
    fn levels_are_chains_of_full_joins() {
        let graph = Graph::levels(&[2, 1, 2]).expect("a graph");
        assert_eq!(graph.edges(), [(0, 2), (1, 2), (2, 3), (2, 4)]);
        assert_eq!(graph.depths(), [0, 0, 1, 2, 2]);
        assert_eq!(graph.critical_length(&VertexSet::EMPTY), 3);
        assert_eq!(graph.critical_length(&[0, 3, 4].into_iter().collect()), 2);
    }

    #[test]
    fn a_rate_is_a_ratio_of_sums() {
        let mut thr = Thr::default();
        assert_eq!(thr.rate(), None);
        thr.add(2, 0);
        thr.add(8, 8);
        assert_eq!(thr.rate(), Some(0.2));
    }
}
