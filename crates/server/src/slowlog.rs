//! SLOWLOG: the latest commands that took long, with their arguments; and LATENCY: when commands took very long.
//!
//! Only commands that could not be served from the cache at once are timed. What is timed is the command itself, with
//! its waits for locks and for the store's answers; not the wait for its commit.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arguments that an entry keeps; the last tells of those left out.
pub const SLOWLOG_ARGS_MAX: usize = 32;

/// Bytes that an entry keeps of each argument.
pub const SLOWLOG_ARG_BYTES_MAX: usize = 128;

/// Samples that LATENCY keeps of an event.
pub const LATENCY_SAMPLES_MAX: usize = 160;

/// A command that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Number of the entry, from 0; rises over the server's life.
    pub id: u64,
    /// When the command ended, in seconds since the Unix epoch.
    pub at_s: u64,
    /// How long it took, in microseconds.
    pub us: u64,
    /// Its arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Whose it was: address and name.
    pub client: (String, String),
}

/// The latest slow commands.
#[derive(Default)]
pub struct Slowlog {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<Slow>,
    next_id: u64,
}

impl Slowlog {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, which gets the next number; the oldest go beyond `entries_max`.
    pub fn add<'a>(
        &self,
        at_s: u64,
        us: u64,
        args: impl Iterator<Item = &'a [u8]>,
        client: (String, String),
        entries_max: u64,
    ) {
        let args = shortened(args);
        let mut log = self.lock();
        let id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(Slow { id, at_s, us, args, client });
        log.entries.truncate(entries_max as usize);
    }

    /// The latest `count` entries, the latest first.
    pub fn latest(&self, count: usize) -> Vec<Slow> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.lock().entries.clear();
    }
}

fn shortened<'a>(args: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let all: Vec<&[u8]> = args.collect();
    let kept = if all.len() > SLOWLOG_ARGS_MAX { SLOWLOG_ARGS_MAX - 1 } else { all.len() };
    let shorten = |arg: &&[u8]| match arg.len() > SLOWLOG_ARG_BYTES_MAX {
        false => arg.to_vec(),
        true => {
            let more = arg.len() - SLOWLOG_ARG_BYTES_MAX;
            [&arg[..SLOWLOG_ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat()
        }
    };
    let mut shown: Vec<Vec<u8>> = all[..kept].iter().map(shorten).collect();
    if kept < all.len() {
        shown.push(format!("... ({} more arguments)", all.len() - kept).into_bytes());
    }
    shown
}

/// Times at which commands took very long: LATENCY's event `command`.
#[derive(Default)]
pub struct Latency {
    samples: Mutex<Samples>,
}

/// Samples of one event.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Second since the Unix epoch, and the longest of that second in ms; the oldest first.
    pub samples: VecDeque<(u64, u64)>,
    /// The longest ever, in ms.
    pub longest_ms: u64,
}

impl Latency {
    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A command took `ms`; of one second only the longest is kept, as in Redis.
    pub fn add(&self, at_s: u64, ms: u64) {
        let mut event = self.lock();
        event.longest_ms = event.longest_ms.max(ms);
        match event.samples.back_mut() {
            Some((second, longest)) if *second == at_s => *longest = (*longest).max(ms),
            _ => event.samples.push_back((at_s, ms)),
        }
        if event.samples.len() > LATENCY_SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// What is kept.
    pub fn samples(&self) -> Samples {
        self.lock().clone()
    }

    /// Forgets it; whether there was anything.
    pub fn clear(&self) -> bool {
        let samples = std::mem::take(&mut *self.lock());
        !samples.samples.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_stay_shortened() {
        let slowlog = Slowlog::default();
        let long = vec![b'a'; 130];
        for n in 0..5 {
            let args = std::iter::repeat_n(long.as_slice(), 30 + n);
            slowlog.add(1, n as u64, args, Default::default(), 3);
        }
        let entries = slowlog.latest(10);
        assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(entries[0].args.len(), SLOWLOG_ARGS_MAX);
        assert_eq!(entries[0].args[31], b"... (3 more arguments)");
        assert_eq!(entries[2].args.len(), 32);
        assert!(entries[2].args[31].ends_with(b"a... (2 more bytes)"));
        slowlog.clear();
        assert!(slowlog.is_empty());
    }

    #[test]
    fn one_sample_a_second_and_a_bounded_number() {
        let latency = Latency::default();
        latency.add(7, 3);
        latency.add(7, 9);
        latency.add(7, 4);
        assert_eq!(latency.samples().samples, [(7, 9)]);
        for second in 8..8 + LATENCY_SAMPLES_MAX as u64 {
            latency.add(second, 1);
        }
        let samples = latency.samples();
        assert_eq!((samples.samples.len(), samples.samples[0], samples.longest_ms), (LATENCY_SAMPLES_MAX, (8, 1), 9));
        assert!(latency.clear() && !latency.clear());
    }
}
