//! What lies in the file: tables, keys and the headers of documents. All numbers are big-endian.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | `format`, `incarnation`, `sum` | number |
//! | `documents` | space, name | tag, version (16), expiry (8, all ones: none), then the document or its [`Parts`] |
//! | `parts` | space, part id (8), then field, member, position (8) or chunk (8) | value, nothing, element or bytes |
//! | `expiries` | space, expiry (8), name | nothing |
//! | `given` | version (16), id from a client (16) | name of its user |
//! | `log` | group number, or all ones | the group's transaction ids (16 each), or the [`Totals`] |
//!
//! Each row of `documents`, `parts`, `given` and `log` ends in a sum over its key and itself ([`seal`]). The sums of
//! its pages redb looks at only when it opens a file that was not closed properly. Without ours, a bit that has
//! turned over in a value would be read as if it had been written. `meta` has one sum for all of it ([`Meta`]).

use redb::{ReadableTable, TableDefinition};

use crate::key::{Key, SPACES};
use crate::value::codec::{decode_value, encode_value};
use crate::value::{Kind, Value};
use crate::version::{TxnId, Version};

pub(super) type Rows = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(super) const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
pub(super) const DOCUMENTS: Rows = TableDefinition::new("documents");
pub(super) const PARTS: Rows = TableDefinition::new("parts");
pub(super) const EXPIRIES: Rows = TableDefinition::new("expiries");
pub(super) const GIVEN: Rows = TableDefinition::new("given");
pub(super) const LOG: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("log");

/// Where the totals stand in `log`: behind the newest group, so that a small commit writes one leaf for both.
pub(super) const TOTALS: u64 = u64::MAX;

const NO_EXPIRY: u64 = u64::MAX;
const HEADER_BYTES: usize = 1 + 16 + 8;
pub(super) const SUM_BYTES: usize = 4;

/// Ends `row` with the CRC-32 of its key and itself.
pub(super) fn seal(row_key: &[u8], row: &mut Vec<u8>) {
    let sum = sum(row_key, row);
    row.extend_from_slice(&sum);
}

/// The row without its sum, if that is right.
pub(super) fn unseal<'a>(row_key: &[u8], row: &'a [u8]) -> Result<&'a [u8], String> {
    match row.split_last_chunk() {
        Some((content, found)) if *found == sum(row_key, content) => Ok(content),
        Some(_) => Err("a row does not agree with its checksum".to_owned()),
        None => Err("its row is cut short".to_owned()),
    }
}

fn sum(row_key: &[u8], content: &[u8]) -> [u8; SUM_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(row_key);
    hasher.update(content);
    hasher.finalize().to_be_bytes()
}

/// What the table `meta` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub format: Option<u64>,
    pub incarnation: Option<u64>,
    /// Of the two others; files that were made before it was written have none.
    sum: Option<u64>,
}

impl Meta {
    /// Of a file that this code writes.
    pub fn new(format: u64, incarnation: Option<u64>) -> Meta {
        Meta { format: Some(format), incarnation, sum: None }
    }

    /// Format and incarnation as they stand; to be trusted once [`Meta::check`] agrees.
    pub fn read(table: &impl ReadableTable<&'static str, u64>) -> Result<Result<Meta, String>, redb::Error> {
        let mut meta = Meta::default();
        for row in table.iter()? {
            let (name, value) = row?;
            let place = match name.value() {
                "format" => &mut meta.format,
                "incarnation" => &mut meta.incarnation,
                "sum" => &mut meta.sum,
                other => return Ok(Err(format!("the table 'meta' has a row {other:?}"))),
            };
            *place = Some(value.value());
        }
        Ok(Ok(meta))
    }

    /// Whether it agrees with its checksum.
    pub fn check(&self) -> Result<(), String> {
        match self.sum {
            Some(sum) if sum != self.expected() => Err("the table 'meta' does not agree with its checksum".to_owned()),
            _ => Ok(()),
        }
    }

    fn expected(&self) -> u64 {
        let mut content = self.format.unwrap_or(0).to_be_bytes().to_vec();
        content.extend(self.incarnation.iter().flat_map(|incarnation| incarnation.to_be_bytes()));
        u32::from_be_bytes(sum(b"meta", &content)).into()
    }

    /// Writes it, with its checksum.
    pub fn write(self, table: &mut redb::Table<'_, &'static str, u64>) -> Result<(), redb::Error> {
        let rows = [("format", self.format), ("incarnation", self.incarnation), ("sum", Some(self.expected()))];
        for (name, value) in rows.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            table.insert(name, value)?;
        }
        Ok(())
    }
}

/// How a document lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// In its row of `documents`.
    Inline,
    /// In rows of `parts`.
    Parts(Parts),
}

/// A document that lies in rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The rows' common prefix, together with the space.
    pub id: u64,
    pub shape: Shape,
}

/// What the rows are, and how many there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A row per field.
    Hash { fields: u64 },
    /// A row per member.
    Set { members: u64 },
    /// A row per element, at the positions `head..tail`.
    List { head: i64, tail: i64 },
    /// A row per chunk of [`CHUNK_BYTES`].
    Bytes { bytes: u64 },
}

/// Bytes of a large byte string that lie in one row.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// The fixed part of a document's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub version: Version,
    pub expires_at_ms: Option<u64>,
    pub layout: Layout,
}

/// Takes big-endian numbers off the front of a row.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (front, rest) = self.0.split_first_chunk::<N>().ok_or("its row is cut short")?;
        self.0 = rest;
        Ok(*front)
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_be_bytes(self.take()?))
    }
}

impl Shape {
    /// The type of document that the rows make up.
    pub fn kind(self) -> Kind {
        match self {
            Shape::Hash { .. } => Kind::Hash,
            Shape::Set { .. } => Kind::Set,
            Shape::List { .. } => Kind::List,
            Shape::Bytes { .. } => Kind::Bytes,
        }
    }

    fn tag_and_numbers(self) -> (u8, u64, u64) {
        match self {
            Shape::Hash { fields } => (2, fields, 0),
            Shape::Set { members } => (3, members, 0),
            Shape::List { head, tail } => (4, head as u64, tail as u64),
            Shape::Bytes { bytes } => (5, bytes, 0),
        }
    }
}

impl Header {
    /// Reads the header at the front of a row; also gives what stands behind it.
    pub fn parse(row: &[u8]) -> Result<(Header, &[u8]), String> {
        let mut reader = Reader(row);
        let [tag] = reader.take()?;
        let version = Version::from_bytes(reader.take()?);
        let expires_at_ms = Some(reader.u64()?).filter(|&at| at != NO_EXPIRY);
        let layout = if tag == 1 {
            Layout::Inline
        } else {
            let (id, first, second) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let shape = match tag {
                2 => Shape::Hash { fields: first },
                3 => Shape::Set { members: first },
                4 => Shape::List { head: first as i64, tail: second as i64 },
                5 => Shape::Bytes { bytes: first },
                _ => return Err(format!("its row has the unknown tag {tag}")),
            };
            if !reader.0.is_empty() {
                return Err("its row is too long".to_owned());
            }
            Layout::Parts(Parts { id, shape })
        };
        Ok((Header { version, expires_at_ms, layout }, reader.0))
    }

    fn put(&self, tag: u8, row: &mut Vec<u8>) {
        row.push(tag);
        row.extend_from_slice(&self.version.to_bytes());
        row.extend_from_slice(&self.expires_at_ms.unwrap_or(NO_EXPIRY).to_be_bytes());
    }

    /// The row of a document that lies in parts.
    pub fn parts_row(&self, parts: Parts) -> Vec<u8> {
        let (tag, first, second) = parts.shape.tag_and_numbers();
        let mut row = Vec::with_capacity(HEADER_BYTES + 24 + SUM_BYTES);
        self.put(tag, &mut row);
        for number in [parts.id, first, second] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        row
    }

    /// Puts the row of a document that lies in it behind what `row` holds.
    pub fn put_inline(&self, value: &Value, row: &mut Vec<u8>) {
        self.put(1, row);
        encode_value(value, row);
    }
}

/// The document in what [`Header::parse`] left of an inline row.
pub(super) fn inline_value(header: &Header, rest: &[u8]) -> Result<Value, String> {
    let mut value = decode_value(rest).map_err(|error| error.to_string())?;
    value.expires_at_ms = header.expires_at_ms;
    Ok(value)
}

/// The key of a document's row.
pub(super) fn document_key(key: &Key) -> Vec<u8> {
    let mut row_key = Vec::with_capacity(1 + key.name().len());
    put_document_key(key, &mut row_key);
    row_key
}

/// Puts the key of a document's row behind what `row_key` holds.
pub(super) fn put_document_key(key: &Key, row_key: &mut Vec<u8>) {
    row_key.push(key.space());
    row_key.extend_from_slice(key.name());
}

/// The document that a row's key names.
pub(super) fn parse_document_key(row_key: &[u8]) -> Result<Key, String> {
    match row_key.split_first() {
        Some((&space, name)) if space < SPACES => Ok(Key::new(space, name)),
        _ => Err("a row of the table 'documents' has no valid key".to_owned()),
    }
}

/// The key of one part's row.
pub(super) fn part_key(space: u8, id: u64, part: &[u8]) -> Vec<u8> {
    [&[space], &id.to_be_bytes()[..], part].concat()
}

/// Bytes in front of the part in [`part_key`].
pub(super) const PART_PREFIX_BYTES: usize = 9;

/// The key of a list's element: positions may be negative and still sort.
pub(super) fn position_key(space: u8, id: u64, position: i64) -> Vec<u8> {
    part_key(space, id, &((position as u64) ^ (1 << 63)).to_be_bytes())
}

/// The key of a row of `expiries`.
pub(super) fn expiry_key(space: u8, at_ms: u64, name: &[u8]) -> Vec<u8> {
    [&[space], &at_ms.to_be_bytes()[..], name].concat()
}

/// When, and which document: the inverse of [`expiry_key`].
pub(super) fn parse_expiry_key(row_key: &[u8]) -> Option<(u64, Key)> {
    let (&space, rest) = row_key.split_first()?;
    let (at, name) = rest.split_first_chunk::<8>()?;
    (space < SPACES).then(|| (u64::from_be_bytes(*at), Key::new(space, name)))
}

/// What holds for the file as a whole after its newest group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    /// Number of the newest group.
    pub group: u64,
    /// An id at or below it that is not in `log` is not known any more.
    pub floor: TxnId,
    /// Documents per space.
    pub counts: [u64; SPACES as usize],
}

impl Totals {
    pub fn to_row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(24 + 8 * self.counts.len() + SUM_BYTES);
        row.extend_from_slice(&self.group.to_be_bytes());
        row.extend_from_slice(&self.floor.0.to_bytes());
        row.extend(self.counts.iter().flat_map(|count| count.to_be_bytes()));
        seal(&TOTALS.to_be_bytes(), &mut row);
        row
    }

    pub fn parse(row: &[u8]) -> Result<Totals, String> {
        let mut reader = Reader(unseal(&TOTALS.to_be_bytes(), row)?);
        let group = reader.u64()?;
        let floor = TxnId(Version::from_bytes(reader.take()?));
        let mut counts = [0; SPACES as usize];
        for count in &mut counts {
            *count = reader.u64()?;
        }
        Ok(Totals { group, floor, counts })
    }
}

/// The row of a group in `log`.
pub(super) fn ids_row(group: u64, ids: &[TxnId]) -> Vec<u8> {
    let mut row = Vec::with_capacity(16 * ids.len() + SUM_BYTES);
    ids.iter().for_each(|id| row.extend_from_slice(&id.0.to_bytes()));
    seal(&group.to_be_bytes(), &mut row);
    row
}

/// The inverse of [`ids_row`].
pub(super) fn parse_ids(group: u64, row: &[u8]) -> Result<Vec<TxnId>, String> {
    let (ids, rest) = unseal(&group.to_be_bytes(), row)?.as_chunks::<16>();
    if !rest.is_empty() {
        return Err("a row of the table 'log' is cut short".to_owned());
    }
    Ok(ids.iter().map(|id| TxnId(Version::from_bytes(*id))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(incarnation: u64, sequence: u64) -> Version {
        Version { incarnation, sequence }
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            numbers in any::<[u64; 5]>(),
            expires_at_ms in prop::option::of(0..u64::MAX),
            shape in 0..4,
        ) {
            let [incarnation, sequence, id, first, second] = numbers;
            let shape = match shape {
                0 => Shape::Hash { fields: first },
                1 => Shape::Set { members: first },
                2 => Shape::List { head: first as i64, tail: second as i64 },
                _ => Shape::Bytes { bytes: first },
            };
            let parts = Parts { id, shape };
            let header =
                Header { version: version(incarnation, sequence), expires_at_ms, layout: Layout::Parts(parts) };
            let row = header.parts_row(parts);
            prop_assert_eq!(Header::parse(&row), Ok((header, &[][..])));
            for cut in 0..row.len() {
                prop_assert!(Header::parse(&row[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(row in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((header, rest)) = Header::parse(&row) {
                let _ = inline_value(&header, rest);
            }
            let _ = (Totals::parse(&row), parse_ids(1, &row), parse_expiry_key(&row), parse_document_key(&row));
        }

        #[test]
        fn positions_sort_as_numbers(left in any::<i64>(), right in any::<i64>()) {
            prop_assert_eq!(left.cmp(&right), position_key(0, 0, left).cmp(&position_key(0, 0, right)));
        }
    }

    #[test]
    fn totals_and_ids_round_trip() {
        let totals = Totals { group: 9, floor: TxnId(version(1, 2)), counts: std::array::from_fn(|at| at as u64) };
        assert_eq!(Totals::parse(&totals.to_row()), Ok(totals.clone()));
        assert!(Totals::parse(&totals.to_row()[1..]).is_err());
        let ids = vec![TxnId(version(3, 4)), TxnId(version(3, 5))];
        assert_eq!(parse_ids(8, &ids_row(8, &ids)), Ok(ids.clone()));
        assert!(parse_ids(8, &ids_row(8, &ids)[1..]).is_err());
        assert!(parse_ids(9, &ids_row(8, &ids)).is_err(), "a row under another key");
    }
}
