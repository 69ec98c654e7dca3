//! Reads of many documents, a portion at a time: what is asked for may be much more than there is memory for.
//!
//! **Contract of [`Store::get_within`].** The answer tells of a prefix of the keys that were asked for, in their
//! order. It tells of at least one, and of none after the one whose document took it past the bound. It may be
//! shorter, but not where no bound was given. So a caller that goes on with the rest comes to the end. It holds no
//! more than the bound and one document at a time.

use super::{ReadError, Store};
use crate::key::Key;
use crate::read::Read;
use crate::value::Value;

/// Bytes of documents that one answer is asked to stay within, where nothing smaller is asked for.
pub const PORTION_BYTES_MAX: usize = 1 << 20;

/// How much of an answer there is so far.
#[derive(Debug)]
pub struct Portion {
    left: Option<usize>,
}

impl Portion {
    /// Of an answer within `bytes_max`.
    pub fn new(bytes_max: usize) -> Portion {
        Portion { left: Some(bytes_max) }
    }

    /// Whether the answer may tell of one document more.
    pub fn goes_on(&self) -> bool {
        self.left.is_some()
    }

    /// Counts a document that it tells of.
    pub fn count(&mut self, read: &Read) {
        let bytes = read.value.as_ref().map_or(0, Value::size);
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
    }

    /// As much of `reads` as the answer may tell of.
    pub fn front(mut self, reads: impl IntoIterator<Item = Read>) -> Vec<Read> {
        let mut front = Vec::new();
        for read in reads {
            self.count(&read);
            front.push(read);
            if !self.goes_on() {
                break;
            }
        }
        front
    }
}

/// Reads all of `keys` from `store`, and has `each` see what it says of them, one after the other.
pub async fn read_each(store: &dyn Store, keys: &[Key], mut each: impl FnMut(&Key, Read)) -> Result<(), ReadError> {
    let mut left = keys;
    while !left.is_empty() {
        let reads = store.get_within(left, PORTION_BYTES_MAX).await?;
        debug_assert!(!reads.is_empty(), "an answer tells of one document at least");
        let (told, rest) = left.split_at(reads.len().clamp(1, left.len()));
        told.iter().zip(reads).for_each(|(key, read)| each(key, read));
        left = rest;
    }
    Ok(())
}
