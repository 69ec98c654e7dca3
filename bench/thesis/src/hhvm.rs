//! The cache of HHVM (thesis, section 3.4, algorithms 7 and 8): a lock for each chain, one lock for the list.
//!
//! A hit moves its node only if the lock of the list is free. HHVM binds many of these together, see [`Binned`].
//!
//! Two things are HHVM's, which the thesis leaves out. A hit holds its chain while it moves the node, so the node is
//! still its key's. And where threads have put in more than there is room for, each insertion that sees it evicts one
//! more. So there may be one pair above the capacity for each thread inside an insertion.
//!
//! HHVM allocates nodes; here there are [`THREADS_MAX`] more than pairs. An insertion that finds none is refused.
//!
//! [`Binned`]: crate::Binned

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use crate::sync::{lock, try_lock};
use crate::table::Table;
use crate::{Cache, NONE, Number, TAIL};

/// The head of the list.
const HEAD: Number = NONE;

/// In `prev`: not in the list.
const UNLISTED: Number = u32::MAX;

/// Threads inside an insertion, at most.
const THREADS_MAX: usize = 64;

struct Links {
    next: AtomicU32,
    prev: AtomicU32,
}

impl Default for Links {
    fn default() -> Links {
        Links { next: AtomicU32::new(NONE), prev: AtomicU32::new(UNLISTED) }
    }
}

/// See the module.
pub struct Hhvm {
    table: Table<Links>,
    capacity: usize,
    /// As HHVM counts: without those whose insertion evicts another.
    count: AtomicUsize,
    /// Whose holder may read and write all `Links`.
    list: Mutex<()>,
}

impl Hhvm {
    /// A cache of at most so many pairs, and one for each thread that inserts.
    pub fn new(capacity: usize) -> Hhvm {
        let cache = Hhvm {
            table: Table::new(capacity + THREADS_MAX),
            capacity,
            count: AtomicUsize::new(0),
            list: Mutex::new(()),
        };
        cache.join(HEAD, TAIL);
        cache
    }

    fn links(&self, node: Number) -> &Links {
        self.table.links(node)
    }

    fn join(&self, before: Number, after: Number) {
        self.links(before).next.store(after, Relaxed);
        self.links(after).prev.store(before, Relaxed);
    }

    fn is_listed(&self, node: Number) -> bool {
        self.links(node).prev.load(Relaxed) != UNLISTED
    }

    fn put_first(&self, node: Number, _held: &MutexGuard<'_, ()>) {
        let first = self.links(HEAD).next.load(Relaxed);
        self.join(HEAD, node);
        self.join(node, first);
    }

    fn take_out(&self, node: Number, _held: &MutexGuard<'_, ()>) {
        let links = self.links(node);
        self.join(links.prev.load(Relaxed), links.next.load(Relaxed));
        links.prev.store(UNLISTED, Relaxed);
    }

    /// False: the list is empty.
    fn evict(&self) -> bool {
        let held = lock(&self.list);
        let node = self.links(TAIL).prev.load(Relaxed);
        if node == HEAD {
            return false;
        }
        self.take_out(node, &held);
        drop(held);
        // What was in the list is in a chain, and only who took it out of the list takes it out of there.
        let removed = self.table.chain(self.table.key(node)).remove(node);
        debug_assert!(removed);
        self.table.give_back(node);
        true
    }
}

impl Cache for Hhvm {
    /// Algorithm 7.
    fn get(&self, key: u64) -> Option<u64> {
        let chain = self.table.chain(key);
        let node = chain.find()?;
        if let Some(held) = try_lock(&self.list)
            && self.is_listed(node)
        {
            self.take_out(node, &held);
            self.put_first(node, &held);
        }
        Some(self.table.value(node))
    }

    /// Algorithm 8.
    fn insert(&self, key: u64, value: u64) -> bool {
        if self.capacity == 0 {
            return false;
        }
        let Some(node) = self.table.take() else { return false };
        self.table.set(node, key, value);
        {
            let mut chain = self.table.chain(key);
            if chain.find().is_some() {
                drop(chain);
                self.table.give_back(node);
                return false;
            }
            chain.push(node);
        }
        let makes_room = self.count.load(Acquire) >= self.capacity;
        if makes_room {
            self.evict();
        }
        let held = lock(&self.list);
        self.put_first(node, &held);
        drop(held);
        let count = if makes_room { self.count.load(Acquire) } else { self.count.fetch_add(1, AcqRel) + 1 };
        let is_over = count > self.capacity;
        if is_over && self.count.compare_exchange(count, count - 1, AcqRel, Relaxed).is_ok() {
            self.evict();
        }
        true
    }

    fn check(&self) -> Result<Vec<(u64, u64)>, String> {
        let mut listed = Vec::new();
        let (mut before, mut node) = (HEAD, self.links(HEAD).next.load(Acquire));
        while node != TAIL {
            if self.links(node).prev.load(Acquire) != before {
                return Err(format!("node {node} is not after {before} from behind"));
            }
            listed.push(node);
            if listed.len() > self.capacity + THREADS_MAX {
                return Err("the list does not end, or is too long".into());
            }
            (before, node) = (node, self.links(node).next.load(Acquire));
        }
        let pairs = listed.iter().map(|&node| (self.table.key(node), self.table.value(node))).collect();
        let mut chained = self.table.chained()?;
        listed.sort_unstable();
        chained.sort_unstable();
        if listed != chained {
            return Err(format!("{} nodes are listed, {} in chains", listed.len(), chained.len()));
        }
        match listed.len() + self.table.pooled()? == self.capacity + THREADS_MAX {
            true => Ok(pairs),
            false => Err("a node is lost".into()),
        }
    }
}
