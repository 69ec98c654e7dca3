//! The order of eviction of one shard whose entries have weights: S3-FIFO's, over marks, in two linked lists.
//!
//! What `order.rs` says of the queues holds here, by weight. Entries leave from the middle as often as they like and
//! their numbers are given to others at once, so the queues are lists, eight bytes for an entry, in chunks as the
//! slab's: no step is longer than a chunk.

use crate::sync::{AtomicU8, Ordering};

use super::marks::MARK_MAX;
use super::slab::CHUNK;

/// Hits in the small queue that lead to the main one.
const PROMOTE: u8 = 2;

/// No entry; slots have numbers of 31 bits.
const NONE: u32 = u32::MAX >> 1;

/// Set beside the neighbour of an entry that is in the main queue.
const IN_MAIN: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// From the oldest to the newest.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
    weight: usize,
}

const EMPTY: List = List { first: NONE, last: NONE, weight: 0 };

/// What the order asks of an entry.
pub(super) struct Entry<'e> {
    pub mark: &'e AtomicU8,
    pub weight: usize,
}

/// See the module.
pub(super) struct Queues {
    links: Vec<Box<[Link]>>,
    small: List,
    main: List,
    small_max: usize,
    len: usize,
    ghosts: Ghosts,
}

impl Queues {
    /// For a shard with this share of the budget.
    pub fn new(share: usize) -> Queues {
        Queues {
            links: Vec::new(),
            small: EMPTY,
            main: EMPTY,
            small_max: (share / 10).max(1),
            len: 0,
            ghosts: Ghosts::new(),
        }
    }

    /// The shard's share of the budget is another.
    pub fn set_share(&mut self, share: usize) {
        self.small_max = (share / 10).max(1);
    }

    /// An entry came in. `fills`: nothing was evicted for it.
    pub fn inserted(&mut self, slot: u32, hash: u64, weight: usize, fills: bool) {
        while slot as usize >= self.links.len() * CHUNK {
            self.links.push(vec![Link { before: NONE, after: NONE }; CHUNK].into_boxed_slice());
        }
        self.len += 1;
        let returns = self.ghosts.take(hash);
        let small_is_full = fills && self.small.weight + weight > self.small_max;
        self.push(slot, weight, returns || small_is_full);
    }

    /// An entry has another weight now.
    pub fn resized(&mut self, slot: u32, before: usize, after: usize) {
        let list = self.list_of(slot);
        list.weight = list.weight - before + after;
    }

    /// An entry left. `evicted`: it was [`Queues::victim`].
    pub fn removed(&mut self, slot: u32, hash: u64, weight: usize, evicted: bool) {
        let from_small = self.link(slot).before & IN_MAIN == 0;
        self.unlink(slot, weight);
        if evicted && from_small {
            self.ghosts.push(hash, self.len);
        }
        self.len -= 1;
    }

    /// An entry is pinned: it stands in no queue, and its link only says to which it belongs.
    pub fn withdraw(&mut self, slot: u32, weight: usize) {
        let flag = self.link(slot).before & IN_MAIN;
        self.unlink(slot, weight);
        *self.link(slot) = Link { before: NONE | flag, after: NONE };
        self.len -= 1;
    }

    /// It may go again, as the newest of its queue.
    pub fn restore(&mut self, slot: u32, weight: usize) {
        let in_main = self.link(slot).before & IN_MAIN != 0;
        self.push(slot, weight, in_main);
        self.len += 1;
    }

    /// Makes an entry the newest of a queue.
    pub fn stand_last(&mut self, slot: u32, weight: usize, in_main: bool) {
        self.unlink(slot, weight);
        self.push(slot, weight, in_main);
    }

    /// All slots from the oldest to the newest, those of the small queue and those of the main one.
    pub fn line(&self) -> [Vec<u32>; 2] {
        [self.small, self.main].map(|list| {
            let link = |slot: u32| self.links[slot as usize / CHUNK][slot as usize % CHUNK];
            let some = |slot: u32| (slot != NONE).then_some(slot);
            std::iter::successors(some(list.first), |&slot| some(link(slot).after)).collect()
        })
    }

    pub fn ghosts(&self) -> Ghosts {
        self.ghosts.clone()
    }

    pub fn set_ghosts(&mut self, ghosts: Ghosts) {
        self.ghosts = ghosts;
    }

    /// The entry to evict; `None`: there is no entry.
    pub fn victim<'e>(&mut self, entry: impl Fn(u32) -> Option<Entry<'e>>) -> Option<u32> {
        // A mark is worth one round at most three times. Readers that go on marking must not keep it going for ever.
        let mut rounds_left = (usize::from(MARK_MAX) + 1) * self.len;
        loop {
            let from_small = self.small.weight > self.small_max || self.main.first == NONE;
            let slot = if from_small { self.small.first } else { self.main.first };
            if slot == NONE {
                debug_assert_eq!(self.len, 0, "what is in has a queue");
                return None;
            }
            let found = entry(slot);
            debug_assert!(found.is_some(), "what has a queue is in");
            let Entry { mark, weight } = found?;
            let hits = mark.load(Ordering::Relaxed);
            if from_small && hits >= PROMOTE {
                mark.store(0, Ordering::Relaxed);
            } else if !from_small && hits > 0 && rounds_left > 0 {
                rounds_left -= 1;
                mark.store(hits - 1, Ordering::Relaxed);
            } else {
                return Some(slot);
            }
            self.unlink(slot, weight);
            self.push(slot, weight, true);
        }
    }

    /// No slot from this one on is taken any more.
    pub fn fits(&mut self, slots: usize) {
        self.links.truncate(slots.div_ceil(CHUNK));
    }

    fn link(&mut self, slot: u32) -> &mut Link {
        &mut self.links[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn list_of(&mut self, slot: u32) -> &mut List {
        if self.link(slot).before & IN_MAIN == 0 { &mut self.small } else { &mut self.main }
    }

    fn push(&mut self, slot: u32, weight: usize, to_main: bool) {
        let flag = if to_main { IN_MAIN } else { 0 };
        let list = if to_main { &mut self.main } else { &mut self.small };
        let last = std::mem::replace(&mut list.last, slot);
        list.weight += weight;
        if last == NONE {
            list.first = slot;
        }
        *self.link(slot) = Link { before: last | flag, after: NONE };
        if last != NONE {
            self.link(last).after = slot;
        }
    }

    fn unlink(&mut self, slot: u32, weight: usize) {
        let Link { before, after } = *self.link(slot);
        let (before, flag) = (before & !IN_MAIN, before & IN_MAIN);
        if before != NONE {
            self.link(before).after = after;
        }
        if after != NONE {
            self.link(after).before = before | flag;
        }
        let list = if flag == 0 { &mut self.small } else { &mut self.main };
        list.weight -= weight;
        if list.first == slot {
            list.first = after;
        }
        if list.last == slot {
            list.last = before;
        }
    }

    pub fn bytes(&self) -> usize {
        self.links.len() * CHUNK * size_of::<Link>() + self.ghosts.cells.len() * size_of::<u32>()
    }

    /// Panics if these, with their weights, are not what stands in the queues, each in one.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn validate(&self, of_shard: impl Iterator<Item = (u32, usize)>) {
        let weights: std::collections::BTreeMap<u32, usize> = of_shard.collect();
        let queues = self.line();
        let ends = [self.small.last, self.main.last];
        assert_eq!(
            queues.each_ref().map(|slots| slots.last().copied().unwrap_or(NONE)),
            ends,
            "the newest is the last"
        );
        let weight = |slots: &Vec<u32>| slots.iter().map(|slot| weights.get(slot).copied().unwrap_or(0)).sum::<usize>();
        assert_eq!(queues.each_ref().map(weight), [self.small.weight, self.main.weight], "queues know their weight");
        let mut slots = queues.concat();
        slots.sort_unstable();
        assert!(slots.iter().eq(weights.keys()), "all stand in one queue");
    }
}

/// Cells that a ghost may stand in.
const WAYS: usize = 4;

/// The age of a ghost is told in so many steps of one turnover of the entries; older ones count as forgotten.
const STEPS: usize = 64;

/// Prints of the keys that were evicted without having been asked for again, four bytes each: sixteen bits of the hash
/// and the time, in a table of fixed places: as many as there were entries. When it grows it begins empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ghosts {
    pub cells: Vec<u32>,
    /// The step that it is.
    pub now: u16,
    /// Ghosts since the step began.
    pub pushes: usize,
}

impl Ghosts {
    fn new() -> Ghosts {
        Ghosts { cells: Vec::new(), now: 0, pushes: 0 }
    }

    fn print(hash: u64) -> u16 {
        (hash as u16).max(1)
    }

    fn ways(&mut self, hash: u64) -> &mut [u32] {
        let buckets = self.cells.len() / WAYS;
        let at = if buckets == 0 { 0 } else { (hash >> 16) as usize % buckets };
        self.cells.get_mut(at * WAYS..(at + 1) * WAYS).unwrap_or_default()
    }

    fn push(&mut self, hash: u64, entries: usize) {
        if self.cells.len() < entries {
            self.cells = vec![0; entries.next_power_of_two().max(WAYS)];
        }
        self.pushes += 1;
        if self.pushes * STEPS >= entries {
            (self.now, self.pushes) = (self.now.wrapping_add(1), 0);
        }
        let now = self.now;
        let age = |cell: &&mut u32| {
            if **cell == 0 { usize::MAX } else { usize::from(now.wrapping_sub((**cell >> 16) as u16)) }
        };
        if let Some(cell) = self.ways(hash).iter_mut().max_by_key(age) {
            *cell = u32::from(now) << 16 | u32::from(Ghosts::print(hash));
        }
    }

    /// Whether a key's print is there; it is not, afterwards.
    fn take(&mut self, hash: u64) -> bool {
        let now = self.now;
        let is_it = |cell: &&mut u32| {
            **cell as u16 == Ghosts::print(hash) && usize::from(now.wrapping_sub((**cell >> 16) as u16)) <= STEPS
        };
        let found = self.ways(hash).iter_mut().find(is_it);
        found.map(|cell| *cell = 0).is_some()
    }
}
