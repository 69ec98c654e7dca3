//! What is known of keys that left: how often they were asked for, and the sum of their instance scores. A bounded
//! number is remembered. Keys are known by 32 bits of their hash; one that is like another by chance begins with the
//! other's figures.
//!
//! There are several of these for each entry, so they are kept small: eight bytes each, twelve where figures fade and
//! their time has to be kept. A key's print says in which of many small buckets it stands; in each the newest is first,
//! and the oldest is forgotten when the bucket is full. Figures are kept to three digits.

/// No more than this in one order.
const REMEMBERED_MAX: usize = 1 << 22;

/// Places of a bucket.
const WAYS: usize = 8;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// How often a key was asked for, and what its instance scores add up to, as the aggregate has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub frequency: f32,
    pub total: f32,
    /// When that was last brought up to date, in the order's ticks.
    pub touched: u32,
}

impl Known {
    /// An access was that of a transaction that was aborted. It may have been counted as less than 1; one stays where
    /// scores were learned, or their mean would have no bound.
    pub fn uncount(&mut self) {
        let least = if self.total > 0.0 { self.frequency.min(1.0) } else { 0.0 };
        self.frequency = (self.frequency - 1.0).max(least);
    }
}

#[derive(Clone, Copy)]
struct Place {
    /// 0 where nothing is remembered.
    print: u32,
    frequency: u16,
    total: u16,
}

const EMPTY: Place = Place { print: 0, frequency: 0, total: 0 };

/// See the module.
pub(super) struct Remembered {
    /// Bucket by bucket.
    places: Vec<Place>,
    /// When each place's figures were brought up to date; empty where figures do not fade.
    touched: Vec<u32>,
    fades: bool,
    len: usize,
}

/// By which a key is known; never 0.
pub(super) fn print(hash: u64) -> u32 {
    ((hash.wrapping_mul(SPREAD) >> 32) as u32).max(1)
}

/// The exponent of the smallest number above 0 that [`packed`] can hold, as an `f32` has it.
const EXPONENT_MIN: u32 = 127 - 24;

/// Bits of an `f32`'s fraction that [`packed`] drops; ten are left, so whole numbers up to 2,048 are exact.
const DROPPED: u32 = 13;

/// A number from 0 to 10^12 in 16 bits: a float with ten bits of fraction, six of exponent and no sign.
fn packed(number: f32) -> u16 {
    let rounded = (number.max(0.0).to_bits() + (1 << (DROPPED - 1))) >> DROPPED;
    rounded.saturating_sub(EXPONENT_MIN << (23 - DROPPED)).min(u32::from(u16::MAX)) as u16
}

fn unpacked(bits: u16) -> f32 {
    match bits {
        0 => 0.0,
        bits => f32::from_bits((u32::from(bits) + (EXPONENT_MIN << (23 - DROPPED))) << DROPPED),
    }
}

impl Remembered {
    /// `fades`: when figures were brought up to date is kept too.
    pub fn new(fades: bool) -> Remembered {
        Remembered { places: Vec::new(), touched: Vec::new(), fades, len: 0 }
    }

    fn buckets(&self) -> usize {
        self.places.len() / WAYS
    }

    /// The first place of a print's bucket.
    fn bucket(&self, print: u32) -> usize {
        ((u64::from(print) * self.buckets() as u64) >> 32) as usize * WAYS
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let print = print(hash);
        let begins = self.bucket(print);
        let bucket = self.places.get(begins..begins + WAYS)?;
        bucket.iter().position(|place| place.print == print).map(|way| begins + way)
    }

    fn set(&mut self, at: usize, print: u32, known: Known) {
        self.places[at] = Place { print, frequency: packed(known.frequency), total: packed(known.total) };
        if let Some(touched) = self.touched.get_mut(at) {
            *touched = known.touched;
        }
    }

    fn known(&self, at: usize) -> Known {
        let Place { frequency, total, .. } = self.places[at];
        let touched = self.touched.get(at).copied().unwrap_or_default();
        Known { frequency: unpacked(frequency), total: unpacked(total), touched }
    }

    /// Remembers a key as its bucket's newest, and forgets the oldest of a bucket that is full. There are places for
    /// about `len_max`, in whole buckets.
    pub fn insert(&mut self, hash: u64, known: Known, len_max: usize) {
        self.take(hash);
        self.fit(len_max.min(REMEMBERED_MAX).div_ceil(WAYS));
        if !self.places.is_empty() {
            self.push(print(hash), known);
        }
    }

    fn push(&mut self, print: u32, known: Known) {
        let begins = self.bucket(print);
        let bucket = begins..begins + WAYS;
        self.len += usize::from(self.places[bucket.end - 1].print == 0);
        self.places[bucket.clone()].rotate_right(1);
        if let Some(touched) = self.touched.get_mut(bucket) {
            touched.rotate_right(1);
        }
        self.set(begins, print, known);
    }

    /// Another number of buckets, if it has to be an eighth more or half as many; all else would be work for nothing.
    fn fit(&mut self, buckets: usize) {
        let present = self.buckets();
        let grown = if buckets > present { buckets.max(present + present / 8 + 1) } else { buckets };
        if buckets <= present && buckets > present / 2 || buckets == present {
            return;
        }
        let (fades, places) = (self.fades, grown * WAYS);
        let touched = vec![0; if fades { places } else { 0 }];
        let fresh = Remembered { places: vec![EMPTY; places], touched, fades, len: 0 };
        let old = std::mem::replace(self, fresh);
        if self.places.is_empty() {
            return;
        }
        // The oldest of each bucket first, so that the newest of all are in front again.
        for way in (0..WAYS).rev() {
            for at in (way..old.places.len()).step_by(WAYS).filter(|&at| old.places[at].print != 0) {
                self.push(old.places[at].print, old.known(at));
            }
        }
    }

    /// What is known of a key.
    pub fn get(&self, hash: u64) -> Option<Known> {
        self.find(hash).map(|at| self.known(at))
    }

    /// Changes what is known of a key, if anything is.
    pub fn update(&mut self, hash: u64, change: impl FnOnce(&mut Known)) {
        if let Some(at) = self.find(hash) {
            let mut known = self.known(at);
            change(&mut known);
            self.set(at, print(hash), known);
        }
    }

    /// Takes out what is known of a key.
    pub fn take(&mut self, hash: u64) -> Option<Known> {
        let at = self.find(hash)?;
        let known = self.known(at);
        let ends = at - at % WAYS + WAYS;
        self.places[at..ends].rotate_left(1);
        self.places[ends - 1] = EMPTY;
        if let Some(touched) = self.touched.get_mut(at..ends) {
            touched.rotate_left(1);
        }
        self.len -= 1;
        Some(known)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.touched.capacity() * size_of::<u32>()
    }

    pub fn validate(&self) {
        let live = self.places.iter().filter(|place| place.print != 0).count();
        assert_eq!(live, self.len, "the number that is remembered");
        for (at, place) in self.places.iter().enumerate().filter(|(_, place)| place.print != 0) {
            assert_eq!(self.bucket(place.print), at - at % WAYS, "it stands where it is looked for");
            assert!(at % WAYS == 0 || self.places[at - 1].print != 0, "no hole before it");
        }
        assert_eq!(self.touched.len(), if self.fades { self.places.len() } else { 0 }, "a time for each place");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_keep_three_digits() {
        for number in 0..=2048u16 {
            assert_eq!(unpacked(packed(f32::from(number))), f32::from(number));
        }
        for number in [1e-7f32, 0.001, 0.75, 19.333, 4097.0, 1.5e6, 3.3e10] {
            let kept = unpacked(packed(number));
            assert!((kept / number - 1.0).abs() < 1.0 / 2048.0, "{number} is kept as {kept}");
        }
        assert_eq!((packed(-1.0), packed(1e-9), unpacked(packed(f32::MAX)) > 1e11), (0, 0, true));
    }

    #[test]
    fn what_fits_is_remembered_when_there_is_room_for_more() {
        let mut remembered = Remembered::new(true);
        // Places grow with the entries: for 4 of each key that was remembered so far none is forgotten.
        for hash in 0..3000u64 {
            let known = Known { frequency: hash as f32, total: 1.0, touched: hash as u32 };
            remembered.insert(hash, known, 4 * hash as usize + 64);
        }
        remembered.validate();
        let kept = (0..3000).filter(|&hash| remembered.get(hash).is_some_and(|known| known.touched == hash as u32));
        assert!(kept.count() > 2980, "{} of 3000", remembered.len);
        // And fewer when they shrink: those that came last.
        remembered.insert(3000, Known::default(), 100);
        remembered.validate();
        assert!(remembered.len <= 104 && remembered.get(3000).is_some());
        remembered.insert(3001, Known::default(), 0);
        assert_eq!((remembered.len, remembered.bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn equals_a_vector_for_each_bucket(
            fades in any::<bool>(), steps in prop::collection::vec((0u64..40, 0u8..6), 0..400),
        ) {
            let mut remembered = Remembered::new(fades);
            let mut model = [Vec::<(u64, Known)>::new(), Vec::new()];
            for (at, (hash, step)) in steps.into_iter().enumerate() {
                let touched = if fades { at as u32 } else { 0 };
                let known = Known { frequency: at as f32, total: 1.0, touched };
                let bucket = &mut model[usize::from(print(hash) >= 1 << 31)];
                match step {
                    0 => {
                        let expected = bucket.iter().find(|one| one.0 == hash).map(|one| one.1);
                        bucket.retain(|one| one.0 != hash);
                        prop_assert_eq!(remembered.take(hash), expected);
                    }
                    1 => {
                        remembered.update(hash, |known| known.total = 7.0);
                        bucket.iter_mut().filter(|one| one.0 == hash).for_each(|one| one.1.total = 7.0);
                    }
                    _ => {
                        remembered.insert(hash, known, 2 * WAYS);
                        bucket.retain(|one| one.0 != hash);
                        bucket.insert(0, (hash, known));
                        bucket.truncate(WAYS);
                    }
                }
                remembered.validate();
                for (hash, known) in model.iter().flatten() {
                    prop_assert_eq!(remembered.get(*hash), Some(*known));
                }
                prop_assert_eq!(remembered.len, model[0].len() + model[1].len());
            }
        }
    }
}
