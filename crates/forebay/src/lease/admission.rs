//! How often documents are read of which a cache keeps nothing, and which of all documents are read most: estimates.
//!
//! It is a count-min sketch, whose counts fade. A document's count is never less than it should be, and seldom much
//! more while there are fewer documents than counters in a row.

/// Rows of counters; a document has one in each.
const ROWS: usize = 4;

/// Counters of a row at least.
const ROW_MIN: usize = 64;

/// Counters of a row at most: all rows take 64 MiB. A cache without a bound may ask for any number.
const ROW_MAX: usize = 4 << 20;

/// After so many half-lives all counts are made smaller, so that none is beyond what a number holds.
const HALF_LIVES_MAX: f64 = 64.0;

/// A document whose count is less has been read once: that says nothing of how often it is read.
const TWICE: f64 = 1.5;

/// A counter that is less holds no document any more.
const FORGOTTEN: f64 = 1.0 / 16.0;

/// How often each of many documents is read.
#[derive(Clone, Debug)]
pub struct ReadRates {
    rows: [Vec<f32>; ROWS],
    half_life_s: f64,
    began_s: f64,
    /// Counts are what they would be at this moment.
    reference_s: f64,
}

/// Which documents are read most: a share of all that are read.
#[derive(Clone, Debug)]
pub struct Popular {
    rates: ReadRates,
    share: f64,
    /// The least rate of a document in that share, per second, by the last look at all counters.
    least: f64,
    /// Reads since then.
    since: usize,
}

impl ReadRates {
    /// Nothing was read by `now_s`, in seconds. The counters suit about `documents`; a read counts half after
    /// `half_life_s`.
    pub fn new(documents: usize, half_life_s: f64, now_s: f64) -> ReadRates {
        let width = documents.clamp(ROW_MIN, ROW_MAX).next_power_of_two();
        let rows = std::array::from_fn(|_| vec![0.0; width]);
        ReadRates { rows, half_life_s: half_life_s.max(f64::MIN_POSITIVE), began_s: now_s, reference_s: now_s }
    }

    fn width(&self) -> usize {
        self.rows[0].len()
    }

    /// The document's counters.
    fn places(&self, document: u64) -> [usize; ROWS] {
        let step = document.rotate_left(32) | 1;
        let mask = self.width() - 1;
        std::array::from_fn(|row| {
            let mixed = document.wrapping_add(step.wrapping_mul(row as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 32) as usize & mask
        })
    }

    fn half_lives(&self, now_s: f64) -> f64 {
        (now_s - self.reference_s).max(0.0) / self.half_life_s
    }

    /// `document` is read at `now_s`.
    pub fn read(&mut self, document: u64, now_s: f64) {
        if self.half_lives(now_s) > HALF_LIVES_MAX {
            self.fade(now_s);
        }
        let (places, weight) = (self.places(document), self.half_lives(now_s).exp2() as f32);
        let count = self.least(places) + weight;
        // What is above that counts others as well.
        for (row, place) in self.rows.iter_mut().zip(places) {
            row[place] = row[place].max(count);
        }
    }

    fn least(&self, places: [usize; ROWS]) -> f32 {
        self.rows.iter().zip(places).map(|(row, place)| row[place]).fold(f32::INFINITY, f32::min)
    }

    fn fade(&mut self, now_s: f64) {
        let factor = (-self.half_lives(now_s)).exp2() as f32;
        self.rows.iter_mut().flatten().for_each(|count| *count *= factor);
        self.reference_s = now_s;
    }

    /// Reads of `document`, each by what it counts at `now_s`.
    fn count(&self, document: u64, now_s: f64) -> f64 {
        f64::from(self.least(self.places(document))) * (-self.half_lives(now_s)).exp2()
    }

    /// The seconds since the beginning, each by what it counts at `now_s`.
    fn seen_s(&self, now_s: f64) -> f64 {
        let lives = (now_s - self.began_s).max(0.0) / self.half_life_s;
        self.half_life_s / std::f64::consts::LN_2 * (1.0 - (-lives).exp2())
    }

    /// How often `document` is read, per second; 0 at the beginning.
    pub fn rate(&self, document: u64, now_s: f64) -> f64 {
        let seen = self.seen_s(now_s);
        if seen > 0.0 { self.count(document, now_s) / seen } else { 0.0 }
    }

    /// The mean gap between reads of `document`, in seconds, if it was read twice lately.
    pub fn gap(&self, document: u64, now_s: f64) -> Option<f64> {
        let is_known = self.count(document, now_s) >= TWICE;
        is_known.then(|| 1.0 / self.rate(document, now_s)).filter(|gap| gap.is_finite())
    }

    /// Bytes that the counters take.
    pub fn bytes(&self) -> usize {
        ROWS * self.width() * size_of::<f32>()
    }
}

impl Popular {
    /// Of the documents that are read, those in the most popular `share`; from 0 to 1. Nothing was read by `now_s`.
    pub fn new(share: f64, documents: usize, half_life_s: f64, now_s: f64) -> Popular {
        let rates = ReadRates::new(documents, half_life_s, now_s);
        Popular { rates, share: share.clamp(0.0, 1.0), least: 0.0, since: 0 }
    }

    /// `document` is read at `now_s`.
    pub fn read(&mut self, document: u64, now_s: f64) {
        self.rates.read(document, now_s);
        self.since += 1;
        // So the look at all counters costs each read no more than one counter.
        if self.since >= self.rates.width() {
            self.since = 0;
            self.least = self.least_of_share(now_s);
        }
    }

    /// Whether `document` is among them. Before it is known which are, all are.
    pub fn has(&self, document: u64, now_s: f64) -> bool {
        self.rates.rate(document, now_s) >= self.least
    }

    /// How often each document is read.
    pub fn rates(&self) -> &ReadRates {
        &self.rates
    }

    /// The counters of one row stand for the documents.
    fn least_of_share(&self, now_s: f64) -> f64 {
        let faded = (-self.rates.half_lives(now_s)).exp2();
        let seen = self.rates.seen_s(now_s);
        let mut counts: Vec<f64> = self.rates.rows[0].iter().map(|count| f64::from(*count) * faded).collect();
        counts.retain(|count| *count >= FORGOTTEN);
        let most = (self.share * counts.len() as f64).round() as usize;
        if most >= counts.len() || seen <= 0.0 {
            return 0.0;
        }
        if most == 0 {
            return f64::INFINITY;
        }
        let (_, least, _) = counts.select_nth_unstable_by(most - 1, |one, other| other.total_cmp(one));
        *least / seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of a number.
    fn document(number: u64) -> u64 {
        let mixed = (number + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
        -mean * (1.0 - random.f64()).ln()
    }

    /// Poisson reads of known rates, beside those of many others: within three standard deviations, also over hours.
    #[test]
    fn known_rates_are_found() {
        let mut random = fastrand::Rng::with_seed(7);
        for (rate, seconds) in [(50.0, 20.0), (2.0, 400.0), (0.2, 4_000.0), (0.02, 40_000.0)] {
            let mut rates = ReadRates::new(1 << 12, 300.0, 5.0);
            let (mut now, mut others) = (5.0 + exponential(&mut random, 1.0 / rate), 0);
            while now < 5.0 + seconds {
                rates.read(document(0), now);
                others += 1;
                rates.read(document(1 + others % 500), now);
                now += exponential(&mut random, 1.0 / rate);
            }
            let end = 5.0 + seconds;
            let sigma = (rate * rates.seen_s(end) / 2.0).max(1.0).sqrt() / rates.seen_s(end);
            let found = rates.rate(document(0), end);
            assert!((found - rate).abs() < 3.0 * sigma, "{found} of {rate} by {sigma}");
            assert!(rates.gap(document(0), end).is_some_and(|gap| (gap * found - 1.0).abs() < 1e-9));
        }
    }

    #[test]
    fn one_read_says_nothing() {
        let mut rates = ReadRates::new(100, 300.0, 0.0);
        assert_eq!((rates.rate(document(1), 0.0), rates.gap(document(1), 0.0)), (0.0, None));
        rates.read(document(1), 10.0);
        assert_eq!(rates.gap(document(1), 11.0), None);
        rates.read(document(1), 20.0);
        assert!(rates.gap(document(1), 21.0).is_some_and(|gap| (5.0..20.0).contains(&gap)));
        assert_eq!(rates.gap(document(1), 2_000.0), None, "that was long ago");
        assert_eq!(rates.bytes(), 4 * 4 * 128);
    }

    /// A count is never less than the reads, however many documents share the counters.
    #[test]
    fn no_count_is_too_small() {
        let (mut rates, mut random) = (ReadRates::new(64, 1e9, 0.0), fastrand::Rng::with_seed(3));
        let mut reads = [0_u32; 300];
        for _ in 0..10_000 {
            let number = (300.0 * random.f64().powi(3)) as usize;
            reads[number] += 1;
            rates.read(document(number as u64), 1.0);
        }
        for (number, reads) in (0..).zip(reads) {
            assert!(rates.count(document(number), 1.0) >= f64::from(reads) * 0.999, "{number}");
        }
    }

    /// A cache without a bound has a sketch with one.
    #[test]
    fn a_sketch_has_a_bound() {
        assert_eq!(ReadRates::new(usize::MAX, 1.0, 0.0).bytes(), 64 << 20);
        assert_eq!(ReadRates::new(0, 1.0, 0.0).bytes(), 1 << 10);
    }

    /// Counts are made smaller long before a number could not hold them, and stay what they are.
    #[test]
    fn what_fades_stays_true() {
        let mut rates = ReadRates::new(64, 1.0, 0.0);
        for second in 0..1_000 {
            rates.read(document(1), f64::from(second));
        }
        let count = rates.count(document(1), 999.0);
        assert!((count - 2.0).abs() < 1e-3, "1 + 1/2 + 1/4 ..: {count}");
    }

    /// Of 20,000 documents by Zipf's law, the most popular 1 %: few others are taken for one.
    #[test]
    fn the_most_popular_are_known() {
        const DOCUMENTS: usize = 20_000;
        let mut random = fastrand::Rng::with_seed(5);
        let mut sums = Vec::with_capacity(DOCUMENTS);
        let mut sum = 0.0;
        for rank in 1..=DOCUMENTS {
            sum += 1.0 / rank as f64;
            sums.push(sum);
        }
        let mut popular = Popular::new(0.01, 2 * DOCUMENTS, 300.0, 0.0);
        assert!(popular.has(document(9), 0.0), "nothing is known");
        let (reads, per_second) = (600_000, 2_000.0);
        for read in 0..reads {
            let at = random.f64() * sum;
            let rank = sums.partition_point(|sum| *sum < at);
            popular.read(document(rank as u64), read as f64 / per_second);
        }
        let now = reads as f64 / per_second;
        let has: Vec<bool> = (0..DOCUMENTS).map(|rank| popular.has(document(rank as u64), now)).collect();
        let count = has.iter().filter(|has| **has).count();
        assert!((170..=230).contains(&count), "{count} of 200");
        assert!(has[..140].iter().all(|has| *has) && !has[400..].iter().any(|has| *has));
        let all = Popular::new(1.0, 64, 300.0, 0.0);
        let mut none = Popular::new(0.0, 64, 300.0, 0.0);
        (0..64).for_each(|number| none.read(document(number), 1.0));
        assert!(all.has(document(1), 1.0) && !none.has(document(1), 1.0));
    }
}
