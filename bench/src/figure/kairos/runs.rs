//! Runs of the simulation, side by side, and what they say together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Scale;
use super::outcome::Outcome;
use super::setting::{Load, Setting};
use super::world;
use crate::figures::{self, Summary};

/// One figure of a run.
pub(super) type Of = fn(&Outcome) -> f64;

/// The part of the time that runs at reduced scale take.
const REDUCED: f64 = 0.25;

/// Seeds of each setting.
pub(super) const SEEDS: u64 = 5;

/// Transactions at a time in each client, of which the load counts that has most commit.
pub(super) const THREADS: [u32; 2] = [64, 160];

/// The outcomes of each setting, a seed each.
pub(super) struct Runs {
    outcomes: Vec<Vec<Outcome>>,
}

impl Runs {
    /// Runs each setting by five seeds.
    pub fn of(scale: Scale, settings: &[Setting]) -> Runs {
        Runs::at(scale, settings, &THREADS)
    }

    /// Runs each setting by five seeds, at each of these loads if transactions come one after the other.
    pub fn at(scale: Scale, settings: &[Setting], threads: &[u32]) -> Runs {
        let part = if scale == Scale::Full { 1.0 } else { REDUCED };
        let all: Vec<Setting> = settings
            .iter()
            .flat_map(|setting| {
                (1..=SEEDS).map(|seed| {
                    let (warm, counted) = setting.seconds;
                    let warm = (part * warm).max(setting.warm_min);
                    Setting { seed, seconds: (warm, part * counted), ..*setting }
                })
            })
            .collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![Outcome::default(); all.len()]));
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(setting) = all.get(at) else { break };
                        let outcome = most(setting, threads);
                        done.lock().unwrap_or_else(PoisonError::into_inner)[at] = outcome;
                    }
                });
            }
        });
        let outcomes = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        Runs { outcomes: outcomes.chunks(SEEDS as usize).map(<[Outcome]>::to_vec).collect() }
    }

    /// One figure of each setting: median and range.
    pub fn summaries(&self, of: Of) -> Vec<Summary> {
        self.outcomes.iter().map(|runs| figures::of(runs, of)).collect()
    }
}

/// A run; where transactions come one after the other, at the load at which most commit.
fn most(setting: &Setting, threads: &[u32]) -> Outcome {
    let Load::Closed(_) = setting.load else { return world::run(setting) };
    let mut best = Outcome::default();
    let mut expected = setting.expected;
    for threads in threads {
        let outcome = world::run(&Setting { load: Load::Closed(*threads), expected, ..*setting });
        expected = outcome.throughput();
        if outcome.committed > best.committed {
            best = outcome;
        }
    }
    best
}
