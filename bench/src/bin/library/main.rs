//! The library in this process, without sockets: what its transactions cost beside what they stand on.
//!
//! `cargo run --profile dist -p forebay-bench --bin library -- --help`
//!
//! * `bed`: engines, clients and their figures.
//! * `embedded`, `bare`: the embedded store beside redb driven directly with the same batches.
//! * `always`, `slow_sync`: group commit over a disk that is slow to sync, and a hot key.
//! * `levels`, `precise`: transactions of four reads over a distant store.

mod always;
mod bare;
mod bed;
mod embedded;
mod levels;
mod precise;
mod slow_sync;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use forebay_bench::peers::Durability;
use forebay_bench::program::pin_self;
use forebay_bench::report::Report;

/// As the server has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Embedded,
    Always,
    Levels,
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Workload, String> {
        match name {
            "embedded" => Ok(Workload::Embedded),
            "always" => Ok(Workload::Always),
            "levels" => Ok(Workload::Levels),
            _ => Err("embedded, always or levels".to_owned()),
        }
    }
}

#[derive(Parser)]
#[command(
    about = "Measures the library: the embedded store beside bare redb, group commit, transactions of four reads"
)]
struct Options {
    /// Which of embedded, always, levels.
    #[arg(long, value_delimiter = ',', default_values = ["embedded", "always", "levels"])]
    workload: Vec<Workload>,
    /// Of embedded: which of always, interval.
    #[arg(long, value_delimiter = ',', default_values = ["always", "interval"])]
    durability: Vec<Durability>,
    /// Of embedded: clients, which make the sizes of groups.
    #[arg(long, value_delimiter = ',', default_values = ["1", "64"])]
    clients: Vec<usize>,
    /// Runs of each, in turns.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Length of one run.
    #[arg(long, default_value_t = 1000)]
    run_ms: u64,
    /// Documents, all loaded before the first run.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    /// Core that all of it runs on.
    #[arg(long, default_value_t = 0)]
    core: usize,
    /// Folder for files; a temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Also write the block of Markdown to this file.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

impl Options {
    fn time(&self) -> Duration {
        Duration::from_millis(self.run_ms)
    }
}

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), bed::Failed> {
    pin_self(options.core)?;
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let mut report = Report::new("library");
    report.line(&format!(
        "All threads on core {}. Keys of 16 B, values of {} B, {} documents; medians of {} runs of {} ms in turns, \
         ranges in brackets.",
        options.core, options.value_bytes, options.keys, options.runs, options.run_ms
    ));
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for workload in &options.workload {
        match workload {
            Workload::Embedded => threads.block_on(embedded::measure(&mut report, options, folder.path()))?,
            Workload::Always => threads.block_on(always::measure(&mut report, options, folder.path()))?,
            Workload::Levels => threads.block_on(levels::measure(&mut report, options))?,
        }
    }
    Ok(report.end(options.markdown.as_deref())?)
}
