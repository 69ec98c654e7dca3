//! Where in a text a part of a pattern is found, in one pass over the text: Shift-And of Baeza-Yates and Gonnet.
//!
//! **Invariant.** After each byte, bit `i` of the state says whether the part's elements up to `i` match the bytes that
//! end here. A byte takes one step for each word of 64 elements of the part, whatever the bytes before it were.
//!
//! The masks are made once for a pattern. Bytes that all its elements treat alike share theirs. So a pattern of 1 KiB
//! takes 33 KiB at most, and one with a few classes takes some hundred bytes.

use std::collections::HashMap;
use std::ops::Range;

/// Elements in one word.
pub(super) const WORD_ELEMENTS: usize = u64::BITS as usize;

/// Which elements of a pattern each byte matches.
pub(super) struct Masks {
    /// Where the masks of a byte are, in words.
    at: Box<[u16; 256]>,
    masks: Vec<u64>,
}

impl Masks {
    /// Of a pattern with so many elements; `is` says whether one of them matches a byte.
    pub(super) fn new(elements: usize, is: impl Fn(usize, u8) -> bool) -> Option<Masks> {
        let (words, mut known, mut masks) = (elements.div_ceil(WORD_ELEMENTS), HashMap::new(), Vec::new());
        let mut at = Box::new([0; 256]);
        for byte in 0..=u8::MAX {
            let mut mask = vec![0_u64; words];
            for element in (0..elements).filter(|element| is(*element, byte)) {
                mask[element / WORD_ELEMENTS] |= 1 << (element % WORD_ELEMENTS);
            }
            let next = u16::try_from(masks.len()).ok()?;
            let place = *known.entry(mask).or_insert_with_key(|mask| {
                masks.extend_from_slice(mask);
                next
            });
            at[usize::from(byte)] = place;
        }
        Some(Masks { at, masks })
    }

    /// Bytes that the masks take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.at) + size_of_val(self.masks.as_slice())
    }

    /// The first place in `text` at which the elements of `part`, one at least, match; and the steps that it took.
    pub(super) fn find(&self, part: Range<usize>, text: &[u8]) -> (Option<usize>, usize) {
        let (first, last) = (part.start, part.end - 1);
        let (begin, words) = (first / WORD_ELEMENTS, last / WORD_ELEMENTS - first / WORD_ELEMENTS + 1);
        let (enters, ends) = (1_u64 << (first % WORD_ELEMENTS), 1_u64 << (last % WORD_ELEMENTS));
        // What is shifted past the last element belongs to no part, and goes on upwards only.
        let found = match words {
            1 => {
                let mut state = 0;
                text.iter().position(|byte| {
                    state = ((state << 1) | enters) & self.masks[usize::from(self.at[usize::from(*byte)]) + begin];
                    state & ends != 0
                })
            }
            _ => {
                let mut state = vec![0_u64; words];
                text.iter().position(|byte| {
                    let at = usize::from(self.at[usize::from(*byte)]) + begin;
                    let mut carried = enters;
                    for (word, mask) in state.iter_mut().zip(&self.masks[at..at + words]) {
                        let carries = *word >> (WORD_ELEMENTS - 1);
                        *word = ((*word << 1) | carried) & mask;
                        carried = carries;
                    }
                    state[words - 1] & ends != 0
                })
            }
        };
        let passed = found.map_or(text.len(), |at| at + 1);
        (found.map(|at| at + 1 - part.len()), passed * words)
    }
}
