//! What [`Table`](crate::table::Table) is for many threads, for one: no locks, and nothing atomic.

use crate::{FIRST, NONE, Number, TAIL, chains, hash};

#[derive(Clone, Default)]
pub struct Node {
    pub key: u64,
    pub value: u64,
    /// The next one in its chain, or in the pool.
    chain: Number,
    pub next: Number,
    pub prev: Number,
    /// For the cache.
    pub noted: Number,
}

/// Nodes in chains, in the pool, and in one list between `NONE` and `TAIL`.
pub struct Nodes {
    nodes: Vec<Node>,
    chains: Vec<Number>,
    pool: Number,
}

impl Nodes {
    pub fn new(count: usize) -> Nodes {
        let mut nodes = Nodes {
            nodes: vec![Node::default(); count + FIRST as usize],
            chains: vec![NONE; chains(count)],
            pool: NONE,
        };
        nodes.join(NONE, TAIL);
        (FIRST..FIRST + count as u32).rev().for_each(|node| nodes.give_back(node));
        nodes
    }

    pub fn get(&self, node: Number) -> &Node {
        &self.nodes[node as usize]
    }

    pub fn get_mut(&mut self, node: Number) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    fn chain(&self, key: u64) -> usize {
        hash(key) as usize & (self.chains.len() - 1)
    }

    pub fn find(&self, key: u64) -> Option<Number> {
        let mut node = self.chains[self.chain(key)];
        while node != NONE {
            if self.get(node).key == key {
                return Some(node);
            }
            node = self.get(node).chain;
        }
        None
    }

    /// A node of the pool.
    pub fn take(&mut self) -> Option<Number> {
        let node = self.pool;
        (node != NONE).then(|| {
            self.pool = self.get(node).chain;
            node
        })
    }

    /// A node that was taken goes back into the pool.
    pub fn give_back(&mut self, node: Number) {
        self.get_mut(node).chain = self.pool;
        self.pool = node;
    }

    /// Fills a node that was taken, and puts it into its chain and at the newest end of the list.
    pub fn insert(&mut self, node: Number, key: u64, value: u64) {
        let at = self.chain(key);
        let chain = std::mem::replace(&mut self.chains[at], node);
        *self.get_mut(node) = Node { key, value, chain, ..Node::default() };
        self.put_first(node);
    }

    /// Takes a node out of its chain and the list, into the pool.
    pub fn evict(&mut self, node: Number) {
        let (at, after) = (self.chain(self.get(node).key), self.get(node).chain);
        if self.chains[at] == node {
            self.chains[at] = after;
        } else {
            let mut before = self.chains[at];
            while self.get(before).chain != node {
                before = self.get(before).chain;
            }
            self.get_mut(before).chain = after;
        }
        self.take_out(node);
        self.give_back(node);
    }

    pub fn join(&mut self, before: Number, after: Number) {
        self.get_mut(before).next = after;
        self.get_mut(after).prev = before;
    }

    pub fn put_first(&mut self, node: Number) {
        let first = self.get(NONE).next;
        self.join(NONE, node);
        self.join(node, first);
    }

    pub fn take_out(&mut self, node: Number) {
        let Node { prev, next, .. } = *self.get(node);
        self.join(prev, next);
    }

    /// All pairs, the newest first.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let first = Some(self.get(NONE).next).filter(|&node| node != TAIL);
        let listed = std::iter::successors(first, |&node| Some(self.get(node).next).filter(|&node| node != TAIL));
        listed.map(|node| (self.get(node).key, self.get(node).value)).collect()
    }
}
