//! How unevenly records are asked for, as YCSB draws them: Zipf by the method of Gray et al. ("Quickly generating
//! billion-record synthetic databases", 1994), the same scattered over all records, and the latest first.

use fastrand::Rng;

/// The exponent of YCSB.
pub const THETA: f64 = 0.99;

/// Scattered draws come from so many ranks, whatever the number of records.
pub const SCATTERED_RANKS: u64 = 10_000_000_000;

/// `zeta(SCATTERED_RANKS, THETA)`, which takes too long to add up.
pub const SCATTERED_ZETA: f64 = 26.469_028_201_783_02;

/// From here on a sum is its integral, near enough.
const ADDED_UP: u64 = 10_000;

const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// Ranks, rank r (from 0) with probability about proportional to 1 / (r + 1)^theta.
#[derive(Clone, Debug)]
pub struct Zipf {
    theta: f64,
    alpha: f64,
    zeta2: f64,
    ranks: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// So many ranks, at least 1, with an exponent in 0..1.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        Zipf::with_zeta(ranks, theta, zeta(0, ranks.max(1), theta, 0.0))
    }

    fn with_zeta(ranks: u64, theta: f64, zeta_all: f64) -> Zipf {
        let ranks = ranks.max(1);
        let mut zipf =
            Zipf { theta, alpha: 1.0 / (1.0 - theta), zeta2: zeta(0, 2, theta, 0.0), ranks, zeta: zeta_all, eta: 0.0 };
        zipf.settle();
        zipf
    }

    fn settle(&mut self) {
        self.eta = (1.0 - (2.0 / self.ranks as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta2 / self.zeta);
    }

    /// Makes it one over more ranks, never fewer.
    pub fn grow(&mut self, ranks: u64) {
        if ranks > self.ranks {
            self.zeta = zeta(self.ranks, ranks, self.theta, self.zeta);
            self.ranks = ranks;
            self.settle();
        }
    }

    /// A rank.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let share = rng.f64();
        let place = share * self.zeta;
        if place < 1.0 {
            return 0;
        }
        if place < 1.0 + 0.5f64.powf(self.theta) {
            return 1.min(self.ranks - 1);
        }
        let rank = (self.ranks as f64 * (self.eta * share - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.ranks - 1)
    }
}

/// The sum of 1 / i^theta for i in `from + 1 ..= to`, added to `sum`: one by one as far as [`ADDED_UP`], then by
/// Euler and Maclaurin's formula, whose error is below that of the additions.
fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    let middle = to.min(from.max(ADDED_UP));
    let sum = (from + 1..=middle).fold(sum, |sum, i| sum + (i as f64).powf(-theta));
    if middle == to {
        return sum;
    }
    let (a, b) = (middle as f64, to as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
    sum + integral + ends + slopes
}

/// Which record is popular is decided by a hash of its rank; the share of the most popular does not depend on their
/// number.
#[derive(Clone, Debug)]
pub struct Scattered {
    zipf: Zipf,
}

impl Default for Scattered {
    fn default() -> Scattered {
        Scattered { zipf: Zipf::with_zeta(SCATTERED_RANKS, THETA, SCATTERED_ZETA) }
    }
}

impl Scattered {
    /// One of `records`, from 0.
    pub fn draw(&self, records: u64, rng: &mut Rng) -> u64 {
        fnv_hash(self.zipf.draw(rng)) % records.max(1)
    }
}

/// The record that came last is the most popular.
#[derive(Clone, Debug)]
pub struct Latest {
    zipf: Zipf,
}

impl Latest {
    /// For so many records now.
    pub fn new(records: u64) -> Latest {
        Latest { zipf: Zipf::new(records, THETA) }
    }

    /// One of `records`, which only ever grow, from 0.
    pub fn draw(&mut self, records: u64, rng: &mut Rng) -> u64 {
        self.zipf.grow(records);
        records.saturating_sub(1).saturating_sub(self.zipf.draw(rng))
    }
}

/// YCSB's hash of a number: FNV-1a over its 8 octets, the lowest first, without the sign.
pub fn fnv_hash(number: u64) -> u64 {
    let hash =
        number.to_le_bytes().iter().fold(FNV_BASIS, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(FNV_PRIME));
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_is_added_up_and_grows() {
        // 1 + 2^-0.99 + 3^-0.99.
        assert!((zeta(0, 3, THETA, 0.0) - 1.840_509_806).abs() < 1e-3, "{}", zeta(0, 3, THETA, 0.0));
        let mut grown = Zipf::new(10, THETA);
        grown.grow(1000);
        let whole = Zipf::new(1000, THETA);
        assert!((grown.zeta - whole.zeta).abs() < 1e-9 && (grown.eta - whole.eta).abs() < 1e-9);
        // The formula is as good as adding up, and YCSB's constant is what it says.
        let added = (1..=300_000).map(|i| f64::from(i).powf(-THETA)).sum::<f64>();
        assert!((zeta(0, 300_000, THETA, 0.0) - added).abs() < 1e-9);
        let all = zeta(0, SCATTERED_RANKS, THETA, 0.0);
        assert!((all - SCATTERED_ZETA).abs() < 1e-8, "{all}");
    }

    #[test]
    fn shares_are_those_of_zipf() {
        let (ranks, draws) = (1000, 400_000);
        let (zipf, mut rng) = (Zipf::new(ranks, THETA), Rng::with_seed(5));
        let mut counts = vec![0u64; ranks as usize];
        (0..draws).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        let share = |rank: usize| counts[rank] as f64 / draws as f64;
        // The first two are exact: 1 / zeta and 2^-theta / zeta.
        assert!((share(0) - 1.0 / zipf.zeta).abs() < 0.003, "{}", share(0));
        assert!((share(1) - 0.5f64.powf(THETA) / zipf.zeta).abs() < 0.003, "{}", share(1));
        // The rest is the approximation of Gray et al.: by its own formula, ranks below r have
        // 1 - (1 - (r / n)^(1 - theta)) / eta of it.
        for rank in [10u64, 100, 500] {
            let upto = counts[..rank as usize].iter().sum::<u64>() as f64 / draws as f64;
            let own = 1.0 - (1.0 - (rank as f64 / ranks as f64).powf(1.0 - THETA)) / zipf.eta;
            assert!((upto - own).abs() < 0.005, "{rank}: {upto} {own}");
            let exact = zeta(0, rank, THETA, 0.0) / zipf.zeta;
            assert!((upto - exact).abs() < 0.05, "{rank}: {upto} {exact}");
        }
    }

    #[test]
    fn scattered_draws_have_a_top_share_of_their_own() {
        let (scattered, mut rng) = (Scattered::default(), Rng::with_seed(6));
        let (records, draws) = (1000, 200_000);
        let mut counts = vec![0u64; records as usize];
        (0..draws).for_each(|_| counts[scattered.draw(records, &mut rng) as usize] += 1);
        // The first rank is where its hash says, with 1 / 26.469 of all draws; a plain Zipf over 1000 gives it 1 / 7.7.
        let first = counts[(fnv_hash(0) % records) as usize] as f64 / draws as f64;
        assert!((first - 1.0 / SCATTERED_ZETA).abs() < 0.004, "{first}");
        assert!(counts.iter().all(|&count| count > 0));
    }

    #[test]
    fn the_latest_come_first() {
        let (mut latest, mut rng) = (Latest::new(100), Rng::with_seed(7));
        let mut counts = vec![0u64; 200];
        for at in 0..100_000u64 {
            counts[latest.draw(100 + at / 1000, &mut rng) as usize] += 1;
            assert!(latest.draw(100 + at / 1000, &mut rng) < 100 + at / 1000);
        }
        let early: u64 = counts[..50].iter().sum();
        assert!(early < counts[50..].iter().sum::<u64>() / 4, "{early}");
        // While there were n records, the last had 1 / zeta(n); in the mean over n of 100..200 about 1 / 5.6.
        let mut fresh = Latest::new(100);
        let hits = (0..50_000).filter(|_| fresh.draw(100, &mut rng) == 99).count() as f64 / 50_000.0;
        assert!((hits - 1.0 / zeta(0, 100, THETA, 0.0)).abs() < 0.01, "{hits}");
    }

    #[test]
    fn the_hash_is_fnv() {
        // By hand for one octet: all others are 0.
        let first = (0..7).fold((FNV_BASIS ^ 1).wrapping_mul(FNV_PRIME), |hash, _| hash.wrapping_mul(FNV_PRIME));
        assert_eq!(fnv_hash(1), (first as i64).unsigned_abs());
        // As YCSB names its first record.
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
    }
}
