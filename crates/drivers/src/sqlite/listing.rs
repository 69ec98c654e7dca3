//! Keys in their order, how many there are, and which of them have expired.

use forebay::Key;
use forebay::store::NAMES_BYTES_MAX;
use rusqlite::{Connection, Row, params};

use super::schema;
use super::transaction::ReadFailed;

/// The keys that `rows` have, up to `limit` of them, and none after their names pass [`NAMES_BYTES_MAX`].
pub(super) fn bounded(
    mut rows: rusqlite::Rows<'_>,
    limit: usize,
    key: impl Fn(&Row<'_>) -> Result<Option<Key>, rusqlite::Error>,
) -> Result<Vec<Key>, ReadFailed> {
    let (mut keys, mut bytes) = (Vec::new(), 0);
    while keys.len() < limit && bytes < NAMES_BYTES_MAX {
        let Some(row) = rows.next()? else { break };
        if let Some(key) = key(row)? {
            bytes += key.name().len();
            keys.push(key);
        }
    }
    Ok(keys)
}

fn name<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a [u8], rusqlite::Error> {
    Ok(row.get_ref(at)?.as_blob()?)
}

/// Names of documents after one.
pub(super) fn scan(
    connection: &Connection,
    space: u8,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Key>, ReadFailed> {
    let mut asked = connection.prepare_cached(schema::SCAN)?;
    let rows = asked.query(params![space, after.map(Key::name)])?;
    bounded(rows, limit, |row| Ok(Some(Key::new(space, name(row, 0)?))))
}

/// Those that have expired by `now_ms`.
pub(super) fn expired(connection: &Connection, now_ms: u64, limit: usize) -> Result<Vec<Key>, ReadFailed> {
    let mut asked = connection.prepare_cached(schema::EXPIRED)?;
    let rows = asked.query([i64::try_from(now_ms).unwrap_or(i64::MAX)])?;
    bounded(rows, limit, |row| Ok(Some(Key::new(row.get(0)?, name(row, 1)?))))
}

/// Number of documents.
pub(super) fn count(connection: &Connection, space: u8) -> Result<u64, ReadFailed> {
    let count: i64 = connection.query_row(schema::COUNT, [space], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
