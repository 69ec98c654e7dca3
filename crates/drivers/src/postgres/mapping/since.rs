//! Rows since a commit that was applied earlier: whether what they are came of it.
//!
//! PostgreSQL keeps with each row the number of the transaction that wrote it last (`xmin`). The commit's id was
//! entered by the same transaction as its changes. So where both have one number, nobody has written the row since:
//! what it holds beyond what was asked is the database's own doing (a default, a trigger). A trigger that writes within
//! a block with an EXCEPTION clause has a number of its own; then this says less than it could. Only tables that were
//! loaded whole in one transaction (`pg_restore --single-transaction`) have one number without that.

use std::collections::BTreeMap;

use forebay::Key;
use forebay::TxnId;
use forebay::store::ReadError;
use tokio_postgres::SimpleQueryMessage;

use super::catalogue::Table;
use super::rows::{Rows, place_of};
use super::sql::{Row, hex};
use crate::postgres::documents::GetError;
use crate::postgres::ids;
use crate::postgres::session::Session;

impl Rows {
    /// The places of those of `keys` whose rows nobody has written since commit `id` was applied. What was read of them
    /// before this is asked came of that commit.
    pub(in crate::postgres) async fn untouched(
        &self,
        session: &Session,
        id: TxnId,
        keys: &[Key],
    ) -> Result<Vec<usize>, GetError> {
        let mut by_table: BTreeMap<usize, Vec<Row<'_>>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            let refused = |why| ReadError::Refused { key: key.clone(), why };
            let place = self.place(key).map_err(refused)?;
            by_table.entry(place.table).or_default().push(Row { place: at, parts: place.parts, version: None });
        }
        let selects = by_table.iter().map(|(table, rows)| self.tables[*table].untouched(rows, id));
        let selects: Result<Vec<String>, String> = selects.collect();
        let refused = |why| ReadError::Refused { key: keys[0].clone(), why };
        let answer = session.client.simple_query(&selects.map_err(refused)?.join(" UNION ALL ")).await?;
        let place = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => place_of(row),
            _ => None,
        };
        Ok(answer.iter().filter_map(place).collect())
    }
}

impl Table {
    fn untouched(&self, rows: &[Row<'_>], id: TxnId) -> Result<String, String> {
        let (keys, on, name, id) = (self.keys(rows)?, self.on(), &self.name, hex(&ids::bytes(id)));
        Ok(format!(
            "SELECT '=' || k.place FROM {keys} JOIN {name} t ON {on} JOIN forebay.applied a ON a.xmin = t.xmin \
             WHERE a.id = '{id}'::bytea"
        ))
    }
}
