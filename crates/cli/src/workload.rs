//! `forebay workload`: a generated workload as a trace.

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use forebay_trace::fbt;
use forebay_workload::generate::{self, Options, WORKLOADS};

use crate::error::CommandError;
use crate::output::Output;
use crate::say;

const EXAMPLES: &str = "\
Examples:
  forebay workload smallbank --out bank.fbt --graphs bank.toml
      a trace with transactions, levels and vertices, and the graphs of its types
  forebay sim bank.fbt --graphs bank.toml --policy lru,detox --size 25%
      what each policy would gain
  forebay workload mix-a --transactions 50000 --scale 10000 --seed 7 --out small.fbt
      a smaller one, of other chance";

/// What can be typed after `forebay workload`.
#[derive(Args, Clone, Debug)]
struct WorkloadArgs {
    /// Which one
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    name: String,
    /// The .fbt file to write, which must not exist
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the graphs of its transaction types, where it has some, to a file that must not exist
    #[arg(long, value_name = "FILE")]
    graphs: Option<PathBuf>,
    /// Transactions in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    transactions: Option<u64>,
    /// Its size, in its own unit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    scale: Option<u64>,
    /// Draws others
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn names() -> Vec<&'static str> {
    WORKLOADS.iter().map(|workload| workload.name).collect()
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    let mut list = String::from("Workloads, with their default numbers of transactions and scales:\n");
    for workload in WORKLOADS {
        let (transactions, scale) = workload.defaults;
        list += &format!("  {:<21} {}\n", workload.name, workload.summary);
        list += &format!("  {:21} {transactions} transactions; scale {scale}: {}\n", "", workload.scale_unit);
    }
    WorkloadArgs::augment_args(Command::new("workload"))
        .about("Generate a workload as a trace: SmallBank, TPC-C, Epinions, TAOBench's mixes, BG, ..")
        .long_about(None)
        .after_help(format!("{list}\n{EXAMPLES}"))
        .arg_required_else_help(true)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = WorkloadArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    // clap has refused other names.
    let Some(workload) = generate::workload(&args.name) else { return Ok(()) };
    let (transactions, scale) = workload.defaults;
    let options = Options {
        transactions: args.transactions.unwrap_or(transactions),
        scale: args.scale.unwrap_or(scale),
        seed: args.seed,
    };
    if args.graphs.is_some() && !(workload.types)(options.scale).iter().any(|of_type| !of_type.vertices.is_empty()) {
        let why = "has no graphs: its transactions ask for all that they need at once; leave out --graphs";
        return Err(CommandError::Usage(format!("{} {why}", args.name)));
    }
    crate::trace::holds_fbt(&args.out)?;
    if args.graphs.as_ref() == Some(&args.out) {
        return Err(CommandError::Usage("--graphs and --out name one file; give each its own".into()));
    }
    let mut output = Output::create(&args.out)?;
    let mut graphs = args.graphs.as_deref().map(Output::create).transpose()?;
    if let Some(graphs) = &mut graphs {
        let written = graphs.write_all(generate::types_toml(workload, options.scale).as_bytes());
        written.map_err(|error| CommandError::Failed(format!("can't write the graphs: {error}")))?;
    }
    let failed = |error| CommandError::Failed(format!("{}: {error}", args.out.display()));
    let mut writer = fbt::Writer::create(&mut output, 0).map_err(failed)?;
    let count = generate::write(workload, &options, &mut writer).map_err(failed)?;
    writer.finish().map_err(failed)?;
    output.finish()?;
    // After what takes long, so that one can interrupt that and begin again.
    graphs.map(Output::finish).transpose()?;
    say::result(&format!("{count} records of {} transactions in {}\n", options.transactions, args.out.display()))?;
    Ok(())
}
