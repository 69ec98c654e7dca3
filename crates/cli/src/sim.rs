//! `forebay sim`: a trace over many policies at many sizes.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use forebay::policy::Unit;
use forebay_sim::ahead::Prefetch;
use forebay_sim::catalog::Sample;
use forebay_sim::cell::Contender;
use forebay_sim::figures::{self, Row};
use forebay_sim::hints::HintTypes;
use forebay_sim::lab::{Goal, Lab, LabOptions, Progress, Silent, Size};
use forebay_sim::like_server::{self, LikeServerOptions};
use forebay_sim::machine::Division;
use forebay_trace::TraceOptions;
use forebay_workload::replay::format_names;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CommandError;
use crate::{graph, node};

const EXAMPLES: &str = "\
Examples:
  forebay sim OLTP.lis.zst --policy lru,arc,s3-fifo,belady --size 1%,10%,25%
      which policy, and how much memory
  forebay sim requests.csv --policy gdsf,w-tinylfu --size 64MiB,1GiB --unit bytes --format csv
      sizes in bytes, for a spreadsheet
  forebay sim requests.fbt --policy s3-fifo,lirs --at-hit-ratio 0.9
      the least memory for a hit ratio
  forebay sim huge.oracleGeneral.zst --sample 0.01
      an estimate from 1 % of the keys, with its error (two standard errors)
  forebay sim bank.fbt --graphs bank.toml --policy lru,detox --prefetch detox --size 25%
      round trips of transactions, by what they ask for after what
  forebay sim shop.fbt --like-server --policy lru,detox --size 256MiB --graphs shop.toml
      the server's own cache over what CACHE TRACE recorded: what it had, and what it would have

A percentage is of the unique keys, or with --unit bytes of the footprint: the sum
of the keys' sizes. Each request is a read that inserts on a miss, writes too; an
object has the size of its first request; a delete removes and does not count.
Offline policies, which know the future: belady, opt (most read hits),
transactional-belady. --optimum adds the most transactional hits that any policy
could have, by trying all choices: for traces of up to 64 keys, by levels.

Where a trace has transactions, what one asks for at the same time (a level) is
looked up together. The transactional hit ratio is the share of round trips that
caching saves: a level costs one unless all that it reads is cached, one that
writes costs one always. With --graphs it is the share of the critical length.

The same trace, policies and seed give the same figures, except for CPU times.";

/// What a server's cache has no say in.
const LAB_ONLY: [&str; 13] = [
    "optimum",
    "unit",
    "count",
    "warmup",
    "sample",
    "seed",
    "per_client",
    "writes",
    "prefetch",
    "partition",
    "hint_types",
    "at_hit_ratio",
    "at_thr",
];

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Policies in lines and sizes in columns, for people
    Table,
    /// One line for each policy at each size
    Csv,
    /// The same as an array of objects
    Json,
}

/// What sizes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnitChoice {
    /// Every object counts as 1
    Objects,
    /// Every object counts as its size
    Bytes,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Count {
    /// All requests
    All,
    /// Reads only; writes still come in
    Reads,
}

/// What a write of an object does that is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writes {
    /// It comes in, as after a read
    Allocate,
    /// Nothing: writes only update what is cached
    Update,
}

/// What is fetched ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrefetchChoice {
    /// Nothing
    None,
    /// What a key's successors in the transaction's graph usually are
    Detox,
    /// What is usually asked for in the next level
    Chrono,
}

/// What can be typed after `forebay sim`.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    /// Traces; .zst and .gz are decompressed on the way
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Policies, with parameters as in arc,s3-fifo:small=0.2; a parameter after the first begins with its policy's name
    #[arg(long, value_name = "NAMES", default_value = "lru,s3-fifo,w-tinylfu,arc,lirs,belady")]
    pub policy: String,
    /// Sizes: shares (10%), objects (5000), or with --unit bytes sizes (64MiB)
    #[arg(long, value_name = "SIZES", default_value = "0.1%,1%,5%,10%,25%")]
    pub size: String,
    /// What sizes count
    #[arg(long, value_name = "UNIT", value_enum, default_value_t = UnitChoice::Objects)]
    pub unit: UnitChoice,
    /// Which requests count
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Count::All)]
    pub count: Count,
    /// Share of the requests at the start that only warms the caches
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = share)]
    pub warmup: f64,
    /// Simulate this share of the keys and estimate the rest (SHARDS)
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = sample)]
    pub sample: f64,
    /// Draws another sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Also count each client by itself
    #[arg(long)]
    pub per_client: bool,
    /// What a write of an object does that is not cached
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Writes::Allocate)]
    pub writes: Writes,
    /// What is fetched ahead for transactions
    #[arg(long, value_name = "HOW", value_enum, default_value_t = PrefetchChoice::None)]
    pub prefetch: PrefetchChoice,
    /// Graphs of transaction types, as `forebay graph` reads them
    #[arg(long, value_name = "FILE")]
    pub graphs: Option<PathBuf>,
    /// Run the server's own cache over a trace that CACHE TRACE recorded: sizes are its budget in bytes, and all reads
    /// count
    #[arg(long, conflicts_with_all = LAB_ONLY)]
    pub like_server: bool,
    /// Partitions of the server's cache
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(15), requires = "like_server")]
    pub partitions: NonZeroUsize,
    /// Also the best that any policy could do, by trying all choices: for small traces
    #[arg(long, conflicts_with_all = ["graphs", "partition", "per_client", "at_thr", "at_hit_ratio"])]
    pub optimum: bool,
    /// Give each client a cache of its own: equal parts, or some shares and the others what is left (1=0.5,2=20%)
    #[arg(long, value_name = "equal|CLIENT=SHARE,..", value_parser = Division::parse)]
    pub partition: Option<Division>,
    /// Hint types that policies see, all if not given
    #[arg(long, value_name = "TYPES")]
    pub hint_types: Option<String>,
    /// Instead: the least memory for this hit ratio
    #[arg(long, value_name = "RATIO", value_parser = share)]
    pub at_hit_ratio: Option<f64>,
    /// Instead: the least memory for this transactional hit ratio
    #[arg(long, value_name = "RATIO", value_parser = share, conflicts_with = "at_hit_ratio")]
    pub at_thr: Option<f64>,
    /// The traces' format, where name and content do not tell it
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(format_names()))]
    pub trace_format: Option<String>,
    /// Pass over malformed records
    #[arg(long)]
    pub lenient: bool,
    /// Threads that simulate; all cores if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// How the figures are printed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Output::Table)]
    pub format: Output,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

/// `20%` or `0.2`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>().map(|number| number / unit) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("give a share, 20% or 0.2".into()),
    }
}

fn sample(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| if share > 0.0 { Ok(share) } else { Err("give a share above 0".into()) })
}

/// The subcommand, to be put into the whole command line.
pub fn command() -> Command {
    SimArgs::augment_args(Command::new("sim"))
        .about("Simulate a trace over many policies and cache sizes; report what each gains")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let args = SimArgs::from_arg_matches(matches).map_err(|error| CommandError::Failed(error.to_string()))?;
    if args.like_server {
        return run_like_server(&args);
    }
    let options = options(&args)?;
    let progress: &dyn Progress =
        if args.quiet || !std::io::stderr().is_terminal() { &Silent } else { &Bar::default() };
    let mut rows: Vec<Row> = Vec::new();
    let goal = args.at_hit_ratio.map(Goal::HitRatio).or(args.at_thr.map(Goal::TransactionalHitRate));
    for trace in &args.traces {
        let lab = Lab::open(trace, &options, progress).map_err(|error| CommandError::Failed(error.to_string()))?;
        let of_trace = match goal {
            Some(goal) => lab.least_memory(goal),
            None => lab.curves(),
        };
        let optimum = if args.optimum { lab.optimum() } else { Ok(Vec::new()) };
        for some in [of_trace, optimum] {
            rows.extend(some.map_err(|error| CommandError::Failed(error.to_string()))?);
        }
    }
    node::print(&match (args.format, goal) {
        (Output::Csv, _) => figures::csv(&rows),
        (Output::Json, _) => figures::json(&rows),
        (Output::Table, Some(goal)) => figures::least_memory_table(&rows, goal, &options.contenders),
        (Output::Table, None) => figures::table(&rows),
    });
    Ok(())
}

/// The server's own cache instead of bare policies.
fn run_like_server(args: &SimArgs) -> Result<(), CommandError> {
    let refused = |error: String| CommandError::Usage(error);
    let choice = |text: &String| match Contender::parse(text).map_err(|error| refused(error.to_string()))? {
        Contender::Online(choice) => Ok(choice),
        Contender::Offline(name, _) => Err(refused(format!("no server has policy {name}, which knows the future"))),
    };
    let policies = policies(&args.policy).iter().map(choice).collect::<Result<Vec<_>, _>>()?;
    let options = LikeServerOptions {
        policies,
        sizes: like_server::sizes(&args.size).map_err(|error| refused(error.to_string()))?,
        partitions: args.partitions.get(),
        graphs: args.graphs.as_deref().map_or(Ok(Vec::new()), graph::read)?,
        trace: TraceOptions { format: args.trace_format.clone(), lenient: args.lenient },
        threads: threads(args),
    };
    let progress: &dyn Progress =
        if args.quiet || !std::io::stderr().is_terminal() { &Silent } else { &Bar::default() };
    let mut rows: Vec<Row> = Vec::new();
    for trace in &args.traces {
        let of_trace = like_server::run(trace, &options, progress);
        rows.extend(of_trace.map_err(|error| CommandError::Failed(error.to_string()))?);
    }
    node::print(&match args.format {
        Output::Csv => figures::csv(&rows),
        Output::Json => figures::json(&rows),
        Output::Table => figures::table(&rows),
    });
    Ok(())
}

fn threads(args: &SimArgs) -> NonZeroUsize {
    args.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

fn options(args: &SimArgs) -> Result<LabOptions, CommandError> {
    let refused = |error: String| CommandError::Usage(error);
    let unit = if args.unit == UnitChoice::Objects { Unit::Entries } else { Unit::Bytes };
    let contenders: Result<Vec<Contender>, _> =
        policies(&args.policy).iter().map(|text| Contender::parse(text)).collect();
    if args.optimum && (unit == Unit::Bytes || args.sample < 1.0) {
        return Err(refused("--optimum counts objects, all of them: leave out --unit bytes and --sample".into()));
    }
    let sizes: Result<Vec<Size>, _> = args.size.split(',').map(|text| Size::parse(text, unit)).collect();
    Ok(LabOptions {
        contenders: contenders.map_err(|error| refused(error.to_string()))?,
        sizes: sizes.map_err(|error| refused(error.to_string()))?,
        unit,
        reads_only: args.count == Count::Reads,
        warmup: args.warmup,
        sample: Sample { rate: args.sample, seed: args.seed },
        per_client: args.per_client,
        writes_allocate: args.writes == Writes::Allocate,
        prefetch: match args.prefetch {
            PrefetchChoice::None => Prefetch::None,
            PrefetchChoice::Detox => Prefetch::Detox,
            PrefetchChoice::Chrono => Prefetch::Chrono,
        },
        graphs: args.graphs.as_deref().map_or(Ok(Vec::new()), graph::read)?,
        division: args.partition.clone().unwrap_or(Division::Shared),
        hint_types: match &args.hint_types {
            Some(names) => HintTypes::only(names.split(',').map(str::trim)),
            None => HintTypes::ALL,
        },
        trace: TraceOptions { format: args.trace_format.clone(), lenient: args.lenient },
        threads: threads(args),
    })
}

/// Policies separated by commas; what has `=` but no `:` is a further parameter of the policy before it.
fn policies(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        match names.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.to_owned()),
        }
    }
    names
}

/// A bar on a terminal, one for each pass.
#[derive(Default)]
struct Bar {
    bar: Mutex<Option<ProgressBar>>,
}

impl Progress for Bar {
    fn begin(&self, pass: &str, records: Option<u64>) {
        let (bar, template) = match records {
            Some(records) => (ProgressBar::new(records), "{msg:12} {wide_bar} {human_pos}/{human_len} ETA {eta:>4}"),
            None => (ProgressBar::new_spinner(), "{msg:12} {spinner} {human_pos} records {elapsed}"),
        };
        // A template that does not parse would only cost its looks.
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(pass.to_owned());
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    fn advance(&self, records: u64) {
        if let Some(bar) = &*self.bar.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(records);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.bar.lock().unwrap_or_else(PoisonError::into_inner).take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_policy() {
        let names = policies("lru,s3-fifo:small=0.2,ghost=0.5,arc, 2q:in=0.5");
        assert_eq!(names, ["lru", "s3-fifo:small=0.2,ghost=0.5", "arc", "2q:in=0.5"]);
    }

    #[test]
    fn shares_are_read() {
        assert_eq!((share("20%"), share("0.2"), share("1")), (Ok(0.2), Ok(0.2), Ok(1.0)));
        assert!(share("-1").is_err() && share("101%").is_err() && share("x").is_err() && sample("0").is_err());
    }
}
