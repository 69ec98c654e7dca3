//! Workloads as traces: transactions with their types, levels and vertices, in key-value form. One seed, one output.
//!
//! A workload is one record in [`WORKLOADS`] beside its generator. The record has a name, defaults, the types of its
//! transactions (as graphs), and a function that makes a [`Generate`]. [`records`] turns what that generates into
//! trace records, and [`write`] into a file of forebay's own format. Keys are numbers: the table in the upper bits,
//! the row in the lower.
//!
//! Levels say what a transaction asks for at the same time, vertices which access of the type's graph it is. A vertex
//! that is asked for several keys (the lines of an order) needs all of them.

mod bg;
pub(crate) mod draw;
mod epinions;
mod micro;
mod smallbank;
mod taobench;
mod tpcc;
mod ycsb;

use std::io::Write;

use forebay::graph::{Graph, GraphError, Vertex};
use forebay_trace::{Kind, Record, TraceError, TraceKey, fbt};

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

/// All workloads, the table from which help texts are made.
pub const WORKLOADS: &[&Workload] = &[
    &micro::MICRO_1,
    &micro::MICRO_2,
    &smallbank::SMALLBANK,
    &epinions::EPINIONS,
    &tpcc::TPCC,
    &tpcc::TPCC_BATCHED,
    &taobench::MIX_A,
    &taobench::MIX_A_SHIFT,
    &taobench::MIX_B,
    &taobench::MIX_C,
    &taobench::PG1,
    &taobench::WORKLOAD_A,
    &taobench::WORKLOAD_O,
    &ycsb::A,
    &ycsb::B,
    &ycsb::C,
    &ycsb::D,
    &ycsb::E,
    &ycsb::F,
    &ycsb::KAIROS,
    &bg::ALL[0],
    &bg::ALL[1],
    &bg::ALL[2],
    &bg::ALL[3],
    &bg::ALL[4],
    &bg::ALL[5],
    &bg::ALL[6],
    &bg::ALL[7],
    &bg::ALL[8],
    &bg::ALL[9],
    &bg::ALL[10],
    &bg::ALL[11],
    &bg::ALL[12],
];

/// The workload of this name.
pub fn workload(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name).copied()
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
    fn flat(name: &'static str) -> TransactionType {
        TransactionType { name, ..TransactionType::default() }
    }

    /// A type with these vertices, `w:` before those that write, and edges by name: `a>b`.
    fn with(name: &'static str, vertices: &[&str], edges: &[&str]) -> TransactionType {
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
    fn begin(&mut self, txn_type: u16) {
        self.txn_type = txn_type;
        self.asks.clear();
    }

    /// Adds a read; vertices count from 1 here.
    fn read(&mut self, level: u16, vertex: u16, key: u64) {
        self.asks.push(Ask { key, level, vertex, writes: false });
    }

    fn write(&mut self, level: u16, vertex: u16, key: u64) {
        self.asks.push(Ask { key, level, vertex, writes: true });
    }
}

/// Generates transactions without end.
pub trait Generate: Send {
    /// The next transaction, in place of the last.
    fn next(&mut self, transaction: &mut Transaction);
}

/// A key: a table and a row of it.
fn key(table: u64, row: u64) -> u64 {
    table << 40 | row
}

/// The records of a workload: the accesses of each transaction and then its end.
pub fn records(workload: &Workload, options: &Options) -> impl Iterator<Item = Record> + Send + use<> {
    let (mut generate, transactions) = ((workload.new)(options), options.transactions);
    let (mut transaction, mut txn, mut at) = (Transaction::default(), 0, 0);
    std::iter::from_fn(move || {
        if txn == 0 || at > transaction.asks.len() {
            if txn == transactions {
                return None;
            }
            generate.next(&mut transaction);
            (txn, at) = (txn + 1, 0);
        }
        at += 1;
        let Some(ask) = transaction.asks.get(at - 1) else {
            return Some(Record { kind: Kind::Committed, txn, ..Record::default() });
        };
        Some(Record {
            key: TraceKey::Number(ask.key),
            kind: if ask.writes { Kind::Write } else { Kind::Read },
            txn,
            txn_type: transaction.txn_type,
            level: ask.level,
            vertex: ask.vertex,
            ..Record::default()
        })
    })
}

/// Writes a workload as a trace, with the names of types and vertices; the number of records.
pub fn write<W: Write>(workload: &Workload, options: &Options, writer: &mut fbt::Writer<W>) -> Result<u64, TraceError> {
    for (number, of_type) in (1..).zip((workload.types)(options.scale)) {
        writer.define_type(number, of_type.name.into())?;
        for (vertex, (name, _)) in (1..).zip(of_type.vertices) {
            writer.define_vertex(number, vertex, name.into())?;
        }
    }
    for record in records(workload, options) {
        writer.append(&record)?;
    }
    Ok(writer.records())
}

/// The types of a workload as `forebay graph` and `forebay sim --graphs` read them.
pub fn types_toml(workload: &Workload, scale: u64) -> String {
    let mut text = format!("# Transaction types of {}: {}\n", workload.name, workload.summary);
    for of_type in (workload.types)(scale).iter().filter(|of_type| !of_type.vertices.is_empty()) {
        text += &format!("\n[[type]]\nname = \"{}\"\n", of_type.name);
        for (vertex, (name, writes)) in of_type.vertices.iter().enumerate() {
            let after: Vec<String> = of_type
                .edges
                .iter()
                .filter(|(_, to)| usize::from(*to) == vertex)
                .map(|(from, _)| format!("\"{}\"", of_type.vertices[usize::from(*from)].0))
                .collect();
            text += &format!("\n[[type.vertex]]\nname = \"{name}\"\n");
            text += if *writes { "writes = true\n" } else { "" };
            if !after.is_empty() {
                text += &format!("after = [{}]\n", after.join(", "));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
