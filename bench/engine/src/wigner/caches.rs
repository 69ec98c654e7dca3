//! The caches, and how the program uses each.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_thesis::{Binned, Cache, DeferredLru, FineLru, LruMutex, Thresholds};

use crate::sums;
use crate::symbols::{Six, Three, computed, key, value};

/// The hasher of those that take one: what hashbrown uses.
type Fast = hashbrown::DefaultHashBuilder;

/// The bits of all sums, and how many 3j symbols were computed, where that is known.
type Outcome = (Vec<u64>, Option<u64>);

/// Threads, and entries at most.
type Run = fn(&[Six], usize, usize) -> Outcome;

/// A cache by name.
pub struct Contestant {
    pub name: &'static str,
    pub run: Run,
    /// It has a capacity that can be chosen.
    pub bounded: bool,
    /// Measured once.
    pub slow: bool,
}

/// Keeps the bits of numbers by key.
trait Remembers: Sync {
    fn new(capacity: usize) -> Self;
    /// What is kept, or what `compute` gives, which is kept then.
    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64;
}

const fn in_front<C: Remembers>(name: &'static str) -> Contestant {
    Contestant { name, run: with::<C>, bounded: true, slow: false }
}

/// The first is what all others' sums are compared with.
pub const CONTESTANTS: &[Contestant] = &[
    Contestant {
        name: "its own",
        run: |asked, threads, _| without(asked, threads, value),
        bounded: false,
        slow: false,
    },
    Contestant { name: "none", run: |asked, threads, _| without(asked, threads, computed), bounded: false, slow: true },
    Contestant { bounded: false, ..in_front::<dashmap::DashMap<u64, u64, Fast>>("dashmap (unbounded)") },
    in_front::<DeferredLru>("DLRU .9|.6"),
    in_front::<Binned<DeferredLru>>("B-DLRU .9|.6"),
    in_front::<Binned<LruMutex>>("B-LRU"),
    in_front::<Binned<FineLru>>("B-conLRU"),
    in_front::<quick_cache::sync::Cache<u64, u64>>("quick_cache"),
    in_front::<forebay_cache::Cache<u64, u64>>("forebay Cache"),
    in_front::<forebay_cache::Inline<u64, u64>>("forebay Inline"),
];

fn without(asked: &[Six], threads: usize, three: fn(Three) -> f64) -> Outcome {
    (sums(asked, threads, three), None)
}

fn with<C: Remembers>(asked: &[Six], threads: usize, capacity: usize) -> Outcome {
    let cache = C::new(capacity);
    let count = AtomicU64::new(0);
    let three = |three: Three| {
        f64::from_bits(cache.remembered(key(three), || {
            count.fetch_add(1, Ordering::Relaxed);
            computed(three).to_bits()
        }))
    };
    let sums = sums(asked, threads, three);
    (sums, Some(count.into_inner()))
}

impl Remembers for forebay_cache::Inline<u64, u64> {
    fn new(capacity: usize) -> Self {
        forebay_cache::Inline::new(capacity).expect("there is memory for it")
    }

    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64 {
        self.get_or_insert_with(key, compute)
    }
}

impl Remembers for forebay_cache::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        forebay_cache::Cache::new(capacity)
    }

    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64 {
        self.get(&key).unwrap_or_else(|| {
            let value = compute();
            self.insert(key, value);
            value
        })
    }
}

impl Remembers for quick_cache::sync::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        quick_cache::sync::Cache::new(capacity)
    }

    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64 {
        self.get(&key).unwrap_or_else(|| {
            let value = compute();
            self.insert(key, value);
            value
        })
    }
}

impl Remembers for dashmap::DashMap<u64, u64, Fast> {
    fn new(_: usize) -> Self {
        dashmap::DashMap::default()
    }

    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64 {
        let found = self.get(&key).map(|value| *value);
        found.unwrap_or_else(|| {
            let value = compute();
            self.insert(key, value);
            value
        })
    }
}

/// The thesis' caches take part by this.
trait OfThesis: Cache {
    fn of(capacity: usize) -> Self;
}

/// The thesis' setting for LSU3shell.
const SETTING: Thresholds = Thresholds { pull: 0.9, purge: 0.6 };

impl OfThesis for DeferredLru {
    fn of(capacity: usize) -> Self {
        DeferredLru::new(capacity, SETTING)
    }
}

impl OfThesis for Binned<DeferredLru> {
    fn of(capacity: usize) -> Self {
        Binned::new(capacity, DeferredLru::of)
    }
}

impl OfThesis for Binned<LruMutex> {
    fn of(capacity: usize) -> Self {
        Binned::new(capacity, LruMutex::new)
    }
}

impl OfThesis for Binned<FineLru> {
    fn of(capacity: usize) -> Self {
        Binned::new(capacity, FineLru::new)
    }
}

impl<C: OfThesis> Remembers for C {
    fn new(capacity: usize) -> Self {
        C::of(capacity)
    }

    fn remembered(&self, key: u64, compute: impl FnOnce() -> u64) -> u64 {
        self.get(key).unwrap_or_else(|| {
            let value = compute();
            self.insert(key, value);
            value
        })
    }
}
