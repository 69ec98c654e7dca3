//! Forebay in front of a PostgreSQL that is started for it, durable as by default.
//!
//! * `drain.rs`: what an outage left goes into the tables: documents per second.
//! * `outside.rs`: programs that go around forebay: how soon the cache knows, and what its triggers cost them.
//! * `reads.rs`: single rows through forebay and without it: throughput, latency, load on the database.
//!
//! `cargo run --profile dist -p forebay-bench --bin postgres -- --help`

mod drain;
mod outside;
mod reads;
#[path = "../../../../tests/common/postgres.rs"]
mod server;

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use forebay_bench::report::Report;
use forebay_drivers::Options as StoreOptions;
use server::Server;

/// Why a measurement ended.
type Failed = Box<dyn Error>;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Drain,
    Outside,
    Cost,
    Reads,
}

#[derive(Parser)]
#[command(about = "Forebay in front of PostgreSQL: drains, reads, and programs that go around it")]
struct Options {
    /// Which parts.
    #[arg(long, value_delimiter = ',', default_values = ["drain", "outside", "cost", "reads"])]
    parts: Vec<Part>,
    /// Of drain: documents.
    #[arg(long, default_value_t = 100_000)]
    documents: usize,
    /// Of drain: bytes of a document.
    #[arg(long, default_value_t = 1000)]
    document_bytes: usize,
    /// Of drain: documents in one transaction.
    #[arg(long, default_value_t = 1000)]
    group: usize,
    /// Of drain: groups on their way at a time.
    #[arg(long, value_delimiter = ',', default_values = ["1", "4"])]
    workers: Vec<usize>,
    /// Of outside: writes.
    #[arg(long, default_value_t = 1000)]
    writes: usize,
    /// Of cost and reads: connections.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Of cost and reads: length of one run.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Runs of each, in turns.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Of reads: rows.
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
    /// The program to measure.
    #[arg(long, default_value = "target/dist/forebay")]
    forebay: PathBuf,
    /// Also write the block of Markdown to this file.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match measure(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<(), Failed> {
    let mut report = Report::new("postgres");
    let server = Server::start_measured();
    let version = server.sql("postgres", "SHOW server_version");
    report.line(&format!("PostgreSQL {version} on the same machine, fsync on, shared_buffers 512 MB.\n"));
    for part in &options.parts {
        match part {
            Part::Drain => drain::measure(options, &server, &mut report)?,
            Part::Outside => outside::seen(options, &server, &mut report)?,
            Part::Cost => outside::cost(options, &server, &mut report)?,
            Part::Reads => reads::measure(options, &server, &mut report)?,
        }
    }
    report.end(options.markdown.as_deref())?;
    Ok(())
}

/// How the driver opens `database` here.
fn store_options(server: &Server, database: &str, maps: &[String]) -> Result<StoreOptions, Failed> {
    let mappings = maps.iter().map(|map| map.parse()).collect::<Result<_, String>>()?;
    let timeout = std::time::Duration::from_secs(30);
    Ok(StoreOptions { mappings, timeout, ..StoreOptions::new(server.url(database).parse()?) })
}

/// A runtime for connections.
fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Of /proc.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds that the server's processes have used since `before`, of those that live now.
fn database_seconds_since(server: &Server, before: &HashMap<u32, f64>) -> f64 {
    let since = |(process, ticks): (u32, f64)| ticks - before.get(&process).copied().unwrap_or(0.0);
    database_ticks(server).into_iter().map(since).sum::<f64>() / TICKS_PER_SECOND
}

/// CPU time of each process of the server that lives now.
fn database_ticks(server: &Server) -> HashMap<u32, f64> {
    let ticks = |process: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after = text.rsplit_once(')').map(|(_, after)| after.to_owned()).unwrap_or_default();
        let figures: Vec<f64> = after.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        // Behind the name: the state (no number), then ten figures, then user and system time.
        figures.get(10).copied().unwrap_or(0.0) + figures.get(11).copied().unwrap_or(0.0)
    };
    server.processes().into_iter().map(|process| (process, ticks(&process))).collect()
}

/// The middle and the 99th of 100, in us.
fn percentiles(mut micros: Vec<u64>) -> (u64, u64) {
    micros.sort_unstable();
    let at = |share: f64| micros.get(((micros.len() as f64 * share) as usize).min(micros.len().max(1) - 1)).copied();
    (at(0.5).unwrap_or(0), at(0.99).unwrap_or(0))
}
