//! Replay over a bare policy: slots and a capacity, no values, no partitions, no transactions.
//!
//! Every request is a read that inserts on a miss; an entry keeps the size that it came in with.

use forebay::policy::bare::{Bare, Served};
use forebay::policy::{Policy, Settings};

/// What a replay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests.
    pub requests: u64,
    /// Those that were cached.
    pub hits: u64,
    /// Misses that were not let in.
    pub refused: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes asked for that were cached.
    pub bytes_hit: u64,
}

impl Counts {
    /// Hits per request, 0 without requests.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Bytes hit per byte asked for, 0 without any.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.bytes_hit as f64 / self.bytes.max(1) as f64
    }
}

/// Replays requests, each a key's hash and a size in bytes, over an empty cache.
pub fn replay(policy: &'static Policy, settings: &Settings, requests: impl IntoIterator<Item = (u64, u32)>) -> Counts {
    let mut cache = Bare::new(policy, settings);
    let mut counts = Counts::default();
    for (hash, size) in requests {
        counts.requests += 1;
        counts.bytes += u64::from(size);
        match cache.request(hash, size) {
            Served::Hit => {
                counts.hits += 1;
                counts.bytes_hit += u64::from(size);
            }
            Served::Inserted => {}
            Served::Refused => counts.refused += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::policy::{Unit, choose};

    #[test]
    fn counts_requests_and_bytes() {
        let choice = choose("lru").expect("known");
        let requests = [(1, 10), (2, 20), (1, 10), (3, 90), (1, 10), (4, 200)];
        let counts = replay(choice.policy, &choice.settings(Unit::Bytes, 100), requests);
        assert_eq!(counts, Counts { requests: 6, hits: 2, refused: 1, bytes: 340, bytes_hit: 20 });
        assert_eq!(Counts::default().hit_ratio(), 0.0);
    }
}
