//! Keys by how popular they are: the most popular one is 0.

use forebay::Key;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

/// Draws keys.
#[derive(Clone, Copy, Debug)]
pub struct Popularity {
    alpha: f64,
    /// The sum of the weights of all keys.
    weights: f64,
    drawn: Zipf<f64>,
}

impl Popularity {
    /// Of so many keys the one of rank n is drawn in proportion to (n + 1)^-alpha.
    pub fn new(keys: u64, alpha: f64) -> Popularity {
        let drawn = Zipf::new(keys as f64, alpha).expect("figures have keys, and alphas above 0");
        Popularity { alpha, weights: harmonic(keys, alpha), drawn }
    }

    /// The rank of one.
    pub fn draw(&self, random: &mut SmallRng) -> u64 {
        self.drawn.sample(random) as u64 - 1
    }

    /// How likely the key of that rank is to be drawn.
    pub fn share(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-self.alpha) / self.weights
    }
}

/// The sum of n^-alpha, n from 1 to `keys`: the first terms one by one, the others by the formula of Euler and
/// Maclaurin.
fn harmonic(keys: u64, alpha: f64) -> f64 {
    const SUMMED: u64 = 1000;
    let term = |n: u64| (n as f64).powf(-alpha);
    let summed: f64 = (1..=keys.min(SUMMED)).map(term).sum();
    if keys <= SUMMED {
        return summed;
    }
    let (from, to) = (SUMMED as f64, keys as f64);
    let integral = match (alpha - 1.0).abs() < 1e-9 {
        true => (to / from).ln(),
        false => (to.powf(1.0 - alpha) - from.powf(1.0 - alpha)) / (1.0 - alpha),
    };
    summed + integral + (term(keys) - term(SUMMED)) / 2.0
}

/// The key of a rank.
pub fn key(rank: u64) -> Key {
    Key::new(0, &rank.to_be_bytes())
}

/// The rank of a key that [`key`] has made.
pub fn rank(key: &Key) -> u64 {
    key.name().try_into().map_or(u64::MAX, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn shares_are_those_of_what_is_drawn() {
        let mut random = SmallRng::seed_from_u64(3);
        for alpha in [0.5, 0.99, 1.2] {
            let popularity = Popularity::new(20_000_000, alpha);
            const DRAWS: u32 = 400_000;
            let hundred = (0..DRAWS).filter(|_| popularity.draw(&mut random) < 100).count() as f64 / f64::from(DRAWS);
            let share: f64 = (0..100).map(|rank| popularity.share(rank)).sum();
            let sigma = (share * (1.0 - share) / f64::from(DRAWS)).sqrt();
            assert!((hundred - share).abs() < 4.0 * sigma, "{alpha}: {hundred} {share}");
        }
        assert_eq!(rank(&key(77)), 77);
    }

    #[test]
    fn sums_are_exact_enough() {
        for alpha in [0.5, 1.0, 1.2] {
            let exact: f64 = (1..=50_000).map(|n| f64::from(n).powf(-alpha)).sum();
            assert!((harmonic(50_000, alpha) / exact - 1.0).abs() < 1e-6, "{alpha}");
        }
    }
}
