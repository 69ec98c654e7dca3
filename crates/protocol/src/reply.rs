//! Replies: what the server answers, and its bytes in RESP2 and RESP3.
//!
//! A command builds one [`Reply`] in RESP3's terms and does not ask which protocol the client speaks.
//! [`Reply::encode`] makes of it what Redis makes of it for an older client:
//!
//! | reply | RESP3 | RESP2 |
//! |---|---|---|
//! | map | `%n`, pairs | `*2n`, keys and values in turn |
//! | pairs | `*n`, of `*2` each | `*2n`, keys and values in turn |
//! | set, push | `~n`, `>n` | `*n` |
//! | double | `,1.5` | the same text as a bulk string |
//! | boolean | `#t`, `#f` | `:1`, `:0` |
//! | big number | `(` digits | a bulk string |
//! | verbatim text | `=n`, `txt:` and the text | the text as a bulk string |
//! | no value | `_` | `$-1`, or `*-1` where a list was asked for |
//!
//! Each line was seen there (`DEBUG PROTOCOL`, and `SUBSCRIBE` for push).
//!
//! The hot replies need no [`Reply`]: [`write_bulk`] and [`write_integer`] and the constants write them directly.

use crate::double::{DOUBLE_BYTES_MAX, write_double};
use bytes::{BufMut, Bytes, BytesMut};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// `+OK`, in both protocols.
pub const OK: &[u8] = b"+OK\r\n";
/// `+PONG`, in both protocols.
pub const PONG: &[u8] = b"+PONG\r\n";
/// `+QUEUED`, what a command in MULTI answers, in both protocols.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";
/// The integer 0, in both protocols.
pub const ZERO: &[u8] = b":0\r\n";
/// The integer 1, in both protocols.
pub const ONE: &[u8] = b":1\r\n";
/// No value, in RESP2.
pub const NIL_RESP2: &[u8] = b"$-1\r\n";
/// No list, in RESP2.
pub const NIL_ARRAY_RESP2: &[u8] = b"*-1\r\n";
/// No value and no list, in RESP3.
pub const NIL_RESP3: &[u8] = b"_\r\n";

/// Bytes of the longest header: a marker, 20 digits, CR LF.
const HEADER_BYTES_MAX: usize = 23;

/// Bytes that a reply has beside its content, at most: a header, CR LF.
pub const BESIDE_CONTENT_BYTES: usize = HEADER_BYTES_MAX + 2;

/// The protocol that a connection speaks: RESP2 until `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What every client starts with.
    #[default]
    Resp2,
    /// Maps, sets, doubles, booleans, nulls and push messages of their own.
    Resp3,
}

impl Protocol {
    /// The number that HELLO takes and answers.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }

    /// No value, encoded.
    pub fn nil(self) -> &'static [u8] {
        match self {
            Protocol::Resp2 => NIL_RESP2,
            Protocol::Resp3 => NIL_RESP3,
        }
    }
}

/// One reply, in RESP3's terms.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A status: one line of text.
    Simple(Cow<'static, str>),
    /// An error: its code and its text in one (`ERR syntax error`). Bytes, since Redis echoes arguments unchanged. CR
    /// and LF become spaces when encoded, as in Redis.
    Error(Bytes),
    /// A number.
    Integer(i64),
    /// A value, shared with the cache.
    Bulk(Arc<[u8]>),
    /// A value that is part of an allocation shared with the cache; nothing if the range is not in it.
    Part(Arc<[u8]>, Range<usize>),
    /// A value in pieces, each as in [`Reply::Part`].
    Parts(Vec<(Arc<[u8]>, Range<usize>)>),
    /// Text made for this reply; travels as a bulk string.
    Text(String),
    /// No value.
    Nil,
    /// No list (EXEC after a failed WATCH); differs from [`Reply::Nil`] in RESP2 only.
    NilArray,
    /// A list.
    Array(Vec<Reply>),
    /// Pairs of key and value, in the order given.
    Map(Vec<(Reply, Reply)>),
    /// A list of pairs: each a list of two in RESP3, one after the other in RESP2 (HRANDFIELD WITHVALUES).
    Pairs(Vec<(Reply, Reply)>),
    /// A list without order; the caller sees to it that nothing is in it twice.
    Set(Vec<Reply>),
    /// A floating point number, printed as [`write_double`] says.
    Double(f64),
    /// Yes or no.
    Boolean(bool),
    /// Decimal digits of an integer of any size, perhaps with a `-` before them.
    BigNumber(Cow<'static, str>),
    /// Text for people and its format, three letters (`txt`, `mkd`); a shorter one is padded with spaces, a longer one
    /// cut.
    Verbatim(Cow<'static, str>, String),
    /// A message that answers no request (invalidation). Only top level in RESP3.
    Push(Vec<Reply>),
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Simple(Cow::Borrowed("OK"));

    /// An error from its code and text: a constant of [`crate::errors`], a `String` or bytes.
    pub fn error(text: impl Into<Bytes>) -> Reply {
        Reply::Error(text.into())
    }

    /// A bulk string with a copy of `bytes`.
    pub fn bulk(bytes: &[u8]) -> Reply {
        Reply::Bulk(bytes.into())
    }

    /// Whether it is an error, at top level.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// Appends the reply's bytes to `out`.
    pub fn encode(&self, protocol: Protocol, out: &mut BytesMut) {
        use Protocol::{Resp2, Resp3};
        match (self, protocol) {
            (Reply::Simple(Cow::Borrowed("OK")), _) => out.extend_from_slice(OK),
            (Reply::Simple(text), _) => write_line(out, b'+', text.as_bytes()),
            (Reply::Error(text), _) => write_line(out, b'-', text),
            (Reply::Integer(number), _) => write_integer(out, *number),
            (Reply::Bulk(bytes), _) => write_bulk(out, bytes),
            (Reply::Part(bytes, range), _) => write_bulk(out, bytes.get(range.clone()).unwrap_or_default()),
            (Reply::Parts(parts), _) => {
                let pieces = parts.iter().map(|(bytes, range)| bytes.get(range.clone()).unwrap_or_default());
                let len = pieces.clone().map(<[u8]>::len).sum();
                write_pieces(out, len, pieces);
            }
            (Reply::Text(text), _) => write_bulk(out, text.as_bytes()),
            (Reply::Nil | Reply::NilArray, Resp3) => out.extend_from_slice(NIL_RESP3),
            (Reply::Nil, Resp2) => out.extend_from_slice(NIL_RESP2),
            (Reply::NilArray, Resp2) => out.extend_from_slice(NIL_ARRAY_RESP2),
            (Reply::Array(items), _) => write_items(out, b'*', items, protocol),
            (Reply::Set(items), Resp3) => write_items(out, b'~', items, protocol),
            (Reply::Push(items), Resp3) => write_items(out, b'>', items, protocol),
            (Reply::Set(items) | Reply::Push(items), Resp2) => write_items(out, b'*', items, protocol),
            (Reply::Map(pairs), _) => {
                match protocol {
                    Resp2 => write_header(out, b'*', pairs.len() as u64 * 2),
                    Resp3 => write_header(out, b'%', pairs.len() as u64),
                }
                for (key, value) in pairs {
                    key.encode(protocol, out);
                    value.encode(protocol, out);
                }
            }
            (Reply::Pairs(pairs), _) => {
                match protocol {
                    Resp2 => write_header(out, b'*', pairs.len() as u64 * 2),
                    Resp3 => write_header(out, b'*', pairs.len() as u64),
                }
                for (first, second) in pairs {
                    if protocol == Resp3 {
                        write_header(out, b'*', 2);
                    }
                    first.encode(protocol, out);
                    second.encode(protocol, out);
                }
            }
            (Reply::Double(value), _) => {
                let mut text = Vec::with_capacity(DOUBLE_BYTES_MAX);
                write_double(*value, &mut text);
                match protocol {
                    Resp2 => write_bulk(out, &text),
                    Resp3 => write_line(out, b',', &text),
                }
            }
            (Reply::Boolean(yes), Resp2) => out.extend_from_slice(if *yes { ONE } else { ZERO }),
            (Reply::Boolean(yes), Resp3) => out.extend_from_slice(if *yes { b"#t\r\n" } else { b"#f\r\n" }),
            (Reply::BigNumber(digits), Resp2) => write_bulk(out, digits.as_bytes()),
            (Reply::BigNumber(digits), Resp3) => write_line(out, b'(', digits.as_bytes()),
            (Reply::Verbatim(_, text), Resp2) => write_bulk(out, text.as_bytes()),
            (Reply::Verbatim(format, text), Resp3) => write_verbatim(out, format, text),
        }
    }

    /// Bytes that the places of its items take in memory; what they hold is not counted.
    pub fn items_bytes(&self) -> usize {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
                size_of_val(items.as_slice()) + items.iter().map(Reply::items_bytes).sum::<usize>()
            }
            Reply::Map(pairs) | Reply::Pairs(pairs) => {
                let nested = |(key, value): &(Reply, Reply)| key.items_bytes() + value.items_bytes();
                size_of_val(pairs.as_slice()) + pairs.iter().map(nested).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// An upper bound of the bytes that [`Reply::encode`] appends, in either protocol; near for large replies.
    pub fn encoded_bytes_max(&self) -> usize {
        let items_bytes = |items: &[Reply]| items.iter().map(Reply::encoded_bytes_max).sum();
        let content = match self {
            Reply::Simple(text) | Reply::BigNumber(text) => text.len(),
            Reply::Error(text) => text.len(),
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Part(_, range) => range.len(),
            Reply::Parts(parts) => parts.iter().map(|(_, range)| range.len()).sum(),
            Reply::Text(text) | Reply::Verbatim(_, text) => text.len() + 4,
            Reply::Double(_) => DOUBLE_BYTES_MAX,
            Reply::Integer(_) | Reply::Nil | Reply::NilArray | Reply::Boolean(_) => 0,
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items_bytes(items),
            Reply::Map(pairs) | Reply::Pairs(pairs) => {
                let pair_bytes = |(key, value): &(Reply, Reply)| {
                    // In RESP3 each pair has a header of its own.
                    HEADER_BYTES_MAX + key.encoded_bytes_max() + value.encoded_bytes_max()
                };
                pairs.iter().map(pair_bytes).sum()
            }
        };
        content + BESIDE_CONTENT_BYTES
    }
}

impl From<i64> for Reply {
    fn from(number: i64) -> Reply {
        Reply::Integer(number)
    }
}

/// Appends a bulk string: `$`, length, bytes.
pub fn write_bulk(out: &mut BytesMut, bytes: &[u8]) {
    out.reserve(HEADER_BYTES_MAX + bytes.len() + 2);
    write_header(out, b'$', bytes.len() as u64);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

/// Appends a bulk string of `len` bytes that come in pieces.
fn write_pieces<'a>(out: &mut BytesMut, len: usize, pieces: impl Iterator<Item = &'a [u8]>) {
    out.reserve(HEADER_BYTES_MAX + len + 2);
    write_header(out, b'$', len as u64);
    pieces.for_each(|piece| out.put_slice(piece));
    out.put_slice(b"\r\n");
}

/// Appends a number: `:`, digits.
pub fn write_integer(out: &mut BytesMut, number: i64) {
    match u64::try_from(number) {
        Ok(number) => write_header(out, b':', number),
        Err(_) => {
            let mut digits = itoa::Buffer::new();
            write_line(out, b':', digits.format(number).as_bytes());
        }
    }
}

/// Appends a marker and a number: the head of a bulk string or of an aggregate (`*`, `%`, `~`, `>`).
#[inline]
pub fn write_header(out: &mut BytesMut, marker: u8, number: u64) {
    // One copy of a few bytes that the compiler knows the number of; these are nearly all headers.
    if number < 10 {
        return out.extend_from_slice(&[marker, b'0' + number as u8, b'\r', b'\n']);
    }
    if number < 100 {
        let (tens, ones) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
        return out.extend_from_slice(&[marker, tens, ones, b'\r', b'\n']);
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number).as_bytes();
    let mut header = [marker; HEADER_BYTES_MAX];
    header[1..=digits.len()].copy_from_slice(digits);
    header[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
    out.extend_from_slice(&header[..digits.len() + 3]);
}

/// Bytes of a line that is short.
const SHORT_LINE_BYTES: usize = 13;

/// Appends a line; CR and LF within `text`, which would end it early, become spaces.
fn write_line(out: &mut BytesMut, marker: u8, text: &[u8]) {
    if text.len() <= SHORT_LINE_BYTES {
        // Most are `OK` and `QUEUED`: put together first, so that the buffer is asked for room once.
        let mut line = [marker; SHORT_LINE_BYTES + 3];
        for (place, byte) in line[1..].iter_mut().zip(text) {
            *place = if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        }
        line[text.len() + 1..text.len() + 3].copy_from_slice(b"\r\n");
        return out.extend_from_slice(&line[..text.len() + 3]);
    }
    out.reserve(text.len() + 3);
    out.put_u8(marker);
    let start = out.len();
    out.put_slice(text);
    if memchr::memchr2(b'\r', b'\n', text).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }
    out.put_slice(b"\r\n");
}

fn write_items(out: &mut BytesMut, marker: u8, items: &[Reply], protocol: Protocol) {
    write_header(out, marker, items.len() as u64);
    for item in items {
        item.encode(protocol, out);
    }
}

fn write_verbatim(out: &mut BytesMut, format: &str, text: &str) {
    let mut prefix = *b"   :";
    let format = &format.as_bytes()[..format.len().min(3)];
    prefix[..format.len()].copy_from_slice(format);
    write_header(out, b'=', text.len() as u64 + 4);
    out.extend_from_slice(&prefix);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(reply: &Reply, protocol: Protocol) -> String {
        let mut out = BytesMut::new();
        reply.encode(protocol, &mut out);
        assert!(out.len() <= reply.encoded_bytes_max(), "{reply:?}");
        String::from_utf8(out.to_vec()).unwrap().replace("\r\n", "|")
    }

    #[test]
    fn each_kind_in_both_protocols() {
        let one = || vec![Reply::Integer(1)];
        let cases = [
            (Reply::OK, "+OK|", "+OK|"),
            (Reply::error("ERR a\r\nb"), "-ERR a  b|", "-ERR a  b|"),
            (Reply::Integer(-42), ":-42|", ":-42|"),
            (Reply::Integer(i64::MAX), ":9223372036854775807|", ":9223372036854775807|"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808|", ":-9223372036854775808|"),
            (Reply::bulk(b"hi"), "$2|hi|", "$2|hi|"),
            (Reply::Parts(vec![(Arc::from(*b"ahi"), 1..3), (Arc::from(*b"gh!"), 0..2)]), "$4|high|", "$4|high|"),
            (Reply::Parts(vec![]), "$0||", "$0||"),
            (
                Reply::Text("x".repeat(123)),
                &format!("$123|{}|", "x".repeat(123)),
                &format!("$123|{}|", "x".repeat(123)),
            ),
            (Reply::Text("twelve bytes".into()), "$12|twelve bytes|", "$12|twelve bytes|"),
            (Reply::Nil, "$-1|", "_|"),
            (Reply::NilArray, "*-1|", "_|"),
            (Reply::Array(vec![]), "*0|", "*0|"),
            (Reply::Map(vec![(Reply::bulk(b"k"), Reply::Array(one()))]), "*2|$1|k|*1|:1|", "%1|$1|k|*1|:1|"),
            (
                Reply::Pairs(vec![(Reply::bulk(b"k"), Reply::Integer(1)), (Reply::bulk(b"l"), Reply::Nil)]),
                "*4|$1|k|:1|$1|l|$-1|",
                "*2|*2|$1|k|:1|*2|$1|l|_|",
            ),
            (Reply::Set(one()), "*1|:1|", "~1|:1|"),
            (Reply::Push(one()), "*1|:1|", ">1|:1|"),
            (Reply::Double(1.5), "$3|1.5|", ",1.5|"),
            (Reply::Double(f64::INFINITY), "$3|inf|", ",inf|"),
            (Reply::Double(f64::NEG_INFINITY), "$4|-inf|", ",-inf|"),
            (Reply::Double(f64::NAN), "$3|nan|", ",nan|"),
            (Reply::Boolean(true), ":1|", "#t|"),
            (Reply::Boolean(false), ":0|", "#f|"),
            (
                Reply::BigNumber("12345678999999999999999".into()),
                "$23|12345678999999999999999|",
                "(12345678999999999999999|",
            ),
            (Reply::Verbatim("txt".into(), "hello".into()), "$5|hello|", "=9|txt:hello|"),
            (Reply::Verbatim("m".into(), "a".into()), "$1|a|", "=5|m  :a|"),
        ];
        for (reply, resp2, resp3) in &cases {
            assert_eq!(text(reply, Protocol::Resp2), *resp2);
            assert_eq!(text(reply, Protocol::Resp3), *resp3);
        }
    }

    #[test]
    fn every_length_of_header() {
        let mut number = 0_u64;
        for step in [1, 9, 10, 90, 100, 1 << 40, u64::MAX] {
            for number in [number, number.saturating_add(step), step] {
                let mut out = BytesMut::new();
                write_header(&mut out, b'$', number);
                assert_eq!(out, format!("${number}\r\n").as_bytes());
            }
            number = number.saturating_add(step);
        }
    }

    #[test]
    fn the_constants_are_what_the_replies_encode_to() {
        let encoded = |reply: Reply, protocol| text(&reply, protocol).replace('|', "\r\n").into_bytes();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert_eq!(encoded(Reply::OK, protocol), OK);
            assert_eq!(encoded(Reply::Simple("PONG".into()), protocol), PONG);
            assert_eq!(encoded(Reply::Simple("QUEUED".into()), protocol), QUEUED);
            assert_eq!(encoded(Reply::Integer(0), protocol), ZERO);
            assert_eq!(encoded(Reply::Integer(1), protocol), ONE);
            assert_eq!(encoded(Reply::Nil, protocol), protocol.nil());
        }
        assert_eq!(encoded(Reply::NilArray, Protocol::Resp2), NIL_ARRAY_RESP2);
    }
}
