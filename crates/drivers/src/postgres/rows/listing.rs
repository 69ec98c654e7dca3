//! Keys of rows in their order, and how many there are.

use forebay::Key;
use forebay::store::{NAMES_BYTES_MAX, ReadError};

use super::mapped::Rows;
use crate::postgres::get_error::GetError;
use crate::postgres::session::Session;

impl Rows {
    /// At most `limit` keys behind `after`: table by table, in the order of their columns.
    pub(in crate::postgres) async fn scan(
        &self,
        session: &Session,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, GetError> {
        let mut found = Vec::new();
        let after = match after {
            Some(key) => Some(self.place(key).map_err(|why| ReadError::Refused { key: key.clone(), why })?),
            None => None,
        };
        let first = after.as_ref().map_or(0, |place| place.table);
        for (at, table) in self.tables.iter().enumerate().skip(first) {
            let behind = after.as_ref().filter(|place| place.table == at);
            let mut parts: Vec<String> =
                behind.map_or_else(Vec::new, |place| place.parts.iter().map(|part| (*part).to_owned()).collect());
            // A row whose key would read as another's is passed over, so a page may have to be filled up.
            while found.len() < limit {
                let wanted = (limit - found.len()) as i64;
                let mut parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
                    parts.iter().map(|part| part as &(dyn tokio_postgres::types::ToSql + Sync)).collect();
                parameters.push(&wanted);
                let rows = session.client.query(&table.scan(!parts.is_empty()), &parameters).await?;
                let keys: Vec<Vec<String>> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
                let names = keys.iter().filter_map(|parts| table.mapping.pattern.join(parts));
                found.extend(names.map(|name| Key::new(0, name.as_bytes())));
                match keys.into_iter().next_back() {
                    Some(last) if rows.len() as i64 == wanted => parts = last,
                    _ => break,
                }
            }
        }
        let mut bytes = 0;
        let within = |key: &Key| {
            let before = bytes;
            bytes += key.name().len();
            before < NAMES_BYTES_MAX
        };
        Ok(found.into_iter().take_while(within).collect())
    }

    /// Rows of all tables.
    pub(in crate::postgres) async fn count(&self, session: &Session) -> Result<u64, GetError> {
        let mut count = 0;
        for table in &self.tables {
            let row = session.client.query_one(&table.count(), &[]).await?;
            count += row.try_get::<_, i64>(0)? as u64;
        }
        Ok(count)
    }
}
