//! Documents that commits wait for: what one statement, and so one snapshot, says of the document and of their ids.

use std::collections::{BTreeMap, HashSet};

use forebay::store::{ReadError, ReadWithIds};
use forebay::{Key, TxnId};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;

use super::classify;
use super::get_error::GetError;
use super::large;
use super::rows::mapped::Rows;
use super::rows::texts::place_of;
use super::session::Session;
use crate::sql::identity::Identity;
use crate::sql::ids;
use crate::sql::table::Table;
use crate::sql::text::unhex;

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
    let read = |(key, ids): &(Key, Vec<TxnId>)| {
        let (key, ids, absence) = (key.clone(), bytes(ids), identity.absence(key));
        async move { large::get(session, &key, absence, &ids).await }
    };
    try_join_all(asked.iter().map(read)).await
}

/// Of one table what is asked: places in the answer, the parts of the keys, and all of their ids.
#[derive(Default)]
struct OfTable<'a> {
    places: Vec<usize>,
    parts: Vec<Vec<&'a str>>,
    ids: Vec<Vec<u8>>,
}

/// Reads rows of mapped tables: those of one table, and the ids of all of them, by one statement.
pub(super) async fn rows(
    session: &Session,
    identity: &Identity,
    rows: &Rows,
    asked: &[(Key, Vec<TxnId>)],
) -> Result<Vec<ReadWithIds>, GetError> {
    let mut by_table: BTreeMap<usize, OfTable<'_>> = BTreeMap::new();
    for (at, (key, ids)) in asked.iter().enumerate() {
        let place = rows.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?;
        let of_table = by_table.entry(place.table).or_default();
        of_table.parts.resize_with(place.parts.len(), Vec::new);
        of_table.parts.iter_mut().zip(place.parts).for_each(|(column, part)| column.push(part));
        of_table.places.push(at);
        of_table.ids.extend(bytes(ids));
    }
    let answers = by_table.iter().map(|(table, of_table)| async move {
        let answer = ask(session, rows, *table, of_table).await;
        answer.map_err(|error| match classify::is_locked(&error) {
            true => GetError::Locked(rows.tables[*table].oid, error),
            false => GetError::Database(error),
        })
    });
    let answers = try_join_all(answers).await?;
    let mut found: Vec<Option<ReadWithIds>> = asked.iter().map(|_| None).collect();
    for ((table, OfTable { places, .. }), answer) in by_table.iter().zip(answers) {
        let mut applied: HashSet<TxnId> = HashSet::new();
        for row in answer {
            match row.try_get::<_, &str>(0)?.strip_prefix(ID) {
                Some(id) => {
                    let id = unhex(id).as_deref().and_then(ids::version);
                    applied.insert(TxnId(id.ok_or_else(|| damaged(&asked[places[0]].0))?));
                }
                None => {
                    let place = place_of(&row).and_then(|place| places.get(place.checked_sub(1)?).copied());
                    let Some(at) = place else { continue };
                    found[at] = Some((rows.decode(*table, &asked[at].0, &row, identity, None)?, Vec::new()));
                }
            }
        }
        for at in places {
            if let Some((_, of_key)) = &mut found[*at] {
                of_key.extend(asked[*at].1.iter().filter(|id| applied.contains(id)));
            }
        }
    }
    let missing = |key: &Key| ReadError::Damaged { key: key.clone(), why: "the server left it out".into() };
    let complete = found.into_iter().zip(asked).map(|(read, (key, _))| read.ok_or_else(|| missing(key).into()));
    complete.collect()
}

async fn ask(
    session: &Session,
    rows: &Rows,
    table: usize,
    of_table: &OfTable<'_>,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let text = || rows.tables[table].select_with_ids();
    let statement = session.statement_with_ids(table, text).await?;
    let parts = of_table.parts.iter().map(|part| part as &(dyn ToSql + Sync));
    let parameters: Vec<&(dyn ToSql + Sync)> = parts.chain([&of_table.ids as &(dyn ToSql + Sync)]).collect();
    session.client.query(&statement, &parameters).await
}

impl Table {
    /// As [`Table::select`], and behind the rows those of the ids, the last parameter, whose commits are applied.
    fn select_with_ids(&self) -> String {
        let nulls = ", NULL".repeat(self.fields.len() + 3);
        format!(
            "{} UNION ALL SELECT '{ID}' || encode(id, 'hex'){nulls} FROM forebay.applied \
             WHERE applied AND id = ANY(${}::bytea[])",
            self.select_whole(),
            self.key.len() + 1
        )
    }
}
