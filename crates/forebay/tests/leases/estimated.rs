//! Leases by estimated rates: how many fresh hits they lose beside leases by the rates as they are. These stay, drift,
//! or come in bursts.

use std::f64::consts::TAU;

use forebay::lease::{Gaps, ReadGap, WriteRates};

use super::exponential;

/// How much of the fresh hits a lease of twice or half the best length loses: by reads per write, at most.
const LOSSES: [(f64, f64); 6] =
    [(1e-6, 0.0004), (1e-3, 0.011), (0.05, 0.064), (1.0, 0.142), (5.0, 0.142), (50.0, 0.142)];

#[test]
fn a_lease_that_is_half_or_twice_as_long() {
    for (read, most) in LOSSES {
        let gaps = Gaps { read, write: 1.0 };
        let lost = |length: f64| 1.0 - gaps.fresh_hit_rate(length) / gaps.fresh_hit_rate(gaps.ideal());
        let loss = [0.5, 2.0].map(|times| lost(times * gaps.ideal()));
        let worst = loss[0].max(loss[1]);
        assert!(worst < most && (read > 1.0 || worst > 0.8 * most), "{read}: {loss:?}");
        // An estimate of writes that is wrong by that factor costs half of it, or less.
        let loss = [0.5, 2.0].map(|times| lost(Gaps { read, write: times }.ideal()));
        assert!(loss[0].max(loss[1]) < 0.5 * most, "{read}: {loss:?}");
    }
}

/// Rates of one document at each moment, in seconds.
struct World {
    name: &'static str,
    /// Reads per second at a moment, and at most.
    reads: (fn(f64) -> f64, f64),
    /// Writes per second.
    writes: (fn(f64) -> f64, f64),
    seconds: f64,
    /// The share of the fresh hits that may be lost.
    most: f64,
}

/// A rate that is this at first, and goes up and down by that factor within a period.
fn drifting(rate: f64, factor: f64, period_s: f64, now_s: f64) -> f64 {
    rate * factor.powf((TAU * now_s / period_s).sin())
}

/// For a tenth of each period 5.5 times the mean rate, else half of it.
fn bursts(mean: f64, period_s: f64, now_s: f64) -> f64 {
    if now_s.rem_euclid(period_s) < 0.1 * period_s { 5.5 * mean } else { 0.5 * mean }
}

/// The next event of a rate that changes, behind `now`: of those of the greatest rate some are left out.
fn next(random: &mut fastrand::Rng, (rate, most): (fn(f64) -> f64, f64), mut now: f64) -> f64 {
    loop {
        now += exponential(random, 1.0 / most);
        if random.f64() * most < rate(now) {
            return now;
        }
    }
}

/// A cache of one document.
#[derive(Default)]
struct Copy {
    ends: f64,
    fetched: f64,
    fresh: u64,
}

impl Copy {
    fn read(&mut self, now: f64, written: f64, length: impl FnOnce() -> f64) {
        match now > self.ends {
            true => (self.ends, self.fetched) = (now + length(), now),
            false => self.fresh += u64::from(written <= self.fetched),
        }
    }
}

/// The share of the fresh hits that leases by estimates lose beside leases by the rates of the moment.
fn lost(world: &World, seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut gap, mut rates) = (ReadGap::default(), WriteRates::new(16, 0.0));
    let (mut estimating, mut knowing) = (Copy::default(), Copy::default());
    let (mut now, mut written, mut next_write) = (0.0, -1.0, next(&mut random, world.writes, 0.0));
    while now < world.seconds {
        now = next(&mut random, world.reads, now);
        while next_write <= now {
            rates.write(1, 1, next_write);
            written = next_write;
            next_write = next(&mut random, world.writes, next_write);
        }
        gap.read(now);
        estimating.read(now, written, || Gaps::estimated(gap.gap(), rates.rate(1, 0, now)).ideal());
        let known = Gaps { read: 1.0 / (world.reads.0)(now), write: 1.0 / (world.writes.0)(now) };
        knowing.read(now, written, || known.ideal());
    }
    1.0 - estimating.fresh as f64 / knowing.fresh as f64
}

#[test]
fn estimates_lose_few_fresh_hits() {
    let worlds = [
        World { name: "steady", reads: (|_| 10.0, 10.0), writes: (|_| 0.5, 0.5), seconds: 6_000.0, most: 0.012 },
        World {
            name: "reads drift by 16 in 5 minutes",
            reads: (|now| drifting(10.0, 4.0, 600.0, now), 40.0),
            writes: (|_| 0.5, 0.5),
            seconds: 6_000.0,
            most: 0.012,
        },
        World {
            name: "writes drift by 4 in half an hour",
            reads: (|_| 10.0, 10.0),
            writes: (|now| drifting(0.5, 2.0, 3_600.0, now), 1.0),
            seconds: 14_400.0,
            most: 0.012,
        },
        World {
            name: "writes drift by 16 in half an hour",
            reads: (|_| 10.0, 10.0),
            writes: (|now| drifting(0.5, 4.0, 3_600.0, now), 2.0),
            seconds: 14_400.0,
            most: 0.025,
        },
        World {
            name: "bursts of reads",
            reads: (|now| bursts(10.0, 60.0, now), 55.0),
            writes: (|_| 0.5, 0.5),
            seconds: 6_000.0,
            most: 0.02,
        },
        World {
            name: "bursts of writes",
            reads: (|_| 10.0, 10.0),
            writes: (|now| bursts(0.5, 60.0, now), 2.75),
            seconds: 6_000.0,
            most: 0.035,
        },
        World {
            name: "bursts of writes, seldom",
            reads: (|_| 10.0, 10.0),
            writes: (|now| bursts(0.01, 600.0, now), 0.055),
            seconds: 20_000.0,
            most: 0.015,
        },
    ];
    for world in &worlds {
        let losses: Vec<f64> = (0..4).map(|seed| lost(world, seed)).collect();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        println!("{}: {:.2} % of the fresh hits are lost", world.name, 100.0 * mean);
        assert!(mean < world.most, "{}: {losses:?}", world.name);
    }
}
