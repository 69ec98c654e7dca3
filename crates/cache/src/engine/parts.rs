//! The table for caches that keep their entries' rules to themselves: what they know under a lock, a budget, an order.
//!
//! A table has *parts*, each with one [`Writer`] and without a lock. The cache keeps a writer where it keeps all else
//! that it knows of the part, under its lock. [`Readers`] look into all parts without one.
//!
//! ```text
//! look   -> reclaim.rs: a guard -> segment.rs: directory, segment, words -> places.rs: place, item
//! write  -> numbers.rs: a number -> places.rs: its place -> segment.rs: a word -> due: what is out of sight
//! after it, without the lock: Readers::retire -> reclaim.rs
//! ```
//!
//! # What a reader may conclude
//!
//! * **A hit is of one moment**: that in which the word of its place was read, which says all of the item.
//! * **A miss is of one moment**, as `segment.rs` says of words. A place is named once. A key's item stays in its place
//!   as long as its key is there. A place that has gone to another key since its word was read is a word that was
//!   cleared since.
//! * **The second look is one load.** [`Sight::holds`] reads the word of the place again. As long as the guard is there
//!   the same word is the same item, unmarked.
//!
//! # Publication
//!
//! A cache that publishes several keys as a whole marks all that are in ([`Writer::set_marked`]), puts each new item
//! in marked, and takes the marks away. Readers look at all keys, give up at a mark, and look at all again.
//!
//! **No reader finds one key old and another new.** Let the reader have the new item of `b`, unmarked. It has read a
//! word that was stored when the mark was taken away (release, read behind an acquire fence). The publication came to
//! each key `a` before that. If `a` was in, it was marked, and the second look at `a` sees the mark or what came later.
//! If it was not in by then, who took it out did so under the lock under which the publication came to it, before. So
//! the second look sees that its word is another one. From the first coming on, nothing but the publication puts `a`
//! in: that is the cache's part (`docs/guarantees.md`, C).

use std::sync::Arc;

use crate::sync::{CHECKED, Mutex, MutexGuard};

use super::boxed::{Own, is_addressable};
use super::numbers::{CHUNK, Numbers};
use super::places::{Chunk, Held, Item, Kept, Keyed, NUMBERS_MAX, Place};
use super::reclaim::{Collector, Guard};
use super::segment::{Index, NoPlace, Old, Root};
use crate::mutation::{Fault, on};
use crate::policy::Slot;

/// What is due at once, in items and in weight: it is kept until there is so much of it, to look at all guards once.
const DUE_MAX: (usize, usize) = (if CHECKED { 1 } else { 64 }, 8 << 10);

/// Places in a guard's seat for what is counted.
const HITS: usize = 0;
const MISSES: usize = 1;

/// What readers have of a table. See the module.
pub struct Readers<A>(Arc<Common<A>>);

struct Common<A> {
    collector: Collector<Gone<A>>,
    roots: Box<[Apart<Root<Place<A>>>]>,
    /// What writers leave that end before their readers.
    left: Mutex<Vec<Left<A>>>,
}

/// Alone on its lines of memory: what is written is nothing that readers begin at.
#[repr(align(128))]
struct Apart<P>(P);

type Left<A> = (Index<Place<A>>, Vec<Option<Own<Chunk<A>>>>);

/// What is out of sight. Owners are kept to be dropped.
enum Gone<A> {
    Item(Held<A>),
    #[expect(dead_code, reason = "it is kept to be dropped")]
    Chunk(Own<Chunk<A>>),
    Table(Old<Place<A>>),
}

impl<A> From<Old<Place<A>>> for Gone<A> {
    fn from(old: Old<Place<A>>) -> Gone<A> {
        Gone::Table(old)
    }
}

/// What is out of readers' sight and is retired when the part's lock is not held any more: [`Readers::retire`].
#[must_use]
pub struct Due<A> {
    gone: Vec<Gone<A>>,
    weight: usize,
}

impl<A> Due<A> {
    const NONE: Due<A> = Due { gone: Vec::new(), weight: 0 };

    /// Parts of the table weigh what they take, as items do.
    fn weigh_from(&mut self, first: usize) {
        let bytes = |gone: &Gone<A>| match gone {
            Gone::Item(_) => 0,
            Gone::Chunk(_) => size_of::<Chunk<A>>(),
            Gone::Table(old) => old.bytes(),
        };
        self.weight += self.gone[first..].iter().map(bytes).sum::<usize>();
    }
}

/// What changes one part of a table.
pub struct Writer<A> {
    common: Arc<Common<A>>,
    part: usize,
    index: Index<Place<A>>,
    numbers: Numbers,
    chunks: Vec<Option<Own<Chunk<A>>>>,
    len: usize,
    /// That of the entry that came in last. Guards end long before one comes again.
    generation: u32,
    due: Due<A>,
}

/// What a reader found.
pub struct Sighted<'g, A> {
    /// What is kept.
    pub item: Item<'g, A>,
    /// Where it is kept, for the second look and for a hit.
    pub sight: Sight<'g, A>,
}

/// Where a reader has found something, and what.
pub struct Sight<'g, A> {
    place: &'g Place<A>,
    seen: Kept<'g, A>,
}

impl<A> Clone for Sight<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Sight<'_, A> {}

impl<'g, A> Sight<'g, A> {
    /// Second look: whether the same is there, and not being published.
    #[inline]
    pub fn holds(self) -> bool {
        !self.seen.is_marked() && self.place.holds(self.seen)
    }

    /// What is there now.
    pub fn now(self, guard: &'g Guard<'_>) -> Option<Sighted<'g, A>> {
        Sighted::at(self.place, guard)
    }

    /// Its publication is not over.
    #[inline]
    pub fn is_marked(self) -> bool {
        self.seen.is_marked()
    }

    /// Leaves a mark: it was hit.
    #[inline]
    pub fn touch(self) {
        self.place.touch();
    }

    /// The entry that was seen, as its slot and a generation of that, for [`Writer::has`]. `None`: another state of it
    /// is there by now, or another entry.
    #[inline]
    pub fn entry(self) -> Option<(Slot, u32)> {
        let generation = self.place.generation();
        self.place.holds(self.seen).then(|| (self.slot(), generation))
    }

    /// By which number the part's writer knows it.
    pub fn slot(self) -> Slot {
        self.place.number()
    }
}

impl<'g, A> Sighted<'g, A> {
    #[inline(always)]
    fn at(place: &'g Place<A>, guard: &'g Guard<'_>) -> Option<Sighted<'g, A>> {
        let seen = place.look(guard);
        Some(Sighted { item: seen.item()?, sight: Sight { place, seen } })
    }
}

impl<A: Keyed> Readers<A> {
    /// An empty table of so many parts, with their writers.
    pub fn new(parts: usize) -> (Readers<A>, Vec<Writer<A>>) {
        let (indexes, roots): (Vec<_>, Vec<_>) = (0..parts).map(|_| Index::new(0)).unzip();
        let roots = roots.into_iter().map(Apart).collect();
        let common = Arc::new(Common { collector: Collector::new(), roots, left: Mutex::new(Vec::new()) });
        let writer = |(part, index)| Writer {
            common: common.clone(),
            part,
            index,
            numbers: Numbers::new(),
            chunks: Vec::new(),
            len: 0,
            generation: 0,
            due: Due::NONE,
        };
        (Readers(common.clone()), indexes.into_iter().enumerate().map(writer).collect())
    }

    /// What is found under it stays until it is dropped. It is to be dropped soon: until then nothing is that was taken
    /// out.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.0.collector.pin()
    }

    /// Looks for what has this hash, in its part, and of which `is` says so. It counts no hit. Under the guard of
    /// another table nothing is found.
    #[inline]
    pub fn look<'g>(
        &'g self,
        (part, hash): (usize, u64),
        guard: &'g Guard<'_>,
        is: impl Fn(Item<'g, A>) -> bool,
    ) -> Option<Sighted<'g, A>> {
        let mut found = None;
        self.root(part, guard)?.look(hash, guard, |place| {
            found = Sighted::at(place, guard).filter(|sighted| is(sighted.item));
            found.is_some()
        })?;
        found
    }

    /// Asks for the memory in which a search for this hash begins; goes on at once, here as in what follows.
    #[inline]
    pub fn ahead(&self, (part, hash): (usize, u64), guard: &Guard<'_>) {
        if let Some(root) = self.root(part, guard) {
            root.ahead(hash, guard);
        }
    }

    /// Asks for the memory of the place that a key with this hash probably has, and answers how to ask for its item's.
    #[inline]
    pub fn place_ahead<'g>(&'g self, (part, hash): (usize, u64), guard: &'g Guard<'_>) -> Option<Ahead<'g, A>> {
        let place = self.root(part, guard)?.probable(hash, guard)?;
        crate::ahead::prefetch(place);
        Some(Ahead(place))
    }

    #[inline(always)]
    fn root(&self, part: usize, guard: &Guard<'_>) -> Option<&Root<Place<A>>> {
        let ours = self.0.collector.is_guarded_by(guard);
        debug_assert!(ours, "the guard is this table's");
        self.0.roots.get(part).filter(|_| ours).map(|root| &root.0)
    }

    /// Has what was due dropped when no guard may see it; `drops` is given what may be dropped now. The caller holds no
    /// lock of a part.
    pub fn retire(&self, due: Due<A>, mut drops: impl FnMut(Held<A>)) {
        let Due { gone, weight } = due;
        self.0.collector.retire_with(gone, weight, |gone| items(gone, &mut drops));
    }

    /// Drops what may be dropped now, as [`Readers::retire`] does.
    pub fn collect(&self, mut drops: impl FnMut(Held<A>)) {
        self.0.collector.collect_with(|gone| items(gone, &mut drops));
    }

    /// The weight of all that was retired and is not dropped yet, since guards may see it.
    pub fn deferred(&self) -> usize {
        self.0.collector.deferred()
    }

    /// Counts a hit, or a miss. No other thread writes where this one does.
    #[inline]
    pub fn count(&self, hit: bool, guard: &Guard<'_>) {
        guard.count(if hit { HITS } else { MISSES });
    }

    /// Hits and misses that were counted, ever.
    pub fn counted(&self) -> (u64, u64) {
        let counts = self.0.collector.counts();
        (counts[HITS], counts[MISSES])
    }
}

/// A place whose memory was asked for.
pub struct Ahead<'g, A>(&'g Place<A>);

impl<A> Ahead<'_, A> {
    /// Asks for the memory of the item that is there.
    #[inline]
    pub fn item(&self, guard: &Guard<'_>) {
        self.0.ahead(guard);
    }
}

/// What is an item is the caller's to drop; the rest goes.
fn items<A>(gone: Vec<Gone<A>>, drops: &mut impl FnMut(Held<A>)) {
    for gone in gone {
        if let Gone::Item(held) = gone {
            drops(held);
        }
    }
}

impl<A: Keyed> Writer<A> {
    /// The number of the entry with this hash of which `is` says so.
    pub fn find(&self, hash: u64, is: impl Fn(Item<'_, A>) -> bool) -> Option<Slot> {
        let found = self.index.find(hash, |place| place.look_locked(&self.index.leave).item().is_some_and(&is));
        found.map(Place::number)
    }

    fn place(&self, slot: Slot) -> Option<&Place<A>> {
        self.chunks.get(slot as usize / CHUNK)?.as_ref()?.get(slot as usize % CHUNK)
    }

    /// What is kept under a number.
    pub fn get(&self, slot: Slot) -> Option<Item<'_, A>> {
        self.place(slot)?.look_locked(&self.index.leave).item()
    }

    /// Puts an item of a key in that is not there, with the hash that its key has; its number. If there is no place for
    /// it, since too many keys share their hashes' bits, it comes back.
    pub fn insert(&mut self, hash: u64, held: Held<A>, marked: bool) -> Result<Slot, Held<A>> {
        let slot = self.numbers.take();
        let at = slot as usize / CHUNK;
        self.chunks.resize_with(self.chunks.len().max(at + 1), || None);
        let number = |place| (at * CHUNK + place) as Slot;
        let make = || Own::new(std::array::from_fn(|place| Place::empty(number(place))));
        let chunk: &Own<Chunk<A>> = self.chunks[at].get_or_insert_with(make);
        let place = &chunk[slot as usize % CHUNK];
        self.generation = self.generation.wrapping_add(1);
        place.begin(self.generation);
        let refused = match is_addressable(place) && slot < NUMBERS_MAX {
            true => place.put(held, marked).err(),
            false => Some(held),
        };
        let before = self.due.gone.len();
        let refused = refused.or_else(|| {
            let root = &self.common.roots[self.part].0;
            match self.index.insert(root, (place, hash), false, &mut self.due.gone) {
                Ok(()) => None,
                Err(NoPlace) => place.take(),
            }
        });
        self.due.weigh_from(before);
        match refused {
            None => {
                self.len += 1;
                Ok(slot)
            }
            Some(held) => {
                self.free(slot);
                Err(held)
            }
        }
    }

    /// Puts another item of its key in an entry's place, marked if that was or if `marks`; hits stay. One that can't be
    /// kept comes back, and what was there stays. `weight` is that of what was there.
    pub fn replace(&mut self, slot: Slot, held: Held<A>, marks: bool, weight: usize) -> Result<(), Held<A>> {
        let Some(place) = self.place(slot) else { return Err(held) };
        let marked = marks || place.look_locked(&self.index.leave).is_marked();
        let old = place.put(held, marked)?;
        self.retires(old, weight);
        Ok(())
    }

    /// Takes an entry out, whose key has this hash; whether it was there. `weight` is that of what was there.
    pub fn remove(&mut self, slot: Slot, hash: u64, weight: usize) -> bool {
        let Some(place) = self.chunks.get(slot as usize / CHUNK).and_then(Option::as_ref) else { return false };
        let place = &place[slot as usize % CHUNK];
        if place.look_locked(&self.index.leave).item().is_none() {
            return false;
        }
        let root = &self.common.roots[self.part].0;
        let before = self.due.gone.len();
        let unnamed = self.index.remove(root, (place, hash), &mut self.due.gone);
        self.due.weigh_from(before);
        let old = place.take();
        self.retires(old, weight);
        self.len -= 1;
        // A word that is not found, since an item said another hash, still names the place: it stays, and is never
        // given to another key.
        debug_assert!(unnamed, "an item's hash is what it was");
        if unnamed {
            self.free(slot);
        }
        true
    }

    fn retires(&mut self, held: Option<Held<A>>, weight: usize) {
        self.due.weight += weight;
        self.due.gone.extend(held.map(Gone::Item));
    }

    fn free(&mut self, slot: Slot) {
        if let Some(goes) = self.numbers.give_back(slot) {
            let before = self.due.gone.len();
            self.due.gone.extend(self.chunks[goes].take().map(Gone::Chunk));
            self.due.weigh_from(before);
            self.chunks.truncate(self.numbers.bound() / CHUNK);
        }
    }

    /// Of an empty part: the numbers begin again as those of a new one.
    pub fn begin_anew(&mut self) {
        debug_assert!(self.index.is_empty(), "it is empty");
        if self.index.is_empty() {
            self.numbers = Numbers::new();
            let before = self.due.gone.len();
            self.due.gone.extend(self.chunks.drain(..).flatten().map(Gone::Chunk));
            self.due.weigh_from(before);
        }
    }

    /// What is to be retired, once it is so much.
    pub fn due(&mut self) -> Option<Due<A>> {
        let (items, weight) = DUE_MAX;
        let due = self.due.gone.len() >= items || self.due.weight >= weight;
        due.then(|| std::mem::replace(&mut self.due, Due { gone: Vec::with_capacity(items), weight: 0 }))
    }

    /// Sets the mark of an entry's publication.
    pub fn set_marked(&mut self, slot: Slot, marked: bool) {
        if let Some(place) = self.place(slot) {
            place.set_marked(marked);
        }
    }

    /// Counts a hit, up to what marks count.
    pub fn touch(&mut self, slot: Slot) {
        if let Some(place) = self.place(slot) {
            place.touch();
        }
    }

    /// The hits since they were taken last.
    pub fn touches(&self, slot: Slot) -> u8 {
        self.place(slot).map_or(0, Place::touches)
    }

    /// The hits since the last call.
    pub fn take_touches(&mut self, slot: Slot) -> u8 {
        self.place(slot).map_or(0, Place::take_touches)
    }

    /// Whether the entry that a reader has found in this slot, of this generation, is still there.
    pub fn has(&self, slot: Slot, generation: u32) -> bool {
        let same = |place: &&Place<A>| place.generation() == generation || on(Fault::GenerationIgnored);
        self.place(slot).filter(same).is_some_and(|place| place.look_locked(&self.index.leave).item().is_some())
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All numbers in use are below.
    pub fn bound(&self) -> usize {
        self.numbers.bound()
    }

    /// All entries, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Item<'_, A>)> {
        let places = self.chunks.iter().flatten().flat_map(|chunk| chunk.iter());
        places.filter_map(|place| Some((place.number(), place.look_locked(&self.index.leave).item()?)))
    }

    /// Bytes of the table: words and places.
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.chunks.iter().flatten().count() * size_of::<Chunk<A>>()
    }

    /// Panics if it contradicts itself; for tests.
    pub fn validate(&self) {
        self.numbers.validate();
        assert_eq!(self.chunks.len() * CHUNK, self.numbers.bound(), "chunks of the numbers");
        let mut named: Vec<Slot> = self.index.validate().into_iter().map(Place::number).collect();
        named.sort_unstable();
        assert!(self.iter().map(|(slot, _)| slot).eq(named.iter().copied()), "what is kept is named once");
        assert_eq!(named.len(), self.len, "entries are counted");
    }
}

impl<A> Drop for Writer<A> {
    /// Readers may be there still: what they come to stays until they are gone, too.
    fn drop(&mut self) {
        let index = std::mem::replace(&mut self.index, Index::new(0).0);
        let chunks = std::mem::take(&mut self.chunks);
        self.left().push((index, chunks));
        let Due { gone, weight } = std::mem::replace(&mut self.due, Due::NONE);
        self.common.collector.retire(gone, weight);
    }
}

impl<A> Writer<A> {
    fn left(&self) -> MutexGuard<'_, Vec<Left<A>>> {
        self.common.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
