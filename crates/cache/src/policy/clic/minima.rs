//! Which of many numbers is the least: a tree of minima, with the least one at its root. To change a number takes at
//! most as many steps as the tree has levels.

/// The numbers, infinite at first.
pub(super) struct Minima {
    /// Node n has the nodes 2n and 2n + 1 below it, and is the lesser of them, of equal ones the first; the numbers
    /// themselves, each with its place, are the second half.
    nodes: Vec<(f32, u32)>,
}

impl Minima {
    /// For `len` numbers.
    pub fn new(len: usize) -> Minima {
        let half = len.next_power_of_two();
        // Over numbers that are all equal the first of them stands.
        let first = |node: usize| (node << node.leading_zeros().saturating_sub(half.leading_zeros())) & (half - 1);
        Minima { nodes: (0..2 * half).map(|node| (f32::INFINITY, first(node) as u32)).collect() }
    }

    /// Changes a number.
    #[inline]
    pub fn set(&mut self, at: usize, number: f32) {
        let mut node = self.nodes.len() / 2 + at;
        if self.nodes[node].0 == number {
            return;
        }
        self.nodes[node].0 = number;
        while node > 1 {
            let (first, second) = (self.nodes[node & !1], self.nodes[node | 1]);
            let least = if second.0 < first.0 { second } else { first };
            node /= 2;
            if self.nodes[node] == least {
                break;
            }
            self.nodes[node] = least;
        }
    }

    /// The first of the least numbers.
    pub fn first(&self) -> usize {
        self.nodes[1].1 as usize
    }

    /// A number.
    pub fn get(&self, at: usize) -> f32 {
        self.nodes[self.nodes.len() / 2 + at].0
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<(f32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(len in 1usize..40, steps in prop::collection::vec((0usize..40, 0u8..9), 0..100)) {
            let (mut minima, mut model) = (Minima::new(len), vec![f32::INFINITY; len]);
            for (at, number) in steps {
                let number = if number == 8 { f32::INFINITY } else { f32::from(number) };
                minima.set(at % len, number);
                model[at % len] = number;
                let least = model.iter().copied().fold(f32::INFINITY, f32::min);
                prop_assert_eq!(minima.get(at % len), number);
                prop_assert_eq!(model.get(minima.first()).copied(), Some(least));
                prop_assert_eq!(Some(minima.first()), model.iter().position(|&number| number == least));
            }
        }
    }
}
