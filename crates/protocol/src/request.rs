//! A request as it is handed on: its arguments, as spans into shared bytes. How it comes about: [`crate::decoder`].

use bytes::Bytes;
use smallvec::SmallVec;

/// Where an argument lies in its request's bytes: start and end, in bytes.
pub type Span = (u32, u32);

/// Vectors that grew past this many elements in one unusual request are given back after it.
const KEPT_ELEMENTS_MAX: usize = 1024;

/// One request, borrowed: its arguments, the command's name first. Never empty when it comes from a decoder.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Frame<'a> {
    /// Arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument at all.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`; 0 is the command's name. Panics past [`Frame::len`], as indexing a slice does.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.spans[index];
        &self.bytes[start as usize..end as usize]
    }

    /// The argument at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.arg(index))
    }

    /// The request within this one that begins with the argument at `index` (COMMAND GETKEYS). Panics past
    /// [`Frame::len`].
    pub fn tail(&self, index: usize) -> Frame<'a> {
        Frame { bytes: self.bytes, spans: &self.spans[index..] }
    }

    /// This command with some of its arguments alone; `spans` is where it is made. Panics past [`Frame::len`].
    pub fn part<'b>(&self, args: std::ops::Range<usize>, spans: &'b mut Vec<Span>) -> Frame<'b>
    where
        'a: 'b,
    {
        spans.clear();
        spans.push(self.spans[0]);
        spans.extend_from_slice(&self.spans[args]);
        Frame { bytes: self.bytes, spans }
    }

    /// All arguments, the command's name first.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |(start, end)| &bytes[*start as usize..*end as usize])
    }

    /// Bytes of all arguments together.
    pub fn args_bytes(&self) -> usize {
        self.spans.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    /// Bytes from the first argument to the last, and so no less than [`Frame::args_bytes`]; constant time.
    pub fn extent_bytes(&self) -> usize {
        match self.spans {
            [] => 0,
            [(start, _), .., (_, end)] | [(start, end)] => (end - start) as usize,
        }
    }

    /// A copy of the arguments alone, in memory of its own: it may wait (in a MULTI queue) without pinning the
    /// connection's read buffer.
    pub fn compact(&self) -> Request {
        Request::collected(self.args_bytes(), self.args())
    }
}

/// One request that owns its bytes, or its share of the connection's read buffer.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) frame: Bytes,
    pub(crate) args: SmallVec<[Span; 8]>,
}

impl Request {
    /// A request of these arguments, in memory of its own.
    pub fn of<'a>(args: impl Iterator<Item = &'a [u8]>) -> Request {
        Request::collected(0, args)
    }

    /// A request of these arguments, which have so many bytes or more.
    fn collected<'a>(bytes: usize, args: impl Iterator<Item = &'a [u8]>) -> Request {
        let mut bytes = Vec::with_capacity(bytes);
        let args = args.map(|arg| {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(arg);
            (start, bytes.len() as u32)
        });
        let args = args.collect();
        Request { frame: bytes.into(), args }
    }

    /// The same, borrowed.
    #[inline]
    pub fn frame(&self) -> Frame<'_> {
        Frame { bytes: &self.frame, spans: &self.args }
    }

    /// Arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there is no argument at all; never so for what a decoder yields.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// The argument at `index`; 0 is the command's name. Panics past [`Request::len`], as indexing a slice does.
    pub fn arg(&self, index: usize) -> &[u8] {
        self.frame().arg(index)
    }

    /// The argument at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.frame().get(index)
    }

    /// All arguments, the command's name first.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> + DoubleEndedIterator + Clone {
        self.frame().args()
    }

    /// A share of the request's memory that holds the argument at `index`.
    pub fn arg_bytes(&self, index: usize) -> Bytes {
        let (start, end) = self.args[index];
        self.frame.slice(start as usize..end as usize)
    }

    /// A copy that does not pin the connection's read buffer; see [`Frame::compact`].
    pub fn compact(&self) -> Request {
        self.frame().compact()
    }
}

/// Requests are equal when their arguments are, however they were framed.
impl PartialEq for Request {
    fn eq(&self, other: &Request) -> bool {
        self.args().eq(other.args())
    }
}

impl Eq for Request {}

/// A batch takes no request after so many arguments, unless it is told otherwise: a turn of a client that sends many
/// wide ones is no longer than that of one that sends many short ones.
pub const BATCH_ARGS: usize = 1 << 10;

/// The complete requests of one read, sharing one piece of the buffer. Reused from batch to batch.
#[derive(Debug)]
pub struct Batch {
    /// It takes no request after so many arguments.
    pub args_max: usize,
    pub(crate) bytes: Bytes,
    pub(crate) spans: Vec<Span>,
    /// Per request: where its bytes start, and where its spans end (they begin where the one before ends).
    pub(crate) requests: Vec<(usize, usize)>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { args_max: BATCH_ARGS, bytes: Bytes::new(), spans: Vec::new(), requests: Vec::new() }
    }
}

impl Batch {
    /// Requests in the batch.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no request is in it.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether it takes no more requests: it has `requests_max` of them, or all together [`Batch::args_max`] arguments.
    pub fn is_full(&self, requests_max: usize) -> bool {
        self.requests.len() >= requests_max || self.spans.len() >= self.args_max
    }

    /// The request at `index`, in the order received. Panics past [`Batch::len`], as indexing a slice does.
    #[inline]
    pub fn frame(&self, index: usize) -> Frame<'_> {
        let (start, spans_end) = self.requests[index];
        let spans_start = index.checked_sub(1).map_or(0, |before| self.requests[before].1);
        Frame { bytes: &self.bytes[start..], spans: &self.spans[spans_start..spans_end] }
    }

    /// All requests in the order received.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> + DoubleEndedIterator {
        (0..self.len()).map(|index| self.frame(index))
    }

    /// Lets go of the buffer, so that the connection can reuse its memory, and of vectors that grew unusually large.
    pub fn clear(&mut self) {
        self.bytes = Bytes::new();
        empty(&mut self.spans);
        empty(&mut self.requests);
    }
}

impl Batch {
    /// Adds the spans of one more request. Those of a first one are not copied: there may be a million.
    pub(crate) fn take_spans(&mut self, spans: &mut Vec<Span>) {
        match self.spans.is_empty() {
            true => std::mem::swap(&mut self.spans, spans),
            false => self.spans.extend_from_slice(spans),
        }
        empty(spans);
    }
}

/// Empties a vector and keeps its memory for the next time, unless it is unusually much.
pub(crate) fn empty<T>(vector: &mut Vec<T>) {
    vector.clear();
    if vector.capacity() > KEPT_ELEMENTS_MAX {
        *vector = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_ARGS, Batch};
    use crate::{Decoder, Limits};
    use bytes::BytesMut;

    #[test]
    fn a_copy_holds_its_arguments_alone() {
        let mut buffer = BytesMut::from(&b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"[..]);
        let request = Decoder::new(Limits::default()).decode(&mut buffer).unwrap().unwrap();
        let copy = request.compact();
        assert_eq!(copy, request);
        assert_eq!(copy.frame.len(), 6);
        assert_eq!((copy.frame().extent_bytes(), request.frame().extent_bytes()), (6, 12));
        assert_eq!(copy.arg_bytes(1), request.arg_bytes(1));
        assert_eq!((copy.get(1), copy.get(2)), (Some(b"key".as_slice()), None));
    }

    /// Of wide requests a turn takes fewer; of what is wider than a turn, one.
    #[test]
    fn a_batch_is_full_by_its_arguments() {
        for (args, expected) in [(3, vec![16, 4]), (300, vec![4; 5]), (BATCH_ARGS, vec![1; 20]), (5000, vec![1; 20])] {
            let request = format!("*{args}\r\n{}", "$1\r\nx\r\n".repeat(args));
            let mut buffer = BytesMut::from(request.repeat(20).as_bytes());
            let (mut decoder, mut batch) = (Decoder::new(Limits::default()), Batch::default());
            let mut counts = Vec::new();
            while decoder.decode_batch(&mut buffer, 16, &mut batch) != Ok(0) {
                assert!(batch.frames().all(|frame| frame.args().len() == args));
                counts.push(batch.len());
                // Else nothing calls for the rest.
                assert!(batch.is_full(16) || buffer.is_empty());
            }
            assert_eq!(counts, expected, "{args} arguments each");
        }
    }
}
