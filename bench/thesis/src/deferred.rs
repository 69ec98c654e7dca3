//! DeferredLRU (thesis, chapter 4).
//!
//! A hit notes its node in the Recent list, unless it is there. One thread at a time
//! consolidates. It moves noted nodes to the newest end (PullRecent), and evicts from the oldest end what is not noted
//! (PurgeOld).
//!
//! # Invariants
//!
//! 1. Nodes are put into the list after its head only, by compare-and-swap of the head's `next`. The last step of that
//!    writes `prev` of what was first. Whose `prev` is the head is not taken out, so nothing is written there by two.
//! 2. Only the thread that consolidates takes nodes out. A node whose insertion is under way has `noted` set and is in
//!    no Recent list, so neither PullRecent nor PurgeOld takes it out.
//! 3. `noted` is set under the lock of the node's chain, and a node is evicted under that lock only if it is not set.
//!    So no node in the Recent list is evicted.
//! 4. There are as many nodes as the capacity has pairs.
//!
//! # Departures
//!
//! - Algorithm 9 prints `recentNext != NULL` where its text needs `= NULL`.
//! - Where an insertion finds that all nodes are noted, it asks for PullRecent, then purges again. The thesis' program
//!   spins for ever there. If nothing can go even then, since the one node beside the head stays, the pair is dropped.
//! - A thread that waits for another's consolidation spins a little and then waits for its lock. The thesis' spins,
//!   which costs most of the time where threads outnumber processors.
//! - The thesis' program purges before it pulls; algorithm 12, and this, pull first.

use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::sync::{lock, try_lock};
use crate::table::Table;
use crate::{Cache, FIRST, NONE, Number, Padded, TAIL};

/// The head of the list. Its `next` is `DeferredLru::newest`.
const HEAD: Number = NONE;

/// In `noted`: not in the Recent list.
const NOT_NOTED: Number = NONE;

/// In `noted`: the end of the Recent list.
const LAST_NOTED: Number = TAIL;

/// Looks for a node before a thread waits for the lock of another's consolidation.
const SPINS_MAX: usize = 64;

/// The two parameters, each as a share of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// As many nodes in the Recent list have PullRecent called; at least one.
    pub pull: f64,
    /// As many nodes go in one PurgeOld; at least one.
    pub purge: f64,
}

impl Thresholds {
    /// Both as numbers of nodes.
    pub(crate) fn of(self, capacity: usize) -> (usize, usize) {
        let nodes = |share: f64| ((share * capacity as f64) as usize).max(1);
        (nodes(self.pull), nodes(self.purge))
    }
}

#[derive(Default)]
struct Links {
    next: AtomicU32,
    prev: AtomicU32,
    /// `recentNext`.
    noted: AtomicU32,
}

/// See the module.
pub struct DeferredLru {
    table: Table<Links>,
    capacity: usize,
    pull_at: usize,
    purge_count: usize,
    /// The first node after the head, or `TAIL`.
    newest: Padded<AtomicU32>,
    /// The Recent list's first node.
    recent: Padded<AtomicU32>,
    /// Nodes in the Recent list; one more for each thread inside `note`.
    recent_count: Padded<AtomicUsize>,
    wants_pull: AtomicBool,
    wants_purge: AtomicBool,
    consolidation: Mutex<()>,
}

impl DeferredLru {
    /// A cache of at most so many pairs.
    pub fn new(capacity: usize, thresholds: Thresholds) -> DeferredLru {
        let (pull_at, purge_count) = thresholds.of(capacity);
        let cache = DeferredLru {
            table: Table::new(capacity),
            capacity,
            pull_at,
            purge_count,
            newest: Padded(AtomicU32::new(TAIL)),
            recent: Padded(AtomicU32::new(LAST_NOTED)),
            recent_count: Padded(AtomicUsize::new(0)),
            wants_pull: AtomicBool::new(false),
            wants_purge: AtomicBool::new(false),
            consolidation: Mutex::new(()),
        };
        cache.links(TAIL).prev.store(HEAD, Release);
        cache
    }

    fn links(&self, node: Number) -> &Links {
        self.table.links(node)
    }

    /// Algorithm 9, under the lock of the node's chain. Whether the node was not noted before.
    fn note(&self, node: Number) -> bool {
        let links = self.links(node);
        // With the release in `insert` and `pull`: what moved the node is done before it can be moved again.
        if links.noted.load(Acquire) != NOT_NOTED {
            return false;
        }
        self.recent_count.0.fetch_add(1, Relaxed);
        let mut next = self.recent.0.load(Relaxed);
        loop {
            links.noted.store(next, Relaxed);
            match self.recent.0.compare_exchange_weak(next, node, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(other) => next = other,
            }
        }
    }

    /// Algorithm 6: puts a run of nodes, linked from `first` to `last`, after the head.
    fn put_first(&self, first: Number, last: Number) {
        self.links(first).prev.store(HEAD, Relaxed);
        let mut old = self.newest.0.load(Acquire);
        loop {
            self.links(last).next.store(old, Relaxed);
            match self.newest.0.compare_exchange_weak(old, first, AcqRel, Acquire) {
                Ok(_) => break,
                Err(other) => old = other,
            }
        }
        // The last step: from now on `old` may be taken out.
        self.links(old).prev.store(last, Release);
    }

    /// Takes out a node whose `prev` is not the head, as the thread that consolidates.
    fn take_out(&self, node: Number) {
        let links = self.links(node);
        let (prev, next) = (links.prev.load(Acquire), links.next.load(Relaxed));
        self.links(prev).next.store(next, Relaxed);
        self.links(next).prev.store(prev, Release);
    }

    /// Algorithm 13, as the thread that consolidates.
    fn pull(&self) {
        let mut node = self.recent.0.swap(LAST_NOTED, AcqRel);
        let (mut first, mut last, mut count) = (NONE, NONE, 0);
        while node != LAST_NOTED {
            let links = self.links(node);
            let next = links.noted.load(Relaxed);
            if links.prev.load(Acquire) != HEAD {
                self.take_out(node);
                if first == NONE {
                    first = node;
                } else {
                    self.links(last).next.store(node, Relaxed);
                    links.prev.store(last, Relaxed);
                }
                last = node;
            }
            links.noted.store(NOT_NOTED, Release);
            count += 1;
            node = next;
        }
        self.recent_count.0.fetch_sub(count, Relaxed);
        if first != NONE {
            self.put_first(first, last);
        }
    }

    /// Algorithm 14, as the thread that consolidates. How many went.
    fn purge(&self) -> usize {
        let mut evicted = 0;
        let mut node = self.links(TAIL).prev.load(Acquire);
        if node == HEAD {
            return evicted;
        }
        while evicted < self.purge_count {
            let next = self.links(node).prev.load(Acquire);
            if next == HEAD {
                break;
            }
            if self.links(node).noted.load(Acquire) == NOT_NOTED && self.remove_not_noted(node) {
                self.take_out(node);
                self.table.give_back(node);
                evicted += 1;
            }
            node = next;
        }
        evicted
    }

    fn remove_not_noted(&self, node: Number) -> bool {
        // Only the thread that consolidates empties nodes, so the key is still this node's.
        let mut chain = self.table.chain(self.table.key(node));
        self.links(node).noted.load(Relaxed) == NOT_NOTED && chain.remove(node)
    }

    /// Algorithm 12: how many nodes were evicted, or `None` if another thread consolidates.
    fn consolidate(&self) -> Option<usize> {
        let _held = try_lock(&self.consolidation)?;
        if self.wants_pull.load(Acquire) {
            self.pull();
            self.wants_pull.store(false, Release);
        }
        let mut evicted = 0;
        if self.wants_purge.load(Acquire) {
            evicted = self.purge();
            if evicted == 0 {
                self.pull();
                evicted = self.purge();
            }
            self.wants_purge.store(false, Release);
        }
        Some(evicted)
    }

    /// A node for a new pair; `None` if nothing can go.
    fn acquire(&self) -> Option<Number> {
        let mut spins = 0;
        loop {
            if let Some(node) = self.table.take() {
                return Some(node);
            }
            self.wants_purge.store(true, Release);
            match self.consolidate() {
                // What went may be taken by others, and others may have given back what they did not need.
                Some(0) => return self.table.take(),
                Some(_) => {}
                None if spins < SPINS_MAX => {
                    spins += 1;
                    spin_loop();
                }
                None => drop(lock(&self.consolidation)),
            }
        }
    }
}

impl Cache for DeferredLru {
    /// Algorithm 10.
    fn get(&self, key: u64) -> Option<u64> {
        let chain = self.table.chain(key);
        let node = chain.find()?;
        let value = self.table.value(node);
        let new = self.note(node);
        drop(chain);
        if new && self.recent_count.0.load(Relaxed) >= self.pull_at {
            self.wants_pull.store(true, Release);
            self.consolidate();
        }
        Some(value)
    }

    /// Algorithm 11.
    fn insert(&self, key: u64, value: u64) -> bool {
        let Some(node) = self.acquire() else { return false };
        self.table.set(node, key, value);
        let links = self.links(node);
        links.noted.store(LAST_NOTED, Relaxed);
        {
            let mut chain = self.table.chain(key);
            if chain.find().is_some() {
                drop(chain);
                self.table.give_back(node);
                return false;
            }
            chain.push(node);
        }
        self.put_first(node, node);
        links.noted.store(NOT_NOTED, Release);
        true
    }

    fn check(&self) -> Result<Vec<(u64, u64)>, String> {
        let mut noted = std::collections::HashSet::new();
        let mut node = self.recent.0.load(Acquire);
        while node != LAST_NOTED {
            if node < FIRST || !noted.insert(node) {
                return Err("the Recent list does not end".into());
            }
            node = self.links(node).noted.load(Acquire);
        }
        let (mut listed, mut noted_listed) = (Vec::new(), 0);
        let (mut before, mut node) = (HEAD, self.newest.0.load(Acquire));
        while node != TAIL {
            let links = self.links(node);
            if links.prev.load(Acquire) != before {
                return Err(format!("node {node} is not after {before} from behind"));
            }
            if (links.noted.load(Acquire) != NOT_NOTED) != noted.contains(&node) {
                return Err(format!("node {node} says other than the Recent list"));
            }
            listed.push(node);
            noted_listed += usize::from(noted.contains(&node));
            if listed.len() > self.capacity {
                return Err("the list does not end".into());
            }
            (before, node) = (node, links.next.load(Acquire));
        }
        let mut chained = self.table.chained()?;
        let pairs = listed.iter().map(|&node| (self.table.key(node), self.table.value(node))).collect();
        listed.sort_unstable();
        chained.sort_unstable();
        if self.links(TAIL).prev.load(Acquire) != before {
            return Err("the tail is not after the last".into());
        }
        if listed != chained {
            return Err(format!("{} nodes are listed, {} in chains", listed.len(), chained.len()));
        }
        if listed.len() + self.table.pooled()? != self.capacity {
            return Err("a node is lost".into());
        }
        match self.recent_count.0.load(Acquire) == noted.len() && noted_listed == noted.len() {
            true => Ok(pairs),
            false => Err("the Recent list has what is not listed, or is counted wrongly".into()),
        }
    }
}
