//! What a document looked like when it was read, in eight bytes. What was computed from it is right only if the store
//! comes to hold that document. The journal keeps it, so the hash is one whose values do not change between releases.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::value::{Data, Value};

/// The hash of a document, or of its absence; equal ones have equal ones, in whatever order they name their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Of a document, or of none.
    pub fn of(value: Option<&Value>) -> Fingerprint {
        let mut whole = SipHasher13::new();
        if let Some(Value { data, expires_at_ms }) = value {
            whole.write_u8(1 + u8::from(expires_at_ms.is_some()));
            whole.write(&expires_at_ms.unwrap_or_default().to_le_bytes());
            let (tag, content) = content(data);
            whole.write_u8(tag);
            whole.write(&content.to_le_bytes());
        }
        Fingerprint(whole.finish())
    }
}

/// The type, and the hash of the elements: a sum where they have no order.
fn content(data: &Data) -> (u8, u64) {
    match data {
        Data::Bytes(bytes) => (0, hash_pieces(bytes.len(), bytes.pieces(0..bytes.len()))),
        Data::Hash(fields) => (1, sum(fields.iter().map(|(field, value)| hash(&[field, value])))),
        Data::List(list) => {
            let mut all = SipHasher13::new();
            list.iter().for_each(|element| all.write(&hash(&[element]).to_le_bytes()));
            (2, all.finish())
        }
        Data::Set(members) => (3, sum(members.iter().map(|member| hash(&[member])))),
    }
}

fn sum(hashes: impl Iterator<Item = u64>) -> u64 {
    hashes.fold(0, u64::wrapping_add)
}

/// What [`hash`] is of one byte string of `len` bytes that is in pieces.
fn hash_pieces<'a>(len: usize, pieces: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&(len as u64).to_le_bytes());
    pieces.for_each(|piece| hasher.write(piece));
    hasher.finish()
}

/// Of byte strings, each with its length before it.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, apply_all};
    use crate::value::Blob;

    fn hash_of(fields: &[(&str, &str)]) -> Option<Value> {
        let blob = |text: &str| Blob::from(text.as_bytes());
        let mut value = None;
        let set: Vec<Change> = fields.iter().map(|(name, value)| Change::SetField(blob(name), blob(value))).collect();
        apply_all(&mut value, &set).expect("it fits");
        value
    }

    #[test]
    fn it_does_not_change_between_releases() {
        let of = |value: Option<Value>| Fingerprint::of(value.as_ref()).0;
        assert_eq!(of(None), 0xd1fb_a762_150c_532c);
        assert_eq!(of(Some(Value::bytes(*b"x"))), 5_351_090_846_977_731_832);
        assert_eq!(of(hash_of(&[("a", "1"), ("b", "2")])), 5_611_286_806_168_168_793);
    }

    #[test]
    fn whatever_differs_is_told_apart_and_the_order_of_fields_is_not() {
        let of = |fields: &[(&str, &str)]| Fingerprint::of(hash_of(fields).as_ref());
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        let all = [
            of(&[("a", "1"), ("b", "2")]),
            of(&[("a", "2"), ("b", "1")]),
            of(&[("a", "12"), ("b", "")]),
            of(&[("a1", "2")]),
            of(&[("a", "12")]),
            of(&[]),
            Fingerprint::of(Some(&Value::bytes(*b""))),
            Fingerprint::of(Some(&Value::bytes(*b"a12"))),
            Fingerprint::of(Some(&Value { expires_at_ms: Some(0), ..Value::bytes(*b"a12") })),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(at), "{all:?}");
        }
    }
}
