//! A scientific program with a cache in front of what it computes again and again (thesis, section 5.6).
//!
//! It computes Wigner 6j symbols, which couple angular momenta, by their definition: sums of products of four 3j
//! symbols. The crate `wigners` computes a 3j symbol in some microseconds. It keeps 200,000 of them in an LRU cache
//! behind one lock, as the thesis' LSU3shell kept its coefficients. Here other caches stand in front of it.
//!
//! The use of forebay's cache is `Remembers for forebay_cache::Inline` in `caches.rs`: one call. Every cache must give
//! the same sums to the last bit, at any number of threads, and the program fails if one does not.
//!
//! ```text
//! target/dist/wigner --threads 1,2,8            # table 5.5, also as `make figure NAME=deferred-table-5.5`
//! ```

mod caches;
mod symbols;

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use caches::{CONTESTANTS, Contestant};
use clap::Parser;
use forebay_bench_engine::machine::{load_average, processors};
use symbols::{Six, key};

/// Room for all, as in the thesis: the capacity of the crate's own cache. The other one is a quarter of the symbols.
const ROOM: usize = 200_000;

/// Without a cache every so manieth sum is computed, and its time taken so many times.
const PART: usize = 64;

/// Measures a program that computes 6j symbols with a cache in front of its 3j symbols.
#[derive(Parser)]
struct Args {
    /// Threads, with commas
    #[arg(long, default_value = "1,2,8", value_delimiter = ',')]
    threads: Vec<usize>,
    /// The largest angular momentum
    #[arg(long, default_value_t = 8)]
    most: u32,
    /// Of all 6j symbols every so manieth is computed
    #[arg(long, default_value_t = 31)]
    every: usize,
    /// Rounds of all caches, which take turns; medians are written
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The table goes to this file as CSV
    #[arg(long)]
    csv: Option<std::path::PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let asked = Six::all(args.most, args.every);
    let (symbols, looked_up) = three_of(&asked);
    println!(
        "{} 6j symbols of angular momenta up to {}: {looked_up} 3j symbols, {symbols} of them different",
        asked.len(),
        args.most
    );
    println!("{} processors, load average {}", processors(), load_average());
    let capacities = [ROOM, symbols / 4];
    let mut csv = String::from("cache,capacity,threads,seconds,computed_3j,load\n");
    let mut measured = Measured { asked, rounds: args.rounds, expected: None };
    for contestant in CONTESTANTS {
        for &capacity in if contestant.bounded { &capacities[..] } else { &capacities[..1] } {
            for &threads in &args.threads {
                let row = measured.row(contestant, capacity, threads)?;
                println!("{row}");
                writeln!(csv, "{row}")?;
            }
        }
    }
    if let Some(path) = args.csv {
        std::fs::write(path, csv)?;
    }
    Ok(())
}

/// Different 3j symbols in the sums, and all of them.
fn three_of(asked: &[Six]) -> (usize, u64) {
    let (mut different, mut all) = (HashSet::new(), 0);
    for six in asked {
        six.sum(|three| {
            different.insert(key(three));
            all += 1;
            1.0
        });
    }
    (different.len(), all)
}

/// What is asked of each cache, and what the first one gave.
struct Measured {
    asked: Vec<Six>,
    rounds: usize,
    expected: Option<Vec<u64>>,
}

impl Measured {
    /// A line of the table: the median of the rounds. An error if one sum differs by a bit from the first cache's.
    fn row(&mut self, contestant: &Contestant, capacity: usize, threads: usize) -> Result<String, Box<dyn Error>> {
        let (name, part) = (contestant.name, if contestant.slow { PART } else { 1 });
        let asked: Vec<Six> = self.asked.iter().step_by(part).copied().collect();
        let (mut seconds, mut computed) = (Vec::new(), None);
        for _ in 0..if contestant.slow { 1 } else { self.rounds } {
            wigners::clear_wigner_3j_cache();
            let begun = Instant::now();
            let (sums, misses) = (contestant.run)(&asked, threads, capacity);
            seconds.push(begun.elapsed().as_secs_f64() * part as f64);
            computed = misses;
            let expected = self.expected.get_or_insert_with(|| sums.clone());
            if !expected.iter().step_by(part).eq(&sums) {
                return Err(format!("{name}, {threads} threads: other sums than with the first cache").into());
            }
        }
        seconds.sort_by(f64::total_cmp);
        let capacity = if contestant.bounded { capacity.to_string() } else { String::new() };
        let computed = computed.map(|count: u64| count.to_string()).unwrap_or_default();
        Ok(format!("{name},{capacity},{threads},{:.3},{computed},{}", seconds[seconds.len() / 2], load_average()))
    }
}

/// The bits of all sums, in the order of `asked`; threads take the next symbol when they are done with one.
fn sums(asked: &[Six], threads: usize, three: impl Fn(symbols::Three) -> f64 + Sync) -> Vec<u64> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(six) = asked.get(at) else { return done };
            done.push((at, six.sum(&three).to_bits()));
        }
    };
    let mut all: Vec<(usize, u64)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a sum does not panic")).collect()
    });
    all.sort_unstable();
    all.into_iter().map(|(_, sum)| sum).collect()
}
