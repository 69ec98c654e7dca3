//! What is asked of the caches.

use clap::ValueEnum;

use crate::Options;
use crate::traces;

/// See `Work::all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Hit,
    GetOrInsert,
    Mixed,
    /// Each trace in a folder, from an empty cache, with room for a tenth of its keys.
    Traces,
}

/// Room for 100,000 entries and, for caches whose parts fill unevenly, some more: so all of them answer only hits.
pub const HIT_CAPACITY: usize = 110_000;

/// Requests before a cache that evicts is measured.
const WARM: usize = 4 << 20;

/// Requests that one thread asks in a row of a trace that several share.
const RUN: usize = 256;

/// Requests of a mode, or of one trace.
pub struct Work {
    pub mode: Mode,
    pub title: String,
    source: Source,
    pub warm: Vec<u64>,
    pub capacity: usize,
}

enum Source {
    /// Of each thread in a round, so many.
    Drawn(Zipf, usize),
    /// Of all threads together.
    Recorded(Vec<u64>),
}

pub fn value(key: u64) -> u64 {
    key ^ 0x55
}

impl Work {
    /// One, but for traces one each.
    pub fn all(mode: Mode, options: &Options) -> Vec<Work> {
        let (requests, capacity, skew) = (options.requests, options.capacity, options.skew);
        let drawn = |keys: usize, capacity: usize, title: String, warm: fn(&Zipf, usize, usize) -> Vec<u64>| {
            let zipf = Zipf::new(keys, skew);
            let warm = warm(&zipf, keys, requests);
            vec![Work { mode, title, source: Source::Drawn(zipf, requests), warm, capacity }]
        };
        // What is probed counts instructions only.
        let asked = |zipf: &Zipf, _, requests: usize| zipf.draw(WARM.min(requests * 8), 99);
        let of_million = format!("Zipf {skew} over 1,000,000 keys, {capacity} entries");
        match mode {
            Mode::Hit => {
                drawn(100_000, HIT_CAPACITY, format!("100 % hits: 100,000 keys, Zipf {skew}"), |_, keys, _| {
                    (0..keys as u64).map(scattered).collect()
                })
            }
            Mode::GetOrInsert => drawn(1_000_000, capacity, format!("Get or insert: {of_million}"), asked),
            Mode::Mixed => drawn(1_000_000, capacity, format!("90 % get, 10 % insert: {of_million}"), asked),
            Mode::Traces => traces::all(options).into_iter().map(Work::recorded).collect(),
        }
    }

    fn recorded(trace: traces::Trace) -> Work {
        let capacity = (trace.keys / 10).max(1);
        let title = format!("{} ({} requests, {} keys)", trace.name, trace.requests.len(), trace.keys);
        let source = Source::Recorded(trace.requests);
        Work { mode: Mode::Traces, title, source, warm: Vec::new(), capacity }
    }

    /// What each thread asks in a round: drawn again for each number of threads and round, so that no cache learns
    /// a sequence by heart.
    pub fn parts(&self, threads: usize, round: usize) -> Vec<Vec<u64>> {
        match &self.source {
            Source::Drawn(zipf, length) => {
                let seed = |thread| 1 + (round * 64 + threads) as u64 * 64 + thread as u64;
                (0..threads).map(|thread| zipf.draw(*length, seed(thread))).collect()
            }
            Source::Recorded(all) => (0..threads)
                .map(|thread| all.chunks(RUN).skip(thread).step_by(threads).flatten().copied().collect())
                .collect(),
        }
    }
}

/// Keys that are not beside each other.
pub fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Sums of the weights of ranks, and where to look for a sum: the first rank for each of as many parts as there are
/// ranks.
struct Zipf {
    sums: Vec<f64>,
    starts: Vec<u32>,
}

impl Zipf {
    fn new(keys: usize, skew: f64) -> Zipf {
        let add = |sum: &mut f64, rank: usize| {
            *sum += (rank as f64).powf(-skew);
            Some(*sum)
        };
        let sums: Vec<f64> = (1..=keys).scan(0.0, add).collect();
        let all = sums[keys - 1];
        let first = |part: usize| sums.partition_point(|&sum| sum < all * part as f64 / keys as f64) as u32;
        let starts = (0..=keys).map(first).collect();
        Zipf { sums, starts }
    }

    fn draw(&self, count: usize, seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1;
        let (keys, all) = (self.sums.len(), self.sums[self.sums.len() - 1]);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..count)
            .map(|_| {
                let point = random();
                let part = (point * keys as f64) as usize;
                let (from, to) = (self.starts[part] as usize, self.starts[part + 1] as usize + 1);
                let to = to.min(keys);
                let rank = from + self.sums[from..to].partition_point(|&sum| sum < point * all);
                scattered(rank.min(keys - 1) as u64)
            })
            .collect()
    }
}
