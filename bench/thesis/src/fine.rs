//! ConcurrentLRU (thesis, section 3.2): a lock for each chain and one for each node's place in the list.
//!
//! A node is put into the list first and into its chain then, and leaves in that order. So a node may be met halfway:
//!
//! - An eviction that has taken a node out of the list may find it in no chain yet. It leaves word under the lock of
//!   the chain, and the insertion gives up ([`Side::Evicted`]).
//! - An insertion whose key is there already takes its node back. An eviction, or a hit that is moving the node, may
//!   have taken it out of the list. Then the insertion leaves word, and the eviction that meets the node takes it
//!   ([`Side::Abandoned`]).
//! - A hit moves a node after it has let the chain go. The node may have another pair by then, which is moved in its
//!   place. A node that is not in the list is not moved.
//!
//! Locks of places are taken from the head to the tail, so there is no circle of threads that wait. The thesis keeps
//! the lock in a word with the flags, and spins; here each is a lock of the standard library, of four bytes.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock;
use crate::table::Table;
use crate::{Cache, NONE, Number, TAIL};

/// The head of the list.
const HEAD: Number = NONE;

/// What an insertion and an eviction that meet at a node have told each other, under the lock of its chain.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Side {
    Neither,
    Evicted,
    Abandoned,
}

/// A node's place in the list.
#[derive(Default)]
struct Place {
    listed: bool,
    next: Number,
}

#[derive(Default)]
struct Links {
    place: Mutex<Place>,
    /// Written under the lock of the node that it names. Read without one, it is a guess.
    prev: AtomicU32,
    side: AtomicU8,
}

/// See the module.
pub struct FineLru {
    table: Table<Links>,
    capacity: usize,
}

impl FineLru {
    /// A cache of at most so many pairs.
    pub fn new(capacity: usize) -> FineLru {
        let cache = FineLru { table: Table::new(capacity), capacity };
        *cache.place(HEAD) = Place { listed: true, next: TAIL };
        cache.links(TAIL).prev.store(HEAD, Release);
        cache
    }

    fn links(&self, node: Number) -> &Links {
        self.table.links(node)
    }

    fn place(&self, node: Number) -> MutexGuard<'_, Place> {
        lock(&self.links(node).place)
    }

    /// Puts a node that is not in the list after the head.
    fn put_first(&self, node: Number) {
        let mut head = self.place(HEAD);
        let mut own = self.place(node);
        *own = Place { listed: true, next: head.next };
        self.links(node).prev.store(HEAD, Release);
        self.links(head.next).prev.store(node, Release);
        head.next = node;
    }

    /// Takes a node out of the list. False: it is not there.
    fn take_out(&self, node: Number) -> bool {
        loop {
            let prev = self.links(node).prev.load(Acquire);
            let mut before = self.place(prev);
            if !before.listed || before.next != node {
                drop(before);
                if !self.place(node).listed {
                    return false;
                }
                continue;
            }
            let mut own = self.place(node);
            // `prev` of the next one is written under the lock of this one, and from now on under that of `prev`.
            self.links(own.next).prev.store(prev, Release);
            before.next = own.next;
            own.listed = false;
            return true;
        }
    }

    /// Evicts the last pair: its node, which the caller owns then. `None`: no node could be had.
    fn evict(&self) -> Option<Number> {
        loop {
            let node = self.links(TAIL).prev.load(Acquire);
            if node == HEAD {
                return None;
            }
            if !self.take_out(node) {
                continue;
            }
            let mut chain = self.table.chain(self.table.key(node));
            let side = &self.links(node).side;
            if chain.remove(node) || side.load(Relaxed) == Side::Abandoned as u8 {
                return Some(node);
            }
            side.store(Side::Evicted as u8, Relaxed);
        }
    }

    fn acquire(&self) -> Option<Number> {
        if self.capacity == 0 {
            return None;
        }
        loop {
            // All are with other threads, if neither has one: those give theirs back, or put them in.
            if let Some(node) = self.table.take().or_else(|| self.evict()) {
                return Some(node);
            }
            std::thread::yield_now();
        }
    }
}

impl Cache for FineLru {
    fn get(&self, key: u64) -> Option<u64> {
        let chain = self.table.chain(key);
        let node = chain.find()?;
        let value = self.table.value(node);
        drop(chain);
        let is_first = self.links(node).prev.load(Acquire) == HEAD;
        if !is_first && self.take_out(node) {
            self.put_first(node);
        }
        Some(value)
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        let Some(node) = self.acquire() else { return false };
        self.table.set(node, key, value);
        let side = &self.links(node).side;
        side.store(Side::Neither as u8, Relaxed);
        self.put_first(node);
        let mut chain = self.table.chain(key);
        let was_evicted = side.load(Relaxed) == Side::Evicted as u8;
        if !was_evicted && chain.find().is_none() {
            chain.push(node);
            return true;
        }
        drop(chain);
        if was_evicted || self.take_out(node) {
            self.table.give_back(node);
            return false;
        }
        let chain = self.table.chain(key);
        let was_evicted = side.load(Relaxed) == Side::Evicted as u8;
        if !was_evicted {
            side.store(Side::Abandoned as u8, Relaxed);
        }
        drop(chain);
        if was_evicted {
            self.table.give_back(node);
        }
        false
    }

    fn check(&self) -> Result<Vec<(u64, u64)>, String> {
        let mut listed = Vec::new();
        let (mut before, mut node, mut abandoned) = (HEAD, self.place(HEAD).next, 0);
        while node != TAIL {
            if self.links(node).prev.load(Acquire) != before || !self.place(node).listed {
                return Err(format!("node {node} is not after {before} from behind"));
            }
            match self.links(node).side.load(Acquire) == Side::Abandoned as u8 {
                true => abandoned += 1,
                false => listed.push(node),
            }
            if listed.len() + abandoned > self.capacity {
                return Err("the list does not end".into());
            }
            (before, node) = (node, self.place(node).next);
        }
        let pairs = listed.iter().map(|&node| (self.table.key(node), self.table.value(node))).collect();
        let mut chained = self.table.chained()?;
        listed.sort_unstable();
        chained.sort_unstable();
        if listed != chained {
            return Err(format!("{} nodes are listed, {} in chains", listed.len(), chained.len()));
        }
        match listed.len() + abandoned + self.table.pooled()? == self.capacity {
            true => Ok(pairs),
            false => Err("a node is lost".into()),
        }
    }
}
