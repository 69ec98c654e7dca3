//! `forebay replay TRACE --to ADDRESS`: a recorded trace through a running server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use forebay_trace::FORMATS;
use forebay_workload::replay::{
    CLIENTS_MAX, PIPELINE_MAX, Phase, Progress, ReplayError, ReplayOptions, Report, replay,
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CommandError;
use crate::node;

const EXAMPLES: &str = "\
Examples:
  forebay replay OLTP.lis --to 127.0.0.1:6379 --preload
                                the whole trace in its order: one client, one request at a time
  forebay replay web07.be32.zst --to 127.0.0.1:6379 --preload --clients 50 --pipeline 16 --limit 1000000
                                for throughput: requests overtake each other, so hit ratios may differ a little

Reads become GET, writes SET with a value of the trace's size, deletions DEL. A read that misses the cache is read from
the store, which --preload fills with all keys of the trace first (the cache is empty again when the run begins).
Exit codes: 0 replayed, 1 failed on the way or the server answered errors, 2 wrong usage.";

/// What can be typed.
pub fn command() -> Command {
    let formats = FORMATS.iter().map(|format| format.name).collect::<Vec<_>>();
    let number = |name: &'static str, default: &'static str, most: usize| {
        let argument = Arg::new(name).long(name).value_name("N").default_value(default);
        argument.value_parser(value_parser!(u64).range(1..=most as u64))
    };
    Command::new("replay")
        .about("Send a recorded trace through a running server; report hit ratio, latency, throughput")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("trace")
                .value_name("TRACE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The trace's file; .zst is decompressed on the way"),
        )
        .arg(Arg::new("to").long("to").value_name("ADDRESS").required(true).help("The server, such as 127.0.0.1:6379"))
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .help(format!("{}; told from the file if not given", formats.join(", "))),
        )
        .arg(number("clients", "1", CLIENTS_MAX).help("Connections"))
        .arg(number("pipeline", "1", PIPELINE_MAX).help("Requests that a connection sends before it waits"))
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Replay so many requests at most"),
        )
        .arg(
            Arg::new("preload")
                .long("preload")
                .action(ArgAction::SetTrue)
                .help("Write all keys of the trace first, then empty the cache"),
        )
        .arg(
            Arg::new("writes-as-reads")
                .long("writes-as-reads")
                .action(ArgAction::SetTrue)
                .help("Read where the trace writes or deletes: compares with simulators that know no writes"),
        )
}

/// Replays and reports.
pub fn run(matches: &ArgMatches) -> Result<(), CommandError> {
    let number = |name: &str| matches.get_one::<u64>(name).map_or(1, |number| *number as usize);
    let options = ReplayOptions {
        trace: matches.get_one::<PathBuf>("trace").cloned().unwrap_or_default(),
        format: matches.get_one::<String>("format").cloned(),
        address: matches.get_one::<String>("to").cloned().unwrap_or_default(),
        clients: number("clients"),
        pipeline: number("pipeline"),
        limit: matches.get_one::<u64>("limit").copied(),
        preload: matches.get_flag("preload"),
        writes_as_reads: matches.get_flag("writes-as-reads"),
    };
    let bar = Arc::new(Bar::default());
    let report = node::threads(2)?.block_on(replay(&options, bar.clone()));
    // A bar of a phase that failed would stay on the screen.
    bar.end();
    let report = report.map_err(failed)?;
    node::print(&shown(&report));
    match &report.first_error {
        Some(error) => {
            let count = report.errors;
            Err(CommandError::Failed(format!("the server answered {count} requests with an error, the first: {error}")))
        }
        None => Ok(()),
    }
}

fn failed(error: ReplayError) -> CommandError {
    match error {
        ReplayError::Trace(error) => CommandError::Failed(error.to_string()),
        ReplayError::Client(error) => CommandError::Failed(format!("{error}; is a server there? see --to")),
        other => CommandError::Failed(other.to_string()),
    }
}

/// The report as a few lines; what the server did not say is left out.
fn shown(report: &Report) -> String {
    let Report { clients, pipeline, requests, gets, sets, deletes, found, .. } = report;
    let mut text =
        format!("trace      {}\nserver     {}   clients {clients}  pipeline {pipeline}\n", report.trace, report.server);
    text.push_str(&format!("requests   {requests}   GET {gets} (with a value {found})  SET {sets}  DEL {deletes}"));
    text.push_str(&format!("  records passed over {}\n", report.skipped));
    if report.preloaded_keys > 0 {
        let reset = if report.cache_reset { "then the cache was emptied" } else { "the server has no CACHE RESET" };
        text.push_str(&format!("preloaded  {} keys, {reset}\n", report.preloaded_keys));
    }
    if let (Some(ratio), Some(hits), Some(misses)) = (report.hit_ratio, report.hits, report.misses) {
        text.push_str(&format!("hit ratio  {ratio:.4}   hits {hits}  misses {misses}, as the server counts\n"));
    }
    let latency = &report.latency;
    text.push_str(&format!(
        "latency    mean {:.0} us  p50 {:.0}  p90 {:.0}  p99 {:.0}  p99.9 {:.0}  max {:.0}\n",
        latency.mean_us, latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us
    ));
    text.push_str(&format!("throughput {:.0} requests/s over {:.2} s\n", report.requests_per_second, report.seconds));
    text
}

/// A bar on stderr, if that is a terminal.
#[derive(Default)]
struct Bar {
    bar: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn set(&self, next: Option<ProgressBar>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *bar, next) {
            old.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: Phase, total: Option<u64>) {
        let (name, unit) = match phase {
            Phase::Scan => ("reading the trace", "requests"),
            Phase::Preload => ("writing its keys", "keys"),
            Phase::Run => ("replaying", "requests"),
        };
        let (bar, template) = match total {
            Some(total) => {
                (ProgressBar::new(total), "{msg:18} {wide_bar} {human_pos}/{human_len} {prefix}  {per_sec}  {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{msg:18} {spinner} {human_pos} {prefix}  {per_sec}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(name);
        bar.set_prefix(unit);
        bar.enable_steady_tick(Duration::from_millis(200));
        self.set(Some(bar));
    }

    fn advance(&self, done: u64) {
        if let Some(bar) = &*self.bar.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(done);
        }
    }

    fn end(&self) {
        self.set(None);
    }
}
