//! Doubly linked lists of slots, kept as indices in one vector: no allocation per entry, O(1) everywhere.
//!
//! Any number of lists share the nodes, and a slot is in at most one of them. So "which list" is the slot's state
//! (small or main, probation or protected, pinned), and no second record of it can disagree.

use super::Slot;
use crate::ahead::prefetch;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// Bytes of list metadata per slot.
pub(super) const NODE_BYTES: usize = size_of::<Node>();

/// Bytes of a list without slots.
pub(super) const LIST_BYTES: usize = size_of::<Ends>();

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    /// The list that it is in, [`NO_LIST`] for a slot that is not in, and above it the owner's note.
    list_and_note: u32,
    weight: u32,
}

/// Where the note begins: a byte that would cost four as a field.
const NOTE_SHIFT: u32 = 24;

/// There are fewer lists than this.
const NO_LIST: u32 = (1 << NOTE_SHIFT) - 1;

const OUT: Node = Node { older: NONE, newer: NONE, list_and_note: NO_LIST, weight: 0 };

impl Node {
    fn list(&self) -> u32 {
        self.list_and_note & NO_LIST
    }

    fn note(&self) -> u8 {
        (self.list_and_note >> NOTE_SHIFT) as u8
    }
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    len: u32,
    weight: u64,
}

impl Ends {
    fn gains(&mut self, weight: u32) {
        self.len += 1;
        self.weight += u64::from(weight);
    }

    fn loses(&mut self, weight: u32) {
        self.len -= 1;
        self.weight -= u64::from(weight);
    }
}

const EMPTY: Ends = Ends { oldest: NONE, newest: NONE, len: 0, weight: 0 };

/// Lists over slots, each from oldest to newest, with their weights.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    nodes: Vec<Node>,
    ends: Vec<Ends>,
}

impl Lists {
    /// `lists` empty lists, numbered from 0.
    pub fn new(lists: usize) -> Lists {
        Lists { nodes: Vec::new(), ends: vec![EMPTY; lists] }
    }

    /// One more empty list; its number.
    pub fn add_list(&mut self) -> u32 {
        assert!(self.ends.len() < NO_LIST as usize, "a list more than nodes can name");
        self.ends.push(EMPTY);
        self.ends.len() as u32 - 1
    }

    /// The list that `slot` is in.
    pub fn list_of(&self, slot: Slot) -> Option<u32> {
        self.nodes.get(slot as usize).map(Node::list).filter(|&list| list != NO_LIST)
    }

    /// Number of slots in a list.
    pub fn len(&self, list: u32) -> usize {
        self.ends[list as usize].len as usize
    }

    /// Whether a list has no slot.
    pub fn is_empty(&self, list: u32) -> bool {
        self.len(list) == 0
    }

    /// Sum of the weights in a list.
    pub fn weight(&self, list: u32) -> u64 {
        self.ends[list as usize].weight
    }

    /// What a slot that is in weighs.
    pub fn weight_of(&self, slot: Slot) -> u32 {
        self.nodes[slot as usize].weight
    }

    /// The slot that was put into the list first.
    pub fn oldest(&self, list: u32) -> Option<Slot> {
        some(self.ends[list as usize].oldest)
    }

    /// Both ends of a list, the oldest first; what they are of an empty list is no slot.
    #[inline]
    pub fn ends(&self, list: u32) -> (Slot, Slot) {
        let ends = &self.ends[list as usize];
        (ends.oldest, ends.newest)
    }

    /// The neighbour of `slot` that was put into its list after it.
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        some(self.nodes[slot as usize].newer)
    }

    /// Puts a slot that is in no list at the newest end of `list`.
    #[inline]
    pub fn push(&mut self, list: u32, slot: Slot, weight: u32) {
        super::reach(&mut self.nodes, slot, OUT);
        assert!(self.nodes[slot as usize].list() == NO_LIST, "a slot is in a list already");
        self.link(slot, Node { older: NONE, newer: NONE, list_and_note: list, weight });
        self.ends[list as usize].gains(weight);
    }

    /// No slot from this one on is in a list any more.
    pub fn fits(&mut self, slots: usize) {
        super::fit(&mut self.nodes, slots);
    }

    /// Takes a slot out of its list; its weight.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> u32 {
        let node = std::mem::replace(&mut self.nodes[slot as usize], OUT);
        assert!(node.list() != NO_LIST, "a slot is in no list");
        self.unlink(&node);
        self.ends[node.list() as usize].loses(node.weight);
        node.weight
    }

    /// Moves a slot to the newest end of `list`, which may be its own; its note stays.
    #[inline]
    pub fn move_to(&mut self, list: u32, slot: Slot) {
        let node = self.nodes[slot as usize];
        let from = node.list();
        if from == list && node.newer == NONE {
            return;
        }
        assert!(from != NO_LIST, "a slot is in no list");
        if from != list {
            return self.move_over(list, slot, node);
        }
        // Within a list nothing is counted: each move would have to wait for the one before. There is a newer one.
        let ends = &mut self.ends[list as usize];
        let newest = std::mem::replace(&mut ends.newest, slot);
        match some(node.older) {
            Some(older) => self.nodes[older as usize].newer = node.newer,
            None => ends.oldest = node.newer,
        }
        self.nodes[node.newer as usize].older = node.older;
        self.nodes[newest as usize].newer = slot;
        self.nodes[slot as usize] = Node { older: newest, newer: NONE, ..node };
    }

    /// Moves a slot, which is in another list, to the newest end of `list`.
    fn move_over(&mut self, list: u32, slot: Slot, node: Node) {
        self.unlink(&node);
        self.link(slot, Node { list_and_note: list | (node.list_and_note & !NO_LIST), ..node });
        self.ends[node.list() as usize].loses(node.weight);
        self.ends[list as usize].gains(node.weight);
    }

    /// Moves a slot to the oldest end of `list`, which may be its own; its note stays.
    pub fn move_to_oldest(&mut self, list: u32, slot: Slot) {
        self.move_to(list, slot);
        let Some(oldest) = self.oldest(list).filter(|&oldest| oldest != slot) else { return };
        let node = self.nodes[slot as usize];
        self.unlink(&node);
        self.nodes[slot as usize] = Node { older: NONE, newer: oldest, ..node };
        self.nodes[oldest as usize].older = slot;
        self.ends[list as usize].oldest = slot;
    }

    /// Puts the node of `slot` at the newest end of the list that it names.
    #[inline]
    fn link(&mut self, slot: Slot, node: Node) {
        let ends = &mut self.ends[node.list() as usize];
        self.nodes[slot as usize] = Node { older: ends.newest, newer: NONE, ..node };
        match some(ends.newest) {
            Some(newest) => self.nodes[newest as usize].newer = slot,
            None => ends.oldest = slot,
        }
        ends.newest = slot;
    }

    /// Joins the neighbours of a node, whose slot is then in no list.
    #[inline]
    fn unlink(&mut self, node: &Node) {
        let ends = &mut self.ends[node.list() as usize];
        match some(node.older) {
            Some(older) => self.nodes[older as usize].newer = node.newer,
            None => ends.oldest = node.newer,
        }
        match some(node.newer) {
            Some(newer) => self.nodes[newer as usize].older = node.older,
            None => ends.newest = node.older,
        }
    }

    /// These slots are going to be moved: asks for the memory of their nodes and of their neighbours'.
    pub fn ahead(&self, slots: impl Iterator<Item = Slot> + Clone) {
        let nodes = slots.filter_map(|slot| self.nodes.get(slot as usize));
        nodes.clone().for_each(prefetch);
        for slot in nodes.flat_map(|node| [node.older, node.newer]) {
            if let Some(node) = self.nodes.get(slot as usize) {
                prefetch(node);
            }
        }
    }

    /// What the owner noted of a slot that is in; 0 at first.
    pub fn note(&self, slot: Slot) -> u8 {
        self.nodes[slot as usize].note()
    }

    /// Notes something of a slot that is in.
    pub fn set_note(&mut self, slot: Slot, note: u8) {
        let node = &mut self.nodes[slot as usize];
        node.list_and_note = node.list() | u32::from(note) << NOTE_SHIFT;
    }

    /// Gives a slot that is in another weight.
    pub fn set_weight(&mut self, slot: Slot, weight: u32) {
        let node = &mut self.nodes[slot as usize];
        let ends = &mut self.ends[node.list() as usize];
        ends.weight = ends.weight - u64::from(node.weight) + u64::from(weight);
        node.weight = weight;
    }

    /// The slots of a list, from oldest to newest.
    pub fn iter(&self, list: u32) -> impl Iterator<Item = Slot> + '_ {
        std::iter::successors(self.oldest(list), |&slot| self.newer(slot))
    }

    /// Panics if links, lengths, weights and membership contradict each other.
    pub fn validate(&self) {
        let mut linked = 0;
        for (list, ends) in self.ends.iter().enumerate() {
            let (mut len, mut weight, mut older) = (0, 0, NONE);
            for slot in self.iter(list as u32) {
                let node = &self.nodes[slot as usize];
                assert_eq!(node.list() as usize, list, "slot {slot} is linked into a list that it does not name");
                assert_eq!(node.older, older, "slot {slot} does not name its older neighbour");
                older = slot;
                len += 1;
                weight += u64::from(node.weight);
                assert!(len <= self.nodes.len() as u32, "list {list} is a cycle");
            }
            assert_eq!((ends.newest, ends.len, ends.weight), (older, len, weight), "list {list}: end, length, weight");
            linked += len as usize;
        }
        let named = self.nodes.iter().filter(|node| node.list() != NO_LIST).count();
        assert_eq!(linked, named, "every slot that names a list is linked into it");
    }
}

fn some(slot: u32) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against vectors: the same members, order and weights after any sequence of operations.
        #[test]
        fn equals_vectors(steps in prop::collection::vec((0u32..12, 0u32..3, 0u8..4, 1u32..9), 0..200)) {
            let mut lists = Lists::new(3);
            let mut model: Vec<Vec<(Slot, u32)>> = vec![Vec::new(); 3];
            let mut notes = std::collections::HashMap::<Slot, u8>::new();
            for (slot, list, operation, weight) in steps {
                let place = model.iter().position(|members| members.iter().any(|&(s, _)| s == slot));
                prop_assert_eq!(lists.list_of(slot), place.map(|p| p as u32));
                match (operation, place) {
                    (_, None) => {
                        lists.push(list, slot, weight);
                        model[list as usize].push((slot, weight));
                        notes.insert(slot, 0);
                    }
                    (0, Some(place)) => {
                        lists.remove(slot);
                        model[place].retain(|&(s, _)| s != slot);
                    }
                    (1, Some(place)) => {
                        let at = model[place].iter().position(|&(s, _)| s == slot).expect("is in");
                        let moved = model[place].remove(at);
                        lists.move_to(list, slot);
                        model[list as usize].push(moved);
                    }
                    (2, Some(place)) => {
                        let at = model[place].iter().position(|&(s, _)| s == slot).expect("is in");
                        let moved = model[place].remove(at);
                        lists.move_to_oldest(list, slot);
                        model[list as usize].insert(0, moved);
                    }
                    (_, Some(place)) => {
                        lists.set_weight(slot, weight);
                        model[place].iter_mut().filter(|m| m.0 == slot).for_each(|m| m.1 = weight);
                        let note = 31 * weight as u8;
                        lists.set_note(slot, note);
                        notes.insert(slot, note);
                    }
                }
                lists.validate();
                for (list, members) in model.iter().enumerate() {
                    let slots: Vec<Slot> = members.iter().map(|m| m.0).collect();
                    prop_assert!(slots.iter().all(|&slot| lists.note(slot) == notes[&slot]));
                    prop_assert_eq!(lists.iter(list as u32).collect::<Vec<_>>(), slots);
                    prop_assert_eq!(lists.weight(list as u32), members.iter().map(|m| u64::from(m.1)).sum::<u64>());
                }
            }
        }
    }
}
