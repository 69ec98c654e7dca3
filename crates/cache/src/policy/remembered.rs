//! What is known of keys that left: how often they were asked for, and the sum of their instance scores. A bounded
//! number is remembered. Keys are known by 32 bits of their hash; one that is like another by chance begins with the
//! other's figures.
//!
//! There are several of these for each entry, so they are kept small. Each takes nine bytes, or thirteen and a half
//! where figures fade and their time has to be kept. A key's print says in which two of many small buckets it may
//! stand; in each the newest is first. It goes to the emptier of the two, and an eighth of all places is free. So
//! hardly a key is forgotten before there are as many as may be. With one bucket for each key one in seven is, by
//! chance. Such a key begins again as one that is hardly asked for, leaves at once, and spoils the groups that it is
//! in. Of too many keys the oldest of a bucket is forgotten. Figures are kept to three digits.

/// No more than this in one order.
const REMEMBERED_MAX: usize = 1 << 22;

/// Places of a bucket.
const WAYS: usize = 8;

/// Of so many places one is free.
const FREE: usize = 8;

/// Keys of a full bucket, the oldest ones, that may make room by going to their other bucket.
const MOVES: usize = 2;

/// 2^64 over the golden ratio: an odd number that carries low bits far up.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Likewise of 2^32, for a print's second bucket.
const SPREAD_AGAIN: u32 = 0x9e37_79b9;

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

    /// The first places of a print's two buckets, which may be the same.
    fn both(&self, print: u32) -> [usize; 2] {
        let bucket = |print: u32| ((u64::from(print) * self.buckets() as u64) >> 32) as usize * WAYS;
        // The high half of a product depends on all bits, so the two have nothing to do with each other.
        [bucket(print), bucket((print ^ (print >> 15)).wrapping_mul(SPREAD_AGAIN))]
    }

    fn bucket(&self, begins: usize) -> &[Place] {
        &self.places[begins..begins + WAYS]
    }

    /// Keys of a bucket.
    fn filled(&self, begins: usize) -> usize {
        self.bucket(begins).iter().filter(|place| place.print != 0).count()
    }

    fn find(&self, hash: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let print = print(hash);
        let within = |begins: usize| self.bucket(begins).iter().position(|place| place.print == print);
        self.both(print).into_iter().find_map(|begins| within(begins).map(|way| begins + way))
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

    /// Remembers a key as its bucket's newest. Of about `len_max` keys an old one is forgotten for it.
    pub fn insert(&mut self, hash: u64, known: Known, len_max: usize) {
        self.take(hash);
        let len_max = len_max.min(REMEMBERED_MAX);
        self.fit((len_max + len_max / (FREE - 1)).div_ceil(WAYS));
        if !self.places.is_empty() {
            self.push(print(hash), known, len_max);
        }
    }

    fn push(&mut self, print: u32, known: Known, len_max: usize) {
        let [one, other] = self.both(print);
        let (mut in_one, mut in_other) = (self.filled(one), self.filled(other));
        if self.len >= len_max && in_one.max(in_other) > 0 {
            let (fuller, filled) = if in_other < in_one { (one, &mut in_one) } else { (other, &mut in_other) };
            self.vacate(fuller + *filled - 1);
            *filled -= 1;
        }
        let begins = match in_one.min(in_other) {
            WAYS => self.make_room(one, other),
            _ if in_other < in_one => other,
            _ => one,
        };
        self.put(begins, 0, print, known);
    }

    /// The one of two full buckets in which there is a place now: one of their oldest keys goes to its other bucket, or
    /// is forgotten if those are full too.
    fn make_room(&mut self, one: usize, other: usize) -> usize {
        for begins in [one, other] {
            for at in (begins..begins + WAYS).rev().take(MOVES) {
                let print = self.places[at].print;
                let [first, second] = self.both(print);
                let elsewhere = if first == begins { second } else { first };
                let filled = self.filled(elsewhere);
                if filled < WAYS {
                    let known = self.known(at);
                    self.vacate(at);
                    self.put(elsewhere, filled, print, known);
                    return begins;
                }
            }
        }
        self.vacate(one + WAYS - 1);
        one
    }

    /// Puts a key at a place of a bucket that has one free; those that stand there and behind move back.
    fn put(&mut self, begins: usize, way: usize, print: u32, known: Known) {
        let (at, ends) = (begins + way, begins + WAYS);
        self.places.copy_within(at..ends - 1, at + 1);
        if !self.touched.is_empty() {
            self.touched.copy_within(at..ends - 1, at + 1);
        }
        self.set(at, print, known);
        self.len += 1;
    }

    /// Frees a place; those behind it move up.
    fn vacate(&mut self, at: usize) {
        let ends = at - at % WAYS + WAYS;
        self.places.copy_within(at + 1..ends, at);
        self.places[ends - 1] = EMPTY;
        if !self.touched.is_empty() {
            self.touched.copy_within(at + 1..ends, at);
        }
        self.len -= 1;
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
                self.push(old.places[at].print, old.known(at), usize::MAX);
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
        self.vacate(at);
        Some(known)
    }

    /// How many keys it remembers in so many bytes.
    pub fn len_within(&self, bytes: f64) -> usize {
        let place = size_of::<Place>() + if self.fades { size_of::<u32>() } else { 0 };
        (bytes / place as f64) as usize * (FREE - 1) / FREE
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.touched.capacity() * size_of::<u32>()
    }

    pub fn validate(&self) {
        let live = self.places.iter().filter(|place| place.print != 0).count();
        assert_eq!(live, self.len, "the number that is remembered");
        for (at, place) in self.places.iter().enumerate().filter(|(_, place)| place.print != 0) {
            assert!(self.both(place.print).contains(&(at - at % WAYS)), "it stands where it is looked for");
            assert!(at % WAYS == 0 || self.places[at - 1].print != 0, "no hole before it");
        }
        assert_eq!(self.touched.len(), if self.fades { self.places.len() } else { 0 }, "a time for each place");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::random::Random;
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
        assert!(remembered.len <= 120 && remembered.get(3000).is_some());
        remembered.insert(3001, Known::default(), 0);
        assert_eq!((remembered.len, remembered.bytes()), (0, 0));
    }

    /// As many keys as may be remembered, of which one after the other leaves and another comes.
    #[test]
    fn no_key_is_forgotten_by_chance() {
        let (mut remembered, len_max) = (Remembered::new(false), 6_000);
        let mut random = Random::new(1);
        let order: Vec<u64> = (0..2 * len_max).map(|_| random.index(usize::MAX) as u64).collect();
        order[..len_max].iter().for_each(|&hash| remembered.insert(hash, Known::default(), len_max));
        let mut lost = 0;
        for round in 0..3 * len_max {
            let (leaves, comes) = (order[round % order.len()], order[(round + len_max) % order.len()]);
            lost += usize::from(remembered.take(leaves).is_none());
            remembered.insert(comes, Known::default(), len_max);
        }
        remembered.validate();
        assert!(lost < 3 * len_max / 100, "{lost} of {}", 3 * len_max);
    }

    #[test]
    fn of_too_many_the_oldest_are_forgotten() {
        let (mut remembered, len_max) = (Remembered::new(false), 1_000);
        (0..20_000).for_each(|hash| remembered.insert(hash, Known::default(), len_max));
        remembered.validate();
        assert!(remembered.len <= len_max, "{}", remembered.len);
        let kept = |from: u64, until: u64| (from..until).filter(|&hash| remembered.get(hash).is_some()).count();
        let (newest, oldest) = (kept(19_700, 20_000), kept(0, 17_000));
        assert!(newest > 290 && oldest < 10, "{newest} of the newest 300, {oldest} that are old");
    }

    proptest! {
        /// Nothing is remembered but what was last said of a key, and what was said last of all is.
        #[test]
        fn equals_what_was_said_last(
            fades in any::<bool>(), len_max in 1usize..60, steps in prop::collection::vec((0u64..80, 0u8..6), 0..400),
        ) {
            let mut remembered = Remembered::new(fades);
            let mut model = std::collections::HashMap::<u64, Known>::new();
            for (at, (hash, step)) in steps.into_iter().enumerate() {
                let touched = if fades { at as u32 } else { 0 };
                let known = Known { frequency: at as f32, total: 1.0, touched };
                // What was forgotten comes back only by being said again.
                model.retain(|&hash, _| remembered.get(hash).is_some());
                match step {
                    0 => prop_assert_eq!(remembered.take(hash), model.remove(&hash)),
                    1 => {
                        remembered.update(hash, |known| known.total = 7.0);
                        model.entry(hash).and_modify(|known| known.total = 7.0);
                    }
                    _ => {
                        let before = remembered.len + usize::from(remembered.get(hash).is_none());
                        remembered.insert(hash, known, len_max);
                        model.insert(hash, known);
                        prop_assert_eq!(remembered.get(hash), Some(known));
                        prop_assert!(remembered.len + 1 >= before.min(len_max), "one goes for one that comes");
                    }
                }
                remembered.validate();
                let kept: Vec<u64> = (0..80).filter(|&hash| remembered.get(hash).is_some()).collect();
                prop_assert_eq!(kept.len(), remembered.len);
                for hash in kept {
                    prop_assert_eq!(remembered.get(hash), model.get(&hash).copied());
                }
            }
        }
    }
}
