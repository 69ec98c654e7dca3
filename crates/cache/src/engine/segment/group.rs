//! A segment: groups of words, each a line of memory.

use crate::mutation::{Fault, on};
use crate::sync::{AtomicU32, CHECKED, Ordering};

use super::super::boxed::{Leave, Word};

/// Words of a group: with its count they are one line of memory.
const WORDS: usize = if CHECKED { 1 } else { 7 };

/// Groups of a segment.
pub const GROUPS: usize = if CHECKED { 2 } else { 32 };

/// Where the home begins in a hash.
pub const HOME_SHIFT: u32 = 16;

/// Words of a segment.
pub const SEGMENT: usize = WORDS * GROUPS;

#[repr(C, align(64))]
pub struct Group<R> {
    pub words: [Word<R>; WORDS],
    /// Words that were placed beyond this group because it was full.
    pub passed: AtomicU32,
    /// Room that is left in the line: what the segment keeps for itself ([`Segment::number`], [`Segment::counts`]).
    of_segment: AtomicU32,
}

/// All of it is groups: a few bytes more would cost an allocator's next size, a quarter of it.
pub struct Segment<R> {
    pub groups: [Group<R>; GROUPS],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(CHECKED || size_of::<Segment<u64>>() == 64 * GROUPS, "a group is one line of memory");

/// Where the depth begins in a segment's counts; below it are the words.
const DEPTH_SHIFT: u32 = 16;

impl<R> Segment<R> {
    pub fn new(depth: u32, number: u32) -> Segment<R> {
        let group = |_| Group {
            words: std::array::from_fn(|_| Word::empty()),
            passed: AtomicU32::new(0),
            of_segment: AtomicU32::new(0),
        };
        let segment = Segment { groups: std::array::from_fn(group) };
        segment.groups[0].of_segment.store(number, Ordering::Relaxed);
        segment.groups[1].of_segment.store(depth << DEPTH_SHIFT, Ordering::Relaxed);
        segment
    }

    /// Where its owner lies.
    pub fn number(&self) -> u32 {
        self.groups[0].of_segment.load(Ordering::Relaxed)
    }

    /// Bits of the hash that its entries share, and words that are not empty.
    fn counts(&self) -> (u32, usize) {
        let counts = self.groups[1].of_segment.load(Ordering::Relaxed);
        (counts >> DEPTH_SHIFT, (counts & ((1 << DEPTH_SHIFT) - 1)) as usize)
    }

    pub fn depth(&self) -> u32 {
        self.counts().0
    }

    pub fn len(&self) -> usize {
        self.counts().1
    }

    pub fn count(&self, by: i32) {
        let counts = &self.groups[1].of_segment;
        counts.store(counts.load(Ordering::Relaxed).saturating_add_signed(by), Ordering::Relaxed);
    }

    /// The groups that a search for this hash comes to, each once.
    #[inline(always)]
    pub fn walk(&self, hash: u64) -> impl Iterator<Item = &Group<R>> + Clone {
        let home = (hash >> HOME_SHIFT) as usize;
        (0..GROUPS).map(move |step| &self.groups[(home + step) % GROUPS])
    }

    /// An empty word for this hash; those that it is placed beyond count it.
    pub fn place(&self, hash: u64, leave: &Leave) -> Option<&Word<R>> {
        for (step, group) in self.walk(hash).enumerate() {
            if let Some(word) = group.words.iter().find(|word| word.look_locked(leave).is_empty()) {
                if !on(Fault::PassedNotCounted) {
                    self.count_passed(hash, step, 1);
                }
                self.count(1);
                return Some(word);
            }
        }
        None
    }

    pub fn count_passed(&self, hash: u64, groups: usize, by: i32) {
        for group in self.walk(hash).take(groups) {
            let count = group.passed.load(Ordering::Relaxed);
            group.passed.store(count.saturating_add_signed(by), Ordering::Relaxed);
        }
    }

    pub fn words(&self) -> impl Iterator<Item = &Word<R>> {
        self.groups.iter().flat_map(|group| &group.words)
    }
}
