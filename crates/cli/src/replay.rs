//! `forebay replay`: a recorded trace through a server, with figures at the end.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use forebay_trace::TraceError;
use forebay_workload::replay::{
    CLIENTS_MAX, PIPELINE_MAX, Progress, ReplayError, ReplayOptions, Silent, format_names, replay,
};

use crate::error::CommandError;
use crate::progress::{Bar, Lines};
use crate::say;

const EXAMPLES: &str = "\
Examples:
  forebay replay OLTP.lis.zst --to 127.0.0.1:6379 --preload
      what an application with this trace would see: all keys are in the store,
      the cache is empty at the start
  forebay replay web07.be32.zst --preload --clients 50 --pipeline 16
      the same under load; with more than one client the order is not the trace's
  forebay replay cluster52.csv --preload --writes-as-reads --format json
      the convention of the literature: each access is a read that inserts on a
      miss

The trace's keys become t:<key>, its sizes the sizes of values (at most 1 MiB;
100 bytes where it tells none). The hit ratio is the server's own count over
the run. --preload overwrites keys of these names.";

/// What can be typed after `forebay replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The trace's file; .zst is decompressed on the way
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The server, forebay or another that speaks RESP
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379", value_parser = address)]
    pub to: String,
    /// Connections; with one, requests arrive in the trace's order
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=CLIENTS_MAX as u64))]
    pub clients: u64,
    /// Commands that a connection sends before it waits for replies
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=PIPELINE_MAX as u64))]
    pub pipeline: u64,
    /// Replay at most so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Write all keys of the trace first, then empty the cache
    #[arg(long)]
    pub preload: bool,
    /// Send writes and deletes as reads
    #[arg(long)]
    pub writes_as_reads: bool,
    /// The trace's format, where name and content do not tell it
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(format_names()))]
    pub trace_format: Option<String>,
    /// How the figures are printed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Output::Table)]
    pub format: Output,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Lines of name and value, for people
    Table,
    /// One JSON object, for programs
    Json,
}

/// A server's address or name with its port.
pub fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("give an address or a name, and a port: 127.0.0.1:6379".to_owned()),
    }
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    ReplayArgs::augment_args(Command::new("replay"))
        .about("Send a recorded trace through a server; report hit ratio, latency and throughput")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = ReplayArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::Machine)?;
    runtime.block_on(run_args(args))
}

/// Why there are no figures, and for a trace that is cut short how to have them.
fn told(error: &ReplayError) -> String {
    match error {
        ReplayError::Trace(_, cut) if cut.is_truncated() => {
            format!("{error}; `forebay trace convert` makes a trace of that, which can be replayed")
        }
        _ => error.to_string(),
    }
}

/// Replays as `args` say and prints the figures on stdout.
pub async fn run_args(args: ReplayArgs) -> Result<(), CommandError> {
    let options = ReplayOptions {
        trace: args.trace,
        format: args.trace_format,
        address: args.to,
        clients: args.clients as usize,
        pipeline: args.pipeline as usize,
        limit: args.limit,
        preload: args.preload,
        writes_as_reads: args.writes_as_reads,
    };
    let progress: Arc<dyn Progress> = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Arc::new(Silent),
        (false, true) => Arc::new(Bar::default()),
        (false, false) => Arc::new(Lines),
    };
    let report = replay(&options, progress).await.map_err(|error| match error {
        ReplayError::Trace(_, TraceError::Open { .. }) => CommandError::Usage(told(&error)),
        error => CommandError::Failed(told(&error)),
    })?;
    match args.format {
        Output::Table => say::result(&report.to_table())?,
        Output::Json => say::result(&format!("{}\n", report.to_json()))?,
    }
    match report.errors {
        0 => Ok(()),
        errors => Err(CommandError::Failed(format!(
            "{errors} of {} requests were answered by errors, the first by: {}",
            report.requests,
            report.first_error.unwrap_or_default()
        ))),
    }
}
