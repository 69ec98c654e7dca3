//! Foreign keys as PostgreSQL has them, and what to do where a mapping's key is one.

use tokio_postgres::{Client, Error};

use crate::sql::foreign::ForeignKey;

/// All foreign keys of the database; partitions and children of a table are bound to it without columns.
const FOREIGN_KEYS: &str = "\
SELECT c.conrelid, c.confrelid,
    ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place),
    ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number ORDER BY k.place)
FROM pg_constraint c WHERE c.contype = 'f'
UNION ALL SELECT inhrelid, inhparent, '{}'::text[], '{}'::text[] FROM pg_inherits";

/// All of the database.
pub(crate) async fn foreign_keys(client: &Client) -> Result<Vec<ForeignKey>, Error> {
    let rows = client.query(FOREIGN_KEYS, &[]).await?;
    let key = |row: &tokio_postgres::Row| {
        Ok(ForeignKey {
            table: row.try_get(0)?,
            target: row.try_get(1)?,
            columns: row.try_get(2)?,
            target_columns: row.try_get(3)?,
        })
    };
    rows.iter().map(key).collect()
}

/// The tables that columns of `$2` of a table refer to, and the columns of its primary key.
const REFERS: &str = "SELECT ARRAY(SELECT DISTINCT confrelid::regclass::text FROM pg_constraint \
     WHERE conrelid = $1 AND contype = 'f' AND conkey <@ ARRAY(SELECT attnum FROM pg_attribute \
     WHERE attrelid = $1 AND attname = ANY ($2))), \
     ARRAY(SELECT attname::text FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey) \
     WHERE conrelid = $1 AND contype = 'p' ORDER BY array_position(conkey, attnum))";

/// What to do about a mapping whose key columns have no unique index. Where they refer to another table, many rows
/// have the same value as a rule, and a unique index would forbid that.
pub(crate) async fn without_unique_index(
    client: &Client,
    oid: u32,
    name: &str,
    columns: &[String],
) -> Result<String, Error> {
    let list = columns.join(", ");
    let row = client.query_one(REFERS, &[&oid, &columns]).await?;
    let (tables, primary): (Vec<String>, Vec<String>) = (row.get(0), row.get(1));
    let missing = format!("no unique index of {name} is on just {list}");
    Ok(match (tables.first(), primary.is_empty()) {
        (None, _) => format!("{missing}; CREATE UNIQUE INDEX ON {name} ({list})"),
        (Some(table), true) => format!("{missing}, which refers to {table}; map a key that names one row"),
        (Some(table), false) => {
            format!("{missing}, which refers to {table}; map the primary key: {name}({})", primary.join(", "))
        }
    })
}
