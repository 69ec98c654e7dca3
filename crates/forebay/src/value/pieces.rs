//! The binary form of a document ([`super::codec`]) a piece at a time. A document of many megabytes is sent to a store,
//! and received from it, without its whole form being in memory beside it.

use super::codec::{CODEC_VERSION, CodecError, Tag, tag_of};
use super::{Blob, Bytes, Data, Value};

/// Bytes of a piece; the last one of a document is shorter.
pub const PIECE_BYTES: usize = 64 << 10;

/// What an encoding consists of.
enum Token<'a> {
    Byte(u8),
    Expiry([u8; 8]),
    Number(u64),
    Slice(&'a [u8]),
}

/// The bytes of a number.
fn number_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

impl Token<'_> {
    fn len(&self) -> usize {
        match self {
            Token::Byte(_) => 1,
            Token::Expiry(bytes) => bytes.len(),
            Token::Number(number) => number_bytes(*number),
            Token::Slice(slice) => slice.len(),
        }
    }
}

type Tokens<'a> = Box<dyn Iterator<Item = Token<'a>> + Send + 'a>;

fn tokens(value: &Value) -> Tokens<'_> {
    fn string(string: &Blob) -> [Token<'_>; 2] {
        [Token::Number(string.len() as u64), Token::Slice(string)]
    }
    let (len, content): (usize, Tokens<'_>) = match &value.data {
        Data::Bytes(bytes) => (bytes.len(), Box::new(bytes.pieces(0..bytes.len()).map(Token::Slice))),
        Data::Hash(hash) => (
            hash.len(),
            Box::new(hash.iter().flat_map(|(field, value)| string(field).into_iter().chain(string(value)))),
        ),
        Data::List(list) => (list.len(), Box::new(list.iter().flat_map(string))),
        Data::Set(set) => (set.len(), Box::new(set.iter().flat_map(string))),
    };
    let head = [Token::Byte(CODEC_VERSION), Token::Byte(tag_of(value))].into_iter();
    let expiry = value.expires_at_ms.map(|at_ms| Token::Expiry(at_ms.to_le_bytes()));
    Box::new(head.chain(expiry).chain([Token::Number(len as u64)]).chain(content))
}

/// Bytes of the encoding of `value`.
pub fn encoded_bytes(value: &Value) -> usize {
    tokens(value).map(|token| token.len()).sum()
}

/// The encoding of a document, piece by piece.
pub struct Pieces<'a> {
    tokens: Tokens<'a>,
    /// What the piece before had no room for.
    rest: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// Of `value`: the same bytes as of [`super::codec::encode_value`].
    pub fn of(value: &'a Value) -> Pieces<'a> {
        Pieces { tokens: tokens(value), rest: &[] }
    }

    /// Appends what comes next to `piece`, up to [`PIECE_BYTES`] in all and a number more. False if there is nothing.
    pub fn fill(&mut self, piece: &mut Vec<u8>) -> bool {
        let before = piece.len();
        while piece.len() < PIECE_BYTES {
            let room = PIECE_BYTES - piece.len();
            if !self.rest.is_empty() {
                let (here, rest) = self.rest.split_at(self.rest.len().min(room));
                piece.extend_from_slice(here);
                self.rest = rest;
                continue;
            }
            match self.tokens.next() {
                Some(Token::Byte(byte)) => piece.push(byte),
                Some(Token::Expiry(bytes)) => piece.extend_from_slice(&bytes),
                Some(Token::Number(number)) => super::codec::write_number(number, piece),
                Some(Token::Slice(slice)) => self.rest = slice,
                None => break,
            }
        }
        piece.len() > before
    }
}

/// A string of which a part has come.
struct Partial {
    bytes: Blob,
    filled: usize,
}

/// What comes next.
enum Next {
    Version,
    Tag,
    Expiry {
        bytes: [u8; 8],
        filled: usize,
    },
    /// How many elements there are, or bytes of a byte string.
    Count,
    /// The length of an element.
    Length,
    Element(Partial),
    /// Bytes of a byte string.
    Bytes,
    End,
}

/// Makes a document of its encoding, piece by piece. It takes what [`super::codec::decode_value`] takes.
pub struct Decoder {
    next: Next,
    /// Bytes that have not come yet.
    left: usize,
    tag: Tag,
    expires_at_ms: Option<u64>,
    /// The number that is being read, and its bits so far.
    number: (u64, u32),
    /// Strings, or bytes, that are still to come.
    missing: usize,
    bytes: Bytes,
    strings: Vec<Blob>,
    /// The field whose value comes next.
    field: Option<Blob>,
    fields: Vec<(Blob, Blob)>,
}

impl Decoder {
    /// For an encoding of `len` bytes.
    pub fn new(len: usize) -> Decoder {
        Decoder {
            next: Next::Version,
            left: len,
            tag: Tag::Bytes,
            expires_at_ms: None,
            number: (0, 0),
            missing: 0,
            bytes: Bytes::default(),
            strings: Vec::new(),
            field: None,
            fields: Vec::new(),
        }
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), CodecError> {
        while !piece.is_empty() {
            match &mut self.next {
                Next::End => return Err(CodecError::TrailingBytes(self.left.max(piece.len()))),
                Next::Bytes => {
                    let (here, rest) = piece.split_at(piece.len().min(self.missing));
                    self.bytes.write_at(self.bytes.len(), here);
                    (self.missing, self.left, piece) =
                        (self.missing - here.len(), self.left.saturating_sub(here.len()), rest);
                    if self.missing == 0 {
                        self.next = Next::End;
                    }
                }
                Next::Element(partial) => {
                    let (here, rest) = piece.split_at(piece.len().min(partial.bytes.len() - partial.filled));
                    if let Some(bytes) = std::sync::Arc::get_mut(&mut partial.bytes) {
                        bytes[partial.filled..partial.filled + here.len()].copy_from_slice(here);
                    }
                    partial.filled += here.len();
                    (self.left, piece) = (self.left.saturating_sub(here.len()), rest);
                    self.take_element()?;
                }
                _ => {
                    let byte = piece[0];
                    (self.left, piece) = (self.left.saturating_sub(1), &piece[1..]);
                    self.take_byte(byte)?;
                }
            }
        }
        Ok(())
    }

    fn take_byte(&mut self, byte: u8) -> Result<(), CodecError> {
        match &mut self.next {
            Next::Version if byte == CODEC_VERSION => self.next = Next::Tag,
            Next::Version => return Err(CodecError::UnknownVersion(byte)),
            Next::Tag => {
                let expires;
                (self.tag, expires) = Tag::of(byte)?;
                self.next = if expires { Next::Expiry { bytes: [0; 8], filled: 0 } } else { Next::Count };
            }
            Next::Expiry { bytes, filled } => {
                bytes[*filled] = byte;
                *filled += 1;
                if *filled == bytes.len() {
                    self.expires_at_ms = Some(u64::from_le_bytes(*bytes));
                    self.next = Next::Count;
                }
            }
            Next::Count => {
                if let Some(count) = self.take_digit(byte)? {
                    self.begin(count)?;
                }
            }
            Next::Length => {
                if let Some(len) = self.take_digit(byte)? {
                    let len = usize::try_from(len).ok().filter(|len| *len <= self.left).ok_or(CodecError::CutShort)?;
                    self.next = Next::Element(Partial { bytes: super::chunks::zeros(len), filled: 0 });
                    self.take_element()?;
                }
            }
            Next::Element(_) | Next::Bytes | Next::End => debug_assert!(false, "these take more than a byte"),
        }
        Ok(())
    }

    /// The number that `byte` completes, if it does.
    fn take_digit(&mut self, byte: u8) -> Result<Option<u64>, CodecError> {
        let (number, shift) = self.number;
        let bits = u64::from(byte & 0x7f);
        let padded = byte == 0 && shift > 0;
        if shift > 63 || bits << shift >> shift != bits || padded {
            return Err(CodecError::MalformedNumber);
        }
        let number = number | bits << shift;
        let complete = byte & 0x80 == 0;
        self.number = if complete { (0, 0) } else { (number, shift + 7) };
        Ok(complete.then_some(number))
    }

    /// So many elements follow, or bytes of a byte string.
    fn begin(&mut self, count: u64) -> Result<(), CodecError> {
        let least = match self.tag {
            Tag::Bytes | Tag::List | Tag::Set => 1,
            Tag::Hash => 2,
        };
        if count == 0 && self.tag != Tag::Bytes {
            return Err(CodecError::Empty);
        }
        let count =
            usize::try_from(count).ok().filter(|count| *count <= self.left / least).ok_or(CodecError::CutShort)?;
        self.missing = count;
        self.next = match self.tag {
            Tag::Bytes if count == 0 => Next::End,
            Tag::Bytes => Next::Bytes,
            Tag::Hash => {
                self.missing = 2 * count;
                self.fields.reserve(count);
                Next::Length
            }
            Tag::List | Tag::Set => {
                self.strings.reserve(count);
                Next::Length
            }
        };
        Ok(())
    }

    /// Adds the element that has come, if all of it has.
    fn take_element(&mut self) -> Result<(), CodecError> {
        let Next::Element(partial) = &mut self.next else { return Ok(()) };
        if partial.filled < partial.bytes.len() {
            return Ok(());
        }
        let element = std::mem::take(&mut partial.bytes);
        let ascends = |last: Option<&Blob>| match last.is_some_and(|last| *last >= element) {
            true => Err(CodecError::OutOfOrder),
            false => Ok(()),
        };
        match (self.tag, self.field.take()) {
            (Tag::Hash, Some(field)) => self.fields.push((field, element)),
            (Tag::Hash, None) => {
                ascends(self.fields.last().map(|(field, _)| field))?;
                self.field = Some(element);
            }
            (Tag::Set, _) => {
                ascends(self.strings.last())?;
                self.strings.push(element);
            }
            (Tag::List | Tag::Bytes, _) => self.strings.push(element),
        }
        self.missing -= 1;
        self.next = if self.missing == 0 { Next::End } else { Next::Length };
        Ok(())
    }

    /// The document, once all has come.
    pub fn end(self) -> Result<Value, CodecError> {
        if !matches!(self.next, Next::End) {
            return Err(CodecError::CutShort);
        }
        let data = match self.tag {
            Tag::Bytes => Data::Bytes(self.bytes),
            Tag::Hash => Data::Hash(self.fields.into_iter().collect()),
            Tag::List => Data::List(self.strings.into_iter().collect()),
            Tag::Set => Data::Set(self.strings.into_iter().collect()),
        };
        Ok(Value { data, expires_at_ms: self.expires_at_ms })
    }
}
