//! How often keys were asked for lately, in a few bits each. It is a count-min sketch of 4-bit counters that are
//! halved from time to time. Before it a Bloom filter takes each key's first access (the doorkeeper). TinyLFU,
//! section 3.

use crate::ahead::prefetch;

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

/// Words of a block.
const WORDS: usize = 8;

/// A line of memory. All that is kept of a key lies in two of them: one of counters, one of the doorkeeper.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u64; WORDS]);

/// Bits of a block.
const BLOCK_BITS: usize = 64 * WORDS;
/// Counters of a row in a block, 16 in a word.
const ROW_COUNTERS: u64 = (16 * WORDS) as u64 / ROWS;

/// Frequencies of recent accesses, approximately.
pub(super) struct Sketch {
    /// Entries that it is made for, a power of two.
    entries: usize,
    /// The words of a block are those of one row after another.
    counters: Vec<Block>,
    door: Vec<Block>,
    /// Accesses counted since the last halving, and half of those before.
    sample: u64,
}

impl Sketch {
    /// A sketch for a cache of about `entries`; it grows by [`Sketch::fit`].
    pub fn new(entries: usize) -> Sketch {
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        let blocks = |bits: usize| vec![Block([0; WORDS]); entries * bits / BLOCK_BITS];
        let counter_bits = 4 * ROWS as usize * COUNTERS_PER_ENTRY;
        Sketch { entries, counters: blocks(counter_bits), door: blocks(DOOR_BITS_PER_ENTRY), sample: 0 }
    }

    /// Doubles the tables until they suit `entries`. What was counted stays true: a block's number has one more bit, so
    /// both halves begin as copies of the old table.
    pub fn fit(&mut self, entries: usize) {
        while self.entries < entries.min(ENTRIES_MAX) {
            self.entries *= 2;
            for table in [&mut self.counters, &mut self.door] {
                table.extend_from_within(..);
            }
        }
    }

    /// Asks for the memory that an access of a key needs.
    pub fn ahead(&self, hash: u64) {
        prefetch(&self.door[at(&self.door, spread(hash, 0))]);
        prefetch(&self.counters[at(&self.counters, spread(hash, 1))]);
    }

    /// Counts one access.
    pub fn add(&mut self, hash: u64) {
        self.sample += 1;
        if self.knock(hash) {
            let spread = spread(hash, 1);
            let at = at(&self.counters, spread);
            let Block(words) = &mut self.counters[at];
            let places = places(spread);
            let counts = places.map(|(word, shift)| words[word] >> shift & COUNTER_MAX);
            let least = counts.into_iter().min().unwrap_or(0);
            if least < COUNTER_MAX {
                for ((word, shift), count) in places.into_iter().zip(counts) {
                    // Only counters at the minimum rise: the others count other keys too.
                    words[word] += u64::from(count == least) << shift;
                }
            }
        }
        if self.sample >= SAMPLE_PER_ENTRY * self.entries as u64 {
            self.halve();
        }
    }

    /// About how often `hash` was counted lately, 0..=16; never less than it was since the last halving, up to 16.
    pub fn frequency(&self, hash: u64) -> u64 {
        let door = spread(hash, 0);
        let Block(words) = self.door[at(&self.door, door)];
        let known = bits(door).into_iter().all(|(word, bit)| words[word] & bit != 0);
        let counters = spread(hash, 1);
        let Block(words) = self.counters[at(&self.counters, counters)];
        let counts = places(counters).map(|(word, shift)| words[word] >> shift & COUNTER_MAX);
        counts.into_iter().min().unwrap_or(0) + u64::from(known)
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        (self.door.capacity() + self.counters.capacity()) * size_of::<Block>()
    }

    /// Sets a key's bits in the doorkeeper; whether they were all set before.
    fn knock(&mut self, hash: u64) -> bool {
        let spread = spread(hash, 0);
        let at = at(&self.door, spread);
        let Block(words) = &mut self.door[at];
        let mut known = true;
        for (word, bit) in bits(spread) {
            known &= words[word] & bit != 0;
            words[word] |= bit;
        }
        known
    }

    fn halve(&mut self) {
        self.sample /= 2;
        self.door.fill(Block([0; WORDS]));
        for word in self.counters.iter_mut().flat_map(|block| &mut block.0) {
            *word = (*word >> 1) & 0x7777_7777_7777_7777;
        }
    }
}

/// The block of a key, by the lowest bits.
fn at(blocks: &[Block], spread: u64) -> usize {
    spread as usize & (blocks.len() - 1)
}

/// The words and shifts of a key's counters, one of each row, by the highest bits.
fn places(spread: u64) -> [(usize, u32); ROWS as usize] {
    std::array::from_fn(|row| {
        let counter = row as u64 * ROW_COUNTERS + (spread >> (64 - 5 * (row + 1))) % ROW_COUNTERS;
        ((counter / 16) as usize, 4 * (counter % 16) as u32)
    })
}

/// The words and bits of a key in the doorkeeper, by the highest bits.
fn bits(spread: u64) -> [(usize, u64); DOOR_BITS_PER_KEY as usize] {
    std::array::from_fn(|number| {
        let bit = (spread >> (64 - 9 * (number + 1))) as usize % BLOCK_BITS;
        (bit / 64, 1 << (bit % 64))
    })
}

/// An independent hash for each table (splitmix64's finalizer).
fn spread(hash: u64, table: u64) -> u64 {
    let mut x = hash.wrapping_add((table + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
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
    fn few_newcomers_pass_for_known() {
        let mut sketch = Sketch::new(1 << 12);
        (0..SAMPLE_PER_ENTRY * sketch.entries as u64 - 1).for_each(|key| sketch.add(key));
        let passed = (1 << 32..(1 << 32) + 100_000_u64).filter(|&key| sketch.frequency(key) > 0).count();
        assert!(passed < 1000, "{passed} of 100,000");
    }

    #[test]
    fn halves_by_itself_and_stays_bounded() {
        let mut sketch = Sketch::new(0);
        (0..100_000u64).for_each(|key| sketch.add(key));
        assert!(sketch.sample < SAMPLE_PER_ENTRY * ENTRIES_MIN as u64);
        assert!(sketch.bytes() <= ENTRIES_MIN * 24, "{} bytes", sketch.bytes());
    }
}
