//! What lies apart from the table and is found through pointers: owners, names, and the words of the table.
//!
//! An [`Own`] is the sole owner of a boxed thing; owners lie in plain structures that a shard's lock guards. A
//! [`Named`] or a [`Word`] *names* such a thing to readers without owning it. Three rules make it sound to follow a
//! name:
//!
//! * **A name is of a living thing.** An owner is dropped by the cache's [`Collector`](super::reclaim::Collector), to
//!   which it was given when a search that begins at the shard's root did not come to it any more; or with the whole
//!   cache, when there is no reader. What was retired before may still name it: a search that is there began before.
//! * **Who follows a name holds a guard of the same cache**, taken before the name was loaded, for as long as it uses
//!   what it found; or the shard's lock, under which nothing of the shard is retired.
//! * **What is named is whole.** A name is stored with release and followed behind an acquire fence.
//!
//! # The word of a table
//!
//! | bits | of 64 | meaning |
//! |---|---|---|
//! | 48 to 63 | print | sixteen bits of the key's hash: what differs is another key, without a look at the entry |
//! | 1 to 47 | pointer | of the entry: a record, or a place (`places.rs`) |
//! | 0 | mark | the record's publication is not over |
//!
//! All zero is an empty slot. A pointer stays a pointer (`map_addr`), so that a checker can follow it. Each entry is
//! asked whether its address is below 2^48 ([`is_addressable`]); one whose address is not is refused, and so not
//! cached. Where addresses have 32 bits there is no room for a print, and every entry is looked at.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::mutation::{Fault, on};
use crate::sync::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, FENCED, Ordering, fence};

use super::reclaim::Guard;

const MARKED: usize = 1;
#[cfg(target_pointer_width = "64")]
const PRINT_SHIFT: u32 = 48;
/// What an address does not have.
#[cfg(target_pointer_width = "64")]
const PRINT: usize = 0xffff << PRINT_SHIFT;
#[cfg(not(target_pointer_width = "64"))]
const PRINT: usize = 0;

/// These bits of the hash are none of those that say where the key's home is (`segment.rs`).
#[inline(always)]
fn print_of(hash: u64) -> usize {
    #[cfg(target_pointer_width = "64")]
    return (hash as u16 as usize) << PRINT_SHIFT;
    #[cfg(not(target_pointer_width = "64"))]
    return 0 & hash as usize;
}

/// Leave to follow the names of one shard. It is kept under the shard's lock.
pub(super) struct Leave(());

impl Leave {
    /// Of a shard that is made.
    pub fn new() -> Leave {
        Leave(())
    }
}

/// The sole owner of a boxed thing that others may name.
pub(super) struct Own<P>(NonNull<P>, PhantomData<P>);

// SAFETY: an owner is to its thing what a box is.
unsafe impl<P: Send> Send for Own<P> {}
// SAFETY: as above.
unsafe impl<P: Sync> Sync for Own<P> {}

impl<P> Own<P> {
    pub fn new(thing: P) -> Own<P> {
        Own(NonNull::from(Box::leak(Box::new(thing))), PhantomData)
    }
}

impl<P> std::ops::Deref for Own<P> {
    type Target = P;

    fn deref(&self) -> &P {
        // SAFETY: it was made from a box and lives until this owner is dropped. From `new` on it is only shared.
        unsafe { self.0.as_ref() }
    }
}

impl<P> Drop for Own<P> {
    fn drop(&mut self) {
        // SAFETY: it was made from a box, and this is its only owner. By the module's rules no name of it is followed.
        #[cfg(not(feature = "loom"))]
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        // A model that leaves a rule out looks at what was dropped: its memory stays.
        // SAFETY: as above.
        #[cfg(feature = "loom")]
        unsafe {
            std::ptr::drop_in_place(self.0.as_ptr());
        }
    }
}

/// A name that readers follow.
pub(super) struct Named<P>(AtomicPtr<P>, PhantomData<Own<P>>);

impl<P> Named<P> {
    pub fn new(thing: &Own<P>) -> Named<P> {
        Named(AtomicPtr::new(thing.0.as_ptr()), PhantomData)
    }

    /// Names another thing. What was named before may be retired then.
    pub fn set(&self, thing: &Own<P>) {
        self.0.store(thing.0.as_ptr(), release());
    }

    /// Another name of the thing, which is not looked at: it may lie anywhere in memory. The shard's lock is held.
    pub fn again(&self, _: &Leave) -> Named<P> {
        Named(AtomicPtr::new(self.0.load(Ordering::Relaxed)), PhantomData)
    }

    /// The thing, as long as the guard is there.
    #[inline(always)]
    pub fn follow<'g>(&self, _: &'g Guard<'_>) -> &'g P {
        // SAFETY: the module's rules; the guard stands for what is followed, and acquire makes it whole.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }

    /// The same under the shard's lock.
    pub fn follow_locked<'w>(&self, _: &'w Leave) -> &'w P {
        // SAFETY: as above.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}

fn release() -> Ordering {
    if on(Fault::NamedUnpublished) { Ordering::Relaxed } else { Ordering::Release }
}

/// What the engine knows of an entry, and the entry. Under the mark it is not changed after it has been named.
pub(super) struct Record<T> {
    pub hash: u64,
    pub weight: usize,
    /// Where its owner lies. Set under the shard's lock before it is named.
    pub slot: AtomicU32,
    /// Hits; see `marks.rs`.
    pub mark: AtomicU8,
    /// Pins; changed under the shard's lock.
    pub pins: AtomicU16,
    #[cfg(feature = "loom")]
    alive: Alive,
    item: T,
}

impl<T> Record<T> {
    fn new(hash: u64, weight: usize, item: T) -> Record<T> {
        Record {
            hash,
            weight,
            slot: AtomicU32::new(0),
            mark: AtomicU8::new(0),
            pins: AtomicU16::new(0),
            #[cfg(feature = "loom")]
            alive: Alive(loom::cell::UnsafeCell::new(true)),
            item,
        }
    }

    /// It stands in no order: see `pointers/pins.rs`. The shard's lock is held.
    pub fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::Relaxed) > 0
    }

    #[inline(always)]
    pub fn item(&self) -> &T {
        #[cfg(feature = "loom")]
        // SAFETY: the checker lets no two threads in of which one writes.
        assert!(self.alive.0.with(|alive| unsafe { *alive }), "nothing is read after it was dropped");
        &self.item
    }
}

/// The models see a look at what is dropped meanwhile.
#[cfg(feature = "loom")]
struct Alive(loom::cell::UnsafeCell<bool>);

#[cfg(feature = "loom")]
impl Drop for Alive {
    fn drop(&mut self) {
        // What a failed model leaves lies as it lies.
        if std::thread::panicking() {
            return;
        }
        // SAFETY: as in `item`.
        self.0.with_mut(|alive| unsafe { *alive = false });
    }
}

impl<T> Own<Record<T>> {
    /// A record, and whether its address fits into a word.
    pub fn record(hash: u64, weight: usize, item: T) -> (Own<Record<T>>, bool) {
        let own = Own::new(Record::new(hash, weight, item));
        let fits = is_addressable(&*own);
        (own, fits)
    }

    /// The item again. The record was never named.
    pub fn into_item(self) -> T {
        let own = std::mem::ManuallyDrop::new(self);
        // SAFETY: it was made from a box, and its only owner is not dropped. Since it was never named, no other thread
        // has seen it.
        let record = unsafe { Box::from_raw(own.0.as_ptr()) };
        record.item
    }
}

/// What a word names.
pub(super) trait Entry {
    /// The hash of its key, as long as it is named. What a program computes of it may differ from time to time: then
    /// it is not found any more.
    fn hash(&self) -> u64;
}

impl<T> Entry for Record<T> {
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// Whether a word can name what lies at this address.
pub(super) fn is_addressable<R>(entry: &R) -> bool {
    std::ptr::from_ref(entry).addr() & (PRINT | MARKED) == 0 && !on(Fault::AddressTooWide)
}

/// A slot of the table: a name of an entry, with its print and its mark.
pub(super) struct Word<R>(AtomicPtr<R>, PhantomData<Own<R>>);

impl<R> Word<R> {
    pub fn empty() -> Word<R> {
        Word(AtomicPtr::new(std::ptr::null_mut()), PhantomData)
    }

    #[inline(always)]
    pub fn look<'g>(&self, _: &'g Guard<'_>) -> At<'g, R> {
        At(self.0.load(FENCED), PhantomData)
    }

    pub fn look_locked<'w>(&self, _: &'w Leave) -> At<'w, R> {
        At(self.0.load(Ordering::Relaxed), PhantomData)
    }

    /// Names an entry, which lies in an owner's thing and is addressable. The shard's lock is held, here as in what
    /// follows.
    pub fn name(&self, entry: &R, hash: u64, marked: bool) {
        let mark = if marked { MARKED } else { 0 };
        let word = std::ptr::from_ref(entry).cast_mut().map_addr(|address| address | print_of(hash) | mark);
        self.0.store(word, release());
    }

    /// Names what another word names, which is not seen by readers yet or not any more.
    pub fn copy(&self, seen: At<'_, R>) {
        self.0.store(seen.0, Ordering::Release);
    }

    pub fn set_marked(&self, marked: bool) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(!word.is_null(), "a record is marked");
        // With release, also for the record itself: a thread's later store does not stand for its earlier one. No model
        // finds it left out, since loom goes by the rule before C++20, by which it did.
        self.0.store(word.map_addr(|address| address & !MARKED | usize::from(marked)), Ordering::Release);
    }

    pub fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// A word as it was seen under a guard or a lock.
pub(super) struct At<'g, R>(*mut R, PhantomData<&'g R>);

impl<R> Clone for At<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for At<'_, R> {}

/// Two words are equal if they name one entry, under one mark.
impl<R> PartialEq for At<'_, R> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<'g, R> At<'g, R> {
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// Whether it may be the entry of a key with this hash. An empty word has the print zero.
    #[inline(always)]
    pub fn may_be(self, hash: u64) -> bool {
        self.0.addr() & PRINT == print_of(hash)
    }

    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0.addr() & MARKED != 0
    }

    /// The entry, if there is one.
    #[inline(always)]
    pub fn entry(self) -> Option<&'g R> {
        if self.0.is_null() {
            return None;
        }
        fence(Ordering::Acquire);
        // SAFETY: a word that is not empty is an entry's address with print and mark (`name`), of which nothing is left
        // here. By the module's rules the entry is there, since what `'g` stands for is older than the look at the
        // word; and it is whole, since the fence is behind that look, which read what was stored with release.
        Some(unsafe { &*self.0.map_addr(|address| address & !(PRINT | MARKED)) })
    }
}

/// An item's place as it was seen under a guard.
pub struct Seen<'g, T>(pub(super) At<'g, Record<T>>);

impl<T> Clone for Seen<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Seen<'_, T> {}

/// Two sights are equal if they are of one record, under one mark.
impl<T> PartialEq for Seen<'_, T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> std::fmt::Debug for Seen<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("marked", &self.0.is_marked()).finish_non_exhaustive()
    }
}
