//! Versions in eight bytes, as packed records have them where they fit.
//!
//! | bits | of 64 | meaning |
//! |---|---|---|
//! | 48 to 63 | incarnation | below [`NAMES_FROM`] the number itself; from there on, the place of a named one |
//! | 0 to 47 | sequence | the number itself |
//!
//! Incarnations of stores that last count openings, so they are small. A store in memory cannot count: it takes the
//! time of its start, which has 41 bits. It *names* that incarnation before it gives out a version of it. The process
//! keeps a table of names, and a record says which one. A name is never taken back, so a short version always means
//! what it meant. Once all names are taken, a further incarnation has none, and its versions stay long.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::version::Version;

/// Incarnations that a process can name. It opens one store in memory; tests open more.
const NAMES_MAX: usize = 64;

/// Bits of a sequence: with 2^48 commits of one incarnation.
pub(super) const SEQUENCE_BITS: u32 = 48;

/// The least that is a name.
pub(super) const NAMES_FROM: u64 = (1 << (u64::BITS - SEQUENCE_BITS)) - NAMES_MAX as u64;

/// Relaxed loads are enough. A name is read for a record only after it was read to make that record, and it never
/// changes.
static NAMED: [AtomicU64; NAMES_MAX] = [const { AtomicU64::new(0) }; NAMES_MAX];

/// Gives an incarnation a name, if it needs one and there is one left.
pub(crate) fn name(incarnation: u64) {
    if incarnation < NAMES_FROM {
        return;
    }
    let is_named = |name: &AtomicU64| match name.compare_exchange(0, incarnation, Ordering::Relaxed, Ordering::Relaxed)
    {
        Ok(_) => true,
        Err(taken) => taken == incarnation,
    };
    // Names are taken in order, so that a search may end at the first free one.
    let _ = NAMED.iter().any(is_named);
}

/// A version in eight bytes, if it fits.
pub(super) fn shorten(version: Version) -> Option<u64> {
    let high = match version.incarnation {
        itself if itself < NAMES_FROM => itself,
        long => {
            let mut taken = NAMED.iter().map(|name| name.load(Ordering::Relaxed)).take_while(|&name| name != 0);
            NAMES_FROM + taken.position(|name| name == long)? as u64
        }
    };
    (version.sequence >> SEQUENCE_BITS == 0).then_some(high << SEQUENCE_BITS | version.sequence)
}

/// The version that [`shorten`] made `short` of.
pub(super) fn lengthen(short: u64) -> Version {
    let (high, sequence) = (short >> SEQUENCE_BITS, short & ((1 << SEQUENCE_BITS) - 1));
    let incarnation = match high.checked_sub(NAMES_FROM) {
        None => high,
        Some(name) => NAMED[name as usize].load(Ordering::Relaxed),
    };
    Version { incarnation, sequence }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_version_is_the_version_again() {
        let started_ms = 1_795_000_000_000;
        let sequences = [0, 1, (1 << SEQUENCE_BITS) - 1];
        let both = |incarnation| sequences.map(|sequence| Version { incarnation, sequence });
        for version in [0, 1, NAMES_FROM - 1].into_iter().flat_map(both) {
            assert_eq!(shorten(version).map(lengthen), Some(version));
        }
        for incarnation in [NAMES_FROM, u64::MAX, started_ms] {
            assert_eq!(shorten(Version { incarnation, sequence: 1 }), None, "it has no name yet");
        }
        name(started_ms);
        name(started_ms + 1);
        name(started_ms);
        for version in both(started_ms).into_iter().chain(both(started_ms + 1)) {
            assert_eq!(shorten(version).map(lengthen), Some(version));
        }
        assert_eq!(shorten(Version { incarnation: 1, sequence: 1 << SEQUENCE_BITS }), None);
        assert_eq!(shorten(Version { incarnation: started_ms + 2, sequence: 1 }), None);
    }
}
