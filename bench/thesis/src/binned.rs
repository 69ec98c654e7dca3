//! Binning (thesis, section 2.2.6): parts by hash, each a cache by itself.
//!
//! Every part has the thresholds of the whole, as shares of the part's capacity. The thesis' program leaves them at
//! .1|.1 in every part, whatever is asked for. So its table 5.4 has equal rows, which the thesis explains by a factor
//! of 64.

use crate::{Cache, hash};

/// The thesis' number of parts.
pub const BINS: usize = 64;

/// See the module.
pub struct Binned<C> {
    bins: Vec<C>,
}

impl<C> Binned<C> {
    /// At most [`BINS`] parts, each of one pair at least, whose capacities sum up to `capacity`; `new` makes one.
    pub fn new(capacity: usize, new: impl Fn(usize) -> C) -> Binned<C> {
        let count = capacity.clamp(1, BINS);
        let share = |bin| capacity / count + usize::from(bin < capacity % count);
        Binned { bins: (0..count).map(|bin| new(share(bin))).collect() }
    }

    /// By the high bits of the hash; a part's chains go by the low ones.
    fn bin(&self, key: u64) -> &C {
        let at = (u128::from(hash(key)) * self.bins.len() as u128) >> 64;
        &self.bins[at as usize]
    }
}

impl<C: Cache> Cache for Binned<C> {
    fn get(&self, key: u64) -> Option<u64> {
        self.bin(key).get(key)
    }

    fn insert(&self, key: u64, value: u64) -> bool {
        self.bin(key).insert(key, value)
    }

    fn check(&self) -> Result<Vec<(u64, u64)>, String> {
        let parts: Result<Vec<_>, String> = self.bins.iter().map(C::check).collect();
        Ok(parts?.concat())
    }
}
