//! The engine: a table that is read without locks, an order of eviction over marks, and a budget.
//!
//! ```text
//! get     -> table.rs: tags (tags.rs), key and value (slot.rs), the sequence again -> marks.rs
//! insert  -> shard.rs, under its lock: budget.rs, order.rs (a victim, by its marks), prints.rs (ghosts), table.rs
//! start   -> table.rs takes all memory that there will be, on large pages (pages.rs)
//! ```
//!
//! That is the cache of what lies in the table itself. What lies apart is in `pointers.rs`, whose head shows its parts.
//! A cache that keeps its own rules (budget, order, locks) has the table of `parts.rs`.
//!
//! The write lock and the order are sharded, the look-up is not: a reader never learns which shard it is in, unless it
//! has to wait. A shard is the top bits of a hash, and so a run of groups of the one table.
//!
//! After DeferredLRU: what a hit says about its entry is deferred until a victim is looked
//! for. There the entry is noted in a list, here it leaves a mark in a byte beside its tag, which saturates.
//!
//! # Why the table looks like this
//!
//! A hit is to cost little more than a look-up in hashbrown. What was tried, with 100,000 keys of u64 and 131,072
//! slots, Zipf 0.9, one thread: instructions per hit by callgrind, the loop of the benchmark included, and throughput
//! beside hashbrown (33 instructions) in the same run, by the fastest fifth of short slices on a busy machine of two
//! processors.
//!
//! | sketch | instructions | ratio |
//! |---|---|---|
//! | a line of memory about 16 slots, beside its slots; range by multiplication | 45.7 | .90 to .97 |
//! | the same, a power of two of groups | 45.7 | .85 |
//! | lines apart from the slots; a power of two | 47.7 | .76 |
//! | the same; the range by multiplication | 49.8 | .71 |
//! | the same; tags loaded as two atomic words and joined | 52.7 | .68 |
//! | the same; a search beyond the home in a function by itself | 51.9 | .67 |
//! | half a line about 16 slots, marks of two bits in two words, apart; a power of two | 49.5 | .84 to .87 |
//! | the same beside its slots | 47.5 | .81 |
//!
//! So a group's slots are beside what says all about them: one address, one page. Slots that lie apart, for the sake of
//! a denser first access, lost in every form, since that line is touched in any case. Half lines pay for what they save
//! with marks that need a shift and a mask, and leave no room for prints. Multiplication costs nothing where the
//! address is a product anyhow (a group has 320 bytes), and a table may have any size.
//!
//! The sketches had no path beside a writer. With it, one function for all took 61 instructions:
//!
//! | `look`, with the path beside a writer | instructions |
//! |---|---|
//! | one loop over groups and slots | 61 |
//! | the home by itself, then a loop | 53.8 |
//! | and the tags compared in one block of assembly, the hash's secret in the cache itself | 51.9 |
//! | and the first slot by itself, all else in a function that is called | 58.7 |
//! | and all else inlined | 49.1 |
//! | and nothing of it is kept for the path beside a writer, which hashes again: **what is here** | 46.2 |
//!
//! In two runs of short slices the last had .75 and .83 of hashbrown's throughput, in longer rounds on an idle machine
//! .54 (`docs/benchmarks-engine.md`). The goals are 48 instructions and .77. A call on the way, however seldom, costs
//! what it makes the compiler keep.

mod boxed;
mod budget;
mod buffers;
mod hasher;
mod marks;
mod numbers;
mod order;
mod pages;
mod parts;
mod places;
mod pointers;
mod prints;
mod queues;
mod ranks;
mod reclaim;
mod segment;
mod shadow;
mod shard;
mod slab;
mod slot;
mod table;
mod tagged;
mod tags;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(all(test, not(feature = "loom")))]
mod validate;
mod wheel;

use crate::sync::{Mutex, MutexGuard, spin_loop};

pub use boxed::Seen;
use budget::{Budget, floor_of};
pub use buffers::{Buffers, Full};
use hasher::Hasher;
use marks::touch;
pub use parts::{Ahead, Due as Retired, Readers, Sight, Sighted, Writer};
pub use places::{Held, Item, Keyed, Packed};
pub use pointers::{Cause, DEFERRED_SHARE, Found, HeldGuard, PINS_MAX, Pointers, Put};
pub(crate) use pointers::{Due, HeldListener, Life, Listener, Rule, Under};
pub(crate) use queues::Ghosts;
pub use reclaim::Guard;
pub use shadow::Shadow;
pub use shard::Present;
use shard::{NoCredit, Parts, Shard};
pub use slot::{Plain, Words};
use table::{Look, Table};
pub(crate) use wheel::NEVER;

/// The largest capacity, in entries: slots have numbers of 32 bits.
pub const CAPACITY_MAX: usize = 1 << 31;

/// Entries of a group when the cache is full, in the mean: the denser, the less memory, and the more groups a miss
/// looks at. With 12, 13 and 14 a get-or-insert of Zipf 0.9 ran at 29, 26 and 9 Mops, with 32.4, 30.0 and 27.8 bytes
/// per entry. Going on in strides by the key's hash in place of the next group gave 26, 26 and 12.
const LOAD: usize = 13;

/// Entries of a shard, at least, before there is another: small shards would differ much in what falls to them.
const SHARD_MIN: usize = 2048;

/// Shards for each processor.
const SHARDS_PER_CPU: usize = 4;

/// Shards, at most.
const SHARDS_MAX: usize = 1024;

/// Looks at a group that a writer is inside of before the reader waits for the writer's lock: with more threads than
/// processors the writer may not be running.
const LOOKS_MAX: usize = if cfg!(feature = "loom") { 2 } else { 64 };

/// A cache of keys and values that lie in the table itself ([`Plain`]), for any number of threads.
///
/// All memory is taken at the start. A hit takes no lock and writes nothing, once its entry is marked as hit often.
/// What is evicted follows S3-FIFO.
pub struct Inline<K: Plain, V: Plain> {
    hasher: Hasher,
    table: Table<K, V>,
    shards: Box<[Shard]>,
    budget: Budget,
    /// Entries that there is memory for, and the lock of the thread that changes the capacity.
    room: Mutex<usize>,
}

/// A capacity for which there is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What was asked for, in entries.
    pub capacity: usize,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TooLarge { capacity } = self;
        if *capacity > CAPACITY_MAX {
            write!(f, "a capacity of {capacity} entries is above the limit of {CAPACITY_MAX}")
        } else {
            write!(f, "there is no memory for {capacity} entries, which is taken at the start; ask for less")
        }
    }
}

impl std::error::Error for TooLarge {}

/// A capacity above the room that a cache was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// What was asked for, in entries.
    pub capacity: usize,
    /// What there is memory for, in entries.
    pub room: usize,
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NoRoom { capacity, room } = self;
        write!(f, "a capacity of {capacity} entries is above the cache's room for {room}, which is set at the start")
    }
}

impl std::error::Error for NoRoom {}

impl<K: Plain, V: Plain> Inline<K, V> {
    /// A cache of at most `capacity` entries; with 0 it stores nothing.
    pub fn new(capacity: usize) -> Result<Inline<K, V>, TooLarge> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Inline::with_shards(capacity, SHARDS_PER_CPU * cpus)
    }

    /// A cache with about this many shards: writers of one shard wait for each other. It is rounded to a power of two,
    /// and a small cache has fewer.
    pub fn with_shards(capacity: usize, shards: usize) -> Result<Inline<K, V>, TooLarge> {
        let useful = (capacity / SHARD_MIN).clamp(1, SHARDS_MAX);
        let log2 = shards.clamp(1, useful).next_power_of_two().min(1 << useful.ilog2()).ilog2();
        Inline::build(capacity, log2, Hasher::random())
    }

    /// A cache of at most `capacity` entries with memory for `room`, which is no less: `set_capacity` may raise the
    /// capacity up to there.
    pub fn with_room(capacity: usize, room: usize) -> Result<Inline<K, V>, TooLarge> {
        let cache = Inline::new(room.max(capacity))?;
        let fits = cache.set_capacity(capacity);
        debug_assert!(fits.is_ok(), "the room is no less");
        Ok(cache)
    }

    fn build(capacity: usize, shards_log2: u32, hasher: Hasher) -> Result<Inline<K, V>, TooLarge> {
        if capacity > CAPACITY_MAX {
            return Err(TooLarge { capacity });
        }
        let share = capacity.div_ceil(1 << shards_log2);
        // One entry more than the share finds room even in the smallest shard.
        let table = Table::new((share + 1).div_ceil(LOAD), shards_log2).map_err(|_| TooLarge { capacity })?;
        let budget = Budget::new(capacity, 1 << shards_log2);
        let slots = table.slots_per_shard();
        let shards = table.writers().map(|writer| Shard::new(writer, slots, share, budget.floor())).collect();
        Ok(Inline { hasher, table, shards, budget, room: Mutex::new(capacity) })
    }

    /// Changes the capacity while the cache is in use, up to the room that there is memory for. A smaller one evicts
    /// at once, in small steps between which others go on; when it returns, there are no more entries than that.
    pub fn set_capacity(&self, capacity: usize) -> Result<(), NoRoom> {
        let room = self.lock_capacity();
        if capacity > *room {
            return Err(NoRoom { capacity, room: *room });
        }
        let (share, slots) = (capacity.div_ceil(self.shards.len()), self.table.slots_per_shard());
        for shard in &self.shards {
            shard.lock().set_share(share, slots);
        }
        self.budget.grow(capacity.saturating_sub(self.budget.capacity()));
        let floor = floor_of(capacity, self.shards.len());
        // The floors are no more than the capacity: what is above it is in the rest, or some shard's beyond its floor.
        while self.budget.capacity() > capacity {
            self.budget.shrink_rest(self.budget.capacity() - capacity);
            for shard in &self.shards {
                let most = self.budget.capacity() - capacity;
                shard.lock().shrink(self.parts(), floor, most);
            }
        }
        Ok(())
    }

    fn lock_capacity(&self) -> MutexGuard<'_, usize> {
        self.room.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The value of a key, which counts as used.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        let words = key.into_words();
        self.get_hashed(self.hasher.hash::<K>(words), words)
    }

    #[inline(always)]
    fn get_hashed(&self, hash: u64, key: K::Words) -> Option<V> {
        match self.table.look(hash, key) {
            Look::Hit(value, mark) => {
                touch(mark);
                Some(value)
            }
            Look::Absent => None,
            Look::Disturbed => self.get_beside_writer(key),
        }
    }

    /// It hashes again: a hit has one register less to keep for it.
    #[cold]
    fn get_beside_writer(&self, key: K::Words) -> Option<V> {
        let hash = self.hasher.hash::<K>(key);
        let mut looks = 1;
        loop {
            match self.table.look(hash, key) {
                Look::Hit(value, mark) => {
                    touch(mark);
                    return Some(value);
                }
                Look::Absent => return None,
                Look::Disturbed => {}
            }
            looks += 1;
            if looks % LOOKS_MAX == 0 {
                drop(self.shard(hash).lock());
            }
            spin_loop();
        }
    }

    /// The value of a key, which does not count as used.
    pub fn peek(&self, key: K) -> Option<V> {
        let words = key.into_words();
        let hash = self.hasher.hash::<K>(words);
        let mut looks = 0;
        loop {
            match self.table.look(hash, words) {
                Look::Hit(value, _) => return Some(value),
                Look::Absent => return None,
                Look::Disturbed => {}
            }
            looks += 1;
            if looks % LOOKS_MAX == 0 {
                drop(self.shard(hash).lock());
            }
            spin_loop();
        }
    }

    /// Whether a key is there; it does not count as used.
    pub fn contains(&self, key: K) -> bool {
        self.peek(key).is_some()
    }

    /// The value of a key; if there is none, what `make` answers is inserted. `make` runs without a lock: if another
    /// thread inserts meanwhile, then that value is the answer.
    #[inline]
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        let words = key.into_words();
        let hash = self.hasher.hash::<K>(words);
        match self.get_hashed(hash, words) {
            Some(value) => value,
            None => {
                let made = make();
                self.put(hash, (words, made), Present::Kept).unwrap_or(made)
            }
        }
    }

    /// Inserts, or replaces the value; answers the value before.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let words = key.into_words();
        self.put(self.hasher.hash::<K>(words), (words, value), Present::Replaced)
    }

    #[inline(never)]
    fn put(&self, hash: u64, entry: (K::Words, V), present: Present) -> Option<V> {
        let put = self.shard(hash).lock().put(self.parts(), hash, entry, present);
        put.unwrap_or_else(|NoCredit| self.put_without_credit(hash, entry, present))
    }

    /// Has another shard give up the credit of an entry. Where others take it again and again, the entry stays out.
    #[cold]
    fn put_without_credit(&self, hash: u64, entry: (K::Words, V), present: Present) -> Option<V> {
        if self.capacity() == 0 {
            return None;
        }
        for shard in &self.shards {
            if shard.lock().yield_credit(self.parts())
                && let Ok(put) = self.shard(hash).lock().put(self.parts(), hash, entry, present)
            {
                return put;
            }
        }
        None
    }

    /// Removes a key; answers its value.
    pub fn remove(&self, key: K) -> Option<V> {
        let words = key.into_words();
        let hash = self.hasher.hash::<K>(words);
        self.shard(hash).lock().remove(self.parts(), hash, words)
    }

    /// Removes everything, one shard after the other: what is inserted meanwhile may stay.
    pub fn clear(&self) {
        for shard in &self.shards {
            shard.lock().clear(self.parts());
        }
    }

    /// Entries, counted shard after shard.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len).sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries, at most.
    pub fn capacity(&self) -> usize {
        self.budget.capacity()
    }

    /// Memory that it has taken, all of it at the start.
    pub fn bytes(&self) -> usize {
        let orders: usize = self.shards.iter().map(|shard| shard.lock().order.bytes()).sum();
        self.table.bytes() + size_of_val(&*self.shards) + orders
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[self.table.shard_of(hash)]
    }

    fn parts(&self) -> Parts<'_, K, V> {
        Parts { table: &self.table, budget: &self.budget, hasher: &self.hasher }
    }
}

impl<K: Plain, V: Plain> std::fmt::Debug for Inline<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inline").field("capacity", &self.capacity()).field("len", &self.len()).finish()
    }
}
