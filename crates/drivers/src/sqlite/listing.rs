//! Keys in their order, how many there are, and which of them have expired. In front of tables the rows come first,
//! table by table, and then the documents beside them. A document that no setting names is left out.

use std::sync::Arc;

use forebay::Key;
use forebay::store::{NAMES_BYTES_MAX, ReadError};
use rusqlite::{Connection, Error, Row, params};

use super::database::Database;
use super::mapped::Mapped;
use super::names::bounded;
use super::read_failed::{ReadFailed, unavailable};
use super::rows::catalogue::Looked;
use super::rows::reading;
use super::schema;

fn name<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a [u8], Error> {
    Ok(row.get_ref(at)?.as_blob()?)
}

/// Shows `each` the key of every document of `space`.
fn each_key(connection: &Connection, space: u8, mut each: impl FnMut(Key)) -> Result<(), Error> {
    let mut asked = connection.prepare_cached(schema::SCAN)?;
    let mut rows = asked.query(params![space, None::<&[u8]>])?;
    while let Some(row) = rows.next()? {
        each(Key::new(space, name(row, 0)?));
    }
    Ok(())
}

/// Removes the documents of `space` whose key `is_one`.
pub(super) fn remove(connection: &Connection, space: u8, is_one: impl Fn(&Key) -> bool) -> Result<(), Error> {
    let mut found = Vec::new();
    each_key(connection, space, |key| found.push(key))?;
    let mut remove = connection.prepare_cached(schema::REMOVE)?;
    for key in found.iter().filter(|key| is_one(key)) {
        remove.execute(params![space, key.name()])?;
    }
    Ok(())
}

impl Database {
    pub(super) fn tables(&self, mapped: &Mapped, connection: &Connection) -> Result<Arc<Looked>, ReadFailed> {
        let refused = |why| ReadFailed::Read(ReadError::Refused { key: Key::new(0, b""), why });
        mapped.current(connection)?.map_err(refused)
    }

    /// Keys after one.
    pub(super) fn scan(
        &self,
        connection: &Connection,
        space: u8,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, ReadFailed> {
        let Some(mapped) = &self.mapped else { return self.scan_documents(connection, space, after, limit) };
        let mut found = Vec::new();
        if space == 0 && !after.is_some_and(|key| self.is_document(key)) {
            let looked = self.tables(mapped, connection)?;
            let tables = &looked.tables;
            let place = match after.map(|key| tables.place(key)).transpose() {
                Ok(place) => place,
                Err(why) => return Err(unavailable(why).into()),
            };
            let first = place.as_ref().map_or(0, |place| place.table);
            for (at, table) in tables.tables.iter().enumerate().skip(first) {
                let behind = place.as_ref().filter(|place| place.table == at).map(|place| &place.parts[..]);
                found.extend(reading::scan(connection, table, behind, limit - found.len())?);
                let bytes: usize = found.iter().map(|key| key.name().len()).sum();
                if found.len() >= limit || bytes >= NAMES_BYTES_MAX {
                    return Ok(found);
                }
            }
        }
        if mapped.wanted.named.is_some() {
            let after = after.filter(|key| self.is_document(key));
            found.extend(self.scan_documents(connection, space, after, limit - found.len())?);
            let mut bytes = 0;
            let within = |key: &Key| {
                let before = bytes;
                bytes += key.name().len();
                before < NAMES_BYTES_MAX
            };
            found = found.into_iter().take_while(within).collect();
        }
        Ok(found)
    }

    fn scan_documents(
        &self,
        connection: &Connection,
        space: u8,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, ReadFailed> {
        let mut asked = connection.prepare_cached(schema::SCAN)?;
        let rows = asked.query(params![space, after.map(Key::name)])?;
        bounded(rows, limit, |row| Ok(Some(Key::new(space, name(row, 0)?)).filter(|key| self.is_document(key))))
    }

    /// Documents that have expired by `now_ms`.
    pub(super) fn expired(&self, connection: &Connection, now_ms: u64, limit: usize) -> Result<Vec<Key>, ReadFailed> {
        let mut asked = connection.prepare_cached(schema::EXPIRED)?;
        let rows = asked.query([i64::try_from(now_ms).unwrap_or(i64::MAX)])?;
        bounded(rows, limit, |row| Ok(Some(Key::new(row.get(0)?, name(row, 1)?)).filter(|key| self.is_document(key))))
    }

    /// Number of documents.
    pub(super) fn count(&self, connection: &Connection, space: u8) -> Result<u64, ReadFailed> {
        let Some(mapped) = &self.mapped else {
            let count: i64 = connection.query_row(schema::COUNT, [space], |row| row.get(0))?;
            return Ok(count.unsigned_abs());
        };
        let mut count = 0;
        if space == 0 {
            for table in &self.tables(mapped, connection)?.tables.tables {
                count += reading::count(connection, table)?;
            }
        }
        if mapped.wanted.named.is_some() {
            each_key(connection, space, |key| count += u64::from(self.is_document(&key)))?;
        }
        Ok(count)
    }
}
