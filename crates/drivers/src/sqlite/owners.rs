//! Who has owned a file before it was opened, as `forebay_owners` has it.

use rusqlite::{Connection, Error};

use super::schema;
use crate::sql::owners::{Owner, Owners};

/// The owners that are known, the last first.
pub(super) fn read(connection: &Connection) -> Result<Owners, Error> {
    let mut asked = connection.prepare(schema::OWNERS)?;
    let owners = asked.query_map([], |row| {
        Ok(Owner {
            owner: row.get(0)?,
            run: row.get(1)?,
            journal: row.get(2)?,
            incarnation: row.get::<_, i64>(3)?.cast_unsigned(),
            since: row.get(4)?,
            place: row.get(5)?,
        })
    })?;
    Ok(Owners(owners.collect::<Result<_, _>>()?))
}
