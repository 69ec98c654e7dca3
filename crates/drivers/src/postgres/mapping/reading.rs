//! Reads of rows, as many of them as stay within a number of bytes.

use std::collections::BTreeMap;

use forebay::store::ReadError;
use forebay::store::portion::Portion;
use forebay::{Key, Read};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::catalogue::{Column, Kind, Table, quoted};
use super::rows::{Rows, place_of};
use crate::postgres::classify;
use crate::postgres::documents::GetError;
use crate::postgres::identity::Identity;
use crate::postgres::large::GROWN_BYTES;
use crate::postgres::session::Session;

/// Of one table what is asked: places in the answer, and the parts of the keys, column by column.
type OfTable<'a> = (Vec<usize>, Vec<Vec<&'a str>>);

impl Rows {
    /// Reads `keys`, one statement per table, all in one round trip, as far as they are within `bytes_max`.
    pub(in crate::postgres) async fn get(
        &self,
        session: &Session,
        identity: &Identity,
        keys: &[Key],
        bytes_max: usize,
    ) -> Result<Vec<Read>, GetError> {
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
            self.ask(session, *table, parts, share).await.map_err(|error| match classify::is_locked(&error) {
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
        let (mut reads, mut portion) = (Vec::with_capacity(told), Portion::new(bytes_max));
        for (key, row) in keys.iter().zip(rows).take(told.max(1)) {
            if !portion.goes_on() {
                break;
            }
            let missing = || ReadError::Damaged { key: key.clone(), why: "the server left it out".into() };
            let (table, row) = row.ok_or_else(missing)?;
            let read = self.decode(table, key, &row, identity, None)?;
            portion.count(&read);
            reads.push(read);
        }
        Ok(reads)
    }

    /// One row for each key, from the first on: all of them, or as many as are within `bytes_max`.
    async fn ask(
        &self,
        session: &Session,
        table: usize,
        parts: &[Vec<&str>],
        bytes_max: usize,
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
        match session.statement_of_table(table) {
            Some(statement) => session.client.query(statement, &parameters).await,
            None => session.client.query(&of_table.select(), &parameters).await,
        }
    }
}

impl Table {
    /// As [`Table::select`], up to the row that makes them more bytes than the last parameter.
    fn select_within(&self) -> String {
        let length = |column: &Column| {
            let name = quoted(&column.name);
            match column.kind {
                // As it is in memory; told without reading it.
                Kind::Bytes => format!("coalesce(octet_length(t.{name}), 0)::bigint"),
                _ => format!("coalesce(octet_length(t.{name}::text), 0)::bigint"),
            }
        };
        let lengths: Vec<String> = self.fields.iter().map(length).collect();
        let lengths = if lengths.is_empty() { "0".to_owned() } else { lengths.join(" + ") };
        let names: Vec<String> = (0..self.fields.len() + 3).map(|at| format!("c{at}")).collect();
        let names = names.join(", ");
        let before = format!(
            ", k.place, sum({lengths}) OVER (ORDER BY k.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        );
        format!(
            "SELECT {names} FROM ({}) AS counted ({names}, place, bytes_before) \
             WHERE coalesce(bytes_before, 0) <= ${}::bigint ORDER BY place",
            self.select_with(&before),
            self.key.len() + 1
        )
    }
}
