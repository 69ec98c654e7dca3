//! A set of vertices as bits.

/// Most vertices of a graph.
pub const VERTICES_MAX: usize = 256;

const WORDS: usize = VERTICES_MAX / 64;

/// A set of vertices of one graph, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VertexSet([u64; WORDS]);

impl VertexSet {
    /// No vertex.
    pub const EMPTY: VertexSet = VertexSet([0; WORDS]);

    /// Whether `v` is in it.
    pub fn contains(&self, v: usize) -> bool {
        self.0.get(v / 64).is_some_and(|word| word >> (v % 64) & 1 == 1)
    }

    /// Puts `v` in, which is below [`VERTICES_MAX`].
    pub fn insert(&mut self, v: usize) {
        self.0[v / 64] |= 1 << (v % 64);
    }

    /// Takes `v` out.
    pub fn remove(&mut self, v: usize) {
        self.0[v / 64] &= !(1 << (v % 64));
    }

    /// The set and `v`.
    pub fn with(mut self, v: usize) -> VertexSet {
        self.insert(v);
        self
    }

    /// What is in either.
    pub fn union(&self, other: &VertexSet) -> VertexSet {
        VertexSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// What is in both.
    pub fn intersection(&self, other: &VertexSet) -> VertexSet {
        VertexSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// What is in this one only.
    pub fn without(&self, other: &VertexSet) -> VertexSet {
        VertexSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Whether all of it is in `other`.
    pub fn is_subset(&self, other: &VertexSet) -> bool {
        self.without(other).is_empty()
    }

    /// Number of vertices.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The lowest vertex.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// All vertices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut words = self.0;
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < WORDS && words[at] == 0 {
                at += 1;
            }
            let word = words.get_mut(at)?;
            let v = 64 * at + word.trailing_zeros() as usize;
            *word &= *word - 1;
            Some(v)
        })
    }
}

impl FromIterator<usize> for VertexSet {
    fn from_iter<I: IntoIterator<Item = usize>>(vertices: I) -> VertexSet {
        let mut set = VertexSet::EMPTY;
        vertices.into_iter().for_each(|v| set.insert(v));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn equals_a_tree(one in prop::collection::btree_set(0..VERTICES_MAX, 0..40),
                         other in prop::collection::btree_set(0..VERTICES_MAX, 0..40)) {
            let set = |tree: &BTreeSet<usize>| tree.iter().copied().collect::<VertexSet>();
            let (a, b) = (set(&one), set(&other));
            prop_assert_eq!(a.iter().collect::<Vec<_>>(), one.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!((a.len(), a.first(), a.is_empty()), (one.len(), one.first().copied(), one.is_empty()));
            prop_assert_eq!(a.union(&b), set(&(&one | &other)));
            prop_assert_eq!(a.intersection(&b), set(&(&one & &other)));
            prop_assert_eq!(a.without(&b), set(&(&one - &other)));
            prop_assert_eq!(a.is_subset(&b), one.is_subset(&other));
            let mut less = a;
            other.iter().for_each(|&v| less.remove(v));
            prop_assert_eq!(less, a.without(&b));
        }
    }
}
