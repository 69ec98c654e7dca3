//! One client process: its sessions in closed loops, and what they count in the time that all clients count.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore};
use rand_distr::{Distribution, Zipf};

use crate::configuration::Configuration;
use crate::{Failed, Load, library, stock, unix_ms};

/// Zipf's exponent of the transactions that write.
const ALPHA_WRITES: f64 = 0.5;

/// How much longer each class of the histogram is than the one before.
const GROWTH: f64 = 1.05;

/// Classes; the last one holds all above 5 minutes, in us.
const CLASSES: usize = 400;

/// What happened in the time that is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// Transactions that only read.
    pub reading: u64,
    /// Those that wrote.
    pub writing: u64,
    /// Those that ended without a message.
    pub alone: u64,
    /// Documents that were fetched.
    pub fetched: u64,
    /// Attempts that failed, of transactions that only read.
    pub read_aborts: u64,
    /// Attempts that failed, of those that wrote.
    pub write_aborts: u64,
    /// How long transactions took, by class.
    took: Vec<u64>,
}

impl Default for Count {
    fn default() -> Count {
        Count { reading: 0, writing: 0, alone: 0, fetched: 0, read_aborts: 0, write_aborts: 0, took: vec![0; CLASSES] }
    }
}

impl Count {
    /// All of them.
    pub fn transactions(&self) -> u64 {
        self.reading + self.writing
    }

    /// One ended well, after so many attempts that did not.
    pub fn ended(&mut self, only_reads: bool, aborts: u64, took: Duration) {
        let (count, lost) = match only_reads {
            true => (&mut self.reading, &mut self.read_aborts),
            false => (&mut self.writing, &mut self.write_aborts),
        };
        *count += 1;
        *lost += aborts;
        let us = took.as_secs_f64() * 1e6;
        self.took[((us.max(1.0).ln() / GROWTH.ln()) as usize).min(CLASSES - 1)] += 1;
    }

    /// Adds those of another client.
    pub fn add(&mut self, other: &Count) {
        self.reading += other.reading;
        self.writing += other.writing;
        self.alone += other.alone;
        self.fetched += other.fetched;
        self.read_aborts += other.read_aborts;
        self.write_aborts += other.write_aborts;
        self.took.iter_mut().zip(&other.took).for_each(|(sum, more)| *sum += more);
    }

    /// The time, in ms, that this share of the transactions did not exceed; within 5 %.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = (self.transactions() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let class = self.took.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        GROWTH.powi(class.unwrap_or(0) as i32 + 1) / 1e3
    }

    /// As one line.
    pub fn line(&self) -> String {
        let Count { reading, writing, alone, fetched, read_aborts, write_aborts, took } = self;
        let all = [*reading, *writing, *alone, *fetched, *read_aborts, *write_aborts];
        all.iter().chain(took).map(u64::to_string).collect::<Vec<_>>().join(" ")
    }

    /// The one that [`Count::line`] has written.
    pub fn parse(line: &str) -> Option<Count> {
        let all = line.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [reading, writing, alone, fetched, read_aborts, write_aborts, took @ ..] = &all[..] else { return None };
        (took.len() == CLASSES).then(|| Count {
            reading: *reading,
            writing: *writing,
            alone: *alone,
            fetched: *fetched,
            read_aborts: *read_aborts,
            write_aborts: *write_aborts,
            took: took.to_vec(),
        })
    }
}

/// A transaction: keys that it reads, and writes if it writes.
pub struct Work {
    pub only_reads: bool,
    pub keys: Vec<String>,
    /// What it writes into each.
    pub document: Vec<u8>,
}

/// Draws transactions.
pub struct Draw {
    random: SmallRng,
    load: Load,
    reads: Zipf<f64>,
    writes: Zipf<f64>,
}

impl Draw {
    pub fn new(load: &Load, seed: u64) -> Result<Draw, Failed> {
        let keys = load.keys as f64;
        let (reads, writes) = (Zipf::new(keys, load.alpha)?, Zipf::new(keys, ALPHA_WRITES)?);
        Ok(Draw { random: SmallRng::seed_from_u64(seed), load: load.clone(), reads, writes })
    }

    pub fn next(&mut self) -> Work {
        let only_reads = self.random.random::<f64>() < self.load.read_only;
        let popular = if only_reads { self.reads } else { self.writes };
        let mut keys: Vec<String> = Vec::with_capacity(self.load.width);
        while keys.len() < self.load.width.min(self.load.keys) {
            let drawn = key(popular.sample(&mut self.random) as usize - 1);
            if !keys.contains(&drawn) {
                keys.push(drawn);
            }
        }
        Work { only_reads, keys, document: document(self.random.next_u64()) }
    }
}

/// Keys that a client reads at a time when it starts.
pub const KNOWN_AT_ONCE: usize = 1_000;

/// The most popular keys.
pub fn known(load: &Load) -> Vec<String> {
    (0..load.known.min(load.keys)).map(key).collect()
}

/// The name of a key.
pub fn key(number: usize) -> String {
    format!("key:{number:08}")
}

/// A document of 100 bytes.
pub fn document(number: u64) -> Vec<u8> {
    format!("{number:0>100}").into_bytes()
}

/// When a client counts.
#[derive(Clone, Copy)]
pub struct Window {
    from_ms: u64,
    to_ms: u64,
}

impl Window {
    /// Waits for its begin.
    pub async fn begins(self) {
        tokio::time::sleep(Duration::from_millis(self.from_ms.saturating_sub(unix_ms()))).await;
    }

    /// Waits for its end.
    pub async fn ends(self) {
        tokio::time::sleep(Duration::from_millis(self.to_ms.saturating_sub(unix_ms()))).await;
    }

    /// Whether now is in it; none: it is over.
    pub fn counts(self) -> Option<bool> {
        let now = unix_ms();
        (now < self.to_ms).then_some(now >= self.from_ms)
    }
}

/// One transaction under way.
pub struct Timed(Instant);

impl Timed {
    pub fn begin() -> Timed {
        Timed(Instant::now())
    }

    pub fn took(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Runs the client that `told` names, and prints what it counted.
pub fn run(load: &Load, told: &[String]) -> Result<(), Failed> {
    let [configuration, address, number, from, to] = told else { return Err("five values".into()) };
    let configuration = Configuration::from_str(configuration, false)?;
    let (address, number): (SocketAddr, u64) = (address.parse()?, number.parse()?);
    let window = Window { from_ms: from.parse()?, to_ms: to.parse()? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let count = match configuration.library() {
        Some(leases) => runtime.block_on(library::run(load, address, number, leases, window))?,
        None => {
            runtime.block_on(stock::run(load, address, number, configuration == Configuration::Tracking, window))?
        }
    };
    println!("{}", count.line());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_what_its_line_says() {
        let mut count = Count::default();
        for us in [90, 100, 110, 5_000] {
            count.ended(us < 105, 1, Duration::from_micros(us));
        }
        let mut all = Count::parse(&count.line()).unwrap();
        assert_eq!(all, count);
        all.add(&count);
        assert_eq!((all.reading, all.writing, all.read_aborts), (4, 4, 4));
        assert!((0.095..0.12).contains(&all.quantile_ms(0.5)) && (4.7..5.3).contains(&all.quantile_ms(0.99)));
        assert_eq!(Count::parse("1 2 3"), None);
    }

    #[test]
    fn transactions_have_keys_that_differ() {
        let load = Load {
            keys: 8,
            width: 4,
            read_only: 0.5,
            alpha: 0.99,
            sessions: 1,
            known: 0,
            one_by_one: false,
            bounded_ms: None,
        };
        let mut draw = Draw::new(&load, 1).unwrap();
        for _ in 0..100 {
            let Work { mut keys, .. } = draw.next();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), 4);
        }
    }
}
