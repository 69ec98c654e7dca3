//! Hits that wait until the shard's order hears of them.
//!
//! Some policies only ask, when they need a victim, whether an entry was hit: its mark says so, and there is nothing
//! here. Others have to hear of each hit, in order. A reader takes no lock, so it leaves a note in a buffer of the
//! shard, and goes on. Each operation under the shard's lock tells the order first what the buffers hold.
//!
//! * **With one thread an order hears of every hit, in order, before it decides anything.** A thread writes to one
//!   buffer, which keeps the order of what is put in.
//! * **A buffer is bounded.** The reader that finds it full empties all buffers of the shard, if the shard's lock is
//!   free. If it is not, the note is dropped or the reader waits, as the policy wants it ([`crate::policy::Hits`]).
//! * **The words of a note belong together.** The first is written last and read first.
//! * **What one thread writes for each note, no other thread writes for each note.** Each of the first threads has a
//!   buffer to itself, and counts what it put in on a line of its own. What was taken out is counted once for a batch.
//! * **A note that waits may stand for the next ones like it** ([`Buffers::push_once`]). The order hears of the entry,
//!   but of fewer hits.
//!
//! After the read buffers of Caffeine and the non-blocking lists of DeferredLRU (section 4.3 of the thesis). An entry
//! stands in its Recent list once, too.

use std::sync::OnceLock;

use crate::mutation::{Fault, on};
use crate::sync::{AtomicU16, AtomicU64, AtomicUsize, CHECKED, Ordering};

/// Notes of a buffer, at least.
pub(super) const NOTES_MIN: usize = if CHECKED { 2 } else { 64 };

/// Notes of a buffer, at most: a note's number has sixteen bits.
pub(super) const NOTES_MAX: usize = if CHECKED { 2 } else { 512 };

/// Notes that are taken out together.
pub(super) const BATCH: usize = if CHECKED { 2 } else { 32 };

/// Threads of a shard that have a buffer to themselves, at most.
const OWNED_MAX: usize = 16;

/// The first word of no note, or of one that is not written yet.
const NONE: u64 = 0;

/// The buffer is full, or was filled and emptied just now.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// The buffers of one shard: notes of so many words that threads leave, and the holder of the shard's lock takes out.
pub struct Buffers<const WORDS: usize> {
    /// Made when the first note is left there. Those of one thread each, then those that threads share.
    stripes: Box<[OnceLock<Box<Buffer<WORDS>>>]>,
    /// How many have one thread.
    owned: usize,
    notes: usize,
}

/// Threads put in, and the one that holds the shard's lock takes out.
struct Buffer<const WORDS: usize> {
    taken: Taken,
    emptied: Emptied,
    notes: Box<[[AtomicU64; WORDS]]>,
    /// Where the last note with these bits stands, twice as many as notes; made when first asked for. What stands there
    /// says whether it is that note.
    places: OnceLock<Box<[AtomicU16]>>,
}

/// Places that were ever taken. Alone on its lines: the threads that put in write it for each note.
#[repr(align(128))]
struct Taken(AtomicUsize);

/// Places that were ever emptied. The shard's lock guards it.
#[repr(align(128))]
struct Emptied(AtomicUsize);

impl<const WORDS: usize> Buffers<WORDS> {
    /// For so many processors, of about so many notes each.
    pub fn new(cpus: usize, notes: usize) -> Buffers<WORDS> {
        const { assert!(WORDS > 0, "a note says something") };
        // A program's first thread often only starts the others.
        let owned = (2 * cpus).next_power_of_two().min(OWNED_MAX);
        let notes = notes.clamp(NOTES_MIN, NOTES_MAX).next_power_of_two();
        let stripes: Box<[_]> = (0..owned + owned / 2).map(|_| OnceLock::new()).collect();
        let buffers = Buffers { stripes, owned, notes };
        if CHECKED {
            // A checker does not know of a cell that is filled while threads run.
            (0..buffers.stripes.len()).for_each(|at| _ = buffers.stripe(at));
        }
        buffers
    }

    #[inline]
    fn stripe(&self, at: usize) -> &Buffer<WORDS> {
        self.stripes[at].get_or_init(|| Box::new(Buffer::new(self.notes)))
    }

    /// The buffer of a thread, and whether that is its only thread.
    #[inline]
    fn of(&self, thread: usize) -> (&Buffer<WORDS>, bool) {
        if thread < self.owned {
            return (self.stripe(thread), true);
        }
        (self.stripe(self.owned + thread % (self.owned / 2)), on(Fault::SharedTakenAlone))
    }

    /// Leaves a note, whose first word is not 0, of the thread with this number, which no other thread has meanwhile.
    #[inline]
    pub fn push(&self, thread: usize, note: [u64; WORDS]) -> Result<(), Full> {
        let (buffer, alone) = self.of(thread);
        let taken = if alone { buffer.take_alone() } else { buffer.take() }?;
        buffer.write(taken, note);
        Ok(())
    }

    /// Takes all notes out, those of one buffer in the order in which they came; answers of how many buffers. The
    /// caller holds the shard's lock.
    pub fn drain(&self, mut tell: impl FnMut(&[[u64; WORDS]])) -> usize {
        let made = self.stripes.iter().filter_map(OnceLock::get);
        made.filter(|buffer| buffer.drain(&mut tell)).count()
    }

    /// What they take.
    pub fn bytes(&self) -> usize {
        let made = self.stripes.iter().filter_map(OnceLock::get);
        size_of_val(&*self.stripes) + made.map(|buffer| buffer.bytes()).sum::<usize>()
    }
}

impl Buffers<1> {
    /// The same, unless a note like this one that the thread has left still waits. A note is found again by its lowest
    /// bits, until another one has the same.
    #[inline]
    pub fn push_once(&self, thread: usize, note: u64) -> Result<(), Full> {
        let (buffer, alone) = self.of(thread);
        let places = buffer.places();
        let place = &places[note as usize & (places.len() - 1)];
        let last = usize::from(place.load(Ordering::Relaxed));
        if buffer.notes[last & (buffer.notes.len() - 1)][0].load(Ordering::Relaxed) == note {
            return Ok(());
        }
        let taken = if alone { buffer.take_alone() } else { buffer.take() }?;
        place.store(taken as u16, Ordering::Relaxed);
        buffer.write(taken, [note]);
        Ok(())
    }
}

impl<const WORDS: usize> Buffer<WORDS> {
    fn new(notes: usize) -> Buffer<WORDS> {
        let note = |_| std::array::from_fn(|_| AtomicU64::new(NONE));
        let buffer = Buffer {
            taken: Taken(AtomicUsize::new(0)),
            emptied: Emptied(AtomicUsize::new(0)),
            notes: (0..notes).map(note).collect(),
            places: OnceLock::new(),
        };
        if CHECKED {
            buffer.places();
        }
        buffer
    }

    #[inline]
    fn places(&self) -> &[AtomicU16] {
        self.places.get_or_init(|| (0..2 * self.notes.len()).map(|_| AtomicU16::new(0)).collect())
    }

    fn bytes(&self) -> usize {
        let places = self.places.get().map_or(0, |places| size_of_val(&**places));
        size_of::<Buffer<WORDS>>() + size_of_val(&*self.notes) + places
    }

    /// The number of a place that is free and that no other thread has.
    #[inline]
    fn take(&self) -> Result<usize, Full> {
        loop {
            let taken = self.next()?;
            let next = taken.wrapping_add(1);
            if self.taken.0.compare_exchange_weak(taken, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Ok(taken);
            }
        }
    }

    /// The same, where no other thread takes places.
    #[inline]
    fn take_alone(&self) -> Result<usize, Full> {
        let taken = self.next()?;
        self.taken.0.store(taken.wrapping_add(1), Ordering::Relaxed);
        Ok(taken)
    }

    /// The number of the next place, if it is free.
    #[inline]
    fn next(&self) -> Result<usize, Full> {
        // What was emptied is seen empty, so the thread that takes it alone writes to it; and was taken before, so that
        // less was emptied than is seen taken. What was taken and emptied between the two loads counts as held: the
        // buffer may be called full where it is not.
        let emptied = self.emptied.0.load(Ordering::Acquire);
        let taken = self.taken.0.load(Ordering::Relaxed);
        if taken.wrapping_sub(emptied) >= self.notes.len() { Err(Full) } else { Ok(taken) }
    }

    #[inline]
    fn write(&self, taken: usize, note: [u64; WORDS]) {
        debug_assert_ne!(note[0], NONE, "a note says something");
        let place = &self.notes[taken & (self.notes.len() - 1)];
        place.iter().zip(note).skip(1).for_each(|(word, note)| word.store(note, Ordering::Relaxed));
        let release = if on(Fault::NoteUnpublished) { Ordering::Relaxed } else { Ordering::Release };
        place[0].store(note[0], release);
    }

    /// Whether there was a note. A place that was taken and is not written yet ends it: what comes after waits with it.
    fn drain(&self, tell: &mut impl FnMut(&[[u64; WORDS]])) -> bool {
        let begin = self.emptied.0.load(Ordering::Relaxed);
        let mut emptied = begin;
        loop {
            let (mut batch, mut count) = ([[NONE; WORDS]; BATCH], 0);
            while count < BATCH {
                let place = &self.notes[emptied & (self.notes.len() - 1)];
                let first = place[0].load(Ordering::Acquire);
                if first == NONE {
                    break;
                }
                batch[count] =
                    std::array::from_fn(|at| if at == 0 { first } else { place[at].load(Ordering::Relaxed) });
                place[0].store(NONE, Ordering::Relaxed);
                emptied = emptied.wrapping_add(1);
                count += 1;
            }
            if count > 0 {
                self.emptied.0.store(emptied, Ordering::Release);
                tell(&batch[..count]);
            }
            if count < BATCH {
                return emptied != begin;
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn drained(buffers: &Buffers<1>) -> Vec<u64> {
        let mut notes = Vec::new();
        buffers.drain(|batch| notes.extend(batch.iter().map(|[note]| note)));
        notes
    }

    #[test]
    fn what_one_thread_leaves_comes_out_in_order() {
        let buffers = Buffers::new(3, NOTES_MAX);
        assert_eq!((buffers.owned, buffers.stripes.len()), (8, 12));
        for round in 0..3 {
            let notes: Vec<u64> = (1..=NOTES_MAX as u64).map(|note| 1000 * round + note).collect();
            notes.iter().for_each(|&note| assert_eq!(buffers.push(5, [note]), Ok(())));
            assert_eq!(buffers.push(5, [7]), Err(Full));
            assert_eq!(buffers.push(6, [9]), Ok(()), "another thread has another buffer");
            assert_eq!(drained(&buffers), [&notes[..], &[9]].concat());
        }
        assert_eq!(drained(&buffers), []);
    }

    #[test]
    fn memory_is_that_of_the_threads_that_hit() {
        let buffers = Buffers::<1>::new(8, NOTES_MAX);
        let none = buffers.bytes();
        (0..3).for_each(|_| assert_eq!(buffers.push(4, [1]), Ok(())));
        let one = buffers.bytes() - none;
        assert!((8 * NOTES_MAX..=9 * NOTES_MAX).contains(&one), "{one} bytes");
        assert_eq!(buffers.push_once(5, 1), Ok(()));
        assert_eq!(buffers.bytes() - none, 2 * one + 4 * NOTES_MAX, "and where notes stand");
    }

    proptest::proptest! {
        /// Of each thread the first note of its kind that waits. Few lowest bits, so that notes have one place.
        #[test]
        fn a_note_that_waits_stands_for_those_like_it(
            steps in proptest::collection::vec((0u64..6, 0u64..4, 0..3usize), 0..if cfg!(miri) { 60 } else { 300 }),
        ) {
            let buffers = Buffers::new(1, 1);
            let mut model: [Vec<u64>; 3] = Default::default();
            let mut last = [[0; 2 * NOTES_MIN]; 3];
            for (high, low, thread) in steps {
                let note = (high + 1) << 32 | low;
                // The third thread shares its buffer, with none here.
                let (waits, last) = (&mut model[thread], &mut last[thread][low as usize]);
                if *last == note && waits.contains(&note) {
                    proptest::prop_assert_eq!(buffers.push_once(thread, note), Ok(()));
                } else if waits.len() == NOTES_MIN {
                    proptest::prop_assert_eq!(buffers.push_once(thread, note), Err(Full));
                    let all = model.each_mut().map(std::mem::take).concat();
                    proptest::prop_assert_eq!(drained(&buffers), all);
                } else {
                    proptest::prop_assert_eq!(buffers.push_once(thread, note), Ok(()));
                    waits.push(note);
                    *last = note;
                }
            }
            proptest::prop_assert_eq!(drained(&buffers), model.concat());
        }
    }

    #[test]
    fn what_many_threads_leave_comes_out_once() {
        let each = if cfg!(miri) { 200 } else { 20_000 };
        // Two words that say the same. Of four threads two have a buffer to themselves.
        let buffers = Buffers::<2>::new(1, NOTES_MIN);
        let whole = |&[one, two]: &[u64; 2]| {
            assert_eq!(one, two, "they belong together");
            one
        };
        let lock = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (buffers, lock) = (&buffers, &lock);
                scope.spawn(move || {
                    for number in 0..each {
                        let note = (thread as u64) << 32 | (number + 1);
                        while buffers.push(thread, [note; 2]) == Err(Full) {
                            let mut told = lock.lock().expect("no panic");
                            buffers.drain(|batch| told.extend(batch.iter().map(whole)));
                        }
                    }
                });
            }
        });
        let mut told = lock.into_inner().expect("no panic");
        buffers.drain(|batch| told.extend(batch.iter().map(whole)));
        for thread in 0..4 {
            let of_thread: Vec<u64> =
                told.iter().filter(|note| **note >> 32 == thread).map(|note| *note as u32 as u64).collect();
            assert!(of_thread.iter().copied().eq(1..=each), "in order, each once: {}", of_thread.len());
        }
    }
}
