//! The mapped tables, as PostgreSQL is asked for their rows.

use std::ops::Deref;

use crate::postgres::classify;
use crate::sql::table::Table;
use crate::sql::tables::Tables;

/// The mapped tables, with what PostgreSQL is asked of their rows.
pub(in crate::postgres) struct Rows(Tables);

impl Deref for Rows {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.0
    }
}

impl Rows {
    /// Those of `tables`.
    pub(in crate::postgres) fn of(tables: Tables) -> Rows {
        Rows(tables)
    }

    pub(in crate::postgres) fn heed(&self, error: &tokio_postgres::Error) {
        if classify::is_of_altered(error) {
            self.note_altered();
        }
    }

    /// Statements that every session prepares for them, behind the others.
    pub(in crate::postgres) fn prepared(&self) -> Vec<String> {
        self.tables.iter().map(Table::select).collect()
    }
}
