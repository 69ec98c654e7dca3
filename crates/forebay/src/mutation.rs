//! Faults that tests put back on purpose, one for each rule of `docs/guarantees.md` that a change could break. The
//! simulation and the schedule tests are worth their time only while they find every one of them (`gate` in
//! `tests/simulation` and `tests/schedules.rs`). Without the feature `testing` no fault is ever on, and the compiler
//! drops what asks.

mod fault;
#[cfg(feature = "testing")]
mod switch;

pub use fault::Fault;
#[cfg(feature = "testing")]
pub use switch::{PutBack, do_meanwhile, interleave, interleave_with, locked, meanwhile, on, put_back, times_locked};

/// No fault is ever on.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn on(_: Fault) -> bool {
    false
}

/// Nobody else is let in.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn interleave() {}

/// Nothing happens in between.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn meanwhile() {}

/// Nothing is counted.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn locked() {}
