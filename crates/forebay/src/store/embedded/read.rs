//! Reading documents from a snapshot of the file.

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase};

use super::given;
use super::rows::{self, Header, Layout, PART_PREFIX_BYTES, Parts, Shape, Totals};
use crate::key::{Key, SPACES};
use crate::store::{GivenId, NAMES_BYTES_MAX};
use crate::value::{Blob, Bytes, Data, Hash, List, Set, Value};
use crate::version::Version;

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Why a read failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// What this row holds can't be understood.
    Damaged(Key, String),
    /// The file can't be read.
    Storage(redb::Error),
    /// A document is longer than [`Snapshot::longest`].
    Long,
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Storage(error.into())
    }
}

/// The state of the file after one group.
pub(super) struct Snapshot {
    transaction: ReadTransaction,
    documents: Rows,
    parts: Option<Rows>,
    /// Bytes of the rows of a document behind which no more of it is read.
    pub longest: usize,
}

impl Snapshot {
    pub fn new(database: &Database) -> Result<Snapshot, Failure> {
        let transaction = database.begin_read()?;
        let documents = transaction.open_table(rows::DOCUMENTS)?;
        Ok(Snapshot { transaction, documents, parts: None, longest: usize::MAX })
    }

    /// Number of the newest group in it.
    pub fn group(&self) -> Result<u64, Failure> {
        let log = self.transaction.open_table(rows::LOG)?;
        let row = log.get(rows::TOTALS)?;
        match row.map(|row| Totals::parse(row.value())) {
            Some(Ok(totals)) => Ok(totals.group),
            Some(Err(why)) => Err(corrupted(&why)),
            None => Err(corrupted("the totals are missing")),
        }
    }

    /// The ids that clients gave, with the versions under which they were committed.
    pub fn given(&self) -> Result<Vec<(GivenId, Version)>, Failure> {
        given::all(&self.transaction)?.map_err(|why| corrupted(&why))
    }

    /// One document and its version.
    pub fn document(&mut self, key: &Key) -> Result<Option<(Value, Version)>, Failure> {
        let damaged = |why| Failure::Damaged(key.clone(), why);
        let row_key = rows::document_key(key);
        let row = match self.documents.get(row_key.as_slice()) {
            Ok(row) => row,
            Err(redb::StorageError::Corrupted(why)) => return Err(damaged(why)),
            Err(error) => return Err(error.into()),
        };
        let Some(row) = row else { return Ok(None) };
        let content = rows::unseal(&row_key, row.value()).map_err(damaged)?;
        let (header, rest) = Header::parse(content).map_err(damaged)?;
        let value = match header.layout {
            Layout::Inline => rows::inline_value(&header, rest).map_err(damaged)?,
            Layout::Parts(parts) => {
                let data = match self.assemble(key.space(), parts) {
                    Err(Failure::Storage(redb::Error::Corrupted(why))) => return Err(damaged(why)),
                    assembled => assembled?.map_err(damaged)?,
                };
                Value { data, expires_at_ms: header.expires_at_ms }
            }
        };
        Ok(Some((value, header.version)))
    }

    /// Puts a document together from its rows. The inner error says what is wrong with them.
    fn assemble(&mut self, space: u8, parts: Parts) -> Result<Result<Data, String>, Failure> {
        if self.parts.is_none() {
            self.parts = Some(self.transaction.open_table(rows::PARTS)?);
        }
        let Some(table) = &self.parts else { return Ok(Err("its table is missing".to_owned())) };
        let Some(next_id) = parts.id.checked_add(1) else { return Ok(Err("its part id is out of range".to_owned())) };
        let (start, end) = (rows::part_key(space, parts.id, b""), rows::part_key(space, next_id, b""));
        let (mut assembly, mut bytes) = (Assembly::new(parts.shape), 0);
        for row in table.range(start.as_slice()..end.as_slice())? {
            let (row_key, value) = row?;
            bytes += row_key.value().len() + value.value().len();
            if bytes > self.longest {
                return Err(Failure::Long);
            }
            let part = row_key.value().get(PART_PREFIX_BYTES..).unwrap_or_default();
            let added = rows::unseal(row_key.value(), value.value()).and_then(|value| assembly.add(part, value));
            if let Err(why) = added {
                return Ok(Err(why));
            }
        }
        Ok(assembly.finish(parts.shape))
    }

    /// At most `limit` keys of `space` after `after`.
    pub fn scan(&self, space: u8, after: Option<&Key>, limit: usize) -> Result<Vec<Key>, Failure> {
        let first = match after {
            // The least byte string greater than the key's.
            Some(key) if key.space() == space => [rows::document_key(key).as_slice(), &[0]].concat(),
            _ => vec![space],
        };
        let (mut keys, mut bytes) = (Vec::new(), 0);
        if space >= SPACES {
            return Ok(keys);
        }
        for row in self.documents.range(first.as_slice()..[space + 1].as_slice())?.take(limit) {
            let key = rows::parse_document_key(row?.0.value()).map_err(|why| corrupted(&why))?;
            bytes += key.name().len();
            keys.push(key);
            if bytes >= NAMES_BYTES_MAX {
                break;
            }
        }
        Ok(keys)
    }

    /// At most `limit` keys of `space` that expire at or before `now_ms`, earliest first, with their time.
    pub fn expired(&self, space: u8, now_ms: u64, limit: usize) -> Result<Vec<(u64, Key)>, Failure> {
        let expiries = self.transaction.open_table(rows::EXPIRIES)?;
        let end = match now_ms.checked_add(1) {
            Some(end) => rows::expiry_key(space, end, b""),
            None => vec![space + 1],
        };
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for row in expiries.range([space].as_slice()..end.as_slice())?.take(limit) {
            let row = row?;
            let parsed = rows::parse_expiry_key(row.0.value());
            let (at, key) = parsed.ok_or_else(|| corrupted("a row of the table 'expiries' has no valid key"))?;
            bytes += key.name().len();
            keys.push((at, key));
            if bytes >= NAMES_BYTES_MAX {
                break;
            }
        }
        Ok(keys)
    }
}

fn corrupted(why: &str) -> Failure {
    Failure::Storage(redb::Error::Corrupted(why.to_owned()))
}

/// A document that is being put together.
struct Assembly {
    data: Building,
    position: i64,
}

enum Building {
    Hash(Hash),
    Set(Set),
    List(List),
    Bytes(Bytes),
}

impl Assembly {
    fn new(shape: Shape) -> Assembly {
        let (data, position) = match shape {
            Shape::Hash { .. } => (Building::Hash(Hash::default()), 0),
            Shape::Set { .. } => (Building::Set(Set::default()), 0),
            Shape::List { head, .. } => (Building::List(List::default()), head),
            Shape::Bytes { .. } => (Building::Bytes(Bytes::default()), 0),
        };
        Assembly { data, position }
    }

    fn add(&mut self, part: &[u8], value: &[u8]) -> Result<(), String> {
        let expected = self.position as u64;
        let here = |sign: u64| <[u8; 8]>::try_from(part).is_ok_and(|at| u64::from_be_bytes(at) ^ sign == expected);
        match &mut self.data {
            Building::Hash(hash) => {
                hash.insert(Blob::from(part), Blob::from(value));
            }
            Building::Set(set) => {
                set.insert(Blob::from(part));
            }
            Building::List(list) if here(1 << 63) => list.push_right(Blob::from(value)),
            Building::Bytes(bytes) if here(0) => bytes.write_at(bytes.len(), value),
            Building::List(_) | Building::Bytes(_) => return Err(format!("its part {} is missing", self.position)),
        }
        self.position = self.position.wrapping_add(1);
        Ok(())
    }

    fn finish(self, shape: Shape) -> Result<Data, String> {
        let (data, found, expected) = match (self.data, shape) {
            (Building::Hash(hash), Shape::Hash { fields }) => {
                let found = hash.len() as u64;
                (Data::Hash(hash), found, fields)
            }
            (Building::Set(set), Shape::Set { members }) => {
                let found = set.len() as u64;
                (Data::Set(set), found, members)
            }
            (Building::List(list), Shape::List { head, tail }) => {
                let found = list.len() as u64;
                (Data::List(list), found, tail.wrapping_sub(head) as u64)
            }
            (Building::Bytes(found), Shape::Bytes { bytes }) => {
                let length = found.len() as u64;
                (Data::Bytes(found), length, bytes)
            }
            _ => return Err("its parts are of another type".to_owned()),
        };
        if found == expected { Ok(data) } else { Err(format!("it has {found} parts or bytes instead of {expected}")) }
    }
}
