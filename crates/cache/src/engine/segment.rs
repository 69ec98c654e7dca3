//! The table of a shard whose entries are records: it grows and shrinks by segments.
//!
//! A *segment* is a small table: groups of seven words, one line of memory each, with a count of the words that were
//! placed beyond the group because it was full. A word stays where it is as long as its segment is there. The
//! *directory* names the segment of each prefix of the hash; a segment that is named by a shorter prefix stands there
//! more than once (extendible hashing: Fagin and others, 1979). One that has no room is split in two by the next bit
//! of the hash, two that are nearly empty are joined. So no operation moves more than [`SPLITS_MAX`] segments' words,
//! whatever the cache holds, and nothing that an order of eviction knows changes: it names records by other numbers.
//!
//! | bits of the hash | say |
//! |---|---|
//! | the highest | the shard |
//! | those below, [`DEPTH_MAX`] at most | the segment |
//! | 16 to 20 | the home group in the segment |
//! | 0 to 15 | the print |
//!
//! # Readers
//!
//! A reader follows directory, segment and words under a guard and never looks twice.
//!
//! * **A hit is of one moment**: that in which its word was read. The word names the record by itself.
//! * **A miss is of one moment too.** An entry that is there as long as the search takes has a word to which no writer
//!   stores, and counts in `passed` of each group from its home on to its own; so the search finds it. Words do not
//!   move within a segment: what was absent where the search had been and is gone where it comes to was absent in
//!   between.
//! * **A reader in a segment that was split or joined** sees the state at the moment in which others took its place:
//!   from then on nobody writes to it, and until then it was the shard's. The reader found it before that moment and
//!   reads after it, so the moment lies within its search. The words are copied before the new segments are named, with
//!   release; the old one is retired after its last name was overwritten.

mod group;
mod validate;

use crate::ahead::prefetch;
use crate::mutation::{Fault, on};
use crate::sync::{CHECKED, Ordering};

use super::boxed::{At, Entry, Leave, Named, Own, Word};
use super::reclaim::Guard;
use super::slab::Slab;
pub(super) use group::SEGMENT;
use group::{GROUPS, HOME_SHIFT, Segment};

/// A segment is split before it has this many words: searches beyond full groups would be long.
const FULL: usize = SEGMENT - SEGMENT / 16;

/// Two segments are joined when they have this many words together.
const JOINED: usize = if CHECKED { 1 } else { SEGMENT * 3 / 8 };

/// Segments that one operation splits, at most.
pub(super) const SPLITS_MAX: usize = 4;

/// Bits of the hash that tell segments apart, at most.
pub(super) const DEPTH_MAX: u32 = 24;

/// Names in the directory for each segment, at most: hashes that share many bits make it no longer than that.
const NAMES_MAX: usize = 16;

#[cfg(not(feature = "loom"))]
type Names<R> = Box<[Named<Segment<R>>]>;
/// A model that leaves a rule out follows them when they were dropped.
#[cfg(feature = "loom")]
type Names<R> = std::mem::ManuallyDrop<Box<[Named<Segment<R>>]>>;

/// The names of all segments, by prefix.
pub(super) struct Directory<R> {
    depth: u32,
    names: Names<R>,
}

impl<R> Directory<R> {
    fn new(depth: u32, names: Box<[Named<Segment<R>>]>) -> Directory<R> {
        #[cfg(feature = "loom")]
        let names = std::mem::ManuallyDrop::new(names);
        Directory { depth, names }
    }

    /// The place of the name for this hash, whose highest `above` bits are the shard's.
    #[inline(always)]
    fn at(&self, hash: u64, above: u32) -> usize {
        // In two shifts, since a depth of 0 would be a shift by 64.
        ((hash << above >> 1) >> (63 - self.depth)) as usize
    }
}

/// What readers of a shard begin at.
pub(super) struct Root<R> {
    directory: Named<Directory<R>>,
    /// Bits of the hash that are the shard's.
    above: u32,
}

impl<R> Root<R> {
    /// Looks for the entry with this hash of which `is` says so, without a lock.
    #[inline(always)]
    pub fn look<'g>(&self, hash: u64, guard: &'g Guard<'_>, mut is: impl FnMut(&'g R) -> bool) -> Option<Here<'g, R>> {
        let segment = self.segment(hash, guard);
        for group in segment.walk(hash) {
            for word in &group.words {
                let seen = word.look(guard);
                if seen.may_be(hash)
                    && let Some(entry) = seen.entry()
                    && is(entry)
                {
                    return Some(Here { entry, seen });
                }
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        None
    }

    #[inline(always)]
    fn segment<'g>(&self, hash: u64, guard: &'g Guard<'_>) -> &'g Segment<R>
    where
        R: 'g,
    {
        let directory = self.directory.follow(guard);
        directory.names[directory.at(hash, self.above)].follow(guard)
    }

    /// Asks for the memory of the group in which a search for this hash begins.
    pub fn ahead(&self, hash: u64, guard: &Guard<'_>) {
        let segment = self.segment(hash, guard);
        prefetch(&segment.groups[(hash >> HOME_SHIFT) as usize % GROUPS]);
    }

    /// The entry that a key with this hash probably has: the first in its home group with its print.
    #[inline]
    pub fn probable<'g>(&self, hash: u64, guard: &'g Guard<'_>) -> Option<&'g R>
    where
        R: 'g,
    {
        let group = self.segment(hash, guard).walk(hash).next()?;
        let seen = group.words.iter().map(|word| word.look(guard));
        seen.filter(|seen| seen.may_be(hash)).find_map(At::entry)
    }

    /// The entries of the segment in which this hash falls, from the hash on, and the first hash beyond it, if there is
    /// one. Who goes on from there comes to each entry once that is in all the time: no entry changes its hash, and of
    /// a segment that was joined since with the one before, what comes before is left out.
    pub fn around<'g>(&self, hash: u64, guard: &'g Guard<'_>) -> (impl Iterator<Item = Here<'g, R>>, Option<u64>)
    where
        R: Entry + 'g,
    {
        let segment = self.segment(hash, guard);
        let last = hash | u64::MAX >> (self.above + segment.depth());
        let seen = segment.words().map(|word| word.look(guard));
        let here = seen.filter_map(|seen| Some(Here { entry: seen.entry()?, seen }));
        (here.filter(move |here| here.entry.hash() >= hash), last.checked_add(1))
    }

    /// Whether what was seen is still there, without a look at the entry.
    pub fn holds<'g>(&self, hash: u64, guard: &'g Guard<'_>, seen: At<'g, R>) -> bool {
        let segment = self.segment(hash, guard);
        for group in segment.walk(hash) {
            if group.words.iter().any(|word| word.look(guard) == seen) {
                return true;
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        false
    }
}

/// An entry, and its word as it was seen.
pub(super) struct Here<'g, R> {
    pub entry: &'g R,
    pub seen: At<'g, R>,
}

/// A part of the table that is out of the readers' sight.
pub(super) enum Old<R> {
    Segment(Own<Segment<R>>),
    Directory(Own<Directory<R>>),
}

impl<R> Old<R> {
    pub fn bytes(&self) -> usize {
        match self {
            Old::Segment(segment) => size_of_val(&**segment),
            Old::Directory(directory) => size_of_val(&*directory.names),
        }
    }
}

/// What the shard's lock guards of its table.
pub(super) struct Index<R> {
    directory: Own<Directory<R>>,
    segments: Slab<Own<Segment<R>>>,
    /// Segments of each depth.
    of_depth: [u32; DEPTH_MAX as usize + 1],
    above: u32,
    /// Words and names that were copied, ever: what growing has cost.
    pub copied: usize,
    pub leave: Leave,
}

/// The table has no place for a key, since too many share the bits of its hash.
pub(super) struct NoPlace;

impl<R> Index<R> {
    /// An empty table of a shard that is `above` bits of the hash, and what its readers begin at.
    pub fn new(above: u32) -> (Index<R>, Root<R>) {
        let mut segments = Slab::new();
        let segment = Own::new(Segment::new(0, segments.next()));
        let directory = Own::new(Directory::new(0, [Named::new(&segment)].into()));
        segments.insert(segment);
        let root = Root { directory: Named::new(&directory), above };
        let mut of_depth = [0; DEPTH_MAX as usize + 1];
        of_depth[0] = 1;
        (Index { directory, segments, of_depth, above, copied: 0, leave: Leave::new() }, root)
    }
}

impl<R: Entry> Index<R> {
    fn segment(&self, hash: u64) -> &Segment<R> {
        self.directory.names[self.directory.at(hash, self.above)].follow_locked(&self.leave)
    }

    /// The entry with this hash of which `is` says so.
    pub fn find(&self, hash: u64, is: impl Fn(&R) -> bool) -> Option<&R> {
        for group in self.segment(hash).walk(hash) {
            let seen = group.words.iter().map(|word| word.look_locked(&self.leave)).filter(|seen| seen.may_be(hash));
            if let Some(found) = seen.filter_map(At::entry).find(|entry| is(entry)) {
                return Some(found);
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        None
    }

    /// The word of an entry with this hash that has an owner, and how many groups it is beyond its home.
    fn word_of(&self, hash: u64, entry: &R) -> Option<(usize, &Word<R>)> {
        let is_it =
            |word: &&Word<R>| word.look_locked(&self.leave).entry().is_some_and(|other| std::ptr::eq(other, entry));
        let mut groups = self.segment(hash).walk(hash).enumerate();
        groups.find_map(|(step, group)| Some((step, group.words.iter().find(is_it)?)))
    }

    /// Names an entry in place of another one of the same key.
    pub fn replace(&self, old: &R, new: &R, marked: bool) {
        let found = self.word_of(old.hash(), old);
        debug_assert!(found.is_some(), "an entry that has an owner has a word");
        if let Some((_, word)) = found {
            word.name(new, new.hash(), marked);
        }
    }

    /// Sets the mark of an entry's publication.
    pub fn set_marked(&self, entry: &R, marked: bool) {
        let found = self.word_of(entry.hash(), entry);
        debug_assert!(found.is_some(), "an entry that has an owner has a word");
        if let Some((_, word)) = found {
            word.set_marked(marked);
        }
    }

    /// Names an entry of a key that is not there yet.
    pub fn insert<G: From<Old<R>>>(
        &mut self,
        root: &Root<R>,
        (entry, hash): (&R, u64),
        marked: bool,
        retired: &mut Vec<G>,
    ) -> Result<(), NoPlace> {
        for _ in 0..SPLITS_MAX {
            if self.segment(hash).len() < FULL {
                break;
            }
            if !self.split(root, hash, retired) {
                break;
            }
        }
        let word = self.segment(hash).place(hash, &self.leave).ok_or(NoPlace)?;
        word.name(entry, hash, marked);
        Ok(())
    }

    /// Takes the name of an entry with this hash away. False: it has no name where its hash says. Of a hash that does
    /// not change that is never so.
    pub fn remove<G: From<Old<R>>>(&mut self, root: &Root<R>, (entry, hash): (&R, u64), retired: &mut Vec<G>) -> bool {
        let Some((step, word)) = self.word_of(hash, entry) else { return false };
        let segment = self.segment(hash);
        word.clear();
        segment.count_passed(hash, step, -1);
        segment.count(-1);
        if segment.depth() > 0 && segment.len() <= JOINED {
            self.join(root, hash, retired);
        }
        true
    }

    /// Splits the segment of a hash; whether it could.
    fn split<G: From<Old<R>>>(&mut self, root: &Root<R>, hash: u64, retired: &mut Vec<G>) -> bool {
        let (depth, number) = (self.segment(hash).depth(), self.segment(hash).number());
        if depth == DEPTH_MAX {
            return false;
        }
        if depth == self.directory.depth {
            if self.directory.names.len() * 2 > self.segments.len().max(1) * NAMES_MAX {
                return false;
            }
            self.set_directory_depth(root, depth + 1, retired);
        }
        let halves = [0, 1].map(|_| {
            let number = self.segments.next();
            self.segments.insert(Own::new(Segment::new(depth + 1, number)))
        });
        if !on(Fault::HalvesNamedEmpty) {
            self.copy_words(number, halves);
        }
        let names = self.directory.names.len() >> depth;
        let first = self.directory.at(hash, self.above) / names * names;
        for (half, place) in halves.into_iter().zip([first, first + names / 2]) {
            self.name(place..place + names / 2, half);
        }
        if on(Fault::HalvesNamedEmpty) {
            self.copy_words(number, halves);
        }
        self.of_depth[depth as usize] -= 1;
        self.of_depth[depth as usize + 1] += 2;
        retired.extend(self.segments.remove(number).map(|segment| Old::Segment(segment).into()));
        true
    }

    /// Joins the segment of a hash with the one that differs from it by a bit, if that leaves room.
    fn join<G: From<Old<R>>>(&mut self, root: &Root<R>, hash: u64, retired: &mut Vec<G>) {
        let depth = self.segment(hash).depth();
        let other = hash ^ 1 << (64 - self.above - depth);
        let (one, two) = (self.segment(hash), self.segment(other));
        if two.depth() != depth || one.len() + two.len() > JOINED {
            return;
        }
        let numbers = [one.number(), two.number()];
        let whole = self.segments.next();
        self.segments.insert(Own::new(Segment::new(depth - 1, whole)));
        for number in numbers {
            self.copy_words(number, [whole, whole]);
        }
        let names = self.directory.names.len() >> (depth - 1);
        let first = self.directory.at(hash, self.above) / names * names;
        self.name(first..first + names, whole);
        self.of_depth[depth as usize] -= 2;
        self.of_depth[depth as usize - 1] += 1;
        for number in numbers {
            retired.extend(self.segments.remove(number).map(|segment| Old::Segment(segment).into()));
        }
        if depth == self.directory.depth && self.of_depth[depth as usize] == 0 {
            self.set_directory_depth(root, depth - 1, retired);
        }
    }

    /// Copies the words of a segment to two others, which are not in sight, by the bit of the hash that tells them
    /// apart.
    fn copy_words(&mut self, from: u32, to: [u32; 2]) {
        let (Some(from), [Some(zero), Some(one)]) = (self.segments.get(from), to.map(|at| self.segments.get(at)))
        else {
            return debug_assert!(false, "segments have owners");
        };
        // Each entry is asked for its hash and lies anywhere in memory: they are fetched all at the same time.
        from.words().filter_map(|word| word.look_locked(&self.leave).entry()).for_each(prefetch);
        let bit = 64 - self.above - zero.depth().max(1);
        for word in from.words() {
            let seen = word.look_locked(&self.leave);
            let Some(hash) = seen.entry().map(R::hash) else { continue };
            let half = if hash >> bit & 1 == 0 { zero } else { one };
            let place = half.place(hash, &self.leave);
            debug_assert!(place.is_some(), "a half has room for all");
            if let Some(place) = place {
                place.copy(seen);
            }
            self.copied += 1;
        }
    }

    /// Has these places name a segment.
    fn name(&mut self, places: std::ops::Range<usize>, number: u32) {
        self.copied += places.len();
        if let Some(segment) = self.segments.get(number) {
            self.directory.names[places].iter().for_each(|name| name.set(segment));
        }
    }

    /// Takes another directory, of twice or half the names.
    fn set_directory_depth<G: From<Old<R>>>(&mut self, root: &Root<R>, depth: u32, retired: &mut Vec<G>) {
        let old = &self.directory;
        let names = (0..1usize << depth).map(|place| {
            let before = if depth > old.depth { place / 2 } else { place * 2 };
            old.names[before].again(&self.leave)
        });
        let names: Box<[Named<Segment<R>>]> = names.collect();
        self.copied += names.len();
        let directory = Own::new(Directory::new(depth, names));
        root.directory.set(&directory);
        retired.push(Old::Directory(std::mem::replace(&mut self.directory, directory)).into());
    }

    /// Whether no word names anything.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(|(_, segment)| segment.len() == 0)
    }

    /// Memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.segments.len() * size_of::<Segment<R>>() + size_of_val(&*self.directory.names)
    }
}
