//! Where a numbered entry is kept: a place holds an item, and another one when that is replaced.
//!
//! Words of the table name places, and places lie in chunks (`numbers.rs`). So an entry costs its word, sixteen bytes
//! of its place, and its item. A place is used again at once for another key: a reader asks the item that it has found
//! there which key it is of.
//!
//! # The word of a place
//!
//! It says all of the item, so that a reader that has read it has read the item of one moment.
//!
//! | bits | of 64 | meaning |
//! |---|---|---|
//! | 48 to 63 | length | of an item that is bytes; 0: it is boxed |
//! | 2 to 47 | pointer | to the bytes, or to the box |
//! | 1 | wrapped | what is boxed is the pointer to the bytes: their length or address does not fit |
//! | 0 | mark | the item's publication is not over |
//!
//! All zero is an empty place. A pointer stays a pointer (`map_addr`), so that a checker can follow it. Where addresses
//! have 32 bits there is no room for a length, and all bytes are wrapped.
//!
//! # Generations
//!
//! A place is used for one key after the other. Its *generation* tells them apart, for readers that say only later
//! which entry they have hit. It is stored, with release, after the word of the entry before was taken away, and before
//! that of the newcomer is there. A reader asks for the generation (acquire) and looks at the word again. If the word
//! is the one that it has seen, then the generation is that of the entry with this word. For a later generation comes
//! behind the store that took the word away, and an earlier one is older than the word.
//!
//! # Why an item that was found is there
//!
//! * **A place owns its item** from the moment at which its word says so until another word takes its place. Then the
//!   item is its writer's, which gives it to the [`Collector`](super::reclaim::Collector): out of sight first, then
//!   retired.
//! * **Who looks holds a guard of the same cache** for as long as it uses what it found, or is the part's only writer.
//! * **What is found is whole.** A word is stored with release and followed behind an acquire fence.
//! * **The same word is the same item.** As long as a guard is there no other item has the address, unless the same
//!   bytes, which are shared, came in again: those say the same.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use crate::ahead::prefetch_at;
use crate::mutation::{Fault, on};
use crate::sync::{AtomicPtr, AtomicU32, CHECKED, FENCED, Ordering, fence};

use super::boxed::{Entry, Leave};
use super::marks::MARK_MAX;
use super::numbers::CHUNK;
use super::reclaim::Guard;

const MARKED: usize = 1;
const WRAPPED: usize = 2;
#[cfg(target_pointer_width = "64")]
const LENGTH_SHIFT: u32 = 48;
/// What an address does not have.
#[cfg(target_pointer_width = "64")]
const LENGTH: usize = 0xffff << LENGTH_SHIFT;
#[cfg(not(target_pointer_width = "64"))]
const LENGTH: usize = 0;

/// The processor's unit of memory, in bytes.
const LINE_BYTES: usize = 64;

/// Units of an item that are asked for ahead: a header, a short name and a short value.
const LINES: usize = 3;

/// The length of bytes as it stands in a word, if it has room there.
fn length_bits(bytes: &[u8]) -> Option<usize> {
    #[cfg(target_pointer_width = "64")]
    return (1..=LENGTH >> LENGTH_SHIFT).contains(&bytes.len()).then_some(bytes.len() << LENGTH_SHIFT);
    #[cfg(not(target_pointer_width = "64"))]
    return None.filter(|_: &usize| bytes.is_empty());
}

#[inline(always)]
fn length_of(word: *mut ()) -> usize {
    #[cfg(target_pointer_width = "64")]
    return word.addr() >> LENGTH_SHIFT;
    #[cfg(not(target_pointer_width = "64"))]
    return 0 & word.addr();
}

#[inline(always)]
fn pointer_of(word: *mut ()) -> *mut () {
    word.map_addr(|address| address & !(LENGTH | WRAPPED | MARKED))
}

/// What a cache keeps of a key: bytes that may be shared with others, or anything else.
pub enum Held<A> {
    /// Bytes.
    Packed(Arc<[u8]>),
    /// Anything else.
    Apart(Box<A>),
}

/// What is kept, as its reader sees it.
pub enum Item<'g, A> {
    /// Bytes.
    Packed(Packed<'g>),
    /// Anything else.
    Apart(&'g A),
}

impl<A> Clone for Item<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Item<'_, A> {}

/// Bytes that are kept, without a count of this reference.
#[derive(Clone, Copy)]
pub struct Packed<'g>(*const [u8], PhantomData<&'g Arc<[u8]>>);

impl<'g> Packed<'g> {
    /// The bytes, as long as their keeper is there.
    #[inline(always)]
    pub fn bytes(self) -> &'g [u8] {
        // SAFETY: the pointer is that of an `Arc` that is there as long as `'g` (`From`, `Place::item`).
        unsafe { &*self.0 }
    }

    /// The bytes, counted: they stay as long as anybody has them.
    #[inline]
    pub fn share(self) -> Arc<[u8]> {
        // SAFETY: the pointer came from `Arc::into_raw`, or is the same (`From`), and the `Arc` is there as long as
        // `'g`. What is made of it here is not dropped, so that it stands for no count.
        let kept = ManuallyDrop::new(unsafe { Arc::from_raw(self.0) });
        Arc::clone(&kept)
    }
}

impl<'g> From<&'g Arc<[u8]>> for Packed<'g> {
    #[inline]
    fn from(bytes: &'g Arc<[u8]>) -> Packed<'g> {
        Packed(Arc::as_ptr(bytes), PhantomData)
    }
}

impl Deref for Packed<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<A> Held<A> {
    /// What a reader would see.
    #[inline]
    pub fn item(&self) -> Item<'_, A> {
        match self {
            Held::Packed(bytes) => Item::Packed(bytes.into()),
            Held::Apart(apart) => Item::Apart(apart),
        }
    }
}

/// What is kept together with the hash of its key.
pub trait Keyed: Sized {
    /// The hash of the item's key: the one under which it is put in. Of one item it is always the same, or the item is
    /// not found.
    fn hash(item: Item<'_, Self>) -> u64;
}

/// A place, with the number of its entry.
pub(super) struct Place<A> {
    word: AtomicPtr<()>,
    /// The number, above the hits ([`MARK`]). Where two store hits at once, both store the same number.
    number: AtomicU32,
    /// See the module.
    generation: AtomicU32,
    owns: PhantomData<Held<A>>,
}

/// Hits; see `marks.rs`.
const MARK: u32 = 0b11;
const MARK_BITS: u32 = MARK.count_ones();
const _: () = assert!(MARK_MAX as u32 <= MARK, "there is room for all marks");

/// Numbers that a place can have.
pub(super) const NUMBERS_MAX: u32 = 1 << (u32::BITS - MARK_BITS);

// SAFETY: a place is to its item what a box or an `Arc` is, and hands out references to it: to many threads at once,
// of which each may drop what it takes out by the writer.
unsafe impl<A: Send + Sync> Send for Place<A> {}
// SAFETY: as above.
unsafe impl<A: Send + Sync> Sync for Place<A> {}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(CHECKED || size_of::<Place<u64>>() == 16, "a million places are 16 MB");

/// The places of a chunk of numbers.
pub(super) type Chunk<A> = [Place<A>; CHUNK];

/// The word of an item, which owns it.
fn word_of<A>(held: Held<A>) -> Result<*mut (), Held<A>> {
    const { assert!(align_of::<A>() > (WRAPPED | MARKED), "a pointer has room for two bits") };
    let fits = |address: usize| address & (LENGTH | WRAPPED | MARKED) == 0 && !on(Fault::AddressTooWide);
    match held {
        Held::Packed(bytes) => {
            let length = length_bits(&bytes).filter(|_| fits(Arc::as_ptr(&bytes).addr()));
            if let Some(length) = length {
                return Ok(Arc::into_raw(bytes).cast::<()>().cast_mut().map_addr(|address| address | length));
            }
            let wrapped = Box::new(bytes);
            match fits(ptr::from_ref(&*wrapped).addr()) {
                true => Ok(Box::into_raw(wrapped).cast::<()>().map_addr(|address| address | WRAPPED)),
                false => Err(Held::Packed(*wrapped)),
            }
        }
        Held::Apart(apart) => match fits(ptr::from_ref(&*apart).addr()) {
            true => Ok(Box::into_raw(apart).cast()),
            false => Err(Held::Apart(apart)),
        },
    }
}

/// The item of a word.
///
/// # Safety
///
/// The word came from `word_of`, and is not of any place any more.
unsafe fn held_of<A>(word: *mut ()) -> Option<Held<A>> {
    let pointer = pointer_of(word);
    if pointer.is_null() {
        return None;
    }
    let length = length_of(word);
    Some(if length > 0 {
        // SAFETY: by `word_of` it is what `into_raw` answered, in two parts.
        Held::Packed(unsafe { Arc::from_raw(ptr::slice_from_raw_parts(pointer.cast::<u8>(), length)) })
    } else if word.addr() & WRAPPED != 0 {
        // SAFETY: by `word_of` it is a box of that.
        Held::Packed(*unsafe { Box::from_raw(pointer.cast::<Arc<[u8]>>()) })
    } else {
        // SAFETY: by `word_of` it is the box.
        Held::Apart(unsafe { Box::from_raw(pointer.cast::<A>()) })
    })
}

impl<A> Place<A> {
    pub fn empty(number: u32) -> Place<A> {
        let (word, number) = (AtomicPtr::new(ptr::null_mut()), AtomicU32::new(number << MARK_BITS));
        Place { word, number, generation: AtomicU32::new(0), owns: PhantomData }
    }

    /// The number of its entry.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed) >> MARK_BITS
    }

    /// A hit.
    #[inline(always)]
    pub fn touch(&self) {
        let word = self.number.load(Ordering::Relaxed);
        if word & MARK < u32::from(MARK_MAX) {
            self.number.store(word + 1, Ordering::Relaxed);
        }
    }

    /// The hits since [`Place::take_touches`] was called.
    pub fn touches(&self) -> u8 {
        (self.number.load(Ordering::Relaxed) & MARK) as u8
    }

    /// The hits since the last call.
    pub fn take_touches(&self) -> u8 {
        let word = self.number.load(Ordering::Relaxed);
        self.number.store(word & !MARK, Ordering::Relaxed);
        (word & MARK) as u8
    }

    /// An entry of this generation comes in, which has no hits. The place is empty, and the caller its only writer.
    pub fn begin(&self, generation: u32) {
        self.take_touches();
        let release = if on(Fault::GenerationUnordered) { Ordering::Relaxed } else { Ordering::Release };
        self.generation.store(generation, release);
    }

    /// The generation of the entry that is there, or was there last.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub fn look<'g>(&self, _: &'g Guard<'_>) -> Kept<'g, A> {
        Kept(self.word.load(FENCED), PhantomData)
    }

    /// Whether the word is the one that was seen.
    #[inline(always)]
    pub fn holds(&self, seen: Kept<'_, A>) -> bool {
        ptr::eq(self.word.load(Ordering::Relaxed), seen.0)
    }

    pub fn look_locked<'w>(&self, _: &'w Leave) -> Kept<'w, A> {
        Kept(self.word.load(Ordering::Relaxed), PhantomData)
    }

    /// Puts an item in; what was there is the caller's, which retires it. An item whose address does not fit comes
    /// back. The caller is the place's only writer, here as in what follows.
    pub fn put(&self, held: Held<A>, marked: bool) -> Result<Option<Held<A>>, Held<A>> {
        let mark = if marked { MARKED } else { 0 };
        let word = word_of(held)?.map_addr(|address| address | mark);
        Ok(self.replace(word))
    }

    /// Takes the item out; it is the caller's, which retires it.
    pub fn take(&self) -> Option<Held<A>> {
        self.replace(ptr::null_mut())
    }

    fn replace(&self, word: *mut ()) -> Option<Held<A>> {
        let old = self.word.load(Ordering::Relaxed);
        let release = if on(Fault::NamedUnpublished) { Ordering::Relaxed } else { Ordering::Release };
        self.word.store(word, release);
        // SAFETY: it was this place's, and no other place's. The writer is alone.
        unsafe { held_of(old) }
    }

    /// Sets the mark of the item's publication. With release, also for the item: see `Word::set_marked`.
    pub fn set_marked(&self, marked: bool) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(!word.is_null(), "an item is marked");
        self.word.store(word.map_addr(|address| address & !MARKED | usize::from(marked)), Ordering::Release);
    }

    /// Asks for the memory of the item.
    #[inline]
    pub fn ahead(&self, guard: &Guard<'_>) {
        let Kept(word, _) = self.look(guard);
        let lines = length_of(word).div_ceil(LINE_BYTES).clamp(1, LINES);
        (0..lines).for_each(|line| prefetch_at(pointer_of(word).cast::<u8>().wrapping_add(line * LINE_BYTES)));
    }
}

impl<A: Keyed> Entry for Place<A> {
    /// The writer alone asks.
    fn hash(&self) -> u64 {
        let word: Kept<'_, A> = Kept(self.word.load(Ordering::Relaxed), PhantomData);
        word.item().map_or(0, A::hash)
    }
}

impl<A> Drop for Place<A> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The word of a place as it was seen under a guard or by its writer.
pub(super) struct Kept<'g, A>(*mut (), PhantomData<&'g A>);

impl<A> Clone for Kept<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Kept<'_, A> {}

impl<'g, A> Kept<'g, A> {
    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0.addr() & MARKED != 0
    }

    /// The item, if there is one.
    #[inline(always)]
    pub fn item(self) -> Option<Item<'g, A>> {
        let pointer = pointer_of(self.0);
        if pointer.is_null() {
            return None;
        }
        fence(Ordering::Acquire);
        let length = length_of(self.0);
        // The item is there by the module's rules: what `'g` stands for is older than the look at the word. It is
        // whole, since the fence is behind that look, which read what was stored with release.
        Some(if length > 0 {
            Item::Packed(Packed(ptr::slice_from_raw_parts(pointer.cast::<u8>(), length), PhantomData))
        } else if self.0.addr() & WRAPPED != 0 {
            // SAFETY: as above; by `word_of` it is a box of that.
            Item::Packed(unsafe { &*pointer.cast::<Arc<[u8]>>() }.into())
        } else {
            // SAFETY: as above; by `word_of` it is the box.
            Item::Apart(unsafe { &*pointer.cast::<A>() })
        })
    }
}
