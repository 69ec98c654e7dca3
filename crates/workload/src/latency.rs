//! Latencies: noted in a histogram of bounded error, told in microseconds.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies are counted up to here, in nanoseconds.
const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Latencies of single commands or actions in microseconds; in a pipeline from the moment its batch was sent.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// Of what was noted.
    pub(crate) fn of(noted: &Histogram<u64>) -> Latency {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile: f64| us(noted.value_at_quantile(quantile));
        Latency {
            mean_us: noted.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(noted.max()),
        }
    }
}

/// A histogram with nothing noted.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds in range")
}

/// Notes one.
pub(crate) fn note(latencies: &mut Histogram<u64>, latency: Duration) {
    latencies.saturating_record(latency.as_nanos().min(u128::from(LATENCY_NS_MAX)) as u64);
}
