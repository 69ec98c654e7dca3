//! What is asked of the caches.

use clap::ValueEnum;

/// See `Work::new`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Hit,
    GetOrInsert,
    Mixed,
}

impl Mode {
    pub fn title(self) -> &'static str {
        match self {
            Mode::Hit => "100 % hits: 100,000 keys, Zipf 0.9",
            Mode::GetOrInsert => "Get or insert: Zipf 0.9 over 1,000,000 keys, 100,000 entries",
            Mode::Mixed => "90 % get, 10 % insert: Zipf 0.9 over 1,000,000 keys, 100,000 entries",
        }
    }
}

/// Entries of a cache that is to evict.
pub const CAPACITY: usize = 100_000;

/// Room for 100,000 entries and, for caches whose parts fill unevenly, some more: so all of them answer only hits.
pub const HIT_CAPACITY: usize = 110_000;

/// Requests before a cache that evicts is measured.
const WARM: usize = 4 << 20;

/// Requests of a mode.
pub struct Work {
    pub mode: Mode,
    /// For each thread; it may be asked for a second half of the first's.
    sequences: Vec<Vec<u64>>,
    pub warm: Vec<u64>,
    pub capacity: usize,
}

pub fn value(key: u64) -> u64 {
    key ^ 0x55
}

impl Work {
    pub fn new(mode: Mode, requests: usize, threads: usize) -> Work {
        let (keys, capacity) = match mode {
            Mode::Hit => (100_000, HIT_CAPACITY),
            Mode::GetOrInsert | Mode::Mixed => (1_000_000, CAPACITY),
        };
        let zipf = Zipf::new(keys, 0.9);
        let warm = match mode {
            Mode::Hit => (0..keys as u64).map(scattered).collect(),
            // What is probed counts instructions only.
            _ => zipf.draw(WARM.min(requests * 8), 99),
        };
        let sequences = (0..threads as u64).map(|thread| zipf.draw(requests, thread + 1)).collect();
        Work { mode, sequences, warm, capacity }
    }

    pub fn requests(&self, thread: usize) -> &[u64] {
        &self.sequences[thread]
    }

    pub fn length(&self) -> usize {
        self.sequences[0].len()
    }
}

/// Keys that are not beside each other.
pub fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: usize, skew: f64) -> Zipf {
        let add = |sum: &mut f64, rank: usize| {
            *sum += (rank as f64).powf(-skew);
            Some(*sum)
        };
        Zipf((1..=keys).scan(0.0, add).collect())
    }

    fn draw(&self, count: usize, seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1;
        let all = self.0.last().copied().unwrap_or(1.0);
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..count)
            .map(|_| {
                let point = random() * all;
                scattered(self.0.partition_point(|&sum| sum < point) as u64)
            })
            .collect()
    }
}
