//! What a workload is: one record, and the transactions that it generates.

use forebay::graph::{Graph, GraphError, Vertex};

/// What a workload can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Transactions in all.
    pub transactions: u64,
    /// Its size, in the workload's own unit.
    pub scale: u64,
    /// Another seed draws others.
    pub seed: u64,
}

/// One workload, declared once.
pub struct Workload {
    /// The name by which users choose it.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// What `scale` counts: `accounts`.
    pub scale_unit: &'static str,
    /// Transactions and scale if nobody says otherwise.
    pub defaults: (u64, u64),
    /// Its transaction types, in the order of their numbers, from 1; those without edges and vertices go by levels.
    pub types: fn(u64) -> Vec<TransactionType>,
    /// Makes its generator.
    pub new: fn(&Options) -> Box<dyn Generate>,
}

impl Workload {
    /// Its defaults with a seed.
    pub fn options(&self, seed: u64) -> Options {
        Options { transactions: self.defaults.0, scale: self.defaults.1, seed }
    }
}

/// A transaction type and its graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionType {
    /// Its name.
    pub name: &'static str,
    /// Names of its vertices, and whether they write. Empty: it goes by levels.
    pub vertices: Vec<(String, bool)>,
    /// Pairs of vertices, from 0: the first determines the second.
    pub edges: Vec<(u16, u16)>,
}

impl TransactionType {
    /// A type that goes by levels.
    pub(super) fn flat(name: &'static str) -> TransactionType {
        TransactionType { name, ..TransactionType::default() }
    }

    /// A type with these vertices, `w:` before those that write, and edges by name: `a>b`.
    pub(super) fn with(name: &'static str, vertices: &[&str], edges: &[&str]) -> TransactionType {
        let bare = |vertex: &str| vertex.trim_start_matches("w:").to_owned();
        let vertices: Vec<(String, bool)> =
            vertices.iter().map(|vertex| (bare(vertex), vertex.starts_with("w:"))).collect();
        let at = |name: &str| vertices.iter().position(|vertex| vertex.0 == name).map(|at| at as u16);
        let edge = |edge: &&str| {
            let (from, to) = edge.split_once('>')?;
            Some((at(from)?, at(to)?))
        };
        let edges = edges.iter().filter_map(edge).collect();
        TransactionType { name, vertices, edges }
    }

    /// Its graph, if it has one.
    pub fn graph(&self) -> Option<Result<Graph, GraphError>> {
        let vertex = |(name, writes): &(String, bool)| Vertex { name: name.clone(), writes: *writes };
        (!self.vertices.is_empty()).then(|| Graph::new(self.vertices.iter().map(vertex).collect(), &self.edges))
    }
}

/// One access of a generated transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The key.
    pub key: u64,
    /// When it is asked for: levels from 0, one after the other.
    pub level: u16,
    /// Which vertex of the type's graph, 0 for none.
    pub vertex: u16,
    /// Whether it writes.
    pub writes: bool,
}

/// One generated transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Number of its type, from 1.
    pub txn_type: u16,
    /// What it asks for, level by level.
    pub asks: Vec<Ask>,
}

impl Transaction {
    /// Empties it, for another of this type.
    pub(super) fn begin(&mut self, txn_type: u16) {
        self.txn_type = txn_type;
        self.asks.clear();
    }

    /// Adds a read; vertices count from 1 here.
    pub(super) fn read(&mut self, level: u16, vertex: u16, key: u64) {
        self.asks.push(Ask { key, level, vertex, writes: false });
    }

    /// Adds a write.
    pub(super) fn write(&mut self, level: u16, vertex: u16, key: u64) {
        self.asks.push(Ask { key, level, vertex, writes: true });
    }
}

/// Generates transactions without end.
pub trait Generate: Send {
    /// The next transaction, in place of the last.
    fn next(&mut self, transaction: &mut Transaction);
}

/// A key: a table and a row of it.
pub(super) fn key(table: u64, row: u64) -> u64 {
    table << 40 | row
}
