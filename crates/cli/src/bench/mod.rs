//! `forebay bench`: a live workload on a running server, or on PostgreSQL directly.

mod bg;
mod document;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bg::{NetworkArgs, SoarArgs};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use forebay::runtime::files::{self, NAMED_FILE_BYTES_MAX};
use forebay_workload::live::{
    self, LiveError, Parameters, Progress, Record, Report, RunOptions, Silent, Stop, Target, WORKLOADS, picture,
};

use crate::error::CommandError;
use crate::output::Output;
use crate::progress::{Bar, Lines};
use crate::replay::Output as Format;
use crate::say;
use crate::secret;

const EXAMPLES: &str = "\
Examples:
  forebay bench --workload ycsb-b --to 127.0.0.1:6379 --records 10000 --seconds 30
      loads 10,000 rows as hashes, then reads and updates them
  forebay bench --workload ycsb-a --direct postgres://app@localhost/shop --load-only
  forebay serve --store postgres://app@localhost/shop --map 'usertable:{id} -> usertable(id)'
  forebay bench --workload ycsb-c --no-load --seconds 20
  forebay bench --workload ycsb-a --no-load --seconds 60 --picture outage.svg
      the same rows in front of PostgreSQL: make the table, serve it, warm the
      cache, use it; stop the database meanwhile, start it again, and look at the
      picture
  forebay bench --workload ycsb-a --direct postgres://app@localhost/shop --no-load --seconds 60
      what the database does alone, and how many actions fail without forebay
  forebay bench --workload list-append --seconds 60
      does every acknowledged write survive the outage, once and in order?

With --rate actions are due at fixed times, and a latency counts from when its
action was due; without it each connection sends as soon as it has its reply.
Ctrl-C ends a run and reports what there is.

Exit codes: 0 done, 1 a verdict says BREACH, or nothing could be judged, 2 refused
at the start.";

/// What can be typed after `forebay bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Which workload; the list is below
    #[arg(long, value_name = "NAME", value_parser = clap::builder::ValueParser::new(workload))]
    pub workload: &'static str,
    /// The server, forebay or another that speaks RESP
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379", conflicts_with = "direct")]
    #[arg(value_parser = crate::replay::address)]
    pub to: String,
    /// PostgreSQL instead, without forebay in front of it
    #[arg(long, value_name = "URL")]
    pub direct: Option<String>,
    /// Log in to the server as this user
    #[arg(long, value_name = "NAME", default_value = "default", conflicts_with = "direct")]
    pub user: String,
    /// The file whose first line is the server's password
    #[arg(long, value_name = "FILE", conflicts_with = "direct")]
    pub password_file: Option<PathBuf>,
    /// The file whose first line is the database's password
    #[arg(long, value_name = "FILE", requires = "direct")]
    pub store_password_file: Option<PathBuf>,
    /// Size of the data; what it counts, and how many if left out, is in the list below
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub records: Option<u64>,
    /// Connections, each a client of its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// How long it runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Actions per second, all connections together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub rate: Option<u64>,
    /// Another seed draws others
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Load the data, and no more
    #[arg(long, conflicts_with = "no_load")]
    pub load_only: bool,
    /// The data is there already
    #[arg(long)]
    pub no_load: bool,
    /// ycsb-f: read and update a row in one transaction; bg-*: read a list and what it names in one
    #[arg(long)]
    pub transactions: bool,
    /// ycsb-*: name rows by a hash of their number, as YCSB does by default
    #[arg(long)]
    pub hashed: bool,
    /// What BG's network is like
    #[command(flatten)]
    pub network: NetworkArgs,
    /// The search for a highest load
    #[command(flatten)]
    pub soar: SoarArgs,
    /// Longest wait for a reply; then the connection is given up
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub reply_seconds_max: u64,
    /// Longest wait after the run until all that was buffered is in the database
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub drain_seconds_max: u64,
    /// Draw throughput over time, outages marked
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
    /// Write throughput over time, a line for each tenth of a second
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// How the figures are printed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    BenchArgs::augment_args(Command::new("bench"))
        .about("Put a live workload on a server or database; report throughput, latencies and verdicts")
        .long_about(None)
        .after_help(format!("{}\n{EXAMPLES}", list()))
}

/// A workload's name, or those that there are.
fn workload(name: &str) -> Result<&'static str, String> {
    match live::record(name) {
        Some(record) => Ok(record.name),
        None => {
            let names: Vec<&str> = WORKLOADS.iter().map(|record| record.name).collect();
            Err(format!("there is none of this name; there are {}", names.join(", ")))
        }
    }
}

/// All workloads, for the help.
fn list() -> String {
    let line =
        |record: &&Record| format!("  {:<21} {} ({} {})\n", record.name, record.summary, record.records, record.unit);
    format!("Workloads, with their default sizes:\n{}", WORKLOADS.iter().map(line).collect::<String>())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = BenchArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    bg::only_of_bg(args.workload, matches)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CommandError::Machine)?;
    runtime.block_on(run_args(args))
}

async fn run_args(args: BenchArgs) -> Result<(), CommandError> {
    let record = live::record(args.workload).ok_or_else(|| CommandError::Usage("no such workload".into()))?;
    let parameters = Parameters {
        records: args.records.unwrap_or(record.records),
        connections: args.connections,
        seed: args.seed,
        transactions: args.transactions,
        hashed: args.hashed,
        network: args.network.network(),
    };
    let workload = (record.new)(&parameters).map_err(refused)?;
    let options = RunOptions {
        workload: record.name.into(),
        target: target(&args)?,
        connections: args.connections,
        duration: Duration::from_secs(args.seconds),
        rate: args.rate.map(|rate| rate as f64),
        seed: args.seed,
        reply_time_max: Duration::from_secs(args.reply_seconds_max),
        drain_time_max: Duration::from_secs(args.drain_seconds_max),
    };
    for file in [&args.picture, &args.csv].into_iter().flatten() {
        // Better now than after an hour. What is there stays until there is something in its place.
        Output::try_replace(file)?;
    }
    let progress: Arc<dyn Progress> = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => Arc::new(Silent),
        (false, true) => Arc::new(Bar::default()),
        (false, false) => Arc::new(Lines),
    };
    let stop = stop_on_signal();
    if !args.no_load {
        let records = live::load(&workload, &options, &progress, &stop).await.map_err(refused)?;
        if args.load_only || stop.is_stopped() {
            say::result(&format!("loaded {records} {} into {}\n", record.unit, options.target.place()))?;
            return Ok(());
        }
    }
    if let Some(most) = args.soar.soar {
        let found = live::soar::search(&workload, &options, args.soar.agreement(), most, &progress, &stop).await;
        let found = found.map_err(refused)?;
        say::result(&match args.format {
            Format::Table => found.to_table(),
            Format::Json => format!("{}\n", found.to_json()),
        })?;
        return Ok(());
    }
    let report = live::run(&workload, &options, &progress, &stop).await.map_err(refused)?;
    tell(&args, &report)
}

/// Where to work.
fn target(args: &BenchArgs) -> Result<Target, CommandError> {
    match &args.direct {
        Some(url) => {
            let password = args.store_password_file.as_deref().map(first_line).transpose()?;
            Target::direct(url, password.map(String::into_bytes)).map_err(|error| {
                let why = secret::why_refused(url, error.to_string());
                CommandError::Usage(format!("--direct '{}': {why}", secret::hidden(url)))
            })
        }
        None => {
            let password = args.password_file.as_deref().map(first_line).transpose()?;
            let login = password.map(|password| (args.user.clone(), password));
            Ok(Target::Resp { address: args.to.clone(), login })
        }
    }
}

fn first_line(file: &Path) -> Result<String, CommandError> {
    let text = files::read_text(file, NAMED_FILE_BYTES_MAX)
        .map_err(|error| CommandError::Usage(format!("can't read the password in {}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn write(file: &Path, text: std::io::Result<String>) -> Result<(), CommandError> {
    let unwritable = |error| CommandError::Failed(format!("can't write {}: {error}", file.display()));
    let mut output = Output::replace(file, &[])?;
    text.and_then(|text| output.write_all(text.as_bytes())).map_err(unwritable)?;
    output.finish().map(drop)
}

fn refused(error: LiveError) -> CommandError {
    match error {
        LiveError::Died(_) => CommandError::Failed(error.to_string()),
        _ => CommandError::Usage(error.to_string()),
    }
}

/// Ends the run at the first Ctrl-C, the program at the second.
fn stop_on_signal() -> Stop {
    let stop = Stop::default();
    let ending = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            ending.stop();
            say::note("ending; Ctrl-C once more ends at once");
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(1);
        }
    });
    stop
}

/// Prints the figures and writes the files.
fn tell(args: &BenchArgs, report: &Report) -> Result<(), CommandError> {
    let told = match args.format {
        Format::Table => say::result(&report.to_table()),
        Format::Json => say::result(&format!("{}\n", report.to_json())),
    };
    if let Some(file) = &args.picture {
        write(file, picture::svg(report))?;
    }
    if let Some(file) = &args.csv {
        write(file, Ok(report.to_csv()))?;
    }
    let breaches: Vec<String> =
        report.breaches().map(|verdict| format!("{} {}", verdict.count, verdict.what)).collect();
    match (breaches.is_empty(), &report.not_judged) {
        (true, None) => told,
        (true, Some(why)) => Err(CommandError::Failed(format!("the run could not be judged: {why}"))),
        (false, _) => Err(CommandError::Failed(format!("a promise is broken: {}", breaches.join(", ")))),
    }
}
