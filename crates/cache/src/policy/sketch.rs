//! How often keys were asked for lately, in a few bits each. It is a count-min sketch of 4-bit counters that are
//! halved from time to time. Before it a Bloom filter takes each key's first access (the doorkeeper). TinyLFU,
//! section 3.

/// Rows of the sketch; a key has one counter in each.
const ROWS: u64 = 4;
/// Counters per row for each entry that the cache holds.
const COUNTERS_PER_ENTRY: usize = 4;
/// Doorkeeper bits for each entry that the cache holds: enough that when every access of a sample is to another key,
/// less than 1 % of newcomers pass for known. More would let a loop over many keys replace what is kept.
const DOOR_BITS_PER_ENTRY: usize = 128;
/// Bits that a key sets in the doorkeeper.
const DOOR_BITS_PER_KEY: u64 = 4;
/// Counters are halved after this many accesses for each entry that the cache holds.
const SAMPLE_PER_ENTRY: u64 = 10;
/// A 4-bit counter's largest value.
const COUNTER_MAX: u64 = 15;
/// The sketch grows no further than for this many entries.
const ENTRIES_MAX: usize = 1 << 24;
/// And begins with this many.
const ENTRIES_MIN: usize = 64;

/// Frequencies of recent accesses, approximately.
pub(super) struct Sketch {
    /// Entries that it is made for, a power of two.
    entries: usize,
    /// 16 counters in each word; the rows one after another.
    rows: [Vec<u64>; ROWS as usize],
    door: Vec<u64>,
    /// Accesses counted since the last halving, and half of those before.
    sample: u64,
}

impl Sketch {
    /// A sketch for a cache of about `entries`; it grows by [`Sketch::fit`].
    pub fn new(entries: usize) -> Sketch {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        let row = vec![0; entries * COUNTERS_PER_ENTRY / 16];
        Sketch {
            entries,
            rows: [row.clone(), row.clone(), row.clone(), row],
            door: vec![0; entries * DOOR_BITS_PER_ENTRY / 64],
            sample: 0,
        }
    }

    /// Doubles the tables until they suit `entries`. What was counted stays true: an index has one more bit, so both
    /// halves begin as copies of the old table.
    pub fn fit(&mut self, entries: usize) {
        while self.entries < entries.min(ENTRIES_MAX) {
            self.entries *= 2;
            for table in self.rows.iter_mut().chain([&mut self.door]) {
                table.extend_from_within(..);
            }
        }
    }

    /// Counts one access.
    pub fn add(&mut self, hash: u64) {
        self.sample += 1;
        if self.knock(hash) {
            let places: [(usize, u32); ROWS as usize] = std::array::from_fn(|row| self.counter(hash, row as u64));
            let count = |row: usize| (self.rows[row][places[row].0] >> places[row].1) & COUNTER_MAX;
            let counts: [u64; ROWS as usize] = std::array::from_fn(count);
            let least = counts.into_iter().min().unwrap_or(0);
            if least < COUNTER_MAX {
                for (row, (word, shift)) in places.into_iter().enumerate() {
                    // Only counters at the minimum rise: the others count other keys too.
                    if counts[row] == least {
                        self.rows[row][word] += 1 << shift;
                    }
                }
            }
        }
        if self.sample >= SAMPLE_PER_ENTRY * self.entries as u64 {
            self.halve();
        }
    }

    /// About how often `hash` was counted lately, 0..=16; never less than it was since the last halving, up to 16.
    pub fn frequency(&self, hash: u64) -> u64 {
        let known = (0..DOOR_BITS_PER_KEY).all(|bit| {
            let (word, mask) = self.door_bit(hash, bit);
            self.door[word] & mask != 0
        });
        self.least(hash) + u64::from(known)
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        (self.door.capacity() + self.rows.iter().map(Vec::capacity).sum::<usize>()) * size_of::<u64>()
    }

    /// Sets a key's bits in the doorkeeper; whether they were all set before.
    fn knock(&mut self, hash: u64) -> bool {
        let mut known = true;
        for bit in 0..DOOR_BITS_PER_KEY {
            let (word, mask) = self.door_bit(hash, bit);
            known &= self.door[word] & mask != 0;
            self.door[word] |= mask;
        }
        known
    }

    fn least(&self, hash: u64) -> u64 {
        let mut least = COUNTER_MAX;
        for row in 0..ROWS {
            let (word, shift) = self.counter(hash, row);
            least = least.min((self.rows[row as usize][word] >> shift) & COUNTER_MAX);
            // Most newcomers end here.
            if least == 0 {
                break;
            }
        }
        least
    }

    fn halve(&mut self) {
        self.sample /= 2;
        self.door.fill(0);
        for word in self.rows.iter_mut().flatten() {
            *word = (*word >> 1) & 0x7777_7777_7777_7777;
        }
    }

    fn counter(&self, hash: u64, row: u64) -> (usize, u32) {
        let index = spread(hash, row) as usize & (self.entries * COUNTERS_PER_ENTRY - 1);
        (index / 16, 4 * (index % 16) as u32)
    }

    fn door_bit(&self, hash: u64, bit: u64) -> (usize, u64) {
        let index = spread(hash, ROWS + bit) as usize & (self.entries * DOOR_BITS_PER_ENTRY - 1);
        (index / 64, 1 << (index % 64))
    }
}

/// An independent hash for each row (splitmix64's finalizer).
fn spread(hash: u64, row: u64) -> u64 {
    let mut x = hash.wrapping_add((row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Against exact counts: never too low, and rarely too high while there are few keys.
        #[test]
        fn never_undercounts(keys in prop::collection::vec(0u64..40, 0..600), growth in 0usize..3) {
            let (mut sketch, mut model) = (Sketch::new(64), HashMap::<u64, u64>::new());
            for (i, &key) in keys.iter().enumerate() {
                if i == keys.len() / 2 {
                    sketch.fit(64 << growth);
                }
                sketch.add(key);
                *model.entry(key).or_default() += 1;
            }
            let mut over = 0;
            for (&key, &count) in &model {
                prop_assert!(sketch.frequency(key) >= count.min(COUNTER_MAX + 1));
                over += usize::from(sketch.frequency(key) > count);
            }
            prop_assert!(over <= 4, "{} of {} keys overcounted", over, model.len());
        }
    }

    #[test]
    fn halving_forgets() {
        let mut sketch = Sketch::new(64);
        (0..20).for_each(|_| sketch.add(7));
        assert_eq!(sketch.frequency(7), 16);
        sketch.halve();
        assert_eq!(sketch.frequency(7), 7);
        (0..4).for_each(|_| sketch.halve());
        assert_eq!(sketch.frequency(7), 0);
    }

    #[test]
    fn halves_by_itself_and_stays_bounded() {
        let mut sketch = Sketch::new(0);
        (0..100_000u64).for_each(|key| sketch.add(key));
        assert!(sketch.sample < SAMPLE_PER_ENTRY * ENTRIES_MIN as u64);
        assert!(sketch.bytes() <= ENTRIES_MIN * 24, "{} bytes", sketch.bytes());
    }
}
