//! What hits are worth in time, for given latencies of the cache and of the store.
//!
//! The model is the simplest one that tells policies apart. What is asked for at one time asks the cache, and then,
//! unless it needs nothing more, the store. One such step begins when the one before has ended. Where a trace has
//! transactions a step is a level, and of types whose graph is known a step of the critical length. Without
//! transactions each request is one. Queueing, and what a busy store would add, are not in it.

use serde::Serialize;

/// The longest latency that makes sense.
pub const LATENCY_SECONDS_MAX: u64 = 3600;

/// Units, each with its nanoseconds.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// How long something takes, in nanoseconds: above zero and at most [`LATENCY_SECONDS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency(u64);

impl Latency {
    /// Reads `150us`, `0.2ms`, `2s`. Says what is wrong with anything else.
    pub fn parse(text: &str) -> Result<Latency, String> {
        let given = text.trim();
        let digits = given.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let form = || format!("'{given}': write a number and its unit (ns, us, ms or s), as in 150us or 0.5ms");
        let unit = &given[digits.len()..];
        let number = digits.trim();
        if unit.is_empty() && number.parse::<f64>().is_ok() {
            return Err(format!("'{given}' has no unit: write {given}us or {given}ms (ns, us, ms or s)"));
        }
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
        let nanoseconds = number.parse::<f64>().map_err(|_| form())? * nanoseconds;
        if nanoseconds < 1.0 {
            return Err(format!("'{given}': a latency is at least 1ns"));
        }
        if nanoseconds > LATENCY_SECONDS_MAX as f64 * 1e9 {
            return Err(format!("'{given}': a latency is at most {LATENCY_SECONDS_MAX}s"));
        }
        Ok(Latency(nanoseconds.round() as u64))
    }

    fn microseconds(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl std::fmt::Display for Latency {
    /// In the largest unit that leaves something before the point.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, nanoseconds) = UNITS.iter().rfind(|(_, size)| self.0 as f64 >= *size).unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", self.0 as f64 / nanoseconds)
    }
}

/// Steps that would each wait for the store if there were no cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Transactions that they belong to; none in a trace that has no transactions.
    pub transactions: Option<u64>,
    /// How many there were.
    pub asked: u64,
    /// How many the cache answered by itself.
    pub saved: u64,
}

impl RoundTrips {
    /// Of requests that each wait alone.
    pub fn of_requests(requests: u64, hits: u64) -> RoundTrips {
        RoundTrips { transactions: None, asked: requests, saved: hits }
    }
}

/// Latencies of both, as they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A step that the cache answers takes this; all others take it in addition.
    pub cache: Latency,
    /// A step that the store has to answer takes this in addition; without a cache it takes this alone.
    pub store: Latency,
}

/// What a transaction, or without transactions a request, takes on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// Transactions that were counted; none where each request counts by itself.
    pub transactions: Option<u64>,
    /// Round trips to the store that there would be without a cache.
    pub round_trips: u64,
    /// Those of them that the cache saved.
    pub round_trips_saved: u64,
    /// Microseconds of one transaction, or of one request.
    pub latency_us: f64,
    /// Likewise if there were no cache.
    pub latency_without_cache_us: f64,
}

impl Latencies {
    /// The model; nothing where nothing was counted.
    pub fn model(&self, trips: RoundTrips) -> Option<Modelled> {
        let of = trips.transactions.unwrap_or(trips.asked) as f64;
        let (asked, waits) = (trips.asked as f64, trips.asked.saturating_sub(trips.saved) as f64);
        let (cache, store) = (self.cache.microseconds(), self.store.microseconds());
        (of > 0.0).then(|| Modelled {
            transactions: trips.transactions,
            round_trips: trips.asked,
            round_trips_saved: trips.saved,
            latency_us: (asked * cache + waits * store) / of,
            latency_without_cache_us: asked * store / of,
        })
    }
}

/// Microseconds with as many digits as tell something.
pub(crate) fn shown(microseconds: f64) -> String {
    match microseconds {
        large if large >= 1000.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_a_unit_and_a_bound() {
        let read = |text: &str| Latency::parse(text).map(|latency| latency.0);
        assert_eq!(
            [read("150us"), read("0.5ms"), read(" 2 s "), read("1ns")].map(Result::unwrap_or_default),
            [150_000, 500_000, 2_000_000_000, 1]
        );
        assert_eq!(read("3600s"), Ok(3_600_000_000_000));
        for (wrong, why) in [
            ("5", "'5' has no unit: write 5us or 5ms"),
            ("-5", "'-5' has no unit"),
            ("0us", "at least 1ns"),
            ("-1ms", "at least 1ns"),
            ("0.4ns", "at least 1ns"),
            ("3600.1s", "at most 3600s"),
            ("1e300s", "at most 3600s"),
            ("2h", "write a number and its unit"),
            ("1MS", "write a number and its unit"),
            ("ms", "write a number and its unit"),
            ("", "write a number and its unit"),
            ("infs", "write a number and its unit"),
            ("1 2ms", "write a number and its unit"),
        ] {
            let said = read(wrong).expect_err(wrong);
            assert!(said.contains(why), "{wrong}: {said}");
        }
        let shown =
            ["150us", "500us", "1500000ns", "2s", "1ns"].map(|text| Latency::parse(text).map(|l| l.to_string()));
        assert_eq!(shown.map(Result::unwrap_or_default), ["150us", "500us", "1.5ms", "2s", "1ns"]);
    }

    #[test]
    fn what_is_saved_is_the_stores_part() {
        let latencies = Latencies { cache: Latency(100_000), store: Latency(2_000_000) };
        let trips = RoundTrips { transactions: Some(10), asked: 25, saved: 15 };
        let modelled = latencies.model(trips).expect("some");
        assert_eq!((modelled.latency_us, modelled.latency_without_cache_us), (2250.0, 5000.0));
        let requests = latencies.model(RoundTrips::of_requests(4, 1)).expect("some");
        assert_eq!((requests.latency_us, requests.latency_without_cache_us), (1600.0, 2000.0));
        assert_eq!(latencies.model(RoundTrips::default()), None);
        assert_eq!([12345.6, 123.45, 0.1].map(super::shown), ["12346", "123.5", "0.100"]);
    }
}
