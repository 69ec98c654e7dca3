//! The graphs of transaction types (DeToX, section 4), from a file at the start or from the wire: what a client's type
//! and step names mean to the policy.
//!
//! A graph may cost hit rate when it is wrong, never correctness. So a type without a graph is no error: its
//! transactions go by levels, and are counted. A step that the graph of its type does not have is one, because the
//! client means a vertex that the policy can't know.

mod types;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay::cache::Cache;
use forebay::graph::{ARCS_MAX, Graph, Scorer, VertexSet};
use forebay_protocol::Reply;

use crate::labels::{Labels, VERTICES_MAX, limit};
pub use types::{EDGES_MAX, ReadSql, TYPE_FILES_MAX, TYPES_BYTES_MAX, TYPES_MAX, TypesError, parse_types, read_types};

/// Bytes of all graphs, as [`bytes`] counts them.
pub const GRAPHS_BYTES_MAX: usize = 16 << 20;

/// Types that clients may give graphs: a type that has one keeps its number, and others need some as well.
pub const CLIENT_TYPES_MAX: usize = 1024;

/// What a vertex and an edge count, beside names.
const VERTEX_BYTES: usize = 192;
const EDGE_BYTES: usize = 16;

/// The graphs of a server.
#[derive(Default)]
pub struct Graphs {
    state: Mutex<State>,
    counts: Counts,
}

#[derive(Default)]
struct State {
    /// By the type's number.
    known: BTreeMap<u16, Known>,
    bytes: usize,
}

struct Known {
    graph: Arc<Graph>,
    /// Complete groups, counted once; `None` for very many.
    complete_groups: Option<u128>,
    begun: u64,
    source: Source,
}

/// Where a graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the operator's files: no client replaces it.
    Operator,
    /// From a client, TXN TYPE.
    Client,
}

/// A type with the numbers that its names have here, and what is computed of it while nobody waits.
struct Numbered {
    number: u16,
    graph: Arc<Graph>,
    complete_groups: Option<u128>,
}

#[derive(Default)]
struct Counts {
    replaced: AtomicU64,
    refused: AtomicU64,
    begun_without: AtomicU64,
    wrong_vertices: AtomicU64,
}

/// What became of types that were registered together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Types that had no graph before.
    pub new: usize,
    /// Types that had another one.
    pub replaced: usize,
    /// Types that had this one.
    pub same: usize,
}

/// What is shown of all graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphFigures {
    /// Types with a graph.
    pub graphs: u64,
    /// Complete groups of all of them, as far as they can be counted.
    pub complete_groups: u64,
    /// Graphs that took the place of another.
    pub replaced: u64,
    /// Registrations that were refused.
    pub refused: u64,
    /// Transactions begun with a type that has no graph.
    pub begun_without: u64,
    /// Steps to a vertex that the type's graph does not have.
    pub wrong_vertices: u64,
}

/// One type, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFigures {
    /// Its name.
    pub name: String,
    /// Vertices.
    pub vertices: usize,
    /// With nothing cached.
    pub critical_length: u32,
    /// Complete groups; `None` for very many.
    pub complete_groups: Option<u128>,
    /// Transactions begun with it.
    pub begun: u64,
}

impl Graphs {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes types in, all of them or none, and tells the policy. A type that has a graph gets the new one, from the
    /// next of its transactions that ends. A client replaces no graph of the operator's. `kept`: a trace is written.
    pub fn register(
        &self,
        types: Vec<(String, Graph)>,
        source: Source,
        (labels, kept): (&Labels, bool),
        cache: &Cache,
    ) -> Result<Registered, Reply> {
        let taken = self.take(types, source, (labels, kept), cache);
        taken.inspect_err(|_| self.count_refused())
    }

    /// Counts a refusal that was decided elsewhere.
    pub fn count_refused(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What stands against taking these types from a client: asked before their names are taken for good.
    fn check_client(&self, types: &[(String, Graph)]) -> Result<(), Reply> {
        let state = self.lock();
        let known = |name: &str| state.known.values().find(|known| known.graph.name() == name);
        let others = types.iter().filter(|(name, _)| known(name).is_none()).count();
        let clients = state.known.values().filter(|known| known.source == Source::Client).count();
        if clients + others > CLIENT_TYPES_MAX {
            return Err(Reply::error(format!("LIMIT client_types_max {CLIENT_TYPES_MAX}")));
        }
        Ok(())
    }

    fn take(
        &self,
        types: Vec<(String, Graph)>,
        source: Source,
        (labels, kept): (&Labels, bool),
        cache: &Cache,
    ) -> Result<Registered, Reply> {
        if source == Source::Client {
            self.check_client(&types)?;
        }
        // Before the lock is taken, since it takes long. Numbers of names stay as they are.
        let numbered = types.into_iter().map(|(name, graph)| numbered(&name, graph, labels, kept));
        let numbered = numbered.collect::<Result<Vec<Numbered>, Reply>>()?;
        let mut state = self.lock();
        let operators = |of: &&Numbered| {
            let known = state.known.get(&of.number);
            known.is_some_and(|known| known.source == Source::Operator && known.graph != of.graph)
        };
        if source == Source::Client
            && let Some(of) = numbered.iter().find(operators)
        {
            let name = of.graph.name();
            return Err(Reply::error(format!("ERR type '{name}' is the operator's (graphs); choose another name")));
        }
        let replaced = |of: &Numbered| state.known.get(&of.number).map_or(0, |known| bytes(&known.graph));
        let after = state.bytes + numbered.iter().map(|of| bytes(&of.graph)).sum::<usize>();
        let after = after - numbered.iter().map(replaced).sum::<usize>();
        if after > GRAPHS_BYTES_MAX {
            return Err(Reply::error(format!("LIMIT graphs_bytes_max {GRAPHS_BYTES_MAX}")));
        }
        state.bytes = after;
        let mut registered = Registered::default();
        for Numbered { number, graph, complete_groups } in numbered {
            match state.known.get_mut(&number) {
                Some(known) if known.graph == graph => {
                    registered.same += 1;
                    if source == Source::Operator {
                        known.source = source;
                    }
                    continue;
                }
                Some(known) => {
                    known.source = source;
                    (known.graph, known.complete_groups) = (graph.clone(), complete_groups);
                    registered.replaced += 1;
                    self.counts.replaced.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    state.known.insert(number, Known { graph: graph.clone(), complete_groups, begun: 0, source });
                    registered.new += 1;
                }
            }
            cache.register_graph(number, &graph);
        }
        Ok(registered)
    }

    /// A transaction of this type begins.
    pub fn begun(&self, txn_type: u16) {
        match self.lock().known.get_mut(&txn_type) {
            Some(known) => known.begun += 1,
            None => {
                self.counts.begun_without.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The number of a vertex of a type, from 1; where the type has no graph, each name is one.
    /// `kept`: see [`Labels::vertex`].
    pub fn vertex(
        &self,
        labels: &Labels,
        txn_type: u16,
        name: &[u8],
        kept: impl FnOnce() -> bool,
    ) -> Result<u16, Reply> {
        {
            let state = self.lock();
            if let Some(known) = state.known.get(&txn_type) {
                let vertices = known.graph.vertices();
                let found = vertices.iter().position(|vertex| vertex.name.as_bytes() == name && !name.is_empty());
                return found.map(|at| at as u16 + 1).ok_or_else(|| {
                    self.counts.wrong_vertices.fetch_add(1, Ordering::Relaxed);
                    no_vertex(&known.graph, name)
                });
            }
        }
        labels.vertex(txn_type, name, kept)
    }

    /// Number of types with a graph.
    pub fn count(&self) -> usize {
        self.lock().known.len()
    }

    /// Figures of all of them.
    pub fn figures(&self) -> GraphFigures {
        let state = self.lock();
        let groups = state.known.values().filter_map(|known| known.complete_groups);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        GraphFigures {
            graphs: state.known.len() as u64,
            complete_groups: groups.fold(0, |sum, groups| sum.saturating_add(groups.min(u128::from(u64::MAX)) as u64)),
            replaced: count(&self.counts.replaced),
            refused: count(&self.counts.refused),
            begun_without: count(&self.counts.begun_without),
            wrong_vertices: count(&self.counts.wrong_vertices),
        }
    }

    /// Each type that has a graph, at most so many.
    pub fn types(&self, types_max: usize) -> Vec<TypeFigures> {
        let figures = |known: &Known| TypeFigures {
            name: known.graph.name().to_owned(),
            vertices: known.graph.vertices().iter().filter(|vertex| !vertex.name.is_empty()).count(),
            critical_length: known.graph.critical_length(&VertexSet::EMPTY),
            complete_groups: known.complete_groups,
            begun: known.begun,
        };
        self.lock().known.values().take(types_max).map(figures).collect()
    }
}

/// Numbers a type and looks at what it takes to use it.
fn numbered(name: &str, graph: Graph, labels: &Labels, kept: bool) -> Result<Numbered, Reply> {
    // First of all, since the names of a type that is refused should not stay.
    check_arcs(name, &graph)?;
    let number = labels.graphed_type(name.as_bytes())?;
    let vertex = |vertex: &forebay::graph::Vertex| {
        let number = labels.vertex(number, vertex.name.as_bytes(), || kept)?;
        number.checked_sub(1).ok_or_else(|| limit("vertices_max", VERTICES_MAX))
    };
    let vertices = graph.vertices().iter().map(vertex).collect::<Result<Vec<u16>, Reply>>()?;
    let complete_groups = graph.complete_groups_count_if_quick();
    let graph = graph.named(name).renumbered(&vertices);
    let graph = graph.map_err(|error| {
        let why = format!("ERR type '{name}' with the vertices that it had before: {error}");
        Reply::error(why)
    })?;
    // Accesses that the type had before can make it a little more.
    check_arcs(name, &graph)?;
    Ok(Numbered { number, graph: Arc::new(graph), complete_groups })
}

/// Refuses a type whose transactions take long to score, while others wait.
fn check_arcs(name: &str, graph: &Graph) -> Result<(), Reply> {
    let arcs = Scorer::new(Arc::new(graph.clone())).arcs_max();
    if arcs > ARCS_MAX {
        let why = format!("LIMIT arcs_max {ARCS_MAX}: type '{name}' takes {arcs} to score a transaction");
        return Err(Reply::error(format!("{why}; give accesses that go together one vertex, or leave edges out")));
    }
    Ok(())
}

fn bytes(graph: &Graph) -> usize {
    let names: usize = graph.vertices().iter().map(|vertex| vertex.name.len()).sum();
    names + graph.len() * VERTEX_BYTES + graph.edges().len() * EDGE_BYTES
}

fn no_vertex(graph: &Graph, name: &[u8]) -> Reply {
    let names: Vec<&str> =
        graph.vertices().iter().map(|vertex| vertex.name.as_str()).filter(|n| !n.is_empty()).collect();
    let (of_type, name) = (graph.name(), name.escape_ascii());
    Reply::error(format!("ERR type '{of_type}' has no vertex '{name}'; it has {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::cache::CacheOptions;
    use forebay::policy::choose;

    const BALANCE: &str = "[[type]]\nname = 'Balance'\n[[type.vertex]]\nname = 'A'\n[[type.vertex]]\nname = 'C'\n\
        after = ['A']\n[[type.vertex]]\nname = 'S'\nafter = ['A']\n";

    fn cache() -> Cache {
        let choice = choose("detox").unwrap();
        let (policy, policy_values) = (choice.policy, choice.values);
        Cache::new(&CacheOptions { budget_bytes: 1 << 20, partitions: 2, policy, policy_values })
    }

    #[test]
    fn names_keep_their_numbers_when_a_graph_takes_the_place_of_another() {
        let (graphs, labels, cache) = (Graphs::default(), Labels::default(), cache());
        let register =
            |text: &str| graphs.register(parse_types(text).unwrap(), Source::Client, (&labels, false), &cache);
        let vertex = |txn_type, name: &[u8]| graphs.vertex(&labels, txn_type, name, || false);
        assert_eq!(vertex(1, b"anything"), Ok(1), "no graph, no wrong vertex");
        assert_eq!(labels.txn_type(b"Other", || false), Ok(1));
        assert_eq!(register(BALANCE), Ok(Registered { new: 1, ..Registered::default() }));
        assert_eq!(register(BALANCE), Ok(Registered { same: 1, ..Registered::default() }));
        assert_eq!(vertex(2, b"S"), Ok(3));
        let wrong = vertex(2, b"X");
        assert_eq!(wrong, Err(Reply::error("ERR type 'Balance' has no vertex 'X'; it has A, C, S")));
        let other = BALANCE.replace("'C'", "'D'");
        assert_eq!(register(&other), Ok(Registered { replaced: 1, ..Registered::default() }));
        assert_eq!((vertex(2, b"S"), vertex(2, b"D")), (Ok(3), Ok(4)));
        assert!(vertex(2, b"C").is_err() && vertex(2, b"").is_err());
        graphs.begun(2);
        graphs.begun(1);
        let figures = graphs.figures();
        assert_eq!((figures.graphs, figures.replaced, figures.begun_without, figures.wrong_vertices), (1, 1, 1, 3));
        let shown = &graphs.types(9)[0];
        assert_eq!((shown.name.as_str(), shown.vertices, shown.critical_length, shown.begun), ("Balance", 3, 2, 1));
        cache.validate();
    }

    #[test]
    fn a_client_replaces_no_graph_of_the_operators() {
        let (graphs, labels, cache) = (Graphs::default(), Labels::default(), cache());
        let register =
            |text: &str, source| graphs.register(parse_types(text).unwrap(), source, (&labels, false), &cache);
        let other = BALANCE.replace("'C'", "'D'");
        assert_eq!(register(&other, Source::Client).unwrap().new, 1);
        assert_eq!(register(BALANCE, Source::Operator).unwrap().replaced, 1);
        assert_eq!(register(BALANCE, Source::Client).unwrap().same, 1);
        let refused = register(&other, Source::Client);
        let why = "ERR type 'Balance' is the operator's (graphs); choose another name";
        assert_eq!(refused, Err(Reply::error(why)));
        let vertex = |txn_type, name: &[u8]| graphs.vertex(&labels, txn_type, name, || false);
        assert_eq!(vertex(1, b"C").is_ok(), vertex(1, b"D").is_err());
    }

    #[test]
    fn graphs_are_bounded() {
        let (graphs, labels, cache) = (Graphs::default(), Labels::default(), cache());
        let refused = (0..).find_map(|number| {
            let name = |vertex: u32| format!("[[type.vertex]]\nname = 'v{}'\n", vertex + 200 * number);
            let text = format!("[[type]]\nname = 'T'\n{}", (0..200).map(name).collect::<String>());
            graphs.register(parse_types(&text).unwrap(), Source::Client, (&labels, false), &cache).err()
        });
        // The names of a type's vertices stay, so a type that always has others comes to its bound.
        let Some(Reply::Error(text)) = refused else { panic!("an error") };
        assert!(String::from_utf8_lossy(&text).contains("vertices_max 256"), "{text:?}");
        assert_eq!((graphs.figures().refused, graphs.figures().graphs), (1, 1));
    }

    /// A type of two chains, each vertex of one before the next of the other.
    fn ladder(name: &str, half: usize) -> String {
        let vertex = |at: usize| match at {
            0 => "[[type.vertex]]\nname = 'a0'\n[[type.vertex]]\nname = 'b0'\n".to_owned(),
            at => {
                let before = at - 1;
                format!("[[type.vertex]]\nname = 'a{at}'\nafter = ['a{before}']\n")
                    + &format!("[[type.vertex]]\nname = 'b{at}'\nafter = ['a{before}', 'b{before}']\n")
            }
        };
        format!("[[type]]\nname = '{name}'\n{}", (0..half).map(vertex).collect::<String>())
    }

    #[test]
    fn a_type_that_takes_too_long_to_score_is_refused_and_none_of_its_company_is_taken() {
        let (graphs, labels, cache) = (Graphs::default(), Labels::default(), cache());
        let text = format!("{BALANCE}{}", ladder("Tangle", 128));
        let refused = graphs.register(parse_types(&text).unwrap(), Source::Client, (&labels, false), &cache);
        let Err(Reply::Error(why)) = refused else { panic!("an error") };
        let why = String::from_utf8_lossy(&why).into_owned();
        assert!(why.starts_with("LIMIT arcs_max 262144: type 'Tangle' takes "), "{why}");
        assert_eq!((graphs.count(), graphs.figures().refused), (0, 1));
        let small = parse_types(&ladder("Tangle", 6)).unwrap();
        assert_eq!(
            graphs.register(small, Source::Client, (&labels, false), &cache),
            Ok(Registered { new: 1, ..Registered::default() })
        );
    }

    #[test]
    fn groups_are_counted_once_and_only_where_that_is_quick() {
        let (graphs, labels, cache) = (Graphs::default(), Labels::default(), cache());
        let text = format!("{}{}", ladder("Small", 4), ladder("Large", 7));
        let types = parse_types(&text).unwrap();
        let counted = types[0].1.complete_groups_count();
        graphs.register(types, Source::Client, (&labels, false), &cache).unwrap();
        let shown: Vec<_> = graphs.types(9).into_iter().map(|of| (of.name, of.complete_groups)).collect();
        assert_eq!(shown, [("Small".to_owned(), counted), ("Large".to_owned(), None)]);
        assert!(counted.is_some_and(|groups| graphs.figures().complete_groups == groups as u64));
        graphs.lock().known.values_mut().for_each(|known| known.complete_groups = Some(9));
        assert_eq!((graphs.figures().complete_groups, graphs.types(9)[1].complete_groups), (18, Some(9)));
    }
}
