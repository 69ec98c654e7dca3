//! What a page is worth at its age: an index of Gittins' kind over histograms of what became of pages.
//!
//! Ages are in requests, in half-octave bins. Of a class of requests we know two things. One is at which ages pages
//! were read again (a hit, if they are kept until then). The other is at which ages they came to another end:
//! written, or forgotten. Kept from one age to a later one, a page earns hits and costs time. The index is the best
//! ratio of both over all ages at which one might stop to keep it. (Gittins 1979, with classes of hints instead of
//! applications: Beckmann, Chen, Cidon: LHD, NSDI 2018). It generalises CLIC's `f / D` (equation 2). That keeps every
//! page until it is read again, whatever the age, and charges nothing for those that never are.

/// Bins of ages: up to 4 million requests, all beyond in the last one.
pub(super) const BINS: usize = 44;

/// The bin of an age; age 0 counts as 1.
pub(super) fn bin(age: u32) -> usize {
    let age = age.max(1);
    let octave = age.ilog2();
    let upper_half = if octave == 0 { 0 } else { age >> (octave - 1) & 1 };
    ((2 * octave + upper_half) as usize).min(BINS - 1)
}

/// The bin of an age, and for how many requests the age stays in it.
#[inline]
pub(super) fn bin_and_stay(age: u32) -> (usize, u32) {
    if age >= LAST_START {
        // Until it wraps around.
        return (BINS - 1, age.wrapping_neg());
    }
    let octave = age.max(1).ilog2();
    let middle = if octave == 0 { 2 } else { 3 << (octave - 1) };
    let is_upper = age >= middle;
    let next = if is_upper { 2 << octave } else { middle };
    ((2 * octave + u32::from(is_upper)) as usize, next - age)
}

/// The first age of the last bin.
const LAST_START: u32 = 3 << 20;

/// The first age of a bin; bin 1 is empty, because between 1 and 2 there is nothing.
fn start(bin: usize) -> f64 {
    let octave = (1u64 << (bin / 2)) as f64;
    if bin % 2 == 1 { 1.5 * octave } else { octave }
}

/// About the age of those in a bin.
pub(super) fn middle(bin: usize) -> f64 {
    if bin < 4 { start(bin) } else { (start(bin) * start(bin + 1)).sqrt() }
}

/// What became of the pages of one class.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Read again, by age.
    pub hits: [f64; BINS],
    /// Written, or forgotten without being asked for again, by age.
    pub ends: [f64; BINS],
}

impl Histogram {
    /// Nothing seen.
    pub const EMPTY: Histogram = Histogram { hits: [0.0; BINS], ends: [0.0; BINS] };

    /// Hits per request that a page is kept, by its age, if one stops at the best moment.
    pub fn curve(&self) -> [f32; BINS] {
        let mut survivors = [0.0; BINS + 1];
        for at in (0..BINS).rev() {
            survivors[at] = survivors[at + 1] + self.hits[at] + self.ends[at];
        }
        let cost = |at: usize| {
            let width = start(at + 1) - start(at);
            // Those that leave in a bin stay for about half of it.
            0.5 * width * (survivors[at] + survivors[at + 1])
        };
        let mut curve = [0.0; BINS];
        for (from, best) in curve.iter_mut().enumerate() {
            let (mut hits, mut time) = (0.0, 0.0);
            for to in from..BINS {
                hits += self.hits[to];
                time += cost(to);
                if time > 0.0 && (hits / time) as f32 > *best {
                    *best = (hits / time) as f32;
                }
            }
        }
        curve
    }
}

/// Parts of the ages of a class, at most.
pub(super) const PARTS_MAX: usize = 4;

/// A dip that is not deeper than this, as a share of its bottom, is noise.
const DIP_MIN: f32 = 0.1;

/// Dips before this bin concern few pages: as many as it is old.
const DIP_BIN_MIN: usize = 16;

/// The ages at which a curve has its deepest dips, ascending: between them, before the first and after the last it
/// rises and then falls, or nearly so. Places that are not needed are `u32::MAX`.
pub(super) fn dips(curve: &[f32; BINS]) -> [u32; PARTS_MAX - 1] {
    let mut found = valleys(curve);
    found.retain(|&(at, depth)| at >= DIP_BIN_MIN && depth > DIP_MIN * curve[at]);
    let share = |&(at, depth): &(usize, f32)| depth / (depth + curve[at]);
    found.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.0.cmp(&b.0)));
    let mut ages = [u32::MAX; PARTS_MAX - 1];
    for (age, (at, _)) in ages.iter_mut().zip(found) {
        *age = start(at).ceil() as u32;
    }
    ages.sort_unstable();
    ages
}

/// The first bin of each valley, with how deep it lies below the lower one of the two hills beside it.
fn valleys(curve: &[f32; BINS]) -> Vec<(usize, f32)> {
    let hill = |bottom: f32, side: &mut dyn Iterator<Item = &f32>| {
        side.take_while(|&&worth| worth >= bottom).copied().fold(bottom, f32::max)
    };
    let valley = |at: usize| {
        let bottom = curve[at];
        if bottom >= curve[at - 1] {
            return None;
        }
        let (before, after) = (hill(bottom, &mut curve[..at].iter().rev()), hill(bottom, &mut curve[at + 1..].iter()));
        let depth = before.min(after) - bottom;
        (depth > 0.0).then_some((at, depth))
    };
    (1..BINS).filter_map(valley).collect()
}

/// What is assumed before anything is known: the older, the less.
pub(super) fn unknown() -> [f32; BINS] {
    std::array::from_fn(|at| (1.0 / middle(at)) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_are_half_octaves() {
        let bins: Vec<usize> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 1 << 21, 3 << 20, u32::MAX].map(bin).to_vec();
        assert_eq!(bins, [0, 0, 2, 3, 4, 4, 5, 5, 6, 6, 7, 8, 42, 43, 43]);
        for age in 2..5000 {
            assert!(start(bin(age)) <= f64::from(age) && f64::from(age) < start(bin(age) + 1));
        }
    }

    #[test]
    fn an_age_stays_in_its_bin_until_the_next_one() {
        for age in (0..5000).chain([(3 << 20) - 1, 3 << 20, u32::MAX - 1, u32::MAX]) {
            let (of_age, stays) = bin_and_stay(age);
            assert_eq!((of_age, bin(age.wrapping_add(stays - 1))), (bin(age), bin(age)), "{age} for {stays}");
            assert_ne!(bin(age.wrapping_add(stays)), bin(age), "{age} for {stays}");
        }
    }

    #[test]
    fn all_read_at_one_age_are_worth_more_the_nearer_that_is() {
        let mut histogram = Histogram::EMPTY;
        histogram.hits[20] = 5.0;
        let curve = histogram.curve();
        assert!(curve[..21].windows(2).all(|pair| pair[0] <= pair[1]), "{curve:?}");
        assert!(curve[21..].iter().all(|&worth| worth == 0.0));
    }

    #[test]
    fn a_dip_between_two_hills_is_found() {
        let mut histogram = Histogram::EMPTY;
        (histogram.hits[10], histogram.hits[34], histogram.ends[34]) = (50.0, 50.0, 1.0);
        let ages = dips(&histogram.curve());
        assert!(ages[0] == u32::MAX, "hits at 32 are before the first bin that counts: {ages:?}");
        let mut curve = [1.0; BINS];
        (curve[20], curve[21], curve[30], curve[38]) = (0.5, 0.4, 0.0, 0.95);
        assert_eq!(dips(&curve), [1536, 32_768, u32::MAX]);
        assert_eq!(dips(&unknown()), [u32::MAX; 3]);
    }

    proptest! {
        /// Cut at all valleys, each part rises and then falls.
        #[test]
        fn parts_between_valleys_have_one_hill(numbers in prop::collection::vec(0u8..6, BINS)) {
            let curve: [f32; BINS] = std::array::from_fn(|at| f32::from(numbers[at]));
            let mut cuts: Vec<usize> = valleys(&curve).into_iter().map(|(at, _)| at).collect();
            cuts.insert(0, 0);
            cuts.push(BINS);
            for part in cuts.windows(2).map(|pair| &curve[pair[0]..pair[1]]) {
                let fall = part.windows(2).position(|pair| pair[1] < pair[0]).unwrap_or(part.len());
                prop_assert!(part[fall.min(part.len() - 1)..].windows(2).all(|pair| pair[1] <= pair[0]), "{:?}", part);
            }
        }

        /// More hits are never worth less, more ends never more; and one page's hit and time are a share of all's.
        #[test]
        fn moves_the_right_way(
            hits in prop::collection::vec(0u8..4, BINS), ends in prop::collection::vec(0u8..4, BINS), at in 0..BINS,
        ) {
            let mut histogram = Histogram::EMPTY;
            for bin in 0..BINS {
                (histogram.hits[bin], histogram.ends[bin]) = (f64::from(hits[bin]), f64::from(ends[bin]));
            }
            let before = histogram.curve();
            prop_assert!(before.iter().all(|worth| worth.is_finite() && *worth >= 0.0));
            let mut squatting = histogram.clone();
            squatting.ends[BINS - 1] += 1.0;
            prop_assert!(squatting.curve().iter().zip(&before).all(|(after, before)| after <= before));
            let mut doubled = histogram.clone();
            for bin in 0..BINS {
                (doubled.hits[bin], doubled.ends[bin]) = (2.0 * histogram.hits[bin], 2.0 * histogram.ends[bin]);
            }
            prop_assert!(doubled.curve().iter().zip(&before).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs()));
            let mut better = histogram.clone();
            better.hits[at] += better.ends[at];
            better.ends[at] = 0.0;
            prop_assert!(better.curve().iter().zip(&before).all(|(after, before)| *after >= *before * 0.999_999));
        }
    }
}
