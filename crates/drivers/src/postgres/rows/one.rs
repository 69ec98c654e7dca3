//! A commit that changes one row that is there: one prepared statement, which is one transaction.
//!
//! The batch of `rows` is a text of six statements that the server reads and plans anew each time. Where one row is
//! changed that was read before, and nothing else is checked, an UPDATE does the work of four of them: it finds the row
//! only under its version, waits for who has it locked and looks again, and returns what the row is then. Most writes
//! of most clients are of this kind, and cost the server a quarter.
//!
//! The id still goes first: its INSERT is what the rest is made from, so a copy of the commit that arrives later waits
//! there and fails there, and never says that the row was overtaken by the very same commit. It also tells triggers not
//! to note the change, which is forebay's own: the answer has it.

use forebay::store::{Commit, Write};
use tokio_postgres::types::ToSql;

use super::checked::OWN;
use super::mapped::Rows;
use super::sql::Row;
use super::statement::{Act, Shape, Values};
use crate::postgres::session::{Serves, Session};
use crate::postgres::sql::OWNED;
use crate::sql::failure::Failed;
use crate::sql::ids;
use crate::sql::mapping::VersionMode;
use crate::sql::table::Table;

/// The parameters ahead of the values: the id, and the version that the row has to have.
const AHEAD: usize = 2;

/// Such a commit.
pub(super) struct One<'a> {
    pub(super) table: usize,
    pub(super) write: &'a Write,
    id: Vec<u8>,
    version: String,
    shape: Shape,
    values: Values,
}

impl Rows {
    /// `group` as a commit of one row, if it is one.
    pub(super) fn one<'a>(&self, group: &'a [Commit]) -> Option<One<'a>> {
        let [Commit { id, writes, checks, given, .. }] = group else { return None };
        let ([write], [(key, version)]) = (writes.as_slice(), checks.as_slice()) else { return None };
        if *key != write.key || !given.is_empty() {
            return None;
        }
        let place = self.place(key).ok()?;
        let table = &self.tables[place.table];
        let version = Row::checked(0, Vec::new(), *version).version?;
        let versioned = table.mapping.version != VersionMode::Side;
        if !table.returning || !versioned || table.mapping.list.is_some() {
            return None;
        }
        let mut statements = table.write(&place.parts, write).ok()?.into_iter();
        let (Some((shape, values)), None) = (statements.next(), statements.next()) else { return None };
        let updates = matches!(shape.act, Act::Update | Act::Upsert) && !shape.sets.is_empty();
        let (id, version) = (ids::bytes(*id), version.to_string());
        updates.then_some(One { table: place.table, write, id, version, shape, values })
    }
}

impl One<'_> {
    /// Commits it: the row as it is then, as [`Table::select`] would have it, but with the transaction's number in
    /// front. `None`: no more statements may be prepared on the connection.
    pub(super) async fn commit(&self, rows: &Rows, session: &Session) -> Result<Option<tokio_postgres::Row>, Failed> {
        let failed = |error| Failed::at_check(rows.failure(&error), &[(0, 0)]);
        let text = || rows.tables[self.table].change_one(&self.shape).ok();
        let prepared = session.statement_of_shape((self.table, Serves::One, &self.shape), text).await;
        let Some(statement) = prepared.map_err(failed)? else { return Ok(None) };
        let ahead: [&(dyn ToSql + Sync); AHEAD] = [&self.id, &self.version];
        let parameters: Vec<_> =
            ahead.into_iter().chain(self.values.0.iter().map(|value| value as &(dyn ToSql + Sync))).collect();
        session.client.query_one(&statement, &parameters).await.map(Some).map_err(failed)
    }
}

impl Table {
    /// The statement that makes the change of this shape to one row. Parameters: the id, the version, the values.
    fn change_one(&self, shape: &Shape) -> Result<String, String> {
        let value = |at: usize, type_name: &str| Ok(format!("${}::text::{type_name}", at + AHEAD + 1));
        let (version, columns) = (self.version(), self.read_columns());
        let returned: Vec<String> =
            columns.iter().enumerate().map(|(at, column)| format!("{column} AS c{at}")).collect();
        let names: Vec<String> = (0..columns.len()).map(|at| format!(", u.c{at}")).collect();
        let (sets, condition) = self.sets_and_condition(shape, value)?;
        Ok(format!(
            "WITH entered AS (INSERT INTO forebay.applied (id, applied) VALUES ($1::bytea, {OWNED})
                RETURNING set_config('{OWN}', 'on', true)),
            u AS (UPDATE {} t SET {sets} FROM entered WHERE {condition} AND {version} = $2::text
                RETURNING {version} AS version, {})
            SELECT CASE WHEN u.version IS NULL{} THEN {}
                ELSE pg_current_xact_id()::text END, u.version, '0'{}
            FROM entered LEFT JOIN u ON true",
            self.name,
            returned.join(", "),
            self.unless_kept(" OR"),
            self.overtaken_at("'0'"),
            names.concat()
        ))
    }
}
