//! Which entries of a shard have a tag.
//!
//! The entries of one tag are a list, from the one that came in first to the last. A node of a list is found by its
//! tag and its slot. So an entry leaves the lists of its tags in as many steps as it has tags. A tag without entries
//! takes no memory. The shard's lock guards it.

use hashbrown::HashTable;

/// No slot; slots have numbers of 31 bits.
const NONE: u32 = u32::MAX;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Nodes for which there is always room.
const NODES_MIN: usize = 32;

/// An entry in the list of one of its tags.
struct Node {
    tag: u64,
    slot: u32,
    before: u32,
    after: u32,
}

/// The list of a tag.
struct List {
    tag: u64,
    first: u32,
    last: u32,
    len: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Tagged {
    nodes: HashTable<Node>,
    lists: HashTable<List>,
}

fn spread(tag: u64, slot: u32) -> u64 {
    let product = u128::from(tag ^ u64::from(slot) << 32) * u128::from(SPREAD);
    product as u64 ^ (product >> 64) as u64
}

fn hash_of(node: &Node) -> u64 {
    spread(node.tag, node.slot)
}

fn hash_of_list(list: &List) -> u64 {
    spread(list.tag, 0)
}

impl Tagged {
    /// Adds an entry that does not have the tag yet.
    pub fn add(&mut self, tag: u64, slot: u32) {
        let is_list = |list: &List| list.tag == tag;
        let new = || List { tag, first: slot, last: NONE, len: 0 };
        let mut list = self.lists.entry(spread(tag, 0), is_list, hash_of_list).or_insert_with(new);
        let list = list.get_mut();
        let before = std::mem::replace(&mut list.last, slot);
        list.len += 1;
        if let Some(before) = self.node(tag, before) {
            before.after = slot;
        }
        debug_assert!(self.node(tag, slot).is_none(), "a tag is added once");
        self.nodes.insert_unique(spread(tag, slot), Node { tag, slot, before, after: NONE }, hash_of);
    }

    /// Takes the tag of an entry away.
    pub fn remove(&mut self, tag: u64, slot: u32) {
        let found = self.nodes.find_entry(spread(tag, slot), |node| node.tag == tag && node.slot == slot);
        let Ok(found) = found else { return debug_assert!(false, "a tag was added") };
        let (Node { before, after, .. }, _) = found.remove();
        if let Some(node) = self.node(tag, before) {
            node.after = after;
        }
        if let Some(node) = self.node(tag, after) {
            node.before = before;
        }
        if let Ok(mut list) = self.lists.find_entry(spread(tag, 0), |list| list.tag == tag) {
            let ends = list.get_mut();
            ends.len -= 1;
            if before == NONE {
                ends.first = after;
            }
            if after == NONE {
                ends.last = before;
            }
            if ends.len == 0 {
                list.remove();
            }
        }
        // Memory that a burst of tags took is given back.
        if self.nodes.len() > NODES_MIN && self.nodes.len() < self.nodes.capacity() / 8 {
            self.nodes.shrink_to(2 * self.nodes.len(), hash_of);
            self.lists.shrink_to(2 * self.lists.len(), hash_of_list);
        }
    }

    /// The entry that has had the tag for longest.
    pub fn first(&self, tag: u64) -> Option<u32> {
        self.lists.find(spread(tag, 0), |list| list.tag == tag).map(|list| list.first)
    }

    /// Entries that have the tag.
    pub fn count(&self, tag: u64) -> usize {
        self.lists.find(spread(tag, 0), |list| list.tag == tag).map_or(0, |list| list.len)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.nodes.allocation_size() + self.lists.allocation_size()
    }

    fn node(&mut self, tag: u64, slot: u32) -> Option<&mut Node> {
        if slot == NONE {
            return None;
        }
        self.nodes.find_mut(spread(tag, slot), |node| node.tag == tag && node.slot == slot)
    }

    /// Panics if lists and nodes contradict each other; answers all tags with their slots, sorted.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn validate(&self) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        for list in &self.lists {
            let (mut at, mut before, mut len) = (list.first, NONE, 0);
            while at != NONE {
                let node = self.nodes.find(spread(list.tag, at), |node| node.tag == list.tag && node.slot == at);
                assert!(node.is_some(), "what a list names is there");
                let Some(node) = node else { break };
                assert_eq!(node.before, before, "neighbours know each other");
                found.push((list.tag, at));
                (before, at, len) = (at, node.after, len + 1);
            }
            assert_eq!((list.last, list.len), (before, len), "a list knows its end and its length");
            assert!(len > 0, "a tag without entries has no list");
        }
        assert_eq!(found.len(), self.nodes.len(), "each node stands in a list");
        found.sort_unstable();
        found
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equals_a_set_and_gives_back() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut tagged, mut model) = (Tagged::default(), BTreeSet::new());
        let steps = if cfg!(miri) { 400 } else { 40_000 };
        for step in 0..steps {
            let (tag, slot) = (random.u64(..20), random.u32(..500));
            let grows = step < steps / 2;
            if random.u8(..10) < if grows { 8 } else { 2 } {
                if model.insert((tag, slot)) {
                    tagged.add(tag, slot);
                }
            } else if model.remove(&(tag, slot)) {
                tagged.remove(tag, slot);
            }
            if step % 97 == 0 {
                assert!(tagged.validate().into_iter().eq(model.iter().copied()));
                assert_eq!(tagged.count(tag), model.range((tag, 0)..(tag + 1, 0)).count());
            }
        }
        let most = tagged.bytes();
        for (tag, slot) in std::mem::take(&mut model) {
            tagged.remove(tag, slot);
        }
        assert!(tagged.is_empty() && tagged.lists.is_empty() && tagged.first(3).is_none());
        assert!(cfg!(miri) || tagged.bytes() < most / 4, "{} of {most}", tagged.bytes());
    }

    #[test]
    fn the_first_is_the_oldest() {
        let mut tagged = Tagged::default();
        (0..5).for_each(|slot| tagged.add(1, slot));
        tagged.remove(1, 0);
        tagged.add(1, 0);
        let order: Vec<u32> = std::iter::from_fn(|| {
            let first = tagged.first(1)?;
            tagged.remove(1, first);
            Some(first)
        })
        .collect();
        assert_eq!(order, [1, 2, 3, 4, 0]);
    }
}
