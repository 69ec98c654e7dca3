//! What is known of keys that are not cached, in the order in which they came. Unlike [`super::ghost::Ghosts`], each
//! has something remembered of it, and both ends are in the policy's hands.

use hashbrown::HashTable;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// No more than this many keys in one history, however small they were.
pub(super) const KEYS_MAX: usize = 1 << 22;

struct Node<T> {
    hash: u64,
    older: u32,
    newer: u32,
    weight: u32,
    item: T,
}

/// Keys by hash, from oldest to newest, each with a weight and an item. Its owner bounds it by weight.
pub(super) struct History<T> {
    index: HashTable<u32>,
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    weight: u64,
}

impl<T: Copy> History<T> {
    /// An empty one.
    pub fn new() -> History<T> {
        History { index: HashTable::new(), nodes: Vec::new(), free: Vec::new(), oldest: NONE, newest: NONE, weight: 0 }
    }

    /// Remembers a key as the newest; what was remembered of it before is replaced. Beyond `KEYS_MAX` the oldest goes.
    pub fn push(&mut self, hash: u64, weight: u32, item: T) {
        self.take(hash);
        self.push_new(hash, weight, item);
    }

    /// Likewise for a key that is surely not remembered.
    pub fn push_new(&mut self, hash: u64, weight: u32, item: T) {
        if self.len() >= KEYS_MAX {
            self.pop_oldest();
        }
        let node = Node { hash, older: self.newest, newer: NONE, weight, item };
        let place = self.free.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(place as usize) {
            Some(free) => *free = node,
            None => self.nodes.push(node),
        }
        match self.newest {
            NONE => self.oldest = place,
            newest => self.nodes[newest as usize].newer = place,
        }
        self.newest = place;
        self.weight += u64::from(weight);
        let nodes = &self.nodes;
        self.index.insert_unique(hash, place, |&at| nodes[at as usize].hash);
    }

    /// Forgets a key; what was remembered of it.
    pub fn take(&mut self, hash: u64) -> Option<T> {
        let nodes = &self.nodes;
        let found = self.index.find_entry(hash, |&at| nodes[at as usize].hash == hash).ok()?;
        let (place, _) = found.remove();
        Some(self.unlink(place))
    }

    /// Forgets the oldest key; its hash, and what was remembered.
    pub fn pop_oldest(&mut self) -> Option<(u64, T)> {
        let oldest = self.oldest;
        let hash = self.nodes.get(oldest as usize)?.hash;
        let (place, _) = self.index.find_entry(hash, |&at| at == oldest).ok()?.remove();
        Some((hash, self.unlink(place)))
    }

    /// Forgets the oldest until what is left weighs at most `weight_max`.
    pub fn trim(&mut self, weight_max: u64) {
        while self.weight > weight_max {
            self.pop_oldest();
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Sum of the weights.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>()
            + self.free.capacity() * size_of::<u32>()
            + self.index.allocation_size()
    }

    fn unlink(&mut self, place: u32) -> T {
        let Node { older, newer, weight, item, .. } = self.nodes[place as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        self.weight -= u64::from(weight);
        self.free.push(place);
        item
    }

    /// Panics if links, index and weight contradict each other.
    pub fn validate(&self) {
        let (mut at, mut older, mut len, mut weight) = (self.oldest, NONE, 0, 0);
        while at != NONE {
            let node = &self.nodes[at as usize];
            assert_eq!(node.older, older, "a key names its older neighbour");
            assert!(self.index.find(node.hash, |&found| found == at).is_some(), "a key is found where it stands");
            (len, weight, older, at) = (len + 1, weight + u64::from(node.weight), at, node.newer);
            assert!(len <= self.nodes.len(), "the history is a cycle");
        }
        assert_eq!((older, len, weight), (self.newest, self.len(), self.weight), "end, length, weight");
        assert_eq!(len + self.free.len(), self.nodes.len(), "each place is in use or free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector(steps in prop::collection::vec((0u64..20, 1u32..5, 0u8..10, any::<u16>()), 0..300)) {
            let (mut history, mut model) = (History::new(), Vec::<(u64, u32, u16)>::new());
            for (hash, weight, operation, item) in steps {
                let known = model.iter().position(|key| key.0 == hash).map(|at| (at, model[at].2));
                match operation {
                    0 | 1 => {
                        prop_assert_eq!(history.take(hash), known.map(|(_, item)| item));
                        known.map(|(at, _)| model.remove(at));
                    }
                    2 => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(history.pop_oldest(), oldest.map(|(hash, _, item)| (hash, item)));
                    }
                    3 => {
                        let weight_max = 5 * weight;
                        history.trim(u64::from(weight_max));
                        while model.iter().map(|key| key.1).sum::<u32>() > weight_max {
                            model.remove(0);
                        }
                    }
                    4 if known.is_none() => {
                        history.push_new(hash, weight, item);
                        model.push((hash, weight, item));
                    }
                    _ => {
                        history.push(hash, weight, item);
                        known.map(|(at, _)| model.remove(at));
                        model.push((hash, weight, item));
                    }
                }
                history.validate();
                prop_assert_eq!(history.len(), model.len());
                prop_assert_eq!(history.weight(), model.iter().map(|key| u64::from(key.1)).sum::<u64>());
            }
        }
    }
}
