//! What a metric is, and what a reading of all looks at.

use forebay::cache::CacheStats;
use forebay::outage::{Counts, Gate, GateState, Mode};
use forebay::store::figures::StoreFigures;

use crate::shadow::Figures;
use crate::state::Shared;
use crate::tally::BUCKETS;

/// Ticks per second in which Linux counts processor time for users, on all architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a reading of all metrics looks at: figures that cost something are gathered once.
pub struct View<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// Figures of its cache.
    pub cache: CacheStats,
    /// Of the gate before its store, if there is one.
    pub gate: Option<GateState>,
    /// Of its store, if that is a database.
    pub store: Option<StoreFigures>,
    /// Of its shadows, if it has any.
    pub shadows: Option<Figures>,
}

impl View<'_> {
    /// A look at `shared` now.
    pub fn of(shared: &Shared) -> View<'_> {
        let (gate, store) = (shared.gate.as_ref().map(Gate::state), shared.engine.store().figures());
        let (cache, shadows) = (shared.engine.cache().stats(), shared.shadows.latest());
        View { shared, cache, gate, store, shadows }
    }

    /// The mode of its store.
    pub fn mode(&self) -> Mode {
        self.gate.as_ref().map_or(Mode::Normal, |state| state.mode)
    }

    /// When the oldest of what is buffered was, in seconds before now.
    pub fn oldest_age_seconds(&self) -> Option<f64> {
        let oldest_ms = self.gate.as_ref()?.oldest_ms?;
        Some(self.shared.engine.runtime().now_ms().saturating_sub(oldest_ms) as f64 / 1000.0)
    }

    pub(super) fn outage(&self, read: fn(&GateState) -> usize) -> f64 {
        self.gate.as_ref().map_or(0, read) as f64
    }

    pub(super) fn counted(&self, read: fn(&Counts) -> u64) -> f64 {
        self.gate.as_ref().map_or(0, |state| read(&state.counts)) as f64
    }

    /// Bytes of the process that are in memory, where the machine tells.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    /// Seconds of processor time of the process, user and system, where the machine tells.
    pub fn cpu_seconds(&self) -> Option<(f64, f64)> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in brackets, may hold spaces; user and system time are the 12th and 13th after it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
        Some((seconds()?, seconds()?))
    }
}

/// Whether a metric only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts: it only rises, but for CONFIG RESETSTAT.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts values by size.
    Histogram,
}

/// Tells its second argument each value of a label, with the number that belongs to it.
pub type ReadEach = fn(&View<'_>, &mut dyn FnMut(&str, f64));

/// How a metric is read.
pub enum Value {
    /// A number.
    One(fn(&View<'_>) -> f64),
    /// A number that there may not be.
    Maybe(fn(&View<'_>) -> Option<f64>),
    /// One number per value of a label.
    Each(&'static str, ReadEach),
    /// Seconds, from a histogram of microseconds.
    Times(fn(&View<'_>) -> ([u64; BUCKETS], u64)),
}

/// One metric, declared once.
pub struct Metric {
    /// Its name, with its unit last.
    pub name: &'static str,
    /// Whether it only rises.
    pub kind: Kind,
    /// One line on what it says.
    pub help: &'static str,
    /// How it is read.
    pub value: Value,
}

impl Metric {
    /// Tells each number of it, with what follows its name there: nothing, `{mode="normal"}` or `_count`.
    pub fn read(&self, view: &View<'_>, take: &mut dyn FnMut(&str, f64)) {
        match self.value {
            Value::One(read) => take("", read(view)),
            Value::Maybe(read) => _ = read(view).map(|value| take("", value)),
            Value::Each(label, read) => read(view, &mut |of, value| {
                // A table may be called anything.
                let of = of.replace('\\', "\\\\").replace('"', "\\\"");
                take(&format!("{{{label}=\"{of}\"}}"), value);
            }),
            Value::Times(read) => histogram(read(view), take),
        }
    }
}

fn histogram((buckets, sum_us): ([u64; BUCKETS], u64), take: &mut dyn FnMut(&str, f64)) {
    let mut count = 0;
    for (n, bucket) in buckets.iter().enumerate() {
        count += bucket;
        if n + 1 < BUCKETS {
            take(&format!("_bucket{{le=\"{}\"}}", (1_u64 << n) as f64 / 1e6), count as f64);
        }
    }
    take("_bucket{le=\"+Inf\"}", count as f64);
    take("_sum", sum_us as f64 / 1e6);
    take("_count", count as f64);
}
