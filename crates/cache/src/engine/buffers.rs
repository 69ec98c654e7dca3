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
//!
//! After the read buffers of Caffeine and the non-blocking lists of DeferredLRU (section 4.3 of the thesis).

use crate::sync::{AtomicU64, AtomicUsize, CHECKED, Ordering};

/// Notes of a buffer.
const NOTES: usize = if CHECKED { 2 } else { 64 };

/// Buffers of a shard, at most; threads beyond that share them.
const STRIPES_MAX: usize = 16;

/// The first word of no note, or of one that is not written yet.
const NONE: u64 = 0;

/// The buffer is full, or was filled and emptied just now.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// The buffers of one shard: notes of so many words that threads leave, and the holder of the shard's lock takes out.
pub struct Buffers<const WORDS: usize> {
    stripes: Box<[Buffer<WORDS>]>,
}

/// Many threads put in, and the one that holds the shard's lock takes out.
#[repr(align(128))]
struct Buffer<const WORDS: usize> {
    /// Places that were ever taken.
    taken: AtomicUsize,
    /// Places that were ever emptied. The shard's lock guards it.
    emptied: AtomicUsize,
    notes: [[AtomicU64; WORDS]; NOTES],
}

impl<const WORDS: usize> Buffers<WORDS> {
    /// For so many processors.
    pub fn new(cpus: usize) -> Buffers<WORDS> {
        const { assert!(WORDS > 0, "a note says something") };
        let stripes = cpus.next_power_of_two().min(STRIPES_MAX);
        Buffers { stripes: (0..stripes).map(|_| Buffer::new()).collect() }
    }

    /// Leaves a note, whose first word is not 0, of the thread with this number.
    #[inline]
    pub fn push(&self, thread: usize, note: [u64; WORDS]) -> Result<(), Full> {
        self.stripes[thread & (self.stripes.len() - 1)].push(note)
    }

    /// Takes all notes out, those of one buffer in the order in which they came. The caller holds the shard's lock.
    pub fn drain(&self, mut tell: impl FnMut([u64; WORDS])) {
        self.stripes.iter().for_each(|buffer| buffer.drain(&mut tell));
    }

    /// What they take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.stripes)
    }
}

impl<const WORDS: usize> Buffer<WORDS> {
    fn new() -> Buffer<WORDS> {
        let notes = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(NONE)));
        Buffer { taken: AtomicUsize::new(0), emptied: AtomicUsize::new(0), notes }
    }

    #[inline]
    fn push(&self, note: [u64; WORDS]) -> Result<(), Full> {
        debug_assert_ne!(note[0], NONE, "a note says something");
        let taken = loop {
            // What was emptied is seen empty, so this thread alone writes to the place that it takes; and was taken
            // before, so that less was emptied than is seen taken. What was taken and emptied between the two loads
            // counts as held: the buffer may be called full where it is not.
            let emptied = self.emptied.load(Ordering::Acquire);
            let taken = self.taken.load(Ordering::Relaxed);
            if taken.wrapping_sub(emptied) >= NOTES {
                return Err(Full);
            }
            let next = taken.wrapping_add(1);
            if self.taken.compare_exchange_weak(taken, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                break taken;
            }
        };
        let place = &self.notes[taken % NOTES];
        place.iter().zip(note).skip(1).for_each(|(word, note)| word.store(note, Ordering::Relaxed));
        place[0].store(note[0], Ordering::Release);
        Ok(())
    }

    /// A place that was taken and is not written yet ends it: what comes after waits with it.
    fn drain(&self, tell: &mut impl FnMut([u64; WORDS])) {
        let mut emptied = self.emptied.load(Ordering::Relaxed);
        loop {
            let place = &self.notes[emptied % NOTES];
            let first = place[0].load(Ordering::Acquire);
            if first == NONE {
                break;
            }
            let note = std::array::from_fn(|at| if at == 0 { first } else { place[at].load(Ordering::Relaxed) });
            place[0].store(NONE, Ordering::Relaxed);
            emptied = emptied.wrapping_add(1);
            self.emptied.store(emptied, Ordering::Release);
            tell(note);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn drained(buffers: &Buffers<1>) -> Vec<u64> {
        let mut notes = Vec::new();
        buffers.drain(|[note]| notes.push(note));
        notes
    }

    #[test]
    fn what_one_thread_leaves_comes_out_in_order() {
        let buffers = Buffers::new(3);
        assert_eq!(buffers.stripes.len(), 4);
        for round in 0..3 {
            let notes: Vec<u64> = (1..=NOTES as u64).map(|note| 1000 * round + note).collect();
            notes.iter().for_each(|&note| assert_eq!(buffers.push(5, [note]), Ok(())));
            assert_eq!(buffers.push(5, [7]), Err(Full));
            assert_eq!(buffers.push(6, [9]), Ok(()), "another thread has another buffer");
            assert_eq!(drained(&buffers), [&notes[..], &[9]].concat());
        }
        assert_eq!(drained(&buffers), []);
    }

    #[test]
    fn what_many_threads_leave_comes_out_once() {
        let each = if cfg!(miri) { 200 } else { 20_000 };
        // Two words that say the same.
        let buffers = Buffers::<2>::new(2);
        let whole = |[one, two]: [u64; 2]| {
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
                            buffers.drain(|note| told.push(whole(note)));
                        }
                    }
                });
            }
        });
        let mut told = lock.into_inner().expect("no panic");
        buffers.drain(|note| told.push(whole(note)));
        for thread in 0..4 {
            let of_thread: Vec<u64> =
                told.iter().filter(|note| **note >> 32 == thread).map(|note| *note as u32 as u64).collect();
            assert!(of_thread.iter().copied().eq(1..=each), "in order, each once: {}", of_thread.len());
        }
    }
}

/// All interleavings of readers that leave notes and of one that takes them out, with the stale loads that the memory
/// model allows.
#[cfg(all(test, feature = "loom"))]
mod models {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    #[test]
    fn a_note_comes_out_once_beside_those_that_are_left() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new((Buffer::new(), Mutex::new(Vec::new())));
            let drain = |(buffer, told): &(Buffer<2>, Mutex<Vec<u64>>)| {
                let mut told = told.lock().unwrap();
                buffer.drain(&mut |[one, two]| {
                    assert_eq!(one, two, "the words of a note belong together");
                    told.push(one);
                });
            };
            let left = |notes: &'static [u64]| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut left = Vec::new();
                    for &note in notes {
                        if shared.0.push([note; 2]) == Err(Full) {
                            drain(&shared);
                            if shared.0.push([note; 2]) == Err(Full) {
                                continue;
                            }
                        }
                        left.push(note);
                    }
                    left
                })
            };
            let (one, two) = (left(&[1, 2]), left(&[11]));
            let mut left = one.join().unwrap();
            left.extend(two.join().unwrap());
            drain(&shared);
            let mut told = shared.1.lock().unwrap().clone();
            for thread in [0, 10] {
                let of_thread: Vec<u64> = told.iter().copied().filter(|note| note / 10 * 10 == thread).collect();
                assert!(of_thread.is_sorted(), "{told:?}");
            }
            told.sort_unstable();
            left.sort_unstable();
            assert_eq!(told, left);
        });
    }
}
