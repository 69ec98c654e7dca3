//! Keys in their order, how many there are, and which of them have expired. In front of tables the rows come first,
//! and then the documents beside them; what lies in our table and neither names is left out.

use std::sync::Arc;

use forebay::Key;
use forebay::store::{NAMES_BYTES_MAX, ReadError, ended};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::database::{Inner, WHOLE_TABLE_TIME};
use super::locked::DOCUMENTS;
use super::named;
use super::session::Session;
use super::sql;

/// Bytes of names that end an answer, as a parameter.
const NAMES_BYTES: i64 = NAMES_BYTES_MAX as i64;

/// A statement's parameters.
type Parameters<'a> = Vec<&'a (dyn ToSql + Sync)>;

impl Inner {
    /// `text` for documents that [`Named`] has, if they are beside rows: the condition goes behind `behind`.
    fn of_named<'a>(&'a self, text: &str, behind: &str, parameters: &mut Parameters<'a>) -> String {
        let Some(named) = self.named() else { return text.to_owned() };
        let condition = format!("{behind} AND {}", named::condition(parameters.len() + 1));
        parameters.extend(named::parameters(named));
        text.replacen(behind, &condition, 1)
    }

    pub(super) async fn scan(&self, space: u8, after: Option<&Key>, limit: usize) -> Result<Vec<Key>, ReadError> {
        if !self.is_mapped {
            return self.scan_documents(space, after, limit).await;
        }
        let behind_rows = space != 0 || after.is_some_and(|key| self.is_document(key));
        let mut found = match behind_rows {
            true => Vec::new(),
            false => {
                let ask = |session: Arc<Session>| async move {
                    let Some(rows) = session.rows() else { return Ok(Vec::new()) };
                    rows.scan(&session, after, limit).await
                };
                self.read(self.timeout, &self.all_tables(), ask).await?
            }
        };
        if self.named().is_none() || !ended(&found, limit) {
            return Ok(found);
        }
        let first = self.scan_documents(space, after.filter(|_| behind_rows), limit - found.len()).await?;
        let mut bytes: usize = found.iter().map(|key| key.name().len()).sum();
        found.extend(first.into_iter().take_while(|key| {
            let before = bytes;
            bytes += key.name().len();
            before < NAMES_BYTES_MAX
        }));
        Ok(found)
    }

    async fn scan_documents(&self, space: u8, after: Option<&Key>, limit: usize) -> Result<Vec<Key>, ReadError> {
        let (number, limit) = (&i16::from(space), &i64::try_from(limit).unwrap_or(i64::MAX));
        let name = after.map(Key::name);
        let mut parameters: Parameters<'_> = vec![number];
        parameters.extend(name.as_ref().map(|name| name as &(dyn ToSql + Sync)));
        parameters.extend([limit as &(dyn ToSql + Sync), &NAMES_BYTES]);
        let text = match name {
            Some(_) => self.of_named(sql::SCAN, "name > $2::bytea", &mut parameters),
            None => self.of_named(sql::SCAN_FIRST, "space = $1::smallint", &mut parameters),
        };
        let (text, parameters) = (&text, &parameters);
        let ask = |session: Arc<Session>| async move {
            let rows = session.client.query(text, parameters).await?;
            rows.iter().map(|row| Ok(Key::new(space, row.try_get(0)?))).collect()
        };
        self.read(self.timeout, &[DOCUMENTS], ask).await
    }

    pub(super) async fn count(&self, space: u8) -> Result<u64, ReadError> {
        let number = &i16::from(space);
        let mut parameters: Parameters<'_> = vec![number];
        let text = &self.of_named(sql::COUNT, "space = $1::smallint", &mut parameters);
        let (parameters, is_named) = (&parameters, self.named().is_some());
        let ask = |session: Arc<Session>| async move {
            let of_rows = match session.rows() {
                Some(rows) if space == 0 => rows.count(&session).await?,
                _ => 0,
            };
            if session.rows().is_some() && !is_named {
                return Ok(of_rows);
            }
            let row = session.client.query_one(text, parameters).await?;
            Ok(of_rows + row.try_get::<_, i64>(0)? as u64)
        };
        self.read_alone(WHOLE_TABLE_TIME, ask).await
    }

    pub(super) async fn expired(&self, now_ms: u64, limit: usize) -> Result<Vec<Key>, ReadError> {
        let (now_ms, limit) = (i64::try_from(now_ms).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let mut parameters: Parameters<'_> = vec![&now_ms, &limit, &NAMES_BYTES];
        let text = &self.of_named(sql::EXPIRED, "expires_at_ms <= $1::bigint", &mut parameters);
        let parameters = &parameters;
        let ask = |session: Arc<Session>| async move {
            let rows = session.client.query(text, parameters).await?;
            let key = |row: &Row| {
                let (space, name): (i16, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
                Ok(Key::new(u8::try_from(space).unwrap_or_default(), name))
            };
            rows.iter().map(key).collect()
        };
        self.read(self.timeout, &[DOCUMENTS], ask).await
    }
}
