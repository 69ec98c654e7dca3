//! What the server tells caches in applications of its documents beside what they hold: how often others write them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use forebay::cache::{Cache, Changed};
use forebay::key::KeyRef;
use forebay::lease::WriteRates;
use forebay::runtime::Runtime;
use smallvec::SmallVec;

/// Parts with a lock each.
const SHARDS: usize = 16;

/// Counts writes from the first LEASE GET on; before that they cost one look at a flag.
pub struct Leases {
    counts: Arc<AtomicBool>,
    shards: [Mutex<WriteRates>; SHARDS],
    clients: Clients,
    runtime: Runtime,
    cache: Cache,
}

/// As whom the writes of connections count that are one client's.
#[derive(Default)]
struct Clients {
    any: AtomicBool,
    by_connection: RwLock<HashMap<u32, u32>>,
}

impl Clients {
    /// The writer that a connection's writes count for: itself, unless it has said whose it is.
    fn writer(&self, connection: u32) -> u32 {
        if !self.any.load(Ordering::Relaxed) {
            return connection;
        }
        let by_connection = self.by_connection.read().unwrap_or_else(PoisonError::into_inner);
        by_connection.get(&connection).copied().unwrap_or(connection)
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<u32, u32>)) {
        let mut by_connection = self.by_connection.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut by_connection);
        self.any.store(!by_connection.is_empty(), Ordering::Relaxed);
    }
}

impl Leases {
    /// At most `documents_max` documents are told apart.
    pub fn new(documents_max: usize, runtime: Runtime, cache: Cache) -> Leases {
        let of_shard = documents_max.div_ceil(SHARDS);
        let shards = std::array::from_fn(|_| Mutex::new(WriteRates::new(of_shard, 0.0)));
        Leases { counts: Arc::default(), shards, clients: Clients::default(), runtime, cache }
    }

    /// The connection is one of those of the client `id`. Where two ids share a writer, each one's writes are taken for
    /// the other's own: leases are too long then, and wrong they never are.
    pub fn join(&self, connection: u32, id: u128) {
        // Connections are counted from 1.
        let writer = (id ^ id >> 32 ^ id >> 64 ^ id >> 96) as u32 | 1 << 31;
        self.clients.change(|by_connection| {
            by_connection.insert(connection, writer);
        });
    }

    /// The connection has ended, or says no more whose it is.
    pub fn leave(&self, connection: u32) {
        if self.clients.any.load(Ordering::Relaxed) {
            self.clients.change(|by_connection| {
                by_connection.remove(&connection);
            });
        }
    }

    fn now_s(&self) -> f64 {
        self.runtime.elapsed().as_secs_f64()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, WriteRates> {
        let at = (hash >> 32) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether writes are counted: a flag that can be kept without keeping the leases.
    pub fn counts(&self) -> Arc<AtomicBool> {
        self.counts.clone()
    }

    /// A document may have been written.
    pub fn changed(&self, changed: Changed<'_>) {
        let Changed::Key(key, by) = changed else { return };
        if !self.counts.load(Ordering::Relaxed) {
            return;
        }
        let (hash, now_s, by) = (key.borrow().hash64(), self.now_s(), self.clients.writer(by));
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

    /// How often others than the client of `connection` write each of `keys`, per second.
    pub fn rates<'k>(&self, keys: impl Iterator<Item = KeyRef<'k>>, connection: u32) -> SmallVec<[f64; 4]> {
        let (now_s, client) = (self.now_s(), self.clients.writer(connection));
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
