//! The evaluation of the thesis on DeferredLRU (chapters 5 and 6), over traces that can be had.
//!
//! `target/dist/thesis deferred-5.3` measures and writes the data of a figure; `make figure NAME=deferred-5.3` also
//! draws it. Each thread replays all requests of a test, from an empty cache. The caches take turns, and medians of the
//! rounds are written, with the load average of the machine beside each. `docs/papers/deferred_lru.md` explains them.

mod contestants;
mod curves;
mod grid;
mod order;
mod replay;
mod tbb;
mod traces;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

type Failed = Box<dyn Error>;

/// Names of figures, each with the text of its data.
type Data = Vec<(&'static str, String)>;

/// Measures figures of the thesis on DeferredLRU.
#[derive(Parser)]
pub struct Args {
    /// Names of figures, or `all`
    #[arg(required = true)]
    names: Vec<String>,
    /// The folder of traces, with `arc/` and others in it
    #[arg(long, env = "FOREBAY_TRACES")]
    traces: PathBuf,
    /// Where data go
    #[arg(long, default_value = "docs/papers/figures")]
    out: PathBuf,
    /// The first requests of a trace are replayed: at most so many
    #[arg(long, default_value_t = 300_000)]
    requests: usize,
    /// At most so many where thresholds are varied
    #[arg(long, default_value_t = 100_000)]
    grid_requests: usize,
    /// Numbers of threads of the curves, with commas
    #[arg(long, default_value = "1,2,4,8,16,32", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Rounds of all caches; medians are written
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What is measured at once.
struct Figure {
    names: &'static [&'static str],
    measure: fn(&Args) -> Result<Data, Failed>,
}

const FIGURES: &[Figure] = &[
    Figure { names: &["deferred-table-5.1"], measure: traces::table },
    Figure { names: &["deferred-5.1", "deferred-5.2", "deferred-table-5.2"], measure: grid::measure_all },
    Figure { names: &["deferred-5.3"], measure: curves::web },
    Figure { names: &["deferred-5.4"], measure: curves::disk },
    Figure { names: &["deferred-table-5.3"], measure: curves::tables },
    Figure { names: &["deferred-order"], measure: order::measure },
    Figure { names: &["deferred-6.1"], measure: curves::one_thread },
];

fn main() -> Result<(), Failed> {
    let args = Args::parse();
    let known = |name: &String| name == "all" || FIGURES.iter().any(|figure| figure.names.contains(&name.as_str()));
    if let Some(name) = args.names.iter().find(|name| !known(name)) {
        let names: Vec<&str> = FIGURES.iter().flat_map(|figure| figure.names).copied().collect();
        return Err(format!("no figure '{name}'; there are {}", names.join(", ")).into());
    }
    std::fs::create_dir_all(&args.out)?;
    let wanted = |name: &str| args.names.iter().any(|wanted| wanted == "all" || wanted == name);
    for figure in FIGURES.iter().filter(|figure| figure.names.iter().any(|name| wanted(name))) {
        for (name, text) in (figure.measure)(&args)? {
            std::fs::write(args.out.join(format!("{name}.csv")), text)?;
        }
    }
    Ok(())
}
