//! Complete groups as a list, for small graphs. The list is for showing them, and for scoring them as the paper says
//! (sections 4.1 and 4.2). It is also the naive model of what the rest of this room computes without a list.

use super::shape::{Piece, Prime, Shape};
use super::{Graph, VertexSet};

/// Most vertices of a graph whose subsets are all tried.
pub const POWERSET_VERTICES_MAX: usize = 20;

/// Most subsets of primes' units that are tried where it has to be quick: one prime of 12 units, or several smaller
/// ones.
pub const TRIES_MAX: u64 = 1 << 12;

/// A complete group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its vertices.
    pub vertices: VertexSet,
    /// Transactional hits if it is cached: what it takes off the critical length.
    pub hits: u32,
}

/// All complete groups of a graph.
#[derive(Clone, Debug)]
pub struct Groups {
    list: Vec<Group>,
}

/// How the frequency of a group follows from those of its members (section 8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupFrequency {
    /// The least: all have to be cached, so the rarest decides.
    #[default]
    Min,
    /// The mean.
    Average,
    /// The greatest.
    Max,
    /// The median; of an even number the mean of the middle two.
    Median,
}

impl GroupFrequency {
    /// The frequency of a group whose members have these; reorders them. 0 for none.
    pub fn of(self, frequencies: &mut [f64]) -> f64 {
        if frequencies.is_empty() {
            return 0.0;
        }
        match self {
            GroupFrequency::Min => frequencies.iter().copied().fold(f64::INFINITY, f64::min),
            GroupFrequency::Average => frequencies.iter().sum::<f64>() / frequencies.len() as f64,
            GroupFrequency::Max => frequencies.iter().copied().fold(0.0, f64::max),
            GroupFrequency::Median => {
                frequencies.sort_unstable_by(f64::total_cmp);
                let middle = frequencies.len() / 2;
                match frequencies.len() % 2 {
                    1 => frequencies[middle],
                    _ => (frequencies[middle - 1] + frequencies[middle]) / 2.0,
                }
            }
        }
    }
}

impl Groups {
    /// All complete groups of `graph`, without the empty one, smaller ones first. `None` where the graph has more than
    /// `vertices_max` vertices, or [`POWERSET_VERTICES_MAX`].
    pub fn of(graph: &Graph, vertices_max: usize) -> Option<Groups> {
        if graph.len() > vertices_max.min(POWERSET_VERTICES_MAX) {
            return None;
        }
        let empty = graph.critical_length(&VertexSet::EMPTY);
        let readers: Vec<usize> = graph.readers().iter().collect();
        let mut list = Vec::new();
        for bits in 1u32..1 << readers.len() {
            let member = |place: &usize| bits >> place & 1 == 1;
            let vertices: VertexSet = (0..readers.len()).filter(member).map(|place| readers[place]).collect();
            if graph.is_complete(&vertices) {
                list.push(Group { vertices, hits: empty - graph.critical_length(&vertices) });
            }
        }
        list.sort_by_key(|group| (group.vertices.len(), group.vertices.iter().collect::<Vec<_>>()));
        Some(Groups { list })
    }

    /// The groups.
    pub fn list(&self) -> &[Group] {
        &self.list
    }

    fn hits_of(&self, vertices: &VertexSet) -> Option<u32> {
        self.list.iter().find(|group| group.vertices == *vertices).map(|group| group.hits)
    }

    /// Definition 9, and that there is something to try: one can stand for the other in every complete group that has
    /// one without the other, in at least one each way.
    pub fn interchangeable(&self, one: &VertexSet, other: &VertexSet) -> bool {
        let replaces = |old: &VertexSet, new: &VertexSet| {
            let mut tried = false;
            let holds = self.list.iter().all(|group| {
                if !old.is_subset(&group.vertices) || !new.intersection(&group.vertices).is_empty() {
                    return true;
                }
                tried = true;
                self.hits_of(&group.vertices.without(old).union(new)) == Some(group.hits)
            });
            holds && tried
        };
        replaces(one, other) && replaces(other, one)
    }

    /// Instance scores as section 4.2.2 has them: the best group, then the best complete superset, until none is left.
    /// `frequency` and `size` are by vertex; so are the scores, 0 for what no group has.
    pub fn instance_scores(&self, rule: GroupFrequency, frequency: &[f64], size: &[u64]) -> Vec<f64> {
        let score = |group: &Group| {
            let mut frequencies: Vec<f64> = group.vertices.iter().map(|v| frequency[v]).collect();
            let bytes: u64 = group.vertices.iter().map(|v| size[v]).sum();
            rule.of(&mut frequencies) * f64::from(group.hits) / bytes as f64
        };
        let scored: Vec<(f64, &Group)> = self.list.iter().map(|group| (score(group), group)).collect();
        let mut scores = vec![0.0; frequency.len()];
        let mut chosen = VertexSet::EMPTY;
        loop {
            let mut best: Option<(f64, &Group)> = None;
            for &(score, group) in &scored {
                let extends = chosen != group.vertices && chosen.is_subset(&group.vertices);
                if extends && best.is_none_or(|(most, _)| score > most) {
                    best = Some((score, group));
                }
            }
            let Some((score, group)) = best else { return scores };
            group.vertices.without(&chosen).iter().for_each(|v| scores[v] = score);
            chosen = group.vertices;
        }
    }
}

/// How many there are, without listing them.
impl Graph {
    /// Number of complete groups without the empty one; `None` if there is a prime part of more than
    /// [`POWERSET_VERTICES_MAX`] units, or if the number does not fit.
    pub fn complete_groups_count(&self) -> Option<u128> {
        self.count(false, u64::MAX)
    }

    /// Likewise within little time: `None` also where more than [`TRIES_MAX`] subsets would have to be tried.
    pub fn complete_groups_count_if_quick(&self) -> Option<u128> {
        self.count(false, TRIES_MAX)
    }

    /// Number of groups that are left where any unit stands for those that are interchangeable with it (section 5.1).
    pub fn compressed_groups_count(&self) -> Option<u128> {
        self.count(true, u64::MAX)
    }

    /// Likewise within little time: `None` also where more than [`TRIES_MAX`] subsets would have to be tried.
    pub fn compressed_groups_count_if_quick(&self) -> Option<u128> {
        self.count(true, TRIES_MAX)
    }

    /// Counts complete groups by the critical length that they leave; `compressed`: of the units of one series only how
    /// many of them are in it matters.
    fn count(&self, compressed: bool, tries_max: u64) -> Option<u128> {
        let shape = Shape::of(self);
        let tries = shape.primes().map(|prime| 1u64.checked_shl(prime.units.len() as u32).unwrap_or(u64::MAX));
        if tries.fold(0, u64::saturating_add) > tries_max {
            return None;
        }
        let mut counts: Vec<Vec<u128>> = Vec::new();
        for piece in &shape.pieces {
            let by_length = match piece {
                Piece::Unit(unit) => match shape.units[usize::from(*unit)].iter().any(|v| self.vertices()[v].writes) {
                    true => vec![0, 1],
                    false => vec![1, 1],
                },
                Piece::Series(children) => {
                    let mut product = vec![1];
                    let mut units = 0;
                    for &child in children {
                        let open = matches!(shape.pieces[usize::from(child)], Piece::Unit(_));
                        if compressed && open && counts[usize::from(child)] == [1, 1] {
                            units += 1;
                        } else {
                            product = convolve(&product, &counts[usize::from(child)])?;
                        }
                    }
                    convolve(&product, &vec![1; units + 1])?
                }
                Piece::Parallel(children) => {
                    let mut sum = counts[usize::from(children[0])].clone();
                    for &child in &children[1..] {
                        sum = beside(&sum, &counts[usize::from(child)])?;
                    }
                    sum
                }
                Piece::Prime(prime) => self.count_prime(prime, &shape)?,
            };
            counts.push(by_length);
        }
        let all = counts
            .last()
            .map_or(Some(1), |by_length| by_length.iter().try_fold(0u128, |sum, &count| sum.checked_add(count)))?;
        // The empty one.
        Some(all - 1)
    }

    /// Complete groups of a prime by the critical length that they leave, by trying all.
    fn count_prime(&self, prime: &Prime, shape: &Shape) -> Option<Vec<u128>> {
        let names = prime.units.iter().map(|&unit| {
            let writes = shape.units[usize::from(unit)].iter().any(|v| self.vertices()[v].writes);
            super::Vertex { name: String::new(), writes }
        });
        let graph = Graph::new(names.collect(), &prime.edges).ok()?;
        let empty = graph.critical_length(&VertexSet::EMPTY);
        let mut counts = vec![0; empty as usize + 1];
        counts[empty as usize] = 1;
        for group in Groups::of(&graph, POWERSET_VERTICES_MAX)?.list() {
            counts[(empty - group.hits) as usize] += 1;
        }
        Some(counts)
    }
}

/// One after the other: any group of each, lengths add up.
fn convolve(one: &[u128], other: &[u128]) -> Option<Vec<u128>> {
    let mut product = vec![0u128; one.len() + other.len() - 1];
    for (a, &x) in one.iter().enumerate() {
        for (b, &y) in other.iter().enumerate() {
            product[a + b] = product[a + b].checked_add(x.checked_mul(y)?)?;
        }
    }
    Some(product)
}

/// Beside each other: both leave the same length, or the longer one decides and nothing of the shorter one is cached.
fn beside(one: &[u128], other: &[u128]) -> Option<Vec<u128>> {
    let (long, short) = if one.len() >= other.len() { (one, other) } else { (other, one) };
    let mut sum = vec![0u128; long.len()];
    for (length, sum) in sum.iter_mut().enumerate() {
        *sum = match short.get(length) {
            Some(&count) => long[length].checked_mul(count)?,
            // The shorter one, with nothing cached, is no longer than that.
            None => long[length],
        };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters N one after the other: so many primes of 4 units.
    fn letters(count: u16) -> Graph {
        let letter = |at: u16| [(0, 2), (1, 2), (1, 3)].map(|(from, to)| (4 * at + from, 4 * at + to));
        let between = |at: u16| (0..4).flat_map(move |from| (4..8).map(move |to| (4 * at + from, 4 * at + to)));
        let edges: Vec<_> = (0..count).flat_map(letter).chain((1..count).flat_map(|at| between(at - 1))).collect();
        Graph::plain(4 * usize::from(count), &edges).expect("edges lead forwards")
    }

    #[test]
    fn who_has_little_time_tries_few_subsets() {
        let chains = |half: u16| {
            let edges = (1..half).flat_map(|at| [(at - 1, at), (half + at - 1, half + at), (at - 1, half + at)]);
            Graph::plain(2 * usize::from(half), &edges.collect::<Vec<_>>()).expect("edges lead forwards")
        };
        let quick = |graph: &Graph| (graph.complete_groups_count_if_quick(), graph.compressed_groups_count_if_quick());
        for graph in [chains(6), letters(3), Graph::levels(&[1; 60]).expect("a graph")] {
            assert_eq!(quick(&graph), (graph.complete_groups_count(), graph.compressed_groups_count()));
            assert!(quick(&graph).0.is_some() && quick(&graph).1.is_some());
        }
        // 14 units or more: not one subset is tried.
        assert_eq!(quick(&chains(7)), (None, None));
        assert_eq!(quick(&chains(128)), (None, None));
        assert!(chains(7).complete_groups_count().is_some());
    }
}
