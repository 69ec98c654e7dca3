//! How long single requests take, and the worst of them while a cache grows.
//!
//! The clock is read after each request, so a time is that of a request and of one look at the clock. The row `clock`
//! has nothing between the looks. What else the machine does interrupts requests. So of the slow ones the thread's
//! processor time is taken, and only those are left that are slow at one place in every round. For that the cache of
//! ours that grows hashes alike in every round.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_bench_engine::zipf::scattered;
use rustix::time::{ClockId, clock_gettime};

use crate::peers::Peer;
use crate::work::{Mode, value};

/// Buckets for each power of two: a time is told to a thirty-second of itself.
const FINE: u64 = 32;

/// A request that takes longer than this counts as a pause.
pub const PAUSE: Duration = Duration::from_micros(200);

/// Requests between two looks at the processor time: a request has taken less than what passed since the last look.
const LOOK: usize = 64;

/// How often a request took how long.
pub struct Times {
    counts: Vec<u64>,
    pub worst: Duration,
    /// Requests that took longer than [`PAUSE`].
    pub pauses: u64,
    /// Slow requests by their places, each with the least processor time that it took in a round. An interrupt does not
    /// hit one place in every round. So what is left is the cache's work.
    pub slow: BTreeMap<usize, Duration>,
}

impl Times {
    pub fn new() -> Times {
        let counts = vec![0; 64 * FINE as usize];
        Times { counts, worst: Duration::ZERO, pauses: 0, slow: BTreeMap::new() }
    }

    #[inline]
    fn add(&mut self, time: Duration) {
        let nanos = time.as_nanos() as u64;
        self.counts[bucket(nanos)] += 1;
        self.worst = self.worst.max(time);
    }

    /// The requests of another thread or of other places.
    pub fn merge(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.worst = self.worst.max(other.worst);
        self.pauses += other.pauses;
    }

    /// Adds another round of these requests.
    pub fn merge_round(&mut self, other: &Times) {
        self.merge(other);
        let before = std::mem::take(&mut self.slow);
        let again = before.into_iter().filter_map(|(at, time)| Some((at, time.min(*other.slow.get(&at)?))));
        self.slow = again.collect();
    }

    /// The slowest request of those that were slow in every round.
    pub fn slowest(&self) -> Duration {
        self.slow.values().copied().max().unwrap_or_default()
    }

    /// The time that this share of the requests does not exceed.
    pub fn at(&self, share: f64) -> Duration {
        let all: u64 = self.counts.iter().sum();
        let mut left = (all as f64 * share).ceil() as u64;
        for (at, &count) in self.counts.iter().enumerate() {
            if count >= left {
                return Duration::from_nanos(upper(at as u64)).min(self.worst);
            }
            left -= count;
        }
        self.worst
    }
}

fn bucket(nanos: u64) -> usize {
    let shift = nanos.max(FINE).ilog2() - FINE.ilog2();
    (u64::from(shift) * FINE + (nanos >> shift)) as usize
}

/// The longest time of a bucket.
fn upper(bucket: u64) -> u64 {
    let shift = (bucket / FINE).saturating_sub(1);
    ((bucket - shift * FINE + 1) << shift) - 1
}

/// Processor time of this thread.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Times `request` for each of these keys.
fn timed(keys: impl Iterator<Item = u64>, mut request: impl FnMut(u64)) -> Times {
    let mut times = Times::new();
    let mut looked = busy();
    let mut last = Instant::now();
    for (at, key) in keys.enumerate() {
        request(key);
        let now = Instant::now();
        let time = now - last;
        last = now;
        times.add(time);
        let is_slow = time > PAUSE / 4;
        if is_slow || at % LOOK == 0 {
            let before = std::mem::replace(&mut looked, busy());
            if is_slow {
                times.slow.insert(at, looked - before);
                times.pauses += u64::from(time > PAUSE);
            }
            last = Instant::now();
        }
    }
    times
}

/// All threads together. Of several threads the slow requests have no place that means anything.
fn threads(parts: usize, run: impl Fn(usize) -> Times + Sync) -> Times {
    let start = std::sync::Barrier::new(parts);
    let mut all = Times::new();
    std::thread::scope(|scope| {
        let spawn = |part| {
            let (start, run) = (&start, &run);
            scope.spawn(move || {
                start.wait();
                run(part)
            })
        };
        let handles: Vec<_> = (0..parts).map(spawn).collect();
        for handle in handles {
            let mut times = handle.join().expect("a worker does not panic");
            all.merge(&times);
            all.slow.append(&mut times.slow);
        }
    });
    all
}

/// The requests of a mode.
pub fn of_mode<P: Peer>(peer: &P, mode: Mode, parts: &[&[u64]]) -> Times {
    threads(parts.len(), |part| {
        let keys = parts[part].iter().copied();
        match mode {
            Mode::Hit => timed(keys, |key| _ = std::hint::black_box(peer.get(key))),
            Mode::GetOrInsert | Mode::Traces => timed(keys, |key| _ = std::hint::black_box(peer.get_or_insert(key))),
            Mode::Mixed => {
                let mut turn = 0;
                timed(keys, |key| {
                    turn += 1;
                    match turn % 10 {
                        0 => peer.put(key, value(key)),
                        _ => _ = std::hint::black_box(peer.get(key)),
                    }
                })
            }
        }
    })
}

/// What growing costs: inserts up to the capacity and a tenth more, which evicts; and removals of all, oldest first.
pub struct Growth {
    pub inserts: Times,
    /// Without any, if the peer is not asked to remove.
    pub removals: Times,
    /// Entries before the removals.
    pub entries: usize,
}

pub fn growth<P: Peer>(entries: usize, parts: usize) -> Growth {
    let peer = P::new(entries);
    let (each, evicting) = (entries / parts, entries / parts / 10);
    let key = move |part: usize, at: usize| scattered((part << 40 | at) as u64);
    let inserts =
        threads(parts, |part| timed((0..each + evicting).map(|at| key(part, at)), |key| peer.put(key, value(key))));
    let entries = peer.len();
    let removals = match P::REMOVES {
        true => threads(parts, |part| timed((0..each + evicting).map(|at| key(part, at)), |key| peer.remove(key))),
        false => Times::new(),
    };
    Growth { inserts, removals, entries }
}
