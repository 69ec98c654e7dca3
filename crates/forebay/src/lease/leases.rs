//! How long leases are: forebay's rule, the paper's, and what both are compared with.

use super::term::Gaps;

/// How the length of a lease is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leases {
    /// No copies.
    None,
    /// Copies are used until they are found stale.
    Endless,
    /// All leases have about this length, in seconds: half of it to all of it.
    Fixed(f64),
    /// As long as the next write is likelier than this not to come: the paper's `P(x)`.
    Chance(f64),
    /// The mean time between writes: the paper's `mean`.
    Mean,
    /// Algorithm 1 of the paper.
    Paper,
    /// [`Gaps::renewed`]: what costs least where validated copies begin their leases again.
    Renewed {
        /// What an abort costs, in misses.
        abort: f64,
        /// The longest lease, in seconds.
        length_max: f64,
        /// The share of the misses that a copy saves at least, to be kept at all.
        least: f64,
    },
}

/// What an application asks of its copies beside the least cost: shares of the reads of one document, as they are
/// expected under leases that are used to the end. Where stale copies are given up earlier, less is stale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// At least so many find a fresh copy, or none is kept.
    pub fresh_min: f64,
    /// At most so many find a stale copy.
    pub stale_max: f64,
}

impl Default for Bounds {
    /// None.
    fn default() -> Bounds {
        Bounds { fresh_min: 0.0, stale_max: 1.0 }
    }
}

impl Bounds {
    /// The longest lease of at most `length` that keeps them; `None`: no copy is kept.
    pub fn within(self, gaps: Gaps, length: f64) -> Option<f64> {
        let length = if self.stale_max < 1.0 { length.min(gaps.until_stale(self.stale_max)) } else { length };
        let is_fresh = self.fresh_min <= 0.0 || gaps.fresh_hit_rate(length) >= self.fresh_min;
        (is_fresh && length > 0.0).then_some(length)
    }
}

/// Reads that Algorithm 1 tries at most.
const COUNTED_MAX: u32 = 100_000;

impl Leases {
    /// Forebay's rule: of the client library, and of the simulations. `docs/leases.md` says how it was chosen.
    pub const FOREBAY: Leases = Leases::Renewed { abort: 5.0, length_max: 60.0, least: 0.05 };

    /// The length of a lease in seconds; `None`: no copy is kept. `gap` is the mean time between reads, if it is known,
    /// and `writes` how often others write in a second; `chance` is drawn from 0 to 1.
    pub fn length(self, gap: Option<f64>, writes: f64, chance: f64) -> Option<f64> {
        let gaps = Gaps::estimated(gap, writes);
        match self {
            Leases::None => None,
            Leases::Endless => Some(f64::INFINITY),
            Leases::Fixed(length) => Some(length * (0.5 + chance / 2.0)),
            Leases::Chance(of_a_write) => Some(gaps.until_written(of_a_write)),
            Leases::Mean => Some(gaps.write),
            Leases::Paper => Some(gaps.by_counting(COUNTED_MAX).1),
            Leases::Renewed { abort, length_max, least } => {
                let term = gaps.renewed(abort + 1.0);
                term.is_worth(least).then(|| term.drawn(chance, length_max))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read a millisecond, and a write in 19.
    #[test]
    fn lengths_by_each_rule() {
        let length = |leases: Leases| leases.length(Some(0.001), 1.0 / 0.019, 0.5);
        assert_eq!((length(Leases::None), length(Leases::Endless)), (None, Some(f64::INFINITY)));
        assert_eq!(length(Leases::Fixed(2.0)), Some(1.5));
        assert!(length(Leases::Paper).is_some_and(|length| (length - 0.006).abs() < 1e-12));
        assert!(length(Leases::Mean).is_some_and(|length| (length - 0.019).abs() < 1e-12));
        // A write within the lease has exactly the chance that was asked for.
        let tenth = length(Leases::Chance(0.1)).unwrap_or_default();
        assert!((1.0 - (-tenth / 0.019).exp() - 0.1).abs() < 1e-12, "{tenth}");
        // However often it is read.
        assert!(length(Leases::FOREBAY).is_some_and(|length| (length - 0.019 * 1.2f64.ln()).abs() < 1e-12));
    }

    #[test]
    fn bounds_shorten_leases_or_refuse_copies() {
        let gaps = Gaps { read: 1.0, write: 19.0 };
        assert_eq!(Bounds::default().within(gaps, f64::INFINITY), Some(f64::INFINITY));
        for stale_max in [1e-6, 0.01, 0.12, 0.5, 0.99] {
            let longest = Bounds { stale_max, ..Bounds::default() }.within(gaps, 1e9).unwrap_or_default();
            assert!((gaps.stale_hit_rate(longest) - stale_max).abs() < 1e-9, "{stale_max}: {longest}");
        }
        let at_most = |stale_max, length| Bounds { stale_max, ..Bounds::default() }.within(gaps, length);
        assert_eq!((at_most(0.5, 2.0), at_most(0.0, 2.0)), (Some(2.0), None));
        // At best 0.735 of the reads find a fresh copy there, with a lease of 6.
        let at_least = |fresh_min, length| Bounds { fresh_min, ..Bounds::default() }.within(gaps, length);
        assert_eq!((at_least(0.73, 6.0), at_least(0.74, 6.0), at_least(0.73, 60.0)), (Some(6.0), None, None));
        // What is never written, as far as is known, meets both.
        for writes in [0.0, f64::MIN_POSITIVE] {
            let unwritten = Gaps::estimated(Some(1.0), writes);
            let bounds = Bounds { fresh_min: 0.98, stale_max: 0.001 };
            assert_eq!(bounds.within(unwritten, 60.0), Some(60.0));
        }
    }

    #[test]
    fn what_is_written_more_often_than_read_is_not_kept() {
        assert_eq!(Leases::FOREBAY.length(Some(1.0), 10.0, 0.5), None);
        assert_eq!(Leases::FOREBAY.length(Some(1.0), 0.0, 0.5), Some(60.0));
    }
}
