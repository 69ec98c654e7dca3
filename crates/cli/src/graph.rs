//! `forebay graph`: transaction types, their groups, and a picture of them.

mod picture;
mod sql;

pub use sql::parse as parse_sql;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use forebay::graph::{Graph, Groups, Load, POWERSET_VERTICES_MAX, Scorer, Scratch, VertexSet};
use forebay_server::graphs::{parse_types, read_types};
use forebay_sim::inference::{self, quoted};

use crate::error::CommandError;
use crate::output::Output;
use crate::say;

/// Groups that are listed; of more only the number is shown.
const GROUPS_SHOWN_MAX: usize = 64;

const EXAMPLES: &str = "\
A vertex is an access; an edge leads to it from each access that determines its
key, or what it writes. A file of transaction types is TOML:
  [[type]]
  name = \"Balance\"
  [[type.vertex]]
  name = \"account\"
  [[type.vertex]]
  name = \"savings\"
  after = [\"account\"]
  [[type.vertex]]
  name = \"w:savings\"
  after = [\"savings\"]
  writes = true

or, where it ends in .sql, SQL. Annotations are comments:
  -- @transaction Deposit(:name, :amount)
  SELECT custid FROM account WHERE name = :name;
  SELECT bal FROM savings WHERE custid = :custid;
  -- @name w:savings
  UPDATE savings SET bal = :bal + :amount WHERE custid = :custid;

Each statement is a vertex, named after its table or by @name. A :name is a
parameter of the transaction, or a column that an earlier statement selects or
returns, by its name or AS another; the latter makes the edge. What SQL does not
show: '-- @let :new = :bal - :amount' computes a value between statements,
'-- @after account' adds an edge. A JOIN is an access for each table, in the order
in which their rows are found; @name gives their names between commas. A query
inside another is an access as well: write it as a statement before.

$1 and ? stand for the column that they are compared with or assigned to: custid =
$1 comes from the earlier statement that selects custid, user_id = $1 also from
the one that selects the id of users. SQL without annotations is read so too, its
literals included, as a program or a log has it: BEGIN; .. COMMIT; is a
transaction, and those with the same accesses are one type, t1, t2 and so on. That
is a proposal for you to review: --out writes it in TOML.

Where nobody knows the accesses of a type by heart, --infer proposes them from a
trace that was recorded with what reads returned: an access whose keys have a word
that another one told comes after that one. What it prints is for you to review.

Examples:
  redis-cli CACHE TRACE START bank.fbt 5m RETURNED
  forebay graph --infer traces/bank.fbt --out bank.toml
                                          types from what clients did
  forebay graph bank.toml                 which accesses have to be cached together
  forebay graph bank.sql --svg bank.svg   the same as a picture
  forebay graph queries.sql --out types.toml
                                          types from what a program sends
  forebay serve --graphs bank.sql --policy detox
  forebay sim bank.fbt --graphs bank.sql --policy detox,lru --size 25%
      with names of types and accesses as the trace has them";

/// What can be typed after `forebay graph`.
#[derive(Args, Clone, Debug)]
struct GraphArgs {
    /// Transaction types, in TOML or SQL (.sql); of a folder all files that end in .toml or .sql
    #[arg(value_name = "FILE", required_unless_present = "infer")]
    file: Option<PathBuf>,
    /// Draw them into this file, which is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Propose types from this trace (CACHE TRACE START name RETURNED), in TOML, with the evidence as comments
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["file", "svg"])]
    infer: Option<PathBuf>,
    /// Write them into this file in TOML; it must not exist
    #[arg(long, value_name = "FILE", conflicts_with = "svg")]
    out: Option<PathBuf>,
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    GraphArgs::augment_args(Command::new("graph"))
        .about("Show which accesses of a transaction type have to be cached together, and draw it")
        .long_about(None)
        .after_help(EXAMPLES)
        .arg_required_else_help(true)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = GraphArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    if let Some(trace) = &args.infer {
        return infer(trace, args.out.as_deref());
    }
    let file = args.file.unwrap_or_default();
    let output = args.out.as_deref().map(Output::create).transpose()?;
    let types = read(&file)?;
    if let Some(output) = output {
        return write(output, &in_toml(&types));
    }
    let drawing = args.svg.as_deref().map(|svg| Output::replace(svg, &[&file])).transpose()?;
    for (name, graph) in &types {
        say::result(&described(name, graph))?;
    }
    let Some(mut drawing) = drawing else { return Ok(()) };
    let written = drawing.write_all(picture::svg(&types).as_bytes());
    written.map_err(|error| CommandError::Failed(format!("can't write the picture: {error}")))?;
    drawing.finish().map(drop)
}

/// Proposes types from a trace.
fn infer(trace: &Path, out: Option<&Path>) -> Result<(), CommandError> {
    let output = out.map(Output::create).transpose()?;
    let text = inference::infer(trace).map_err(|error| CommandError::Usage(error.to_string()))?;
    // What is proposed can be read again, or says why not.
    parse_types(&text).map_err(|why| CommandError::Failed(format!("{}: {why}", trace.display())))?;
    match output {
        Some(output) => write(output, &text),
        None => say::result(&text),
    }
}

fn write(mut output: Output, types: &str) -> Result<(), CommandError> {
    let written = output.write_all(types.as_bytes());
    written.map_err(|error| CommandError::Failed(format!("can't write the types: {error}")))?;
    output.finish().map(drop)
}

/// The types of a file, or of all files of a folder that end in `.toml` or `.sql`, by name.
pub fn read(path: &Path) -> Result<Vec<(String, Graph)>, CommandError> {
    read_types(path, Some(parse_sql)).map_err(|error| CommandError::Usage(error.to_string()))
}

/// Types in TOML, as they are read.
fn in_toml(types: &[(String, Graph)]) -> String {
    let mut text = String::new();
    for (name, graph) in types {
        text += &format!("{}[[type]]\nname = {}\n", if text.is_empty() { "" } else { "\n" }, quoted(name));
        for (to, vertex) in graph.vertices().iter().enumerate() {
            text += &format!("[[type.vertex]]\nname = {}\n", quoted(&vertex.name));
            text += if vertex.writes { "writes = true\n" } else { "" };
            let before = graph.edges().iter().filter(|(_, of)| usize::from(*of) == to);
            let before: Vec<String> =
                before.map(|(from, _)| quoted(&graph.vertices()[usize::from(*from)].name)).collect();
            if !before.is_empty() {
                text += &format!("after = [{}]\n", before.join(", "));
            }
        }
    }
    text
}

fn names(graph: &Graph, set: &VertexSet) -> String {
    set.iter().map(|v| graph.vertices()[v].name.as_str()).collect::<Vec<_>>().join(", ")
}

fn saves((saved, length): (u32, u32), graph: &Graph, group: &VertexSet) -> String {
    format!("  saves {saved} of {length}: {{{}}}\n", names(graph, group))
}

/// For each saving a complete group of the fewest accesses.
fn smallest(scorer: &Scorer) -> Vec<VertexSet> {
    let readers = scorer.graph().readers();
    let alike = |v| if readers.contains(v) { Load::Keys { frequency: 1.0, size: 1 } } else { Load::Never };
    let loads: Vec<Load> = (0..scorer.graph().len()).map(alike).collect();
    let picks = scorer.best_by_reduction(&loads, &mut Scratch::default());
    picks.into_iter().map(|pick| pick.vertices).collect()
}

/// A type in words.
fn described(name: &str, graph: &Graph) -> String {
    let length = graph.critical_length(&VertexSet::EMPTY);
    let mut text = format!("{name}: {} accesses, critical length {length}\n", graph.len());
    let counted = |count: Option<u128>| count.map_or("very many".to_owned(), |count| count.to_string());
    text += &format!(
        "  complete groups: {}, {} where interchangeable ones are one\n",
        counted(graph.complete_groups_count()),
        counted(graph.compressed_groups_count()),
    );
    let scorer = Scorer::new(Arc::new(graph.clone()));
    for class in scorer.classes() {
        let sets: Vec<String> = class.iter().map(|unit| format!("{{{}}}", names(graph, unit))).collect();
        text += &format!("  interchangeable: {}\n", sets.join(" "));
    }
    // Listed only where few enough can be expected; the powerset is tried for that.
    let few = graph.complete_groups_count().is_some_and(|count| count <= GROUPS_SHOWN_MAX as u128);
    match Groups::of(graph, POWERSET_VERTICES_MAX).filter(|_| few) {
        Some(groups) => {
            for group in groups.list() {
                text += &saves((group.hits, length), graph, &group.vertices);
            }
        }
        None => {
            text += &format!(
                "  more than groups_shown_max {GROUPS_SHOWN_MAX}, or of more than {POWERSET_VERTICES_MAX} accesses; \
                 for each saving one with the fewest accesses:\n"
            );
            for group in smallest(&scorer) {
                text += &saves((length - graph.critical_length(&group), length), graph, &group);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_server::graphs::parse_types as parse;

    const FIGURE_6A: &str = "[[type]]\nname = 'T'\n[[type.vertex]]\nname = 'd'\nafter = ['c']\n[[type.vertex]]\n\
        name = 'a'\n[[type.vertex]]\nname = 'b'\nafter = ['a']\n[[type.vertex]]\nname = 'c'\nafter = ['a']\n";

    #[test]
    fn types_are_read_and_described() {
        let types = parse(FIGURE_6A).expect("types");
        let text = described(&types[0].0, &types[0].1);
        assert!(text.starts_with("T: 4 accesses, critical length 3\n  complete groups: 7, "), "{text}");
        assert!(text.contains("interchangeable: {c} {d}") || text.contains("interchangeable: {d} {c}"), "{text}");
        assert!(text.contains("saves 1 of 3: {c}\n") && text.contains("saves 2 of 3: {d, b, c}\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("saves")).count(), 7, "{text}");
        let vertex = |name: &str, more: &str| format!("[[type.vertex]]\nname = '{name}'\n{more}\n");
        let chain = vertex("a", "") + &vertex("b", "after = ['a']") + &vertex("w", "after = ['b']\nwrites = true");
        let types = parse(&format!("[[type]]\nname = 'T'\n{chain}")).expect("types");
        let text = described(&types[0].0, &types[0].1);
        assert!(text.contains("interchangeable: {a} {b}\n"), "a write is in no group: {text}");
    }

    /// A ladder: `rungs` accesses in a row, each beside another one.
    fn ladder(rungs: usize) -> Graph {
        let (mut text, mut before) = ("[[type]]\nname = 'T'\n".to_owned(), String::new());
        for rung in 0..rungs {
            let [a, b] = ["a", "b"].map(|side| format!("{side}{rung}"));
            for name in [&a, &b] {
                text += &format!("[[type.vertex]]\nname = '{name}'\nafter = [{before}]\n");
            }
            before = format!("'{a}', '{b}'");
        }
        parse(&text).expect("types").remove(0).1
    }

    #[test]
    fn of_large_types_the_smallest_groups_are_shown() {
        // Fourteen accesses could be tried one by one, and have too many groups; forty are too many for that, too.
        for rungs in [7, 20] {
            let (graph, text) = (ladder(rungs), described("T", &ladder(rungs)));
            assert!(text.contains(&format!("more than groups_shown_max {GROUPS_SHOWN_MAX}")), "{text}");
            let lines: Vec<&str> = text.lines().filter(|line| line.contains("  saves ")).collect();
            assert_eq!(lines.len(), rungs, "one for each saving: {text}");
            let accesses = |line: &str| line.split(',').count();
            let fewest: Vec<usize> = (1..=rungs).map(|saved| 2 * saved).collect();
            assert_eq!(lines.iter().map(|line| accesses(line)).collect::<Vec<_>>(), fewest, "{text}");
            assert!(lines[0].starts_with(&format!("  saves 1 of {rungs}: {{")), "{text}");
            assert!(smallest(&Scorer::new(Arc::new(graph.clone()))).iter().all(|group| graph.is_complete(group)));
        }
    }

    #[test]
    fn what_is_written_in_toml_is_read_again() {
        let mut types = parse_sql(include_str!("../../../testdata/sql/smallbank.sql")).expect("types");
        types.extend(parse("[[type]]\nname = 'a \"b\" \\'\n[[type.vertex]]\nname = '\\\u{e9}'\n").expect("a type"));
        assert_eq!(parse(&in_toml(&types)).expect("types"), types);
    }

    #[test]
    fn every_workloads_types_are_read() {
        for workload in forebay_workload::generate::WORKLOADS {
            let text = forebay_workload::generate::types_toml(workload, workload.defaults.1);
            let types = (workload.types)(workload.defaults.1);
            let graphs: Vec<_> =
                types.iter().filter_map(|of_type| Some((of_type.name, of_type.graph()?.ok()?))).collect();
            match parse(&text) {
                Ok(read) => {
                    assert!(
                        read.iter().map(|(name, graph)| (name.as_str(), graph)).eq(graphs.iter().map(|(n, g)| (*n, g)))
                    )
                }
                Err(why) => {
                    assert!(graphs.is_empty() && why.contains("no transaction type"), "{}: {why}", workload.name)
                }
            }
        }
    }
}
