//! What became of a request.

use super::curve::{self, BINS};

/// An outcome: the bin of the age, and whether the page was read again then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outcome(u8);

impl Outcome {
    /// The page of a request was read again after `age`, or came to another end.
    pub fn new(age: u32, read: bool) -> Outcome {
        Outcome(curve::bin(age) as u8 | u8::from(read) << 7)
    }

    /// Bin of the age.
    pub fn bin(self) -> usize {
        usize::from(self.0 & 0x7f).min(BINS - 1)
    }

    /// Whether it was read again.
    pub fn read(self) -> bool {
        self.0 >> 7 == 1
    }
}
