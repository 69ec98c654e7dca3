//! What operators are shown of a type of transactions.

use crate::graph::{Graph, VertexSet};

pub(super) fn type_name(number: u16, graph: &Graph) -> String {
    if graph.name().is_empty() { format!("type {number}") } else { graph.name().to_owned() }
}

pub(super) fn shown(graph: &Graph) -> String {
    let graph = &as_registered(graph);
    let counted = |count: Option<u128>| count.map_or("very many".to_owned(), |count| count.to_string());
    let length = graph.critical_length(&VertexSet::EMPTY);
    let groups = counted(graph.complete_groups_count_if_quick());
    let classes = counted(graph.compressed_groups_count_if_quick());
    format!(
        "{} accesses, critical length {length}, {groups} complete groups, {classes} where interchangeable ones are one",
        graph.len()
    )
}

/// Without the vertices that only keep a number for a name which the type's graph does not have.
fn as_registered(graph: &Graph) -> Graph {
    let named: Vec<usize> = (0..graph.len()).filter(|&v| !graph.vertices()[v].name.is_empty()).collect();
    if named.is_empty() || named.len() == graph.len() {
        return graph.clone();
    }
    let place = |v: u16| named.iter().position(|&own| own == usize::from(v)).map(|at| at as u16);
    let edges: Vec<(u16, u16)> =
        graph.edges().iter().filter_map(|&(from, to)| Some((place(from)?, place(to)?))).collect();
    let vertices = named.iter().map(|&v| graph.vertices()[v].clone()).collect();
    Graph::new(vertices, &edges).unwrap_or_else(|_| graph.clone())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Vertex;

    #[test]
    fn numbers_without_a_vertex_are_no_accesses() {
        let vertex = |name: &str| Vertex { name: name.to_owned(), writes: false };
        let graph = Graph::new(["A", "C", "S"].map(vertex).into(), &[(0, 1), (0, 2)]).expect("a graph");
        let renumbered = graph.renumbered(&[1, 2, 4]).expect("a graph");
        assert_eq!((renumbered.len(), shown(&renumbered)), (5, shown(&graph)));
        assert!(shown(&graph).starts_with("3 accesses, critical length 2, "), "{}", shown(&graph));
    }
}
