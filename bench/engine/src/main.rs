//! The engine beside other caches for Rust: throughput, hit ratio and memory of caches of numbers.
//!
//! All peers answer the same requests in turn, round after round, so that what else the machine does hits all of them.
//! Ratios within a run mean something, absolute figures little.

mod memory;
mod peers;
mod report;
mod work;

use std::time::Instant;

use clap::{Parser, ValueEnum};

use peers::{CONTESTANTS, Contestant, Peer};
use report::Row;
use work::{Mode, Work};

/// Sequences of requests that are not the same: of threads and rounds.
const PARTS: usize = 16;

/// Measures caches of u64 keys and values.
#[derive(Parser)]
struct Options {
    /// Rounds of all peers; the table shows medians.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Threads, with commas.
    #[arg(long, default_value = "1,2,4,8", value_delimiter = ',')]
    threads: Vec<usize>,
    /// What is measured, with commas; all if it is not given.
    #[arg(long, value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Peers by name, with commas; all if it is not given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Requests of each thread in a round.
    #[arg(long, default_value_t = 1 << 20)]
    requests: usize,
    /// Leaves out the memory per entry.
    #[arg(long)]
    no_memory: bool,
    /// The tables go to this file, too.
    #[arg(long)]
    markdown: Option<std::path::PathBuf>,
    /// One round of one peer in one mode by one thread and nothing else, for callgrind: name.
    #[arg(long)]
    probe: Option<String>,
}

fn main() -> std::io::Result<()> {
    let options = Options::parse();
    if let Some(name) = &options.probe {
        return probe(&options, name);
    }
    let modes = if options.modes.is_empty() { Mode::value_variants().to_vec() } else { options.modes.clone() };
    let chosen: Vec<&Contestant> = CONTESTANTS
        .iter()
        .filter(|peer| options.only.is_empty() || options.only.iter().any(|name| name == peer.name))
        .collect();
    let mut text = report::head(&options);
    for mode in modes {
        let work = Work::new(mode, options.requests, PARTS);
        let mut rows: Vec<Row> = Vec::new();
        let peers: Vec<(&Contestant, Box<dyn Runner>)> =
            chosen.iter().filter_map(|peer| Some((*peer, (peer.build)(&work)?))).collect();
        for &threads in &options.threads {
            let mut rates = vec![Vec::new(); peers.len()];
            let mut hits = vec![0.0; peers.len()];
            for round in 0..options.runs {
                for (at, (peer, runner)) in peers.iter().enumerate() {
                    let (rate, hit) = runner.run(&work, threads, round);
                    eprintln!("{mode:?} {threads} threads, round {round}: {} {rate:.2} Mops, {hit:.4} hits", peer.name);
                    rates[at].push(rate);
                    hits[at] += hit / options.runs as f64;
                }
            }
            rows.extend(rates.into_iter().zip(hits).zip(&peers).map(|((rates, hits), (peer, _))| Row {
                name: peer.name,
                threads,
                rates,
                hits,
            }));
        }
        text += &report::table(mode, &options.threads, &rows);
    }
    if !options.no_memory {
        text += &report::memory(&chosen.iter().map(|peer| (peer.name, (peer.memory)())).collect::<Vec<_>>());
    }
    text += &report::foot();
    println!("{text}");
    if let Some(path) = &options.markdown {
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// The instructions of a request are what a run with twice the requests takes more.
fn probe(options: &Options, name: &str) -> std::io::Result<()> {
    let mode = options.modes.first().copied().unwrap_or(Mode::Hit);
    let work = Work::new(mode, options.requests, 1);
    let contestant = CONTESTANTS.iter().find(|peer| peer.name == name);
    let Some(runner) = contestant.and_then(|peer| (peer.build)(&work)) else {
        return Err(std::io::Error::other(format!("no peer {name} in this mode")));
    };
    println!("{name}: {:?}", runner.run(&work, 1, 0));
    Ok(())
}

/// A cache that is ready for a mode.
pub trait Runner {
    /// Million requests per second over all threads, and the share of hits.
    fn run(&self, work: &Work, threads: usize, round: usize) -> (f64, f64);
}

impl<P: Peer> Runner for P {
    fn run(&self, work: &Work, threads: usize, round: usize) -> (f64, f64) {
        let start = std::sync::Barrier::new(threads);
        let parts: Vec<(Instant, Instant, u64)> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|thread| {
                    let (start, requests) = (&start, work.requests(round * threads + thread));
                    scope.spawn(move || {
                        start.wait();
                        let from = Instant::now();
                        let hits = match work.mode {
                            Mode::Hit => hit(self, requests),
                            Mode::GetOrInsert => get_or_insert(self, requests),
                            Mode::Mixed => mixed(self, requests),
                        };
                        (from, Instant::now(), hits)
                    })
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("a worker does not panic")).collect()
        });
        let from = parts.iter().map(|part| part.0).min().expect("there is a thread");
        let to = parts.iter().map(|part| part.1).max().expect("there is a thread");
        let hits: u64 = parts.iter().map(|part| part.2).sum();
        let total = work.length() * threads;
        (total as f64 / (to - from).as_secs_f64() / 1e6, hits as f64 / total as f64)
    }
}

#[inline(never)]
fn hit<P: Peer>(peer: &P, requests: &[u64]) -> u64 {
    let (mut sum, mut missed) = (0u64, 0);
    for &key in requests {
        match peer.get(key) {
            Some(value) => sum = sum.wrapping_add(value),
            None => missed += 1,
        }
    }
    std::hint::black_box(sum);
    requests.len() as u64 - missed
}

#[inline(never)]
fn get_or_insert<P: Peer>(peer: &P, requests: &[u64]) -> u64 {
    requests.iter().map(|&key| u64::from(peer.get_or_insert(key))).sum()
}

/// Nine of ten look a key up, the tenth inserts.
#[inline(never)]
fn mixed<P: Peer>(peer: &P, requests: &[u64]) -> u64 {
    let mut hits = 0;
    for ten in requests.chunks(10) {
        let (insert, gets) = ten.split_first().expect("chunks are not empty");
        peer.put(*insert, work::value(*insert));
        hits += gets.iter().filter(|&&key| std::hint::black_box(peer.get(key)).is_some()).count() as u64;
    }
    hits
}
