//! `forebay graph`: transaction types, their groups, and a picture of them.

mod picture;
mod sql;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use forebay::graph::{Graph, Groups, POWERSET_VERTICES_MAX, Scorer, VertexSet};
use forebay_server::graphs::{TYPES_BYTES_MAX, read_types, unreadable};

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

or, where it ends in .sql, SQL with annotations as comments:
  -- @transaction Deposit(:name, :amount)
  SELECT custid FROM account WHERE name = :name;
  SELECT bal FROM savings WHERE custid = :custid;
  -- @name w:savings
  UPDATE savings SET bal = :bal + :amount WHERE custid = :custid;

Each statement is a vertex, named after its table or by @name. A :name is a
parameter of the transaction, or a column that an earlier statement selects or
returns, by its name or AS another; the latter makes the edge. What SQL does not
show: '-- @let :new = :bal - :amount' computes a value between statements,
'-- @after account' adds an edge. One table for each statement: a join or a query
inside another is several accesses, so write several statements.

Examples:
  forebay graph bank.toml                 which accesses have to be cached together
  forebay graph bank.sql --svg bank.svg   the same as a picture
  forebay sim bank.fbt --graphs bank.sql --policy detox,lru --size 25%
      with names of types and accesses as the trace has them";

/// What can be typed after `forebay graph`.
#[derive(Args, Clone, Debug)]
struct GraphArgs {
    /// Transaction types, in TOML or annotated SQL (.sql); of a folder all files that end in .toml
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Draw them into this file, which is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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
    let types = read(&args.file)?;
    let drawing = args.svg.as_deref().map(Output::replace).transpose()?;
    for (name, graph) in &types {
        say::result(&described(name, graph))?;
    }
    let Some(mut drawing) = drawing else { return Ok(()) };
    let written = drawing.write_all(picture::svg(&types).as_bytes());
    written.map_err(|error| CommandError::Failed(format!("can't write the picture: {error}")))?;
    drawing.finish().map(drop)
}

/// The types of a file, or of all files of a folder that end in `.toml`, by name.
pub fn read(path: &Path) -> Result<Vec<(String, Graph)>, CommandError> {
    let is_sql = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("sql"));
    if !is_sql || path.is_dir() {
        return read_types(path).map_err(|error| CommandError::Usage(error.to_string()));
    }
    let wrong = |why: String| CommandError::Usage(format!("{}: {why}", path.display()));
    let (file, mut text) = (std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?, String::new());
    file.take(TYPES_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| wrong(unreadable(&error)))?;
    if text.len() as u64 > TYPES_BYTES_MAX {
        return Err(wrong(format!("more bytes than types_bytes_max {TYPES_BYTES_MAX}")));
    }
    sql::parse(&text).map_err(wrong)
}

fn names(graph: &Graph, set: &VertexSet) -> String {
    set.iter().map(|v| graph.vertices()[v].name.as_str()).collect::<Vec<_>>().join(", ")
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
    for class in Scorer::new(Arc::new(graph.clone())).classes() {
        let sets: Vec<String> = class.iter().map(|unit| format!("{{{}}}", names(graph, unit))).collect();
        text += &format!("  interchangeable: {}\n", sets.join(" "));
    }
    // Listed only where few enough can be expected; the powerset is tried for that.
    let few = graph.complete_groups_count().is_some_and(|count| count <= GROUPS_SHOWN_MAX as u128);
    let groups = Groups::of(graph, POWERSET_VERTICES_MAX).filter(|_| few);
    for group in groups.iter().flat_map(Groups::list) {
        text += &format!("  saves {} of {length}: {{{}}}\n", group.hits, names(graph, &group.vertices));
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
