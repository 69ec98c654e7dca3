//! Documents that commits wait for: what one statement, and so one snapshot, says of the document and of their ids.

use forebay::store::{ReadError, ReadWithIds};
use forebay::{Key, Read, TxnId};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;

use super::documents::{self, GetError};
use super::identity::Identity;
use super::ids;
use super::mapping::rows::{Rows, unhex};
use super::session::Session;
use super::sql;

/// Before an id, in the first column: the place of a row begins otherwise.
const ID: char = '+';

fn bytes(ids: &[TxnId]) -> Vec<Vec<u8>> {
    ids.iter().copied().map(ids::bytes).collect()
}

fn damaged(key: &Key) -> ReadError {
    ReadError::Damaged { key: key.clone(), why: "an id in forebay.applied has another length than 16".into() }
}

/// Reads documents in the table of our own.
pub(super) async fn documents(
    session: &Session,
    identity: &Identity,
    asked: &[(Key, Vec<TxnId>)],
) -> Result<Vec<ReadWithIds>, GetError> {
    let statement = session.client.prepare(sql::GET_WITH_IDS).await?;
    let read = |(key, ids): &(Key, Vec<TxnId>)| {
        let (key, ids, statement) = (key.clone(), bytes(ids), statement.clone());
        async move {
            let (space, name) = (i16::from(key.space()), key.name());
            let answer = session.client.query(&statement, &[&space, &name, &ids]).await?;
            let (mut read, mut applied) = (Read { value: None, version: identity.absence(&key) }, Vec::new());
            for row in answer {
                match row.try_get::<_, Option<&[u8]>>(1)? {
                    Some(value) => read = documents::decode(&key, row.try_get(0)?, value)?,
                    None => applied.push(TxnId(ids::version(row.try_get(0)?).ok_or_else(|| damaged(&key))?)),
                }
            }
            Ok((read, applied))
        }
    };
    try_join_all(asked.iter().map(read)).await
}

/// Reads rows of mapped tables.
pub(super) async fn rows(
    session: &Session,
    identity: &Identity,
    rows: &Rows,
    asked: &[(Key, Vec<TxnId>)],
) -> Result<Vec<ReadWithIds>, GetError> {
    try_join_all(asked.iter().map(|(key, ids)| row(session, identity, rows, key, ids))).await
}

async fn row(
    session: &Session,
    identity: &Identity,
    rows: &Rows,
    key: &Key,
    ids: &[TxnId],
) -> Result<ReadWithIds, GetError> {
    let place = rows.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?;
    let table = &rows.tables[place.table];
    let nulls = ", NULL".repeat(table.fields.len() + 2);
    let text = format!(
        "{} UNION ALL SELECT '{ID}' || encode(id, 'hex'){nulls} FROM forebay.applied \
         WHERE applied AND id = ANY(${}::bytea[])",
        table.select(),
        table.key.len() + 1
    );
    let (parts, ids): (Vec<Vec<&str>>, _) = (place.parts.iter().map(|part| vec![*part]).collect(), bytes(ids));
    let mut parameters: Vec<&(dyn ToSql + Sync)> = parts.iter().map(|part| part as &(dyn ToSql + Sync)).collect();
    parameters.push(&ids);
    let (mut read, mut applied) = (None, Vec::new());
    for row in session.client.query(&text, &parameters).await? {
        match row.try_get::<_, &str>(0)?.strip_prefix(ID) {
            Some(id) => {
                let id = unhex(id).as_deref().and_then(ids::version);
                applied.push(TxnId(id.ok_or_else(|| damaged(key))?));
            }
            None => read = Some(rows.decode(place.table, key, &row, identity, None)?),
        }
    }
    let missing = || ReadError::Damaged { key: key.clone(), why: "the server left it out".into() };
    Ok((read.ok_or_else(missing)?, applied))
}
