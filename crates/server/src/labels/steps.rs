//! The names of vertices, the steps of transactions, by their types.

use std::collections::{BTreeMap, BTreeSet};

/// What a label costs beside its bytes.
pub(super) const LABEL_OVERHEAD_BYTES: usize = 32;

/// What a name takes that stands in a list and in an index.
pub(super) fn name_bytes(name: &[u8]) -> usize {
    2 * (name.len() + LABEL_OVERHEAD_BYTES)
}

/// A vertex: the number of its transaction type, 0 for none, its own, from 1 within the type, and its name.
pub type VertexLabel = (u16, u16, Box<[u8]>);

/// The names of all vertices.
#[derive(Default)]
pub(super) struct VertexNames {
    /// In the order in which they were named.
    pub list: Vec<VertexLabel>,
    /// By type: names with their numbers.
    types: BTreeMap<u16, hashbrown::HashMap<Box<[u8]>, u16, foldhash::quality::RandomState>>,
    /// Types that have a graph.
    pub graphed: BTreeSet<u16>,
}

impl VertexNames {
    /// The number of a name that is known.
    pub fn number(&self, txn_type: u16, name: &[u8]) -> Option<u16> {
        self.types.get(&txn_type).and_then(|names| names.get(name)).copied()
    }

    /// The number of a new name.
    pub fn add(&mut self, txn_type: u16, name: &[u8]) -> u16 {
        let names = self.types.entry(txn_type).or_default();
        let number = names.len() as u16 + 1;
        names.insert(name.into(), number);
        self.list.push((txn_type, number, name.into()));
        number
    }

    /// Forgets the vertices of a type; the bytes of their names.
    pub fn forget(&mut self, txn_type: u16) -> usize {
        if self.types.remove(&txn_type).is_none() {
            return 0;
        }
        let gone = |(of, ..): &VertexLabel| *of == txn_type;
        let bytes = self.list.iter().filter(|label| gone(label)).map(|label| name_bytes(&label.2)).sum();
        self.list.retain(|label| !gone(label));
        bytes
    }

    /// The type without a graph that has most vertices.
    pub fn widest(&self) -> Option<u16> {
        let types = self.types.iter().filter(|(number, _)| !self.graphed.contains(number));
        types.max_by_key(|(_, names)| names.len()).map(|(number, _)| *number)
    }
}
