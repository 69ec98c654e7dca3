//! Chance: shares, distinct keys, and Zipf's distribution.

use fastrand::Rng;

/// Ranks 0..n, rank r with probability proportional to 1 / (r + 1)^exponent.
pub(crate) struct Zipf {
    /// By rank, the probability of it or a lower one.
    upto: Vec<f64>,
}

impl Zipf {
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let weight = |rank: u64| {
            sum += ((rank + 1) as f64).powf(-exponent);
            sum
        };
        let mut upto: Vec<f64> = (0..n.max(1)).map(weight).collect();
        upto.iter_mut().for_each(|part| *part /= sum);
        Zipf { upto }
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let share = rng.f64();
        (self.upto.partition_point(|&upto| upto <= share)).min(self.upto.len() - 1) as u64
    }
}

/// A place in `weights`, each with its share.
pub(crate) fn weighted(rng: &mut Rng, weights: &[f64]) -> usize {
    let mut left = rng.f64() * weights.iter().sum::<f64>();
    for (place, weight) in weights.iter().enumerate() {
        if left < *weight {
            return place;
        }
        left -= weight;
    }
    // Rounding may leave a little; the last that can be drawn has it.
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}

/// Adds `count` keys to `keys` that are not in it yet. `draw` has to have that many to give.
pub(crate) fn distinct(keys: &mut Vec<u64>, count: usize, mut draw: impl FnMut() -> u64) {
    let full = keys.len() + count;
    // A distribution so skewed that it hardly ever gives another key would not end.
    let mut tries = 1000 * count + 1000;
    while keys.len() < full && tries > 0 {
        let key = draw();
        if !keys.contains(&key) {
            keys.push(key);
        }
        tries -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_has_its_shares() {
        let (zipf, mut rng) = (Zipf::new(4, 1.0), Rng::with_seed(3));
        let mut counts = [0u32; 4];
        (0..25_000).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        // 12/25, 6/25, 4/25, 3/25.
        for (count, expected) in counts.into_iter().zip([12_000, 6_000, 4_000, 3_000]) {
            assert!(count.abs_diff(expected) < 400, "{counts:?}");
        }
    }

    #[test]
    fn weights_have_their_shares_and_keys_are_distinct() {
        let mut rng = Rng::with_seed(4);
        let mut counts = [0u32; 3];
        (0..30_000).for_each(|_| counts[weighted(&mut rng, &[1.0, 0.0, 2.0])] += 1);
        assert!(counts[0].abs_diff(10_000) < 400 && counts[1] == 0, "{counts:?}");
        let mut keys = vec![1];
        distinct(&mut keys, 9, || rng.u64(0..10));
        keys.sort_unstable();
        assert_eq!(keys, (0..10).collect::<Vec<_>>());
    }
}
