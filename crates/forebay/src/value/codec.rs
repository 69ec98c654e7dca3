//! The binary form of a document: what stores, journals and traces hold.
//!
//! ```text
//! document = version:1 body
//! body     = kind:1 [expiry:8, little-endian, if kind has bit 7] content
//! content  = string                               kind 0, bytes
//!          | count:varint (string string)*count   kind 1, hash, fields ascending
//!          | count:varint string*count            kind 2, list
//!          | count:varint string*count            kind 3, set, members ascending
//! string   = length:varint byte*length
//! varint   = unsigned LEB128 of at most 64 bits, as short as it can be
//! ```
//!
//! One document has one encoding, and only that one is decoded: order, length of numbers and end are checked.

use thiserror::Error;

use super::{Blob, Data, Value};

/// The version of the encoding that is written, and the only one that is read.
pub const CODEC_VERSION: u8 = 1;

const BYTES: u8 = 0;
const HASH: u8 = 1;
const LIST: u8 = 2;
const SET: u8 = 3;
const EXPIRES: u8 = 0x80;

/// What a document is, as its encoding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Bytes,
    Hash,
    List,
    Set,
}

impl Tag {
    /// What `byte` says, and whether the document expires.
    pub(super) fn of(byte: u8) -> Result<(Tag, bool), CodecError> {
        let tag = match byte & !EXPIRES {
            BYTES => Tag::Bytes,
            HASH => Tag::Hash,
            LIST => Tag::List,
            SET => Tag::Set,
            tag => return Err(CodecError::UnknownTag { what: "kind of document", tag }),
        };
        Ok((tag, byte & EXPIRES != 0))
    }
}

/// The byte that says what `value` is, and whether it expires.
pub(super) fn tag_of(value: &Value) -> u8 {
    let kind = match &value.data {
        Data::Bytes(_) => BYTES,
        Data::Hash(_) => HASH,
        Data::List(_) => LIST,
        Data::Set(_) => SET,
    };
    value.expires_at_ms.map_or(kind, |_| kind | EXPIRES)
}

/// Why bytes are not an encoded document or change.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// Another encoding.
    #[error("encoding version {0}, this program reads {CODEC_VERSION}: use the forebay that wrote it, or a newer one")]
    UnknownVersion(u8),
    /// No such kind of document or change.
    #[error("damaged: unknown {what} {tag}; restore from a backup")]
    UnknownTag {
        /// Of what there is no such tag.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// More is announced than there is.
    #[error("damaged: cut short; restore from a backup")]
    CutShort,
    /// Bytes after the end.
    #[error("damaged: {0} bytes after the end; restore from a backup")]
    TrailingBytes(usize),
    /// A number that is too long, or longer than it needs to be.
    #[error("damaged: malformed number; restore from a backup")]
    MalformedNumber,
    /// Fields or members out of order, or twice.
    #[error("damaged: fields or members out of order; restore from a backup")]
    OutOfOrder,
    /// A hash, list or set of nothing.
    #[error("damaged: hash, list or set without elements; restore from a backup")]
    Empty,
}

/// Appends the encoding of `value` to `out`. A hash, list or set without elements, which no document is, has none that
/// could be decoded.
pub fn encode_value(value: &Value, out: &mut Vec<u8>) {
    out.push(CODEC_VERSION);
    write_body(value, out);
}

/// Decodes what [`encode_value`] wrote: all of `bytes`.
pub fn decode_value(bytes: &[u8]) -> Result<Value, CodecError> {
    let mut reader = Reader::new(bytes)?;
    let value = reader.body()?;
    reader.end()?;
    Ok(value)
}

pub(crate) fn write_body(value: &Value, out: &mut Vec<u8>) {
    out.push(tag_of(value));
    if let Some(at_ms) = value.expires_at_ms {
        out.extend_from_slice(&at_ms.to_le_bytes());
    }
    match &value.data {
        Data::Bytes(bytes) => {
            write_number(bytes.len() as u64, out);
            bytes.pieces(0..bytes.len()).for_each(|piece| out.extend_from_slice(piece));
        }
        Data::Hash(hash) => {
            write_number(hash.len() as u64, out);
            for (field, value) in hash.iter() {
                write_string(field, out);
                write_string(value, out);
            }
        }
        Data::List(list) => {
            write_number(list.len() as u64, out);
            list.iter().for_each(|element| write_string(element, out));
        }
        Data::Set(set) => {
            write_number(set.len() as u64, out);
            set.iter().for_each(|member| write_string(member, out));
        }
    }
}

pub(crate) fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn write_string(string: &[u8], out: &mut Vec<u8>) {
    write_number(string.len() as u64, out);
    out.extend_from_slice(string);
}

/// Reads an encoding from its start on. Nothing is allocated for more elements or bytes than are left to be read.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts behind the version.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Reader<'a>, CodecError> {
        let mut reader = Reader { rest: bytes };
        match reader.byte()? {
            CODEC_VERSION => Ok(reader),
            version => Err(CodecError::UnknownVersion(version)),
        }
    }

    pub(crate) fn end(&self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::TrailingBytes(self.rest.len())) }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(CodecError::CutShort)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, CodecError> {
        let (byte, rest) = self.rest.split_first().ok_or(CodecError::CutShort)?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(crate) fn fixed(&mut self) -> Result<u64, CodecError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CodecError::CutShort)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    pub(crate) fn number(&mut self) -> Result<u64, CodecError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(CodecError::MalformedNumber);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let padded = byte == 0 && shift > 0;
                return if padded { Err(CodecError::MalformedNumber) } else { Ok(number) };
            }
        }
        Err(CodecError::MalformedNumber)
    }

    pub(crate) fn string(&mut self) -> Result<Blob, CodecError> {
        self.slice().map(Blob::from)
    }

    fn slice(&mut self) -> Result<&'a [u8], CodecError> {
        let len = self.number()?;
        // What does not fit a pointer's width is more than is left, too.
        let len = usize::try_from(len).map_err(|_| CodecError::CutShort)?;
        self.take(len)
    }

    /// The number of elements that follow, each of at least `element_bytes_min` bytes.
    fn count(&mut self, element_bytes_min: usize) -> Result<usize, CodecError> {
        let count = self.number()?;
        if count == 0 {
            return Err(CodecError::Empty);
        }
        let count = usize::try_from(count).map_err(|_| CodecError::CutShort)?;
        if count > self.rest.len() / element_bytes_min { Err(CodecError::CutShort) } else { Ok(count) }
    }

    pub(crate) fn body(&mut self) -> Result<Value, CodecError> {
        let (tag, expires) = Tag::of(self.byte()?)?;
        let expires_at_ms = if expires { Some(self.fixed()?) } else { None };
        let data = match tag {
            Tag::Bytes => Data::Bytes(self.slice()?.into()),
            Tag::Hash => {
                let count = self.count(2)?;
                let mut fields: Vec<(Blob, Blob)> = Vec::with_capacity(count);
                for _ in 0..count {
                    let field = self.string()?;
                    ascending(fields.last().map(|(field, _)| field), &field)?;
                    fields.push((field, self.string()?));
                }
                Data::Hash(fields.into_iter().collect())
            }
            Tag::List => {
                let count = self.count(1)?;
                let elements: Result<Vec<Blob>, CodecError> = (0..count).map(|_| self.string()).collect();
                Data::List(elements?.into_iter().collect())
            }
            Tag::Set => {
                let count = self.count(1)?;
                let mut members: Vec<Blob> = Vec::with_capacity(count);
                for _ in 0..count {
                    let member = self.string()?;
                    ascending(members.last(), &member)?;
                    members.push(member);
                }
                Data::Set(members.into_iter().collect())
            }
        };
        Ok(Value { data, expires_at_ms })
    }
}

fn ascending(last: Option<&Blob>, next: &Blob) -> Result<(), CodecError> {
    if last.is_some_and(|last| last >= next) { Err(CodecError::OutOfOrder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<Value, CodecError> {
        decode_value(bytes)
    }

    #[test]
    fn the_bytes_are_those_of_version_1() {
        let mut out = Vec::new();
        encode_value(&Value { expires_at_ms: Some(0x0102), ..Value::bytes(*b"hi") }, &mut out);
        assert_eq!(out, [1, 0x80, 2, 1, 0, 0, 0, 0, 0, 0, 2, b'h', b'i']);
        out.clear();
        let hash = [("b", ""), ("a", "xyz")].map(|(field, value)| (field.as_bytes().into(), value.as_bytes().into()));
        encode_value(&Value { data: Data::Hash(hash.into_iter().collect()), expires_at_ms: None }, &mut out);
        assert_eq!(out, b"\x01\x01\x02\x01a\x03xyz\x01b\x00");
    }

    #[test]
    fn malformed_bytes_are_named() {
        use CodecError::*;
        assert_eq!(decoded(b""), Err(CutShort));
        assert_eq!(decoded(b"\x02\x00\x00"), Err(UnknownVersion(2)));
        assert_eq!(decoded(b"\x01\x04\x00"), Err(UnknownTag { what: "kind of document", tag: 4 }));
        assert_eq!(decoded(b"\x01\x00\x02a"), Err(CutShort));
        assert_eq!(decoded(b"\x01\x80\x02a"), Err(CutShort));
        assert_eq!(decoded(b"\x01\x00\x01ab"), Err(TrailingBytes(1)));
        assert_eq!(decoded(b"\x01\x00\x81\x00a"), Err(MalformedNumber));
        assert_eq!(decoded(b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), Err(MalformedNumber));
        assert_eq!(decoded(b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00"), Err(MalformedNumber));
        assert_eq!(decoded(b"\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err(CutShort));
        assert_eq!(decoded(b"\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a"), Err(CutShort));
        assert_eq!(decoded(b"\x01\x02\x00"), Err(Empty));
        assert_eq!(decoded(b"\x01\x03\x02\x01b\x01a"), Err(OutOfOrder));
        assert_eq!(decoded(b"\x01\x03\x02\x01a\x01a"), Err(OutOfOrder));
        assert_eq!(decoded(b"\x01\x01\x02\x01a\x00\x01a\x00"), Err(OutOfOrder));
    }
}
