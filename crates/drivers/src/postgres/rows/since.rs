//! Rows since a commit that was applied earlier: whether what they are came of it.
//!
//! PostgreSQL keeps with each row the number of the transaction that wrote it last (`xmin`). The commit's id was
//! entered by the same transaction as its changes. So where both have one number, no other has written the row since.
//! What it holds beyond what was asked is the database's own doing (a default, a trigger). A trigger that writes within
//! a block with an EXCEPTION clause has a number for itself. Then this says less than it could. Only tables that were
//! loaded whole in one transaction (`pg_restore --single-transaction`) have one number without that.
//!
//! A row that is not there has no number. So of what was deleted this says nothing, and who asks goes by its absence.

use std::collections::{BTreeMap, BTreeSet};

use forebay::Key;
use forebay::TxnId;
use forebay::store::ReadError;
use tokio_postgres::SimpleQueryMessage;

use super::mapped::Rows;
use super::sql::{Row, array_literal};
use super::texts::place_of;
use crate::postgres::get_error::GetError;
use crate::postgres::session::Session;
use crate::sql::ids;
use crate::sql::table::Table;
use crate::sql::text::hex;

impl Rows {
    /// The places of those of `written`, each a commit and a key, whose rows nobody has written since that commit was
    /// applied. What was read of them before this is asked came of it.
    pub(in crate::postgres) async fn untouched(
        &self,
        session: &Session,
        written: &[(TxnId, Key)],
    ) -> Result<BTreeSet<usize>, GetError> {
        let mut by_table: BTreeMap<usize, (Vec<Row<'_>>, Vec<String>)> = BTreeMap::new();
        for (at, (id, key)) in written.iter().enumerate() {
            let refused = |why| ReadError::Refused { key: key.clone(), why };
            let place = self.place(key).map_err(refused)?;
            let (rows, ids) = by_table.entry(place.table).or_default();
            rows.push(Row { place: at, parts: place.parts, version: None });
            ids.push(hex(&ids::bytes(*id)));
        }
        let selects = by_table.iter().map(|(table, (rows, ids))| self.tables[*table].untouched(rows, ids));
        let selects: Result<Vec<String>, String> = selects.collect();
        let refused = |why| ReadError::Refused { key: written[0].1.clone(), why };
        let answer = session.client.simple_query(&selects.map_err(refused)?.join(" UNION ALL ")).await?;
        let place = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => place_of(row),
            _ => None,
        };
        Ok(answer.iter().filter_map(place).collect())
    }
}

impl Table {
    fn untouched(&self, rows: &[Row<'_>], ids: &[String]) -> Result<String, String> {
        let (keys, on, name) = (self.keys(rows)?, self.on(), &self.name);
        let places: Vec<String> = rows.iter().map(|row| row.place.to_string()).collect();
        let places = array_literal(places.iter().map(|place| Some(place.as_str())))?;
        let ids = array_literal(ids.iter().map(|id| Some(id.as_str())))?;
        Ok(format!(
            "SELECT '=' || k.place FROM {keys} JOIN unnest({places}, {ids}) AS i(place, id) ON i.place = k.place \
             JOIN {name} t ON {on} JOIN forebay.applied a ON a.id = i.id::bytea AND a.xmin = t.xmin"
        ))
    }
}
