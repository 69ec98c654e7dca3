//! Random numbers for policies that sample: seeded by a parameter, so that the same accesses give the same decisions.

/// A small generator (splitmix64), good enough to sample with.
#[derive(Default)]
pub(super) struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 up to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An index below `len`, which is not 0.
    pub fn index(&mut self, len: usize) -> usize {
        ((u128::from(self.bits()) * len as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_and_stays_in_range() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let mut met = [0u32; 10];
        for _ in 0..10_000 {
            assert_eq!(one.bits(), other.bits());
            assert!((0.0..1.0).contains(&one.share()));
            other.share();
            met[one.index(10)] += 1;
            other.index(10);
        }
        assert!(met.iter().all(|&times| (800..1200).contains(&times)), "{met:?}");
    }
}
