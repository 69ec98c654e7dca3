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
mod workload;
mod ycsb;

use std::io::Write;

use forebay_trace::{Kind, Record, TraceError, TraceKey, fbt};

use workload::key;
pub use workload::{Ask, Generate, Options, Transaction, TransactionType, Workload};

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
