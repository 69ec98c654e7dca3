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
    /// Requests of all rounds: a part of them is one thread's in one round, so that no cache learns a sequence by
    /// heart.
    requests: Vec<u64>,
    length: usize,
    pub warm: Vec<u64>,
    pub capacity: usize,
}

pub fn value(key: u64) -> u64 {
    key ^ 0x55
}

impl Work {
    pub fn new(mode: Mode, requests: usize, parts: usize) -> Work {
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
        Work { mode, requests: zipf.draw(requests * parts, 1), length: requests, warm, capacity }
    }

    /// What is asked in a part; parts are counted over threads and rounds.
    pub fn requests(&self, part: usize) -> &[u64] {
        let parts = self.requests.len() / self.length;
        &self.requests[part % parts * self.length..][..self.length]
    }

    pub fn length(&self) -> usize {
        self.length
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
