//! Locks and atomic words of cache and transactions. They are the standard library's, or with the feature `shuttle`
//! those of a scheduler that tries the interleavings of threads (`tests/schedules.rs`).

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};
