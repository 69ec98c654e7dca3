//! Resident size of forebay under churn, beside what it was allowed.
//!
//! `cargo run --release -p forebay-bench --bin memory -- --help`

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use forebay_bench::figures::load_average;
use forebay_bench::generator::{self, Load};
use forebay_bench::program::{Program, free_port};
use forebay_bench::replies::Protocol;
use forebay_bench::workload::{KEY_BYTES, Kind, Order, ValueBytes};

const MIB: u64 = 1 << 20;

/// Resident bytes that a server may have beyond 1.1 times `--memory`.
const SPARE_BYTES: u64 = 64 * MIB;

/// Share of the resident size that keys and values of 256 B are to have.
const SHARE_GOAL: f64 = 0.6;

/// Between two looks at the resident size.
const LOOK_TIME: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(about = "Fills and churns a forebay server through its socket and reports its resident size")]
struct Options {
    /// The program to measure.
    #[arg(long, default_value = "target/release/forebay")]
    forebay: PathBuf,
    /// Sizes to try, in MiB, comma-separated.
    #[arg(long, value_delimiter = ',', default_value = "64,512")]
    memory_mib: Vec<u64>,
    /// Seconds of churn at each size, after filling.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Bytes of documents in the store, as a multiple of the memory.
    #[arg(long, default_value_t = 2.0)]
    documents: f64,
    /// Of 100 requests so many are SET, the others GET.
    #[arg(long, default_value_t = 30)]
    writes_percent: u8,
    /// Durability of the store. What is not flushed costs the store memory: up to 64 MiB of it with `never`.
    #[arg(long, default_value = "interval")]
    durability: String,
    /// Only values of 256 B, whose share is known.
    #[arg(long)]
    fixed_only: bool,
    /// Folder for the store's file; a temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// What values a line of the table has.
struct Values {
    name: &'static str,
    bytes: ValueBytes,
    /// About their mean.
    mean: u64,
}

impl Values {
    /// Whether all are alike: only then is it known what entries hold.
    fn fixed(&self) -> bool {
        matches!(self.bytes, ValueBytes::Fixed(_))
    }
}

const VALUES: &[Values] = &[
    // The mean of a log-uniform length: (high - low) / ln(high / low).
    Values { name: "64 B..16 KiB", bytes: ValueBytes::LogUniform(64, 16 * 1024), mean: 2943 },
    Values { name: "256 B", bytes: ValueBytes::Fixed(256), mean: 256 },
];

fn main() -> ExitCode {
    match measure_all(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the bound does not hold");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(options: &Options) -> Result<bool, Box<dyn Error>> {
    let shown: Vec<String> = std::env::args().skip(1).collect();
    println!("repeat: cargo run --release -p forebay-bench --bin memory -- {}", shown.join(" "));
    println!("{} s of churn, {} % SET; load average {}\n", options.seconds, options.writes_percent, load_average());
    println!(
        "| memory | values | requests | entries | charged MiB | keys and values MiB | resident MiB | most \
         | bound MiB | holds | share |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut holds = true;
    for memory_mib in &options.memory_mib {
        for values in VALUES.iter().filter(|values| values.fixed() || !options.fixed_only) {
            holds &= measure(options, *memory_mib, values)?;
        }
    }
    Ok(holds)
}

/// One line of the table; whether the bound holds.
fn measure(options: &Options, memory_mib: u64, values: &Values) -> Result<bool, Box<dyn Error>> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let server = start(options, memory_mib, folder.path())?;
    let memory = memory_mib * MIB;
    let keys = (memory as f64 * options.documents) as u64 / (values.mean + KEY_BYTES as u64);
    let load = Load {
        kind: Kind::Set,
        protocol: Protocol::Resp,
        connections: 16,
        pipeline: 64,
        keys,
        order: Order::Sequential,
        value: values.bytes,
        time: Duration::MAX,
        requests: keys,
        seed: 1,
    };
    let mut requests = generator::run(server.address, &load)?.requests;
    let (began, mut most, mut seed) = (Instant::now(), server.resident_bytes()?, 1);
    while began.elapsed() < Duration::from_secs(options.seconds) {
        seed += 1;
        let churn = Load {
            kind: Kind::Mixed(options.writes_percent),
            order: Order::Random,
            requests: u64::MAX,
            time: LOOK_TIME,
            seed,
            ..load
        };
        requests += generator::run(server.address, &churn)?.requests;
        most = most.max(server.resident_bytes()?);
    }
    let resident = server.resident_bytes()?;
    let [entries, used] = ["entries", "used_bytes"].map(|name| server.cache_stat(name));
    let (entries, used) = (entries?, used?);
    let fixed = values.fixed();
    let payload = entries * (values.mean + KEY_BYTES as u64);
    let bound = memory * 11 / 10 + SPARE_BYTES;
    let holds = most <= bound;
    let share = payload as f64 / resident as f64;
    println!(
        "| {memory_mib} MiB | {} | {requests} | {entries} | {} | {} | {} | {} | {} | {} | {} |",
        values.name,
        used / MIB,
        if fixed { (payload / MIB).to_string() } else { "-".into() },
        resident / MIB,
        most / MIB,
        bound / MIB,
        if holds { "yes" } else { "NO" },
        match fixed {
            true => format!("{share:.2} ({SHARE_GOAL} wanted)"),
            false => "-".into(),
        },
    );
    Ok(holds)
}

fn start(options: &Options, memory_mib: u64, folder: &std::path::Path) -> Result<Program, Box<dyn Error>> {
    let port = free_port()?;
    let store = format!("embedded:{}/forebay.redb", folder.display());
    let mut args: Vec<String> = ["serve", "--http", "off", "--durability"].map(String::from).into();
    args.push(options.durability.clone());
    args.extend(["--listen".into(), format!("127.0.0.1:{port}"), "--store".into(), store]);
    args.extend(["--memory".into(), format!("{memory_mib}MiB")]);
    Ok(Program::start(&options.forebay, &args, None, port, Protocol::Resp)?)
}
