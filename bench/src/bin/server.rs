//! forebay beside redis-server: GET and SET, measured in turns on one core, the generator on another.
//!
//! `cargo run --release -p forebay-bench --bin server -- --help`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use forebay_bench::figures::{Summary, load_average};
use forebay_bench::generator::{self, Load, Order, Outcome, ValueBytes};
use forebay_bench::program::{Program, free_port, pin_self};

/// Generators busier than this limit what they measure.
const BUSY_MAX: f64 = 0.9;

/// Share of a core below which the server is mostly waiting: its CPU time says little of what it could serve.
const SERVER_BUSY_MIN: f64 = 0.2;

#[derive(Parser)]
#[command(about = "Compares forebay with redis-server: requests per CPU second of the server, measured in turns")]
struct Options {
    /// The program to measure.
    #[arg(long, default_value = "target/release/forebay")]
    forebay: PathBuf,
    /// What it is compared with.
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    /// Runs of each server at each point.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Length of one run of GET, and of SET without a disk.
    #[arg(long, default_value_t = 1000)]
    run_ms: u64,
    /// Length of one run of SET with a disk.
    #[arg(long, default_value_t = 500)]
    disk_run_ms: u64,
    /// Documents, all loaded before the first run.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 64)]
    value_bytes: usize,
    /// Core of the server that is measured.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// Core of the generator.
    #[arg(long, default_value_t = 1)]
    generator_core: usize,
    /// Leave out what waits for a disk.
    #[arg(long)]
    memory_only: bool,
    /// Folder for files of both servers; a temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Two servers set up alike.
struct Pairing {
    name: &'static str,
    forebay: &'static [&'static str],
    redis: &'static [&'static str],
    disk: bool,
}

const PAIRINGS: &[Pairing] = &[
    Pairing {
        name: "memory, redis-server without persistence",
        forebay: &["--store", "memory"],
        redis: &["--save", "", "--appendonly", "no"],
        disk: false,
    },
    Pairing {
        name: "interval, AOF everysec",
        forebay: &["--store", "embedded:FOLDER/forebay.redb", "--durability", "interval"],
        redis: &["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
        disk: true,
    },
    Pairing {
        name: "always, AOF always",
        forebay: &["--store", "embedded:FOLDER/forebay.redb", "--durability", "always"],
        redis: &["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
        disk: true,
    },
];

/// One line of the table.
struct Point {
    command: &'static str,
    connections: usize,
    pipeline: usize,
}

const fn point(command: &'static str, connections: usize, pipeline: usize) -> Point {
    Point { command, connections, pipeline }
}

const POINTS: &[Point] = &[
    point("GET", 1, 1),
    point("GET", 1, 16),
    point("GET", 50, 1),
    point("GET", 50, 16),
    point("SET", 1, 1),
    point("SET", 1, 16),
    point("SET", 50, 1),
    point("SET", 50, 16),
];

/// One run of one server at one point.
struct Run {
    per_cpu_second: f64,
    throughput: f64,
    busy: f64,
    server_busy: f64,
}

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    pin_self(options.generator_core)?;
    let temporary = tempfile::tempdir()?;
    let folder = options.folder.as_deref().unwrap_or(temporary.path());
    let shown: Vec<String> = std::env::args().skip(1).collect();
    println!("repeat: cargo run --release -p forebay-bench --bin server -- {}", shown.join(" "));
    println!(
        "{} documents of {} B, {} runs in turns; server on core {}, generator on core {}; medians (range)",
        options.keys, options.value_bytes, options.runs, options.server_core, options.generator_core
    );
    for pairing in PAIRINGS.iter().filter(|pairing| !(pairing.disk && options.memory_only)) {
        compare_pair(options, pairing, folder)?;
    }
    Ok(())
}

fn compare_pair(options: &Options, pairing: &Pairing, folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(folder)?;
    let forebay = start_forebay(options, pairing, folder.path())?;
    let redis = start_redis(options, pairing, folder.path())?;
    let preload = Load {
        connections: 1,
        pipeline: 512,
        keys: options.keys,
        order: Order::Sequential,
        writes_percent: 100,
        value: ValueBytes::Fixed(options.value_bytes),
        time: Duration::MAX,
        requests: options.keys,
        seed: 1,
    };
    for server in [&forebay, &redis] {
        generator::run(server.address, &preload)?;
        // Every document is read once, so that the first run finds it in the cache.
        let warm = Load { writes_percent: 0, ..preload };
        expect_hits(&generator::run(server.address, &warm)?)?;
    }
    println!("\n{} (load average {})\n", pairing.name, load_average());
    println!(
        "| command | connections | pipeline | forebay kreq/CPU s | redis kreq/CPU s | ratio \
         | forebay kreq/s | redis kreq/s | generator busy | note |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for point in POINTS.iter().filter(|point| !pairing.disk || point.command == "SET") {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..options.runs {
            // Who goes first changes, so that neither always has the warmer machine.
            let first_ours = number % 2 == 0;
            for turn in [first_ours, !first_ours] {
                let (server, runs) = if turn { (&forebay, &mut ours) } else { (&redis, &mut theirs) };
                runs.push(run(options, pairing, point, server, number as u64)?);
            }
        }
        print_line(point, &ours, &theirs);
    }
    Ok(())
}

fn run(
    options: &Options,
    pairing: &Pairing,
    point: &Point,
    server: &Program,
    seed: u64,
) -> Result<Run, Box<dyn Error>> {
    let run_ms = if pairing.disk { options.disk_run_ms } else { options.run_ms };
    let load = Load {
        connections: point.connections,
        pipeline: point.pipeline,
        keys: options.keys,
        order: Order::Random,
        writes_percent: if point.command == "SET" { 100 } else { 0 },
        value: ValueBytes::Fixed(options.value_bytes),
        time: Duration::from_millis(run_ms),
        requests: u64::MAX,
        seed,
    };
    let before = server.cpu_seconds()?;
    let outcome = generator::run(server.address, &load)?;
    let cpu_seconds = server.cpu_seconds()? - before;
    if point.command == "GET" {
        expect_hits(&outcome)?;
    }
    Ok(Run {
        per_cpu_second: outcome.requests() as f64 / cpu_seconds,
        throughput: outcome.throughput(),
        busy: outcome.busy(),
        server_busy: cpu_seconds / outcome.seconds,
    })
}

/// All documents were loaded before: a miss means that something else was measured.
fn expect_hits(outcome: &Outcome) -> Result<(), Box<dyn Error>> {
    match outcome.misses {
        0 => Ok(()),
        misses => Err(format!("{misses} of {} GETs found nothing", outcome.hits + misses).into()),
    }
}

fn print_line(point: &Point, ours: &[Run], theirs: &[Run]) {
    let of = |runs: &[Run], figure: fn(&Run) -> f64| Summary::of(&runs.iter().map(figure).collect::<Vec<_>>());
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a.per_cpu_second / b.per_cpu_second).collect();
    let ratio = Summary::of(&ratios);
    let [our_busy, their_busy] = [ours, theirs].map(|runs| of(runs, |run| run.busy).median);
    let bound = |busy| busy > BUSY_MAX;
    let note = match (bound(our_busy), bound(their_busy)) {
        (false, false) => "",
        (true, false) => "generator-bound with forebay",
        (false, true) => "generator-bound with redis",
        (true, true) => "generator-bound",
    };
    let least = ours.iter().chain(theirs).map(|run| run.server_busy).fold(f64::MAX, f64::min);
    let note = if least < SERVER_BUSY_MIN { format!("{note} server mostly waits") } else { note.to_owned() };
    println!(
        "| {} | {} | {} | {} | {} | {:.2} ({:.2}-{:.2}) | {} | {} | {:.0} %, {:.0} % | {} |",
        point.command,
        point.connections,
        point.pipeline,
        of(ours, |run| run.per_cpu_second).thousands(),
        of(theirs, |run| run.per_cpu_second).thousands(),
        ratio.median,
        ratio.low,
        ratio.high,
        of(ours, |run| run.throughput).thousands(),
        of(theirs, |run| run.throughput).thousands(),
        our_busy * 100.0,
        their_busy * 100.0,
        note.trim(),
    );
}

fn start_forebay(options: &Options, pairing: &Pairing, folder: &Path) -> Result<Program, Box<dyn Error>> {
    let port = free_port()?;
    let folder = folder.to_string_lossy();
    let mut args: Vec<String> = vec!["serve".into(), "--listen".into(), format!("127.0.0.1:{port}")];
    args.extend(["--http", "off", "--threads", "1", "--memory", "512MiB"].map(String::from));
    args.extend(pairing.forebay.iter().map(|arg| arg.replace("FOLDER", &folder)));
    Ok(Program::start(&options.forebay, &args, Some(options.server_core), port)?)
}

fn start_redis(options: &Options, pairing: &Pairing, folder: &Path) -> Result<Program, Box<dyn Error>> {
    let port = free_port()?;
    let mut args: Vec<String> = vec!["--port".into(), port.to_string()];
    args.extend(["--bind", "127.0.0.1", "--dir"].map(String::from));
    args.push(folder.to_string_lossy().into_owned());
    args.extend(pairing.redis.iter().map(|arg| (*arg).to_owned()));
    Ok(Program::start(&options.redis, &args, Some(options.server_core), port)?)
}
