//! The ordinary request, complete in the buffer: nearly all are. Nothing has to be remembered of it, so it is cut in
//! one go. Whatever is not ordinary is left to [`crate::decoder`], which knows what it is.

use crate::limits::Limits;
use crate::request::Span;

/// Arguments that may have to be looked at twice, if the request turns out not to be complete.
const ARGS_MAX: u32 = 64;

/// The bytes of the ordinary request at the front of `bytes`, if that is one, complete and within the limits of a
/// client that has authenticated; its arguments are added to `spans`.
#[inline]
pub(crate) fn scan(bytes: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Option<usize> {
    if bytes.first() != Some(&b'*') || !limits.authenticated {
        return None;
    }
    let (count, mut position) = length(bytes)?;
    if count == 0 || count > limits.args_max.min(ARGS_MAX) {
        return None;
    }
    let before = spans.len();
    for _ in 0..count {
        let Some((start, end)) = bulk(bytes, position, limits) else {
            spans.truncate(before);
            return None;
        };
        spans.push((start as u32, end as u32));
        position = end + 2;
    }
    Some(position)
}

/// Where the argument at `position` lies, if it is complete and within its limits.
#[inline]
fn bulk(bytes: &[u8], position: usize, limits: &Limits) -> Option<(usize, usize)> {
    let line = bytes.get(position..).filter(|line| line.first() == Some(&b'$'))?;
    let (bulk_bytes, line_bytes) = length(line)?;
    let start = position + line_bytes;
    let end = start + bulk_bytes as usize;
    let fits = bulk_bytes <= limits.bulk_bytes_max && end as u64 + 2 <= u64::from(limits.request_bytes_max);
    (fits && end + 2 <= bytes.len()).then_some((start, end))
}

/// The ordinary length line, complete: marker, up to 9 digits, CR and one byte more. Answers the number and the line's
/// bytes; for anything else nothing, and the slow path finds out what it is.
#[inline]
pub(crate) fn length(line: &[u8]) -> Option<(u32, usize)> {
    let mut value = u32::from(line.get(1)?.wrapping_sub(b'0'));
    if value > 9 {
        return None;
    }
    let leading_zero = value == 0;
    let mut at = 2;
    loop {
        let byte = *line.get(at)?;
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (byte == b'\r' && at + 1 < line.len()).then_some((value, at + 2));
        }
        if leading_zero || at == 10 {
            return None;
        }
        value = value * 10 + u32::from(digit);
        at += 1;
    }
}
