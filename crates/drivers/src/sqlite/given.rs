//! Ids that clients gave their transactions, kept beside what these have written: the last ten minutes of them.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay::store::{Commit, GIVEN_IDS_KEPT, GivenId};
use forebay::{Blob, Version};
use rusqlite::{Connection, Error, params};

use super::schema;
use crate::sql::ids;

/// For so long they are kept, s.
const KEPT_SECONDS: i64 = 600;

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Notes the ids of `commit` in its transaction.
pub(super) fn note(connection: &Connection, commit: &Commit) -> Result<(), Error> {
    for given in &commit.given {
        let version = ids::bytes(forebay::TxnId(commit.version));
        let noted = params![&*given.user, given.id.to_be_bytes(), version, now()];
        connection.prepare_cached(schema::GIVE)?.execute(noted)?;
    }
    Ok(())
}

/// Forgets those that are old.
pub(super) fn forget(connection: &Connection) -> Result<(), Error> {
    connection.execute(schema::FORGET_GIVEN, [now() - KEPT_SECONDS]).map(|_| ())
}

/// All that are remembered, oldest first, the newest if they are many.
pub(super) fn all(connection: &Connection) -> Result<Vec<(GivenId, Version)>, Error> {
    let mut asked = connection.prepare_cached(schema::GIVEN)?;
    let rows = asked.query_map([GIVEN_IDS_KEPT as i64], |row| {
        let (owner, id, version): (Vec<u8>, Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // What another program put there in another form is none of ours.
        let (Ok(id), Some(version)) = (id.try_into(), ids::version(&version)) else { return Ok(None) };
        Ok(Some((GivenId { user: Blob::from(owner), id: u128::from_be_bytes(id) }, version)))
    })?;
    let mut all: Vec<_> = rows.filter_map(Result::transpose).collect::<Result<_, Error>>()?;
    all.reverse();
    Ok(all)
}
