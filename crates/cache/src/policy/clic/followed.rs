//! Which requests are followed up to what becomes of them.
//!
//! `clic-g` asks its outqueue for nothing but outcomes, about one for each request, and draws its sample of them. So
//! it need not remember the last request of every page. Where a part of the requests, chosen as if by chance, yields
//! more outcomes than the sample takes, only those are followed. The others are forgotten with their pages, and
//! nothing is noted when their pages are asked for again. Each outcome has the same chance to be in the sample as
//! before, and the outqueue, that much shorter, reaches back as far.

use super::outqueue::Request;

/// Outcomes that are to be expected for each one that the sample takes.
const SPARE: f64 = 1.25;

/// Each halving takes a bit of what is drawn for a request.
const HALVINGS_MAX: u32 = 20;

/// A part of all requests, each told by its number: all at first, and after each halving half of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    seed: u32,
    halvings: u32,
}

impl Followed {
    /// All requests.
    pub fn all(seed: u64) -> Followed {
        Followed { seed: seed as u32, halvings: 0 }
    }

    /// As few as leave enough for a sample of `sample` outcomes, if `expected` come of those that are followed now.
    pub fn fewer(mut self, mut expected: f64, sample: usize) -> Followed {
        while expected >= 2.0 * SPARE * sample as f64 && self.halvings < HALVINGS_MAX {
            self.halvings += 1;
            expected /= 2.0;
        }
        self
    }

    /// Whether a request is one of them.
    #[inline]
    pub fn has(self, request: Request) -> bool {
        self.halvings == 0 || mixed(request.at ^ self.seed) >> (u32::BITS - self.halvings) == 0
    }

    /// How many pages to remember where with all requests it would be so many.
    pub fn of(self, pages: u64) -> u64 {
        pages.div_ceil(1 << self.halvings)
    }
}

/// Murmur3's last steps: numbers in a row, or at even distances, have nothing in common afterwards.
#[inline]
fn mixed(number: u32) -> u32 {
    let number = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ (number >> 13)).wrapping_mul(0xc2b2_ae35);
    number ^ (number >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(followed: Followed, at: u32) -> bool {
        followed.has(Request { at, cell: 0 })
    }

    #[test]
    fn as_few_as_leave_enough_for_the_sample() {
        let all = Followed::all(7);
        let halvings = |expected: f64, sample: usize| all.fewer(expected, sample).halvings;
        assert_eq!([0.0, 2499.0, 2500.0, 4999.0, 5000.0].map(|expected| halvings(expected, 1000)), [0, 0, 1, 1, 2]);
        assert_eq!(halvings(f64::INFINITY, 1000), HALVINGS_MAX);
        // What comes of half of them counts as that.
        assert_eq!(all.fewer(2500.0, 1000).fewer(2499.0, 1000).halvings, 1);
        assert_eq!([0, 1, 8, 9].map(|pages| all.fewer(5000.0, 1000).of(pages)), [0, 1, 2, 3]);
    }

    #[test]
    fn each_halving_leaves_half_of_those_before_at_any_distance() {
        for seed in [0, 1, 77] {
            let mut before = Followed::all(seed);
            assert!((0..1000).all(|at| has(before, at)));
            for halvings in 1..=4 {
                let followed = Followed { halvings, ..before };
                assert!((0..100_000).all(|at| has(before, at) || !has(followed, at)), "a part of those before");
                for distance in [1, 2, 3, 10, 64, 1000, 1024, 12_345] {
                    let met = (0..20_000).filter(|at| has(followed, at * distance)).count();
                    let expected = 20_000 >> halvings;
                    assert!(met.abs_diff(expected) < expected / 8, "{seed}, {halvings}, {distance}: {met}");
                }
                before = followed;
            }
        }
    }
}
