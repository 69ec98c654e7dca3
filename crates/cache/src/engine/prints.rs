//! Ghosts: prints of the keys that were evicted, kept by their home group.
//!
//! Sixteen bits of the hash beside the group that they were home to. A group keeps, in the room that its line of memory
//! has left, the last eight that the small queue gave up and the last four of the main one: nothing is allocated for
//! ghosts, nothing is looked up elsewhere, and what is too old falls out at the end. One key in 5,000 or so is taken for
//! a ghost that it is not.
//!
//! The younger ghosts of a group tell a ghost's age, about: there were as many evictions for each group.

use crate::sync::{AtomicU64, Ordering};

const PER_WORD: usize = 4;

/// Words of prints from the small queue; one more is the main queue's.
const SMALL_WORDS: usize = 2;

/// Which queue gave a key up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Small,
    Main,
}

/// A key that was evicted and is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    pub from: Queue,
    /// Ghosts of the group that the queue gave up after it.
    pub younger: usize,
}

/// In each list the youngest first; 0 is none. The shard's lock is held by all that ask: the words are atomic since the
/// group is shared.
#[repr(C)]
pub(super) struct Prints {
    small: [AtomicU64; SMALL_WORDS],
    main: [AtomicU64; 1],
}

/// Never 0. These bits of the hash are neither those of the tag nor, but for the lowest of a large table, those of the
/// home.
fn print_of(hash: u64) -> u16 {
    ((hash >> 16) as u16).max(1)
}

/// Forgets the oldest beyond `kept`.
fn push(words: &[AtomicU64], print: u16, kept: usize) {
    let mut carry = u64::from(print);
    for (at, word) in words.iter().enumerate() {
        let old = word.load(Ordering::Relaxed);
        let room = kept.saturating_sub(at * PER_WORD).min(PER_WORD);
        let mask = if room == PER_WORD { u64::MAX } else { (1 << (16 * room)) - 1 };
        word.store((old << 16 | carry) & mask, Ordering::Relaxed);
        carry = old >> 48;
    }
}

/// The place of a print, which is empty afterwards and goes on like the others.
fn take(words: &[AtomicU64], print: u16) -> Option<usize> {
    for (at, word) in words.iter().enumerate() {
        let old = word.load(Ordering::Relaxed);
        for place in 0..PER_WORD {
            if (old >> (16 * place)) as u16 == print {
                word.store(old & !(0xffff << (16 * place)), Ordering::Relaxed);
                return Some(at * PER_WORD + place);
            }
        }
    }
    None
}

impl Prints {
    pub fn new() -> Prints {
        Prints { small: std::array::from_fn(|_| AtomicU64::new(0)), main: [AtomicU64::new(0)] }
    }

    /// Keeps a key's print, and of each list no more than `kept`.
    pub fn push(&self, hash: u64, from: Queue, kept: usize) {
        match from {
            Queue::Small => push(&self.small, print_of(hash), kept),
            Queue::Main => push(&self.main, print_of(hash), kept),
        }
    }

    /// The ghost of a key, if there is one; it is gone afterwards.
    pub fn take(&self, hash: u64) -> Option<Ghost> {
        let print = print_of(hash);
        let of = |from| move |younger| Ghost { from, younger };
        take(&self.small, print).map(of(Queue::Small)).or_else(|| take(&self.main, print).map(of(Queue::Main)))
    }

    pub fn clear(&self) {
        for word in self.small.iter().chain(&self.main) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        key << 16
    }

    #[test]
    fn the_oldest_is_forgotten() {
        for (from, room) in [(Queue::Small, 8), (Queue::Main, 4)] {
            for kept in 1..=10 {
                let prints = Prints::new();
                (1..=20).for_each(|key| prints.push(hash(key), from, kept));
                for key in 1..=20 {
                    let younger = 20 - key as usize;
                    let expected = (younger < kept.min(room)).then_some(Ghost { from, younger });
                    assert_eq!(prints.take(hash(key)), expected, "{key} of the last {kept}");
                    assert_eq!(prints.take(hash(key)), None, "taken once");
                }
            }
        }
    }

    #[test]
    fn none_is_none() {
        let prints = Prints::new();
        assert_eq!((prints.take(0), prints.take(hash(1))), (None, None));
        prints.push(hash(1), Queue::Small, 0);
        prints.push(hash(1), Queue::Main, 0);
        assert_eq!(prints.take(hash(1)), None);
    }
}
