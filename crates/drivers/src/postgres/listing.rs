//! Keys in their order, how many there are, and which of them have expired.

use std::sync::Arc;

use forebay::Key;
use forebay::store::{NAMES_BYTES_MAX, ReadError};
use tokio_postgres::Row;

use super::session::Session;
use super::{Inner, WHOLE_TABLE_TIME, sql};

/// Bytes of names that end an answer, as a parameter.
const NAMES_BYTES: i64 = NAMES_BYTES_MAX as i64;

impl Inner {
    pub(super) async fn scan(&self, space: u8, after: Option<&Key>, limit: usize) -> Result<Vec<Key>, ReadError> {
        let ask = |session: Arc<Session>| async move {
            let (client, number) = (&session.client, i16::from(space));
            if let Some(rows) = session.rows() {
                return if space == 0 { rows.scan(&session, after, limit).await } else { Ok(Vec::new()) };
            }
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = match after {
                Some(key) => client.query(sql::SCAN, &[&number, &key.name(), &limit, &NAMES_BYTES]).await?,
                None => client.query(sql::SCAN_FIRST, &[&number, &limit, &NAMES_BYTES]).await?,
            };
            rows.iter().map(|row| Ok(Key::new(space, row.try_get(0)?))).collect()
        };
        self.read(self.timeout, &self.all_tables(), ask).await
    }

    pub(super) async fn count(&self, space: u8) -> Result<u64, ReadError> {
        let ask = |session: Arc<Session>| async move {
            if let Some(rows) = session.rows() {
                return if space == 0 { rows.count(&session).await } else { Ok(0) };
            }
            let row = session.client.query_one(sql::COUNT, &[&i16::from(space)]).await?;
            Ok(row.try_get::<_, i64>(0)? as u64)
        };
        self.read_alone(WHOLE_TABLE_TIME, ask).await
    }

    pub(super) async fn expired(&self, now_ms: u64, limit: usize) -> Result<Vec<Key>, ReadError> {
        let (now_ms, limit) = (i64::try_from(now_ms).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let ask = |session: Arc<Session>| async move {
            let rows = session.client.query(sql::EXPIRED, &[&now_ms, &limit, &NAMES_BYTES]).await?;
            let key = |row: &Row| {
                let (space, name): (i16, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
                Ok(Key::new(u8::try_from(space).unwrap_or_default(), name))
            };
            rows.iter().map(key).collect()
        };
        self.read(self.timeout, &self.all_tables(), ask).await
    }
}
