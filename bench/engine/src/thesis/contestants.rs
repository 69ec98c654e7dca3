//! The caches, each by the name under which it is shown.

use std::sync::{Mutex, PoisonError};

use forebay_cache::{Cache as Library, Inline};
use forebay_thesis::{Binned, Cache, DeferredLru, FineLru, Hhvm, Lru, LruMutex, SequentialDeferredLru, Thresholds};

use crate::replay::{Outcome, Replays, replay};
use crate::tbb;
use crate::traces::Test;

/// The hasher of those that take one: what hashbrown uses.
type Fast = hashbrown::DefaultHashBuilder;

/// Makes a cache of so many entries.
type Build = Box<dyn Fn(usize) -> Box<dyn Replays>>;

/// A cache by name.
pub struct Contestant {
    pub name: String,
    how: How,
}

enum How {
    Here(Build),
    /// Another program.
    Tbb,
}

impl Contestant {
    /// Of an empty cache; none: its program is not there.
    pub fn run(&self, test: &Test, threads: usize) -> Option<Outcome> {
        match &self.how {
            How::Here(build) => Some(replay(&*build(test.capacity), &test.requests, threads)),
            How::Tbb => tbb::run(test, threads),
        }
    }
}

fn value(key: u64) -> u64 {
    key ^ 0x55
}

struct OfThesis<C>(C);

impl<C: Cache> Replays for OfThesis<C> {
    fn replay(&self, requests: &[u64]) -> u64 {
        let mut hits = 0;
        for &key in requests {
            match self.0.get(key) {
                Some(found) => hits += u64::from(std::hint::black_box(found) == value(key)),
                None => _ = self.0.insert(key, value(key)),
            }
        }
        hits
    }
}

/// A cache for one thread, which the lock is for: it is taken once in a replay.
struct ForOne<C> {
    cache: Mutex<C>,
    /// Whether a key was there; it is then.
    ask: fn(&mut C, u64) -> bool,
}

impl<C: Send> Replays for ForOne<C> {
    fn replay(&self, requests: &[u64]) -> u64 {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|&key| u64::from((self.ask)(&mut cache, key))).sum()
    }
}

impl Replays for Inline<u64, u64> {
    fn replay(&self, requests: &[u64]) -> u64 {
        let mut missed = 0;
        for &key in requests {
            std::hint::black_box(self.get_or_insert_with(key, || {
                missed += 1;
                value(key)
            }));
        }
        requests.len() as u64 - missed
    }
}

impl Replays for Library<u64, u64> {
    fn replay(&self, requests: &[u64]) -> u64 {
        let mut hits = 0;
        for &key in requests {
            match self.get(&key) {
                Some(found) => hits += u64::from(std::hint::black_box(found) == value(key)),
                None => _ = self.insert(key, value(key)),
            }
        }
        hits
    }
}

fn here<R: Replays + 'static>(name: impl Into<String>, build: impl Fn(usize) -> R + 'static) -> Contestant {
    Contestant { name: name.into(), how: How::Here(Box::new(move |capacity| Box::new(build(capacity)))) }
}

fn of_thesis<C: Cache + 'static>(name: impl Into<String>, build: impl Fn(usize) -> C + 'static) -> Contestant {
    here(name, move |capacity| OfThesis(build(capacity)))
}

fn for_one<C: Send + 'static>(name: &str, build: fn(usize) -> C, ask: fn(&mut C, u64) -> bool) -> Contestant {
    here(name, move |capacity| ForOne { cache: Mutex::new(build(capacity)), ask })
}

/// The thesis' three settings of pull and purge.
pub const SETTINGS: [Thresholds; 3] = [
    Thresholds { pull: 0.001, purge: 0.1 },
    Thresholds { pull: 0.1, purge: 0.7 },
    Thresholds { pull: 0.99, purge: 0.99 },
];

/// As the thesis writes them: `.1|.7`.
pub fn shown(thresholds: Thresholds) -> String {
    let Thresholds { pull, purge } = thresholds;
    format!("{pull}|{purge}").replace("0.", ".")
}

/// DeferredLRU as written.
pub fn deferred(thresholds: Thresholds) -> Contestant {
    of_thesis(format!("DLRU {}", shown(thresholds)), move |capacity| DeferredLru::new(capacity, thresholds))
}

/// LRU with one lock.
pub fn lru() -> Contestant {
    of_thesis("LRU", LruMutex::new)
}

/// HHVM's, of many parts.
pub fn hhvm() -> Contestant {
    of_thesis("HHVM", |capacity| Binned::new(capacity, Hhvm::new))
}

/// The thesis' caches of one part.
pub fn singular() -> Vec<Contestant> {
    let mut all: Vec<Contestant> = SETTINGS.map(deferred).into();
    all.extend([lru(), of_thesis("conLRU", FineLru::new), Contestant { name: "TBB".into(), how: How::Tbb }]);
    all
}

/// The thesis' caches of many parts.
pub fn binned() -> Vec<Contestant> {
    let deferred = |thresholds| {
        let new = move |capacity| Binned::new(capacity, |share| DeferredLru::new(share, thresholds));
        of_thesis(format!("B-DLRU {}", shown(thresholds)), new)
    };
    let mut all: Vec<Contestant> = SETTINGS.map(deferred).into();
    all.push(of_thesis("B-LRU", |capacity| Binned::new(capacity, LruMutex::new)));
    all.push(of_thesis("B-conLRU", |capacity| Binned::new(capacity, FineLru::new)));
    all.push(hhvm());
    all
}

/// The library's.
pub fn ours() -> Vec<Contestant> {
    let inline = |capacity| Inline::<u64, u64>::new(capacity).expect("there is memory for it");
    let mut all = vec![here("forebay Inline", inline), here("forebay Cache", Library::<u64, u64>::new)];
    all.extend(SETTINGS.map(|thresholds| {
        let Thresholds { pull, purge } = thresholds;
        let policy = format!("deferred-lru:pull={pull},purge={purge}");
        here(format!("forebay Cache, {}", shown(thresholds)), move |capacity| {
            let builder = Library::<u64, u64>::builder().capacity(capacity).policy(&policy);
            builder.expect("a policy of the table").build()
        })
    }));
    all
}

/// For one thread: DeferredLRU without its locks, with them, and other caches.
pub fn sequential() -> Vec<Contestant> {
    let mut all = Vec::new();
    for thresholds in SETTINGS {
        let name = format!("sequential DLRU {}", shown(thresholds));
        let build = move |capacity| ForOne {
            cache: Mutex::new(SequentialDeferredLru::new(capacity, thresholds)),
            ask: |cache: &mut SequentialDeferredLru, key| {
                let found = cache.get(key).is_some();
                found || {
                    cache.insert(key, value(key));
                    false
                }
            },
        };
        all.push(here(name, build));
    }
    all.push(for_one("sequential LRU", Lru::new, |cache, key| {
        let found = cache.get(key).is_some();
        found || {
            cache.insert(key, value(key));
            false
        }
    }));
    all.push(for_one(
        "hashlink",
        |capacity| hashlink::LruCache::with_hasher(capacity, Fast::default()),
        |cache, key| {
            let found = cache.get(&key).is_some();
            found || cache.insert(key, value(key)).is_some()
        },
    ));
    let lru = |capacity: usize| {
        let capacity = std::num::NonZero::new(capacity).expect("a capacity above 0");
        lru::LruCache::with_hasher(capacity, Fast::default())
    };
    all.push(for_one("lru", lru, |cache, key| {
        let found = cache.get(&key).is_some();
        found || cache.put(key, value(key)).is_some()
    }));
    all.push(for_one("quick_cache unsync", quick_cache::unsync::Cache::<u64, u64>::new, |cache, key| {
        let found = cache.get(&key).is_some();
        found || {
            cache.insert(key, value(key));
            false
        }
    }));
    all.extend(ours().into_iter().take(2));
    all
}
