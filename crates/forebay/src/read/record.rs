//! What is kept of one key, in the cache or in a store in memory: the key, its version, and its value or absence.
//!
//! A small byte string, or an absence, is *packed*: header, name and value stand in one allocation. So a value of 256
//! B under a short key takes one size class and no more. Anything else stands *apart*, in the parts that it shares
//! with their other holders. What is handed out are parts of the same allocations: a hit copies pointers.
//!
//! A value that is part of a packed record of just this key and version becomes that record again. So a store in
//! memory and the cache before it hold one allocation between them, whichever had it first.

use std::sync::Arc;

use forebay_cache::{Held, Item, Keyed, Packed};

use super::Read;
use super::short::{lengthen, shorten};
use crate::key::{KEY_BYTES_MAX, Key, KeyRef, SPACES};
use crate::value::{Bytes, Data, Value, allocated_bytes, blob_bytes};
use crate::version::Version;

/// Longest byte string that is packed. A longer one would be copied for a saving that is small beside it.
const PACKED_VALUE_BYTES_MAX: usize = 4096;

/// Header: a word of flags and the name's length, then the version, then, if the flags say so, the expiry.
const WORD_BYTES: usize = size_of::<u32>();
const VERSION_BYTES: usize = 16;
const EXPIRY_BYTES: usize = size_of::<u64>();

/// A version is *short* if it fits into eight bytes (`short.rs`). Any other is *long*, and stands as it is.
const SHORT_BYTES: usize = size_of::<u64>();

/// Flags and the key space in the header's first word, above the name's length.
const ABSENT: u32 = 1 << 31;
const EXPIRES: u32 = 1 << 30;
const SPACE_SHIFT: u32 = 26;
const LONG: u32 = 1 << 25;
const NAME_BYTES: u32 = LONG - 1;

/// The longest header.
const HEADER_BYTES_MAX: usize = WORD_BYTES + VERSION_BYTES + EXPIRY_BYTES;

const _: () = assert!(KEY_BYTES_MAX <= NAME_BYTES as usize);
const _: () = assert!(SPACES as u32 <= EXPIRES >> SPACE_SHIFT);

/// Bytes of a record that are put together on the stack; those of a longer one take a detour over the heap.
const ON_STACK_BYTES: usize = 256;

/// A key's state. Two words, so that what holds it stays small.
pub(crate) struct Record(Held<Apart>);

/// A key's state, as its keeper or a reader of the cache sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(Item<'a, Apart>);

/// A document that is not packed.
pub(crate) struct Apart {
    key: Key,
    read: Read,
}

/// What may be packed of a document: the bytes, empty for an absence, and the expiry.
fn packable(value: Option<&Value>) -> Option<(&[u8], Option<u64>)> {
    match value {
        None => Some((&[], None)),
        Some(Value { data: Data::Bytes(bytes), expires_at_ms }) => Some((packable_bytes(bytes)?, *expires_at_ms)),
        Some(_) => None,
    }
}

/// The bytes of a string that is packed.
fn packable_bytes(bytes: &Bytes) -> Option<&[u8]> {
    let (shared, range) = bytes.whole()?;
    (range.len() <= PACKED_VALUE_BYTES_MAX).then(|| &shared[range])
}

/// Makes a value that will be packed part of the record of `key` at `version`: its holder then keeps that record. One
/// that is part of it already, as what was made with its key is ([`written`]), is left as it is.
pub(crate) fn pack(key: &Key, value: &mut Value, version: Version) {
    let Data::Bytes(bytes) = &mut value.data else { return };
    let made_with_key = bytes.whole().is_some_and(|(shared, _)| key.is_part_of(shared));
    if made_with_key || packed_already(key, version, value.expires_at_ms, bytes).is_some() {
        return;
    }
    if let Some(content) = packable_bytes(bytes) {
        let len = content.len();
        let packed = packed(key.borrow(), version, value.expires_at_ms, Some(content));
        let start = packed.len() - len;
        *bytes = Bytes::part(packed, start, len);
    }
}

/// A key and its value as parts of the record that `bytes` make at `version`; `None`: they are too long for one.
pub(crate) fn written(
    key: KeyRef<'_>,
    bytes: &[u8],
    expires_at_ms: Option<u64>,
    version: Version,
) -> Option<(Key, Value)> {
    if bytes.len() > PACKED_VALUE_BYTES_MAX {
        return None;
    }
    let packed = packed(key, version, expires_at_ms, Some(bytes));
    let start = packed.len() - bytes.len();
    let key = Key::part(key.space, packed.clone(), (start - key.name.len()) as u8, key.name.len());
    Some((key, Value { data: Data::Bytes(Bytes::part(packed, start, bytes.len())), expires_at_ms }))
}

/// Bytes before the name.
fn header_bytes(long: bool, expires: bool) -> usize {
    let version = if long { VERSION_BYTES } else { SHORT_BYTES };
    WORD_BYTES + version + if expires { EXPIRY_BYTES } else { 0 }
}

/// What stands before the name: these bytes, of which so many count.
fn header(
    key: KeyRef<'_>,
    version: Version,
    expires_at_ms: Option<u64>,
    absent: bool,
) -> ([u8; HEADER_BYTES_MAX], usize) {
    let short = shorten(version);
    let flag = |there: bool, flag: u32| if there { flag } else { 0 };
    let flags = flag(expires_at_ms.is_some(), EXPIRES) | flag(absent, ABSENT) | flag(short.is_none(), LONG);
    let word = key.name.len() as u32 | flags | u32::from(key.space) << SPACE_SHIFT;
    let mut header = [0; HEADER_BYTES_MAX];
    header[..WORD_BYTES].copy_from_slice(&word.to_le_bytes());
    let expiry = match short {
        Some(short) => {
            header[WORD_BYTES..WORD_BYTES + SHORT_BYTES].copy_from_slice(&short.to_le_bytes());
            WORD_BYTES + SHORT_BYTES
        }
        None => {
            header[WORD_BYTES..WORD_BYTES + VERSION_BYTES].copy_from_slice(&version.to_bytes());
            WORD_BYTES + VERSION_BYTES
        }
    };
    let Some(at_ms) = expires_at_ms else { return (header, expiry) };
    header[expiry..expiry + EXPIRY_BYTES].copy_from_slice(&at_ms.to_le_bytes());
    (header, expiry + EXPIRY_BYTES)
}

/// The allocation of a packed record; no `bytes`: an absence.
fn packed(key: KeyRef<'_>, version: Version, expires_at_ms: Option<u64>, bytes: Option<&[u8]>) -> Arc<[u8]> {
    let (header, name_start) = header(key, version, expires_at_ms, bytes.is_none());
    let name = key.name;
    let bytes = bytes.unwrap_or_default();
    let (start, len) = (name_start + name.len(), name_start + name.len() + bytes.len());
    let write = |place: &mut [u8]| {
        place[..name_start].copy_from_slice(&header[..name_start]);
        place[name_start..start].copy_from_slice(name);
        place[start..].copy_from_slice(bytes);
    };
    if len <= ON_STACK_BYTES {
        let mut place = [0; ON_STACK_BYTES];
        write(&mut place[..len]);
        return Arc::from(&place[..len]);
    }
    let mut place = vec![0; len];
    write(&mut place);
    Arc::from(place)
}

/// The allocation of the packed record of `key` at `version` of which `bytes` are the value, if that is what they are a
/// part of. Its content alone tells: whatever says just this is this record.
fn packed_already<'a>(
    key: &Key,
    version: Version,
    expires_at_ms: Option<u64>,
    bytes: &'a Bytes,
) -> Option<&'a Arc<[u8]>> {
    let (shared, range) = bytes.whole()?;
    let (header, short) = (Header::of(shared), shorten(version));
    let version_before = shared.get(WORD_BYTES..)?;
    let version_is = match short {
        Some(short) => version_before.first_chunk() == Some(&short.to_le_bytes()),
        None => version_before.first_chunk() == Some(&version.to_bytes()),
    };
    let same = range.end == shared.len()
        && range.start == header.bytes + header.name_bytes
        && (header.absent, header.long, header.space) == (false, short.is_none(), key.space())
        && version_is
        && header.expires_at_ms(shared) == expires_at_ms
        && is_name_of(key, &shared[header.bytes..range.start]);
    same.then_some(shared)
}

/// Whether a key has this name, which may be the very bytes that the key has.
fn is_name_of(key: &Key, name: &[u8]) -> bool {
    std::ptr::eq(key.name(), name) || key.name() == name
}

impl Record {
    /// The record of `key` in the state `read`.
    pub(crate) fn new(key: &Key, read: &Read) -> Record {
        Record::of(key, read.value.as_ref(), read.version)
    }

    /// The record of `key` with this value, or absent, at this version.
    pub(crate) fn of(key: &Key, value: Option<&Value>, version: Version) -> Record {
        Record(match value {
            None => Held::Packed(packed(key.borrow(), version, None, None)),
            Some(Value { data: Data::Bytes(bytes), expires_at_ms }) if let Some(content) = packable_bytes(bytes) => {
                match packed_already(key, version, *expires_at_ms, bytes) {
                    Some(shared) => Held::Packed(shared.clone()),
                    None => Held::Packed(packed(key.borrow(), version, *expires_at_ms, Some(content))),
                }
            }
            Some(value) => {
                let read = Read { value: Some(value.clone().compact()), version };
                Held::Apart(Box::new(Apart { key: key.compact(), read }))
            }
        })
    }

    /// Another state of the same key.
    pub(crate) fn replace(&mut self, key: &Key, value: Option<&Value>, version: Version) {
        match &mut self.0 {
            Held::Apart(apart) if packable(value).is_none() => {
                apart.read = Read { value: value.cloned().map(Value::compact), version };
            }
            held => *held = Record::of(key, value, version).0,
        }
    }

    /// Heap bytes of the record that [`Record::new`] makes of these, as allocated.
    pub(crate) fn heap_bytes(name_bytes: usize, read: &Read) -> usize {
        match packable(read.value.as_ref()) {
            Some((bytes, expires_at_ms)) => {
                let header = header_bytes(shorten(read.version).is_none(), expires_at_ms.is_some());
                blob_bytes(header + name_bytes + bytes.len())
            }
            None => {
                let value = read.value.as_ref().map_or(0, Value::size);
                allocated_bytes(size_of::<Apart>()) + blob_bytes(name_bytes) + value
            }
        }
    }

    /// What its holder sees.
    pub(crate) fn view(&self) -> View<'_> {
        View(self.0.item())
    }
}

impl From<Record> for Held<Apart> {
    fn from(record: Record) -> Held<Apart> {
        record.0
    }
}

impl From<Held<Apart>> for Record {
    fn from(held: Held<Apart>) -> Record {
        Record(held)
    }
}

impl<'a> From<Item<'a, Apart>> for View<'a> {
    #[inline]
    fn from(item: Item<'a, Apart>) -> View<'a> {
        View(item)
    }
}

impl Keyed for Apart {
    fn hash(item: Item<'_, Apart>) -> u64 {
        View(item).key().hash64()
    }
}

impl<'a> View<'a> {
    /// The first byte of its memory, for a caller that wants that in the processor's cache.
    pub(crate) fn first_byte(self) -> Option<u8> {
        match self.0 {
            Item::Packed(packed) => packed.first().copied(),
            Item::Apart(apart) => apart.key.name().first().copied(),
        }
    }

    /// What [`Record::heap_bytes`] said of the key and the read that this is made of.
    pub(crate) fn charged_bytes(self) -> usize {
        match self.0 {
            Item::Packed(packed) => blob_bytes(packed.len()),
            Item::Apart(apart) => Record::heap_bytes(apart.key.name().len(), &apart.read),
        }
    }

    /// The bytes of a document that is packed; none within, if it is absent.
    #[inline]
    pub(crate) fn packed(self) -> Option<Option<&'a [u8]>> {
        let Item::Packed(packed) = self.0 else { return None };
        let (packed, header) = (packed.bytes(), Header::of(packed.bytes()));
        Some((!header.absent).then(|| &packed[header.bytes + header.name_bytes..]))
    }

    /// The document, if it is not packed.
    pub(crate) fn apart(self) -> Option<&'a Value> {
        match self.0 {
            Item::Packed(_) => None,
            Item::Apart(apart) => apart.read.value.as_ref(),
        }
    }

    /// The key, borrowed.
    #[inline]
    pub(crate) fn key(self) -> KeyRef<'a> {
        match self.0 {
            Item::Packed(packed) => {
                let (packed, header) = (packed.bytes(), Header::of(packed.bytes()));
                KeyRef { space: header.space, name: &packed[header.bytes..header.bytes + header.name_bytes] }
            }
            Item::Apart(apart) => apart.key.borrow(),
        }
    }

    /// The key, which shares the record's memory.
    pub(crate) fn to_key(self) -> Key {
        match self.0 {
            Item::Packed(packed) => {
                let header = Header::of(packed.bytes());
                Key::part(header.space, packed.share(), header.bytes as u8, header.name_bytes)
            }
            Item::Apart(apart) => apart.key.clone(),
        }
    }

    /// The version of the document, or of its absence.
    pub(crate) fn version(self) -> Version {
        match self.0 {
            Item::Packed(packed) => Header::of(packed.bytes()).version(packed.bytes()),
            Item::Apart(apart) => apart.read.version,
        }
    }

    /// When the document expires.
    pub(crate) fn expires_at_ms(self) -> Option<u64> {
        match self.0 {
            Item::Packed(packed) => Header::of(packed.bytes()).expires_at_ms(packed.bytes()),
            Item::Apart(apart) => apart.read.value.as_ref().and_then(|value| value.expires_at_ms),
        }
    }

    /// The document, or its absence, with its version.
    #[inline]
    pub(crate) fn read(self) -> Read {
        match self.0 {
            Item::Packed(packed) => {
                let header = Header::of(packed.bytes());
                Read { value: header.value(packed), version: header.version(packed.bytes()) }
            }
            Item::Apart(apart) => apart.read.clone(),
        }
    }
}

/// What the first word of a packed record says.
struct Header {
    /// Bytes before the name.
    bytes: usize,
    name_bytes: usize,
    space: u8,
    absent: bool,
    /// The version is long.
    long: bool,
    expires: bool,
}

impl Header {
    fn of(packed: &[u8]) -> Header {
        let word = packed.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let (long, expires) = (word & LONG != 0, word & EXPIRES != 0);
        Header {
            bytes: header_bytes(long, expires),
            name_bytes: (word & NAME_BYTES) as usize,
            space: (word >> SPACE_SHIFT) as u8 % SPACES,
            absent: word & ABSENT != 0,
            long,
            expires,
        }
    }

    fn version(&self, packed: &[u8]) -> Version {
        let at = &packed[WORD_BYTES..];
        if self.long {
            return at.first_chunk().map_or(Version::ZERO, |bytes| Version::from_bytes(*bytes));
        }
        lengthen(at.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    fn expires_at_ms(&self, packed: &[u8]) -> Option<u64> {
        let at = self.expires.then(|| &packed[self.bytes - EXPIRY_BYTES..self.bytes])?;
        at.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn value(&self, packed: Packed<'_>) -> Option<Value> {
        if self.absent {
            return None;
        }
        let expires_at_ms = self.expires_at_ms(packed.bytes());
        let start = self.bytes + self.name_bytes;
        let bytes = Bytes::part(packed.share(), start, packed.len() - start);
        Some(Value { data: Data::Bytes(bytes), expires_at_ms })
    }
}

#[cfg(test)]
mod tests;
