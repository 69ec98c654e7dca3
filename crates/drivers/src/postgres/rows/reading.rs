//! Reads of rows, as many of them as stay within a number of bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay::error::Unavailable;
use forebay::store::ReadError;
use forebay::store::portion::Portion;
use forebay::{Key, Read};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::mapped::Rows;
use super::texts::place_of;
use crate::postgres::classify;
use crate::postgres::database::Inner;
use crate::postgres::get_error::GetError;
use crate::postgres::room::GROWN_BYTES;
use crate::postgres::session::Session;
use crate::postgres::sql::LARGE_BYTES;
use crate::sql::identity::Identity;
use crate::sql::table::Table;

/// Of one table what is asked: places in the answer, and the parts of the keys, column by column.
type OfTable<'a> = (Vec<usize>, Vec<Vec<&'a str>>);

/// What the database says of a row.
enum Found {
    Read(Read),
    /// It has so many bytes, and is to be read by itself.
    Large(usize),
}

/// What a row takes while it is read, as a multiple: the connection's buffer, and what it has grown out of, the texts,
/// and the document.
const READ_COPIES: usize = 4;

impl Inner {
    /// Reads rows as far as they are within `bytes_max`: in one round trip, but for those that are large. These wait
    /// for room, which is no time without an answer, and are read one after the other.
    pub(in crate::postgres) async fn rows_of(&self, keys: &[Key], bytes_max: usize) -> Result<Vec<Read>, ReadError> {
        let (identity, tables) = (&*self.identity, self.tables_of(keys.iter()));
        let ask = |session: Arc<Session>| async move {
            let rows = session.rows().ok_or_else(not_mapped)?;
            rows.get(&session, identity, keys, bytes_max, false).await
        };
        let found = self.read(self.timeout, &tables, ask).await?;
        let (mut reads, mut portion) = (Vec::with_capacity(found.len()), Portion::new(bytes_max));
        for (key, found) in keys.iter().zip(found) {
            if !portion.goes_on() {
                break;
            }
            let read = match found {
                Found::Read(read) => read,
                Found::Large(bytes) => {
                    let _room = self.room.take(bytes.saturating_mul(READ_COPIES)).await;
                    self.row_of(key).await?
                }
            };
            portion.count(&read);
            reads.push(read);
        }
        Ok(reads)
    }

    /// Reads one row, which may be large.
    async fn row_of(&self, key: &Key) -> Result<Read, ReadError> {
        let (identity, keys) = (&*self.identity, std::slice::from_ref(key));
        let ask = |session: Arc<Session>| async move {
            let rows = session.rows().ok_or_else(not_mapped)?;
            rows.get_whole(&session, identity, keys).await
        };
        let read = self.read(self.timeout, &self.tables_of(keys.iter()), ask).await?.pop();
        read.ok_or_else(|| left_out(key))
    }
}

fn not_mapped() -> GetError {
    GetError::Read(ReadError::Unavailable(Unavailable("no table is mapped".into())))
}

fn left_out(key: &Key) -> ReadError {
    ReadError::Damaged { key: key.clone(), why: "the server left it out".into() }
}

impl Rows {
    /// Reads `keys` in one round trip, whatever their rows are.
    pub(in crate::postgres) async fn get_whole(
        &self,
        session: &Session,
        identity: &Identity,
        keys: &[Key],
    ) -> Result<Vec<Read>, GetError> {
        let found = self.get(session, identity, keys, usize::MAX, true).await?;
        let read = |(key, found): (&Key, Found)| match found {
            Found::Read(read) => Ok(read),
            Found::Large(_) => Err(left_out(key).into()),
        };
        keys.iter().zip(found).map(read).collect()
    }

    /// Reads `keys`, one statement per table, all in one round trip, as far as they are within `bytes_max`. Large rows
    /// are left out, unless they are wanted `whole`.
    async fn get(
        &self,
        session: &Session,
        identity: &Identity,
        keys: &[Key],
        bytes_max: usize,
        whole: bool,
    ) -> Result<Vec<Found>, GetError> {
        let mut by_table: BTreeMap<usize, OfTable<'_>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            let place = self.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?;
            let columns = self.tables[place.table].key.len();
            let (places, parts) =
                by_table.entry(place.table).or_insert_with(|| (Vec::new(), vec![Vec::new(); columns]));
            places.push(at);
            parts.iter_mut().zip(place.parts).for_each(|(column, part)| column.push(part));
        }
        // Each has its share: nobody knows which has how much.
        let share = bytes_max / by_table.len().max(1);
        let asked = by_table.iter().map(|(table, (_, parts))| async move {
            self.ask(session, *table, parts, (share, whole)).await.map_err(|error| match classify::is_locked(&error) {
                true => GetError::Locked(self.tables[*table].oid, error),
                false => GetError::Database(error),
            })
        });
        let answers = try_join_all(asked).await?;
        if answers.iter().flatten().map(Row::raw_size_bytes).max().is_some_and(|bytes| bytes > GROWN_BYTES) {
            session.retire();
        }
        let mut rows: Vec<Option<(usize, Row)>> = keys.iter().map(|_| None).collect();
        // How far each table has answered.
        let mut told = keys.len();
        for ((table, (places, _)), answer) in by_table.iter().zip(answers) {
            told = places.get(answer.len()).map_or(told, |left_out| told.min(*left_out));
            for row in answer {
                let place = place_of(&row).and_then(|place| places.get(place.checked_sub(1)?).copied());
                let Some(at) = place else { continue };
                rows[at] = Some((*table, row));
            }
        }
        let mut found = Vec::with_capacity(told);
        for (key, row) in keys.iter().zip(rows).take(told.max(1)) {
            let (table, row) = row.ok_or_else(|| left_out(key))?;
            let of_table = &self.tables[table];
            found.push(match of_table.left_out(&row) {
                Some(bytes) if bytes <= of_table.row_bytes_max => Found::Large(bytes),
                _ => Found::Read(self.decode(table, key, &row, identity, None)?),
            });
        }
        Ok(found)
    }

    /// One row for each key, from the first on: all of them, or as many as are within `bytes_max`.
    async fn ask(
        &self,
        session: &Session,
        table: usize,
        parts: &[Vec<&str>],
        (bytes_max, whole): (usize, bool),
    ) -> Result<Vec<Row>, Error> {
        let of_table = &self.tables[table];
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            parts.iter().map(|column| column as &(dyn ToSql + Sync)).collect();
        let within = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let several = parts.first().is_some_and(|column| column.len() > 1);
        if several && within < i64::MAX {
            let statement = session.statement_within(table, || of_table.select_within()).await?;
            parameters.push(&within);
            return session.client.query(&statement, &parameters).await;
        }
        if whole {
            return session.client.query(&of_table.select_whole(), &parameters).await;
        }
        match session.statement_of_table(table) {
            Some(statement) => session.client.query(statement, &parameters).await,
            None => session.client.query(&of_table.select(), &parameters).await,
        }
    }
}

impl Table {
    /// As [`Table::select`], up to the row that makes them more bytes than the last parameter.
    fn select_within(&self) -> String {
        let lengths = self.bytes().unwrap_or_else(|| "0".to_owned());
        let names: Vec<String> = (0..self.fields.len() + 4).map(|at| format!("c{at}")).collect();
        let names = names.join(", ");
        let before = format!(
            ", k.place, sum({lengths}) OVER (ORDER BY k.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        );
        format!(
            "SELECT {names} FROM ({}) AS counted ({names}, place, bytes_before) \
             WHERE coalesce(bytes_before, 0) <= ${}::bigint ORDER BY place",
            self.select_with(LARGE_BYTES.min(self.row_bytes_max), &before),
            self.key.len() + 1
        )
    }
}
