//! Locks and atomic words of the engine: the standard library's, with the feature `loom` those of a model checker, or
//! with the feature `shuttle` those of a scheduler that tries the interleavings of threads.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(feature = "loom")]
pub(crate) use loom::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

#[cfg(all(feature = "shuttle", not(feature = "loom")))]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

/// How a word is looked at that an acquire fence follows. ThreadSanitizer knows no fences: for it the look acquires.
pub(crate) const FENCED: Ordering = if cfg!(feature = "tsan") { Ordering::Acquire } else { Ordering::Relaxed };

/// Tables are small, so that few entries make them grow, and words are those of a checker.
pub(crate) const CHECKED: bool = cfg!(any(feature = "loom", feature = "shuttle"));
