//! Writing one document inside a write transaction. A small document lies in its row; a large one in separate rows,
//! of which a change writes those that it touches.

use std::ops::Range;

use redb::{ReadableTable, Table, WriteTransaction};

use super::rows::{self, CHUNK_BYTES, Header, Layout, Parts, Shape};
use super::runs::{self, Target};
use super::touched::{Ends, changed_bytes, changed_fields, changed_members};
use crate::change::Change;
use crate::key::{Key, SPACES};
use crate::store::Write;
use crate::value::{Bytes, Data, List, Value};
use crate::version::Version;

/// A hash, list or set beyond this size moves into rows of its own: about one page of the file.
pub(super) const COLLECTION_SPLIT_BYTES: usize = 4 * 1024;
/// One that lies in rows moves back below this size. Far below the other, so that no document wanders to and fro.
pub(super) const COLLECTION_JOIN_BYTES: usize = 1024;
/// A byte string beyond this size moves into chunks.
pub(super) const BYTES_SPLIT_BYTES: usize = CHUNK_BYTES;
/// One that lies in chunks moves back below this size.
pub(super) const BYTES_JOIN_BYTES: usize = CHUNK_BYTES / 2;

pub(super) type RowTable<'txn> = Table<'txn, &'static [u8], &'static [u8]>;

/// The tables of documents, open in one write transaction, and the totals that go with them.
pub(super) struct Documents<'txn> {
    transaction: &'txn WriteTransaction,
    documents: RowTable<'txn>,
    /// Opened when one is needed: most groups write neither, and to open a table costs as much as a row.
    parts: Option<RowTable<'txn>>,
    expiries: Option<RowTable<'txn>>,
    /// Where rows and their keys are put together.
    row_key: Vec<u8>,
    row: Vec<u8>,
    /// The id for the next document that moves into parts.
    pub next_part_id: u64,
    /// Documents per space.
    pub counts: [u64; SPACES as usize],
    /// Bytes of keys and values written so far.
    pub bytes: u64,
}

impl<'txn> Documents<'txn> {
    pub fn open(
        transaction: &'txn WriteTransaction,
        next_part_id: u64,
        counts: [u64; SPACES as usize],
    ) -> Result<Documents<'txn>, redb::Error> {
        Ok(Documents {
            transaction,
            documents: transaction.open_table(rows::DOCUMENTS)?,
            parts: None,
            expiries: None,
            row_key: Vec::new(),
            row: Vec::new(),
            next_part_id,
            counts,
            bytes: 0,
        })
    }

    /// Makes those of the tables that are not there.
    pub fn make_tables(&mut self) -> Result<(), redb::Error> {
        self.parts()?;
        opened(self.transaction, &mut self.expiries, rows::EXPIRIES)?;
        Ok(())
    }

    fn parts(&mut self) -> Result<&mut RowTable<'txn>, redb::Error> {
        opened(self.transaction, &mut self.parts, rows::PARTS)
    }

    /// The header of `key`'s row. The inner error says that the row is damaged.
    pub fn header(&self, key: &Key) -> Result<Result<Option<Header>, String>, redb::Error> {
        let row_key = rows::document_key(key);
        let row = self.documents.get(row_key.as_slice())?;
        let parse = |row: &[u8]| Ok(Header::parse(rows::unseal(&row_key, row)?)?.0);
        Ok(row.map(|row| parse(row.value())).transpose())
    }

    /// Writes what `write` leaves, over the document whose header is `old`.
    pub fn write(&mut self, write: &Write, version: Version, old: Option<Header>) -> Result<(), redb::Error> {
        let row_key = rows::document_key(&write.key);
        match self.row_of(write, version, old, &row_key)? {
            Some(row) => self.documents.insert(row_key.as_slice(), row.as_slice())?,
            None => self.documents.remove(row_key.as_slice())?,
        };
        Ok(())
    }

    /// Writes what the writes of a wide commit leave. The inner error says which row is damaged; then nothing was
    /// written.
    pub fn write_wide<'a>(
        &mut self,
        writes: &'a [Write],
        version: Version,
    ) -> Result<Result<(), (&'a Key, String)>, redb::Error> {
        let targets = match runs::look(&self.documents, writes)? {
            Ok(targets) => targets,
            Err(damaged) => return Ok(Err(damaged)),
        };
        for part in runs::parts(&targets) {
            if let [one] = part {
                self.write(one.write, version, one.old)?;
                continue;
            }
            let mut rows = Vec::with_capacity(part.len());
            for Target { write, old, .. } in part {
                let row_key = rows::document_key(&write.key);
                if let Some(row) = self.row_of(write, version, *old, &row_key)? {
                    rows.push((row_key, row));
                }
            }
            runs::replace(&mut self.documents, part, &rows)?;
        }
        Ok(Ok(()))
    }

    /// The row that `write` leaves over the document whose header is `old`, if it leaves one. All but the row itself is
    /// written.
    fn row_of(
        &mut self,
        write: &Write,
        version: Version,
        old: Option<Header>,
        row_key: &[u8],
    ) -> Result<Option<Vec<u8>>, redb::Error> {
        let key = &write.key;
        let expires_at_ms = write.after.as_ref().and_then(|value| value.expires_at_ms);
        self.account(key, old, write.after.is_some(), expires_at_ms)?;
        let old_parts = old.and_then(parts_of);
        let Some(value) = &write.after else {
            self.remove_parts(key.space(), old_parts)?;
            self.bytes += row_key.len() as u64;
            return Ok(None);
        };
        let mut header = Header { version, expires_at_ms, layout: Layout::Inline };
        let mut row = if lies_in_parts(value, old_parts) {
            let parts = self.write_parts(key.space(), old_parts, &write.changes, value)?;
            header.layout = Layout::Parts(parts);
            header.parts_row(parts)
        } else {
            self.remove_parts(key.space(), old_parts)?;
            let mut row = Vec::new();
            header.put_inline(value, &mut row);
            row
        };
        rows::seal(row_key, &mut row);
        self.bytes += (row_key.len() + row.len()) as u64;
        Ok(Some(row))
    }

    /// Writes a document for which [`fits_a_row`] says yes, without looking first what is there: a second search for
    /// its row costs a tenth of a small commit. The inner error says that the old row is damaged; it stands again then,
    /// and nothing was written.
    pub fn overwrite(&mut self, key: &Key, value: &Value, version: Version) -> Result<Result<(), String>, redb::Error> {
        let Documents { row_key, row, .. } = self;
        row_key.clear();
        row.clear();
        rows::put_document_key(key, row_key);
        let expires_at_ms = value.expires_at_ms;
        Header { version, expires_at_ms, layout: Layout::Inline }.put_inline(value, row);
        rows::seal(row_key, row);
        let parse = |row: &[u8]| {
            let content = rows::unseal(row_key, row);
            content.and_then(|content| Ok(Header::parse(content)?.0)).map_err(|why| (why, row.to_vec()))
        };
        let old = self.documents.insert(row_key.as_slice(), row.as_slice())?.map(|row| parse(row.value())).transpose();
        let old = match old {
            Ok(old) => old,
            Err((why, damaged)) => {
                self.documents.insert(row_key.as_slice(), damaged.as_slice())?;
                return Ok(Err(why));
            }
        };
        self.bytes += (row_key.len() + row.len()) as u64;
        self.account(key, old, true, expires_at_ms)?;
        self.remove_parts(key.space(), old.and_then(parts_of))?;
        Ok(Ok(()))
    }

    /// Moves the expiry of a document and counts it, if it appears or disappears.
    fn account(
        &mut self,
        key: &Key,
        old: Option<Header>,
        stays: bool,
        expires_at_ms: Option<u64>,
    ) -> Result<(), redb::Error> {
        self.move_expiry(key, old.and_then(|header| header.expires_at_ms), expires_at_ms)?;
        let count = &mut self.counts[usize::from(key.space())];
        match (old, stays) {
            (None, true) => *count += 1,
            (Some(_), false) => *count = count.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    fn move_expiry(&mut self, key: &Key, from: Option<u64>, to: Option<u64>) -> Result<(), redb::Error> {
        if from == to {
            return Ok(());
        }
        let expiries = opened(self.transaction, &mut self.expiries, rows::EXPIRIES)?;
        if let Some(at) = from {
            expiries.remove(rows::expiry_key(key.space(), at, key.name()).as_slice())?;
        }
        if let Some(at) = to {
            let row_key = rows::expiry_key(key.space(), at, key.name());
            self.bytes += row_key.len() as u64;
            expiries.insert(row_key.as_slice(), &[][..])?;
        }
        Ok(())
    }

    fn remove_parts(&mut self, space: u8, parts: Option<Parts>) -> Result<(), redb::Error> {
        let Some(parts) = parts else { return Ok(()) };
        let (start, end) = (rows::part_key(space, parts.id, b""), rows::part_key(space, parts.id + 1, b""));
        Ok(self.parts()?.retain_in(start.as_slice()..end.as_slice(), |_, _| false)?)
    }

    fn put_part(&mut self, row_key: &[u8], value: &[u8]) -> Result<(), redb::Error> {
        self.put_part_in_pieces(row_key, std::iter::once(value))
    }

    fn put_part_in_pieces<'a>(
        &mut self,
        row_key: &[u8],
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), redb::Error> {
        let mut row = Vec::with_capacity(pieces.clone().map(<[u8]>::len).sum::<usize>() + rows::SUM_BYTES);
        pieces.for_each(|piece| row.extend_from_slice(piece));
        rows::seal(row_key, &mut row);
        self.bytes += (row_key.len() + row.len()) as u64;
        self.parts()?.insert(row_key, row.as_slice())?;
        Ok(())
    }

    fn drop_part(&mut self, row_key: &[u8]) -> Result<(), redb::Error> {
        self.bytes += row_key.len() as u64;
        self.parts()?.remove(row_key)?;
        Ok(())
    }

    /// Brings the parts to `after`: only what `changes` touch where they say what that is, else everything again.
    fn write_parts(
        &mut self,
        space: u8,
        old: Option<Parts>,
        changes: &[Change],
        after: &Value,
    ) -> Result<Parts, redb::Error> {
        if let Some(parts) = old
            && let Some(shape) = self.change_parts(space, parts, changes, after)?
        {
            return Ok(Parts { id: parts.id, shape });
        }
        self.remove_parts(space, old)?;
        let id = self.next_part_id;
        self.next_part_id += 1;
        let shape = match &after.data {
            Data::Hash(hash) => {
                for (field, value) in hash.iter() {
                    self.put_part(&rows::part_key(space, id, field), value)?;
                }
                Shape::Hash { fields: hash.len() as u64 }
            }
            Data::Set(set) => {
                for member in set.iter() {
                    self.put_part(&rows::part_key(space, id, member), &[])?;
                }
                Shape::Set { members: set.len() as u64 }
            }
            Data::List(list) => {
                for (position, element) in (0i64..).zip(list.iter()) {
                    self.put_part(&rows::position_key(space, id, position), element)?;
                }
                Shape::List { head: 0, tail: list.len() as i64 }
            }
            Data::Bytes(bytes) => {
                self.put_chunks(space, id, bytes, 0..bytes.len())?;
                Shape::Bytes { bytes: bytes.len() as u64 }
            }
        };
        Ok(Parts { id, shape })
    }

    /// Writes the chunks of `bytes` that hold those of `changed`.
    fn put_chunks(&mut self, space: u8, id: u64, bytes: &Bytes, changed: Range<usize>) -> Result<(), redb::Error> {
        for chunk in changed.start / CHUNK_BYTES..changed.end.div_ceil(CHUNK_BYTES) {
            let row_key = rows::part_key(space, id, &(chunk as u64).to_be_bytes());
            let start = chunk * CHUNK_BYTES;
            self.put_part_in_pieces(&row_key, bytes.pieces(start..start + CHUNK_BYTES))?;
        }
        Ok(())
    }

    /// Writes only the rows that `changes` touch; `None`, and nothing written, if they do not say which.
    fn change_parts(
        &mut self,
        space: u8,
        parts: Parts,
        changes: &[Change],
        after: &Value,
    ) -> Result<Option<Shape>, redb::Error> {
        match (parts.shape, &after.data) {
            (Shape::Hash { .. }, Data::Hash(hash)) => {
                let Some(fields) = changed_fields(changes) else { return Ok(None) };
                for field in fields {
                    let row_key = rows::part_key(space, parts.id, field);
                    match hash.get(field) {
                        Some(value) => self.put_part(&row_key, value)?,
                        None => self.drop_part(&row_key)?,
                    }
                }
                Ok(Some(Shape::Hash { fields: hash.len() as u64 }))
            }
            (Shape::Set { .. }, Data::Set(set)) => {
                let Some(members) = changed_members(changes) else { return Ok(None) };
                for member in members {
                    let row_key = rows::part_key(space, parts.id, member);
                    match set.contains(member) {
                        true => self.put_part(&row_key, &[])?,
                        false => self.drop_part(&row_key)?,
                    }
                }
                Ok(Some(Shape::Set { members: set.len() as u64 }))
            }
            (Shape::List { head, tail }, Data::List(list)) => match Ends::follow(head, tail, changes, list) {
                Some(ends) => Ok(Some(self.write_ends(space, parts.id, ends, list)?)),
                None => Ok(None),
            },
            (Shape::Bytes { bytes: old }, Data::Bytes(bytes)) => {
                match changed_bytes(old as usize, changes, bytes.len()) {
                    Some(changed) if changed.is_empty() => Ok(Some(parts.shape)),
                    Some(changed) => {
                        self.put_chunks(space, parts.id, bytes, changed)?;
                        Ok(Some(Shape::Bytes { bytes: bytes.len() as u64 }))
                    }
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn write_ends(&mut self, space: u8, id: u64, ends: Ends, list: &List) -> Result<Shape, redb::Error> {
        let (Range { start: head, end: tail }, kept, before) = (ends.now, ends.kept, ends.before);
        for position in (before.start..head.min(before.end)).chain(tail.max(before.start)..before.end) {
            self.drop_part(&rows::position_key(space, id, position))?;
        }
        for position in (head..kept.start).chain(kept.end..tail) {
            if let Some(element) = list.get((position - head) as usize) {
                self.put_part(&rows::position_key(space, id, position), element)?;
            }
        }
        Ok(Shape::List { head, tail })
    }

    /// Removes all documents of `space`.
    pub fn clear(&mut self, space: u8) -> Result<(), redb::Error> {
        let (start, end) = ([space], [space + 1]);
        let range = || start.as_slice()..end.as_slice();
        self.documents.retain_in(range(), |_, _| false)?;
        self.parts()?.retain_in(range(), |_, _| false)?;
        opened(self.transaction, &mut self.expiries, rows::EXPIRIES)?.retain_in(range(), |_, _| false)?;
        self.counts[usize::from(space)] = 0;
        Ok(())
    }
}

fn opened<'a, 'txn>(
    transaction: &'txn WriteTransaction,
    table: &'a mut Option<RowTable<'txn>>,
    definition: rows::Rows,
) -> Result<&'a mut RowTable<'txn>, redb::Error> {
    let open = match table.take() {
        Some(open) => open,
        None => transaction.open_table(definition)?,
    };
    Ok(table.insert(open))
}

fn parts_of(header: Header) -> Option<Parts> {
    match header.layout {
        Layout::Inline => None,
        Layout::Parts(parts) => Some(parts),
    }
}

/// Whether a document lies in its row, wherever what it replaces lies.
pub(super) fn fits_a_row(value: &Value) -> bool {
    match &value.data {
        Data::Bytes(bytes) => bytes.len() <= BYTES_JOIN_BYTES,
        _ => value.size() <= COLLECTION_JOIN_BYTES,
    }
}

fn lies_in_parts(value: &Value, old: Option<Parts>) -> bool {
    let was = old.is_some_and(|parts| parts.shape.kind() == value.kind());
    match &value.data {
        Data::Bytes(bytes) => bytes.len() > if was { BYTES_JOIN_BYTES } else { BYTES_SPLIT_BYTES },
        _ => value.size() > if was { COLLECTION_JOIN_BYTES } else { COLLECTION_SPLIT_BYTES },
    }
}
