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

use crate::mutation::{Fault, on};
use crate::sync::{AtomicU32, Ordering};

use super::boxed::{Leave, Named, Own, Record, Seen, Word};
use super::pointers::Cause;
use super::reclaim::Guard;
use super::slab::Slab;
use super::table::prefetch;

/// Words of a group: with its count they are one line of memory.
pub(super) const WORDS: usize = if cfg!(feature = "loom") { 1 } else { 7 };

/// Groups of a segment.
pub(super) const GROUPS: usize = if cfg!(feature = "loom") { 2 } else { 32 };

const HOME_SHIFT: u32 = 16;

/// Words of a segment.
pub(super) const SEGMENT: usize = WORDS * GROUPS;

/// A segment is split before it has this many words: searches beyond full groups would be long.
const FULL: usize = SEGMENT - SEGMENT / 16;

/// Two segments are joined when they have this many words together.
const JOINED: usize = if cfg!(feature = "loom") { 1 } else { SEGMENT * 3 / 8 };

/// Segments that one operation splits, at most.
pub(super) const SPLITS_MAX: usize = 4;

/// Bits of the hash that tell segments apart, at most.
pub(super) const DEPTH_MAX: u32 = 24;

/// Names in the directory for each segment, at most: hashes that share many bits make it no longer than that.
const NAMES_MAX: usize = 16;

#[repr(C, align(64))]
struct Group<T> {
    words: [Word<T>; WORDS],
    /// Words that were placed beyond this group because it was full.
    passed: AtomicU32,
}

#[cfg(all(not(feature = "loom"), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Group<u64>>() == 64, "a group is one line of memory");

pub(super) struct Segment<T> {
    groups: [Group<T>; GROUPS],
    /// Bits of the hash that its entries share.
    depth: u32,
    /// Words that are not empty. The shard's lock is held by all that ask.
    len: AtomicU32,
    /// Where its owner lies. Set under the shard's lock before it is named.
    number: u32,
}

impl<T> Segment<T> {
    fn new(depth: u32, number: u32) -> Segment<T> {
        let group = |_| Group { words: std::array::from_fn(|_| Word::empty()), passed: AtomicU32::new(0) };
        Segment { groups: std::array::from_fn(group), depth, len: AtomicU32::new(0), number }
    }

    /// The groups that a search for this hash comes to, each once.
    #[inline(always)]
    fn walk(&self, hash: u64) -> impl Iterator<Item = &Group<T>> + Clone {
        let home = (hash >> HOME_SHIFT) as usize;
        (0..GROUPS).map(move |step| &self.groups[(home + step) % GROUPS])
    }

    /// An empty word for this hash; those that it is placed beyond count it.
    fn place(&self, hash: u64, leave: &Leave) -> Option<&Word<T>> {
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

    fn count_passed(&self, hash: u64, groups: usize, by: i32) {
        for group in self.walk(hash).take(groups) {
            let count = group.passed.load(Ordering::Relaxed);
            group.passed.store(count.saturating_add_signed(by), Ordering::Relaxed);
        }
    }

    fn count(&self, by: i32) {
        self.len.store(self.len.load(Ordering::Relaxed).saturating_add_signed(by), Ordering::Relaxed);
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    fn words(&self) -> impl Iterator<Item = &Word<T>> {
        self.groups.iter().flat_map(|group| &group.words)
    }
}

#[cfg(not(feature = "loom"))]
type Names<T> = Box<[Named<Segment<T>>]>;
/// A model that leaves a rule out follows them when they were dropped.
#[cfg(feature = "loom")]
type Names<T> = std::mem::ManuallyDrop<Box<[Named<Segment<T>>]>>;

/// The names of all segments, by prefix.
pub(super) struct Directory<T> {
    depth: u32,
    names: Names<T>,
}

impl<T> Directory<T> {
    fn new(depth: u32, names: Box<[Named<Segment<T>>]>) -> Directory<T> {
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
pub(super) struct Root<T> {
    directory: Named<Directory<T>>,
    /// Bits of the hash that are the shard's.
    above: u32,
}

impl<T> Root<T> {
    /// Looks for the record with this hash of which `is` says so, without a lock. That it has just this hash does not
    /// rest on `is`, which is a program's: by its hash a record is found again and taken out of sight.
    #[inline(always)]
    pub fn look<'g>(&self, hash: u64, guard: &'g Guard<'_>, is: impl Fn(&T) -> bool) -> Option<Here<'g, T>> {
        let directory = self.directory.follow(guard);
        let segment = directory.names[directory.at(hash, self.above)].follow(guard);
        for group in segment.walk(hash) {
            for word in &group.words {
                let seen = word.look(guard);
                if seen.may_be(hash)
                    && let Some(record) = seen.record()
                    && record.hash == hash
                    && is(record.item())
                {
                    return Some(Here { record, seen });
                }
            }
            if group.passed.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        None
    }

    /// Asks for the memory of the group in which a search for this hash begins.
    pub fn ahead(&self, hash: u64, guard: &Guard<'_>) {
        let directory = self.directory.follow(guard);
        let segment = directory.names[directory.at(hash, self.above)].follow(guard);
        prefetch(&segment.groups[(hash >> HOME_SHIFT) as usize % GROUPS]);
    }

    /// The records of the segment in which this hash falls, from the hash on, and the first hash beyond it, if there is
    /// one. Who goes on from there comes to each entry once that is in all the time: no entry changes its hash, and of
    /// a segment that was joined since with the one before, what comes before is left out.
    pub fn around<'g>(&self, hash: u64, guard: &'g Guard<'_>) -> (impl Iterator<Item = Here<'g, T>>, Option<u64>)
    where
        T: 'g,
    {
        let directory = self.directory.follow(guard);
        let segment = directory.names[directory.at(hash, self.above)].follow(guard);
        let last = hash | u64::MAX >> (self.above + segment.depth);
        let seen = segment.words().map(|word| word.look(guard));
        let here = seen.filter_map(|seen| Some(Here { record: seen.record()?, seen }));
        (here.filter(move |here| here.record.hash >= hash), last.checked_add(1))
    }

    /// Whether what was seen is still there, without a look at the record.
    pub fn holds<'g>(&self, hash: u64, guard: &'g Guard<'_>, seen: Seen<'g, T>) -> bool {
        let directory = self.directory.follow(guard);
        let segment = directory.names[directory.at(hash, self.above)].follow(guard);
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

/// A record, and its word as it was seen.
pub(super) struct Here<'g, T> {
    pub record: &'g Record<T>,
    pub seen: Seen<'g, T>,
}

/// What is out of the readers' sight.
#[expect(dead_code, reason = "owners are kept to be dropped")]
pub(super) enum Retired<T> {
    /// With the cause for which it left, if it was in.
    Record(Own<Record<T>>, Option<Cause>),
    Segment(Own<Segment<T>>),
    Directory(Own<Directory<T>>),
}

/// What the shard's lock guards of its table.
pub(super) struct Index<T> {
    directory: Own<Directory<T>>,
    segments: Slab<Own<Segment<T>>>,
    /// Segments of each depth.
    of_depth: [u32; DEPTH_MAX as usize + 1],
    above: u32,
    /// Words and names that were copied, ever: what growing has cost.
    pub copied: usize,
    pub leave: Leave,
}

/// The table has no place for a key, since too many share the bits of its hash.
pub(super) struct NoPlace;

impl<T> Index<T> {
    /// An empty table of a shard that is `above` bits of the hash, and what its readers begin at.
    pub fn new(above: u32) -> (Index<T>, Root<T>) {
        let mut segments = Slab::new();
        let segment = Own::new(Segment::new(0, segments.next()));
        let directory = Own::new(Directory::new(0, [Named::new(&segment)].into()));
        segments.insert(segment);
        let root = Root { directory: Named::new(&directory), above };
        let mut of_depth = [0; DEPTH_MAX as usize + 1];
        of_depth[0] = 1;
        (Index { directory, segments, of_depth, above, copied: 0, leave: Leave::new() }, root)
    }

    fn segment(&self, hash: u64) -> &Segment<T> {
        self.directory.names[self.directory.at(hash, self.above)].follow_locked(&self.leave)
    }

    /// The word of a record that has an owner, and how many groups it is beyond its home.
    fn word_of(&self, record: &Record<T>) -> Option<(usize, &Word<T>)> {
        let is_it =
            |word: &&Word<T>| word.look_locked(&self.leave).record().is_some_and(|other| std::ptr::eq(other, record));
        let mut groups = self.segment(record.hash).walk(record.hash).enumerate();
        let found = groups.find_map(|(step, group)| Some((step, group.words.iter().find(is_it)?)));
        debug_assert!(found.is_some(), "a record that has an owner has a word");
        found
    }

    /// Names a record in place of another one of the same key.
    pub fn replace(&self, old: &Record<T>, new: &Own<Record<T>>, marked: bool) {
        if let Some((_, word)) = self.word_of(old) {
            word.name(new, marked);
        }
    }

    /// Sets the mark of a record's publication.
    pub fn set_marked(&self, record: &Record<T>, marked: bool) {
        if let Some((_, word)) = self.word_of(record) {
            word.set_marked(marked);
        }
    }

    /// Names a record of a key that is not there yet.
    pub fn insert(
        &mut self,
        root: &Root<T>,
        record: &Own<Record<T>>,
        marked: bool,
        retired: &mut Vec<Retired<T>>,
    ) -> Result<(), NoPlace> {
        let hash = record.hash;
        for _ in 0..SPLITS_MAX {
            if self.segment(hash).len() < FULL {
                break;
            }
            if !self.split(root, hash, retired) {
                break;
            }
        }
        let word = self.segment(hash).place(hash, &self.leave).ok_or(NoPlace)?;
        word.name(record, marked);
        Ok(())
    }

    /// Takes the name of a record away.
    pub fn remove(&mut self, root: &Root<T>, record: &Record<T>, retired: &mut Vec<Retired<T>>) {
        let Some((step, word)) = self.word_of(record) else { return };
        let segment = self.segment(record.hash);
        word.clear();
        segment.count_passed(record.hash, step, -1);
        segment.count(-1);
        if segment.depth > 0 && segment.len() <= JOINED {
            self.join(root, record.hash, retired);
        }
    }

    /// Splits the segment of a hash; whether it could.
    fn split(&mut self, root: &Root<T>, hash: u64, retired: &mut Vec<Retired<T>>) -> bool {
        let (depth, number) = (self.segment(hash).depth, self.segment(hash).number);
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
        retired.extend(self.segments.remove(number).map(Retired::Segment));
        true
    }

    /// Joins the segment of a hash with the one that differs from it by a bit, if that leaves room.
    fn join(&mut self, root: &Root<T>, hash: u64, retired: &mut Vec<Retired<T>>) {
        let depth = self.segment(hash).depth;
        let other = hash ^ 1 << (64 - self.above - depth);
        let (one, two) = (self.segment(hash), self.segment(other));
        if two.depth != depth || one.len() + two.len() > JOINED {
            return;
        }
        let numbers = [one.number, two.number];
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
            retired.extend(self.segments.remove(number).map(Retired::Segment));
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
        let bit = 64 - self.above - zero.depth.max(1);
        for word in from.words() {
            let seen = word.look_locked(&self.leave);
            let Some(record) = seen.record() else { continue };
            let half = if record.hash >> bit & 1 == 0 { zero } else { one };
            let place = half.place(record.hash, &self.leave);
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
    fn set_directory_depth(&mut self, root: &Root<T>, depth: u32, retired: &mut Vec<Retired<T>>) {
        let old = &self.directory;
        let names = (0..1usize << depth).map(|place| {
            let before = if depth > old.depth { place / 2 } else { place * 2 };
            let segment = old.names[before].follow_locked(&self.leave);
            self.segments.get(segment.number).map(Named::new)
        });
        let names: Option<Box<[Named<Segment<T>>]>> = names.collect();
        debug_assert!(names.is_some(), "segments have owners");
        let Some(names) = names else { return };
        self.copied += names.len();
        let directory = Own::new(Directory::new(depth, names));
        root.directory.set(&directory);
        retired.push(Retired::Directory(std::mem::replace(&mut self.directory, directory)));
    }

    /// Memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.segments.len() * size_of::<Segment<T>>() + size_of_val(&*self.directory.names)
    }
}

/// Panics if the table contradicts itself; answers its records.
#[cfg(all(test, not(feature = "loom")))]
impl<T> Index<T> {
    pub fn validate(&self) -> Vec<&Record<T>> {
        let mut records = Vec::new();
        assert_eq!(self.directory.names.len(), 1 << self.directory.depth);
        let mut of_depth = [0; DEPTH_MAX as usize + 1];
        for (number, segment) in self.segments.iter() {
            assert_eq!(segment.number, number);
            of_depth[segment.depth as usize] += 1;
            let mut passed = [0; GROUPS];
            let here = records.len();
            for (at, group) in segment.groups.iter().enumerate() {
                for record in group.words.iter().filter_map(|word| word.look_locked(&self.leave).record()) {
                    assert!(std::ptr::eq(self.segment(record.hash), &**segment), "a record is in its segment");
                    let home = (record.hash >> HOME_SHIFT) as usize % GROUPS;
                    (0..(at + GROUPS - home) % GROUPS).for_each(|step| passed[(home + step) % GROUPS] += 1);
                    let reached = |other: &Group<T>| std::ptr::eq(other, group);
                    let on_the_way = segment.walk(record.hash).take_while(|other| !reached(other));
                    assert!(on_the_way.clone().all(|other| other.passed.load(Ordering::Relaxed) > 0), "it is found");
                    records.push(record);
                }
            }
            assert_eq!(segment.len(), records.len() - here, "words are counted");
            let counted: Vec<u32> = segment.groups.iter().map(|group| group.passed.load(Ordering::Relaxed)).collect();
            assert_eq!(counted, passed, "a group counts what was placed beyond it");
        }
        assert_eq!(of_depth, self.of_depth, "depths are counted");
        assert!(self.directory.depth == 0 || of_depth[self.directory.depth as usize] > 0, "no bit too many");
        records
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }
}
