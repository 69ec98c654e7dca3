//! A group that changes rows of one table in one way, each if it has the version that was read: one prepared statement,
//! which is one transaction. Most of what an outage leaves is of this kind.
//!
//! Sent as a text, the values of a thousand rows are written into it with their quotes, and the server reads each of
//! them twice: as part of the statement, and of an array. Here they go as arrays of their bytes, and nothing is
//! planned.
//!
//! As with one row ([`super::one`]) the ids go first, and all else is made from them.

use forebay::store::Commit;
use tokio_postgres::types::ToSql;

use super::batch::Batch;
use super::checked::{NUMBERS, OWN, Run};
use super::mapped::Rows;
use crate::postgres::given;
use crate::postgres::session::{Serves, Session};
use crate::postgres::sql::OWNED;
use crate::sql::failure::Failed;
use crate::sql::ids;
use crate::sql::mapping::VersionMode;
use crate::sql::table::Table;

impl Rows {
    /// Commits `group`, which is `batch`, if that is one such statement: the rows as its text would have them answered.
    /// `None`: it is another, or no more statements may be prepared on the connection.
    pub(super) async fn many(
        &self,
        session: &Session,
        group: &[Commit],
        batch: &Batch<'_>,
    ) -> Result<Option<Vec<tokio_postgres::Row>>, Failed> {
        let Some(run) = batch.only().filter(|_| !given::any(group)) else { return Ok(None) };
        let failed = |error| Failed::at_check(self.failure(&error), &batch.checks);
        let values = run.values();
        let text = || self.tables[run.table].change_many(run, values.len(), self.notes(run.table)).ok();
        let asked = (run.table, Serves::Many, &run.shape);
        let Some(statement) = session.statement_of_shape(asked, text).await.map_err(failed)? else { return Ok(None) };
        let ids: Vec<Vec<u8>> = group.iter().map(|commit| ids::bytes(commit.id)).collect();
        let numbers = run.numbers();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&ids];
        parameters.extend(values.iter().map(|column| column as &(dyn ToSql + Sync)));
        parameters.extend(numbers.iter().map(|column| column as &(dyn ToSql + Sync)));
        session.client.query(&statement, &parameters).await.map(Some).map_err(failed)
    }
}

impl Table {
    /// The statement for rows of so many values. Parameters: the ids, the values, and what [`Run::numbers`] has.
    fn change_many(&self, run: &Run, values: usize, notes: bool) -> Result<String, String> {
        let type_of = |at: usize| if at < values { "text" } else { "bigint" };
        let arrays: Vec<String> = (0..values + NUMBERS).map(|at| format!("${}::{}[]", at + 2, type_of(at))).collect();
        // Once they are all entered: a copy of the group that comes later does not get so far.
        let own = match self.mapping.version {
            VersionMode::Column => format!(", set_config('{OWN}', 'on', true)"),
            _ => String::new(),
        };
        let before = format!(
            "entered AS (INSERT INTO forebay.applied (id, applied) SELECT id, {OWNED} FROM unnest($1::bytea[]) AS id \
             RETURNING 1), own AS MATERIALIZED (SELECT count(*){own} FROM entered), "
        );
        let number = match notes {
            true => format!(" UNION ALL SELECT '#' || pg_current_xact_id()::text{}", run.nothing()),
            false => String::new(),
        };
        self.checked_statement(run, (&before, "own, "), &arrays, &number)
    }
}
