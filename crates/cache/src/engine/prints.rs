//! Ghosts: prints of the keys that were evicted without having been asked for again, kept by their home group.
//!
//! Sixteen bits of the hash beside the group that they were home to. A group keeps the last twelve of them in the
//! room that its line of memory has left: nothing is allocated for ghosts, nothing is looked up elsewhere, and what is
//! too old falls out at the end. One key in 5,000 or so is taken for a ghost that it is not.

use crate::sync::{AtomicU64, Ordering};

const WORDS: usize = 3;
const PER_WORD: usize = 4;

/// Prints of a group, at most.
pub(super) const PRINTS_MAX: usize = WORDS * PER_WORD;

/// The youngest first; 0 is none. The shard's lock is held by all that ask: the words are atomic since the group is
/// shared.
#[repr(C)]
pub(super) struct Prints([AtomicU64; WORDS]);

/// Never 0. These bits of the hash are neither those of the tag nor, but for the lowest of a large table, those of the
/// home.
fn print_of(hash: u64) -> u16 {
    ((hash >> 16) as u16).max(1)
}

impl Prints {
    pub fn new() -> Prints {
        Prints(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Keeps a key's print and forgets the oldest beyond `kept`.
    pub fn push(&self, hash: u64, kept: usize) {
        let mut carry = u64::from(print_of(hash));
        for (at, word) in self.0.iter().enumerate() {
            let old = word.load(Ordering::Relaxed);
            let room = kept.saturating_sub(at * PER_WORD).min(PER_WORD);
            let mask = if room == PER_WORD { u64::MAX } else { (1 << (16 * room)) - 1 };
            word.store((old << 16 | carry) & mask, Ordering::Relaxed);
            carry = old >> 48;
        }
    }

    /// Whether a key's print is there; it is not, afterwards.
    pub fn take(&self, hash: u64) -> bool {
        let print = print_of(hash);
        for word in &self.0 {
            let old = word.load(Ordering::Relaxed);
            for shift in [0, 16, 32, 48] {
                if (old >> shift) as u16 == print {
                    word.store(old & !(0xffff << shift), Ordering::Relaxed);
                    return true;
                }
            }
        }
        false
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
        for kept in 1..=PRINTS_MAX {
            let prints = Prints::new();
            (1..=20).for_each(|key| prints.push(hash(key), kept));
            for key in 1..=20 {
                assert_eq!(prints.take(hash(key)), key > 20 - kept as u64, "{key} of the last {kept}");
                assert!(!prints.take(hash(key)), "taken once");
            }
        }
    }

    #[test]
    fn none_is_none() {
        let prints = Prints::new();
        assert!(!prints.take(0) && !prints.take(hash(1)));
        prints.push(hash(1), 0);
        assert!(!prints.take(hash(1)));
    }
}
