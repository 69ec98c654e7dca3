//! Whether one thread's work slows another one's down. What two threads write of the same memory shows as a ratio below
//! that of a map that both only read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use forebay_bench_engine::zipf::scattered;

use crate::peers::Peer;
use crate::work::value;

/// What the second thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// It computes, so that the processors share whatever they share besides memory.
    Computes,
    HitsTheSame,
    /// Replaces values of keys that the first one does not ask for.
    Replaces,
    /// Inserts, and so evicts.
    Inserts,
}

pub const ALL: [Beside; 4] = [Beside::Computes, Beside::HitsTheSame, Beside::Replaces, Beside::Inserts];

const KEYS: u64 = 50_000;

/// Million hits per second of the first thread.
pub fn rate<P: Peer>(peer: &P, beside: Beside, requests: usize) -> f64 {
    let over = AtomicBool::new(false);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        scattered((share * share * share * KEYS as f64) as u64)
    };
    let asked: Vec<u64> = (0..requests).map(|_| next()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sum = 0u64;
            for step in 0u64.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                for &key in asked.iter().skip(step as usize % 7).take(1000) {
                    match beside {
                        Beside::Computes => sum = std::hint::black_box(sum.wrapping_mul(31) ^ key),
                        Beside::HitsTheSame => sum ^= peer.get(key).unwrap_or(0),
                        Beside::Replaces => peer.put(scattered(KEYS + key % KEYS), step),
                        Beside::Inserts => peer.put(scattered(1 << 30 | (step * 1000 + key % 1000)), step),
                    }
                }
            }
            std::hint::black_box(sum);
        });
        let mut best = 0.0f64;
        for _ in 0..5 {
            let from = Instant::now();
            let sum = asked.iter().map(|&key| peer.get(key).unwrap_or(0)).fold(0, u64::wrapping_add);
            std::hint::black_box(sum);
            best = best.max(requests as f64 / from.elapsed().as_secs_f64() / 1e6);
        }
        over.store(true, Ordering::Relaxed);
        best
    })
}

/// All entries marked as hit often.
pub fn ready<P: Peer>() -> P {
    let keys: Vec<u64> = (0..2 * KEYS).map(scattered).collect();
    let peer = P::fill(&keys, crate::work::HIT_CAPACITY);
    for _ in 0..4 {
        keys.iter().for_each(|&key| assert!(peer.get(key).is_none_or(|found| found == value(key))));
    }
    peer
}
