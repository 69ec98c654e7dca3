//! The cache of programs: against a model that knows all, with threads and tasks, and with what programs do wrong.
#![cfg(not(feature = "loom"))]

mod bad;
mod explain;
mod gate;
mod histories;
mod loads;
mod model;
mod pins;
mod refused;
mod snapshots;
mod tasks;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::engine::PINS_MAX;

/// A clock that is set, in nanoseconds.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::Relaxed);
    }

    fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn panics<R>(run: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}
