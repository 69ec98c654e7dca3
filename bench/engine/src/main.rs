//! The engine beside other caches for Rust: throughput, hit ratio and memory of caches of numbers.
//!
//! All peers answer the same requests in turn, round after round, so that what else the machine does hits all of them.
//! Ratios within a run mean something, absolute figures little.

mod alike;
mod latency;
mod memory;
mod peers;
mod policies;
mod report;
mod sharing;
mod traces;
mod work;

use std::time::Instant;

use clap::{Parser, ValueEnum};

use latency::{Growth, Times};
use peers::{CONTESTANTS, Contestant, Peer};
use report::Row;
use work::{Mode, Work};

/// A peer that serves less, in million requests per second, is asked an eighth of the requests, or replays a trace
/// once: all of the others' time would be spent on it.
const SLOW: f64 = 5.0;

/// Threads and rounds for traces, at most: there are many of them.
const TRACE_THREADS: usize = 2;
const TRACE_RUNS: usize = 3;

/// Measures caches of u64 keys and values.
#[derive(Parser)]
pub struct Options {
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
    /// Entries of caches that evict, but for traces.
    #[arg(long, default_value_t = 100_000)]
    capacity: usize,
    /// Of the drawn requests.
    #[arg(long, default_value_t = 0.9)]
    skew: f64,
    /// The folder of traces; below it, too.
    #[arg(long, env = "FOREBAY_TRACES")]
    traces: Option<std::path::PathBuf>,
    /// Traces by name, with commas: that of the file up to the first dot.
    #[arg(long, value_delimiter = ',')]
    only_traces: Vec<String>,
    /// Requests of a trace, at most.
    #[arg(long, default_value_t = 1_000_000)]
    trace_requests: usize,
    /// Leaves out the memory per entry.
    #[arg(long)]
    no_memory: bool,
    /// Only every policy of the library, by one thread and two.
    #[arg(long)]
    policies: bool,
    /// Only whether two threads disturb each other.
    #[arg(long)]
    sharing: bool,
    /// Only how long single requests take.
    #[arg(long)]
    latency: bool,
    /// Only how long single inserts take while a cache grows to so many entries.
    #[arg(long)]
    growth: Option<usize>,
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
    if options.sharing {
        let rates = chosen.iter().map(|peer| (peer.name, (peer.sharing)(options.requests)));
        println!("{text}{}", report::sharing(&rates.collect::<Vec<_>>()));
        return Ok(());
    }
    if options.policies {
        text += &policies::table(&options);
        return done(&options, text);
    }
    if let Some(entries) = options.growth {
        let others = if options.only.is_empty() { Vec::new() } else { chosen };
        text += &report::growth(entries, &growth(entries, &others, &options));
        return done(&options, text);
    }
    if options.latency {
        let drawn = modes.into_iter().filter(|mode| *mode != Mode::Traces).flat_map(|mode| Work::all(mode, &options));
        drawn.for_each(|work| text += &report::latency(&work.title, &latency(&work, &chosen, &options)));
        return done(&options, text);
    }
    for mode in modes {
        let works = Work::all(mode, &options);
        let rows: Vec<(&str, Vec<Row>)> =
            works.iter().map(|work| (work.title.as_str(), measure(work, &chosen, &options))).collect();
        text += &match mode {
            Mode::Traces => report::traces(&options.threads_for(mode), &rows),
            _ => rows.iter().map(|(title, rows)| report::table(title, &options.threads, rows)).collect(),
        };
    }
    if !options.no_memory {
        text += &report::memory(&chosen.iter().map(|peer| (peer.name, (peer.memory)())).collect::<Vec<_>>());
    }
    done(&options, text)
}

fn done(options: &Options, text: String) -> std::io::Result<()> {
    let text = text + &report::foot();
    println!("{text}");
    match &options.markdown {
        Some(path) => std::fs::write(path, text),
        None => Ok(()),
    }
}

impl Options {
    fn threads_for(&self, mode: Mode) -> Vec<usize> {
        let most = if mode == Mode::Traces { TRACE_THREADS } else { usize::MAX };
        self.threads.iter().copied().filter(|&threads| threads <= most).collect()
    }
}

/// All peers in turn, round after round.
fn measure(work: &Work, chosen: &[&Contestant], options: &Options) -> Vec<Row> {
    let mut peers: Vec<(&Contestant, Box<dyn Runner>)> =
        chosen.iter().filter_map(|peer| Some((*peer, (peer.build)(work)?))).collect();
    let mut slow = vec![false; peers.len()];
    let mut rows = Vec::new();
    let runs = if work.mode == Mode::Traces { options.runs.min(TRACE_RUNS) } else { options.runs };
    for threads in options.threads_for(work.mode) {
        let mut of_peers: Vec<Row> = peers.iter().map(|(peer, _)| Row::new(peer.name, threads)).collect();
        for round in 0..runs {
            let parts = work.parts(threads, round);
            for (at, (peer, runner)) in peers.iter_mut().enumerate() {
                let recorded = work.mode == Mode::Traces;
                if recorded && slow[at] && round > 0 {
                    continue;
                }
                if let Some(empty) = recorded.then(|| (peer.build)(work)).flatten() {
                    *runner = empty;
                }
                let share = if slow[at] && !recorded { 8 } else { 1 };
                let parts: Vec<&[u64]> = parts.iter().map(|part| &part[..part.len() / share]).collect();
                let (rate, hit) = runner.run(work.mode, &parts);
                slow[at] |= rate < SLOW;
                eprintln!(
                    "{}, {threads} threads, round {round}: {} {rate:.2} Mops, {hit:.4} hits",
                    work.title, peer.name
                );
                of_peers[at].add(rate, hit);
            }
        }
        rows.extend(of_peers);
    }
    rows
}

/// How long requests take, of all peers in turn, round after round.
fn latency(work: &Work, chosen: &[&Contestant], options: &Options) -> Vec<(&'static str, usize, Times)> {
    let with_clock = [&peers::CLOCK].into_iter().chain(chosen.iter().copied());
    let peers: Vec<_> = with_clock.filter_map(|peer| Some((peer.name, (peer.build)(work)?))).collect();
    let mut rows = Vec::new();
    for &threads in &options.threads {
        let mut of_peers: Vec<Times> = peers.iter().map(|_| Times::new()).collect();
        for round in 0..options.runs {
            let parts = work.parts(threads, round);
            let parts: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
            for ((_, runner), times) in peers.iter().zip(&mut of_peers) {
                times.merge(&runner.times(work.mode, &parts));
            }
        }
        rows.extend(peers.iter().zip(of_peers).map(|((name, _), times)| (*name, threads, times)));
    }
    rows
}

/// What growing costs, of all peers in turn, round after round.
fn growth(entries: usize, chosen: &[&Contestant], options: &Options) -> Vec<(&'static str, usize, Growth)> {
    let growing: Vec<&Contestant> = peers::GROWING.iter().chain(chosen.iter().copied()).collect();
    let mut rows: Vec<(&str, usize, Growth)> = Vec::new();
    for round in 0..options.runs {
        for &threads in &options.threads {
            for peer in &growing {
                let grown = (peer.growth)(entries, threads);
                eprintln!("round {round}: {}, {threads} threads, worst {:?}", peer.name, grown.inserts.worst);
                match rows.iter_mut().find(|row| (row.0, row.1) == (peer.name, threads)) {
                    Some((_, _, all)) => {
                        all.inserts.merge_round(&grown.inserts);
                        all.removals.merge_round(&grown.removals);
                    }
                    None => rows.push((peer.name, threads, grown)),
                }
            }
        }
    }
    rows
}

/// The instructions of a request are what a run with twice the requests takes more.
fn probe(options: &Options, name: &str) -> std::io::Result<()> {
    let mode = options.modes.first().copied().unwrap_or(Mode::Hit);
    let contestant = CONTESTANTS.iter().find(|peer| peer.name == name);
    for work in Work::all(mode, options) {
        let Some(runner) = contestant.and_then(|peer| (peer.build)(&work)) else {
            return Err(std::io::Error::other(format!("no peer {name} in this mode")));
        };
        println!("{name}: {:?}", runner.run(mode, &[&work.parts(1, 0)[0]]));
    }
    Ok(())
}

/// A cache that is ready for a mode.
pub trait Runner {
    /// Million requests per second over all threads, of which each asks a part, and the share of hits.
    fn run(&self, mode: Mode, parts: &[&[u64]]) -> (f64, f64);

    /// How long each request takes.
    fn times(&self, mode: Mode, parts: &[&[u64]]) -> Times;
}

impl<P: Peer> Runner for P {
    fn times(&self, mode: Mode, parts: &[&[u64]]) -> Times {
        latency::of_mode(self, mode, parts)
    }

    fn run(&self, mode: Mode, parts: &[&[u64]]) -> (f64, f64) {
        let start = std::sync::Barrier::new(parts.len());
        let done: Vec<(Instant, Instant, u64)> = std::thread::scope(|scope| {
            let handles: Vec<_> = parts
                .iter()
                .map(|requests| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        let from = Instant::now();
                        let hits = match mode {
                            Mode::Hit => hit(self, requests),
                            Mode::GetOrInsert | Mode::Traces => get_or_insert(self, requests),
                            Mode::Mixed => mixed(self, requests),
                        };
                        (from, Instant::now(), hits)
                    })
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("a worker does not panic")).collect()
        });
        let from = done.iter().map(|part| part.0).min().expect("there is a thread");
        let to = done.iter().map(|part| part.1).max().expect("there is a thread");
        let hits: u64 = done.iter().map(|part| part.2).sum();
        let total: usize = parts.iter().map(|part| part.len()).sum();
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
