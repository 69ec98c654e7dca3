//! Graphs of transaction types, for people.

use super::Type;
use crate::graph::{Graph, VertexSet};

/// What a vertex and an edge of a graph cost in a scorer, roughly: lists of neighbours, order, shape.
const VERTEX_BYTES: usize = 160;
const EDGE_BYTES: usize = 16;

/// Bytes of a graph and what is made of it, roughly.
pub(super) fn graph_bytes(graph: &Graph) -> usize {
    let names: usize = graph.vertices().iter().map(|vertex| vertex.name.len()).sum();
    size_of::<(u16, Type)>() + names + graph.len() * VERTEX_BYTES + graph.edges().len() * EDGE_BYTES
}

/// A type's name, or its number where it has none.
pub(super) fn type_name(number: u16, graph: &Graph) -> String {
    if graph.name().is_empty() { format!("type {number}") } else { graph.name().to_owned() }
}

/// What a graph is like, in a line.
pub(super) fn shown(graph: &Graph) -> String {
    let counted = |count: Option<u128>| count.map_or("very many".to_owned(), |count| count.to_string());
    let length = graph.critical_length(&VertexSet::EMPTY);
    let groups = counted(graph.complete_groups_count_if_quick());
    let classes = counted(graph.compressed_groups_count_if_quick());
    format!(
        "{} accesses, critical length {length}, {groups} complete groups, {classes} where interchangeable ones are one",
        graph.len()
    )
}

/// The least that has to be cached with `vertex` so that it saves something: a complete group with it, made from all
/// vertices that read by leaving out what is not needed.
pub(super) fn company(graph: &Graph, txn_type: u16, vertex: usize) -> String {
    let (name, own) = (type_name(txn_type, graph), &graph.vertices()[vertex].name);
    let length = |group: &VertexSet| graph.critical_length(group);
    let mut group = graph.readers();
    let needed = |group: &VertexSet| length(&group.without(&VertexSet::EMPTY.with(vertex))) > length(group);
    let others: Vec<usize> = graph.readers().iter().filter(|&other| other != vertex).collect();
    for other in others {
        let without = group.without(&VertexSet::EMPTY.with(other));
        if needed(&without) {
            group = without;
        }
    }
    let mates: Vec<&str> = group
        .iter()
        .filter(|&v| v != vertex)
        .map(|v| graph.vertices()[v].name.as_str())
        .filter(|n| !n.is_empty())
        .collect();
    match (needed(&group), mates.as_slice()) {
        (false, _) => format!("{own} of {name} saves nothing: others take as long"),
        (true, []) => format!("{own} of {name} saves a round trip by itself"),
        (true, mates) => format!("{own} of {name} saves a round trip together with {}", mates.join(", ")),
    }
}
