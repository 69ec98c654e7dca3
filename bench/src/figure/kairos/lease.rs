//! Figure 5: how long a lease is best, by the formula and by reads and writes at random.

use forebay::lease::term::Gaps;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Chart, Scale, Series};

/// A read a millisecond, a write in 19.
const GAPS: Gaps = Gaps { read: 1.0, write: 19.0 };

pub(super) fn figure_5(scale: Scale) -> Vec<Chart> {
    let reads = if scale == Scale::Full { 10_000_000 } else { 1_000_000 };
    let lengths: Vec<f64> = (1..=20).map(f64::from).collect();
    let mut random = SmallRng::seed_from_u64(5);
    let drawn: Vec<(f64, f64)> = lengths.iter().map(|length| drawn(*length, reads, &mut random)).collect();
    let line = |name: &str, of: &dyn Fn(usize) -> f64| {
        let points = lengths.iter().enumerate().map(|(at, length)| (*length, of(at))).collect();
        Series { name: name.to_owned(), points, ..Series::default() }
    };
    let series = vec![
        line("fresh hits, by the formula", &|at| GAPS.fresh_hit_rate(lengths[at])),
        line("fresh hits, at random", &|at| drawn[at].0),
        line("all hits, by the formula", &|at| GAPS.hit_rate(lengths[at])),
        line("all hits, at random", &|at| drawn[at].1),
    ];
    vec![Chart {
        title: "A read in 1 ms, a write in 19 ms".to_owned(),
        x: "length of a lease in ms".into(),
        y: "share of the reads".into(),
        loose: true,
        series,
        ..Chart::default()
    }]
}

/// The shares of fresh hits and of all hits among so many reads.
fn drawn(length: f64, reads: u32, random: &mut SmallRng) -> (f64, f64) {
    let mut gap = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
    let (mut now, mut until, mut written) = (0.0, 0.0, gap(GAPS.write));
    // Whether the copy was made after the last write.
    let mut is_fresh = false;
    let (mut hits, mut fresh) = (0u32, 0u32);
    for _ in 0..reads {
        now += gap(GAPS.read);
        while written < now {
            is_fresh = false;
            written += gap(GAPS.write);
        }
        if now < until {
            hits += 1;
            fresh += u32::from(is_fresh);
        } else {
            (until, is_fresh) = (now + length, true);
        }
    }
    (f64::from(fresh) / f64::from(reads), f64::from(hits) / f64::from(reads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_what_happens() {
        let mut random = SmallRng::seed_from_u64(1);
        for length in [2.0, 6.0, 17.0] {
            let (fresh, hits) = drawn(length, 400_000, &mut random);
            assert!((fresh - GAPS.fresh_hit_rate(length)).abs() < 0.004, "{length}: {fresh}");
            assert!((hits - GAPS.hit_rate(length)).abs() < 0.004, "{length}: {hits}");
        }
    }
}
