//! Replay over a bare policy: slots and a capacity, no values, no partitions, no transactions.
//!
//! Every request is a read that inserts on a miss; an entry keeps the size that it came in with.

use forebay::policy::bare::{Bare, Served};
use forebay::policy::{Policy, Settings};
use forebay_trace::{TraceError, TraceReader};

use crate::catalog::hash_of;

/// Records that are read at once.
const BATCH_RECORDS: usize = 1024;

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
    let mut replay = Replay::new(policy, settings);
    requests.into_iter().for_each(|(hash, size)| replay.request(hash, size));
    replay.counts
}

/// Replays a trace in one pass, every access as a read; where it tells no size, of 1 byte.
pub fn replay_trace(
    policy: &'static Policy,
    settings: &Settings,
    trace: &mut dyn TraceReader,
) -> Result<Counts, TraceError> {
    let (mut replay, mut batch) = (Replay::new(policy, settings), Vec::new());
    loop {
        trace.fill(&mut batch, BATCH_RECORDS)?;
        if batch.is_empty() {
            return Ok(replay.counts);
        }
        for record in batch.iter().filter(|record| record.kind.is_access()) {
            replay.request(hash_of(record), record.size.unwrap_or(1));
        }
        batch.clear();
    }
}

struct Replay {
    cache: Bare,
    counts: Counts,
}

impl Replay {
    fn new(policy: &'static Policy, settings: &Settings) -> Replay {
        Replay { cache: Bare::new(policy, settings), counts: Counts::default() }
    }

    fn request(&mut self, hash: u64, size: u32) {
        self.counts.requests += 1;
        self.counts.bytes += u64::from(size);
        match self.cache.request(hash, size) {
            Served::Hit => {
                self.counts.hits += 1;
                self.counts.bytes_hit += u64::from(size);
            }
            Served::Inserted => {}
            Served::Refused => self.counts.refused += 1,
        }
    }
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
        let lines: String = requests.iter().map(|(key, size)| format!("0,{key},{size}\n")).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, format!("time,key,size\n{lines}")).expect("written");
        let mut trace = forebay_trace::open(&path, None).expect("sound");
        assert_eq!(
            replay_trace(choice.policy, &choice.settings(Unit::Bytes, 100), &mut *trace).expect("sound"),
            counts
        );
    }
}
