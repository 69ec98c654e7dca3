//! The peers, each as its documentation says that it is used.

use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

use forebay_bench_engine::zipf::scattered;

use crate::Runner;
use crate::alike::Alike;
use crate::latency;
use crate::memory::allocated;
use crate::sharing::{self, Beside};
use crate::work::{Mode, Work, value};

/// The hasher of those that take one: what hashbrown uses.
type Fast = hashbrown::DefaultHashBuilder;

/// A cache of numbers.
pub trait Peer: Sync + Sized + 'static {
    /// It forgets nothing: it is asked for hits alone.
    const FORGETS: bool = true;
    /// It is asked to remove: what shrinking costs is measured of ours alone.
    const REMOVES: bool = false;

    fn new(capacity: usize) -> Self;
    fn get(&self, key: u64) -> Option<u64>;
    fn put(&self, key: u64, value: u64);
    fn len(&self) -> usize;

    fn remove(&self, _: u64) {}

    /// After many inserts.
    fn settle(&self) {}

    /// For a peer that can't be written to while it is read.
    fn fill(keys: &[u64], capacity: usize) -> Self {
        let peer = Self::new(capacity);
        keys.iter().for_each(|&key| peer.put(key, value(key)));
        peer.settle();
        peer
    }

    /// Whether it was a hit.
    fn get_or_insert(&self, key: u64) -> bool {
        match self.get(key) {
            Some(value) => {
                std::hint::black_box(value);
                true
            }
            None => {
                self.put(key, value(key));
                false
            }
        }
    }
}

/// A peer by name.
pub struct Contestant {
    pub name: &'static str,
    pub build: fn(&Work) -> Option<Box<dyn Runner>>,
    /// Entries and bytes after 1,000,000 inserts into a capacity of as many.
    pub memory: fn() -> (usize, usize),
    /// Million hits per second of one thread beside another one, for each of `sharing::ALL` that it can do.
    pub sharing: fn(usize) -> Vec<f64>,
    /// What it costs to grow to so many entries, by so many threads.
    pub growth: fn(usize, usize) -> latency::Growth,
}

const fn contestant<P: Peer>(name: &'static str) -> Contestant {
    Contestant { name, build: build::<P>, memory: memory::<P>, sharing: sharing::<P>, growth: latency::growth::<P> }
}

/// Nothing: what looks at the clock cost.
pub const CLOCK: Contestant = contestant::<Nothing>("clock");

/// What is measured while it grows, beside others if they are named.
pub const GROWING: [Contestant; 2] =
    [CLOCK, contestant::<forebay_cache::Cache<u64, u64, Alike>>("forebay-cache, alike")];

/// The first is what the others are compared with.
pub const CONTESTANTS: &[Contestant] = &[
    contestant::<Bare>("hashbrown"),
    contestant::<forebay_cache::Inline<u64, u64>>("forebay"),
    contestant::<forebay_cache::Cache<u64, u64>>("forebay-cache"),
    contestant::<dashmap::DashMap<u64, u64, Fast>>("dashmap"),
    contestant::<quick_cache::sync::Cache<u64, u64>>("quick_cache"),
    contestant::<scc::HashCache<u64, u64, Fast>>("scc"),
    contestant::<Mutex<hashlink::LruCache<u64, u64, Fast>>>("hashlink-mutex"),
    contestant::<Mutex<lru::LruCache<u64, u64, Fast>>>("lru-mutex"),
    contestant::<moka::sync::Cache<u64, u64, Fast>>("moka"),
    contestant::<mini_moka::sync::Cache<u64, u64, Fast>>("mini-moka"),
    contestant::<tinyufo::TinyUfo<u64, u64>>("tinyufo"),
    contestant::<sieve_cache::ShardedSieveCache<u64, u64>>("sieve-cache"),
    contestant::<stretto::Cache<u64, u64>>("stretto"),
    contestant::<foyer_memory::Cache<u64, u64>>("foyer"),
    contestant::<Omega>("omega-cache"),
];

fn build<P: Peer>(work: &Work) -> Option<Box<dyn Runner>> {
    match work.mode {
        Mode::Hit => {
            let peer = P::fill(&work.warm, work.capacity);
            // Marked by hits, as all of them are after a while.
            for _ in 0..2 {
                work.warm.iter().for_each(|&key| _ = std::hint::black_box(peer.get(key)));
            }
            Some(Box::new(peer))
        }
        _ if !P::FORGETS => None,
        _ => {
            let peer = P::new(work.capacity);
            work.warm.iter().for_each(|&key| _ = peer.get_or_insert(key));
            peer.settle();
            Some(Box::new(peer))
        }
    }
}

fn sharing<P: Peer>(requests: usize) -> Vec<f64> {
    let reads = [Beside::Computes, Beside::HitsTheSame];
    let beside = sharing::ALL.into_iter().filter(|beside| P::FORGETS || reads.contains(beside));
    beside.map(|beside| sharing::rate(&sharing::ready::<P>(), beside, requests)).collect()
}

fn memory<P: Peer>() -> (usize, usize) {
    const COUNT: usize = 1_000_000;
    let keys: Vec<u64> = (0..COUNT as u64).map(scattered).collect();
    let (peer, bytes) = allocated(|| P::fill(&keys, COUNT));
    (peer.len(), bytes)
}

/// See [`CLOCK`].
pub struct Nothing;

impl Peer for Nothing {
    fn new(_: usize) -> Nothing {
        Nothing
    }

    #[inline]
    fn get(&self, _: u64) -> Option<u64> {
        None
    }

    fn put(&self, _: u64, _: u64) {}

    fn len(&self) -> usize {
        0
    }
}

/// Read by all threads, written by none: the limit.
pub struct Bare(hashbrown::HashMap<u64, u64>);

impl Peer for Bare {
    const FORGETS: bool = false;

    fn new(capacity: usize) -> Bare {
        Bare(hashbrown::HashMap::with_capacity(capacity))
    }

    fn fill(keys: &[u64], capacity: usize) -> Bare {
        let mut bare = Bare::new(capacity);
        bare.0.extend(keys.iter().map(|&key| (key, value(key))));
        bare
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).copied()
    }

    fn put(&self, _: u64, _: u64) {}

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Peer for forebay_cache::Inline<u64, u64> {
    fn new(capacity: usize) -> Self {
        forebay_cache::Inline::new(capacity).expect("there is memory for it")
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline]
    fn get_or_insert(&self, key: u64) -> bool {
        let mut hit = true;
        std::hint::black_box(self.get_or_insert_with(key, || {
            hit = false;
            value(key)
        }));
        hit
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for forebay_cache::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        forebay_cache::Cache::new(capacity)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for dashmap::DashMap<u64, u64, Fast> {
    const FORGETS: bool = false;

    fn new(capacity: usize) -> Self {
        dashmap::DashMap::with_capacity_and_hasher(capacity, Fast::default())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|value| *value)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for quick_cache::sync::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        quick_cache::sync::Cache::new(capacity)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for scc::HashCache<u64, u64, Fast> {
    fn new(capacity: usize) -> Self {
        scc::HashCache::with_capacity_and_hasher(0, capacity, Fast::default())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get_sync(&key).map(|entry| *entry.get())
    }

    fn put(&self, key: u64, value: u64) {
        let _ = self.put_sync(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl<H: BuildHasher + Default + Send + 'static> Peer for Mutex<hashlink::LruCache<u64, u64, H>> {
    fn new(capacity: usize) -> Self {
        Mutex::new(hashlink::LruCache::with_hasher(capacity, H::default()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    fn put(&self, key: u64, value: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    fn len(&self) -> usize {
        self.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl<H: BuildHasher + Default + Send + 'static> Peer for Mutex<lru::LruCache<u64, u64, H>> {
    fn new(capacity: usize) -> Self {
        let capacity = std::num::NonZero::new(capacity).expect("a capacity above 0");
        Mutex::new(lru::LruCache::with_hasher(capacity, H::default()))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    fn put(&self, key: u64, value: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).put(key, value);
    }

    fn len(&self) -> usize {
        self.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Peer for moka::sync::Cache<u64, u64, Fast> {
    fn new(capacity: usize) -> Self {
        moka::sync::Cache::builder().max_capacity(capacity as u64).build_with_hasher(Fast::default())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }

    fn len(&self) -> usize {
        self.entry_count() as usize
    }
}

impl Peer for mini_moka::sync::Cache<u64, u64, Fast> {
    fn new(capacity: usize) -> Self {
        mini_moka::sync::Cache::builder().max_capacity(capacity as u64).build_with_hasher(Fast::default())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn settle(&self) {
        mini_moka::sync::ConcurrentCacheExt::sync(self);
    }

    fn len(&self) -> usize {
        self.entry_count() as usize
    }
}

impl Peer for tinyufo::TinyUfo<u64, u64> {
    fn new(capacity: usize) -> Self {
        tinyufo::TinyUfo::new(capacity, capacity)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.put(key, value, 1);
    }

    /// It does not say.
    fn len(&self) -> usize {
        1_000_000
    }
}

impl Peer for sieve_cache::ShardedSieveCache<u64, u64> {
    fn new(capacity: usize) -> Self {
        sieve_cache::ShardedSieveCache::new(capacity).expect("a capacity above 0")
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for stretto::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        stretto::Cache::builder(capacity * 10, capacity as i64)
            .set_ignore_internal_cost(true)
            .finalize()
            .expect("it starts its threads")
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|value| *value.value())
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value, 1);
    }

    fn settle(&self) {
        let _ = self.wait();
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Peer for foyer_memory::Cache<u64, u64> {
    fn new(capacity: usize) -> Self {
        let order = foyer_memory::EvictionConfig::S3Fifo(foyer_memory::S3FifoConfig::default());
        foyer_memory::CacheBuilder::new(capacity).with_shards(8).with_eviction_config(order).build()
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn len(&self) -> usize {
        self.entries()
    }
}

type Omega = omega_cache::Cache<omega_cache::s3fifo::S3FIFOCache<u64, u64>, u64, u64>;

impl Peer for Omega {
    fn new(capacity: usize) -> Self {
        let metrics = omega_cache::metrics::MetricsConfig::new(16, 1024);
        let engine = omega_cache::s3fifo::S3FIFOCache::new(capacity, metrics);
        omega_cache::Cache::new(engine, omega_cache::core::backoff::BackoffConfig::exponential(10))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }

    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    /// It does not say.
    fn len(&self) -> usize {
        1_000_000
    }
}
