//! What an entry holds: key, version, and value or absence.
//!
//! A small byte string, or an absence, is *packed*: header, name and value stand in one allocation, so that a value of
//! 256 B under a short key takes one size class and no more. Anything else stands *apart*, in the parts that it shares
//! with whoever else holds them. What is handed out are parts of the same allocations: a hit copies pointers.

use std::sync::Arc;

use super::slot::prefetch;
use crate::key::{Key, KeyRef};
use crate::read::Read;
use crate::value::{Bytes, Data, Value, allocated_bytes, blob_bytes};
use crate::version::Version;

/// Longest byte string that is packed. A longer one would be copied for a saving that is small beside it.
const PACKED_VALUE_BYTES_MAX: usize = 4096;

/// Header: a word of flags and the name's length, then the version, then, if the flags say so, the expiry.
const HEADER_BYTES: usize = size_of::<u32>() + 16;
const EXPIRY_BYTES: usize = size_of::<u64>();

/// Flags in the header's first word, above the name's length.
const ABSENT: u32 = 1 << 31;
const EXPIRES: u32 = 1 << 30;
const NAME_BYTES: u32 = EXPIRES - 1;

/// A key's cached state. Two words, so that an entry stays small.
pub(super) enum Record {
    Packed(Arc<[u8]>),
    Apart(Box<Apart>),
}

/// A document that is not packed.
pub(super) struct Apart {
    key: Key,
    read: Read,
}

/// What may be packed of a read: the bytes, empty for an absence, and the expiry.
fn packable(read: &Read) -> Option<(&[u8], Option<u64>)> {
    match &read.value {
        None => Some((&[], None)),
        Some(Value { data: Data::Bytes(bytes), expires_at_ms }) if bytes.len() <= PACKED_VALUE_BYTES_MAX => {
            Some((bytes, *expires_at_ms))
        }
        Some(_) => None,
    }
}

impl Record {
    /// `scratch` is for what stands in it before it is one allocation; nothing in it is kept.
    pub(super) fn new(key: &Key, read: &Read, scratch: &mut Vec<u8>) -> Record {
        let Some((bytes, expires_at_ms)) = packable(read) else {
            return Record::Apart(Box::new(Apart {
                key: key.compact(),
                read: Read { value: read.value.clone().map(Value::compact), version: read.version },
            }));
        };
        let absent = if read.value.is_none() { ABSENT } else { 0 };
        let expires = if expires_at_ms.is_some() { EXPIRES } else { 0 };
        let packed = scratch;
        packed.clear();
        packed.extend_from_slice(&(key.name().len() as u32 | absent | expires).to_le_bytes());
        packed.extend_from_slice(&read.version.to_bytes());
        if let Some(at_ms) = expires_at_ms {
            packed.extend_from_slice(&at_ms.to_le_bytes());
        }
        packed.extend_from_slice(key.name());
        packed.extend_from_slice(bytes);
        Record::Packed(Arc::from(packed.as_slice()))
    }

    /// Heap bytes of the record that [`Record::new`] makes of these, as allocated.
    pub(super) fn heap_bytes(key: &Key, read: &Read) -> usize {
        match packable(read) {
            Some((bytes, expires_at_ms)) => {
                let expiry = if expires_at_ms.is_some() { EXPIRY_BYTES } else { 0 };
                blob_bytes(HEADER_BYTES + expiry + key.name().len() + bytes.len())
            }
            None => {
                let value = read.value.as_ref().map_or(0, Value::size);
                allocated_bytes(size_of::<Apart>()) + key.heap_bytes() + value
            }
        }
    }

    /// Asks for the memory that a hit touches first: a header, a short name and a short value.
    #[inline]
    pub(super) fn prefetch(&self) {
        match self {
            Record::Packed(packed) => prefetch::<3, [u8]>(packed),
            Record::Apart(apart) => prefetch::<1, Apart>(apart),
        }
    }

    /// What [`Record::heap_bytes`] said of the key and the read that this is made of.
    pub(super) fn charged_bytes(&self) -> usize {
        match self {
            Record::Packed(packed) => blob_bytes(packed.len()),
            Record::Apart(apart) => Record::heap_bytes(&apart.key, &apart.read),
        }
    }

    /// The name of the key within its space.
    pub(super) fn name(&self) -> &[u8] {
        match self {
            Record::Packed(packed) => {
                let header = Header::of(packed);
                &packed[header.bytes..header.bytes + header.name_bytes]
            }
            Record::Apart(apart) => apart.key.name(),
        }
    }

    /// The key, which is in `space`.
    pub(super) fn key(&self, space: u8) -> Key {
        match self {
            Record::Packed(packed) => {
                let header = Header::of(packed);
                Key::part(space, packed.clone(), header.bytes as u8, header.name_bytes)
            }
            Record::Apart(apart) => apart.key.clone(),
        }
    }

    /// Whether this is the record of `key`, whose space was compared before.
    pub(super) fn is_named(&self, key: KeyRef<'_>) -> bool {
        self.name() == key.name
    }

    pub(super) fn version(&self) -> Version {
        match self {
            Record::Packed(packed) => Header::version(packed),
            Record::Apart(apart) => apart.read.version,
        }
    }

    pub(super) fn read(&self) -> Read {
        match self {
            Record::Packed(packed) => {
                Read { value: Header::of(packed).value(packed), version: Header::version(packed) }
            }
            Record::Apart(apart) => apart.read.clone(),
        }
    }
}

/// What the first word of a packed record says.
struct Header {
    /// Bytes before the name.
    bytes: usize,
    name_bytes: usize,
    absent: bool,
}

impl Header {
    fn of(packed: &[u8]) -> Header {
        let word = packed.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        Header {
            bytes: if word & EXPIRES == 0 { HEADER_BYTES } else { HEADER_BYTES + EXPIRY_BYTES },
            name_bytes: (word & NAME_BYTES) as usize,
            absent: word & ABSENT != 0,
        }
    }

    fn version(packed: &[u8]) -> Version {
        packed[size_of::<u32>()..].first_chunk().map_or(Version::ZERO, |bytes| Version::from_bytes(*bytes))
    }

    fn value(&self, packed: &Arc<[u8]>) -> Option<Value> {
        if self.absent {
            return None;
        }
        let expires_at_ms = match self.bytes {
            HEADER_BYTES => None,
            _ => packed[HEADER_BYTES..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
        };
        let start = self.bytes + self.name_bytes;
        let bytes = Bytes::part(packed.clone(), start, packed.len() - start);
        Some(Value { data: Data::Bytes(bytes), expires_at_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Hash;
    use proptest::prelude::*;

    #[test]
    fn a_record_is_two_words() {
        assert_eq!(size_of::<Record>(), 16);
    }

    fn values() -> impl Strategy<Value = Option<Value>> {
        let lengths = prop_oneof![4 => 0..600usize, 1 => PACKED_VALUE_BYTES_MAX - 1..PACKED_VALUE_BYTES_MAX + 2];
        let bytes = lengths.prop_map(|len| Data::Bytes(vec![7u8; len].into()));
        let hash = Just(Data::Hash(Hash::from_iter([((*b"f").into(), (*b"v").into())])));
        let expiry = prop::option::of(any::<u64>());
        prop::option::of(
            (prop_oneof![9 => bytes, 1 => hash], expiry)
                .prop_map(|(data, expires_at_ms)| Value { data, expires_at_ms }),
        )
    }

    proptest! {
        /// Whatever goes in comes out, and the heap bytes are those that are charged.
        #[test]
        fn keeps_what_it_is_given(
            space in 0u8..16,
            name in prop::collection::vec(any::<u8>(), 0..80),
            value in values(),
            (incarnation, sequence) in any::<(u64, u64)>(),
        ) {
            let key = Key::new(space, &name);
            let read = Read { value, version: Version { incarnation, sequence } };
            let scratch = &mut Vec::new();
            let record = Record::new(&key, &read, scratch);
            prop_assert_eq!((record.read(), record.version()), (read.clone(), read.version));
            prop_assert_eq!((record.key(space), record.name()), (key.clone(), &name[..]));
            prop_assert!(record.is_named(key.borrow()));
            prop_assert_eq!(Record::heap_bytes(&key, &read), record.charged_bytes());
            // What was handed out goes in again as well.
            let again = Record::new(&record.key(space), &record.read(), scratch);
            prop_assert_eq!((again.read(), again.key(space)), (read, key));
        }
    }
}
