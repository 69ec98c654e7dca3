//! Which clients have read which keys. Bounded: the key that was noted longest ago is given up for another, and told.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::cache::Cache;
use forebay::key::{Key, KeyRef};
use smallvec::SmallVec;

/// Parts with a lock each.
const SHARDS: usize = 16;

/// What a key takes beside its name, which is there twice.
const KEY_BYTES: usize = 240;

/// A client that has read a key.
#[derive(Clone, Copy)]
pub struct Reader {
    /// Its id.
    pub id: u64,
    /// It read what its own transaction had written before, and may keep that: the write is not the end of it.
    pub own: bool,
}

/// Those of a key.
pub type Noted = SmallVec<[Reader; 2]>;

pub struct Keys {
    shards: [Mutex<Shard>; SHARDS],
    /// Of each shard.
    keys_max: usize,
    bytes_max: usize,
    cache: Cache,
}

#[derive(Default)]
struct Shard {
    by_key: HashMap<Key, Entry>,
    order: BTreeMap<u64, Key>,
    next: u64,
    bytes: usize,
}

struct Entry {
    number: u64,
    clients: Noted,
}

fn bytes_of(key: &Key, clients: &Noted) -> usize {
    let spilled = if clients.spilled() { clients.capacity() * size_of::<Reader>() } else { 0 };
    KEY_BYTES + 2 * key.heap_bytes() + spilled
}

impl Shard {
    fn take(&mut self, key: &Key) -> Option<Noted> {
        let entry = self.by_key.remove(key)?;
        self.order.remove(&entry.number);
        self.bytes -= bytes_of(key, &entry.clients);
        Some(entry.clients)
    }

    fn note(&mut self, key: Key, reader: Reader) {
        if let Some(entry) = self.by_key.get_mut(&key) {
            match entry.clients.iter_mut().find(|known| known.id == reader.id) {
                Some(known) => known.own = reader.own,
                None => {
                    let before = bytes_of(&key, &entry.clients);
                    entry.clients.push(reader);
                    self.bytes += bytes_of(&key, &entry.clients) - before;
                }
            }
            return;
        }
        let number = self.next;
        self.next += 1;
        let clients = Noted::from_slice(&[reader]);
        self.bytes += bytes_of(&key, &clients);
        self.order.insert(number, key.clone());
        self.by_key.insert(key, Entry { number, clients });
    }
}

impl Keys {
    /// Nothing is noted. At most `keys_max` keys, and `bytes_max` bytes, for which `cache` makes way.
    pub fn new(keys_max: usize, bytes_max: usize, cache: Cache) -> Keys {
        let of_shard = |most: usize| most.div_ceil(SHARDS).max(1);
        let shards = std::array::from_fn(|_| Mutex::default());
        Keys { shards, keys_max: of_shard(keys_max), bytes_max: of_shard(bytes_max), cache }
    }

    fn shard(&self, key: KeyRef<'_>) -> MutexGuard<'_, Shard> {
        let at = (key.hash64() >> 32) as usize % SHARDS;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the cache makes way for follows what a shard holds.
    fn lend(&self, before: usize, after: usize) {
        if after > before {
            self.cache.lend(after - before);
        } else {
            self.cache.give_back(before - after);
        }
    }

    /// A client reads `key`; what was given up for that, with the clients to tell.
    pub fn note(&self, key: KeyRef<'_>, reader: Reader) -> Vec<(Key, Noted)> {
        let mut given_up = Vec::new();
        let (before, after) = {
            let mut shard = self.shard(key);
            let before = shard.bytes;
            shard.note(key.to_key(), reader);
            while shard.by_key.len() > self.keys_max || (shard.bytes > self.bytes_max && shard.by_key.len() > 1) {
                let Some((_, oldest)) = shard.order.pop_first() else { break };
                let Some(clients) = shard.take(&oldest) else { break };
                given_up.push((oldest, clients));
            }
            (before, shard.bytes)
        };
        self.lend(before, after);
        given_up
    }

    /// `key` has changed: the clients to tell, which are noted no more but for those that stay.
    pub fn take(&self, key: &Key, stays: impl Fn(&Reader) -> bool) -> Option<Noted> {
        let (taken, before, after) = {
            let mut shard = self.shard(key.borrow());
            let before = shard.bytes;
            let taken = shard.take(key)?;
            // A key that has just been written is part of the value's memory.
            for reader in taken.iter().filter(|reader| stays(reader)) {
                shard.note(key.compact(), Reader { own: false, ..*reader });
            }
            (taken, before, shard.bytes)
        };
        self.lend(before, after);
        Some(taken)
    }

    /// Nothing is noted any more.
    pub fn clear(&self) {
        for shard in &self.shards {
            let shard = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            self.lend(shard.bytes, 0);
        }
    }

    /// Keys, and clients noted with them.
    pub fn amounts(&self) -> (usize, usize) {
        let amounts = self.shards.iter().map(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            (shard.by_key.len(), shard.by_key.values().map(|entry| entry.clients.len()).sum::<usize>())
        });
        amounts.fold((0, 0), |sum, amount| (sum.0 + amount.0, sum.1 + amount.1))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.clear();
    }
}
