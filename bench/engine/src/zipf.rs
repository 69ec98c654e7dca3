//! Requests by Zipf's law.

/// Keys that are not beside each other.
pub fn scattered(rank: u64) -> u64 {
    rank.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Sums of the weights of ranks, and where to look for a sum: the first rank for each of as many parts as there are
/// ranks.
pub struct Zipf {
    sums: Vec<f64>,
    starts: Vec<u32>,
}

impl Zipf {
    /// Of so many keys; a key's frequency falls with its rank to the power of `skew`.
    pub fn new(keys: usize, skew: f64) -> Zipf {
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

    /// So many requests; a seed gives the same ones each time.
    pub fn draw(&self, count: usize, seed: u64) -> Vec<u64> {
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
