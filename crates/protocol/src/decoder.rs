//! From bytes to requests: arrays of bulk strings and inline commands, out of the bytes as they arrive.
//!
//! # Why it is built so
//! **Spans, not slices.** A request is one piece of the connection's buffer and a list of (start, end) pairs into it.
//! No argument is copied or counted by itself. Inline commands are unescaped in place and so look the same.
//!
//! **By batch.** To cut a request out of a `BytesMut` costs two or three atomic operations and, the first time, an
//! allocation. A pipeline of 16 small requests would spend more on that than on parsing. So [`Decoder::decode_batch`]
//! scans all complete requests first and cuts the buffer once. The [`Batch`] owns one `Bytes` and two vectors that
//! the next batch uses again, and hands out borrowed [`Frame`](crate::Frame)s. In the steady state a batch allocates
//! nothing, provided that the caller lets go of it ([`Batch::clear`]) before it reads more. Then `BytesMut` finds
//! itself alone and reuses its memory. It is also what look-ahead needs: the keys of all requests at hand are known
//! before the first is executed. [`Decoder::decode`] gives one request that owns itself; it is the same scanner, for
//! callers to whom the cut does not matter.
//!
//! **Resumable.** The decoder remembers where it stands in the request in progress, also inside a line that has no
//! end yet. Bytes are looked at once, however they are cut: a request that comes byte by byte costs O(n). The result
//! does not depend on how the bytes were cut either. So limits are checked by position, not by what happens to be
//! buffered. (Redis lets an inline request of any size pass if its end arrives in one read; here it is refused.)
//!
//! **Memory follows the bytes.** An announced length reserves nothing ([`growth`]).
//!
//! # What Redis lets pass
//! After a bulk's bytes, and after the CR of a length line, Redis skips what should be CR LF or LF without looking.
//! So do we. A length is `0` or has no leading zero and no `+`. `*0`, `*-7` and empty lines are no requests.

mod growth;

use crate::inline;
pub use crate::integer::parse_integer;
use crate::limits::{Limits, ProtocolError};
use crate::plain;
use crate::request::{Batch, Request, Span, empty};
use bytes::{Buf, BytesMut};
pub use growth::READ_BYTES;
use smallvec::SmallVec;

/// Inline requests that come to no more are short.
const INLINE_BYTES_SHORT: usize = 4 << 10;
/// The longest line that may announce a count or a length, in bytes. Redis' `PROTO_INLINE_MAX_SIZE`.
const LENGTH_LINE_BYTES_MAX: usize = 64 * 1024;
/// What a client that has not given its password may send (CVE-2021-32675), as in Redis.
const UNAUTHENTICATED_ARGS_MAX: u32 = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: u32 = 16 * 1024;

/// What the bytes from the start of a request on amount to.
enum Scan {
    /// More bytes are needed.
    Incomplete,
    /// This many bytes are no request: an empty line, `*0`.
    Skip(usize),
    /// A request of this many bytes; its arguments are in `Decoder::spans`.
    Complete(usize),
}

/// What a length line announces.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Array,
    Bulk,
}

impl Line {
    fn too_long(self) -> ProtocolError {
        if self == Line::Array { ProtocolError::ArrayLine } else { ProtocolError::BulkLine }
    }

    fn not_a_length(self) -> ProtocolError {
        if self == Line::Array { ProtocolError::ArrayLength } else { ProtocolError::BulkLength }
    }
}

/// Turns one connection's bytes into requests; see the module's page. It must see every byte of one connection in
/// order, and the caller only ever appends to the buffer.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// Bytes of the request in progress that need no second look.
    position: usize,
    /// How far the search for the end of the line at `position` has come; without meaning below `position`.
    searched: usize,
    /// Arguments still to come; 0 when no array is in progress.
    args_left: u32,
    /// Length of the argument that begins at `position`, once announced.
    bulk: Option<u32>,
    spans: Vec<Span>,
    /// The first error; there is no way back from it.
    failed: Option<ProtocolError>,
}

impl Decoder {
    /// A decoder at the start of a connection.
    pub fn new(limits: Limits) -> Decoder {
        Decoder { limits, position: 0, searched: 0, args_left: 0, bulk: None, spans: Vec::new(), failed: None }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the limits for what has not been scanned yet, as when a client authenticates.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether the next request of `buffer` is an inline one.
    pub fn begins_inline(&self, buffer: &[u8]) -> bool {
        self.args_left == 0 && buffer.first().is_some_and(|byte| *byte != b'*')
    }

    /// Whether it has met an error, which the next call answers.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Bytes of the decoder's own memory, beside the caller's buffer: at most 16 per 6 bytes of a request in progress.
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Takes the next request off the front of `buffer`, or nothing if it is not complete. After an error the
    /// connection must be closed: every further call answers the same error.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Request>, ProtocolError> {
        loop {
            match self.scan(buffer)? {
                Scan::Incomplete => return Ok(None),
                Scan::Skip(bytes) => buffer.advance(bytes),
                Scan::Complete(bytes) => {
                    let frame = buffer.split_to(bytes).freeze();
                    let args = SmallVec::from_slice(&self.spans);
                    empty(&mut self.spans);
                    return Ok(Some(Request { frame, args }));
                }
            }
        }
    }

    /// Fills `batch` with the complete requests at the front of `buffer` until it [is full](Batch::is_full), and takes
    /// their bytes off it. What comes before a protocol error is delivered first; the next call answers the error.
    pub fn decode_batch(
        &mut self,
        buffer: &mut BytesMut,
        requests_max: usize,
        batch: &mut Batch,
    ) -> Result<usize, ProtocolError> {
        batch.clear();
        let mut start = 0;
        let mut error = None;
        while !batch.is_full(requests_max) {
            // One behind others is the first of the next batch if it may be long: what it takes can be counted then.
            if !batch.is_empty() && buffer.len() - start > INLINE_BYTES_SHORT && self.begins_inline(&buffer[start..]) {
                break;
            }
            if self.args_left == 0
                && self.failed.is_none()
                && let Some(bytes) = plain::scan(&buffer[start..], &self.limits, &mut batch.spans)
            {
                self.searched = 0;
                batch.requests.push((start, batch.spans.len()));
                start += bytes;
                continue;
            }
            match self.scan(&mut buffer[start..]) {
                Ok(Scan::Incomplete) => break,
                Ok(Scan::Skip(bytes)) => start += bytes,
                Ok(Scan::Complete(bytes)) => {
                    batch.take_spans(&mut self.spans);
                    batch.requests.push((start, batch.spans.len()));
                    start += bytes;
                }
                Err(failure) => {
                    error = Some(failure);
                    break;
                }
            }
        }
        match error {
            Some(error) if batch.is_empty() => return Err(error),
            _ if batch.is_empty() => buffer.advance(start),
            _ => batch.bytes = buffer.split_to(start).freeze(),
        }
        Ok(batch.len())
    }

    fn scan(&mut self, bytes: &mut [u8]) -> Result<Scan, ProtocolError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.scan_request(bytes);
        match &result {
            Ok(Scan::Incomplete) => {}
            Ok(Scan::Skip(_) | Scan::Complete(_)) => (self.position, self.searched) = (0, 0),
            Err(error) => (self.failed, self.spans) = (Some(error.clone()), Vec::new()),
        }
        result
    }

    fn scan_request(&mut self, bytes: &mut [u8]) -> Result<Scan, ProtocolError> {
        if self.args_left == 0 {
            match bytes.first() {
                None => return Ok(Scan::Incomplete),
                Some(b'*') => {
                    let Some((count, next)) = self.length_line(bytes, 0, Line::Array)? else {
                        return Ok(Scan::Incomplete);
                    };
                    if count <= 0 {
                        return Ok(Scan::Skip(next));
                    }
                    if count > i64::from(self.limits.args_max) {
                        return Err(ProtocolError::ArrayLength);
                    }
                    if !self.limits.authenticated && count > i64::from(UNAUTHENTICATED_ARGS_MAX) {
                        return Err(ProtocolError::UnauthenticatedArrayLength);
                    }
                    self.position = next;
                    self.args_left = count as u32;
                }
                Some(_) => return self.scan_inline(bytes),
            }
        }
        self.scan_bulks(bytes)
    }

    fn scan_bulks(&mut self, bytes: &[u8]) -> Result<Scan, ProtocolError> {
        let mut position = self.position;
        let mut args_left = self.args_left;
        let mut bulk = self.bulk.take();
        while args_left > 0 {
            let length = match bulk.take() {
                Some(length) => length,
                None => match self.bulk_line(bytes, position)? {
                    Some((length, next)) => {
                        position = next;
                        length
                    }
                    None => break,
                },
            };
            let end = position + length as usize;
            if end + 2 > bytes.len() {
                bulk = Some(length);
                break;
            }
            self.spans.push((position as u32, end as u32));
            position = end + 2;
            args_left -= 1;
        }
        (self.position, self.args_left, self.bulk) = (position, args_left, bulk);
        Ok(if args_left == 0 { Scan::Complete(position) } else { Scan::Incomplete })
    }

    /// The length announced by the line at `position`, and where the argument begins.
    #[inline]
    fn bulk_line(&mut self, bytes: &[u8], position: usize) -> Result<Option<(u32, usize)>, ProtocolError> {
        match bytes.get(position) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
        }
        let Some((length, next)) = self.length_line(bytes, position, Line::Bulk)? else { return Ok(None) };
        if length < 0 || length > i64::from(self.limits.bulk_bytes_max) {
            return Err(ProtocolError::BulkLength);
        }
        if !self.limits.authenticated && length > i64::from(UNAUTHENTICATED_BULK_BYTES_MAX) {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        if next as u64 + length as u64 + 2 > u64::from(self.limits.request_bytes_max) {
            return Err(ProtocolError::RequestSize(self.limits.request_bytes_max));
        }
        Ok(Some((length as u32, next)))
    }

    /// The number in the line whose marker is at `start`, and where the next line begins.
    #[inline]
    fn length_line(&mut self, bytes: &[u8], start: usize, line: Line) -> Result<Option<(i64, usize)>, ProtocolError> {
        if let Some((length, line_bytes)) = plain::length(&bytes[start..]) {
            return Ok(Some((i64::from(length), start + line_bytes)));
        }
        self.length_line_slow(bytes, start, line)
    }

    #[cold]
    fn length_line_slow(
        &mut self,
        bytes: &[u8],
        start: usize,
        line: Line,
    ) -> Result<Option<(i64, usize)>, ProtocolError> {
        let from = self.searched.clamp(start, bytes.len());
        let end = memchr::memchr(b'\r', &bytes[from..]).map(|found| from + found);
        self.searched = end.unwrap_or(bytes.len());
        if self.searched - start > LENGTH_LINE_BYTES_MAX {
            return Err(line.too_long());
        }
        match end {
            Some(end) if end + 1 < bytes.len() => {
                let length = parse_integer(&bytes[start + 1..end]).ok_or_else(|| line.not_a_length())?;
                Ok(Some((length, end + 2)))
            }
            _ => Ok(None),
        }
    }

    fn scan_inline(&mut self, bytes: &mut [u8]) -> Result<Scan, ProtocolError> {
        let from = self.searched.min(bytes.len());
        let end = memchr::memchr(b'\n', &bytes[from..]).map(|found| from + found);
        self.searched = end.unwrap_or(bytes.len());
        // What people type has none of these, and what other protocols say does: nothing of that is a command.
        let line_max = self.limits.inline_bytes_max as usize;
        let fresh = &bytes[from.min(line_max)..self.searched.min(line_max)];
        if let Some(other) = fresh.iter().find(|byte| inline::is_foreign(**byte)) {
            return Err(ProtocolError::Foreign(*other));
        }
        if self.searched > line_max {
            return Err(ProtocolError::InlineSize);
        }
        let Some(end) = end else { return Ok(Scan::Incomplete) };
        inline::split(&mut bytes[..end], &mut self.spans).map_err(|inline::Unbalanced| ProtocolError::Quotes)?;
        Ok(if self.spans.is_empty() { Scan::Skip(end + 1) } else { Scan::Complete(end + 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Requests = Vec<Vec<Vec<u8>>>;

    fn texts(error: ProtocolError) -> Vec<u8> {
        let mut out = BytesMut::new();
        error.to_reply().encode(crate::Protocol::Resp2, &mut out);
        out.to_vec()
    }

    /// All requests in `input`, and the error reply at its end, if any.
    fn decode(input: &[u8]) -> (Requests, Option<String>) {
        let (mut decoder, mut buffer, mut requests) =
            (Decoder::new(Limits::default()), BytesMut::from(input), Vec::new());
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(request)) => requests.push(request.args().map(<[u8]>::to_vec).collect()),
                Ok(None) => return (requests, None),
                Err(error) => {
                    let text = texts(error).iter().map(|byte| *byte as char).collect::<String>();
                    return (requests, Some(text.trim_end().to_string()));
                }
            }
        }
    }

    #[test]
    fn answers_as_redis_was_seen_to() {
        let ping = || vec![vec![b"PING".to_vec()]];
        let array_length = "-ERR Protocol error: invalid multibulk length";
        let bulk_length = "-ERR Protocol error: invalid bulk length";
        let cases: Vec<(Vec<u8>, Requests, Option<&str>)> = vec![
            (b"*1\r\n$4\r\nPING\r\n".to_vec(), ping(), None),
            (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n".to_vec(), [ping(), ping()].concat(), None),
            (b"*1\rx$4\rxPING\r\n".to_vec(), ping(), None),
            (b"*1\n$4\nPING\n".to_vec(), vec![], None),
            (b"*0\r\n*-1\r\n*-20\r\n\r\n  \r\nPING\r\n".to_vec(), ping(), None),
            (b"PING\n\nPING\r\n".to_vec(), [ping(), ping()].concat(), None),
            (b"*1\r\n$0\r\n\r\n''\r\n".to_vec(), vec![vec![vec![]], vec![vec![]]], None),
            (b"*+1\r\n".to_vec(), vec![], Some(array_length)),
            (b"*01\r\n".to_vec(), vec![], Some(array_length)),
            (b"*-0\r\n".to_vec(), vec![], Some(array_length)),
            (b"*1 \r\n".to_vec(), vec![], Some(array_length)),
            (b"*\r\n".to_vec(), vec![], Some(array_length)),
            (b"*1048576\r\n".to_vec(), vec![], None),
            (b"*1048577\r\n".to_vec(), vec![], Some(array_length)),
            (b"*99999999999999999999\r\n".to_vec(), vec![], Some(array_length)),
            (b"*1\r\n$04\r\n".to_vec(), vec![], Some(bulk_length)),
            (b"*1\r\n$-1\r\n".to_vec(), vec![], Some(bulk_length)),
            (b"*1\r\n$\r\n".to_vec(), vec![], Some(bulk_length)),
            (b"*1\r\n$67108864\r\n".to_vec(), vec![], None),
            (b"*1\r\n$67108865\r\n".to_vec(), vec![], Some(bulk_length)),
            (b"*1\r\n:4\r\n".to_vec(), vec![], Some("-ERR Protocol error: expected '$', got ':'")),
            (b"*1\r\n\r\n".to_vec(), vec![], Some("-ERR Protocol error: expected '$', got ' '")),
            (b"*1\r\n\xff\r\n".to_vec(), vec![], Some("-ERR Protocol error: expected '$', got '\u{ff}'")),
            (b"PING\r\nECHO \"a\r\n".to_vec(), ping(), Some("-ERR Protocol error: unbalanced quotes in request")),
            ([b"*".to_vec(), vec![b'1'; 65535]].concat(), vec![], None),
            (
                [b"*".to_vec(), vec![b'1'; 65536]].concat(),
                vec![],
                Some("-ERR Protocol error: too big mbulk count string"),
            ),
            (
                [b"*1\r\n$".to_vec(), vec![b'1'; 65536]].concat(),
                vec![],
                Some("-ERR Protocol error: too big bulk count string"),
            ),
            (vec![b'a'; 65536], vec![], None),
            (vec![b'a'; 65537], vec![], Some("-ERR Protocol error: too big inline request")),
        ];
        for (input, requests, error) in cases {
            let shown = String::from_utf8_lossy(&input[..input.len().min(40)]).into_owned();
            assert_eq!(decode(&input), (requests, error.map(str::to_string)), "{shown:?}");
        }
    }

    #[test]
    fn an_error_is_final_and_what_came_before_it_is_served() {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = BytesMut::from(&b"PING\r\n*1\r\nx*1\r\n$4\r\nPING\r\n"[..]);
        let mut batch = Batch::default();
        assert_eq!(decoder.decode_batch(&mut buffer, 16, &mut batch), Ok(1));
        for _ in 0..2 {
            let again = decoder.decode_batch(&mut buffer, 16, &mut batch);
            assert_eq!(again, Err(ProtocolError::ExpectedBulk(b'x')));
        }
        assert_eq!(decoder.decode(&mut buffer), Err(ProtocolError::ExpectedBulk(b'x')));
    }

    #[test]
    fn a_whole_request_has_a_limit_too() {
        let limits = Limits { request_bytes_max: 37, ..Limits::default() };
        let mut decoder = Decoder::new(limits);
        let mut buffer = BytesMut::from(&b"*3\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n"[..]);
        let error = decoder.decode(&mut buffer).unwrap_err();
        assert_eq!(texts(error), b"-LIMIT request_bytes_max 37\r\n");
    }

    #[test]
    fn a_client_without_its_password_may_send_little() {
        let limits = Limits { authenticated: false, ..Limits::default() };
        let first_error = |input: &[u8]| Decoder::new(limits).decode(&mut BytesMut::from(input));
        assert_eq!(first_error(b"*10\r\n$16384\r\n"), Ok(None));
        assert_eq!(first_error(b"*11\r\n"), Err(ProtocolError::UnauthenticatedArrayLength));
        assert_eq!(first_error(b"*1\r\n$16385\r\n"), Err(ProtocolError::UnauthenticatedBulkLength));
    }

    #[test]
    fn a_batch_shares_one_piece_and_gives_it_back() {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        let mut batch = Batch::default();
        let request = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nECHO \"b c\"\r\n*0\r\n*1\r\n$4\r\nPI";
        buffer.extend_from_slice(request);
        let memory = buffer.as_ptr() as usize;
        for round in 0..2 {
            assert_eq!(decoder.decode_batch(&mut buffer, 16, &mut batch), Ok(2 + round));
            let last = batch.frame(batch.len() - 1);
            assert_eq!(last.args().collect::<Vec<_>>(), [b"ECHO".as_slice(), b"b c"]);
            assert_eq!(&buffer[..], b"*1\r\n$4\r\nPI");
            batch.clear();
            buffer.extend_from_slice(b"NG\r\n");
            buffer.extend_from_slice(request);
        }
        // With the batches gone, the buffer gets its first memory back instead of new memory.
        buffer.clear();
        decoder.reserve(&mut buffer, READ_BYTES);
        assert_eq!(buffer.as_ptr() as usize, memory);
        let mut half = BytesMut::from(&b"PING\r\nPING\r\nPING\r\n"[..]);
        assert_eq!(Decoder::new(Limits::default()).decode_batch(&mut half, 2, &mut batch), Ok(2));
        assert_eq!(&half[..], b"PING\r\n");
    }

    #[test]
    fn an_announcement_reserves_nothing() {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = BytesMut::from(&b"*2\r\n$3\r\nSET\r\n$60000000\r\n"[..]);
        assert_eq!(decoder.decode(&mut buffer), Ok(None));
        let mut received = buffer.len();
        let (mut moves, mut memory) = (0, buffer.as_ptr() as usize);
        while received < 3_000_000 {
            decoder.reserve(&mut buffer, READ_BYTES);
            assert!(buffer.capacity() <= 4 * received + 2 * READ_BYTES, "{} for {received}", buffer.capacity());
            let read = (buffer.capacity() - buffer.len()).min(10_000);
            buffer.extend_from_slice(&vec![b'x'; read]);
            received += read;
            assert_eq!(decoder.decode(&mut buffer), Ok(None));
            moves += usize::from(std::mem::replace(&mut memory, buffer.as_ptr() as usize) != memory);
        }
        assert!(moves < 16, "{moves} copies");
        assert!(decoder.memory_bytes() < 100);
    }

    #[test]
    fn integers_are_as_strict_as_in_redis() {
        let cases: [(&[u8], Option<i64>); 12] = [
            (b"0", Some(0)),
            (b"-1", Some(-1)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"-9223372036854775809", None),
            (b"", None),
            (b"-", None),
            (b"-0", None),
            (b"+1", None),
            (b"01", None),
            (b" 1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_integer(text), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }
}
