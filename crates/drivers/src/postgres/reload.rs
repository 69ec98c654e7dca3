//! Mapped tables that are altered while forebay runs.
//!
//! **Invariant.** What is asked over a connection is asked by the tables for which its statements were prepared
//! ([`Session::rows`]): so no answer is read as another table's, whatever is looked up meanwhile. New tables are for
//! new connections, and whoever reads them drops what was cached of the old ones.
//!
//! [`Session::rows`]: super::session::Session::rows

use std::sync::Arc;

use super::database::{Inner, WHOLE_TABLE_TIME};
use super::rows::found;
use super::rows::mapped::Rows;
use super::session::Session;
use crate::sql::table::Table;

impl Inner {
    /// Looks the mapped tables up again; why they stay as they were.
    pub(super) async fn reload(&self) -> Result<(), String> {
        let Some(before) = self.rows() else { return Err("there are no mapped tables".into()) };
        let mappings = &self.mappings;
        let ask = |session: Arc<Session>| async move { Ok(found::look_up(&session.client, mappings, None).await?) };
        let found = self.read_alone(WHOLE_TABLE_TIME, ask).await.map_err(|error| error.to_string())?;
        let rows = found.map_err(|lines| lines.join("; "))?;
        let mode = |table: &Table| table.mapping.version;
        // Versions of before and of now would be numbers of two kinds, and one may be taken for the other.
        if !before.tables.iter().map(mode).eq(rows.tables.iter().map(mode)) {
            let why = "versions of rows are kept in another way now, so commits that rest on them are refused; see \
                       `forebay store check`, and start forebay again";
            return Err(why.into());
        }
        let rows = rows.up_to(self.row_bytes_max).seen_by(self.watch.by());
        self.pool.set_rows(Rows::of(rows.beside_documents(self.named.clone())));
        if let Some(rows) = self.rows() {
            let tables: Vec<&str> = rows.tables.iter().map(|table| table.name.as_str()).collect();
            tracing::warn!(tables = tables.join(", "), "the mapped tables were looked up again");
        }
        Ok(())
    }
}
