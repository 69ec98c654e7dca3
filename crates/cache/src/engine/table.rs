//! The table: groups of sixteen slots, found by hash, read without a lock.
//!
//! A group is a line of memory that says all about its slots, and the slots. An entry goes to the first free slot from
//! its home group on, within the home's shard, and stays where it is until it is removed. Each group counts the entries
//! that were placed beyond it because it was full (`passed`): where none was, a search is over, and nothing has to be
//! left in place of a removed entry.
//!
//! # Readers and writers
//!
//! Writers hold their shard's lock; readers hold nothing. A writer that changes a slot is *inside* its group: it makes
//! the group's sequence odd, changes, makes it even again.
//!
//! * **A hit is of one moment.** A reader loads the sequence (acquire), tag, key and value, then the sequence again
//!   behind an acquire fence, and believes what it read if both are the same even number. If it read a word of a
//!   writer that was inside, then that word was stored behind the writer's release fence, which stands behind the odd
//!   sequence; so the fences order the odd sequence before the reader's second look, which shows it or a later one.
//!   If it saw an even sequence, then all that was written until then is visible: it was stored before, with release.
//! * **A miss needs no second look.** An entry that is there as long as the search takes has a tag and a key that
//!   no writer stores to, and counts in `passed` of each group from its home on to its own; so the search finds it. An
//!   entry does not move: what was absent where the search had been and is gone where it comes to was absent in
//!   between.
//!
//! The sequence has 32 bits: a reader would have to stand still between its two looks for exactly a multiple of 2^31
//! changes of one group to be deceived.
#![allow(unsafe_code)]

use crate::ahead::prefetch;
use crate::mutation::{Fault, on};
use crate::sync::{AtomicU8, AtomicU32, Ordering, fence};

use super::marks::Slots;
use super::pages::{OutOfMemory, Pages};
use super::prints::Prints;
use super::slot::{Cells, Plain, Slot};
use super::tags::{DEAD, FREE, Lanes, SLOTS, Tags, tag_of};

/// A line of memory about its slots, and the slots: beside each other, so that both are of one page.
#[repr(C, align(64))]
struct Group<K: Plain, V: Plain> {
    tags: Tags,
    marks: [AtomicU8; SLOTS],
    /// Odd while a writer is inside.
    sequence: AtomicU32,
    /// Entries that were placed beyond this group because it was full.
    passed: AtomicU32,
    prints: Prints,
    slots: [Slot<K, V>; SLOTS],
}

impl<K: Plain, V: Plain> Group<K, V> {
    /// A slot by its place, which is that of a tag.
    #[inline(always)]
    fn slot(&self, lane: usize) -> &Slot<K, V> {
        debug_assert!(lane < SLOTS);
        // SAFETY: a lane is that of a tag in a set of them (`Lanes`) or what `split` leaves of a slot's number, and so
        // below `SLOTS`.
        unsafe { self.slots.get_unchecked(lane) }
    }

    #[inline(always)]
    fn mark(&self, lane: usize) -> &AtomicU8 {
        debug_assert!(lane < SLOTS);
        // SAFETY: as above; there is a mark for each slot.
        unsafe { self.marks.get_unchecked(lane) }
    }

    /// What a reader has that found its key in a slot, after it had seen this sequence.
    #[inline(always)]
    fn seen(&self, lane: usize, slot: &Slot<K, V>, sequence: u32) -> Look<'_, V> {
        let words = slot.value.load();
        if !on(Fault::ReaderFenceMissing) {
            fence(Ordering::Acquire);
        }
        let quiet = if on(Fault::OddTakenForQuiet) { sequence } else { sequence & !1 };
        if self.sequence.load(Ordering::Relaxed) != quiet && !on(Fault::SecondLookDropped) {
            return Look::Disturbed;
        }
        Look::Hit(V::from_words(words), self.mark(lane))
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(std::mem::offset_of!(Group<u64, u64>, slots) == 64, "all about the slots is one line of memory");

/// See the module.
pub(super) struct Table<K: Plain, V: Plain> {
    groups: Pages<Group<K, V>>,
    /// Groups of a shard.
    per_shard: usize,
    /// Shards are the top bits of a hash.
    shards_log2: u32,
}

/// Leave to write to the groups of one shard, which its lock guards.
pub(super) struct Writer {
    shard: usize,
}

/// What a reader found.
pub(super) enum Look<'t, V> {
    /// The value, and the mark to touch.
    Hit(V, &'t AtomicU8),
    Absent,
    /// A writer was inside.
    Disturbed,
}

impl<K: Plain, V: Plain> Table<K, V> {
    pub fn new(per_shard: usize, shards_log2: u32) -> Result<Table<K, V>, OutOfMemory> {
        let groups = Pages::new(per_shard << shards_log2, || Group {
            tags: Tags::new(),
            marks: std::array::from_fn(|_| AtomicU8::new(0)),
            sequence: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            prints: Prints::new(),
            slots: std::array::from_fn(|_| Slot::new()),
        })?;
        Ok(Table { groups, per_shard, shards_log2 })
    }

    /// One for each shard, to be kept under its lock.
    pub fn writers(&self) -> impl Iterator<Item = Writer> {
        (0..1 << self.shards_log2).map(|shard| Writer { shard })
    }

    pub fn slots_per_shard(&self) -> usize {
        self.per_shard * SLOTS
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups)
    }

    /// The shard of a key: that of its home, since both are the hash's top bits times a number.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        (((hash >> 32) << self.shards_log2) >> 32) as usize
    }

    #[inline(always)]
    pub fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.groups.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn group(&self, at: usize) -> &Group<K, V> {
        debug_assert!(at < self.groups.len());
        // SAFETY: `at` is a home, a group that follows one in its shard (`after`), or that of a slot which the shard's
        // order names. A home is the product of a number below 2^32 and the count of groups, divided by 2^32.
        unsafe { self.groups.get_unchecked(at) }
    }

    /// The group that a search comes to after `at`: the next of the shard, and its first after its last.
    #[inline]
    fn after(&self, at: usize, hash: u64) -> usize {
        let first = self.shard_of(hash) * self.per_shard;
        if at + 1 == first + self.per_shard { first } else { at + 1 }
    }

    /// Looks for a key without a lock; see the module.
    #[inline(always)]
    pub fn look(&self, hash: u64, key: K::Words) -> Look<'_, V> {
        let home = self.home(hash);
        let group = self.group(home);
        let seen = group.sequence.load(Ordering::Acquire);
        let lanes = group.tags.equal_to(tag_of(hash));
        // As a rule the first slot with the tag in the home group is the one.
        if let Some(lane) = lanes.first() {
            let slot = group.slot(lane);
            if slot.key.load() == key {
                return group.seen(lane, slot, seen);
            }
        }
        self.look_on(home, (seen, lanes), hash, key)
    }

    /// Goes on from there.
    #[inline(always)]
    fn look_on(&self, home: usize, (mut seen, mut lanes): (u32, Lanes), hash: u64, key: K::Words) -> Look<'_, V> {
        let mut at = home;
        for _ in 0..self.per_shard {
            let group = self.group(at);
            if let Some(lane) = lanes.find(|&lane| group.slot(lane).key.load() == key) {
                return group.seen(lane, group.slot(lane), seen);
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                break;
            }
            at = self.after(at, hash);
            seen = self.group(at).sequence.load(Ordering::Acquire);
            lanes = self.group(at).tags.equal_to(tag_of(hash));
        }
        Look::Absent
    }

    /// The groups that a search for this hash comes to, each once.
    pub fn walk(&self, hash: u64) -> impl Iterator<Item = usize> {
        let mut at = self.home(hash);
        (0..self.per_shard).map(move |_| {
            let here = at;
            at = self.after(here, hash);
            here
        })
    }

    /// The slot of a key. The shard's lock is held.
    pub fn find(&self, hash: u64, key: K::Words, _: &Writer) -> Option<u32> {
        for at in self.walk(hash) {
            let group = self.group(at);
            let mut lanes = group.tags.equal_to(tag_of(hash));
            if let Some(lane) = lanes.find(|&lane| group.slot(lane).key.load() == key) {
                return Some((at * SLOTS + lane) as u32);
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                return None;
            }
        }
        None
    }

    /// Places an entry in the first free slot of its walk; `None`: the shard has none. The key is not there yet.
    pub fn place(&self, hash: u64, key: K::Words, value: V, writer: &mut Writer) -> Option<u32> {
        let free = |at: usize| self.group(at).tags.equal_to(FREE).next().map(|lane| (at, lane));
        let (at, lane) = self.walk(hash).find_map(free)?;
        if !on(Fault::PassedNotCounted) {
            self.walk(hash).take_while(|&full| full != at).for_each(|full| self.count_passed(full, 1));
        }
        let group = self.group(at);
        let slot = group.slot(lane);
        let inside = self.enter(at, writer);
        group.mark(lane).store(0, Ordering::Relaxed);
        slot.key.store(key);
        slot.value.store(value.into_words());
        group.tags.set(lane, tag_of(hash) as u8);
        drop(inside);
        Some((at * SLOTS + lane) as u32)
    }

    /// Replaces the value of a slot's entry.
    pub fn set_value(&self, slot: u32, value: V, writer: &mut Writer) {
        let (at, lane) = split(slot);
        let _inside = self.enter(at, writer);
        self.group(at).slot(lane).value.store(value.into_words());
    }

    /// Removes the entry of a slot, whose key has this hash. The slot is free then or, if the order goes on naming it,
    /// dead.
    pub fn remove(&self, slot: u32, hash: u64, named: bool, writer: &mut Writer) {
        let (at, lane) = split(slot);
        let inside = self.enter(at, writer);
        self.group(at).tags.set(lane, if named { DEAD } else { FREE });
        drop(inside);
        self.walk(hash).take_while(|&full| full != at).for_each(|full| self.count_passed(full, -1));
    }

    /// Removes everything from a shard.
    pub fn clear(&self, writer: &mut Writer) {
        for at in self.groups_of(writer) {
            let inside = self.enter(at, writer);
            let group = self.group(at);
            group.tags.clear();
            drop(inside);
            group.passed.store(0, Ordering::Relaxed);
            group.prints.clear();
        }
    }

    pub fn groups_of(&self, writer: &Writer) -> std::ops::Range<usize> {
        writer.shard * self.per_shard..(writer.shard + 1) * self.per_shard
    }

    fn count_passed(&self, at: usize, by: i32) {
        let passed = &self.group(at).passed;
        let count = passed.load(Ordering::Relaxed);
        debug_assert!(by > 0 || count > 0 || on(Fault::PassedNotCounted), "an entry beyond was counted");
        passed.store(count.saturating_add_signed(by), Ordering::Relaxed);
    }

    /// Goes inside a group, until the answer is dropped.
    fn enter<'t>(&'t self, at: usize, writer: &'t mut Writer) -> Inside<'t> {
        debug_assert!(self.groups_of(writer).contains(&at), "the lock is that of the group's shard");
        let sequence = &self.group(at).sequence;
        let before = sequence.load(Ordering::Relaxed);
        debug_assert!(before & 1 == 0, "one writer at a time");
        if !on(Fault::SequenceStaysEven) {
            sequence.store(before.wrapping_add(1), Ordering::Relaxed);
        }
        if !on(Fault::WriterFenceMissing) {
            fence(Ordering::Release);
        }
        Inside { sequence, after: before.wrapping_add(2), _writer: writer }
    }

    /// The entry of a slot that has one. The shard's lock is held.
    pub fn entry(&self, slot: u32) -> (K::Words, V) {
        let (at, lane) = split(slot);
        let slot = self.group(at).slot(lane);
        (slot.key.load(), V::from_words(slot.value.load()))
    }

    /// The mark of a slot.
    pub fn mark_of(&self, slot: u32) -> &AtomicU8 {
        let (at, lane) = split(slot);
        self.group(at).mark(lane)
    }

    /// The prints of evicted keys whose home is that of this hash. The shard's lock is held.
    pub fn prints(&self, hash: u64) -> &Prints {
        &self.group(self.home(hash)).prints
    }
}

/// What `validate` looks at.
#[cfg(all(test, not(feature = "loom")))]
impl<K: Plain, V: Plain> Table<K, V> {
    pub fn tag(&self, slot: u32) -> u8 {
        let (at, lane) = split(slot);
        self.group(at).tags.get(lane)
    }

    pub fn sequence(&self, at: usize) -> u32 {
        self.group(at).sequence.load(Ordering::Relaxed)
    }

    pub fn passed(&self, at: usize) -> u32 {
        self.group(at).passed.load(Ordering::Relaxed)
    }
}

impl<K: Plain, V: Plain> Slots for Table<K, V> {
    fn mark(&self, slot: u32) -> u8 {
        self.mark_of(slot).load(Ordering::Relaxed)
    }

    fn set_mark(&self, slot: u32, mark: u8) {
        self.mark_of(slot).store(mark, Ordering::Relaxed);
    }

    fn bury(&self, slot: u32) -> bool {
        let (at, lane) = split(slot);
        let tags = &self.group(at).tags;
        let dead = tags.get(lane) == DEAD;
        if dead {
            // No reader asks for this tag, nor for the one before: the sequence stays.
            tags.set(lane, FREE);
        }
        dead
    }

    fn ahead(&self, slot: u32) {
        let (at, lane) = split(slot);
        prefetch(&self.group(at).tags);
        prefetch(self.group(at).slot(lane));
    }
}

/// A writer inside a group.
struct Inside<'t> {
    sequence: &'t AtomicU32,
    after: u32,
    _writer: &'t mut Writer,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let order = if on(Fault::LeavesUnpublished) { Ordering::Relaxed } else { Ordering::Release };
        self.sequence.store(self.after, order);
    }
}

#[inline(always)]
fn split(slot: u32) -> (usize, usize) {
    (slot as usize / SLOTS, slot as usize % SLOTS)
}
