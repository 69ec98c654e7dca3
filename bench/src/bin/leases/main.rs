//! Ten client processes and one forebay: what caches inside the applications save, live.
//!
//! `cargo run --profile dist -p forebay-bench --bin leases -- --help`
//!
//! * `configuration`: how a client caches.
//! * `client`: one client process, and what it counts.
//! * `library`: transactions of the client library.
//! * `stock`: transactions of a plain client, without a cache or with CLIENT TRACKING.
//! * `delay`: the network between them.

mod client;
mod configuration;
mod delay;
mod library;
mod stock;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser};
use forebay_bench::figures::{self, Summary};
use forebay_bench::peers::{Durability, Peer, Programs, Setup};
use forebay_bench::program::Program;
use forebay_bench::report::Report;

use crate::client::Count;
use crate::configuration::Configuration;

/// Why a measurement ended.
type Failed = Box<dyn Error>;

/// How long ten processes may take until all have connected.
const START_MS: u64 = 1_000;

/// What the transactions are: KAIROS' YCSB, with fewer keys.
#[derive(Args, Clone, Debug)]
struct Load {
    /// Keys, of 100 bytes each.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// Keys of a transaction.
    #[arg(long, default_value_t = 4)]
    width: usize,
    /// Share of the transactions that only read.
    #[arg(long, default_value_t = 0.95)]
    read_only: f64,
    /// Zipf's exponent of those that only read; of those that write it is 0.5.
    #[arg(long, default_value_t = 0.99)]
    alpha: f64,
    /// Sessions of a client, each in a closed loop.
    #[arg(long, default_value_t = 4)]
    sessions: usize,
    /// The most popular keys, which each client reads when it starts, so that its cache need not fill first.
    #[arg(long, default_value_t = 0)]
    known: usize,
    /// Reads the keys of a transaction one after the other, as a program does that computes the next key from the last.
    #[arg(long)]
    one_by_one: bool,
    /// How old what only reads may be at most, in ms; without this: no older than its session's last commit.
    #[arg(long)]
    bounded_ms: Option<u64>,
}

#[derive(Parser, Debug)]
#[command(about = "What caches inside the applications save: client processes against one forebay")]
struct Options {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    programs: Programs,
    /// How the clients cache.
    #[arg(long, value_delimiter = ',', default_values = ["stock", "intra", "naive", "tracking", "paper", "forebay"])]
    configurations: Vec<Configuration>,
    /// Client processes.
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Seconds before what is counted.
    #[arg(long, default_value_t = 3)]
    warm: u64,
    /// Seconds that are counted.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Rounds; the configurations take turns in each.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds that the network takes; 0: none is put between.
    #[arg(long, default_value_t = 1)]
    delay_ms: u64,
    /// File for the report.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Measures local read-only transactions of one client on one thread instead.
    #[arg(long)]
    local: bool,
    /// What a client process is told: its configuration, address, number, and when it counts from and to, in Unix ms.
    #[arg(long, num_args = 5, hide = true)]
    client: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.client {
        Some(told) => client::run(&options.load, told),
        None if options.local => local(&options),
        None => compare(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What one configuration did in one round.
struct Outcome {
    count: Count,
    server_seconds: f64,
}

fn compare(options: &Options) -> Result<(), Failed> {
    let mut report = Report::new("leases");
    report.line(&intro(options));
    let mut outcomes: Vec<Vec<Outcome>> = options.configurations.iter().map(|_| Vec::new()).collect();
    for round in 1..=options.rounds {
        for (configuration, outcomes) in options.configurations.iter().zip(&mut outcomes) {
            eprintln!("round {round} of {}: {}", options.rounds, configuration.name());
            outcomes.push(measure(options, *configuration)?);
        }
    }
    report.columns(&[
        "clients",
        "server CPU per transaction, us",
        "of intra",
        "transactions/s",
        "documents fetched a transaction",
        "without a message",
        "aborts per 100 that read",
        "per 100 that write",
        "p50 ms",
        "p99 ms",
    ]);
    let of = |outcomes: &[Outcome], figure: fn(&Outcome) -> f64| figures::of(outcomes, figure).median;
    let cpu = |outcome: &Outcome| outcome.server_seconds * 1e6 / outcome.count.transactions() as f64;
    let intra =
        options.configurations.iter().position(|of| *of == Configuration::Intra).map(|at| of(&outcomes[at], cpu));
    for (configuration, outcomes) in options.configurations.iter().zip(&outcomes) {
        let mine = of(outcomes, cpu);
        let part = |figure: fn(&Count) -> f64| figures::of(outcomes, |one| figure(&one.count)).median;
        let rate = part(|count| count.transactions() as f64) / options.seconds as f64;
        report.row(&[
            configuration.name(),
            format!("{mine:.1}"),
            intra.map_or("-".to_owned(), |intra| format!("{:.2}", mine / intra)),
            format!("{rate:.0}"),
            format!("{:.2}", part(|count| count.fetched as f64 / count.transactions() as f64)),
            format!("{:.0} %", 100.0 * part(|count| count.alone as f64 / count.transactions() as f64)),
            format!("{:.1}", 100.0 * part(|count| count.read_aborts as f64 / count.reading.max(1) as f64)),
            format!("{:.1}", 100.0 * part(|count| count.write_aborts as f64 / count.writing.max(1) as f64)),
            format!("{:.2}", part(|count| count.quantile_ms(0.5))),
            format!("{:.2}", part(|count| count.quantile_ms(0.99))),
        ]);
    }
    Ok(report.end(options.markdown.as_deref())?)
}

fn intro(options: &Options) -> String {
    let Load { keys, width, read_only, sessions, one_by_one, bounded_ms, .. } = &options.load;
    let Options { clients, rounds, seconds, delay_ms, .. } = options;
    let reads = if *one_by_one { "read one after the other" } else { "read at once" };
    let level = bounded_ms.map_or("session".to_owned(), |ms| format!("bounded, {ms} ms"));
    format!(
        "{clients} clients of {sessions} sessions, {keys} keys of 100 bytes, {width} a transaction, {reads}; {:.0} % \
         only read. Level: {level}. {delay_ms} ms of network. Medians of {rounds} interleaved rounds of {seconds} s.\n",
        read_only * 100.0
    )
}

/// A fresh server, loaded; all clients count at one time.
fn measure(options: &Options, configuration: Configuration) -> Result<Outcome, Failed> {
    let folder = tempfile::tempdir()?;
    let program = serve(options, folder.path())?;
    let address = match options.delay_ms {
        0 => program.address,
        ms => delay::start(program.address, Duration::from_millis(ms))?,
    };
    let from = unix_ms() + START_MS + options.warm * 1_000;
    let to = from + options.seconds * 1_000;
    let told = |number: usize| {
        let text = [configuration.name(), address.to_string(), number.to_string()];
        text.into_iter().chain([from.to_string(), to.to_string()]).collect::<Vec<_>>()
    };
    let clients =
        (0..options.clients).map(|number| start(options, &told(number))).collect::<Result<Vec<Child>, _>>()?;
    sleep_until(from);
    let before = program.cpu_seconds()?;
    sleep_until(to);
    let server_seconds = program.cpu_seconds()? - before;
    let mut count = Count::default();
    for client in clients {
        let said = client.wait_with_output()?;
        if !said.status.success() {
            return Err(format!("a client of {} ended: {}", configuration.name(), said.status).into());
        }
        let said = String::from_utf8(said.stdout)?;
        count.add(&Count::parse(&said).ok_or_else(|| format!("a client says {said:?}"))?);
    }
    Ok(Outcome { count, server_seconds })
}

fn serve(options: &Options, folder: &std::path::Path) -> Result<Program, Failed> {
    let setup =
        Setup { durability: Durability::Interval, threads: 1, cores: None, memory_mib: 512, connections: 256, folder };
    let program = options.programs.start(Peer::Forebay, &setup)?;
    let mut stream = std::net::TcpStream::connect(program.address)?;
    for first in (0..options.load.keys).step_by(1_000) {
        let mut batch = Vec::new();
        for key in first..(first + 1_000).min(options.load.keys) {
            batch.extend(stock::command(&[b"SET", client::key(key).as_bytes(), &client::document(key as u64)]));
        }
        let keys = options.load.keys.min(first + 1_000) - first;
        stream.write_all(&batch)?;
        stock::skip_replies(&mut stream, keys)?;
    }
    Ok(program)
}

/// A process of this program that is one client.
fn start(options: &Options, told: &[String]) -> std::io::Result<Child> {
    let Load { keys, width, read_only, alpha, sessions, known, one_by_one, bounded_ms } = &options.load;
    let load = format!(
        "--keys {keys} --width {width} --read-only {read_only} --alpha {alpha} --sessions {sessions} \
         --known {known}"
    );
    let mut command = Command::new(std::env::current_exe()?);
    if *one_by_one {
        command.arg("--one-by-one");
    }
    if let Some(ms) = bounded_ms {
        command.arg("--bounded-ms").arg(ms.to_string());
    }
    command.args(load.split(' ')).arg("--client").args(told).stdout(Stdio::piped()).spawn()
}

/// Read-only transactions whose copies are all there.
fn local(options: &Options) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let program = serve(options, folder.path())?;
    let mut report = Report::new("leases");
    report.line("One client on one thread, all keys in its cache: read-only transactions without a message.\n");
    report.columns(&["keys a transaction", "thousand transactions/s: median (range)"]);
    for width in [1, options.load.width] {
        let load = Load { width, keys: 1_000.min(options.load.keys), ..options.load.clone() };
        let rates = (0..options.rounds)
            .map(|_| library::local_rate(&load, program.address, Duration::from_secs(options.seconds)))
            .collect::<Result<Vec<f64>, Failed>>()?;
        report.row(&[width.to_string(), Summary::of(&rates).thousands()]);
    }
    Ok(report.end(options.markdown.as_deref())?)
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn sleep_until(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms.saturating_sub(unix_ms())));
}
