//! Graphs of transaction types, as a trace numbers types and vertices.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use forebay::graph::{Graph, GraphError, Vertex};
use forebay_trace::dictionary::Dictionary;
use forebay_trace::tools::without_prefix;

use crate::lab_error::LabError;

/// Graphs by the number of their type.
type Numbered = Vec<(u16, Arc<Graph>)>;

/// Graphs by the number of their type, and a line about those whose type the trace does not have. A type's name is
/// looked for as it is, then as mixed traces have it (`1.Balance`, `2.Balance`), then as a number among the types that
/// the trace has seen. An error where there are graphs and no type for any of them: the figures would be those without
/// graphs.
pub(crate) fn numbered(
    path: &Path,
    graphs: &[(String, Graph)],
    dictionary: Option<&Dictionary>,
    seen: &BTreeSet<u16>,
) -> Result<(Numbered, Option<String>), LabError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (name, graph) in graphs {
        let types = types_named(name, graphs, dictionary, seen);
        if types.is_empty() {
            missing.push(name.clone());
        }
        for of_type in types {
            let failed = |error| LabError::Graph { name: name.clone(), error };
            found.push((of_type, as_numbered(name, graph, of_type, dictionary).map_err(failed)?));
        }
    }
    if found.is_empty() && !missing.is_empty() {
        let mut known: Vec<String> = dictionary.map_or(Vec::new(), |known| known.txn_types().map(shown).collect());
        let unnamed = seen.iter().filter(|number| dictionary.is_none_or(|known| known.txn_type(**number).is_none()));
        known.extend(unnamed.map(u16::to_string));
        return Err(LabError::NoGraph { path: path.to_owned(), names: missing, known });
    }
    let line = || format!("--graphs: no transactions of type {}; these graphs have no effect", missing.join(", "));
    Ok((found, (!missing.is_empty()).then(line)))
}

fn shown((_, name): (u16, &bytes::Bytes)) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Numbers of the types that a graph of this name is for.
fn types_named(
    name: &str,
    graphs: &[(String, Graph)],
    dictionary: Option<&Dictionary>,
    seen: &BTreeSet<u16>,
) -> Vec<u16> {
    let known = || dictionary.into_iter().flat_map(Dictionary::txn_types);
    if let Some((number, _)) = known().find(|(_, known)| known[..] == *name.as_bytes()) {
        return vec![number];
    }
    // A type that has a graph of its own keeps it.
    let own = |known: &[u8]| graphs.iter().any(|(name, _)| name.as_bytes() == known);
    let mixed = known().filter(|(_, known)| without_prefix(known) == name.as_bytes() && !own(known));
    let mixed: Vec<u16> = mixed.map(|(number, _)| number).collect();
    match name.parse() {
        Ok(number) if mixed.is_empty() && seen.contains(&number) => vec![number],
        _ => mixed,
    }
}

/// A type's graph with vertices as the trace numbers them: vertex v of an access is v - 1. A vertex that the trace does
/// not name keeps its number if that is free.
fn as_numbered(
    name: &str,
    graph: &Graph,
    of_type: u16,
    dictionary: Option<&Dictionary>,
) -> Result<Arc<Graph>, GraphError> {
    let number_of = |vertex: &Vertex| {
        let mut known = dictionary?.vertices();
        let same = |key: (u16, u16), known: &[u8]| [of_type, 0].contains(&key.0) && *known == *vertex.name.as_bytes();
        let (key, _) = known.find(|(key, known)| same(*key, known))?;
        Some(key.1.saturating_sub(1))
    };
    let numbers: Vec<Option<u16>> = graph.vertices().iter().map(number_of).collect();
    let taken = |number: u16| numbers.contains(&Some(number));
    let mut free = (0..).filter(|&number| !taken(number));
    let numbers: Vec<u16> =
        numbers.iter().map(|number| number.unwrap_or_else(|| free.next().unwrap_or(u16::MAX))).collect();
    graph.clone().named(name).renumbered(&numbers).map(Arc::new)
}
