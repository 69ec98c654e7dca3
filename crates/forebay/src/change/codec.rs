//! The binary form of a change; strings and numbers are those of [`value::codec`](crate::value::codec).
//!
//! ```text
//! change = version:1 tag:1 content
//! ```
//!
//! The tags stand below, the content beside them in the encoder. Signed numbers are varints in zigzag order.

use super::{Change, End};
use crate::value::Blob;
use crate::value::codec::{CODEC_VERSION, CodecError, Reader, write_body, write_number, write_string};

const PUT: u8 = 0;
const DELETE: u8 = 1;
const EXPIRE_AT: u8 = 2;
const PERSIST: u8 = 3;
const ADD_INTEGER: u8 = 4;
const ADD_INTEGER_FIELD: u8 = 5;
const ADD_FLOAT: u8 = 6;
const ADD_FLOAT_FIELD: u8 = 7;
const APPEND: u8 = 8;
const WRITE_AT: u8 = 9;
const SET_FIELD: u8 = 10;
const UNSET_FIELD: u8 = 11;
const PUSH_LEFT: u8 = 12;
const PUSH_RIGHT: u8 = 13;
const POP_LEFT: u8 = 14;
const POP_RIGHT: u8 = 15;
const REMOVE_EQUAL: u8 = 16;
const ADD_MEMBER: u8 = 17;
const REMOVE_MEMBER: u8 = 18;
const REMOVE_EXPIRED: u8 = 19;

/// Appends the encoding of `change` to `out`.
pub fn encode_change(change: &Change, out: &mut Vec<u8>) {
    out.push(CODEC_VERSION);
    match change {
        // Means the same, and documents without elements have no encoding.
        Change::Put(value) if value.is_empty_collection() => out.push(DELETE),
        Change::Put(value) => {
            out.push(PUT);
            write_body(value, out);
        }
        Change::Delete => out.push(DELETE),
        Change::ExpireAt(at_ms) => {
            out.push(EXPIRE_AT);
            out.extend_from_slice(&at_ms.to_le_bytes());
        }
        Change::Persist => out.push(PERSIST),
        Change::RemoveExpired(by_ms) => {
            out.push(REMOVE_EXPIRED);
            out.extend_from_slice(&by_ms.to_le_bytes());
        }
        Change::AddInteger { field, delta } => {
            write_tag_and_field(ADD_INTEGER, ADD_INTEGER_FIELD, field.as_ref(), out);
            write_signed(*delta, out);
        }
        Change::AddFloat { field, delta } => {
            write_tag_and_field(ADD_FLOAT, ADD_FLOAT_FIELD, field.as_ref(), out);
            write_string(delta, out);
        }
        Change::Append(bytes) => write_tagged(APPEND, &[bytes], out),
        Change::WriteAt { offset, bytes } => {
            out.push(WRITE_AT);
            write_number(*offset as u64, out);
            write_string(bytes, out);
        }
        Change::SetField(field, value) => write_tagged(SET_FIELD, &[field, value], out),
        Change::UnsetField(field) => write_tagged(UNSET_FIELD, &[field], out),
        Change::Push(End::Left, element) => write_tagged(PUSH_LEFT, &[element], out),
        Change::Push(End::Right, element) => write_tagged(PUSH_RIGHT, &[element], out),
        Change::Pop(End::Left) => out.push(POP_LEFT),
        Change::Pop(End::Right) => out.push(POP_RIGHT),
        Change::RemoveEqual { count, element } => {
            out.push(REMOVE_EQUAL);
            write_signed(*count, out);
            write_string(element, out);
        }
        Change::AddMember(member) => write_tagged(ADD_MEMBER, &[member], out),
        Change::RemoveMember(member) => write_tagged(REMOVE_MEMBER, &[member], out),
    }
}

/// Decodes what [`encode_change`] wrote: all of `bytes`.
pub fn decode_change(bytes: &[u8]) -> Result<Change, CodecError> {
    let mut reader = Reader::new(bytes)?;
    let change = read_change(&mut reader)?;
    reader.end()?;
    Ok(change)
}

fn read_change(reader: &mut Reader<'_>) -> Result<Change, CodecError> {
    Ok(match reader.byte()? {
        PUT => Change::Put(reader.body()?),
        DELETE => Change::Delete,
        EXPIRE_AT => Change::ExpireAt(reader.fixed()?),
        PERSIST => Change::Persist,
        ADD_INTEGER => Change::AddInteger { field: None, delta: read_signed(reader)? },
        ADD_INTEGER_FIELD => Change::AddInteger { field: Some(reader.string()?), delta: read_signed(reader)? },
        ADD_FLOAT => Change::AddFloat { field: None, delta: reader.string()? },
        ADD_FLOAT_FIELD => Change::AddFloat { field: Some(reader.string()?), delta: reader.string()? },
        APPEND => Change::Append(reader.string()?),
        WRITE_AT => {
            let offset = usize::try_from(reader.number()?).map_err(|_| CodecError::MalformedNumber)?;
            Change::WriteAt { offset, bytes: reader.string()? }
        }
        SET_FIELD => Change::SetField(reader.string()?, reader.string()?),
        UNSET_FIELD => Change::UnsetField(reader.string()?),
        PUSH_LEFT => Change::Push(End::Left, reader.string()?),
        PUSH_RIGHT => Change::Push(End::Right, reader.string()?),
        POP_LEFT => Change::Pop(End::Left),
        POP_RIGHT => Change::Pop(End::Right),
        REMOVE_EQUAL => Change::RemoveEqual { count: read_signed(reader)?, element: reader.string()? },
        ADD_MEMBER => Change::AddMember(reader.string()?),
        REMOVE_MEMBER => Change::RemoveMember(reader.string()?),
        REMOVE_EXPIRED => Change::RemoveExpired(reader.fixed()?),
        tag => return Err(CodecError::UnknownTag { what: "change", tag }),
    })
}

fn write_tagged(tag: u8, strings: &[&Blob], out: &mut Vec<u8>) {
    out.push(tag);
    strings.iter().for_each(|string| write_string(string, out));
}

fn write_tag_and_field(whole: u8, of_field: u8, field: Option<&Blob>, out: &mut Vec<u8>) {
    match field {
        None => out.push(whole),
        Some(field) => write_tagged(of_field, &[field], out),
    }
}

fn write_signed(number: i64, out: &mut Vec<u8>) {
    write_number(((number << 1) ^ (number >> 63)) as u64, out);
}

fn read_signed(reader: &mut Reader<'_>) -> Result<i64, CodecError> {
    let number = reader.number()?;
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Data, Hash, Value};

    fn encoded(change: &Change) -> Vec<u8> {
        let mut out = Vec::new();
        encode_change(change, &mut out);
        out
    }

    #[test]
    fn the_bytes_are_those_of_version_1() {
        assert_eq!(encoded(&Change::AddInteger { field: None, delta: -1 }), [1, 4, 1]);
        assert_eq!(encoded(&Change::AddInteger { field: Some((*b"f").into()), delta: 64 }), [1, 5, 1, b'f', 128, 1]);
        assert_eq!(encoded(&Change::WriteAt { offset: 300, bytes: (*b"x").into() }), [1, 9, 172, 2, 1, b'x']);
        assert_eq!(encoded(&Change::Put(Value::bytes(*b"x"))), [1, 0, 0, 1, b'x']);
    }

    #[test]
    fn extreme_numbers_come_back() {
        for delta in [0, 1, -1, i64::MAX, i64::MIN] {
            let change = Change::AddInteger { field: None, delta };
            assert_eq!(decode_change(&encoded(&change)), Ok(change));
        }
        let change = Change::WriteAt { offset: usize::MAX, bytes: Blob::default() };
        assert_eq!(decode_change(&encoded(&change)), Ok(change));
    }

    #[test]
    fn a_put_of_nothing_is_a_delete() {
        let nothing = Value { data: Data::Hash(Hash::default()), expires_at_ms: Some(1) };
        assert_eq!(decode_change(&encoded(&Change::Put(nothing))), Ok(Change::Delete));
        assert_eq!(decode_change(&[1, 99]), Err(CodecError::UnknownTag { what: "change", tag: 99 }));
    }
}
