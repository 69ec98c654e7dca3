//! Who has owned a database before it was opened, as `forebay.owners` has it.

use tokio_postgres::{Client, Error, Row};

use super::sql;
use crate::sql::owners::{Owner, Owners};

fn owner(row: &Row) -> Result<Owner, Error> {
    Ok(Owner {
        owner: row.try_get(0)?,
        run: row.try_get(1)?,
        journal: row.try_get(2)?,
        incarnation: row.try_get::<_, i64>(3)? as u64,
        since: row.try_get(4)?,
        place: row.try_get(5)?,
    })
}

/// The owners that are known, the last first.
pub(super) async fn read(client: &Client) -> Result<Owners, Error> {
    let rows = client.query(sql::KNOWN_OWNERS, &[]).await?;
    Ok(Owners(rows.iter().map(owner).collect::<Result<_, _>>()?))
}
