//! How a connection's buffer grows. An announced length reserves nothing. [`Decoder::reserve`] grows the buffer with
//! what has arrived, and asks for no more than the request may still be. A buffer that grows is there twice while it is
//! copied, and the old one stays with the allocator for a time. So a large one grows fourfold. An allocation that was
//! never written to takes no memory. What is resident is at most five quarters of what has arrived.

use bytes::BytesMut;

use super::Decoder;

/// What an ordinary read takes where memory is not short.
pub const READ_BYTES: usize = 16 * 1024;
/// [`Decoder::reserve`] is content with this part of the room for an ordinary read.
const CONTENT_PART: usize = 4;
/// A buffer that holds more than this is large, and grows by so many times what it holds.
const LARGE_BYTES: usize = 256 * 1024;
const GROWTH: usize = 3;

/// A request with so many arguments is wide, and the digits of that number.
const WIDE_ARGS: usize = 1000;
const WIDE_COUNT_DIGITS: usize = 4;

/// The value of a SET with an expiry and a condition, and what follows it.
const LAST_ARGS: u32 = 4;

impl Decoder {
    /// Makes room in `buffer` for the next read: `ordinary` bytes, [`READ_BYTES`] as a rule, or, in the middle of a
    /// large argument, as much as has arrived already but no more than is missing; three times as much where that is a
    /// lot. All the copying that growth causes is O(n). An empty buffer goes back to its start, which is in the
    /// processor's cache.
    pub fn reserve(&self, buffer: &mut BytesMut, ordinary: usize) {
        let wanted = self.wanted(buffer);
        let (spare, content) = (buffer.capacity() - buffer.len(), ordinary / CONTENT_PART);
        if buffer.len() > LARGE_BYTES && spare < wanted.max(content) {
            buffer.reserve(self.growth(buffer, wanted.max(ordinary)));
        } else if wanted > ordinary {
            buffer.reserve(wanted);
        } else if spare < content || buffer.is_empty() {
            buffer.reserve(ordinary);
        }
    }

    /// Bytes that the argument at hand still needs, as far as it is announced.
    pub fn bytes_missing(&self, buffer: &BytesMut) -> usize {
        self.bulk.map_or(0, |length| (self.position + length as usize + 2).saturating_sub(buffer.len()))
    }

    /// Whether the argument at hand is one of the last, as the value of a SET is: what follows it is short as a rule.
    pub fn is_in_last_arguments(&self) -> bool {
        self.bulk.is_some() && self.args_left <= LAST_ARGS
    }

    /// Whether the request at the front of `buffer` has so many arguments that what is kept of each comes to much. Who
    /// counts what a request takes decodes what has come of it before more is read.
    pub fn is_wide(&self, buffer: &[u8]) -> bool {
        let line = buffer.get(..=WIDE_COUNT_DIGITS).filter(|_| self.args_left == 0);
        let announced = line.is_some_and(|line| line[0] == b'*' && line[1..].iter().all(u8::is_ascii_digit));
        announced || self.args_left as usize >= WIDE_ARGS
    }

    /// Bytes of a large argument that the next read is for, at most as many as have arrived.
    fn wanted(&self, buffer: &BytesMut) -> usize {
        self.bytes_missing(buffer).min(buffer.len())
    }

    /// By how much a large `buffer` grows, at least by `least`.
    fn growth(&self, buffer: &BytesMut, least: usize) -> usize {
        let whole = match self.args_left {
            1 => self.bytes_missing(buffer),
            _ => (self.limits.request_bytes_max as usize).saturating_sub(buffer.len()),
        };
        whole.min(GROWTH * buffer.len()).max(least)
    }
}
