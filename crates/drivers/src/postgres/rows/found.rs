//! All mapped tables as the database has them.

use tokio_postgres::{Client, Error};

use super::catalogue;
use super::foreign::foreign_keys;
use crate::postgres::dialect::PostgresDialect;
use crate::sql::foreign::{joined, references};
use crate::sql::mapping::Mapping;
use crate::sql::remembered::Remembered;
use crate::sql::shared::{same_keys, share};
use crate::sql::table::Table;
use crate::sql::tables::Tables;

/// Looks all mappings up; the inner error lists what is wrong. A table that is gone is as it was `remembered`, if so:
/// what waits for it is refused by the database, as if it had gone a moment later.
pub(in crate::postgres) async fn look_up(
    client: &Client,
    mappings: &[Mapping],
    remembered: Option<&Remembered>,
) -> Result<Result<Tables, Vec<String>>, Error> {
    let (mut tables, mut wrong): (Vec<Table>, Vec<String>) = (Vec::new(), Vec::new());
    for mapping in mappings {
        match catalogue::look_up(client, mapping).await? {
            Ok(table) => tables.push(table),
            Err(lines) => match remembered.and_then(|remembered| remembered.table(mapping)) {
                Some(table) if !catalogue::is_there(client, mapping).await? => {
                    tracing::error!(
                        table = table.name,
                        "a mapped table is gone, and writes may wait for it: what the database refuses for that is set \
                         aside (CACHE QUARANTINE LIST); make the table again and RETRY, or DROP it"
                    );
                    tables.push(table.clone());
                }
                _ => wrong.extend(lines),
            },
        }
    }
    wrong.extend(same_keys(mappings));
    share(&mut tables, &mut wrong);
    let keys = foreign_keys(client).await?;
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    let references: Vec<_> = tables.iter().map(|table| references(table, &tables, &keys)).collect();
    for ((table, joined), references) in tables.iter_mut().zip(joined(&oids, &keys)).zip(references) {
        (table.joined, table.references) = (joined, references);
    }
    Ok(if wrong.is_empty() { Ok(Tables::of(&PostgresDialect, tables)) } else { Err(wrong) })
}
