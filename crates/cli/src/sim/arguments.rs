//! What `forebay sim` is given, and what of it several of its files need.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use forebay_sim::latency::{Latencies, Latency};
use forebay_sim::machine::Division;
use forebay_sim::row::Row;
use forebay_trace::{ColumnNames, TraceOptions};
use forebay_workload::replay::format_names;

use super::waiting;
use crate::error::CommandError;
use crate::settings::{PARTITIONS_MAX, THREADS_MAX};
use crate::{standard_input, trace};

/// What a server's cache has no say in.
const LAB_ONLY: [&str; 16] = [
    "optimum",
    "unit",
    "count",
    "warmup",
    "sample",
    "estimate",
    "seed",
    "per_client",
    "writes",
    "prefetch",
    "partition",
    "hint_types",
    "at_hit_ratio",
    "at_thr",
    "report",
    "price_per_gib_month",
];

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// Policies in lines and sizes in columns, for people
    Table,
    /// One line for each policy at each size
    Csv,
    /// All of that as an array of objects
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

/// How a hit ratio is estimated from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Estimate {
    /// By misses per request that the sample should have, whichever popular keys are in it (SHARDS-adj)
    Adjusted,
    /// By hits per request of the sample
    Plain,
}

/// What can be typed after `forebay sim`.
#[derive(Args, Clone, Debug)]
pub struct SimArgs {
    /// Traces; .zst and .gz are decompressed on the way; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Policies, with parameters as in arc,s3-fifo:small=0.2; a parameter after the first begins with its policy's name
    #[arg(long, value_name = "NAMES", default_value = "lru,s3-fifo,w-tinylfu,arc,lirs,belady")]
    pub policy: String,
    /// Sizes: shares (10%), objects (5000), or with --unit bytes sizes (64MiB)
    #[arg(long, value_name = "SIZES", default_value = "0.1%,1%,5%,10%,25%", allow_negative_numbers = true)]
    pub size: String,
    /// What sizes count
    #[arg(long, value_name = "UNIT", value_enum, default_value_t = UnitChoice::Objects)]
    pub unit: UnitChoice,
    /// Which requests count
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Count::All)]
    pub count: Count,
    /// Share of the requests at the start that only warms the caches
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = warmup)]
    pub warmup: f64,
    /// Simulate this share of the keys and estimate the rest (SHARDS); transactional hit ratios are left out
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = sample)]
    pub sample: f64,
    /// How hit ratios of a sample are estimated; those of clients are plain
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Estimate::Adjusted)]
    pub estimate: Estimate,
    /// Draws another sample, and is the seed of policies that draw (those with a parameter seed)
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
    #[arg(value_parser = up_to::<{ PARTITIONS_MAX as usize }>)]
    pub partitions: NonZeroUsize,
    /// Also the best that any policy could do, by trying all choices: for small traces
    #[arg(long, conflicts_with_all = ["graphs", "partition", "per_client", "at_thr", "at_hit_ratio"])]
    pub optimum: bool,
    /// Give each client a separate cache: equal parts, or some shares and the others what is left (1=0.5,2=20%)
    #[arg(long, value_name = "equal|CLIENT=SHARE,..", value_parser = Division::parse)]
    pub partition: Option<Division>,
    /// Hint types that policies see, by their names as `forebay trace describe` shows them; all if not given
    #[arg(long, value_name = "TYPES")]
    pub hint_types: Option<String>,
    /// Instead: the least memory for this hit ratio
    #[arg(long, value_name = "RATIO", value_parser = share)]
    pub at_hit_ratio: Option<f64>,
    /// Instead: the least memory for this transactional hit ratio
    #[arg(long, value_name = "RATIO", value_parser = share, conflicts_with = "at_hit_ratio")]
    pub at_thr: Option<f64>,
    /// What a look into the cache takes (150us, 0.2ms): models the latency of transactions, or else of requests
    #[arg(long, value_name = "TIME", value_parser = Latency::parse, requires = "store_latency")]
    #[arg(allow_hyphen_values = true)]
    pub cache_latency: Option<Latency>,
    /// What a round trip to the store takes in addition, where the cache does not save it
    #[arg(long, value_name = "TIME", value_parser = Latency::parse, requires = "cache_latency")]
    #[arg(allow_hyphen_values = true)]
    pub store_latency: Option<Latency>,
    /// The traces' format, where name and content do not tell it
    #[arg(long, value_name = "FORMAT", value_parser = clap::builder::PossibleValuesParser::new(format_names()))]
    pub trace_format: Option<String>,
    /// Pass over malformed records
    #[arg(long)]
    pub lenient: bool,
    /// Read CSV or JSON lines whose columns or fields have other names than ours: key=cache_key,size=bytes
    #[arg(long, value_name = "OURS=YOURS,..", value_parser = forebay_trace::column_names)]
    #[arg(conflicts_with = "trace_format")]
    pub columns: Option<ColumnNames>,
    /// Threads that simulate; all cores if not given
    #[arg(long, value_name = "N", value_parser = up_to::<THREADS_MAX>)]
    pub threads: Option<NonZeroUsize>,
    /// How the figures are printed
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OutputForm::Table)]
    pub format: OutputForm,
    /// Also write a page with charts, one file that needs nothing else; what is there is replaced
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// What a GiB of memory costs for a month: the verdict says what the memory costs that it names
    #[arg(long, value_name = "PRICE", value_parser = price)]
    pub price_per_gib_month: Option<f64>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

fn up_to<const MOST: usize>(text: &str) -> Result<NonZeroUsize, String> {
    trace::up_to::<MOST>(text).map(|number| NonZeroUsize::MIN.saturating_add(number - 1))
}

/// `20%` or `0.2`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>().map(|number| number / unit) {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("give a share, 20% or 0.2".into()),
    }
}

fn warmup(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| if share < 1.0 { Ok(share) } else { Err("that leaves nothing to count".into()) })
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "give a number, 3.5".into())
}

fn sample(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| if share > 0.0 { Ok(share) } else { Err("give a share above 0".into()) })
}

/// How traces are read.
pub fn trace_options(args: &SimArgs) -> TraceOptions {
    let columns = args.columns.clone().unwrap_or_default();
    TraceOptions { format: args.trace_format.clone(), lenient: args.lenient, columns, kept: None }
}

/// Known of all traces before the first of them takes its time.
pub fn can_be_read(trace: &Path) -> Result<(), CommandError> {
    if waiting::is_pipe(trace) || standard_input::is(trace) {
        return Ok(());
    }
    let why = match std::fs::File::open(trace) {
        Ok(_) if trace.is_dir() => "is a folder; name the traces in it".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(CommandError::Usage(format!("{}: {why}", trace.display())))
}

/// Latencies of rows, if those of cache and store are known.
pub fn model<'a>(args: &SimArgs, rows: impl IntoIterator<Item = &'a mut Row>) {
    if let (Some(cache), Some(store)) = (args.cache_latency, args.store_latency) {
        rows.into_iter().for_each(|row| row.model(&Latencies { cache, store }));
    }
}

pub fn threads(args: &SimArgs) -> NonZeroUsize {
    args.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
}

/// What is there twice counts once.
pub fn once(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut met = Vec::new();
    for word in words {
        if !met.contains(&word) {
            met.push(word);
        }
    }
    met
}

/// Policies separated by commas; what has `=` but no `:` is a further parameter of the policy before it.
pub fn policies(text: &str) -> Vec<String> {
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
    once(names.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stay_with_their_policy() {
        let names = policies("lru,s3-fifo:small=0.2,ghost=0.5,arc, 2q:in=0.5,arc");
        assert_eq!(names, ["lru", "s3-fifo:small=0.2,ghost=0.5", "arc", "2q:in=0.5"]);
    }

    #[test]
    fn shares_are_read() {
        assert_eq!((share("20%"), share("0.2"), share("1")), (Ok(0.2), Ok(0.2), Ok(1.0)));
        assert!(share("-1").is_err() && share("101%").is_err() && share("x").is_err() && sample("0").is_err());
        assert!(warmup("100%").is_err() && warmup("99%").is_ok());
    }
}
