//! What a cached entry costs in memory: forebay, redis-server and memcached with the same documents.
//!
//! `cargo run --profile dist -p forebay-bench --bin entries -- --help`

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use forebay_bench::generator::{self, Load};
use forebay_bench::peers::{Durability, Peer, Programs, Setup};
use forebay_bench::program::Program;
use forebay_bench::report::{Report, version_of};
use forebay_bench::workload::{KEY_BYTES, Kind, Order, ValueBytes};

/// Of each server; what is loaded takes less. Not far less: forebay's store takes a share of it for its pages.
const MEMORY_MIB: u64 = 640;

/// A server has become quiet: what it keeps for a while it has given back.
const QUIET_TIME: Duration = Duration::from_secs(3);

#[derive(Parser)]
#[command(about = "Loads the same documents into each server and reports its resident bytes per entry")]
struct Options {
    #[command(flatten)]
    programs: Programs,
    /// Which of forebay, redis, valkey, memcached.
    #[arg(long, value_delimiter = ',', default_values = ["forebay", "redis", "memcached"])]
    peers: Vec<Peer>,
    /// Documents.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, value_delimiter = ',', default_values = ["64", "256"])]
    value_bytes: Vec<usize>,
    /// Folder for the store's file; a temporary one by default.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Also write the block of Markdown to this file.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

fn main() -> ExitCode {
    match measure_all(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(options: &Options) -> Result<(), Box<dyn Error>> {
    let missing: Vec<String> = options.peers.iter().filter_map(|peer| options.programs.missing(*peer)).collect();
    if !missing.is_empty() {
        return Err(format!("{}; or leave it out with --peers", missing.join("; ")).into());
    }
    let mut report = Report::new("entries");
    let versions: Vec<String> = options.peers.iter().map(|peer| version_of(options.programs.path(*peer))).collect();
    report.line(&versions.join("; "));
    report.line(&format!(
        "{} documents with keys of {KEY_BYTES} B, all written and then all read, none missing. forebay's documents are \
         in an embedded store's file too, the others' in memory alone. One run.\n",
        options.keys
    ));
    report.columns(&[
        "value B",
        "server",
        "resident MiB",
        "empty MiB",
        "resident B/entry",
        "above empty B/entry",
        "beside key and value B",
    ]);
    for value_bytes in &options.value_bytes {
        for peer in &options.peers {
            let cells = measure(options, *peer, *value_bytes)?;
            report.row(&cells);
        }
    }
    Ok(report.end(options.markdown.as_deref())?)
}

fn measure(options: &Options, peer: Peer, value_bytes: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let folder = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    // Only forebay needs a disk: a store in memory would hold each document twice.
    let durability = if peer == Peer::Forebay { Durability::Interval } else { Durability::Memory };
    let folder = folder.path();
    let setup = Setup { durability, threads: 1, cores: None, memory_mib: MEMORY_MIB, connections: 1, folder };
    let server = options.programs.start(peer, &setup)?;
    let empty = server.resident_bytes()?;
    for kind in [Kind::Set, Kind::Get, Kind::Get] {
        pass(options, peer, &server, kind, value_bytes)?;
    }
    if peer == Peer::Forebay {
        all_cached(&server, options.keys)?;
    }
    std::thread::sleep(QUIET_TIME);
    let resident = server.resident_bytes()?;
    let per_entry = |bytes: u64| bytes as f64 / options.keys as f64;
    let above = per_entry(resident.saturating_sub(empty));
    Ok(vec![
        value_bytes.to_string(),
        peer.name().to_owned(),
        (resident >> 20).to_string(),
        (empty >> 20).to_string(),
        format!("{:.0}", per_entry(resident)),
        format!("{above:.0}"),
        format!("{:.0}", above - (KEY_BYTES + value_bytes) as f64),
    ])
}

/// One request for each document.
fn pass(options: &Options, peer: Peer, server: &Program, kind: Kind, value_bytes: usize) -> Result<(), Box<dyn Error>> {
    let load = Load {
        kind,
        protocol: peer.protocol(),
        connections: 1,
        pipeline: 256,
        keys: options.keys,
        order: Order::Sequential,
        value: ValueBytes::Fixed(value_bytes),
        time: Duration::MAX,
        requests: options.keys,
        seed: 1,
    };
    generator::run(server.address, &load)?;
    Ok(())
}

/// Says so if the cache holds fewer documents than were read.
fn all_cached(server: &Program, keys: u64) -> Result<(), Box<dyn Error>> {
    match server.cache_stat("entries")? {
        entries if entries == keys => Ok(()),
        entries => Err(format!("the cache holds {entries} of {keys} documents").into()),
    }
}
