//! Keys that an answer may have.

use forebay::Key;
use forebay::store::NAMES_BYTES_MAX;
use rusqlite::{Error, Row};

use super::read_failed::ReadFailed;

/// The keys that `rows` have, up to `limit` of them, and none after their names pass [`NAMES_BYTES_MAX`].
pub(super) fn bounded(
    mut rows: rusqlite::Rows<'_>,
    limit: usize,
    key: impl Fn(&Row<'_>) -> Result<Option<Key>, Error>,
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
