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
    /// A chunk in which no entry is has no memory.
    links: Vec<Box<[Link]>>,
    /// Entries in each chunk.
    used: Vec<u16>,
    small: List,
    main: List,
    small_max: usize,
    len: usize,
    ghosts: Remembered,
}

impl Queues {
    /// For a shard with this share of the budget.
    pub fn new(share: usize) -> Queues {
        Queues {
            links: Vec::new(),
            used: Vec::new(),
            small: EMPTY,
            main: EMPTY,
            small_max: (share / 10).max(1),
            len: 0,
            ghosts: Remembered::default(),
        }
    }

    /// The shard's share of the budget is another.
    pub fn set_share(&mut self, share: usize) {
        self.small_max = (share / 10).max(1);
    }

    /// An entry came in. `fills`: nothing was evicted for it.
    pub fn inserted(&mut self, slot: u32, hash: u64, weight: usize, fills: bool) {
        let chunk = slot as usize / CHUNK;
        if chunk >= self.links.len() {
            self.links.resize_with(chunk + 1, Box::default);
            self.used.resize(chunk + 1, 0);
        }
        if self.used[chunk] == 0 {
            self.links[chunk] = vec![Link { before: NONE, after: NONE }; CHUNK].into_boxed_slice();
        }
        self.used[chunk] += 1;
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
        let chunk = slot as usize / CHUNK;
        self.used[chunk] -= 1;
        if self.used[chunk] == 0 {
            self.links[chunk] = Box::default();
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
        let Remembered { cells, now, pushes } = &self.ghosts;
        Ghosts { cells: cells.to_vec(), now: *now, pushes: *pushes }
    }

    pub fn set_ghosts(&mut self, Ghosts { cells, now, pushes }: Ghosts) {
        self.ghosts = Remembered { cells: Cells::of(&cells), now, pushes };
    }

    /// Where an entry stands that was hit so often.
    pub fn explain(&self, slot: u32, hits: u8, is_pinned: bool) -> String {
        let pinned = if is_pinned { ", pinned" } else { "" };
        if self.links[slot as usize / CHUNK][slot as usize % CHUNK].before & IN_MAIN == 0 {
            let (weight, most) = (self.small.weight, self.small_max);
            format!(
                "small queue ({weight} of {most}), {hits} hits; with {PROMOTE} it goes on to the main queue{pinned}"
            )
        } else {
            format!("main queue ({}), {hits} hits, each worth another round{pinned}", self.main.weight)
        }
    }

    /// What is remembered of a key that is not in.
    pub fn explain_absent(&mut self, hash: u64) -> Option<String> {
        let remembered = self.ghosts.find(hash).is_some();
        remembered.then(|| "left the small queue not long ago: it would come into the main queue".into())
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
        self.used.truncate(slots.div_ceil(CHUNK));
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
        self.links.iter().map(|chunk| size_of_val(&**chunk)).sum::<usize>() + self.ghosts.cells.bytes()
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

/// What is remembered of keys that left, as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ghosts {
    pub cells: Vec<u32>,
    /// The step that it is.
    pub now: u16,
    /// Ghosts since the step began.
    pub pushes: usize,
}

/// Cells in chunks, which come when they are first written to. Another number of cells is empty at first; what was
/// there before goes by and by. So no step is longer than a chunk, however many cells there are.
#[derive(Default)]
struct Cells {
    len: usize,
    chunks: Vec<Option<Box<[u32]>>>,
    before: Vec<Option<Box<[u32]>>>,
}

impl Cells {
    fn of(cells: &[u32]) -> Cells {
        let chunks = cells.chunks(CHUNK).map(|chunk| Some(chunk.into()));
        Cells { len: cells.len(), chunks: chunks.collect(), before: Vec::new() }
    }

    fn to_vec(&self) -> Vec<u32> {
        let mut cells = vec![0; self.len];
        for (to, from) in cells.chunks_mut(CHUNK).zip(&self.chunks) {
            from.iter().for_each(|from| to.copy_from_slice(from));
        }
        cells
    }

    /// So many cells, all empty.
    fn begin_with(&mut self, len: usize) {
        self.before.append(&mut self.chunks);
        self.chunks = std::iter::repeat_with(|| None).take(len.div_ceil(CHUNK)).collect();
        self.len = len;
    }

    /// The cells that a ghost may stand in, if they were written to.
    fn ways(&mut self, hash: u64) -> Option<&mut [u32]> {
        let first = self.first(hash);
        let chunk = self.chunks.get_mut(first / CHUNK)?.as_mut()?;
        chunk.get_mut(first % CHUNK..first % CHUNK + WAYS)
    }

    /// The cells that a ghost may stand in; their chunk is made if it is not there.
    fn ways_to_write(&mut self, hash: u64) -> Option<&mut [u32]> {
        self.before.pop();
        let at = self.first(hash) / CHUNK;
        let len = self.len.min(CHUNK);
        if let Some(chunk) = self.chunks.get_mut(at) {
            chunk.get_or_insert_with(|| vec![0; len].into_boxed_slice());
        }
        self.ways(hash)
    }

    fn first(&self, hash: u64) -> usize {
        (hash >> 16) as usize % (self.len / WAYS).max(1) * WAYS
    }

    fn bytes(&self) -> usize {
        let there = self.chunks.iter().chain(&self.before).flatten().map(|chunk| size_of_val(&**chunk));
        there.sum::<usize>() + (self.chunks.len() + self.before.len()) * size_of::<Option<Box<[u32]>>>()
    }
}

/// Prints of the keys that were evicted without having been asked for again, four bytes each: sixteen bits of the hash
/// and the time, in a table of fixed places: as many as there were entries. When it grows it begins empty.
#[derive(Default)]
struct Remembered {
    cells: Cells,
    now: u16,
    pushes: usize,
}

impl Remembered {
    fn print(hash: u64) -> u16 {
        (hash as u16).max(1)
    }

    fn push(&mut self, hash: u64, entries: usize) {
        if self.cells.len < entries {
            self.cells.begin_with(entries.next_power_of_two().max(WAYS));
        }
        self.pushes += 1;
        if self.pushes * STEPS >= entries {
            (self.now, self.pushes) = (self.now.wrapping_add(1), 0);
        }
        let now = self.now;
        let age = |cell: &&mut u32| {
            if **cell == 0 { usize::MAX } else { usize::from(now.wrapping_sub((**cell >> 16) as u16)) }
        };
        if let Some(cell) = self.cells.ways_to_write(hash).unwrap_or_default().iter_mut().max_by_key(age) {
            *cell = u32::from(now) << 16 | u32::from(Remembered::print(hash));
        }
    }

    /// The cell with a key's print.
    fn find(&mut self, hash: u64) -> Option<&mut u32> {
        let now = self.now;
        let is_it = |cell: &&mut u32| {
            **cell as u16 == Remembered::print(hash) && usize::from(now.wrapping_sub((**cell >> 16) as u16)) <= STEPS
        };
        self.cells.ways(hash).unwrap_or_default().iter_mut().find(is_it)
    }

    /// Whether a key's print is there; it is not, afterwards.
    fn take(&mut self, hash: u64) -> bool {
        self.find(hash).map(|cell| *cell = 0).is_some()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// What is remembered grows with the entries, by a chunk and the places of chunks at most.
    #[test]
    fn no_step_of_what_is_remembered_is_long() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut remembered = Remembered::default();
        for entries in 1..=if cfg!(miri) { 3_000 } else { 100_000 } {
            let (hash, before) = (random.u64(..), remembered.cells.bytes());
            remembered.push(hash, entries);
            let now = remembered.cells.bytes();
            let places = remembered.cells.chunks.len() * size_of::<Option<Box<[u32]>>>();
            assert!(now.abs_diff(before) <= CHUNK * size_of::<u32>() + places, "{before} to {now} bytes");
            if entries.is_power_of_two() {
                let ghosts = remembered.cells.to_vec();
                assert_eq!(Cells::of(&ghosts).to_vec(), ghosts, "a snapshot has all");
            }
            assert!(remembered.take(hash), "it is there");
            remembered.push(hash, entries);
        }
        assert!(remembered.cells.before.is_empty(), "what was there before has gone");
    }
}
