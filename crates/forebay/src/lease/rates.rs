//! How often documents are read in one cache, and written by others: estimates.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

/// The weight of the last gap in the mean: one eighth.
const LAST_GAP: f64 = 0.125;

/// After so many seconds a write counts half.
const HALF_LIFE_S: f64 = 300.0;

/// Before anything is seen, a document counts as written once in so many seconds.
const PRIOR_GAP_S: f64 = 60.0;

/// Half-lives after which all counts are made smaller, so that none is beyond what a number holds.
const HALF_LIVES_MAX: f64 = 500.0;

/// Clients whose writes of one document are told apart; those of more are somebody's.
const WRITERS_MAX: usize = 4;

/// The mean gap between the reads of one document, in the unit of the moments: an exponentially weighted mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadGap {
    last: Option<f64>,
    mean: Option<f64>,
}

impl ReadGap {
    /// It is read at `now`.
    pub fn read(&mut self, now: f64) {
        if let Some(last) = self.last {
            let gap = (now - last).max(0.0);
            self.mean = Some(self.mean.map_or(gap, |mean| mean + LAST_GAP * (gap - mean)));
        }
        self.last = Some(now);
    }

    /// The mean gap, once it was read twice.
    pub fn gap(&self) -> Option<f64> {
        self.mean
    }
}

/// How often each of many documents is written, in a table of bounded size: Space-Saving, with counts that fade.
///
/// A document that is not in the table takes the place of the one with the least count, and its count: so a document's
/// count is never less than it should be, and those written most are in the table. Documents are named by a hash; two
/// with one hash share a count.
#[derive(Debug)]
pub struct WriteRates {
    entries: HashMap<u64, Entry, foldhash::fast::RandomState>,
    /// By count: its bits are in the order of the number. The second of a pair is the document.
    order: BTreeMap<(u64, u64), ()>,
    entries_max: usize,
    began_s: f64,
    /// Counts are what they would be at this moment.
    reference_s: f64,
}

#[derive(Debug)]
struct Entry {
    count: f64,
    writers: SmallVec<[(u32, f64); 1]>,
}

impl WriteRates {
    /// Bytes that an entry takes.
    pub const ENTRY_BYTES: usize = 144;

    /// Nothing was written by `now_s`, in seconds.
    pub fn new(entries_max: usize, now_s: f64) -> WriteRates {
        WriteRates {
            entries: HashMap::default(),
            order: BTreeMap::new(),
            entries_max: entries_max.max(1),
            began_s: now_s,
            reference_s: now_s,
        }
    }

    /// Nothing was counted before `now_s`, if nothing is counted yet.
    pub fn begin(&mut self, now_s: f64) {
        if self.is_empty() {
            (self.began_s, self.reference_s) = (now_s, now_s);
        }
    }

    /// Before `now_s`, `document` was written so often, per second; it is not in the table yet. Nothing happens where
    /// the table is full.
    pub fn assume(&mut self, document: u64, per_second: f64, now_s: f64) {
        if self.entries.len() >= self.entries_max || self.entries.contains_key(&document) {
            return;
        }
        let weight = ((now_s - self.reference_s) / HALF_LIFE_S).exp2();
        let count = ((per_second * (self.seen_s(now_s) + PRIOR_GAP_S) - 1.0) * weight).max(0.0);
        self.order.insert((count.to_bits(), document), ());
        self.entries.insert(document, Entry { count, writers: SmallVec::new() });
    }

    /// What was counted since the beginning, each second by what it counts now.
    fn seen_s(&self, now_s: f64) -> f64 {
        HALF_LIFE_S / std::f64::consts::LN_2 * (1.0 - (-(now_s - self.began_s) / HALF_LIFE_S).exp2())
    }

    /// Documents in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no document is in the table.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The client `by` writes `document` at `now_s`.
    pub fn write(&mut self, document: u64, by: u32, now_s: f64) {
        if (now_s - self.reference_s) / HALF_LIFE_S > HALF_LIVES_MAX {
            self.fade(now_s);
        }
        let weight = ((now_s - self.reference_s) / HALF_LIFE_S).exp2();
        let mut entry = match self.entries.remove(&document) {
            Some(entry) => {
                self.order.remove(&(entry.count.to_bits(), document));
                entry
            }
            None => Entry { count: self.least_given_up(), writers: SmallVec::new() },
        };
        entry.count += weight;
        match entry.writers.iter().position(|(writer, _)| *writer == by) {
            Some(at) => entry.writers[at].1 += weight,
            None if entry.writers.len() < WRITERS_MAX => entry.writers.push((by, weight)),
            None => {}
        }
        self.order.insert((entry.count.to_bits(), document), ());
        self.entries.insert(document, entry);
    }

    /// Makes room for one entry; the count that it begins with.
    fn least_given_up(&mut self) -> f64 {
        if self.entries.len() < self.entries_max {
            return 0.0;
        }
        let Some(((count, document), ())) = self.order.pop_first() else { return 0.0 };
        self.entries.remove(&document);
        f64::from_bits(count)
    }

    /// Makes all counts what they are at `now_s`.
    fn fade(&mut self, now_s: f64) {
        let factor = (-(now_s - self.reference_s) / HALF_LIFE_S).exp2();
        for entry in self.entries.values_mut() {
            entry.count *= factor;
            entry.writers.iter_mut().for_each(|(_, count)| *count *= factor);
        }
        let counts = self.entries.iter().map(|(document, entry)| ((entry.count.to_bits(), *document), ()));
        self.order = counts.collect();
        self.reference_s = now_s;
    }

    /// How often others than `client` write `document`, per second.
    pub fn rate(&self, document: u64, client: u32, now_s: f64) -> f64 {
        let count = match self.entries.get(&document) {
            Some(entry) => {
                let own = entry.writers.iter().find(|(writer, _)| *writer == client);
                (entry.count - own.map_or(0.0, |(_, count)| *count)).max(0.0)
            }
            // Of those that are not in the table none is written more often than the least in it.
            None if self.entries.len() >= self.entries_max => {
                self.order.first_key_value().map_or(0.0, |((count, _), ())| f64::from_bits(*count))
            }
            None => 0.0,
        };
        let faded = if count > 0.0 { count * (-(now_s - self.reference_s) / HALF_LIFE_S).exp2() } else { 0.0 };
        (faded + 1.0) / (self.seen_s(now_s) + PRIOR_GAP_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
        -mean * (1.0 - random.f64()).ln()
    }

    #[test]
    fn what_was_known_before_goes_on() {
        let mut rates = WriteRates::new(2, 0.0);
        let known = [(1, 6.25), (2, 0.5), (3, 9.0)];
        known.into_iter().for_each(|(document, rate)| rates.assume(document, rate, 900.0));
        assert_eq!([1, 2].map(|document| rates.rate(document, 0, 900.0)), [6.25, 0.5]);
        assert_eq!(rates.rate(3, 0, 900.0), 0.5, "the table is full");
    }

    /// Poisson writes of known rates: the estimate is within three standard deviations, also over days.
    #[test]
    fn known_rates_are_found() {
        let mut random = fastrand::Rng::with_seed(7);
        for (rate, seconds) in [(20.0, 60.0), (1.0, 600.0), (0.2, 3600.0), (0.05, 300_000.0)] {
            let mut rates = WriteRates::new(16, 0.0);
            let mut now = exponential(&mut random, 1.0 / rate);
            while now < seconds {
                rates.write(1, 0, now);
                now += exponential(&mut random, 1.0 / rate);
            }
            let seen = HALF_LIFE_S / std::f64::consts::LN_2 * (1.0 - (-seconds / HALF_LIFE_S).exp2());
            let expected = (rate * seen + 1.0) / (seen + PRIOR_GAP_S);
            let sigma = (rate * seen / 2.0).sqrt() / (seen + PRIOR_GAP_S);
            let found = rates.rate(1, 9, seconds);
            assert!((found - expected).abs() < 3.0 * sigma, "{found} of {expected} by {sigma}");
        }
    }

    #[test]
    fn what_a_client_writes_itself_does_not_count() {
        let mut rates = WriteRates::new(16, 0.0);
        (0..100).for_each(|n| rates.write(1, n % 2, f64::from(n)));
        let [all, without] = [7, 1].map(|client| rates.rate(1, client, 100.0));
        assert!((all / without - 2.0).abs() < 0.1, "{all} {without}");
    }

    /// Of many documents those written most are in the table, and no other counts for less than it is.
    #[test]
    fn the_table_is_bounded() {
        let mut rates = WriteRates::new(50, 0.0);
        let mut random = fastrand::Rng::with_seed(3);
        let mut written = [0u32; 1000];
        for n in 0..100_000 {
            let document = (1000.0 * random.f64().powi(4)) as usize;
            written[document] += 1;
            rates.write(document as u64, 0, f64::from(n) / 1000.0);
        }
        assert_eq!((rates.len(), rates.order.len()), (50, 50));
        // What is written more often than one fiftieth of all.
        let often = (0..1000).filter(|document| written[*document] > 100_000 / 50);
        assert!(often.clone().count() > 1);
        often.for_each(|document| assert!(rates.entries.contains_key(&(document as u64)), "{document}"));
        for (document, written) in written.iter().enumerate() {
            let least = f64::from(*written) * 0.79 / (HALF_LIFE_S + PRIOR_GAP_S);
            assert!(rates.rate(document as u64, 1, 100.0) > least.min(0.1) * 0.5, "{document}");
        }
        // Long after that all of it is forgotten.
        assert!(rates.rate(0, 1, 1e6) < 0.01);
        rates.write(0, 0, 1e6);
        assert!(rates.rate(0, 1, 1e6) < 0.01);
    }

    #[test]
    fn gaps_between_reads() {
        let (mut gap, mut random, mut now) = (ReadGap::default(), fastrand::Rng::with_seed(1), 0.0);
        gap.read(now);
        assert_eq!(gap.gap(), None);
        let mut sum = 0.0;
        for _ in 0..4000 {
            now += exponential(&mut random, 2.0);
            gap.read(now);
            sum += gap.gap().unwrap_or_default();
        }
        // An exponentially weighted mean of weight 1/8 has a variance of 1/15 of that of one gap.
        let mean = sum / 4000.0;
        assert!((mean - 2.0).abs() < 3.0 * 2.0 / (4000.0f64).sqrt(), "{mean}");
        gap.read(now - 5.0);
        assert!(gap.gap().is_some_and(|gap| gap >= 0.0), "a clock that goes back");
    }
}
