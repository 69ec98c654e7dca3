//! What the server tells caches in applications of its documents beside what they hold: how often others write them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::cache::{Cache, Changed};
use forebay::key::KeyRef;
use forebay::lease::WriteRates;
use forebay::runtime::Runtime;
use smallvec::SmallVec;

/// Parts with a lock each.
const SHARDS: usize = 16;

/// Counts writes from the first LEASE GET on; before that they cost one look at a flag.
pub struct Leases {
    counts: AtomicBool,
    shards: [Mutex<WriteRates>; SHARDS],
    runtime: Runtime,
    cache: Cache,
}

impl Leases {
    /// At most `documents_max` documents are told apart.
    pub fn new(documents_max: usize, runtime: Runtime, cache: Cache) -> Leases {
        let of_shard = documents_max.div_ceil(SHARDS);
        let shards = std::array::from_fn(|_| Mutex::new(WriteRates::new(of_shard, 0.0)));
        Leases { counts: AtomicBool::new(false), shards, runtime, cache }
    }

    fn now_s(&self) -> f64 {
        self.runtime.elapsed().as_secs_f64()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, WriteRates> {
        let at = (hash >> 32) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A document may have been written.
    pub fn changed(&self, changed: Changed<'_>) {
        let Changed::Key(key, by) = changed else { return };
        if !self.counts.load(Ordering::Relaxed) {
            return;
        }
        let (hash, now_s) = (key.borrow().hash64(), self.now_s());
        let (before, after) = {
            let mut rates = self.shard(hash);
            let before = rates.len();
            rates.write(hash, by, now_s);
            (before, rates.len())
        };
        if after > before {
            self.cache.lend(WriteRates::ENTRY_BYTES);
        }
    }

    /// How often others than `client` write each of `keys`, per second.
    pub fn rates<'k>(&self, keys: impl Iterator<Item = KeyRef<'k>>, client: u32) -> SmallVec<[f64; 4]> {
        let now_s = self.now_s();
        if !self.counts.load(Ordering::Relaxed) {
            for shard in &self.shards {
                let mut rates = shard.lock().unwrap_or_else(PoisonError::into_inner);
                rates.begin(now_s);
            }
            self.counts.store(true, Ordering::Relaxed);
        }
        let mut rates = SmallVec::new();
        for hash in keys.map(|key| key.hash64()) {
            rates.push(self.shard(hash).rate(hash, client, now_s));
        }
        rates
    }
}
