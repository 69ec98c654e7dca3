//! The client's side: commands out, replies in. For our own tools, tests and fuzzers.
//!
//! Both protocols are understood at once, since the first byte of each reply names its kind. Attributes are read and
//! dropped. Streamed strings and aggregates (`$?`, `*?`), which no server sends, are refused by name.
//!
//! The decoder consumes each complete element at once and keeps the unfinished aggregates on a stack, which is not the
//! thread's. So a reply that arrives byte by byte costs O(n), and a nested one cannot overflow anything.

use crate::decoder::parse_integer;
use crate::reply::{Reply, write_bulk, write_header};
use bytes::{Buf, Bytes, BytesMut};

/// What a reply may begin with; the last two begin parts of a streamed one.
const MARKERS: &[u8] = b"+-:$*_#,(!=%~>|;.";

/// Appends a command as an array of bulk strings.
pub fn encode_command<A: AsRef<[u8]>>(out: &mut BytesMut, args: &[A]) {
    write_header(out, b'*', args.len() as u64);
    for arg in args {
        write_bulk(out, arg.as_ref());
    }
}

/// What one reply may ask of us; beyond a limit the decoder gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Aggregates within one another.
    pub depth_max: usize,
    /// Elements of one reply, at all depths together; keys and values of a map count each.
    pub elements_max: u64,
    /// Bytes of one bulk string.
    pub bulk_bytes_max: u64,
    /// Bytes of one line, its marker included, its end not.
    pub line_bytes_max: usize,
    /// Bytes of one reply as it travels.
    pub reply_bytes_max: u64,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        ReplyLimits {
            depth_max: 32,
            elements_max: 16 << 20,
            bulk_bytes_max: 512 << 20,
            line_bytes_max: 64 << 10,
            reply_bytes_max: 1 << 30,
        }
    }
}

/// Why a server's bytes are not a reply. There is no way back: close the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// No kind of reply begins with this byte; is a Redis-compatible server at that address?
    #[error("a reply begins with byte {0:#04x}, which is no RESP marker; check that the address is a RESP server's")]
    Marker(u8),
    /// A line, or a bulk string, does not end in CR LF where it must.
    #[error("a reply's line is not ended by CR LF; the stream is damaged, reconnect")]
    LineEnd,
    /// What should be a number, a boolean or a double is not.
    #[error("a reply of kind '{0}' holds no such value; the stream is damaged, reconnect")]
    Content(char),
    /// A streamed string or aggregate.
    #[error("a streamed reply ('{0}?') is not supported")]
    Streamed(char),
    /// The limit of this name, and its value.
    #[error("a reply is past {0} {1}; raise the limit if the reply is meant")]
    Limit(&'static str, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

/// An aggregate of which elements are still to come.
#[derive(Debug)]
struct Partial {
    kind: Kind,
    left: u64,
    items: Vec<Reply>,
}

impl Partial {
    fn finish(self) -> Option<Reply> {
        let items = self.items;
        Some(match self.kind {
            Kind::Array => Reply::Array(items),
            Kind::Set => Reply::Set(items),
            Kind::Push => Reply::Push(items),
            Kind::Attribute => return None,
            Kind::Map => {
                let mut pairs = Vec::with_capacity(items.len() / 2);
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Reply::Map(pairs)
            }
        })
    }
}

/// What one line at the front of the buffer turned out to be.
enum Element {
    Whole(Reply),
    /// A bulk string, blob error or verbatim string (its marker) of this many bytes follows.
    Bulk(u8, usize),
    Aggregate(Kind, u64),
}

/// Turns one connection's bytes into replies.
#[derive(Debug)]
pub struct ReplyDecoder {
    limits: ReplyLimits,
    stack: Vec<Partial>,
    /// A bulk string whose header has been read: its marker and length.
    bulk: Option<(u8, usize)>,
    /// How far the search for the end of the line at the front of the buffer has come.
    searched: usize,
    /// Elements and bytes of the reply in progress.
    elements: u64,
    bytes: u64,
    failed: Option<ReplyError>,
}

impl ReplyDecoder {
    /// A decoder at the start of a connection.
    pub fn new(limits: ReplyLimits) -> ReplyDecoder {
        ReplyDecoder { limits, stack: Vec::new(), bulk: None, searched: 0, elements: 0, bytes: 0, failed: None }
    }

    /// Takes the next reply off the front of `buffer`, or nothing if it is not complete. Text that is not UTF-8 in a
    /// status or a verbatim string is made so with replacement characters. After an error every further call answers
    /// the same.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>, ReplyError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.decode_reply(buffer);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn decode_reply(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>, ReplyError> {
        loop {
            let reply = match self.bulk {
                Some((marker, length)) => match self.take_bulk(buffer, marker, length)? {
                    Some(reply) => reply,
                    None => return Ok(None),
                },
                None => {
                    let Some(element) = self.take_line(buffer)? else { return Ok(None) };
                    match element {
                        Element::Whole(reply) => reply,
                        Element::Bulk(marker, length) => {
                            self.bulk = Some((marker, length));
                            continue;
                        }
                        Element::Aggregate(kind, left) => match self.open(kind, left)? {
                            Some(reply) => reply,
                            None => continue,
                        },
                    }
                }
            };
            if let Some(reply) = self.deliver(reply) {
                (self.elements, self.bytes) = (0, 0);
                return Ok(Some(reply));
            }
        }
    }

    /// Begins an aggregate; answers it at once if it is empty and not an attribute.
    fn open(&mut self, kind: Kind, left: u64) -> Result<Option<Reply>, ReplyError> {
        let partial = Partial { kind, left, items: Vec::new() };
        if left == 0 {
            return Ok(partial.finish());
        }
        if self.stack.len() >= self.limits.depth_max {
            return Err(ReplyError::Limit("depth_max", self.limits.depth_max as u64));
        }
        // Announced elements count at once: what could never be completed is not begun.
        self.elements = self.elements.saturating_add(left);
        if self.elements > self.limits.elements_max {
            return Err(ReplyError::Limit("elements_max", self.limits.elements_max));
        }
        self.stack.push(partial);
        Ok(None)
    }

    /// Puts `reply` where it belongs; answers the outermost reply once it is complete.
    fn deliver(&mut self, mut reply: Reply) -> Option<Reply> {
        loop {
            let Some(top) = self.stack.last_mut() else { return Some(reply) };
            top.left -= 1;
            if top.kind != Kind::Attribute {
                top.items.push(reply);
            }
            if top.left > 0 {
                return None;
            }
            reply = self.stack.pop()?.finish()?;
        }
    }

    fn consume(&mut self, buffer: &mut BytesMut, bytes: usize) -> Result<(), ReplyError> {
        buffer.advance(bytes);
        self.count_bytes(bytes)
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ReplyError> {
        self.searched = 0;
        self.bytes += bytes as u64;
        if self.bytes > self.limits.reply_bytes_max {
            return Err(ReplyError::Limit("reply_bytes_max", self.limits.reply_bytes_max));
        }
        Ok(())
    }

    fn take_bulk(&mut self, buffer: &mut BytesMut, marker: u8, length: usize) -> Result<Option<Reply>, ReplyError> {
        if buffer.len() < length + 2 {
            return Ok(None);
        }
        if &buffer[length..length + 2] != b"\r\n" {
            return Err(ReplyError::LineEnd);
        }
        let content = &buffer[..length];
        let reply = match marker {
            b'$' => Reply::bulk(content),
            b'!' => Reply::Error(Bytes::copy_from_slice(content)),
            _ => match (content.get(..4), content.get(4..)) {
                (Some([format @ .., b':']), Some(text)) => Reply::Verbatim(lossy(format).into(), lossy(text)),
                _ => return Err(ReplyError::Content('=')),
            },
        };
        self.bulk = None;
        self.consume(buffer, length + 2)?;
        Ok(Some(reply))
    }

    fn take_line(&mut self, buffer: &mut BytesMut) -> Result<Option<Element>, ReplyError> {
        let Some(&marker) = buffer.first() else { return Ok(None) };
        // At once, not at the end of the line: there may never be one.
        if !MARKERS.contains(&marker) {
            return Err(ReplyError::Marker(marker));
        }
        let from = self.searched.min(buffer.len());
        let end = memchr::memchr(b'\r', &buffer[from..]).map(|found| from + found);
        self.searched = end.unwrap_or(buffer.len());
        if self.searched > self.limits.line_bytes_max {
            return Err(ReplyError::Limit("line_bytes_max", self.limits.line_bytes_max as u64));
        }
        let element = match end {
            Some(end) if end + 1 < buffer.len() => {
                if buffer[end + 1] != b'\n' {
                    return Err(ReplyError::LineEnd);
                }
                let element = self.element(marker, &buffer[1..end])?;
                self.consume(buffer, end + 2)?;
                element
            }
            _ => return Ok(None),
        };
        if let Element::Bulk(_, length) = element
            && self.bytes + length as u64 + 2 > self.limits.reply_bytes_max
        {
            return Err(ReplyError::Limit("reply_bytes_max", self.limits.reply_bytes_max));
        }
        Ok(Some(element))
    }

    fn element(&self, marker: u8, content: &[u8]) -> Result<Element, ReplyError> {
        let wrong = || ReplyError::Content(marker as char);
        let number = || parse_integer(content).ok_or_else(wrong);
        if matches!(marker, b';' | b'.') || matches!(marker, b'$' | b'*' | b'%' | b'~' | b'>' | b'|') && content == b"?"
        {
            return Err(ReplyError::Streamed(marker as char));
        }
        Ok(Element::Whole(match marker {
            b'+' => Reply::Simple(lossy(content).into()),
            b'-' => Reply::Error(Bytes::copy_from_slice(content)),
            b':' => Reply::Integer(number()?),
            b'_' if content.is_empty() => Reply::Nil,
            b'#' => match content {
                b"t" => Reply::Boolean(true),
                b"f" => Reply::Boolean(false),
                _ => return Err(wrong()),
            },
            b',' => {
                Reply::Double(std::str::from_utf8(content).ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?)
            }
            b'(' => {
                let digits = content.strip_prefix(b"-").or(content.strip_prefix(b"+")).unwrap_or(content);
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return Err(wrong());
                }
                Reply::BigNumber(lossy(content).into())
            }
            b'$' if content == b"-1" => Reply::Nil,
            b'*' if content == b"-1" => Reply::NilArray,
            b'$' | b'!' | b'=' => {
                let length = u64::try_from(number()?).map_err(|_| wrong())?;
                if length > self.limits.bulk_bytes_max {
                    return Err(ReplyError::Limit("bulk_bytes_max", self.limits.bulk_bytes_max));
                }
                return Ok(Element::Bulk(marker, length as usize));
            }
            b'*' | b'%' | b'~' | b'>' | b'|' => {
                let count = u64::try_from(number()?).map_err(|_| wrong())?;
                return Ok(match marker {
                    b'*' => Element::Aggregate(Kind::Array, count),
                    b'~' => Element::Aggregate(Kind::Set, count),
                    b'>' => Element::Aggregate(Kind::Push, count),
                    b'%' => Element::Aggregate(Kind::Map, count.saturating_mul(2)),
                    _ => Element::Aggregate(Kind::Attribute, count.saturating_mul(2)),
                });
            }
            b'_' => return Err(wrong()),
            other => return Err(ReplyError::Marker(other)),
        }))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8]) -> Result<Vec<Reply>, ReplyError> {
        let limits = ReplyLimits { depth_max: 4, elements_max: 100, reply_bytes_max: 1000, ..ReplyLimits::default() };
        let mut decoder = ReplyDecoder::new(limits);
        let (mut buffer, mut replies) = (BytesMut::from(input), Vec::new());
        while let Some(reply) = decoder.decode(&mut buffer)? {
            replies.push(reply);
        }
        Ok(replies)
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = BytesMut::new();
        encode_command(&mut out, &["SET", "key", ""]);
        assert_eq!(&out[..], b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    }

    #[test]
    fn what_only_servers_send() {
        let blob_error = Reply::error("ERR a\r\nb");
        assert_eq!(decode(b"!8\r\nERR a\r\nb\r\n"), Ok(vec![blob_error]));
        assert_eq!(decode(b"=7\r\nmkd:abc\r\n"), Ok(vec![Reply::Verbatim("mkd".into(), "abc".into())]));
        assert_eq!(decode(b"(+12\r\n,1e3\r\n_\r\n").unwrap().len(), 3);
        let attributes = b"|1\r\n+ttl\r\n*1\r\n:3\r\n*2\r\n:1\r\n|1\r\n+a\r\n+b\r\n:2\r\n|0\r\n:3\r\n";
        let list = Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]);
        assert_eq!(decode(attributes), Ok(vec![list, Reply::Integer(3)]));
    }

    #[test]
    fn refusals() {
        let cases: [(&[u8], ReplyError); 17] = [
            (b"HTTP/1.1 400", ReplyError::Marker(b'H')),
            (b"\r\n", ReplyError::Marker(b'\r')),
            (b"+OK\rx", ReplyError::LineEnd),
            (b"$2\r\nabcd", ReplyError::LineEnd),
            (b":1x\r\n", ReplyError::Content(':')),
            (b"#x\r\n", ReplyError::Content('#')),
            (b",x\r\n", ReplyError::Content(',')),
            (b"(-\r\n", ReplyError::Content('(')),
            (b"_x\r\n", ReplyError::Content('_')),
            (b"=3\r\nabc\r\n", ReplyError::Content('=')),
            (b"%-1\r\n", ReplyError::Content('%')),
            (b"$?\r\n", ReplyError::Streamed('$')),
            (b"*?\r\n", ReplyError::Streamed('*')),
            (b";4\r\n", ReplyError::Streamed(';')),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", ReplyError::Limit("depth_max", 4)),
            (b"%51\r\n", ReplyError::Limit("elements_max", 100)),
            (b"$999\r\n", ReplyError::Limit("reply_bytes_max", 1000)),
        ];
        for (input, error) in cases {
            assert_eq!(decode(input), Err(error), "{:?}", String::from_utf8_lossy(input));
        }
        let mut long = ReplyDecoder::new(ReplyLimits { line_bytes_max: 10, ..ReplyLimits::default() });
        let error = long.decode(&mut BytesMut::from(&b"+0123456789"[..]));
        assert_eq!(error, Err(ReplyError::Limit("line_bytes_max", 10)));
    }
}
