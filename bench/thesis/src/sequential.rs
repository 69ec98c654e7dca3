//! DeferredLRU for one thread (thesis, section 6.1): the decisions of [`DeferredLru`](crate::DeferredLru) asked by one
//! thread, without its locks. A hit on a noted node writes nothing.

use crate::deferred::Thresholds;
use crate::plain::Nodes;
use crate::{NONE, Number, TAIL};

/// In `Node::noted`: the end of the Recent list. A node that is not in it has `NONE`.
const LAST_NOTED: Number = TAIL;

/// What was done since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Pairs that came in.
    pub inserted: usize,
    /// Pairs that went.
    pub evicted: usize,
    /// Calls of PullRecent.
    pub pulls: usize,
    /// Calls of PurgeOld.
    pub purges: usize,
}

/// See the module.
pub struct SequentialDeferredLru {
    nodes: Nodes,
    counts: Counts,
    pull_at: usize,
    purge_count: usize,
    recent: Number,
    recent_count: usize,
}

impl SequentialDeferredLru {
    /// A cache of at most so many pairs.
    pub fn new(capacity: usize, thresholds: Thresholds) -> SequentialDeferredLru {
        let (pull_at, purge_count) = thresholds.of(capacity);
        SequentialDeferredLru {
            nodes: Nodes::new(capacity),
            counts: Counts::default(),
            pull_at,
            purge_count,
            recent: LAST_NOTED,
            recent_count: 0,
        }
    }

    /// The value of `key`.
    pub fn get(&mut self, key: u64) -> Option<u64> {
        let node = self.nodes.find(key)?;
        let value = self.nodes.get(node).value;
        if self.nodes.get(node).noted == NONE {
            self.nodes.get_mut(node).noted = std::mem::replace(&mut self.recent, node);
            self.recent_count += 1;
            if self.recent_count >= self.pull_at {
                self.pull();
            }
        }
        Some(value)
    }

    /// As [`Cache::insert`](crate::Cache::insert).
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        let Some(node) = self.nodes.take().or_else(|| self.room()) else { return false };
        if self.nodes.find(key).is_some() {
            self.nodes.give_back(node);
            return false;
        }
        self.nodes.insert(node, key, value);
        self.counts.inserted += 1;
        true
    }

    fn room(&mut self) -> Option<Number> {
        if self.purge() == 0 {
            self.pull();
            self.purge();
        }
        self.nodes.take()
    }

    fn pull(&mut self) {
        let mut node = std::mem::replace(&mut self.recent, LAST_NOTED);
        let old_first = self.nodes.get(NONE).next;
        let (mut first, mut last) = (NONE, NONE);
        while node != LAST_NOTED {
            let next = std::mem::replace(&mut self.nodes.get_mut(node).noted, NONE);
            if node != old_first {
                self.nodes.take_out(node);
                match first {
                    NONE => first = node,
                    _ => self.nodes.join(last, node),
                }
                last = node;
            }
            node = next;
        }
        if first != NONE {
            self.nodes.join(NONE, first);
            self.nodes.join(last, old_first);
        }
        self.recent_count = 0;
        self.counts.pulls += 1;
    }

    fn purge(&mut self) -> usize {
        let mut evicted = 0;
        let mut node = self.nodes.get(TAIL).prev;
        while evicted < self.purge_count && node != NONE {
            let prev = self.nodes.get(node).prev;
            if prev == NONE {
                break;
            }
            if self.nodes.get(node).noted == NONE {
                self.nodes.evict(node);
                evicted += 1;
            }
            node = prev;
        }
        self.counts.purges += 1;
        self.counts.evicted += evicted;
        evicted
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Pairs that are noted: no purge takes them.
    pub fn noted(&self) -> usize {
        self.recent_count
    }

    /// All pairs, the newest first.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.nodes.pairs()
    }
}
