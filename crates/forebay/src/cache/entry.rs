//! One cached key: its record, and all else that is known of it in one word. A million of these are 24 MB.

use std::num::NonZeroU64;

use crate::key::{Key, KeyRef};
use crate::policy::{MARKS_MAX, Policy};
use crate::read::Read;
use crate::read::record::Record;

/// Bytes of an entry beside its key, its value and the policy's metadata: its place in the slab, and one bucket of the
/// index (a slot number and a control byte at 7/16 to 7/8 load).
pub const ENTRY_OVERHEAD_BYTES: usize = size_of::<Option<Entry>>() + 8;

// The word, from its lowest bit: one that is always set, so that an empty place in the slab needs no word of its own;
// the mark of a publication; touches; the key space; the sequence. A partition that installs a million values a second
// uses up its sequences in 2,000 years.
const ALWAYS: u64 = 1;
const MARKED: u64 = 1 << 1;
const TOUCHES_SHIFT: u32 = 2;
const TOUCHES: u64 = 3 << TOUCHES_SHIFT;
const SPACE_SHIFT: u32 = 4;
const SPACE: u64 = 15 << SPACE_SHIFT;
const SEQUENCE_SHIFT: u32 = 8;

const _: () = assert!(MARKS_MAX as u64 <= TOUCHES >> TOUCHES_SHIFT);
const _: () = assert!(crate::key::SPACES as u64 - 1 <= SPACE >> SPACE_SHIFT);

/// See the module.
pub(super) struct Entry {
    pub record: Record,
    word: NonZeroU64,
}

impl Entry {
    /// An entry without touches. `sequence` is unique over all installs of the partition, and never used again.
    pub fn new(record: Record, sequence: u64, space: u8, marked: bool) -> Entry {
        let mut entry = Entry { record, word: NonZeroU64::MIN };
        entry.put(sequence << SEQUENCE_SHIFT | u64::from(space) << SPACE_SHIFT, !ALWAYS);
        entry.set_marked(marked);
        entry
    }

    /// Another value of the same key; touches and mark stay.
    pub fn replace(&mut self, key: &Key, read: &Read, sequence: u64) {
        self.record.replace(key, read);
        self.put(sequence << SEQUENCE_SHIFT, u64::MAX << SEQUENCE_SHIFT);
    }

    pub fn is_of(&self, key: KeyRef<'_>) -> bool {
        self.space() == key.space && self.record.is_named(key)
    }

    pub fn hash64(&self) -> u64 {
        KeyRef { space: self.space(), name: self.record.name() }.hash64()
    }

    /// Bytes charged for it.
    pub fn charged(&self, policy: &Policy) -> usize {
        ENTRY_OVERHEAD_BYTES + policy.entry_bytes + self.record.charged_bytes()
    }

    pub fn sequence(&self) -> u64 {
        self.word.get() >> SEQUENCE_SHIFT
    }

    pub fn space(&self) -> u8 {
        ((self.word.get() & SPACE) >> SPACE_SHIFT) as u8
    }

    /// Whether it is being published.
    pub fn marked(&self) -> bool {
        self.word.get() & MARKED != 0
    }

    pub fn set_marked(&mut self, marked: bool) {
        self.put(if marked { MARKED } else { 0 }, MARKED);
    }

    /// Counts a touch, up to [`MARKS_MAX`].
    pub fn touch(&mut self) {
        let touches = (self.touches() + 1).min(MARKS_MAX);
        self.put(u64::from(touches) << TOUCHES_SHIFT, TOUCHES);
    }

    /// The touches since the last call.
    pub fn take_touches(&mut self) -> u8 {
        let touches = self.touches();
        self.put(0, TOUCHES);
        touches
    }

    fn touches(&self) -> u8 {
        ((self.word.get() & TOUCHES) >> TOUCHES_SHIFT) as u8
    }

    /// Sets the bits of `part` as they are in `bits`.
    fn put(&mut self, bits: u64, part: u64) {
        self.word = NonZeroU64::MIN | (self.word.get() & !part | bits & part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;
    use proptest::prelude::*;

    /// A million cached keys cost what an entry costs a million times.
    #[test]
    fn an_entry_is_small() {
        assert_eq!((size_of::<Option<Entry>>(), ENTRY_OVERHEAD_BYTES), (24, 32));
    }

    proptest! {
        /// The parts of the word are those of separate fields.
        #[test]
        fn equals_fields(
            space in 0..crate::key::SPACES,
            marked in any::<bool>(),
            steps in prop::collection::vec((0u8..5, 0u64..1 << 56), 0..40),
        ) {
            let read = Read { value: None, version: Version::ZERO };
            let key = Key::new(space, b"key");
            let mut entry = Entry::new(Record::new(&key, &read), 7, space, marked);
            let mut model = (7, marked, 0);
            for (operation, sequence) in steps {
                match operation {
                    0 | 1 => {
                        entry.touch();
                        model.2 = (model.2 + 1).min(MARKS_MAX);
                    }
                    2 => prop_assert_eq!(entry.take_touches(), std::mem::take(&mut model.2)),
                    3 => {
                        model.1 = sequence % 2 == 0;
                        entry.set_marked(model.1);
                    }
                    _ => {
                        model.0 = sequence;
                        entry.replace(&key, &read, sequence);
                    }
                }
                prop_assert_eq!((entry.sequence(), entry.marked(), entry.touches()), model);
                prop_assert_eq!(entry.space(), space);
            }
        }
    }
}
