//! Nodes in chains with a lock for each chain (thesis, section 2.3.1.1), and the pool of those in no chain (4.1.4).
//!
//! A node is in the pool, or in the chain of its key, or owned. A thread owns it that has taken it out of one and has
//! not put it into the other. Its key and value are written only while it is owned. They are read under the lock of
//! its chain, which the owner takes after it wrote them. What a thread reads of a node without that lock may be of the
//! node's next pair, and must be borne.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock;
use crate::{FIRST, NONE, Number, Padded, chains, hash};

struct Node<L> {
    key: AtomicU64,
    value: AtomicU64,
    /// The next one in its chain, or in the pool.
    next: AtomicU32,
    links: L,
}

/// See the module. `L` is what a cache keeps beside each pair.
pub struct Table<L> {
    nodes: Box<[Node<L>]>,
    chains: Box<[Mutex<Number>]>,
    /// The pool's first node, and a count of changes: a pop whose next node is stale fails by it. (The thesis' program
    /// has no such count, and an ABA window.)
    pool: Padded<AtomicU64>,
}

impl<L: Default> Table<L> {
    /// A table of so many nodes, all in the pool.
    pub fn new(nodes: usize) -> Table<L> {
        let node = |_| Node {
            key: AtomicU64::new(0),
            value: AtomicU64::new(0),
            next: AtomicU32::new(NONE),
            links: L::default(),
        };
        let table = Table {
            nodes: (0..nodes + FIRST as usize).map(node).collect(),
            chains: (0..chains(nodes)).map(|_| Mutex::new(NONE)).collect(),
            pool: Padded(AtomicU64::new(0)),
        };
        (FIRST..FIRST + nodes as u32).rev().for_each(|node| table.give_back(node));
        table
    }
}

impl<L> Table<L> {
    fn node(&self, node: Number) -> &Node<L> {
        &self.nodes[node as usize]
    }

    pub fn links(&self, node: Number) -> &L {
        &self.node(node).links
    }

    /// Of a node that the caller owns, or whose chain it has locked.
    pub fn key(&self, node: Number) -> u64 {
        self.node(node).key.load(Relaxed)
    }

    /// As [`key`](Table::key).
    pub fn value(&self, node: Number) -> u64 {
        self.node(node).value.load(Relaxed)
    }

    /// A node of the pool, which the caller owns then.
    pub fn take(&self) -> Option<Number> {
        let mut head = self.pool.0.load(Acquire);
        loop {
            let node = head as u32;
            if node == NONE {
                return None;
            }
            let next = u64::from(self.node(node).next.load(Relaxed));
            match self.pool.0.compare_exchange_weak(head, Self::changed(head) | next, AcqRel, Acquire) {
                Ok(_) => return Some(node),
                Err(other) => head = other,
            }
        }
    }

    /// A node that the caller owned goes into the pool.
    pub fn give_back(&self, node: Number) {
        let mut head = self.pool.0.load(Relaxed);
        loop {
            self.node(node).next.store(head as u32, Relaxed);
            match self.pool.0.compare_exchange_weak(head, Self::changed(head) | u64::from(node), Release, Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }

    /// The count after that of `head`, with no node.
    fn changed(head: u64) -> u64 {
        ((head >> 32).wrapping_add(1)) << 32
    }

    /// Fills a node that the caller owns.
    pub fn set(&self, node: Number, key: u64, value: u64) {
        self.node(node).key.store(key, Relaxed);
        self.node(node).value.store(value, Relaxed);
    }

    /// The chain of a key, locked.
    pub fn chain(&self, key: u64) -> Chain<'_, L> {
        let at = hash(key) as usize & (self.chains.len() - 1);
        Chain { table: self, key, head: lock(&self.chains[at]) }
    }

    /// Nodes in the pool, while no other thread uses the table; an error if it does not end.
    pub fn pooled(&self) -> Result<usize, String> {
        let (mut node, mut count) = (self.pool.0.load(Acquire) as u32, 0);
        while node != NONE {
            count += 1;
            if count > self.nodes.len() {
                return Err("the pool goes round in a circle".into());
            }
            node = self.node(node).next.load(Relaxed);
        }
        Ok(count)
    }

    /// All nodes in chains, while no other thread uses the table; an error where one is twice or in a wrong chain.
    pub fn chained(&self) -> Result<Vec<Number>, String> {
        let mut keys = std::collections::HashSet::new();
        let mut found = Vec::new();
        for (at, chain) in self.chains.iter().enumerate() {
            let mut node = *lock(chain);
            while node != NONE {
                let key = self.key(node);
                if hash(key) as usize & (self.chains.len() - 1) != at {
                    return Err(format!("key {key} is in another's chain"));
                }
                if !keys.insert(key) {
                    return Err(format!("key {key} is there twice"));
                }
                found.push(node);
                node = self.node(node).next.load(Relaxed);
            }
        }
        Ok(found)
    }
}

/// The chain of one key, locked.
pub struct Chain<'a, L> {
    table: &'a Table<L>,
    key: u64,
    head: MutexGuard<'a, Number>,
}

impl<L> Chain<'_, L> {
    /// The node of the key.
    pub fn find(&self) -> Option<Number> {
        let mut node = *self.head;
        while node != NONE {
            if self.table.key(node) == self.key {
                return Some(node);
            }
            node = self.table.node(node).next.load(Relaxed);
        }
        None
    }

    /// Puts a node that the caller owned, and that has the chain's key, into the chain.
    pub fn push(&mut self, node: Number) {
        self.table.node(node).next.store(*self.head, Relaxed);
        *self.head = node;
    }

    /// Takes a node out; the caller owns it then. False: it is not there.
    pub fn remove(&mut self, node: Number) -> bool {
        let after = self.table.node(node).next.load(Relaxed);
        if *self.head == node {
            *self.head = after;
            return true;
        }
        let mut before = *self.head;
        while before != NONE {
            let next = self.table.node(before).next.load(Relaxed);
            if next == node {
                self.table.node(before).next.store(after, Relaxed);
                return true;
            }
            before = next;
        }
        false
    }
}
