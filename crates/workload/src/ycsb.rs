//! What YCSB's core workloads ask for: the shares of their actions, and which records they choose. The live workloads
//! and the generated traces draw from here.

use fastrand::Rng;

use crate::popularity::{Latest, Scattered};

/// Longest scan; lengths are uniform from 1.
pub(crate) const SCAN_MAX: u64 = 100;

/// Percents of each action, and which records are popular.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix {
    pub read: u32,
    pub update: u32,
    pub insert: u32,
    pub scan: u32,
    /// A read, then an update of the same record.
    pub modify: u32,
    /// The last inserted, in place of records all over.
    pub latest: bool,
}

const NONE: Mix = Mix { read: 0, update: 0, insert: 0, scan: 0, modify: 0, latest: false };
pub(crate) const A: Mix = Mix { read: 50, update: 50, ..NONE };
pub(crate) const B: Mix = Mix { read: 95, update: 5, ..NONE };
pub(crate) const C: Mix = Mix { read: 100, ..NONE };
pub(crate) const D: Mix = Mix { read: 95, insert: 5, latest: true, ..NONE };
pub(crate) const E: Mix = Mix { scan: 95, insert: 5, ..NONE };
pub(crate) const F: Mix = Mix { read: 50, modify: 50, ..NONE };

/// One action on records by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read(u64),
    Update(u64),
    /// Of the next record that is not there yet.
    Insert,
    /// From this record on, so many.
    Scan(u64, u64),
    Modify(u64),
}

/// Draws actions.
pub(crate) struct Chooser {
    mix: Mix,
    scattered: Scattered,
    latest: Option<Latest>,
    /// Records that are scattered over.
    range: u64,
}

impl Chooser {
    /// For records of which `records` were loaded and `there` are there by now.
    pub fn new(mix: Mix, records: u64, there: u64) -> Chooser {
        // What is inserted during the run is asked for, too, as soon as it is there.
        let room = if mix.insert > 0 { records / 10 } else { 0 };
        let latest = mix.latest.then(|| Latest::new(there));
        Chooser { mix, scattered: Scattered::default(), latest, range: records + room }
    }

    /// The next action, while `there` records are there, never fewer than before.
    pub fn next(&mut self, there: u64, rng: &mut Rng) -> Step {
        let Mix { read, update, insert, scan, .. } = self.mix;
        let percent = rng.u32(0..100);
        if percent < read {
            Step::Read(self.record(there, rng))
        } else if percent < read + update {
            Step::Update(self.record(there, rng))
        } else if percent < read + update + insert {
            Step::Insert
        } else if percent < read + update + insert + scan {
            Step::Scan(self.record(there, rng), rng.u64(1..=SCAN_MAX))
        } else {
            Step::Modify(self.record(there, rng))
        }
    }

    fn record(&mut self, there: u64, rng: &mut Rng) -> u64 {
        if let Some(latest) = &mut self.latest {
            return latest.draw(there, rng);
        }
        loop {
            let number = self.scattered.draw(self.range, rng);
            if number < there {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_their_shares_and_records_are_there() {
        for (name, mix) in [("a", A), ("b", B), ("c", C), ("d", D), ("e", E), ("f", F)] {
            let shares = [mix.read, mix.update, mix.insert, mix.scan, mix.modify];
            assert_eq!(shares.iter().sum::<u32>(), 100, "{name}");
            let (mut rng, mut there, mut counts) = (Rng::with_seed(11), 1000, [0u32; 5]);
            let mut chooser = Chooser::new(mix, 1000, there);
            let mut lengths = 0;
            for _ in 0..20_000 {
                let (at, record) = match chooser.next(there, &mut rng) {
                    Step::Read(record) => (0, record),
                    Step::Update(record) => (1, record),
                    Step::Insert => {
                        there += 1;
                        (2, 0)
                    }
                    Step::Scan(record, length) => {
                        assert!((1..=SCAN_MAX).contains(&length));
                        lengths += length;
                        (3, record)
                    }
                    Step::Modify(record) => (4, record),
                };
                assert!(record < there, "{name}");
                counts[at] += 1;
            }
            for (count, percent) in counts.into_iter().zip(shares) {
                assert!(count.abs_diff(200 * percent) < 300, "{name}: {counts:?}");
            }
            if mix.scan > 0 {
                let mean = lengths as f64 / f64::from(counts[3]);
                assert!((mean - 50.5).abs() < 1.5, "{mean}");
            }
        }
    }
}
