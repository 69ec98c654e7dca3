//! LRU, for one thread, and with one lock about all (thesis, section 3.1).

use std::sync::Mutex;

use crate::plain::Nodes;
use crate::sync::lock;
use crate::{Cache, NONE, TAIL};

/// Least recently used, for one thread.
pub struct Lru {
    nodes: Nodes,
}

impl Lru {
    /// A cache of at most so many pairs.
    pub fn new(capacity: usize) -> Lru {
        Lru { nodes: Nodes::new(capacity) }
    }

    /// The value of `key`, which becomes the newest.
    pub fn get(&mut self, key: u64) -> Option<u64> {
        let node = self.nodes.find(key)?;
        if self.nodes.get(node).prev != NONE {
            self.nodes.take_out(node);
            self.nodes.put_first(node);
        }
        Some(self.nodes.get(node).value)
    }

    /// As [`Cache::insert`].
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        if self.nodes.find(key).is_some() {
            return false;
        }
        let node = self.nodes.take().or_else(|| {
            let oldest = self.nodes.get(TAIL).prev;
            if oldest == NONE {
                return None;
            }
            self.nodes.evict(oldest);
            self.nodes.take()
        });
        node.map(|node| self.nodes.insert(node, key, value)).is_some()
    }

    /// All pairs, the newest first.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.nodes.pairs()
    }
}

/// LRU and a lock.
pub struct LruMutex(Mutex<Lru>);

impl LruMutex {
    /// A cache of at most so many pairs.
    pub fn new(capacity: usize) -> LruMutex {
        LruMutex(Mutex::new(Lru::new(capacity)))
    }
}

impl Cache for LruMutex {
    fn get(&self, key: u64) -> Option<u64> {
        lock(&self.0).get(key)
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        lock(&self.0).insert(key, value)
    }

    fn check(&self) -> Result<Vec<(u64, u64)>, String> {
        Ok(lock(&self.0).pairs())
    }
}
