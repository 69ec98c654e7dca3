//! How often each command was called, failed and had to wait, and how long the waits were.
//!
//! A session counts calls of one command on its own and adds them here when another command comes or its batch ends,
//! so a pipeline of reads touches the shared counters once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a histogram: the last has no bound.
pub const BUCKETS: usize = 28;

/// Figures of one command.
#[derive(Debug, Default)]
pub struct Slot {
    /// Requests, those queued in MULTI included.
    pub calls: AtomicU64,
    /// Requests that ended in an error reply.
    pub errors: AtomicU64,
    /// Requests that could not be served from the cache at once.
    pub waited: AtomicU64,
    /// Microseconds that these took, the wait for the commit's publication not counted.
    pub waited_us: AtomicU64,
}

/// Figures of all commands, by their number in the table; the last slot is for names that no command has.
#[derive(Debug)]
pub struct Tally {
    slots: Box<[Slot]>,
    /// How long commands took that could not be served from the cache at once.
    pub waits: Histogram,
}

impl Tally {
    /// Figures for `commands` commands.
    pub fn new(commands: usize) -> Tally {
        Tally { slots: (0..=commands).map(|_| Slot::default()).collect(), waits: Histogram::default() }
    }

    /// The number under which requests for unknown commands are counted.
    pub fn unknown(&self) -> usize {
        self.slots.len() - 1
    }

    /// The figures of one command.
    pub fn slot(&self, number: usize) -> &Slot {
        &self.slots[number.min(self.unknown())]
    }

    /// All calls and all errors.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |of: fn(&Slot) -> &AtomicU64| self.slots.iter().map(|slot| of(slot).load(Ordering::Relaxed)).sum();
        (sum(|slot| &slot.calls), sum(|slot| &slot.errors))
    }

    /// Sets all figures back to zero.
    pub fn reset(&self) {
        for slot in &self.slots {
            for figure in [&slot.calls, &slot.errors, &slot.waited, &slot.waited_us] {
                figure.store(0, Ordering::Relaxed);
            }
        }
        self.waits.reset();
    }
}

/// Times by powers of two of a microsecond.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Histogram {
    fn add(&self, bucket: usize, count: u64) {
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts per bucket: bucket `n` holds times up to 2^n microseconds that no earlier bucket holds.
    pub fn buckets(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|n| self.buckets[n].load(Ordering::Relaxed))
    }

    /// Microseconds of all times together.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        for bucket in &self.buckets {
            bucket.store(0, Ordering::Relaxed);
        }
        self.sum_us.store(0, Ordering::Relaxed);
    }
}

fn bucket(us: u64) -> usize {
    let exponent = match us {
        0 | 1 => 0,
        us => 64 - (us - 1).leading_zeros() as usize,
    };
    exponent.min(BUCKETS - 1)
}

/// Buckets of short times that a session counts on its own, up to 4 us: those of a pipeline are nearly all in them.
const SHORT_BUCKETS: usize = 3;

/// Calls of one command that its session has not added to the tally yet.
#[derive(Debug, Default)]
pub struct Pending {
    number: usize,
    calls: u64,
    errors: u64,
    /// Since the session began.
    errors_all: u64,
    waited: u64,
    waited_us: u64,
    short: [u64; SHORT_BUCKETS],
}

impl Pending {
    /// The next request is for the command with this number.
    pub fn call(&mut self, number: usize, tally: &Tally) {
        if number != self.number {
            self.flush(tally);
            self.number = number;
        }
        self.calls += 1;
    }

    /// The request at hand ended in an error.
    pub fn error(&mut self) {
        self.errors += 1;
        self.errors_all += 1;
    }

    /// Requests that ended in an error since the session began.
    pub fn errors_all(&self) -> u64 {
        self.errors_all
    }

    /// The request at hand took `us` microseconds and was not served from the cache at once.
    pub fn waited(&mut self, us: u64, tally: &Tally) {
        self.waited += 1;
        self.waited_us += us;
        let bucket = bucket(us);
        match self.short.get_mut(bucket) {
            Some(count) => *count += 1,
            None => tally.waits.add(bucket, 1),
        }
    }

    /// The number of the command of the request at hand.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Adds what was counted.
    pub fn flush(&mut self, tally: &Tally) {
        let slot = tally.slot(self.number);
        if self.calls > 0 {
            slot.calls.fetch_add(std::mem::take(&mut self.calls), Ordering::Relaxed);
        }
        if self.errors > 0 {
            slot.errors.fetch_add(std::mem::take(&mut self.errors), Ordering::Relaxed);
        }
        if self.waited > 0 {
            let waited_us = std::mem::take(&mut self.waited_us);
            slot.waited.fetch_add(std::mem::take(&mut self.waited), Ordering::Relaxed);
            slot.waited_us.fetch_add(waited_us, Ordering::Relaxed);
            tally.waits.sum_us.fetch_add(waited_us, Ordering::Relaxed);
            for (bucket, count) in self.short.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
                tally.waits.add(bucket, std::mem::take(count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_bucket_that_bounds_them() {
        for (us, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11)] {
            assert_eq!(bucket(us), expected, "{us}");
            assert!(us <= 1 << bucket(us));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_a_session_counted_arrives_with_the_next_command_or_a_flush() {
        let tally = Tally::new(3);
        let mut pending = Pending::default();
        pending.call(1, &tally);
        pending.call(1, &tally);
        pending.error();
        for us in [1, 3, 3, 9] {
            pending.waited(us, &tally);
        }
        assert_eq!(tally.totals(), (0, 0));
        pending.call(tally.unknown(), &tally);
        assert_eq!((tally.slot(1).calls.load(Ordering::Relaxed), tally.totals()), (2, (2, 1)));
        pending.flush(&tally);
        pending.flush(&tally);
        assert_eq!(tally.totals(), (3, 1));
        let slot = tally.slot(1);
        assert_eq!((slot.waited.load(Ordering::Relaxed), slot.waited_us.load(Ordering::Relaxed)), (4, 16));
        assert_eq!((&tally.waits.buckets()[..5], tally.waits.sum_us()), (&[1, 0, 2, 0, 1][..], 16));
        tally.reset();
        assert_eq!(tally.totals(), (0, 0));
    }
}
