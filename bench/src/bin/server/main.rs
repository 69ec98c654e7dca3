//! forebay beside redis-server and memcached, measured in turns, the generator on a separate core.
//!
//! `cargo run --profile dist -p forebay-bench --bin server -- --help`
//!
//! * `options`: what is measured.
//! * `closed`: requests per CPU second of the server, in a closed loop.
//! * `latency`: from when a request was due to its reply, in an open loop.

mod closed;
mod latency;
mod options;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use forebay_bench::generator::{self, Load};
use forebay_bench::peers::{Durability, Peer, Setup};
use forebay_bench::program::{Program, cores, pin_self};
use forebay_bench::report::{Report, version_of};
use forebay_bench::workload::{Kind, Order, ValueBytes};

use crate::options::{Options, Workload};

/// Of each server; what is loaded takes a small part of it.
const MEMORY_MIB: u64 = 1024;

/// Servers that run, loaded alike, and how.
struct Scene<'a> {
    options: &'a Options,
    durability: Durability,
    value_bytes: usize,
    threads: usize,
    /// The generator runs on a core of the servers.
    shared_cores: bool,
    servers: Vec<(Peer, Program)>,
}

fn main() -> ExitCode {
    match compare(&Options::parse().completed()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), Box<dyn Error>> {
    let missing: Vec<String> = options.peers.iter().filter_map(|peer| options.programs.missing(*peer)).collect();
    if !missing.is_empty() {
        return Err(format!("{}; or leave it out with --peers", missing.join("; ")).into());
    }
    pin_self(options.generator_core)?;
    let temporary = tempfile::tempdir()?;
    let folder = options.folder.as_deref().unwrap_or(temporary.path());
    let mut report = Report::new("server");
    introduce(&mut report, options);
    for durability in &options.durability {
        let workloads = options.workloads(*durability);
        let closed: Vec<Kind> = workloads.iter().filter_map(|workload| closed_kind(*workload)).collect();
        if !closed.is_empty() {
            report.line(&format!("\n### {}\n", durability.heading()));
            closed::head(&mut report, options);
        }
        for (threads, value_bytes) in pairs(&options.threads, &options.value_bytes) {
            if let Some(scene) = Scene::set(options, *durability, threads, value_bytes, &closed, folder)? {
                closed::measure(&mut report, &scene, &closed)?;
            }
        }
        if workloads.contains(&Workload::Latency) {
            let kinds = [Kind::Get];
            let (threads, value_bytes) = (options.threads[0], options.value_bytes[0]);
            if let Some(scene) = Scene::set(options, *durability, threads, value_bytes, &kinds, folder)? {
                latency::measure(&mut report, &scene)?;
            }
        }
    }
    Ok(report.end(options.markdown.as_deref())?)
}

fn closed_kind(workload: Workload) -> Option<Kind> {
    match workload {
        Workload::Closed(kind) => Some(kind),
        Workload::Latency => None,
    }
}

fn pairs(threads: &[usize], value_bytes: &[usize]) -> Vec<(usize, usize)> {
    threads.iter().flat_map(|threads| value_bytes.iter().map(|bytes| (*threads, *bytes))).collect()
}

fn introduce(report: &mut Report, options: &Options) {
    let versions: Vec<String> = options.peers.iter().map(|peer| version_of(options.programs.path(*peer))).collect();
    report.line(&versions.join("; "));
    report.line(&format!(
        "A server with one thread has core {}, all of it, the generator core {}. {} documents and as many hashes of 8 \
         fields are loaded before; all replies are checked. Medians of {} runs of {} ms in turns, ranges in brackets.",
        options.server_core, options.generator_core, options.keys, options.runs, options.run_ms
    ));
}

impl Scene<'_> {
    /// Starts the servers and loads them with what `kinds` need; `None` if there is nothing to be run.
    fn set<'a>(
        options: &'a Options,
        durability: Durability,
        threads: usize,
        value_bytes: usize,
        kinds: &[Kind],
        folder: &Path,
    ) -> Result<Option<Scene<'a>>, Box<dyn Error>> {
        if kinds.is_empty() {
            return Ok(None);
        }
        let taken = match threads {
            1 => options.server_core.to_string(),
            _ => format!("0-{}", threads - 1),
        };
        let shared_cores = threads > 1 && (options.generator_core < threads || cores() <= threads);
        let mut servers = Vec::new();
        for peer in &options.peers {
            if *peer == Peer::Memcached && durability != Durability::Memory {
                continue;
            }
            let folder = folder.join(format!("{}-{threads}-{value_bytes}", durability.name()));
            std::fs::create_dir_all(&folder)?;
            let setup = Setup {
                durability,
                threads,
                cores: (!shared_cores).then_some(taken.as_str()),
                memory_mib: MEMORY_MIB,
                connections: options.connections.iter().copied().max().unwrap_or(1),
                folder: &folder,
            };
            servers.push((*peer, options.programs.start(*peer, &setup)?));
        }
        let scene = Scene { options, durability, value_bytes, threads, shared_cores, servers };
        eprintln!("loading: {}, {threads} threads, {value_bytes} B", durability.heading());
        for (peer, server) in &scene.servers {
            scene.preload(*peer, server, kinds)?;
        }
        Ok(Some(scene))
    }

    /// Requests of `kind` to `peer`, one after the other over all keys.
    fn once(&self, peer: Peer, kind: Kind) -> Load {
        Load {
            kind,
            protocol: peer.protocol(),
            connections: 1,
            pipeline: 512,
            keys: self.options.keys,
            order: Order::Sequential,
            value: ValueBytes::Fixed(self.value_bytes),
            time: Duration::MAX,
            requests: self.options.keys,
            seed: 1,
        }
    }

    /// Loads all documents, and asks once for each key, so that the first run finds all that it needs in the cache.
    fn preload(&self, peer: Peer, server: &Program, kinds: &[Kind]) -> Result<(), Box<dyn Error>> {
        let hashes = kinds.iter().any(|kind| matches!(kind, Kind::Hset | Kind::Hgetall));
        let mut passes = vec![Kind::Set, Kind::Get];
        if hashes {
            passes.extend([Kind::HsetAll, Kind::Hgetall]);
        }
        if kinds.contains(&Kind::GetMiss) {
            passes.push(Kind::GetMiss);
        }
        for kind in passes.into_iter().filter(|kind| kind.spoken(peer.protocol())) {
            generator::run(server.address, &self.once(peer, kind))?;
        }
        Ok(())
    }
}
