//! Ghosts: prints of the keys that were evicted, kept by their home group.
//!
//! A print is twelve bits of the hash beside the group that the key was home to. A group keeps the last eleven that the
//! small queue gave up, and the last four of the main one. They lie in the room that the group's line of memory has
//! left, so nothing is allocated for ghosts and nothing is looked up elsewhere. What is too old falls out at the end.
//! One key in 300 or so is taken for a ghost that it is not. Sixteen bits left room for eight and four. That cost up to
//! two points of hit ratio in traces with long loops.
//!
//! The younger ghosts of a group tell a ghost's age, about: there were as many evictions for each group.

use crate::sync::{AtomicU64, Ordering};

/// Of a print.
const BITS: usize = 12;

/// Prints of a word.
const PER_WORD: usize = 5;

/// A one in each print of a word.
const ONES: u64 = 0x001_001_001_001_001;

/// Which queue gave a key up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Small,
    Main,
}

impl Queue {
    /// Prints that a group has room for.
    pub const fn room(self) -> usize {
        match self {
            Queue::Small => 11,
            Queue::Main => 4,
        }
    }
}

/// A key that was evicted and is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    pub from: Queue,
    /// Ghosts of the group that the queue gave up after it.
    pub younger: usize,
}

/// Fifteen prints: those of the small queue, then those of the main one, of each the youngest first; 0 is none. The
/// shard's lock is held by all that ask: the words are atomic since the group is shared.
#[repr(C)]
pub(super) struct Prints([AtomicU64; 3]);

/// Never 0. These bits of the hash are neither those of the tag nor, but for the lowest of a large table, those of the
/// home.
#[inline]
fn print_of(hash: u64) -> u64 {
    ((hash >> 16) & 0xfff).max(1)
}

/// The lowest bits of a word, those of so many prints.
#[inline]
fn mask(prints: usize) -> u64 {
    (1 << (BITS * prints)) - 1
}

impl Prints {
    pub fn new() -> Prints {
        Prints(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Keeps a key's print, and of its queue no more than `kept`.
    #[inline]
    pub fn push(&self, hash: u64, from: Queue, kept: usize) {
        let [first, second, third] = &self.0;
        let last = third.load(Ordering::Relaxed);
        // The last of the small queue's is the lowest of the third word.
        let (one, four) = (last & mask(1), last >> BITS);
        if from == Queue::Main {
            let four = (four << BITS | print_of(hash)) & mask(kept.min(Queue::Main.room()));
            third.store(four << BITS | one, Ordering::Relaxed);
            return;
        }
        let mut carry = print_of(hash);
        for (word, before) in [(first, 0), (second, PER_WORD)] {
            let old = word.load(Ordering::Relaxed);
            let kept = kept.saturating_sub(before).min(PER_WORD);
            word.store((old << BITS | carry) & mask(kept), Ordering::Relaxed);
            carry = old >> (BITS * (PER_WORD - 1));
        }
        let one = carry & mask(kept.saturating_sub(2 * PER_WORD).min(1));
        third.store(four << BITS | one, Ordering::Relaxed);
    }

    /// The ghost of a key, if there is one. Its place is empty afterwards, and goes on like the others.
    #[inline]
    pub fn take(&self, hash: u64) -> Option<Ghost> {
        const LOW_BITS: u64 = 0x7ff * ONES;
        for (at, word) in self.0.iter().enumerate() {
            let old = word.load(Ordering::Relaxed);
            let differs = old ^ (print_of(hash) * ONES);
            // The top bit of each print that is the same: exact, so the first of them is the youngest.
            let same = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS) & mask(PER_WORD);
            if same != 0 {
                let place = same.trailing_zeros() as usize / BITS;
                word.store(old & !(mask(1) << (BITS * place)), Ordering::Relaxed);
                let place = at * PER_WORD + place;
                let of_main = place.checked_sub(Queue::Small.room());
                let from = if of_main.is_some() { Queue::Main } else { Queue::Small };
                return Some(Ghost { from, younger: of_main.unwrap_or(place) });
            }
        }
        None
    }

    pub fn clear(&self) {
        for word in &self.0 {
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
        for from in [Queue::Small, Queue::Main] {
            for kept in 1..=12 {
                let prints = Prints::new();
                (1..=20).for_each(|key| prints.push(hash(key), from, kept));
                for key in 1..=20 {
                    let younger = 20 - key as usize;
                    let expected = (younger < kept.min(from.room())).then_some(Ghost { from, younger });
                    assert_eq!(prints.take(hash(key)), expected, "{key} of the last {kept}");
                    assert_eq!(prints.take(hash(key)), None, "taken once");
                }
            }
        }
    }

    /// Against two lists.
    #[test]
    fn the_lists_keep_apart() {
        let (prints, mut random) = (Prints::new(), fastrand::Rng::with_seed(3));
        let mut lists = [Vec::new(), Vec::new()];
        for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
            let (at, key) = (random.usize(..2), random.u64(1..40));
            let from = [Queue::Small, Queue::Main][at];
            if random.bool() {
                prints.push(hash(key), from, 20);
                lists[at].insert(0, key);
                lists[at].truncate(from.room());
                continue;
            }
            let place = |list: &Vec<u64>| list.iter().position(|&other| other == key);
            let small = place(&lists[0]).map(|younger| Ghost { from: Queue::Small, younger });
            let expected = small.or(place(&lists[1]).map(|younger| Ghost { from: Queue::Main, younger }));
            assert_eq!(prints.take(hash(key)), expected);
            if let Some(ghost) = expected {
                lists[usize::from(ghost.from == Queue::Main)][ghost.younger] = 0;
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
