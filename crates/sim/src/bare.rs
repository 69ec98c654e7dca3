//! Replay over a bare policy: slots and a capacity, no values, no partitions, no transactions.
//!
//! Every request is a read that inserts on a miss; an entry keeps the size that it came in with.

use forebay::policy::bare::{Bare, Served};
use forebay::policy::{Policy, Settings};
use forebay_trace::{TraceError, TraceReader};

/// Records or requests that are taken at once: as many as stay in the processor's nearest memory.
const BATCH: usize = 256;

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

    fn add(&mut self, more: &Counts) {
        self.requests += more.requests;
        self.hits += more.hits;
        self.refused += more.refused;
        self.bytes += more.bytes;
        self.bytes_hit += more.bytes_hit;
    }
}

/// Replays requests, each a key's hash and a size in bytes, over an empty cache.
pub fn replay(policy: &'static Policy, settings: &Settings, requests: impl IntoIterator<Item = (u64, u32)>) -> Counts {
    let (mut replay, mut requests) = (Replay::new(policy, settings), requests.into_iter());
    loop {
        replay.batch.extend(requests.by_ref().take(BATCH));
        if replay.batch.is_empty() {
            return replay.counts;
        }
        replay.serve();
    }
}

/// Replays a trace in one pass, every access as a read; where it tells no size, of 1 byte.
pub fn replay_trace(
    policy: &'static Policy,
    settings: &Settings,
    trace: &mut dyn TraceReader,
) -> Result<Counts, TraceError> {
    let mut replay = Replay::new(policy, settings);
    while trace.fill_requests(&mut replay.batch, BATCH)? {
        replay.serve();
    }
    // What came before the end.
    replay.serve();
    Ok(replay.counts)
}

struct Replay {
    cache: Bare,
    counts: Counts,
    /// Requests to come: hashes and sizes.
    batch: Vec<(u64, u32)>,
    served: Vec<Served>,
}

impl Replay {
    fn new(policy: &'static Policy, settings: &Settings) -> Replay {
        let cache = Bare::new(policy, settings);
        Replay { cache, counts: Counts::default(), batch: Vec::new(), served: Vec::new() }
    }

    /// Serves the batch, and counts it.
    fn serve(&mut self) {
        self.cache.replay(&self.batch, &mut self.served);
        let mut counts = Counts { requests: self.batch.len() as u64, ..Counts::default() };
        for (&(_, size), &served) in self.batch.iter().zip(&self.served) {
            let (size, hit) = (u64::from(size), u64::from(served == Served::Hit));
            counts.hits += hit;
            counts.refused += u64::from(served == Served::Refused);
            counts.bytes += size;
            counts.bytes_hit += hit * size;
        }
        self.counts.add(&counts);
        self.batch.clear();
        self.served.clear();
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
