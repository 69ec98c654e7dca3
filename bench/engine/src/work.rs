//! What is asked of the caches.

use clap::ValueEnum;
use forebay_bench_engine::zipf::{Zipf, scattered};

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
